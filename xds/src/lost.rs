//! Removal of the file of a unix socket while the server runs. Clients no longer find the socket, and the server is not
//! notified: so the file is checked regularly, and the socket is created again.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::limits::SOCKET_LOOKED_AT;
use crate::listen::{OwnedPath, SocketFile, bind_again};

/// Whether clients can reach the server. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Reachable(Arc<Mutex<ReachableState>>);

#[derive(Debug, Default)]
struct ReachableState {
    /// The file of the socket; unset where there is none.
    file: Option<SocketFile>,
    /// The reason why the socket could not be created again; unset where the socket is there, or was not missed yet.
    failure: Option<String>,
}

impl Reachable {
    /// Returns the reason why no client can connect now, or `None` where clients can. Checks the file.
    pub fn failure(&self) -> Option<String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let file = state.file.as_ref().filter(|file| !file.is_there())?;
        let path = file.path().display();
        Some(match &state.failure {
            Some(why) => format!("the socket {path} was removed, and cannot be created again: {why}"),
            None => format!("the socket {path} was removed, and will be created again"),
        })
    }

    pub(crate) fn is_at(&self, file: SocketFile) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ReachableState { file: Some(file), failure: None };
    }

    /// Records that the server has ended; the file is removed with it.
    pub(crate) fn ends(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ReachableState::default();
    }

    /// Records a failure; returns whether it is a new one.
    fn fails(&self, why: &str) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = state.failure.as_deref() != Some(why);
        state.failure = Some(why.to_owned());
        is_new
    }
}

/// A socket with its file.
struct Door {
    listener: UnixListener,
    file: OwnedPath,
    reachable: Reachable,
    looks: Interval,
}

/// Returns the connections to a socket, which is created again whenever its file is gone.
pub(crate) fn connections(
    listener: UnixListener,
    file: OwnedPath,
    reachable: Reachable,
) -> impl Stream<Item = io::Result<UnixStream>> {
    let mut looks = interval(SOCKET_LOOKED_AT);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    futures::stream::unfold(Door { listener, file, reachable, looks }, |mut door| async move {
        loop {
            tokio::select! {
                accepted = door.listener.accept() => return Some((accepted.map(|(stream, _)| stream), door)),
                _ = door.looks.tick() => door.look().await,
            }
        }
    })
}

impl Door {
    async fn look(&mut self) {
        if self.file.0.is_there() {
            return;
        }
        let path = self.file.0.path().to_owned();
        let shown = path.display().to_string();
        // This may wait for another process that has a socket there.
        let made = tokio::task::spawn_blocking(move || bind_again(&path)).await;
        let why = match made {
            Ok(Ok((listener, file))) => {
                self.reachable.is_at(file.0.clone());
                (self.listener, self.file) = (listener, file);
                return tracing::warn!(path = shown, "the socket of the xDS server was removed, and was created again");
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        if self.reachable.fails(&why) {
            tracing::error!(path = shown, why, "the socket of the xDS server was removed, and cannot be created again");
        }
    }
}
