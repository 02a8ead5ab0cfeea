//! File descriptors: the limit of this process, and its shares.
//!
//! Connections have fixed shares, so that the remaining descriptors are always available for the product's own work:
//! manifests, the store, the probe and the Envoys that it starts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::admin::ConnectionLimits;

/// Maximum number of connections of one listener of pages.
pub(crate) const PAGES_CONNECTIONS_MAX: usize = 256;
/// The number of descriptors that is assumed if there is no limit, or it cannot be read.
const UNLIMITED: u64 = 1 << 20;

/// The shares of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Connections of each listener of pages.
    pub pages: ConnectionLimits,
    /// Connections of the xDS server.
    pub xds: usize,
}

impl Shares {
    /// Divides a number of descriptors: a sixteenth for each of the three listeners of pages, half for the xDS server,
    /// and the rest, at least five sixteenths, for the product itself.
    pub(crate) fn of(descriptors: u64) -> Self {
        let all = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let pages = (all / 16).clamp(1, PAGES_CONNECTIONS_MAX);
        Self { pages: ConnectionLimits { all: pages, per_peer: (pages / 2).max(1) }, xds: (all / 2).max(1) }
    }
}

/// Raises the limit of this process as far as allowed, and divides the descriptors.
pub(crate) fn divided() -> Shares {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        tracing::warn!(
            ?current,
            ?maximum,
            "cannot raise the limit of open files (RLIMIT_NOFILE): fewer Envoys can connect"
        );
    }
    Shares::of(getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_keeps_five_sixteenths() {
        for descriptors in [64, 256, 1024, 4096, 65_536, 1 << 20] {
            let shares = Shares::of(descriptors);
            let taken = 3 * shares.pages.all + shares.xds;
            assert!(taken as u64 <= descriptors * 11 / 16, "{descriptors}: {shares:?}");
        }
        assert_eq!(Shares::of(1024), Shares { pages: ConnectionLimits { all: 64, per_peer: 32 }, xds: 512 });
        assert_eq!(Shares::of(1 << 20).pages, ConnectionLimits { all: 256, per_peer: 128 });
    }
}
