//! Benchmark of one change for many Envoys: the time until the last one has it, compared with the time of gRPC itself.
//!
//! `cargo bench -p holdfast-xds --bench fanout` prints, for 100 and 1000 clients in a separate process:
//!
//! - the time from publishing a change of one resource until the last client has it, median and worst of the rounds;
//! - the same for a bare tonic server that writes a ready message of equal size to each client (the floor);
//! - the number of encodings of the resource for each change, and the memory of the server for each idle client;
//!
//! and, for one client, the bytes on the wire and the time of the state machine for one changed resource among 1,000
//! and among 50,000.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    self as discovery, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::protobuf::Any;
use futures::{Stream, StreamExt};
use holdfast_graph::Origins;
use holdfast_xds::connection::{Connection, Protocol};
use holdfast_xds::{Fleets, Listen, Notice, Offers, Resource, ResourceType, Snapshot, bind};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{BroadcastStream, ReceiverStream};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server, Uri};
use tonic::{Request, Response, Status, Streaming};
use tower::service_fn;

/// Approximate size of a virtual host with one route.
const BODY_BYTES: usize = 400;
const ROUNDS: usize = 40;
const FLEET: &str = "bench/gateway";
const CLUSTER: ResourceType = ResourceType::Cluster;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match arguments.iter().position(|argument| argument == "--clients") {
        Some(at) => runtime.block_on(clients(arguments[at + 1].parse().unwrap(), arguments[at + 2].parse().unwrap())),
        None => runtime.block_on(report()),
    }
}

async fn report() {
    println!("body {BODY_BYTES} B, {ROUNDS} rounds, server and clients in two processes on this machine");
    // The largest count is first: otherwise freed memory would be reused and not be measured.
    for count in [1000, 100] {
        fan_out(count).await;
    }
    for count in [1_000, 50_000] {
        let (bytes, message) = bytes_on_the_wire(count).await;
        println!("{count} resources, one of {message} B changes: {bytes} B on the wire");
        let (compare, publish) = state_machine(count);
        println!("  state machine: {compare:.1} µs to compare and respond, {publish:.1} µs to publish");
    }
}

/// Times in milliseconds.
struct Times {
    median: f64,
    worst: f64,
}

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self { median: times[times.len() / 2], worst: times[times.len() - 1] }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} ms (worst {:.2})", self.median, self.worst)
    }
}

fn resource(name: &str, round: usize) -> Arc<Resource> {
    let mut body = vec![0x5a; BODY_BYTES];
    body[..8].copy_from_slice(&round.to_le_bytes());
    Arc::new(Resource::new(name, body, Origins::default()))
}

fn snapshot(count: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for n in 0..count {
        snapshot.insert(CLUSTER, resource(&format!("cluster-{n:06}"), 0));
    }
    snapshot
}

/// Measures both servers alternately, so that other load on the machine affects both.
async fn fan_out(count: usize) {
    let bound = bind(Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let address = bound.address().tcp().unwrap();
    let fleets = Fleets::new();
    let (notices, mut received) = mpsc::channel(1024);
    tokio::spawn(async move { while received.recv().await.is_some() {} });
    let server = tokio::spawn(bound.run(fleets.clone(), notices, std::future::pending()));
    let mut contents = snapshot(1);
    fleets.publish(FLEET, Offers::everyone(contents.clone()));
    let before = resident();
    let mut clients = BenchClients::start(count, address);
    clients.wait();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let memory = (resident() - before) / count as f64;
    let (bare, bare_server, mut bare_clients) = bare(count);
    bare_clients.wait();

    let encodes = fleets.pushes().encodes;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        contents.insert(CLUSTER, resource("cluster-000000", round));
        let start = Instant::now();
        fleets.publish(FLEET, Offers::everyone(contents.clone()));
        tokio::task::block_in_place(|| clients.wait());
        ours.push(start.elapsed().as_secs_f64() * 1000.0);

        let message = message(round);
        let start = Instant::now();
        bare.send(message).unwrap();
        tokio::task::block_in_place(|| bare_clients.wait());
        floor.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    let encodes = (fleets.pushes().encodes - encodes) as f64 / ROUNDS as f64;
    let (ours, floor) = (Times::of(ours), Times::of(floor));
    let ratio = ours.median / floor.median;
    println!("{count} clients: last one has it after {ours} | floor {floor} | ratio of medians {ratio:.2}");
    println!("  encodes per change {encodes:.2}, server memory per idle client {memory:.1} kB");
    server.abort();
    bare_server.abort();
}

/// A server that only writes the given messages.
struct Bare(broadcast::Sender<DeltaDiscoveryResponse>);

type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Bare {
    type StreamAggregatedResourcesStream = ResponseStream<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = ResponseStream<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let mut requests = request.into_inner();
        let responses = BroadcastStream::new(self.0.subscribe());
        tokio::spawn(async move { while let Ok(Some(_)) = requests.message().await {} });
        let first = futures::stream::iter([Ok(message(0))]);
        let rest = responses.map(|response| response.map_err(|_| Status::data_loss("")));
        Ok(Response::new(Box::pin(first.chain(rest))))
    }
}

fn message(round: usize) -> DeltaDiscoveryResponse {
    let resource = resource("cluster-000000", round);
    let body = Any { type_url: CLUSTER.url().to_owned(), value: resource.body.to_vec() };
    let resource = discovery::Resource {
        name: resource.name.to_string(),
        version: resource.version.to_string(),
        resource: Some(body),
        ..Default::default()
    };
    DeltaDiscoveryResponse {
        resources: vec![resource],
        type_url: CLUSTER.url().to_owned(),
        nonce: round.to_string(),
        ..Default::default()
    }
}

/// Starts the floor: the sender of its messages, its task and its clients.
fn bare(count: usize) -> (broadcast::Sender<DeltaDiscoveryResponse>, JoinHandle<()>, BenchClients) {
    let listener = tokio::net::TcpSocket::new_v4().unwrap();
    listener.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = listener.listen(4096).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, _) = broadcast::channel(16);
    let service = AggregatedDiscoveryServiceServer::new(Bare(sender.clone()));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = tokio::spawn(async move {
        Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
    });
    (sender, server, BenchClients::start(count, address))
}

/// The process of the clients; prints a line each time all of them have received a response.
struct BenchClients {
    child: Child,
    _stdin: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl BenchClients {
    fn start(count: usize, address: SocketAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--clients", &count.to_string(), &address.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, _stdin: stdin, lines }
    }

    fn wait(&mut self) {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "the clients ended");
    }
}

impl Drop for BenchClients {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the process of the clients.
async fn clients(count: usize, address: SocketAddr) {
    // The process ends with its parent in any case.
    std::thread::spawn(|| {
        let _ = std::io::stdin().lines().count();
        std::process::exit(0);
    });
    let received = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for number in 0..count {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let received = received.clone();
        tasks.push(tokio::spawn(async move {
            let mut client = Client::open(channel, number).await;
            // The loop ends when the server ends.
            while client.take().await.is_ok() {
                if (received.fetch_add(1, SeqCst) + 1).is_multiple_of(count) {
                    println!("all");
                    std::io::stdout().flush().unwrap();
                }
            }
        }));
    }
    futures::future::join_all(tasks).await;
}

struct Client {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Client {
    async fn open(channel: Channel, number: usize) -> Self {
        let (requests, receiver) = mpsc::channel(16);
        let node = Node { id: format!("envoy-{number}"), cluster: FLEET.to_owned(), ..Default::default() };
        let type_url = CLUSTER.url().to_owned();
        requests.send(DeltaDiscoveryRequest { node: Some(node), type_url, ..Default::default() }).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let responses = client.delta_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, responses }
    }

    /// Receives a response and acknowledges it.
    async fn take(&mut self) -> Result<DeltaDiscoveryResponse, Status> {
        let response = self.responses.message().await?.ok_or_else(|| Status::ok(""))?;
        let type_url = response.type_url.clone();
        let response_nonce = response.nonce.clone();
        let request = DeltaDiscoveryRequest { type_url, response_nonce, ..Default::default() };
        self.requests.send(request).await.map_err(|_| Status::ok(""))?;
        Ok(response)
    }
}

/// Returns the bytes that a client reads from its socket for one changed resource, and the size of the resource with
/// its name.
async fn bytes_on_the_wire(count: usize) -> (u64, usize) {
    let bound = bind(Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let address = bound.address().tcp().unwrap();
    let fleets = Fleets::new();
    let (notices, mut received) = mpsc::channel(1024);
    let server = tokio::spawn(bound.run(fleets.clone(), notices, std::future::pending()));
    let mut contents = snapshot(count);
    fleets.publish(FLEET, Offers::everyone(contents.clone()));
    let read = Arc::new(AtomicU64::new(0));
    let counter = read.clone();
    let connector = service_fn(move |_: Uri| {
        let counter = counter.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(CountedStream(TcpStream::connect(address).await?, counter))) }
    });
    let endpoint = Endpoint::from_static("http://loopback");
    let mut client = Client::open(endpoint.connect_with_connector(connector).await.unwrap(), 0).await;
    let mut resources = 0;
    while resources < count {
        resources += client.take().await.unwrap().resources.len();
        while !matches!(received.recv().await.unwrap(), Notice::Answered(_)) {}
    }
    // HTTP/2 sends frames of its own about the requests; wait until they are sent.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = read.load(SeqCst);
    let changed = resource("cluster-000500", 1);
    let size = changed.body.len() + changed.name.len();
    contents.insert(CLUSTER, changed);
    fleets.publish(FLEET, Offers::everyone(contents));
    client.responses.message().await.unwrap().unwrap();
    let bytes = read.load(SeqCst) - before;
    server.abort();
    (bytes, size)
}

/// A socket that counts the bytes that are read from it.
struct CountedStream(TcpStream, Arc<AtomicU64>);

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.0).poll_read(task, buffer);
        self.1.fetch_add((buffer.filled().len() - before) as u64, SeqCst);
        polled
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(task, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(task)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(task)
    }
}

/// Returns the microseconds for one client and one change without a socket: for comparing and responding, and for
/// publishing.
fn state_machine(count: usize) -> (f64, f64) {
    let mut contents = snapshot(count);
    let fleets = Fleets::new();
    fleets.publish(FLEET, Offers::everyone(contents.clone()));
    let mut connection = Connection::new(Protocol::Delta);
    connection.on_snapshot(contents.clone());
    let request = |nonce: &str| DeltaDiscoveryRequest {
        type_url: CLUSTER.url().to_owned(),
        response_nonce: nonce.to_owned(),
        ..Default::default()
    };
    connection.on_delta_request(&request("")).unwrap();
    let acknowledge = |connection: &mut Connection| {
        while let Some(response) = connection.next_response() {
            connection.on_delta_request(&request(&response.nonce.to_string())).unwrap();
        }
    };
    acknowledge(&mut connection);
    let (mut comparing, mut publishing) = (Duration::ZERO, Duration::ZERO);
    let rounds = 1000;
    for round in 1..=rounds {
        contents.insert(CLUSTER, resource(&format!("cluster-{:06}", (round * 7919) % count), round));
        let snapshot = contents.clone();
        let start = Instant::now();
        fleets.publish(FLEET, Offers::everyone(snapshot.clone()));
        publishing += start.elapsed();
        let start = Instant::now();
        connection.on_snapshot(snapshot);
        acknowledge(&mut connection);
        comparing += start.elapsed();
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / rounds as f64;
    (micros(comparing), micros(publishing))
}

/// Returns the resident memory of this process, in kB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
