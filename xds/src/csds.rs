//! The gRPC service `envoy.service.status.v3.ClientStatusDiscoveryService`: the resources of each connected Envoy, by
//! name and version, never with contents.

use std::pin::Pin;

use envoy_types::pb::envoy::admin::v3::ClientResourceStatus;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_server::ClientStatusDiscoveryService;
use envoy_types::pb::envoy::service::status::v3::{
    ClientConfig, ClientStatusRequest, ClientStatusResponse, ConfigStatus,
};
use futures::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::Fleets;
use crate::admission::Belonging;
use crate::fleets::StreamState;
use crate::gate::unauthenticated;
use crate::view::{self, EnvoyResource};

/// The CSDS service.
#[derive(Debug)]
pub(crate) struct ClientStatus(pub(crate) Fleets);

#[tonic::async_trait]
impl ClientStatusDiscoveryService for ClientStatus {
    type StreamClientStatusStream = Pin<Box<dyn Stream<Item = Result<ClientStatusResponse, Status>> + Send>>;

    async fn stream_client_status(
        &self,
        request: Request<Streaming<ClientStatusRequest>>,
    ) -> Result<Response<Self::StreamClientStatusStream>, Status> {
        let (fleets, belonging) = (self.0.clone(), belonging(&request)?);
        let responses = request.into_inner().map(move |request| respond(&fleets, &belonging, &request?));
        Ok(Response::new(Box::pin(responses)))
    }

    async fn fetch_client_status(
        &self,
        request: Request<ClientStatusRequest>,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        respond(&self.0, &belonging(&request)?, request.get_ref()).map(Response::new)
    }
}

fn belonging<T>(request: &Request<T>) -> Result<Belonging, Status> {
    request.extensions().get().cloned().ok_or_else(unauthenticated)
}

/// Returns the status of the Envoys in the fleets that the client may read.
fn respond(
    fleets: &Fleets,
    belonging: &Belonging,
    request: &ClientStatusRequest,
) -> Result<ClientStatusResponse, Status> {
    if !request.node_matchers.is_empty() {
        return Err(Status::invalid_argument("node matchers are not supported"));
    }
    let streams = fleets.streams();
    let seen = streams.iter().filter(|stream| belonging.may_see(&stream.envoy.fleet));
    Ok(ClientStatusResponse { config: seen.map(|stream| client(stream)).collect() })
}

fn client(stream: &StreamState) -> ClientConfig {
    let node =
        Node { id: stream.envoy.node.to_string(), cluster: stream.envoy.fleet.to_string(), ..Default::default() };
    let resources = stream.connection().resources();
    ClientConfig {
        node: Some(node),
        generic_xds_configs: resources.into_iter().map(resource).collect(),
        client_scope: format!("stream {}", stream.number),
        ..Default::default()
    }
}

fn resource(resource: EnvoyResource) -> GenericXdsConfig {
    let (config, client) = match resource.status {
        view::ResourceStatus::Synced => (ConfigStatus::Synced, ClientResourceStatus::Acked),
        view::ResourceStatus::Stale => (ConfigStatus::Stale, ClientResourceStatus::Requested),
        view::ResourceStatus::NotSent => (ConfigStatus::NotSent, ClientResourceStatus::Requested),
        view::ResourceStatus::Refused => (ConfigStatus::Error, ClientResourceStatus::Nacked),
    };
    GenericXdsConfig {
        type_url: resource.kind.url().to_owned(),
        name: resource.name.to_string(),
        version_info: resource.version,
        config_status: config.into(),
        client_status: client.into(),
        ..Default::default()
    }
}
