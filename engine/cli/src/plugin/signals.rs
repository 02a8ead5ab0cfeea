//! Signals that end the plugin: they end kubectl, too, which would keep its port open.

use std::io;
use std::process::{Child, exit};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use super::forward::end;

/// Receives the process that a signal ends.
pub(super) struct EndedProcess(mpsc::Sender<Arc<Mutex<Child>>>);

impl EndedProcess {
    /// Sets the process.
    pub(super) fn kill(&self, child: Arc<Mutex<Child>>) {
        // The thread lives as long as this process.
        let _ = self.0.send(child);
    }
}

/// Handles the signals from now on: they end the set process, and then this one.
///
/// # Errors
/// Returns an error if signals cannot be handled.
pub(super) fn end_with_a_signal() -> io::Result<EndedProcess> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (children, child) = mpsc::channel::<Arc<Mutex<Child>>>();
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || {
        let code = runtime.block_on(async {
            let listen = |kind| signal(kind).map_err(|error| ready.send(Err(error))).ok();
            let (Some(mut interrupt), Some(mut terminate), Some(mut hangup)) =
                (listen(SignalKind::interrupt()), listen(SignalKind::terminate()), listen(SignalKind::hangup()))
            else {
                return None;
            };
            // The receiver waits for this.
            let _ = ready.send(Ok(()));
            // The exit codes of shells: 128 and the number of the signal.
            tokio::select! {
                _ = interrupt.recv() => Some(130),
                _ = terminate.recv() => Some(143),
                _ = hangup.recv() => Some(129),
            }
        });
        if let Some(code) = code {
            child.try_iter().for_each(|child| end(&child));
            exit(code);
        }
    });
    is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("signals cannot be handled")))?;
    Ok(EndedProcess(children))
}
