//! Datagrams: a backend that answers each with its name, and clients that send again when no answer comes.
//!
//! UDP may lose a datagram. A lost datagram is sent again, so that stories only assert which backend answers, if any.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::manifests::SERVICE_PORT;
use crate::wait::until;

/// Wait for one answer.
const ANSWER_MAX: Duration = Duration::from_millis(300);
/// Attempts of which none is answered where datagrams are dropped.
const ATTEMPTS: usize = 4;
/// Attempts of a client that expects an answer.
const ATTEMPTS_MAX: usize = 40;
/// Pause between two datagrams of one client.
const REST: Duration = Duration::from_millis(10);
/// Bytes of the longest datagram.
const BYTES_MAX: usize = 65_535;

/// A backend that answers each datagram with its name, a space, and the datagram. It ends when it is dropped.
#[derive(Debug)]
pub struct DatagramEcho {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl DatagramEcho {
    /// Starts a backend on a free port.
    pub async fn start(name: &str) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, name) = (socket.local_addr()?, name.to_owned());
        let task = tokio::spawn(async move {
            let mut bytes = vec![0; BYTES_MAX];
            loop {
                let Ok((length, from)) = socket.recv_from(&mut bytes).await else { continue };
                let answer = [name.as_bytes(), b" ", bytes.get(..length).unwrap_or_default()].concat();
                let _ = socket.send_to(&answer, from).await;
            }
        });
        Ok(Self { address, task })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for DatagramEcho {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a Service with a port of protocol UDP and these addresses, all on loopback.
pub fn service(namespace: &str, name: &str, addresses: &[SocketAddr]) -> String {
    let service = crate::manifests::service(namespace, name, None, addresses);
    let port = format!("port: {SERVICE_PORT}\n");
    let with_protocol = format!("{port}    protocol: UDP\n");
    service.replace(&port, &with_protocol).replace("protocol: TCP", "protocol: UDP")
}

/// A client with a port of its own. Envoy has one session for it.
#[derive(Debug)]
pub struct DatagramClient {
    socket: UdpSocket,
}

impl DatagramClient {
    /// Returns a client of a port on loopback.
    pub async fn new(port: u16) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        socket.connect((Ipv4Addr::LOCALHOST, port)).await?;
        Ok(Self { socket })
    }

    /// Sends one datagram of this length and returns the backend that answers, with the length of what it received;
    /// `None` without an answer.
    pub async fn send(&self, length: usize) -> Result<Option<(String, usize)>> {
        let mut bytes = vec![0; BYTES_MAX];
        // The answer to an earlier datagram, or an error of it, is not the answer to this one.
        while self.socket.try_recv(&mut bytes).is_ok() {}
        let _ = self.socket.send(&vec![b'x'; length]).await;
        let Ok(Ok(received)) = timeout(ANSWER_MAX, self.socket.recv(&mut bytes)).await else { return Ok(None) };
        let answer = String::from_utf8_lossy(bytes.get(..received).unwrap_or_default()).into_owned();
        let (name, rest) = answer.split_once(' ').unwrap_or((&answer, ""));
        Ok(Some((name.to_owned(), rest.len())))
    }

    /// Sends datagrams until one is answered, and returns the backend.
    pub async fn query(&self) -> Result<Option<String>> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some((name, _)) = self.send(1).await? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

/// Waits until this backend answers the datagrams of a new client.
pub async fn comes_to_reach(port: u16, name: &str) -> Result<()> {
    until(&format!("{name} answers at port {port}"), || async {
        let answer = DatagramClient::new(port).await?.send(1).await?;
        ensure!(answer.as_ref().is_some_and(|(found, _)| found == name), "the answer is {answer:?}");
        Ok(())
    })
    .await
}

/// Waits until no backend answers the datagrams of new clients.
pub async fn comes_to_drop(port: u16) -> Result<()> {
    until(&format!("datagrams to port {port} are dropped"), || async {
        for _ in 0..ATTEMPTS {
            let answer = DatagramClient::new(port).await?.send(1).await?;
            ensure!(answer.is_none(), "the answer is {answer:?}");
        }
        Ok(())
    })
    .await
}

/// Returns the number of answers of each backend to one datagram each of new clients; the empty name counts datagrams
/// without an answer.
pub async fn answers(port: u16, clients: usize) -> Result<BTreeMap<String, usize>> {
    let mut tasks = Vec::new();
    for _ in 0..clients {
        let client = DatagramClient::new(port).await?;
        tasks.push(tokio::spawn(async move { client.send(1).await }));
        // A burst of datagrams would exceed the buffers of sockets.
        sleep(Duration::from_millis(2)).await;
    }
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for task in tasks {
        let name = task.await??.map(|(name, _)| name).unwrap_or_default();
        *found.entry(name).or_default() += 1;
    }
    Ok(found)
}

/// How often a port was answered by a backend, or by none.
type Answered = BTreeMap<(u16, Option<String>), u64>;

/// Clients that send datagrams continuously and record which backends answer, each client until it has an answer.
#[derive(Debug)]
pub struct DatagramHammer {
    seen: Arc<Mutex<Answered>>,
    stop: Arc<AtomicBool>,
    hands: Vec<JoinHandle<Result<()>>>,
}

impl DatagramHammer {
    /// Starts a client in turn for each port, each time with a new session.
    pub fn start(ports: impl IntoIterator<Item = u16>) -> Self {
        let seen: Arc<Mutex<Answered>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let hand = |port| {
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let client = DatagramClient::new(port).await?;
                    let mut answer = None;
                    // Once stopped, a client no longer waits for an answer that may never come.
                    for _ in 0..ATTEMPTS_MAX {
                        answer = client.send(1).await?.map(|(name, _)| name);
                        if answer.is_some() || stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    if answer.is_some() || !stop.load(Ordering::Relaxed) {
                        *seen.lock().unwrap_or_else(PoisonError::into_inner).entry((port, answer)).or_default() += 1;
                    }
                    sleep(REST).await;
                }
                Ok(())
            })
        };
        let hands = ports.into_iter().map(hand).collect();
        Self { seen, stop, hands }
    }

    /// Stops, and fails unless each port was answered by this backend only. A datagram without an answer is allowed
    /// where the second value is set.
    pub async fn stop_expecting(mut self, ports: &[(u16, &str, bool)]) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for hand in self.hands.drain(..) {
            hand.await??;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (port, name, may_be_dropped) in ports {
            let own: Vec<_> = seen.iter().filter(|((of, _), _)| of == port).collect();
            let is_expected = |answer: &Option<String>| match answer {
                Some(found) => found == name,
                None => *may_be_dropped,
            };
            ensure!(own.iter().all(|((_, answer), _)| is_expected(answer)), "port {port} of {name}: {own:?}");
            ensure!(own.iter().any(|((_, answer), _)| answer.is_some()), "port {port} of {name}: no answer at all");
        }
        Ok(())
    }
}

impl Drop for DatagramHammer {
    fn drop(&mut self) {
        for hand in &self.hands {
            hand.abort();
        }
    }
}
