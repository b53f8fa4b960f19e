//! Protocol between processes outside the bed and the first process of each of its namespaces: one JSON line each way.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};
use crate::patience::PATIENCE;

/// One daemon to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub log: PathBuf,
    /// Number of restarts after it ends by itself, as a machine's init would do.
    pub restarts: u8,
}

/// Request to the first process of a namespace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    Start(Part),
    /// Kills a part with SIGKILL. A node is a part too; all its processes die with it.
    Kill(String),
    /// Brings up the node with this index in its own namespaces. Only the bed accepts this, not a node.
    AddNode(u8),
    Parts,
}

/// State of a part.
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
    /// Ended by itself; will be restarted.
    Restarting,
    /// Killed on request.
    Killed,
    /// Ended by itself, with a text that describes how.
    Ended(String),
}

/// Answer to a request: the parts after it was carried out, or the reason it was not.
pub type Answer = Result<Vec<PartState>, String>;

/// Sends a request to the namespace's first process, which listens at `socket`.
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

/// The first part that ended by itself, as a failure with its log, or `None` if there is none.
pub fn first_dead(parts: &[PartState]) -> Option<Failure> {
    parts.iter().find_map(|part| match &part.life {
        Life::Ended(how) => Some(Failure::new(format!("{} ended ({how})", part.name)).with_log(&part.log)),
        Life::Running { .. } | Life::Restarting | Life::Killed => None,
    })
}
