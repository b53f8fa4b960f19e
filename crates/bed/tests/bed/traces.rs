use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use slipway_bed::bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::keeper::{self, KeeperState};
use slipway_bed::layout::Layout;
use slipway_bed::patience::Patience;
use slipway_bed::turn::{NODE_WATCHERS, Turn};
use slipway_bed::up::{Wanted, up};

use crate::machine::{Machine, remains};
use crate::{program, unique, words};

#[tokio::test]
async fn two_beds_side_by_side_change_nothing_on_the_machine_and_leave_nothing() {
    let cache = Cache::open().unwrap();
    let _turn = Turn::take(&cache, 2 * NODE_WATCHERS).await.unwrap();
    let before = Machine::look();
    let first = up(&cache, &Wanted::cluster(unique("one"), 2)).await.unwrap();
    let second = up(&cache, &Wanted::cluster(unique("other"), 1)).await.unwrap();
    assert_eq!(before.difference(&Machine::look()), None, "while beds run");
    for bed in [first, second] {
        let (name, root) = (bed.name().clone(), bed.layout().root.clone());
        bed.down().unwrap();
        assert_eq!(remains(name.as_str()), Vec::<String>::new());
        assert!(!root.exists(), "{} is left", root.display());
        let lock = cache.path(format!("lock/up-{name}"));
        assert!(!lock.exists(), "{} is left", lock.display());
    }
    assert_eq!(before.difference(&Machine::look()), None, "after beds ran");
}

#[tokio::test]
async fn a_bed_with_a_frozen_node_goes_down_too() {
    let cache = Cache::open().unwrap();
    let _turn = Turn::take(&cache, 2 * NODE_WATCHERS).await.unwrap();
    let bed = up(&cache, &Wanted::cluster(unique("frozen"), 1)).await.unwrap();
    let name = bed.name().clone();
    bed.freeze_node(1).unwrap();
    bed.down().unwrap();
    assert_eq!(remains(name.as_str()), Vec::<String>::new());
}

/// Kills one process of a running bed and expects the whole bed to end by itself.
async fn dies_whole(test: &str, victim: impl Fn(&KeeperState) -> u32) {
    let cache = Cache::open().unwrap();
    let _turn = Turn::take(&cache, 2 * NODE_WATCHERS).await.unwrap();
    let name = unique(test);
    let layout = Layout::new(&cache, &name);
    // Through the program, so that only the bed itself can clean up.
    let output = program().args(["up", "--nodes", "1", "--name", name.as_str()]).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let state = KeeperState::read(&layout).unwrap();
    kill_process(Pid::from_raw(i32::try_from(victim(&state)).unwrap()).unwrap(), Signal::KILL).unwrap();
    wait_until_gone(&layout);
    let told = Bed::open(&cache, &name).err().unwrap().to_string();
    assert!(told.contains("died") && told.contains("slipway-bed up"), "{told}");
    // Repeatable: the same name comes up again over the leftovers, and goes down.
    let bed = up(&cache, &Wanted::api_only(name)).await.unwrap();
    bed.down().unwrap();
    assert!(!layout.root.exists());
}

#[tokio::test]
async fn a_bed_whose_keeper_is_killed_ends_whole() {
    dies_whole("keeper", |state| state.keeper).await;
}

#[tokio::test]
async fn a_bed_whose_first_process_is_killed_ends_whole() {
    dies_whole("first", |state| state.handle).await;
}

#[test]
fn an_interrupted_up_leaves_nothing_running() {
    let cache = Cache::open().unwrap();
    let _turn = Turn::take_blocking(&cache, 2 * NODE_WATCHERS).unwrap();
    let name = unique("ctrl-c");
    let layout = Layout::new(&cache, &name);
    let mut child = program().args(["up", "--nodes", "1", "--name", name.as_str()]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut patience = Patience::start();
    while !keeper::lives(&layout) || !layout.control().exists() {
        assert!(!patience.is_exhausted() && child.try_wait().unwrap().is_none(), "the bed did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(words(&output).contains("interrupted"), "{}", words(&output));
    wait_until_gone(&layout);
    assert!(program().args(["down", "--name", name.as_str()]).status().unwrap().success());
    assert!(!layout.root.exists());
}

/// Waits until the bed has cleaned up by itself, which takes moments.
fn wait_until_gone(layout: &Layout) {
    let mut patience = Patience::start();
    while keeper::lives(layout) || !remains(layout.name.as_str()).is_empty() {
        assert!(!patience.is_exhausted(), "left: {:?}", remains(layout.name.as_str()));
        std::thread::sleep(Duration::from_millis(20));
    }
}
