//! Watchdog: a thread outside the runtime that logs when the main loop does not run, with what each thread waits for.
//!
//! It repairs nothing. `/healthz` fails at the same time, so that the liveness probe of the chart starts Holdfast again.

use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fs, io, thread};

use super::health::Readiness;
use super::heartbeat::{Activity, LastBeat};

/// Interval of the checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Age of the last beat of a waiting loop that is logged.
const LOGGED_WAIT: Duration = Duration::from_secs(10);
/// Age of the last beat of a working loop that is logged.
const LOGGED_WORK: Duration = Duration::from_secs(60);
/// Number of consecutive checks after which an old beat is logged: one old beat is also seen after the whole machine was
/// paused.
const CHECKS: u32 = 3;
/// Maximum number of threads in a log entry.
const LOGGED_THREADS_MAX: usize = 64;

/// Starts the watchdog, which ends with the last other user of `health`.
///
/// # Errors
/// Returns an error if no thread can be started.
pub(super) fn start(health: &Arc<Readiness>) -> io::Result<()> {
    let health = Arc::downgrade(health);
    thread::Builder::new().name("watchdog".into()).spawn(move || run(&health)).map(drop)
}

fn run(health: &Weak<Readiness>) {
    let mut beats = OldBeats::default();
    loop {
        thread::sleep(CHECK_EVERY);
        let Some(health) = health.upgrade() else { return };
        let last = health.heartbeat.last();
        match beats.check(&last) {
            Some(LoopChange::Stopped) => tracing::error!(
                threads = threads(),
                "{last}: Envoys keep their configuration, and edits have no effect until it runs again. If it does not, \
                 restart Holdfast. Please report this bug, with this log entry"
            ),
            Some(LoopChange::RunsAgain) => tracing::warn!("the main loop runs again"),
            None => {}
        }
    }
}

/// A change that is logged.
#[derive(Debug, PartialEq, Eq)]
enum LoopChange {
    Stopped,
    RunsAgain,
}

/// The number of consecutive checks that saw an old beat.
#[derive(Debug, Default)]
struct OldBeats(u32);

impl OldBeats {
    fn check(&mut self, last: &LastBeat) -> Option<LoopChange> {
        let is_old = match last.activity {
            Activity::Starting | Activity::Ending => false,
            Activity::Waiting => last.age >= LOGGED_WAIT,
            _ => last.age >= LOGGED_WORK,
        };
        let before = self.0;
        self.0 = if is_old { before.saturating_add(1) } else { 0 };
        match self.0 {
            0 => (before >= CHECKS).then_some(LoopChange::RunsAgain),
            now => (before < CHECKS && now >= CHECKS).then_some(LoopChange::Stopped),
        }
    }
}

/// Each thread of this process with its state, and the system call in which it is, as in
/// `tokio-rt-worker S 232 0x3 …`; see proc_pid_syscall(5). Empty on systems without `/proc`.
fn threads() -> String {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten().take(LOGGED_THREADS_MAX);
    let read = |thread: &fs::DirEntry, file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
    let shown = threads.map(|thread| {
        let stat = read(&thread, "stat");
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or("?");
        let call = read(&thread, "syscall");
        let call: Vec<&str> = call.split_whitespace().take(5).collect();
        format!("{} {state} {}", read(&thread, "comm").trim(), call.join(" "))
    });
    shown.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(activity: Activity, age: Duration) -> LastBeat {
        LastBeat { activity, age }
    }

    #[test]
    fn an_episode_is_logged_once_and_so_is_its_end() {
        let mut beats = OldBeats::default();
        let old = beat(Activity::Waiting, LOGGED_WAIT);
        let changes: Vec<_> = (0..CHECKS + 2).map(|_| beats.check(&old)).collect();
        assert_eq!(changes.iter().flatten().collect::<Vec<_>>(), [&LoopChange::Stopped]);
        assert_eq!(beats.check(&beat(Activity::Waiting, Duration::ZERO)), Some(LoopChange::RunsAgain));
        assert_eq!(beats.check(&beat(Activity::Waiting, Duration::ZERO)), None);
    }

    #[test]
    fn a_pause_of_the_machine_is_not_logged() {
        let mut beats = OldBeats::default();
        assert_eq!(beats.check(&beat(Activity::Waiting, 10 * LOGGED_WAIT)), None);
        assert_eq!(beats.check(&beat(Activity::Waiting, Duration::ZERO)), None);
    }

    #[test]
    fn work_may_take_longer_than_a_wait() {
        let mut beats = OldBeats::default();
        assert!((0..CHECKS).all(|_| beats.check(&beat(Activity::Translation, LOGGED_WORK / 2)).is_none()));
        assert!((0..CHECKS).any(|_| beats.check(&beat(Activity::Translation, LOGGED_WORK)).is_some()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_waiting_thread_is_shown_with_its_system_call() {
        let (_keep, end) = std::sync::mpsc::channel::<()>();
        thread::Builder::new().name("waits".into()).spawn(move || end.recv()).map(drop).unwrap_or_default();
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !threads().contains("waits S ") {
            assert!(std::time::Instant::now() < deadline, "{}", threads());
            thread::sleep(Duration::from_millis(10));
        }
    }
}
