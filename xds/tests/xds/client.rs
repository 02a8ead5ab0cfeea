//! A real gRPC client, and a server for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::rpc;
use holdfast_graph::Origins;
use holdfast_xds::{
    Address, Answer, Bound, Fleets, Listen, Notice, Offers, Resource, ResourceType, ServeError, Snapshot, bind,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

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

/// Returns a snapshot with these resources.
pub(crate) fn snapshot(resources: &[(ResourceType, &str, &[u8])]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (kind, name, body) in resources {
        snapshot.insert(*kind, Arc::new(Resource::new(*name, body.to_vec(), Origins::default())));
    }
    snapshot
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
        DeltaClient::open(self.channel().await, node, "infra/public").await
    }

    /// Publishes a snapshot for all Envoys of a fleet.
    pub(crate) fn publish(&self, fleet: &str, snapshot: Snapshot) {
        self.fleets.publish(fleet, Offers::everyone(snapshot));
    }

    pub(crate) async fn notice(&mut self) -> Notice {
        soon(self.notices.recv()).await.unwrap()
    }

    /// Returns the next answer, and skips other notices.
    pub(crate) async fn answer(&mut self) -> Answer {
        loop {
            if let Notice::Answered(answer) = self.notice().await {
                return answer;
            }
        }
    }
}

/// Returns the node that an Envoy reports.
pub(crate) fn node(id: &str, fleet: &str) -> Option<Node> {
    Some(Node { id: id.to_owned(), cluster: fleet.to_owned(), ..Default::default() })
}

/// Returns an error as Envoy sends it.
pub(crate) fn error(message: &str) -> Option<rpc::Status> {
    Some(rpc::Status { code: 13, message: message.to_owned(), ..Default::default() })
}

/// The client of an incremental stream.
pub(crate) struct DeltaClient {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl DeltaClient {
    pub(crate) async fn open(channel: Channel, id: &str, fleet: &str) -> Self {
        Self::open_with(channel, DeltaDiscoveryRequest { node: node(id, fleet), ..Default::default() }).await
    }

    pub(crate) async fn open_with(channel: Channel, first: DeltaDiscoveryRequest) -> Self {
        let (requests, receiver) = mpsc::channel(1024);
        requests.send(first).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let responses = client.delta_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, responses }
    }

    pub(crate) async fn send(&self, request: DeltaDiscoveryRequest) {
        self.requests.send(request).await.unwrap();
    }

    pub(crate) async fn subscribe(&self, kind: ResourceType, names: &[&str]) {
        self.resume(kind, names, &BTreeMap::new()).await;
    }

    pub(crate) async fn resume(&self, kind: ResourceType, names: &[&str], had: &BTreeMap<String, String>) {
        self.send(DeltaDiscoveryRequest {
            type_url: kind.url().to_owned(),
            resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
            initial_resource_versions: had.clone().into_iter().collect(),
            ..Default::default()
        })
        .await;
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
    requests: mpsc::Sender<DiscoveryRequest>,
    responses: Streaming<DiscoveryResponse>,
}

impl SotwClient {
    pub(crate) async fn open(channel: Channel, id: &str, fleet: &str) -> Self {
        let (requests, receiver) = mpsc::channel(1024);
        requests.send(DiscoveryRequest { node: node(id, fleet), ..Default::default() }).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let responses = client.stream_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, responses }
    }

    pub(crate) async fn send(&self, request: DiscoveryRequest) {
        self.requests.send(request).await.unwrap();
    }

    pub(crate) async fn subscribe(&self, kind: ResourceType, names: &[&str]) {
        let resource_names = names.iter().map(|name| (*name).to_owned()).collect();
        self.send(DiscoveryRequest { type_url: kind.url().to_owned(), resource_names, ..Default::default() }).await;
    }

    pub(crate) async fn answer(&self, response: &DiscoveryResponse, names: &[&str], error_detail: Option<rpc::Status>) {
        self.send(DiscoveryRequest {
            type_url: response.type_url.clone(),
            version_info: response.version_info.clone(),
            response_nonce: response.nonce.clone(),
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
            error_detail,
            ..Default::default()
        })
        .await;
    }

    pub(crate) async fn next(&mut self) -> DiscoveryResponse {
        soon(self.responses.message()).await.unwrap().expect("the stream ended")
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
