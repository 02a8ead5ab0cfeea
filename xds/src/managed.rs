//! Managed Envoys, which Holdfast starts itself, apart from clients that only claim to be one.
//!
//! A client without credentials can claim every `node.id` and every build, and the answers of an Envoy decide what is
//! served to its build. Managed Envoys therefore have a unix socket of their own
//! ([`Bound::with_managed_socket`](crate::Bound::with_managed_socket)), and the socket of a connection, no claim, decides
//! whether its client is managed. On the TCP socket of such a server:
//!
//! - The node id of a managed Envoy is refused: otherwise two Envoys would share an id, and states are kept by id. No
//!   Envoy of a user has this id, unless it was configured to have it.
//! - Other clients are served, as Envoys of [`UNMANAGED_BUILD`], whatever they report. Verdicts, trials and last valid
//!   versions are those of a build, so no answer of such a client is evidence about a managed Envoy. It is one build for
//!   all of them: the number of builds with verdicts of their own is limited, and Envoys of more builds share the
//!   verdicts of the first.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{debug, warn};

use crate::identity::IdentityError;

/// The build of all clients of the TCP socket, where managed Envoys have a socket of their own. No Envoy reports it.
pub const UNMANAGED_BUILD: &str = "unmanaged";

/// Interval of warnings about clients that claim to be a managed Envoy, all clients together.
const CLAIMS_LOGGED_EVERY: Duration = Duration::from_secs(30);

/// Returns the `node.id` of the managed Envoy of a fleet.
pub fn managed_node_id(fleet: &str) -> String {
    format!("{}-managed", fleet.replace('/', "-"))
}

/// Refused claims to be a managed Envoy; clones share the same state.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManagedClaims(Arc<Mutex<Option<Duration>>>);

impl ManagedClaims {
    /// Logs a claim: as a warning, unless there was one shortly before. `now` is the time since 1970.
    pub(crate) fn log(&self, node: &str, fleet: &str, now: Duration) {
        let error = IdentityError::Managed;
        if self.is_due(now) {
            warn!(
                node, fleet, %error,
                "refused a client of the TCP address of the xDS server: it claims to be a managed Envoy. Set another \
                 node.id if it is your own Envoy; otherwise end the process that connects"
            );
        } else {
            debug!(node, fleet, %error, "stream refused");
        }
    }

    fn is_due(&self, now: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.abs_diff(last) >= CLAIMS_LOGGED_EVERY);
        *last = if is_due { Some(now) } else { *last };
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_rare() {
        let (claims, now) = (ManagedClaims::default(), Duration::from_secs(1_000_000));
        assert!(claims.is_due(now));
        assert!(!claims.clone().is_due(now + CLAIMS_LOGGED_EVERY / 2));
        assert!(claims.is_due(now + CLAIMS_LOGGED_EVERY));
        assert!(!claims.is_due(now + CLAIMS_LOGGED_EVERY));
        assert!(claims.is_due(now - CLAIMS_LOGGED_EVERY), "the clock was set back");
    }
}
