//! PID 1 of a namespace: starts parts on request, reaps every process that ends, records how parts ended.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use crate::control::{Answer, Life, Part, PartState, Request};
use crate::failure::{Context, Failure};
use crate::patience::Patience;
use crate::progress::seconds;

/// Interval for reaping ended processes. They stay zombies until then, which costs nothing.
const REAP: Duration = Duration::from_millis(100);
/// Delay before a part that ended by itself is restarted.
const RESTART: Duration = Duration::from_millis(300);
/// Garbage collector setting for Kubernetes' daemons, which are written in Go. By default they collect when their memory has doubled. At five times
/// they use some more memory, of which a machine has enough, and less CPU, of which tests need all.
const GARBAGE_COLLECTION: (&str, &str) = ("GOGC", "400");

type Asked = (Request, Sender<Answer>);

/// Parts of one namespace. All methods run on one thread, so that no other code reaps a part's PID.
pub(super) struct Supervisor {
    parts: BTreeMap<String, PartState>,
    /// Definitions of the parts, with the restarts they have left.
    recipes: BTreeMap<String, Part>,
    /// Parts to restart, and when.
    due: Vec<(Instant, Part)>,
    requests: Receiver<Asked>,
}

impl Supervisor {
    /// Starts listening at `socket`.
    pub(super) fn listen(socket: &Path) -> Result<Self, Failure> {
        let what = || format!("could not listen at {}", socket.display());
        // Bound under another name: the file exists before the kernel listens, and whoever waits for the file would be refused. Either file may be
        // left from an earlier run of this node; its listener is gone.
        let new = socket.with_extension("new");
        let _ = std::fs::remove_file(&new);
        let listener = UnixListener::bind(&new).context(what)?;
        std::fs::rename(&new, socket).context(what)?;
        let (sender, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                std::thread::spawn(move || converse(stream, &sender));
            }
        });
        Ok(Self { parts: BTreeMap::new(), recipes: BTreeMap::new(), due: Vec::new(), requests })
    }

    /// Starts one of our daemons.
    pub(super) fn start(&mut self, part: &Part) -> Result<(), Failure> {
        let mut command = Command::new(&part.program);
        command.args(&part.args).env(GARBAGE_COLLECTION.0, GARBAGE_COLLECTION.1);
        self.recipes.insert(part.name.clone(), part.clone());
        self.spawn(&part.name, command, &part.log).map(drop)
    }

    /// Starts `command` as the part `name` and returns its pid.
    pub(super) fn spawn(&mut self, name: &str, mut command: Command, log: &Path) -> Result<Pid, Failure> {
        if let Some(PartState { life: Life::Running { .. }, .. }) = self.parts.get(name) {
            return Err(Failure::new(format!("{name} runs already")));
        }
        let open = || OpenOptions::new().create(true).append(true).open(log).context(|| format!("could not write {}", log.display()));
        command.stdin(Stdio::null()).stdout(open()?).stderr(open()?);
        let child = command.spawn().context(|| format!("could not start {name}"))?;
        let pid = Pid::from_child(&child);
        // The handle is dropped on purpose: `reap` waits for all processes, ours and orphans alike.
        drop(child);
        let state = PartState { name: name.to_owned(), log: log.to_owned(), life: Life::Running { pid: pid.as_raw_nonzero().get() } };
        self.parts.insert(name.to_owned(), state);
        Ok(pid)
    }

    /// Answers requests forever; `carry_out` handles those that only a bed or only a node accepts.
    pub(super) fn run(mut self, mut carry_out: impl FnMut(&mut Self, &Request) -> Result<(), Failure>) -> Failure {
        loop {
            match self.requests.recv_timeout(REAP) {
                Ok((request, reply)) => {
                    self.reap();
                    let outcome = match &request {
                        Request::Start(part) => self.start(part),
                        Request::Kill(name) => self.kill(name),
                        Request::Parts => Ok(()),
                        Request::AddNode(_) => carry_out(&mut self, &request),
                    };
                    let answer = outcome.map(|()| self.parts.values().cloned().collect()).map_err(|failure| failure.to_string());
                    // The client may have disconnected in the meantime.
                    let _ = reply.send(answer);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Failure::new("the control socket is gone"),
            }
            self.reap();
            self.start_due();
        }
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.due).into_iter().partition(|(at, _)| *at <= now);
        self.due = later;
        for (_, part) in due {
            // A part that was killed on request in the meantime stays down.
            let waits = self.parts.get(&part.name).is_some_and(|state| state.life == Life::Restarting);
            if waits && let Err(failure) = self.start(&part) {
                self.set_life(&part.name, Life::Ended(failure.to_string()));
            }
        }
    }

    fn set_life(&mut self, name: &str, life: Life) {
        if let Some(part) = self.parts.get_mut(name) {
            part.life = life;
        }
    }

    pub(super) fn is_running(&self, name: &str) -> bool {
        self.parts.get(name).is_some_and(|part| matches!(part.life, Life::Running { .. }))
    }

    fn kill(&mut self, name: &str) -> Result<(), Failure> {
        let part = self.parts.get_mut(name).ok_or_else(|| Failure::new(format!("there is no part called {name}")))?;
        if part.life == Life::Restarting {
            part.life = Life::Killed;
            return Ok(());
        }
        let Life::Running { pid } = part.life else {
            return Err(Failure::new(format!("{name} does not run")));
        };
        let pid = Pid::from_raw(pid).ok_or_else(|| Failure::new(format!("{name} has no pid")))?;
        kill_process(pid, Signal::KILL).context(|| format!("could not kill {name}"))?;
        part.life = Life::Killed;
        Ok(())
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let ended = Life::Running { pid: pid.as_raw_nonzero().get() };
            let Some(name) = self.parts.values().find(|part| part.life == ended).map(|part| part.name.clone()) else { continue };
            let how = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "for an unknown reason".to_owned(),
            };
            let again = self.recipes.remove(&name).filter(|part| part.restarts > 0);
            self.set_life(&name, if again.is_some() { Life::Restarting } else { Life::Ended(how) });
            self.due.extend(again.map(|part| (Instant::now() + RESTART, Part { restarts: part.restarts - 1, ..part })));
        }
    }
}

fn converse(mut stream: UnixStream, sender: &Sender<Asked>) {
    let mut line = String::new();
    if BufReader::new(&stream).read_line(&mut line).is_err() {
        return;
    }
    let answer: Answer = match serde_json::from_str(&line) {
        Ok(request) => {
            let (reply, answered) = mpsc::channel();
            if sender.send((request, reply)).is_err() {
                return;
            }
            answered.recv().unwrap_or_else(|_| Err("the bed is going down".to_owned()))
        }
        Err(error) => Err(format!("this is no request: {error}")),
    };
    if let Ok(text) = serde_json::to_string(&answer) {
        let _ = writeln!(stream, "{text}");
    }
}

/// Waits until a file appears, such as the socket of a daemon that was just started.
pub(super) fn wait_for_file(path: &Path) -> Result<(), Failure> {
    let mut patience = Patience::start();
    while !path.exists() {
        if patience.is_exhausted() {
            return Err(Failure::new(format!("{} did not appear within {}", path.display(), seconds(patience.elapsed()))));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
