//! Check whether this process may bind ports below 1024.

use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};

/// The offset that is added to ports below 1024 if they may not be bound.
pub const LOW_PORT_SHIFT: u16 = 10_000;
/// Ports that are tried: rarely used ones, so that at least one is free.
const TRIED: [u16; 4] = [1023, 1011, 997, 983];

/// Returns 0 if low ports may be bound, else [`LOW_PORT_SHIFT`].
pub fn low_port_shift(address: IpAddr) -> u16 {
    for port in TRIED {
        match TcpListener::bind((address, port)) {
            Ok(_) => return 0,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return LOW_PORT_SHIFT,
            Err(_) => {}
        }
    }
    0
}
