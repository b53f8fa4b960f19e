//! Turns on this machine: heavy tests run side by side, as many as it carries at that moment.
//!
//! Whoever wants a turn queues at one door, in the order of arrival. The first in the queue waits for a moment in which cores and memory are left, and
//! goes in. The next one looks at the machine with the first one's load on it. So there is no number to choose: waiting for Slurm's and Kubernetes' own
//! clocks overlaps, work does not pile up.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::cache::{Cache, CacheLock};
use crate::failure::Failure;
use crate::machine::{Reading, available_memory, free_inotify_instances};
use crate::progress::Progress;

/// Set by `make test`: a file to which everybody adds how long they waited, so that it is not taken for the time that they need.
pub const WAITS: &str = "SLIPWAY_WAITS";
/// Set by `make flakes`: so many have their turn at once, however busy the machine is.
pub const CROWD: &str = "SLIPWAY_CROWD";
/// The share of the cores that may be in use when another one begins. What begins needs more than its share for some seconds, then it mostly waits.
const BUSY: f64 = 0.8;
/// Memory that must be free: a cluster with its daemons takes less than half of it.
const MEMORY: u64 = 2 << 30;
/// inotify instances of one node: six of the kubelet, one of containerd.
pub const NODE_WATCHERS: usize = 7;
/// inotify instances of a control plane.
pub const CONTROL_PLANE_WATCHERS: usize = 12;
/// inotify instances that stay free, for nodes that a test adds later.
const SPARE_WATCHERS: usize = 10;
/// A test that got its turn within this time may not have created its inotify instances yet, so they are counted as reserved.
const STARTING: Duration = Duration::from_secs(45);
/// How long the machine is looked at: longer than the breath between two busy moments.
const LOOK: Duration = Duration::from_millis(1500);
/// The beginning of the names of the locks that those inside hold.
const INSIDE: &str = "turn-";

/// The beginning of the names of the locks that those in the queue hold; the rest of the name is their place.
const QUEUED: &str = "queue-";
/// How often somebody in the queue looks whether it is the first.
const ADVANCE: Duration = Duration::from_millis(200);

/// Turns of this process so far.
static TURNS: AtomicUsize = AtomicUsize::new(0);

/// Somebody's turn, until it is dropped or its process ends.
#[derive(Debug)]
pub struct Turn {
    _lock: CacheLock,
}

impl Turn {
    /// Waits until this machine has room, also for so many inotify instances. Whoever is alone has.
    pub async fn take(cache: &Cache, watchers: usize) -> Result<Self, Failure> {
        let cache = cache.clone();
        let waiting = tokio::task::spawn_blocking(move || Self::take_blocking(&cache, watchers));
        waiting.await.unwrap_or_else(|error| Err(Failure::new(format!("could not wait for a turn: {error}"))))
    }

    /// The same where nothing is awaited.
    pub fn take_blocking(cache: &Cache, watchers: usize) -> Result<Self, Failure> {
        let (quiet, began) = (|| Progress::Quiet.step("waiting for a turn"), Instant::now());
        let place = place();
        let _queued = cache.lock(&place, &quiet())?;
        let crowd = std::env::var(CROWD).ok().and_then(|crowd| crowd.parse::<usize>().ok());
        loop {
            if held(cache, QUEUED).iter().any(|other| *other < place) {
                std::thread::sleep(ADVANCE);
                continue;
            }
            let before = Reading::now();
            std::thread::sleep(LOOK);
            let busy = Reading::now().busy_since(before);
            let inside = held(cache, INSIDE);
            let needed = watchers + SPARE_WATCHERS + starting(cache, &inside);
            let room = Room { busy, memory: available_memory(), has_watchers: needed <= free_inotify_instances() };
            if has_room(inside.len(), crowd, &room) {
                let number = TURNS.fetch_add(1, Ordering::Relaxed);
                let lock = cache.lock(&format!("{INSIDE}{}-{number}-{watchers}", std::process::id()), &quiet())?;
                note_wait(began.elapsed());
                return Ok(Self { _lock: lock });
            }
        }
    }
}

/// Adds a line with the name of this process's test and its seconds. A file that cannot be written costs a figure, and no test.
fn note_wait(waited: Duration) {
    let test = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    if let (Some(path), Some(test)) = (std::env::var_os(WAITS), test)
        && let Ok(mut file) = File::options().create(true).append(true).open(path)
    {
        let _ = writeln!(file, "{test} {:.1}", waited.as_secs_f32());
    }
}

/// What the machine has left.
struct Room {
    busy: f64,
    memory: u64,
    has_watchers: bool,
}

fn has_room(inside: usize, crowd: Option<usize>, room: &Room) -> bool {
    match crowd {
        Some(crowd) => inside < crowd.max(1),
        None => inside == 0 || (room.busy < BUSY && room.memory > MEMORY && room.has_watchers),
    }
}

/// inotify instances that turns which began a moment ago asked for: the end of their lock's name.
fn starting(cache: &Cache, inside: &[String]) -> usize {
    let is_new = |name: &&String| {
        let made = fs::metadata(cache.path("lock").join(name)).and_then(|file| file.modified()).ok();
        made.and_then(|made| made.elapsed().ok()).is_none_or(|age| age < STARTING)
    };
    inside.iter().filter(is_new).filter_map(|name| name.rsplit('-').next()?.parse::<usize>().ok()).sum()
}

/// A place at the end of the queue: the name of a lock. Names sort by the time of arrival.
#[allow(
    clippy::disallowed_methods,
    reason = "a place has to mean the same to all processes of this machine, and a wrong clock costs only the order"
)]
fn place() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{QUEUED}{:020}-{}-{}", now.as_nanos(), std::process::id(), TURNS.load(Ordering::Relaxed))
}

/// Names of the locks with this beginning that a process holds. One that is free belongs to a process that was killed or is about to hold it; the lock
/// is made again by whoever finds its file gone, so it can be removed.
fn held(cache: &Cache, beginning: &str) -> Vec<String> {
    let locks = fs::read_dir(cache.path("lock")).into_iter().flatten().flatten();
    let is_held = |path: &Path| File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
    let mut held = Vec::new();
    for entry in locks {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(beginning) {
            continue;
        }
        if is_held(&entry.path()) {
            held.push(name);
        } else {
            // Gone already is as good.
            let _ = fs::remove_file(entry.path());
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_measured_and_whoever_is_alone_has_it() {
        let room = |busy, memory, has_watchers| Room { busy, memory, has_watchers };
        assert!(has_room(0, None, &room(1.0, 0, false)));
        assert!(has_room(9, None, &room(0.5, 8 << 30, true)));
        assert!(!has_room(1, None, &room(0.95, 8 << 30, true)));
        assert!(!has_room(1, None, &room(0.1, 1 << 30, true)));
        assert!(!has_room(1, None, &room(0.1, 8 << 30, false)));
        assert!(has_room(3, Some(4), &room(1.0, 8 << 30, true)));
        assert!(!has_room(4, Some(4), &room(0.0, 8 << 30, true)));
    }

    #[test]
    fn whoever_came_first_goes_in_first() {
        let cache = Cache::at(std::env::temp_dir().join(format!("slipway-queue-{}", std::process::id()))).unwrap();
        let first = cache.lock(&place(), &Progress::Quiet.step("waiting")).unwrap();
        let (sender, entered) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(Turn::take_blocking(&cache, 0)));
            // The second is in the queue, and stays there however much room there is.
            while held(&cache, QUEUED).len() < 2 {
                std::thread::yield_now();
            }
            assert!(entered.recv_timeout(ADVANCE + LOOK + ADVANCE).is_err());
            drop(first);
            assert!(entered.recv().unwrap().is_ok());
        });
        fs::remove_dir_all(cache.root()).unwrap();
    }

    #[test]
    fn turns_are_counted_while_they_last() {
        let cache = Cache::at(std::env::temp_dir().join(format!("slipway-turn-{}", std::process::id()))).unwrap();
        let turn = Turn::take_blocking(&cache, 5).unwrap();
        assert_eq!(held(&cache, INSIDE).len(), 1);
        assert_eq!(starting(&cache, &held(&cache, INSIDE)), 5);
        drop(turn);
        assert_eq!(held(&cache, INSIDE), [""; 0]);
        fs::write(cache.path("lock/turn-of-one-who-was-killed"), "").unwrap();
        assert_eq!(held(&cache, INSIDE), [""; 0]);
        assert!(!cache.path("lock/turn-of-one-who-was-killed").exists(), "it is in the way of nobody and grows in number");
        fs::remove_dir_all(cache.root()).unwrap();
    }
}
