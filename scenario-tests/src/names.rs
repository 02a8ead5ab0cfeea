//! A DNS server on loopback with the answers of a story, with several addresses per name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// Maximum length of a query over UDP in bytes.
const QUESTION_MAX: usize = 512;
/// Length of the message header in bytes.
const HEAD: usize = 12;
/// The supported record type and class.
const A: [u8; 2] = [0, 1];
const INTERNET: [u8; 2] = [0, 1];

/// Answers by name; names in lower case.
pub type DnsAnswers = BTreeMap<String, Vec<Ipv4Addr>>;

/// A DNS server.
#[derive(Debug)]
pub struct NameServer {
    /// The listen address.
    pub address: SocketAddr,
    queried: Arc<Mutex<BTreeSet<String>>>,
    serving: JoinHandle<()>,
}

impl NameServer {
    /// Starts a server that knows these names only.
    pub async fn start(answers: DnsAnswers) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = socket.local_addr()?;
        let queried = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = queried.clone();
        let serving = tokio::spawn(async move {
            let mut question = [0; QUESTION_MAX];
            while let Ok((count, from)) = socket.recv_from(&mut question).await {
                let Some((name, reply)) = answer(question.get(..count).unwrap_or_default(), &answers) else { continue };
                noted.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
                if socket.send_to(&reply, from).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self { address, queried, serving })
    }

    /// The names in the queries so far.
    pub fn queried(&self) -> BTreeSet<String> {
        self.queried.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns the name in a query and the response.
fn answer(question: &[u8], answers: &DnsAnswers) -> Option<(String, Vec<u8>)> {
    let mut labels = Vec::new();
    let mut rest = question.get(HEAD..)?;
    loop {
        let (length, after) = rest.split_first()?;
        if *length == 0 {
            rest = after;
            break;
        }
        let (label, after) = after.split_at_checked(usize::from(*length))?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        rest = after;
    }
    let name = labels.join(".");
    let (kind, class) = (rest.get(..2)?, rest.get(2..4)?);
    let known = answers.get(&name);
    let addresses = known.filter(|_| kind == A && class == INTERNET).map(Vec::as_slice).unwrap_or_default();
    let section = question.get(HEAD..question.len() - rest.len() + 4)?;
    // A response with recursion available; NXDOMAIN where the name is unknown.
    let mut reply = [question.get(..2)?, &[0x81, if known.is_some() { 0x80 } else { 0x83 }]].concat();
    let count = u16::try_from(addresses.len()).ok()?.to_be_bytes();
    reply.extend([&[0, 1], &count[..], &[0, 0, 0, 0]].concat());
    reply.extend(section);
    for address in addresses {
        // The record: a pointer to the name in the question, a TTL of one second.
        reply.extend([&[0xc0, 0x0c], &A[..], &INTERNET, &[0, 0, 0, 1, 0, 4], &address.octets()].concat());
    }
    Some((name, reply))
}
