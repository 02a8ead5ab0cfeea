//! A real gRPC client, and a server for it.

use std::time::Duration;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::rpc;
use holdfast_xds::{Address, Answer, Bound, Fleets, Listen, Notice, Offers, ServeError, bind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::vocabulary::{EnvoyRequest, answered, delta_response, error, node, request, snapshot, sotw_response};

/// The fleet of most tests.
pub(crate) const FLEET: &str = "infra/public";

/// A time limit for heavily loaded machines; no test waits this long unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something that must happen.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("this never came")
}

/// Waits until a condition holds.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A server on loopback; stops when it is dropped.
pub(crate) struct Server {
    pub(crate) fleets: Fleets,
    pub(crate) notices: mpsc::Receiver<Notice>,
    pub(crate) address: Address,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) ended: JoinHandle<Result<(), ServeError>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::on(bind(Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap())
    }

    pub(crate) fn on(bound: Bound) -> Self {
        Self::with_room(bound, 1024)
    }

    /// Starts a server with this capacity for waiting notices.
    pub(crate) fn with_room(bound: Bound, room: usize) -> Self {
        let fleets = Fleets::new();
        let address = bound.address().clone();
        let (sender, notices) = mpsc::channel(room);
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(bound.run(fleets.clone(), sender, async {
            let _ = stopped.await;
        }));
        Self { fleets, notices, address, stop: Some(stop), ended }
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    pub(crate) async fn channel(&self) -> Channel {
        let address = self.address.tcp().unwrap();
        Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn delta(&self, node: &str) -> DeltaClient {
        DeltaClient::open(self.channel().await, node, FLEET).await
    }

    /// Publishes a snapshot for all Envoys of a fleet, as in `CDS a=1; RDS r=1`.
    pub(crate) fn publish(&self, fleet: &str, text: &str) {
        self.fleets.publish(fleet, Offers::everyone(snapshot(text)));
    }

    pub(crate) async fn notice(&mut self) -> Notice {
        soon(self.notices.recv()).await.unwrap()
    }

    /// Receives the expected answer of a node of [`FLEET`], as in `ACK RDS r=1`, and skips other notices.
    pub(crate) async fn reports(&mut self, node: &str, expected: &str) {
        let answer = self.answer().await;
        assert_eq!((&*answer.fleet, &*answer.node), (FLEET, node));
        assert_eq!((answer.kind, answer.outcome, answer.resources), answered(expected), "{expected}");
    }

    /// Returns the next answer, and skips other notices.
    async fn answer(&mut self) -> Answer {
        loop {
            if let Notice::Answered(answer) = self.notice().await {
                return answer;
            }
        }
    }
}

/// The client of an incremental stream.
pub(crate) struct DeltaClient {
    sender: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl DeltaClient {
    pub(crate) async fn open(channel: Channel, id: &str, fleet: &str) -> Self {
        Self::open_with(channel, DeltaDiscoveryRequest { node: Some(node(id, fleet)), ..Default::default() }).await
    }

    pub(crate) async fn open_with(channel: Channel, first: DeltaDiscoveryRequest) -> Self {
        let (sender, receiver) = mpsc::channel(1024);
        sender.send(first).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let responses = client.delta_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { sender, responses }
    }

    pub(crate) async fn send(&self, request: DeltaDiscoveryRequest) {
        self.sender.send(request).await.unwrap();
    }

    /// Sends a request, as in `RDS add=r init=s:1`.
    pub(crate) async fn requests(&self, text: &str) {
        self.send(request(text).delta()).await;
    }

    pub(crate) async fn answer(&self, response: &DeltaDiscoveryResponse, error_detail: Option<rpc::Status>) {
        self.send(DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail,
            ..Default::default()
        })
        .await;
    }

    pub(crate) async fn next(&mut self) -> DeltaDiscoveryResponse {
        soon(self.responses.message()).await.unwrap().expect("the stream ended")
    }

    /// Receives the next response and acknowledges it.
    pub(crate) async fn take(&mut self) -> DeltaDiscoveryResponse {
        let response = self.next().await;
        self.answer(&response, None).await;
        response
    }

    /// Receives the expected response, as in `RDS +r=1 -s`.
    pub(crate) async fn receives(&mut self, expected: &str) -> DeltaDiscoveryResponse {
        let response = self.next().await;
        assert_eq!(delta_response(&response), expected);
        response
    }

    /// Receives the expected response, and acknowledges it.
    pub(crate) async fn accepts(&mut self, expected: &str) {
        let response = self.receives(expected).await;
        self.answer(&response, None).await;
    }

    /// Receives the expected response, and answers with an error.
    pub(crate) async fn refuses(&mut self, expected: &str, message: &str) {
        let response = self.receives(expected).await;
        self.answer(&response, Some(error(message))).await;
    }

    /// Returns the end of the stream.
    pub(crate) async fn end(mut self) -> Result<(), Status> {
        loop {
            match soon(self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(status) => return Err(status),
            }
        }
    }
}

/// The client of a state-of-the-world stream.
pub(crate) struct SotwClient {
    sender: mpsc::Sender<DiscoveryRequest>,
    responses: Streaming<DiscoveryResponse>,
}

impl SotwClient {
    pub(crate) async fn open(channel: Channel, id: &str, fleet: &str) -> Self {
        let (sender, receiver) = mpsc::channel(1024);
        sender.send(DiscoveryRequest { node: Some(node(id, fleet)), ..Default::default() }).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let responses = client.stream_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { sender, responses }
    }

    pub(crate) async fn send(&self, request: DiscoveryRequest) {
        self.sender.send(request).await.unwrap();
    }

    /// Sends a request, as in `RDS names=r`.
    pub(crate) async fn requests(&self, text: &str) {
        self.send(request(text).sotw()).await;
    }

    /// Answers a response to the request with this text, with or without an error.
    pub(crate) async fn answer(&self, response: &DiscoveryResponse, text: &str, error: Option<rpc::Status>) {
        let (version, nonce) = (response.version_info.clone(), response.nonce.clone());
        self.send(EnvoyRequest { version, nonce, error, ..request(text) }.sotw()).await;
    }

    pub(crate) async fn next(&mut self) -> DiscoveryResponse {
        soon(self.responses.message()).await.unwrap().expect("the stream ended")
    }

    /// Receives the expected response, as in `CDS a=1 b=1`.
    pub(crate) async fn receives(&mut self, expected: &str) -> DiscoveryResponse {
        let response = self.next().await;
        assert_eq!(sotw_response(&response), expected);
        response
    }

    /// Returns the error with which the server ends the stream.
    pub(crate) async fn refused(&mut self) -> Status {
        loop {
            match soon(self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream just ended"),
                Err(status) => return status,
            }
        }
    }
}
