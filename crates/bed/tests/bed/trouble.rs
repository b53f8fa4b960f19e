//! Bad input and failures: each gives one clear message with a remedy, and the command can be repeated.

use std::net::TcpListener;
use std::process::Command;

use slipway_bed::cache::Cache;
use slipway_bed::layout::Layout;
use slipway_bed::turn::{NODE_WATCHERS, Turn};
use slipway_bed::up::{Wanted, up};

use crate::{program, unique, words};

/// Runs the program with these arguments and expects a failure whose output contains all of `told`.
fn fails(args: &[&str], told: &[&str]) {
    refuses(program().args(args), told);
}

fn refuses(command: &mut Command, told: &[&str]) {
    let output = command.output().unwrap();
    let words = words(&output);
    assert!(!output.status.success(), "{command:?} succeeded: {words}");
    for part in told {
        assert!(words.contains(part), "{command:?} does not say `{part}` but:\n{words}");
    }
    assert!(!words.contains("panicked"), "{words}");
}

/// The program with the machine's environment changed by `prefix`, a command that runs its arguments.
fn under(prefix: &[&str]) -> Command {
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).arg(env!("CARGO_BIN_EXE_slipway-bed"));
    command
}

#[test]
fn wrong_words_are_refused_with_the_right_ones() {
    fails(&["up", "--name", "../x"], &["is no name for a bed", "letters"]);
    fails(&["up", "--name", "x", "--nodes", "0"], &["cannot have 0 nodes", "--api-only"]);
    fails(&["up", "--name", "x", "--nodes", "201"], &["cannot have 201 nodes", "1 to 200"]);
    fails(&["up", "--controllers"], &["--api-only"]);
    fails(&["kubeconfig", "--name", "never-was"], &["there is no bed `never-was`", "slipway-bed up"]);
    fails(&["exec", "--name", "never-was", "--", "true"], &["there is no bed `never-was`"]);
}

#[test]
fn taking_down_what_is_not_there_is_no_mistake() {
    for _ in 0..2 {
        let output = program().args(["down", "--name", "never-was"]).output().unwrap();
        assert!(output.status.success() && words(&output).contains("there was no bed `never-was`"), "{}", words(&output));
    }
}

#[test]
fn a_person_who_is_not_root_is_told_so() {
    let folder = std::env::temp_dir().join(format!("slipway-nobody-{}", std::process::id()));
    // The program itself may be in a folder that only root can read.
    std::fs::create_dir_all(&folder).unwrap();
    let copy = folder.join("slipway-bed");
    std::fs::copy(env!("CARGO_BIN_EXE_slipway-bed"), &copy).unwrap();
    Command::new("chown").args(["-R", "nobody"]).arg(&folder).status().unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups"]).arg(&copy).args(["up", "--name", "x"]).env("SLIPWAY_CACHE", folder.join("cache"));
    refuses(&mut command, &["needs root", "sudo"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_machine_without_go_is_told_so_before_anything_is_done() {
    let folder = std::env::temp_dir().join(format!("slipway-nogo-{}", std::process::id()));
    let mut command = program();
    command.args(["up", "--name", "x"]).env("SLIPWAY_CACHE", &folder).env("PATH", "/nowhere");
    refuses(&mut command, &["Go is missing", "1.26"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_full_disk_is_told_before_anything_is_done() {
    let script = "mount -t tmpfs -o size=16m tmpfs /mnt && exec \"$0\" \"$@\"";
    let mut command = under(&["unshare", "--mount", "sh", "-c", script]);
    refuses(command.args(["up", "--name", "x"]).env("SLIPWAY_CACHE", "/mnt"), &["0.0 GiB free", "SLIPWAY_CACHE"]);
}

#[test]
fn a_machine_without_network_is_told_what_could_not_be_reached() {
    let folder = std::env::temp_dir().join(format!("slipway-nonet-{}", std::process::id()));
    let mut command = under(&["unshare", "--net"]);
    refuses(command.args(["up", "--name", "x"]).env("SLIPWAY_CACHE", &folder), &["apt-get failed", "mirror", "run the same command again"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_name_or_a_port_that_is_taken_is_named() {
    let cache = Cache::open().unwrap();
    let _turn = Turn::take(&cache, 2 * NODE_WATCHERS).await.unwrap();
    let bed = up(&cache, &Wanted::api_only(unique("taken"))).await.unwrap();
    let name = bed.name().as_str();
    fails(&["up", "--api-only", "--name", name], &["is already up with API servers only", "slipway-bed down"]);
    fails(&["logs", "--name", name, "no-such-part"], &["has no part `no-such-part`", "kube-apiserver"]);
    fails(&["node", "--name", name, "kill", "7"], &["no part called n7"]);
    fails(&["exec", "--name", name, "--node", "7", "--", "true"], &["no running node n7"]);
    bed.down().unwrap();

    let holder = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let name = unique("port");
    fails(&["up", "--api-only", "--name", name.as_str(), "--port", &port], &["cannot be used", &port, "another --port"]);
    let layout = Layout::new(&cache, &name);
    assert!(program().args(["down", "--name", name.as_str()]).status().unwrap().success());
    assert!(!layout.root.exists());
}
