//! Processes that need not be children: identified by process id and start time, so that a reused id is not mistaken.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Polling interval for the end of a process that is not a child.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The identity of a process: its id alone may later belong to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// Start time, in a form that depends on the operating system.
    pub started: String,
}

impl ProcessIdentity {
    /// The process with this id; `None` if there is none.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: started(pid)? })
    }

    /// Returns whether the process still runs.
    pub fn is_running(&self) -> bool {
        started(self.pid).as_ref() == Some(&self.started)
    }

    /// Waits until the process has ended.
    pub async fn ended(&self) {
        while self.is_running() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.is_running())
            && let Err(error) = kill_process(pid, signal)
        {
            let error = io::Error::from(error);
            tracing::debug!(pid = self.pid, %error, "cannot send a signal to a process");
        }
    }
}

/// Boot and start time of a process; `None` if there is none, or if it is a zombie.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any character.
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
    async fn a_process_is_identified_by_its_start_and_ends_on_sigterm() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        assert!(identity.is_running());
        assert!(!ProcessIdentity { started: "another".into(), ..identity.clone() }.is_running());
        identity.terminate();
        // The process is a zombie, and counts as ended.
        tokio::time::timeout(Duration::from_secs(20), identity.ended()).await.unwrap();
        child.wait().unwrap();
        assert_eq!(ProcessIdentity::of(identity.pid).filter(|now| *now == identity), None);
    }
}
