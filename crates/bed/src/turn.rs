//! Turns on this machine: heavy tests run concurrently, as many as the machine can carry at the moment.
//!
//! Processes that need a turn queue in the order of arrival. The first in the queue waits until enough cores and memory are free, then starts. The
//! next one then measures the machine with the load of the first one on it. So there is no limit to choose: waits for Slurm's and Kubernetes' own
//! timers overlap, and work does not pile up.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::cache::{Cache, CacheLock};
use crate::failure::Failure;
use crate::machine::{Reading, available_memory, free_inotify_instances};
use crate::progress::Progress;

/// Environment variable set by `make test`: a file to which each test adds its waiting time, so that it is not counted as running time.
pub const WAITS: &str = "SLIPWAY_WAITS";
/// Environment variable set by `make flakes`: the number of concurrent turns, however busy the machine is.
pub const CROWD: &str = "SLIPWAY_CROWD";
/// Share of the cores that may be in use when another test begins. A new test needs more than its share for some seconds, then it mostly waits.
const BUSY: f64 = 0.8;
/// Memory that must be free; a cluster with its daemons takes less than half of it.
const MEMORY: u64 = 2 << 30;
/// inotify instances of one node: six of the kubelet, one of containerd. A control plane takes none of root's.
pub const NODE_WATCHERS: usize = 7;
/// inotify instances that stay free, for nodes that a test adds later.
const SPARE_WATCHERS: usize = 10;
/// A test that got its turn within this time may not have created its inotify instances yet, so they are counted as reserved.
const STARTING: Duration = Duration::from_secs(45);
/// How long the machine is looked at: longer than the breath between two busy moments.
const LOOK: Duration = Duration::from_millis(1500);
/// Name prefix of the locks of running turns.
const INSIDE: &str = "turn-";

/// Name prefix of the locks of queued processes; the rest of the name is their position.
const QUEUED: &str = "queue-";
/// Interval at which a queued process checks if it is the first.
const ADVANCE: Duration = Duration::from_millis(200);

/// Number of turns of this process so far.
static TURNS: AtomicUsize = AtomicUsize::new(0);

/// A turn; it lasts until it is dropped or its process ends.
#[derive(Debug)]
pub struct Turn {
    _lock: CacheLock,
}

impl Turn {
    /// Waits until this machine has room, also for this number of inotify instances. The only turn always has room.
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

/// Adds a line with the name of this process's test and the seconds it waited. If the file cannot be written, only that figure is lost.
fn note_wait(waited: Duration) {
    let test = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    if let (Some(path), Some(test)) = (std::env::var_os(WAITS), test)
        && let Ok(mut file) = File::options().create(true).append(true).open(path)
    {
        let _ = writeln!(file, "{test} {:.1}", waited.as_secs_f32());
    }
}

/// Free capacity of the machine.
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

/// Names of the locks with this prefix that a process holds. A free one belongs to a process that was killed or is about to lock it. It can be
/// removed, because a process that finds its lock file gone creates it again.
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
            // It may already be gone.
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
        assert!(!cache.path("lock/turn-of-one-who-was-killed").exists(), "the lock of a killed process is removed");
        fs::remove_dir_all(cache.root()).unwrap();
    }
}
