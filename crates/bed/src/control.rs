//! The language between the bed's outside and the first process of each of its namespaces: one JSON line each way.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};
use crate::patience::PATIENCE;

/// One daemon to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub log: PathBuf,
    /// How often it is started again when it ends by itself, as a machine's init would.
    pub restarts: u8,
}

/// What a first process is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    Start(Part),
    /// Ends a part with SIGKILL; a node is a part too, and all its processes go with it.
    Kill(String),
    /// Brings up node `index` in namespaces of its own (asked of the bed, not of a node).
    AddNode(u8),
    Parts,
}

/// How a part fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartState {
    pub name: String,
    pub log: PathBuf,
    pub life: Life,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    Running {
        pid: i32,
    },
    /// Ended by itself, and about to be started again.
    Restarting,
    /// Ended by request.
    Killed,
    /// Ended by itself, with the words that say how.
    Ended(String),
}

/// The answer to each request: the parts after it was carried out, or why it was not.
pub type Answer = Result<Vec<PartState>, String>;

/// Sends one request to the first process listening at `socket`.
pub fn ask(socket: &Path, request: &Request) -> Result<Vec<PartState>, Failure> {
    let what = || format!("the bed does not answer at {}", socket.display());
    let mut stream = UnixStream::connect(socket).context(what)?;
    stream.set_read_timeout(Some(PATIENCE)).context(what)?;
    let line = serde_json::to_string(request).context(what)?;
    writeln!(stream, "{line}").context(what)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).context(what)?;
    let answer: Answer = serde_json::from_str(&answer).context(what)?;
    answer.map_err(Failure::new)
}

/// The first part that ended by itself, as a failure with its log.
pub fn first_dead(parts: &[PartState]) -> Option<Failure> {
    parts.iter().find_map(|part| match &part.life {
        Life::Ended(how) => Some(Failure::new(format!("{} ended ({how})", part.name)).with_log(&part.log)),
        Life::Running { .. } | Life::Restarting | Life::Killed => None,
    })
}
