//! Free loopback ports that stay free until they are used.
//!
//! Envoy binds with SO_REUSEPORT, so the Envoys of two test runs could share a port unnoticed. A story therefore claims
//! a port by binding the UDP port of the same number until it ends; this does not prevent a TCP server from using the
//! port, but prevents every other story, of any process, from claiming it. Where Envoy binds the UDP port, the TCP port is
//! bound instead, with SO_REUSEPORT and without accepting connections, so that Envoy may bind both. Ports are taken below
//! the range from which the kernel takes local ports of connections.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};
use tokio::net::TcpSocket;

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
    _claim: Claim,
}

/// A socket that no other story can bind.
#[derive(Debug)]
enum Claim {
    Udp { _socket: UdpSocket },
    Tcp { _socket: TcpSocket },
}

impl ClaimedPort {
    /// Claims a port that is free for TCP.
    ///
    /// # Errors
    /// If no port of the range is free.
    pub fn claim() -> Result<Self> {
        Self::claim_with(|_, udp| Some(Claim::Udp { _socket: udp }))
    }

    /// Claims a port that is free for TCP and UDP.
    ///
    /// # Errors
    /// If no port of the range is free.
    pub fn claim_both() -> Result<Self> {
        Self::claim_with(|number, udp| {
            let socket = TcpSocket::new_v4().ok()?;
            socket.set_reuseport(true).ok()?;
            socket.bind((Ipv4Addr::LOCALHOST, number).into()).ok()?;
            drop(udp);
            Some(Claim::Tcp { _socket: socket })
        })
    }

    fn claim_with(claimed: impl Fn(u16, UdpSocket) -> Option<Claim>) -> Result<Self> {
        let start = std::process::id().wrapping_mul(37);
        for _ in 0..COUNT {
            let candidate = FIRST + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
            let number = u16::try_from(candidate)?;
            if number == READY {
                continue;
            }
            let Ok(udp) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
                && TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).is_ok()
                && let Some(claim) = claimed(number, udp)
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
