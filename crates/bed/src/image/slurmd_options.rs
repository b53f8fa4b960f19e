//! Table tests for `images/entrypoint/slurmd-options.awk`, run as the entry point runs it, with a fake slurmd that describes the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::FOLDER;

/// A machine with 8 cores, two threads each, and 24,000 MiB.
const MACHINE: &str = "#!/bin/sh
test \"$1\" = -C || exit 1
echo 'NodeName=w0 CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=24000'
echo 'UpTime=0-00:10:00'
";

struct Machine {
    folder: PathBuf,
}

impl Machine {
    fn new(name: &str, slurmd: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("slipway-slurmd-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("slurmd");
        fs::write(&program, slurmd).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// Arguments that slurmd would get after `-D`.
    fn words(&self, env: &[(&str, &str)], args: &[&str]) -> Vec<String> {
        let script = format!("{FOLDER}/entrypoint/slurmd-options.awk");
        let path = format!("{}:{}", self.folder.display(), std::env::var("PATH").unwrap());
        // The same two lines as in the entry point. Then each argument ends with a NUL, which no argument can contain.
        let shell = r#"options=$(awk -f "$0" -- "$@"); eval "set -- $options"; for word; do printf '%s\0' "$word"; done"#;
        let output = Command::new("sh")
            .args(["-euc", shell, &script])
            .args(args)
            .env_clear()
            .env("PATH", path)
            .envs(env.iter().copied())
            .stderr(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "the script failed for {args:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str], &'static [&'static str]);

fn check(machine: &Machine, cases: &[Case]) {
    for (what, env, args, wanted) in cases {
        assert_eq!(machine.words(env, args), *wanted, "{what}");
    }
}

#[test]
fn options_reach_slurmd_as_they_were_meant() {
    let machine = Machine::new("options", MACHINE);
    check(
        &machine,
        &[
            ("none", &[], &[], &[]),
            ("plain arguments", &[], &["-Z", "--conf-server", "host:6817", "-vv"], &["-Z", "--conf-server", "host:6817", "-vv"]),
            ("the variable comes before the arguments", &[("SLURMD_OPTIONS", "-v  -N 'a b'")], &["-Z"], &["-v", "-N", "a b", "-Z"]),
            ("several words in one argument", &[], &["-Z --conf-server host:6817"], &["-Z", "--conf-server", "host:6817"]),
            (
                "blanks and Slurm's own quotes in --conf",
                &[],
                &["--conf", "Features=a Comment=\"x  y\""],
                &["--conf", "Features=a Comment=\"x  y\""],
            ),
            ("--conf quoted as a whole for a shell", &[], &["--conf", "'Features=a Gres=gpu:1'"], &["--conf", "Features=a Gres=gpu:1"]),
            ("--conf with an equals sign", &[], &["--conf=Features=a,b Weight=2", "-Z"], &["--conf", "Features=a,b Weight=2", "-Z"]),
            ("an apostrophe in --conf", &[], &["--conf", "Features=it's"], &["--conf", "Features=it's"]),
            (
                "--conf in the variable",
                &[("SLURMD_OPTIONS", "--conf 'Features=a Weight=2'")],
                &["-Z"],
                &["--conf", "Features=a Weight=2", "-Z"],
            ),
            (
                "two --conf become one, the later of two values counts",
                &[],
                &["--conf", "Features=a Weight=1", "-Z", "--conf", "weight=2"],
                &["--conf", "Features=a weight=2", "-Z"],
            ),
            ("Feature and Features are one key", &[], &["--conf", "Features=a", "--conf", "Feature=b"], &["--conf", "Feature=b"]),
            ("nothing is run", &[], &["--conf", "Features=$(touch /tmp/x)`id`;id"], &["--conf", "Features=$(touch /tmp/x)`id`;id"]),
            ("a variable in an option", &[("PORT", "7000")], &["--conf-server", "\"host:${PORT}\""], &["--conf-server", "host:7000"]),
        ],
    );
}

#[test]
fn a_topology_is_put_in_and_an_empty_one_vanishes() {
    const JUGGLED: &str = "'Features=a Topology='\"$SLINKY_TOPOLOGY\"''";
    let machine = Machine::new("topology", MACHINE);
    let set = &[("SLINKY_TOPOLOGY", "tree:s1,block:b1")];
    check(
        &machine,
        &[
            ("quoted for a shell", set, &["--conf", JUGGLED, "-v"], &["--conf", "Features=a Topology=tree:s1,block:b1", "-v"]),
            (
                "juggled quotes without outer ones",
                set,
                &["--conf", "Features=a Topology='\"$SLINKY_TOPOLOGY\"'"],
                &["--conf", "Features=a Topology=tree:s1,block:b1"],
            ),
            (
                "no quotes at all",
                set,
                &["--conf", "Topology=$SLINKY_TOPOLOGY Features=a"],
                &["--conf", "Topology=tree:s1,block:b1 Features=a"],
            ),
            ("with braces", set, &["--conf", "Topology=\"${SLINKY_TOPOLOGY}\""], &["--conf", "Topology=tree:s1,block:b1"]),
            ("inside single quotes", set, &["--conf", "'Topology=$SLINKY_TOPOLOGY'"], &["--conf", "Topology=tree:s1,block:b1"]),
            ("unset", &[], &["-Z", "--conf", JUGGLED], &["-Z", "--conf", "Features=a"]),
            (
                "empty, and nothing else in --conf",
                &[("SLINKY_TOPOLOGY", "")],
                &["-Z", "--conf", "Topology=$SLINKY_TOPOLOGY", "-v"],
                &["-Z", "-v"],
            ),
            (
                "one that would add items of its own",
                &[("SLINKY_TOPOLOGY", "s1 RealMemory=1")],
                &["--conf", JUGGLED],
                &["--conf", "Features=a"],
            ),
            (
                "the older variable",
                &[("POD_TOPOLOGY", "tree:s2")],
                &["-Z", "--conf", "Features=a"],
                &["-Z", "--conf", "Features=a Topology=tree:s2"],
            ),
            (
                "a given topology before the older variable",
                &[("POD_TOPOLOGY", "tree:s2")],
                &["--conf", "Topology=tree:s3"],
                &["--conf", "Topology=tree:s3"],
            ),
        ],
    );
}

#[test]
fn the_limits_of_the_pod_are_what_slurm_plans_with() {
    let machine = Machine::new("limits", MACHINE);
    check(
        &machine,
        &[
            (
                "both, into an existing --conf",
                &[("POD_CPUS", "4"), ("POD_MEMORY", "4096")],
                &["-Z", "--conf", "Features=a", "-v"],
                &["-Z", "--conf", "Features=a CoreSpecCount=6 MemSpecLimit=19904", "-v"],
            ),
            ("without --conf", &[("POD_CPUS", "4")], &["-Z"], &["-Z", "--conf", "CoreSpecCount=6"]),
            ("zero stands for no limit", &[("POD_CPUS", "0"), ("POD_MEMORY", "0")], &["-Z"], &["-Z"]),
            ("limits above the machine", &[("POD_CPUS", "32"), ("POD_MEMORY", "99999")], &["-Z"], &["-Z"]),
            ("less than a core leaves one", &[("POD_CPUS", "1")], &["-Z"], &["-Z", "--conf", "CoreSpecCount=7"]),
            (
                "what the user says stays",
                &[("POD_CPUS", "4"), ("POD_MEMORY", "4096")],
                &["--conf", "corespeccount=1 MemSpecLimit=10"],
                &["--conf", "corespeccount=1 MemSpecLimit=10"],
            ),
            (
                "a node described as smaller than its machine",
                &[("POD_CPUS", "4"), ("POD_MEMORY", "4096")],
                &["--conf", "CPUs=8 Realmemory=5000"],
                &["--conf", "CPUs=8 Realmemory=5000 CoreSpecCount=2 MemSpecLimit=904"],
            ),
            ("no number", &[("POD_CPUS", "1.5"), ("POD_MEMORY", "4096")], &["-Z"], &["-Z", "--conf", "MemSpecLimit=19904"]),
            (
                "with a topology",
                &[("POD_CPUS", "4"), ("SLINKY_TOPOLOGY", "t:s1")],
                &["--conf", "'Features=a Topology='\"$SLINKY_TOPOLOGY\"''"],
                &["--conf", "Features=a Topology=t:s1 CoreSpecCount=6"],
            ),
        ],
    );
}

#[test]
fn a_machine_that_cannot_be_described_leaves_the_options_as_they_are() {
    let machine = Machine::new("unknown", "#!/bin/sh\nexit 1\n");
    check(
        &machine,
        &[("no answer", &[("POD_CPUS", "4"), ("POD_MEMORY", "4096")], &["-Z", "--conf", "Features=a"], &["-Z", "--conf", "Features=a"])],
    );
}
