//! A client of the xDS server on a loopback port that claims to be an Envoy, and refuses every route configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::config::core::v3::{BuildVersion, Node};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use envoy_types::pb::google::rpc;
use holdfast_xds::identity::FLAGS_FIELD;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

/// Pause before the client connects again.
const PAUSE: Duration = Duration::from_millis(100);
/// Capacity of the queue of requests.
const WAITING_MAX: usize = 64;
/// The type of what it refuses.
const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

/// A running client. Dropping it ends its connection.
#[derive(Debug)]
pub struct Impostor {
    counts: Arc<ImpostorCounts>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct ImpostorCounts {
    refusals: AtomicU64,
    turned_away: AtomicU64,
}

impl Impostor {
    /// Connects again and again with this `node.id`, as an Envoy of a Gateway and of a build, as in `1.40.0+re2=10000`.
    ///
    /// # Errors
    /// The build has another form.
    pub fn start(port: u16, id: &str, gateway: &str, build: &str) -> Result<Self> {
        let node = node(id, gateway, build).with_context(|| format!("not a build: {build}"))?;
        let counts = Arc::new(ImpostorCounts::default());
        let counted = counts.clone();
        let task = tokio::spawn(async move {
            loop {
                let ended = attack(port, &node, &counted).await;
                let status = ended.err().and_then(|error| error.downcast::<tonic::Status>().ok());
                if status.is_some_and(|status| status.code() == Code::PermissionDenied) {
                    counted.turned_away.fetch_add(1, Relaxed);
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Ok(Self { counts, task })
    }

    /// Number of responses that it refused.
    pub fn refusals(&self) -> u64 {
        self.counts.refusals.load(Relaxed)
    }

    /// Number of streams that the server ended because the client has no permission.
    pub fn turned_away(&self) -> u64 {
        self.counts.turned_away.load(Relaxed)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn node(id: &str, gateway: &str, build: &str) -> Option<Node> {
    let (version, flags) = build.split_once('+')?;
    let numbers: Vec<u32> = version.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [major_number, minor_number, patch] = numbers[..] else { return None };
    let version = Some(SemanticVersion { major_number, minor_number, patch });
    let flags = Value { kind: Some(Kind::StringValue(flags.to_owned())) };
    Some(Node {
        id: id.to_owned(),
        cluster: gateway.to_owned(),
        metadata: Some(Struct { fields: [(FLAGS_FIELD.to_owned(), flags)].into() }),
        user_agent_version_type: Some(UserAgentVersionType::UserAgentBuildVersion(BuildVersion {
            version,
            ..BuildVersion::default()
        })),
        ..Node::default()
    })
}

/// Refuses every route configuration until the stream ends.
async fn attack(port: u16, node: &Node, counts: &ImpostorCounts) -> Result<()> {
    let mut client = AggregatedDiscoveryServiceClient::connect(format!("http://127.0.0.1:{port}")).await?;
    let (send, messages) = tokio::sync::mpsc::channel(WAITING_MAX);
    send.send(DeltaDiscoveryRequest {
        node: Some(node.clone()),
        type_url: ROUTES.into(),
        resource_names_subscribe: vec!["*".into()],
        ..DeltaDiscoveryRequest::default()
    })
    .await?;
    let mut responses = client.delta_aggregated_resources(ReceiverStream::new(messages)).await?.into_inner();
    while let Some(response) = responses.message().await? {
        let message = "the route configuration is not acceptable".to_owned();
        send.send(DeltaDiscoveryRequest {
            type_url: response.type_url,
            response_nonce: response.nonce,
            error_detail: Some(rpc::Status { code: Code::InvalidArgument.into(), message, ..rpc::Status::default() }),
            ..DeltaDiscoveryRequest::default()
        })
        .await?;
        counts.refusals.fetch_add(1, Relaxed);
    }
    Ok(())
}
