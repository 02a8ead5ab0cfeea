//! Free loopback ports that stay free until they are used.
//!
//! Envoy binds with SO_REUSEPORT, so the Envoys of two test runs could share a port unnoticed. A story therefore claims
//! a port by binding the UDP port of the same number until it ends; this does not prevent a TCP server from using the
//! port, but prevents every other story, of any process, from claiming it. Ports are taken below the range from which
//! the kernel takes local ports of connections.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

/// The first candidate and the number of candidates.
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;
/// The readiness port of the Envoys that Holdfast creates in a cluster, which is fixed: stories of such Envoys bind it.
const READY: u16 = 19_001;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port of 127.0.0.1 without a listener, claimed until the value is dropped.
#[derive(Debug)]
pub struct ClaimedPort {
    number: u16,
    _claim: UdpSocket,
}

impl ClaimedPort {
    /// Claims a free port.
    ///
    /// # Errors
    /// If no port of the range is free.
    pub fn claim() -> Result<Self> {
        let start = std::process::id().wrapping_mul(37);
        for _ in 0..COUNT {
            let candidate = FIRST + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
            let number = u16::try_from(candidate)?;
            if number == READY {
                continue;
            }
            let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
                && TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).is_ok()
            {
                return Ok(Self { number, _claim: claim });
            }
        }
        bail!("no free port between {FIRST} and {}", FIRST + COUNT)
    }

    /// The port number.
    pub fn number(&self) -> u16 {
        self.number
    }
}
