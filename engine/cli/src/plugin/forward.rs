//! Ports of this host that kubectl forwards to a Pod, for as long as a command runs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::PluginTarget;
use super::pods::PodName;
use crate::failure::Failure;
use crate::printable::printable;

/// Timeout of `kubectl port-forward` until the port is open.
const FORWARD_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum number of bytes of its messages that are kept.
const FORWARD_MESSAGE_BYTES_MAX: u64 = 4096;

/// A running `kubectl port-forward`; dropping it ends the process.
pub(super) struct PortForward {
    child: Child,
    ports: Vec<u16>,
}

impl PortForward {
    /// Opens a free port for each of these ports of a Pod.
    ///
    /// # Errors
    /// Returns an error with the message of kubectl if it does not open them.
    pub(super) fn open(cluster: &PluginTarget, pod: &PodName, wanted: &[u16]) -> Result<Self, Failure> {
        let failed = |why: &str| {
            let why = printable(why.trim_end(), |character| character == '\n');
            Failure::Undetermined(format!("kubectl port-forward to Pod {}/{}: {why}", pod.namespace, pod.name))
        };
        let mut kubectl = Command::new("kubectl");
        kubectl.args(cluster.of_kubectl()).arg(format!("--namespace={}", pod.namespace));
        kubectl.args(["port-forward", "--address=127.0.0.1", &format!("pod/{}", pod.name)]);
        kubectl.args(wanted.iter().map(|port| format!(":{port}")));
        let child = kubectl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut forward = Self { child: child.map_err(|error| failed(&error.to_string()))?, ports: Vec::new() };
        let opened = forward.opened();
        let deadline = Instant::now() + FORWARD_TIME_MAX;
        let mut found = BTreeMap::new();
        while !wanted.iter().all(|port| found.contains_key(port)) {
            match opened.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((local, remote)) => drop(found.insert(remote, local)),
                Err(RecvTimeoutError::Timeout) => return Err(failed("the ports are not open after 30 s")),
                Err(RecvTimeoutError::Disconnected) => return Err(failed(&forward.messages())),
            }
        }
        forward.ports = wanted.iter().filter_map(|port| found.get(port).copied()).collect();
        Ok(forward)
    }

    /// The ports of this host, in the order of the wanted ones.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// The ports that kubectl opens, each with the port of the Pod. The sender ends with the output of kubectl.
    fn opened(&mut self) -> mpsc::Receiver<(u16, u16)> {
        let (ports, opened) = mpsc::channel();
        if let Some(output) = self.child.stdout.take() {
            // The thread also reads later output, so that kubectl never waits for a reader.
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    // The receiver has the ports, or has given up.
                    let _ = forwarded(&line).map(|port| ports.send(port));
                }
            });
        }
        opened
    }

    /// The messages of a kubectl that has ended.
    fn messages(&mut self) -> String {
        let mut messages = Vec::new();
        if let Some(errors) = self.child.stderr.take() {
            // What could not be read is missing in the message.
            let _ = errors.take(FORWARD_MESSAGE_BYTES_MAX).read_to_end(&mut messages);
        }
        String::from_utf8_lossy(&messages).into_owned()
    }
}

impl Drop for PortForward {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The ports in `Forwarding from 127.0.0.1:40001 -> 10256`.
fn forwarded(line: &str) -> Option<(u16, u16)> {
    let (from, to) = line.strip_prefix("Forwarding from ")?.split_once(" -> ")?;
    Some((from.rsplit_once(':')?.1.parse().ok()?, to.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ports_are_read() {
        assert_eq!(forwarded("Forwarding from 127.0.0.1:40001 -> 10256"), Some((40001, 10256)));
        assert_eq!(forwarded("Forwarding from [::1]:40002 -> 10255"), Some((40002, 10255)));
        assert_eq!(forwarded("Handling connection for 40001"), None);
        assert_eq!(forwarded("Forwarding from nowhere -> 1"), None);
    }
}
