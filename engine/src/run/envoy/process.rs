//! Processes that are not only children: known by number and start, so that a number used again is not mistaken.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// How often a process that is not a child is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Which process: its number alone may belong to another one tomorrow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// When it started, in whatever form the system tells it.
    pub started: String,
}

impl Identity {
    /// The process with this id; `None` where there is none.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: started(pid)? })
    }

    /// Does it still run?
    pub fn is_running(&self) -> bool {
        started(self.pid).as_ref() == Some(&self.started)
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        while self.is_running() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.is_running())
            && let Err(error) = kill_process(pid, signal)
        {
            let error = io::Error::from(error);
            tracing::debug!(pid = self.pid, %error, "cannot be signalled");
        }
    }
}

/// Boot and start time of a process; `None` where there is none, or it has ended and only waits to be collected.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let (state, start) = (fields.first()?, fields.get(19)?);
    if matches!(*state, "Z" | "X") {
        return None;
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Some(format!("{}/{start}", boot.trim()))
}

#[cfg(not(target_os = "linux"))]
fn started(pid: u32) -> Option<String> {
    let output =
        std::process::Command::new("ps").args(["-o", "stat=,lstart=", "-p", &pid.to_string()]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (state, start) = text.split_once(char::is_whitespace)?;
    (!state.starts_with('Z')).then(|| start.trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_known_by_its_start_and_ends_when_asked() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        assert!(identity.is_running());
        assert!(!Identity { started: "another".into(), ..identity.clone() }.is_running());
        identity.terminate();
        // Not collected yet: it has ended all the same.
        tokio::time::timeout(Duration::from_secs(20), identity.ended()).await.unwrap();
        child.wait().unwrap();
        assert_eq!(Identity::of(identity.pid).filter(|now| *now == identity), None);
    }
}
