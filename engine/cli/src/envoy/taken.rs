//! Ports of this host on which other processes listen. Envoy shares ports (SO_REUSEPORT), so without this check two
//! Holdfasts, or a leftover Envoy of another one, would each receive a part of the connections.
//!
//! Linux only (`/proc`); on other systems no port counts as taken.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holdfast_engine::engine::Event;
use holdfast_probe::envoy::record::EnvoyRecord;
use tokio::sync::mpsc;

/// Interval between two checks of the ports.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of sockets that are read; on a host with more of them the later ones are ignored.
const SOCKETS_MAX: usize = 65_536;
/// Maximum number of characters of a command line that are shown.
const COMMAND_CHARS_MAX: usize = 120;
/// The state of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// Sockets on which processes of others listen, each with a description of the process.
pub(crate) type TakenSockets = BTreeMap<SocketAddr, Arc<str>>;

/// Checks the ports periodically and reports each change, until `events` is closed. `now` is the last reported state.
pub(crate) fn watch(data: PathBuf, mut now: TakenSockets, events: mpsc::Sender<Vec<Event>>) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let folder = data.clone();
            let Ok(seen) = tokio::task::spawn_blocking(move || look(&folder)).await else { return };
            if seen != now {
                now.clone_from(&seen);
                if events.send(vec![Event::PortsTaken(seen)]).await.is_err() {
                    return;
                }
            }
            if events.is_closed() {
                return;
            }
        }
    });
}

/// Sockets of foreign processes on ports where this data folder has no Envoy, or only a younger one.
pub(crate) fn look(data: &Path) -> TakenSockets {
    let listening = listening();
    let own = own(data);
    let mut own_sockets: BTreeMap<SocketAddr, u64> = BTreeMap::new();
    let mut foreign = Vec::new();
    for (address, inode) in listening {
        match own.get(&inode) {
            Some(started) => {
                let first = own_sockets.entry(address).or_insert(*started);
                *first = (*first).min(*started);
            }
            None => foreign.push((address, inode)),
        }
    }
    if foreign.is_empty() {
        return TakenSockets::new();
    }
    let wanted: BTreeSet<u64> = foreign.iter().map(|(_, inode)| *inode).collect();
    let owners = owners(&wanted);
    let mut taken = TakenSockets::new();
    for (address, inode) in foreign {
        let owner = owners.get(&inode);
        // If two processes share a port, only the younger one counts as the conflict.
        let own = own_sockets.iter().filter(|(own, _)| meets(**own, address)).map(|(_, started)| *started).min();
        if own.is_some_and(|own| owner.is_none_or(|owner| own <= owner.started)) {
            continue;
        }
        let process = owner.map_or_else(|| "a process of another user".into(), |owner| owner.description.clone());
        taken.entry(address).or_insert(process);
    }
    taken
}

/// Returns whether a connection to one address may also reach the other.
pub(crate) fn meets(one: SocketAddr, other: SocketAddr) -> bool {
    let any = |address: IpAddr| address.is_unspecified();
    one.port() == other.port() && (one.ip() == other.ip() || any(one.ip()) || any(other.ip()))
}

/// Sockets in the state LISTEN, with their inodes.
fn listening() -> Vec<(SocketAddr, u64)> {
    let files = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    texts.flat_map(|text| text.lines().filter_map(line).collect::<Vec<_>>()).take(SOCKETS_MAX).collect()
}

/// Parses a line of `/proc/net/tcp`: number, local address, remote address, state, … and the inode as the tenth field.
fn line(line: &str) -> Option<(SocketAddr, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let (local, state) = (fields.nth(1)?, fields.nth(1)?);
    if state != LISTENS {
        return None;
    }
    let inode = fields.nth(5)?;
    let (address, port) = local.split_once(':')?;
    Some((SocketAddr::new(ip(address)?, u16::from_str_radix(port, 16).ok()?), inode.parse().ok()?))
}

/// Parses an address in the kernel's form: words of 32 bits in the byte order of the host.
fn ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            let address = Ipv6Addr::from(bytes);
            Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4))
        }
        _ => None,
    }
}

/// The sockets of this Holdfast and of its Envoys, each with the start time of its process. An Envoy is a child of this
/// process, or an earlier run recorded it in the data folder. An Envoy of a run with a removed data folder is neither:
/// this run does not end it.
fn own(data: &Path) -> BTreeMap<u64, u64> {
    let folders = fs::read_dir(data.join("envoys")).into_iter().flatten().flatten();
    let records = folders.filter_map(|folder| EnvoyRecord::of_running(&folder.path()));
    let recorded: BTreeSet<u32> = records.map(|record| record.process.pid).collect();
    let this = std::process::id();
    let is_own = |pid: &u32| *pid == this || recorded.contains(pid) || parent(*pid) == Some(this);
    pids().filter(is_own).flat_map(|pid| sockets(pid).into_iter().map(move |inode| (inode, started(pid)))).collect()
}

/// A process that owns a socket.
struct SocketOwner {
    started: u64,
    description: Arc<str>,
}

/// The processes that own these sockets, as far as they can be read.
fn owners(wanted: &BTreeSet<u64>) -> BTreeMap<u64, SocketOwner> {
    let mut owners = BTreeMap::new();
    for pid in pids() {
        for inode in sockets(pid).into_iter().filter(|inode| wanted.contains(inode)) {
            owners.entry(inode).or_insert_with(|| SocketOwner { started: started(pid), description: description(pid) });
        }
    }
    owners
}

/// The processes of the host.
fn pids() -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

/// The sockets of a process, by inode.
fn sockets(pid: u32) -> Vec<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let inode = |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    links.filter_map(inode).collect()
}

/// The start time of a process, in ticks since the start of the host.
fn started(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
    field.and_then(|field| field.parse().ok()).unwrap_or(u64::MAX)
}

/// The parent of a process: the one that started it, or that adopted it since.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// `process 4711 (envoy --config-path …)`.
fn description(pid: u32) -> Arc<str> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let line: String = line.trim().chars().filter(|c| !c.is_control()).take(COMMAND_CHARS_MAX).collect();
    format!("process {pid} ({line})").into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let text =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0";
        assert_eq!(line(text), Some(("127.0.0.1:8080".parse().unwrap(), 12345)));
        assert_eq!(line(&text.replace(" 0A ", " 01 ")), None, "a connection is no listener");
        assert_eq!(line("  sl  local_address rem_address   st"), None);
        assert_eq!(ip("00000000000000000000000001000000"), Some("::1".parse().unwrap()));
        assert_eq!(ip("0000000000000000FFFF00000100007F"), Some("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn addresses_that_meet() {
        let meets = |one: &str, other: &str| meets(one.parse().unwrap(), other.parse().unwrap());
        assert!(meets("127.0.0.1:80", "127.0.0.1:80") && meets("0.0.0.0:80", "127.0.0.1:80"));
        assert!(!meets("127.0.0.1:80", "127.0.0.2:80") && !meets("127.0.0.1:80", "127.0.0.1:81"));
    }

    #[test]
    fn a_socket_of_this_process_is_not_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, data) = (listener.local_addr().unwrap(), tempfile::tempdir().unwrap());
        assert!(listening().iter().any(|(listening, _)| *listening == address));
        assert_eq!(look(data.path()).get(&address), None);
    }
}
