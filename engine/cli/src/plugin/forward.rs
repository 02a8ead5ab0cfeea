//! Ports of this host that kubectl forwards to a Pod, for as long as a command runs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::pods::PodName;
use super::{KUBECTL_MESSAGE_BYTES_MAX, PluginTarget, failure, signals};
use crate::failure::Failure;

/// Timeout of `kubectl port-forward` until the port is open.
const FORWARD_TIME_MAX: Duration = Duration::from_secs(30);

/// Timeout for the rest of the messages of a kubectl that has ended: a process that it started may keep them open.
const MESSAGES_TIME_MAX: Duration = Duration::from_secs(1);

/// A running `kubectl port-forward`; dropping it ends the process, and so does a signal that ends the plugin.
pub(super) struct PortForward {
    child: Arc<Mutex<Child>>,
    messages: Arc<Mutex<Vec<u8>>>,
    all_messages: mpsc::Receiver<()>,
    ports: Vec<u16>,
}

impl PortForward {
    /// Opens a free port for each of these ports of a Pod.
    ///
    /// # Errors
    /// Returns an error with the message of kubectl if it does not open them.
    pub(super) fn open(cluster: &PluginTarget, pod: &PodName, wanted: &[u16]) -> Result<Self, Failure> {
        let failed = |why: &str| failure(&format!("port-forward to Pod {}/{}", pod.namespace, pod.name), why);
        let mut kubectl = Command::new("kubectl");
        kubectl.args(cluster.of_kubectl()).arg(format!("--namespace={}", pod.namespace));
        kubectl.args(["port-forward", "--address=127.0.0.1", &format!("pod/{}", pod.name)]);
        kubectl.args(wanted.iter().map(|port| format!(":{port}")));
        let ended = signals::end_with_a_signal().map_err(|error| failed(&error.to_string()))?;
        let child = kubectl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| failed(&error.to_string()))?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let messages = Arc::<Mutex<Vec<u8>>>::default();
        let kept = messages.clone();
        let (all_read, all_messages) = mpsc::channel();
        errors.map(|errors| thread::spawn(move || keep(errors, &kept, all_read)));
        let child = Arc::new(Mutex::new(child));
        ended.kill(child.clone());
        let mut forward = Self { child, messages, all_messages, ports: Vec::new() };
        let opened = opened(output);
        let deadline = Instant::now() + FORWARD_TIME_MAX;
        let mut found = BTreeMap::new();
        while !wanted.iter().all(|port| found.contains_key(port)) {
            match opened.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((local, remote)) => drop(found.insert(remote, local)),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(failed(&format!("the ports are not open after 30 s\n{}", forward.messages())));
                }
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

    /// The messages of kubectl, which is ended first: it may have closed its output and run on.
    fn messages(&mut self) -> String {
        end(&self.child);
        // Nothing is ever sent: the other end is dropped with the last message.
        let _ = self.all_messages.recv_timeout(MESSAGES_TIME_MAX);
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&messages).into_owned()
    }
}

impl Drop for PortForward {
    fn drop(&mut self) {
        end(&self.child);
    }
}

/// Ends a process, which may have ended.
pub(super) fn end(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads messages to their end, so that kubectl never waits for a reader, and keeps the first ones. The sender is
/// dropped after the last one.
fn keep(mut errors: impl Read, kept: &Mutex<Vec<u8>>, _all_read: mpsc::Sender<()>) {
    let mut part = [0; 4096];
    while let Ok(count) = errors.read(&mut part) {
        if count == 0 {
            return;
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KUBECTL_MESSAGE_BYTES_MAX.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(part.get(..room).unwrap_or_default());
    }
}

/// The ports that kubectl opens, each with the port of the Pod. The sender ends with the output of kubectl, which is
/// read to its end.
fn opened(output: Option<impl Read + Send + 'static>) -> mpsc::Receiver<(u16, u16)> {
    let (ports, opened) = mpsc::channel();
    if let Some(output) = output {
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                // The receiver has the ports, or has given up.
                let _ = forwarded(&String::from_utf8_lossy(&line)).map(|port| ports.send(port));
            }
        });
    }
    opened
}

/// The ports in `Forwarding from 127.0.0.1:40001 -> 10256`.
fn forwarded(line: &str) -> Option<(u16, u16)> {
    let (from, to) = line.strip_prefix("Forwarding from ")?.split_once(" -> ")?;
    Some((from.rsplit_once(':')?.1.parse().ok()?, to.trim().parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_come_after_the_output_has_ended_are_kept() {
        let mut kubectl = Command::new("sh");
        // The shell ends; the process that it started has yet to print.
        kubectl.args(["-c", "(sleep 0.2; echo late >&2) & exec >&-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().unwrap();
        let errors = child.stderr.take().unwrap();
        child.wait().unwrap();
        let messages = Arc::<Mutex<Vec<u8>>>::default();
        let kept = messages.clone();
        let (all_read, all_messages) = mpsc::channel();
        thread::spawn(move || keep(errors, &kept, all_read));
        let child = Arc::new(Mutex::new(child));
        let mut forward = PortForward { child, messages, all_messages, ports: Vec::new() };
        assert_eq!(forward.messages(), "late\n");
    }

    #[test]
    fn both_ports_are_read() {
        assert_eq!(forwarded("Forwarding from 127.0.0.1:40001 -> 10256"), Some((40001, 10256)));
        assert_eq!(forwarded("Forwarding from [::1]:40002 -> 10255"), Some((40002, 10255)));
        assert_eq!(forwarded("Handling connection for 40001"), None);
        assert_eq!(forwarded("Forwarding from nowhere -> 1"), None);
    }
}
