//! Runs the script in a real bash with a fake `scontrol` that logs its calls. `sleep` is replaced as well: it counts the rounds.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rstest::rstest;

use super::*;

const DEADLINE: Duration = Duration::from_secs(20);

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A pod's volumes and programs in a folder of their own.
struct Pod {
    folder: PathBuf,
    moment: u32,
    script: Option<Child>,
    slurmctld: Option<String>,
}

impl Pod {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder =
            std::env::temp_dir().join(format!("slipway-reconfigure-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        for part in ["bin", "etc", "applied"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let mut pod = Self { folder, moment: 0, script: None, slurmctld: None };
        pod.program("sleep", "echo round >>\"$LOG/rounds\"; exec /bin/sleep 0.01");
        pod.program("scontrol", "echo \"$*\" >>\"$LOG/calls\"");
        pod.swap(&[("slurm.conf", "A=1"), ("slurm.key", "secret"), ("jwt.key", "secret"), (".hidden", "x")]);
        pod
    }

    fn program(&mut self, name: &str, body: &str) {
        // Renamed into place: a script that is being written cannot be executed.
        let (draft, path) = (self.folder.join("draft"), self.folder.join("bin").join(name));
        fs::write(&draft, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(draft, path).unwrap();
    }

    /// Replaces the files the way the kubelet does.
    fn swap(&mut self, files: &[(&str, &str)]) {
        let etc = self.folder.join("etc");
        let (old, new) = (etc.join(format!("..{}", self.moment)), etc.join(format!("..{}", self.moment + 1)));
        self.moment += 1;
        fs::create_dir(&new).unwrap();
        for (file, content) in files {
            fs::write(new.join(file), content).unwrap();
            let _ = symlink(PathBuf::from("..data").join(file), etc.join(file));
        }
        symlink(format!("..{}", self.moment), etc.join("..data_tmp")).unwrap();
        fs::rename(etc.join("..data_tmp"), etc.join("..data")).unwrap();
        let _ = fs::remove_dir_all(old);
    }

    fn start(&mut self) {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.folder.join("bin").display());
        let mut command = Command::new("bash");
        command.args(["-c", SCRIPT]).env_clear().env("PATH", path).env("LOG", &self.folder);
        command.env(env::CONFIG_DIR, self.folder.join("etc")).env(env::APPLIED_FILE, self.folder.join("applied/hash"));
        command.envs(self.slurmctld.iter().map(|address| (env::SLURMCTLD, address)));
        self.script = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    }

    /// Terminates the script the way the kubelet does and returns its exit status.
    fn stop(&mut self) -> ExitStatus {
        let mut script = self.script.take().unwrap();
        assert!(Command::new("bash").args(["-c", &format!("kill -TERM {}", script.id())]).status().unwrap().success());
        let mut ended = None;
        eventually("the script ends", || {
            ended = script.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    fn lines(&self, log: &str) -> usize {
        fs::read_to_string(self.folder.join(log)).unwrap_or_default().lines().count()
    }

    /// Waits until the script has checked the files several more times.
    fn rounds(&self) {
        let before = self.lines("rounds");
        eventually("the script goes round", || self.lines("rounds") > before + 3);
    }

    fn calls(&self) -> usize {
        self.rounds();
        self.lines("calls")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Some(script) = &mut self.script {
            let _ = script.kill();
            let _ = script.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Response of a slurmctld to `/readyz`: yes if it is the active one.
#[derive(Clone, Copy)]
enum Says {
    Yes,
    No,
    Nothing,
}

/// A fake slurmctld that counts its requests.
struct Slurmctld {
    address: String,
    answer: Arc<Mutex<Says>>,
    asked: Arc<AtomicU32>,
}

impl Slurmctld {
    fn new(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("127.0.0.1/{}", listener.local_addr().unwrap().port());
        let slurmctld = Self { address, answer: Arc::new(Mutex::new(says)), asked: Arc::default() };
        let (answer, asked) = (Arc::clone(&slurmctld.answer), Arc::clone(&slurmctld.asked));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // Read to the end: closing a connection with unread data would discard the response.
                let request = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
                assert_eq!(request.collect::<Vec<_>>(), ["GET /readyz HTTP/1.1", "Host: localhost", "Connection: close"]);
                let status = match *answer.lock().unwrap() {
                    Says::Yes => "HTTP/1.1 204 No Content\r\n\r\n",
                    Says::No => "HTTP/1.1 500 Internal Server Error\r\n\r\n",
                    Says::Nothing => "",
                };
                let _ = stream.write_all(status.as_bytes());
                asked.fetch_add(1, Ordering::SeqCst);
            }
        });
        slurmctld
    }

    fn says(&self, says: Says) {
        *self.answer.lock().unwrap() = says;
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

#[test]
fn files_that_stay_as_they_are_cause_nothing() {
    let mut pod = Pod::new();
    pod.start();
    assert_eq!(pod.calls(), 0);
    pod.swap(&[("slurm.conf", "A=1"), ("slurm.key", "secret"), ("jwt.key", "secret"), (".hidden", "x")]);
    assert_eq!(pod.calls(), 0, "the kubelet wrote the same files again");
}

#[rstest]
#[case::content(&[("slurm.conf", "A=2"), (".hidden", "x")])]
#[case::another_file(&[("slurm.conf", "A=1"), ("gres.conf", ""), (".hidden", "x")])]
#[case::name(&[("slurm.conf", "A=1"), (".renamed", "x")])]
#[case::file_gone(&[("slurm.conf", "A=1")])]
fn a_change_is_one_reconfigure(#[case] files: &[(&str, &str)]) {
    let mut pod = Pod::new();
    pod.start();
    pod.rounds();
    pod.swap(files);
    eventually("a reconfigure", || pod.lines("calls") == 1);
    assert_eq!(pod.calls(), 1);
    assert_eq!(fs::read_to_string(pod.folder.join("calls")).unwrap(), "reconfigure\n");
}

#[test]
fn a_new_key_is_no_new_configuration() {
    let mut pod = Pod::new();
    pod.start();
    pod.rounds();
    pod.swap(&[("slurm.conf", "A=1"), ("slurm.key", "new"), ("jwt.key", "new"), (".hidden", "x")]);
    assert_eq!(pod.calls(), 0);
}

#[test]
fn a_reconfigure_that_failed_is_tried_until_it_succeeds() {
    let mut pod = Pod::new();
    pod.start();
    pod.rounds();
    pod.program("scontrol", "echo \"$*\" >>\"$LOG/failures\"; exit 1");
    pod.swap(&[("slurm.conf", "A=2")]);
    eventually("a second try", || pod.lines("failures") >= 2);
    pod.program("scontrol", "echo \"$*\" >>\"$LOG/calls\"");
    eventually("success", || pod.lines("calls") == 1);
    assert_eq!(pod.calls(), 1);
}

#[test]
fn a_change_while_slurmctld_reads_the_one_before_is_not_lost() {
    let mut pod = Pod::new();
    pod.program("scontrol", "echo \"$*\" >>\"$LOG/calls\"; while [ ! -e \"$LOG/go\" ]; do /bin/sleep 0.01; done");
    pod.start();
    pod.rounds();
    pod.swap(&[("slurm.conf", "A=2")]);
    eventually("the first", || pod.lines("calls") == 1);
    pod.swap(&[("slurm.conf", "A=3")]);
    fs::write(pod.folder.join("go"), "").unwrap();
    eventually("the second", || pod.lines("calls") == 2);
    assert_eq!(pod.calls(), 2);
}

#[test]
fn a_restart_of_the_script_causes_nothing_and_loses_nothing() {
    let mut pod = Pod::new();
    pod.start();
    pod.rounds();
    assert!(pod.stop().success());
    pod.start();
    assert_eq!(pod.calls(), 0);
    assert!(pod.stop().success());
    pod.swap(&[("slurm.conf", "A=2")]);
    pod.start();
    eventually("what changed meanwhile", || pod.lines("calls") == 1);
    assert_eq!(pod.calls(), 1);
}

/// A pod with standby slurmctlds elsewhere, whose files have changed.
fn pod_beside(slurmctld: &str) -> Pod {
    let mut pod = Pod::new();
    pod.slurmctld = Some(slurmctld.to_owned());
    pod.start();
    pod.rounds();
    pod.swap(&[("slurm.conf", "A=2")]);
    pod
}

#[test]
fn a_backup_asks_for_nothing_and_reads_the_files_when_it_takes_over() {
    let slurmctld = Slurmctld::new(Says::No);
    let pod = pod_beside(&slurmctld.address);
    eventually("the backup is taken for one", || slurmctld.asked() == 10);
    slurmctld.says(Says::Yes);
    assert_eq!(pod.calls(), 0);
    assert_eq!(slurmctld.asked(), 10, "no more questions");
}

#[test]
fn a_slurmctld_in_charge_that_was_busy_is_asked_again() {
    let slurmctld = Slurmctld::new(Says::No);
    let pod = pod_beside(&slurmctld.address);
    eventually("it says no", || slurmctld.asked() >= 2);
    slurmctld.says(Says::Yes);
    eventually("a reconfigure", || pod.lines("calls") == 1);
    assert_eq!(pod.calls(), 1);
}

#[test]
fn a_slurmctld_that_gives_no_answer_is_asked_until_it_does() {
    let slurmctld = Slurmctld::new(Says::Nothing);
    let pod = pod_beside(&slurmctld.address);
    eventually("many questions", || slurmctld.asked() > 15);
    assert_eq!(pod.lines("calls"), 0);
    slurmctld.says(Says::Yes);
    eventually("a reconfigure", || pod.lines("calls") == 1);
    assert_eq!(pod.calls(), 1);
}

#[test]
fn a_slurmctld_that_is_not_there_is_no_backup() {
    // Nothing listens on this port: only root may.
    let pod = pod_beside("127.0.0.1/1");
    let applied = || fs::read_to_string(pod.folder.join("applied/hash")).unwrap();
    let (before, rounds) = (applied(), pod.lines("rounds"));
    eventually("many rounds", || pod.lines("rounds") > rounds + 15);
    assert_eq!(pod.lines("calls"), 0);
    assert_eq!(applied(), before, "the change is still to be told");
}

#[rstest]
#[case::asleep("sleep", "echo round >>\"$LOG/rounds\"; exec /bin/sleep 600", "rounds")]
#[case::asking("scontrol", "echo \"$*\" >>\"$LOG/calls\"; exec /bin/sleep 600", "calls")]
fn it_ends_at_once_when_told(#[case] program: &str, #[case] body: &str, #[case] log: &str) {
    let mut pod = Pod::new();
    pod.start();
    pod.rounds();
    pod.program(program, body);
    pod.swap(&[("slurm.conf", "A=2")]);
    let before = pod.lines(log);
    eventually("it waits", || pod.lines(log) > before);
    assert_eq!(pod.stop().code(), Some(0));
}

#[test]
fn a_backup_has_its_own_slurmctld_to_ask_and_a_single_one_has_not() {
    let asks = |replicas| container(None, "image", replicas)["env"].as_array().unwrap().iter().any(|one| one["name"] == env::SLURMCTLD);
    assert!(!asks(1) && asks(2));
}
