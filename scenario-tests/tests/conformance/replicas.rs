//! The variant with two replicas: while the suite runs, the leader gets SIGKILL once and SIGTERM once, and a client of a
//! Gateway beside the suite gets an answer to each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::kubernetes::node::Signals;
use holdfast_scenario_tests::until;
use http_body_util::Full;
use hyper::Request;
use hyper::header::HOST;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinHandle;

use super::installed::NAMESPACE;
use super::variant::{OTHERS, served_host};

/// The signals for the leader, each with the number of tests that have begun before it.
const SIGNALS: [(usize, &str); 2] = [(65, "KILL"), (100, "TERM")];
/// Pause between two requests of the client.
const REST: Duration = Duration::from_millis(50);
/// Maximum duration of a request.
const REQUEST_MAX: Duration = Duration::from_secs(5);

/// What happens to the replicas during the run.
#[derive(Debug)]
pub(super) struct Replicas {
    signals: Signals,
    client: ServedClient,
    /// The holder of the Lease before each signal.
    before: Vec<String>,
}

impl Replicas {
    /// Starts when the Gateway beside the suite serves its route.
    pub(super) async fn start(cluster: &Cluster, signals: Signals) -> Result<Self> {
        let address = until("the Gateway beside the suite has an address", || async {
            let path = "jsonpath={.status.addresses[0].value}";
            let address = cluster.kubectl_output(&["get", "gateway", "others", "-n", OTHERS, "-o", path]).await?;
            ensure!(!address.is_empty(), "it has none");
            Ok(address)
        })
        .await?;
        until("the route beside the suite is served", || request(&address)).await?;
        Ok(Self { signals, client: ServedClient::start(address), before: Vec::new() })
    }

    /// Sends the next signal to the leader if enough tests have begun.
    pub(super) async fn note(&mut self, cluster: &Cluster, begun: usize) -> Result<()> {
        let Some((_, signal)) = SIGNALS.get(self.before.len()).filter(|(number, _)| begun >= *number) else {
            return Ok(());
        };
        let holder = holder(cluster).await?;
        let pods = cluster.kubectl_output(&["get", "pods", "-n", NAMESPACE, "-o", "name"]).await?;
        let mut names = pods.lines().filter_map(|line| line.strip_prefix("pod/"));
        let pod = names.find(|name| holder.starts_with(name)).with_context(|| format!("{holder} is none of {pods}"))?;
        eprintln!("SIG{signal} for the leader {holder}, when {begun} tests have begun");
        self.signals.send(pod, "holdfast", signal);
        self.before.push(holder);
        Ok(())
    }

    /// Fails unless another replica has led after each signal, and each request of the client was answered.
    pub(super) async fn check(self, cluster: &Cluster) -> Result<()> {
        ensure!(self.before.len() == SIGNALS.len(), "the suite ended before the signals for the leader");
        let leaders = [&self.before[..], &[holder(cluster).await?]].concat();
        let stayed = leaders.windows(2).find(|pair| pair[0] == pair[1]);
        ensure!(stayed.is_none(), "the leader stayed after a signal: {leaders:?}");
        let answered = self.client.stop().await?;
        eprintln!("leaders: {}; the client got {answered} answers", leaders.join(", "));
        Ok(())
    }
}

async fn holder(cluster: &Cluster) -> Result<String> {
    let lease = ["get", "lease", "-n", NAMESPACE, "holdfast", "-o", "jsonpath={.spec.holderIdentity}"];
    cluster.kubectl_output(&lease).await
}

/// A client that sends one request after the other, each on a connection of its own.
#[derive(Debug)]
struct ServedClient {
    answered: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    task: JoinHandle<Result<()>>,
}

impl ServedClient {
    fn start(address: String) -> Self {
        let (answered, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&answered), Arc::clone(&ends));
        let task = tokio::spawn(async move {
            while !end.load(Ordering::Relaxed) {
                request(&address).await?;
                count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(REST).await;
            }
            Ok(())
        });
        Self { answered, ends, task }
    }

    /// Returns the number of answered requests; fails with the first one that was not.
    async fn stop(self) -> Result<u64> {
        self.ends.store(true, Ordering::Relaxed);
        let answered = || self.answered.load(Ordering::Relaxed);
        self.task.await?.with_context(|| format!("after {} answers, a request got none", answered()))?;
        Ok(answered())
    }
}

/// Sends a request to the route beside the suite, which redirects it.
async fn request(address: &str) -> Result<()> {
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http::<Full<Bytes>>();
    let request = Request::get(format!("http://{address}/")).header(HOST, served_host()).body(Full::default())?;
    match tokio::time::timeout(REQUEST_MAX, client.request(request)).await {
        Ok(response) => {
            let status = response?.status();
            ensure!(status == 302, "{status}");
            Ok(())
        }
        Err(_) => bail!("no answer within {} s", REQUEST_MAX.as_secs()),
    }
}
