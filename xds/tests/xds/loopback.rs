//! Tests with a real gRPC client over loopback.

use std::sync::Arc;

use envoy_types::pb::envoy::service::cluster::v3::cluster_discovery_service_client::ClusterDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use envoy_types::pb::envoy::service::status::v3::{ClientStatusRequest, ConfigStatus};
use holdfast_graph::Origins;
use holdfast_xds::{Offers, Resource, ResourceType, Snapshot, Version};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::client::{DeltaClient, FLEET, Server, SotwClient, soon, until};
use crate::vocabulary::{delta_response, error, node, request};

const ROUTE: ResourceType = ResourceType::Route;

#[tokio::test]
async fn an_incremental_client_is_sent_what_changes_and_its_answers_are_reported() {
    let mut server = Server::start();
    server.publish(FLEET, "RDS r=one s=one");
    let mut client = server.delta("envoy-1").await;
    client.requests("RDS add=r,s").await;
    client.accepts("RDS +r=one").await;
    client.refuses("RDS +s=one", "missing ]: [").await;
    server.reports("envoy-1", "ACK RDS r=one").await;
    server.reports("envoy-1", "NACK RDS s=one : missing ]: [").await;

    server.publish(FLEET, "RDS r=two s=one");
    client.accepts("RDS +r=two").await;
    server.reports("envoy-1", "ACK RDS r=two").await;
    let count = server.fleets.pushes().of(FLEET, ROUTE);
    assert_eq!((count.responses, count.resources, count.acknowledged, count.refused), (3, 3, 2, 1));
}

#[tokio::test]
async fn a_state_of_the_world_client_is_served_too() {
    let mut server = Server::start();
    server.publish(FLEET, "CDS a=1 b=1");
    let mut client = SotwClient::open(server.channel().await, "envoy-1", FLEET).await;
    client.requests("CDS").await;
    let first = client.receives("CDS a=1 b=1").await;
    client.answer(&first, "CDS", None).await;
    server.reports("envoy-1", "ACK CDS a=1 b=1").await;
    server.publish(FLEET, "CDS a=1");
    let second = client.receives("CDS a=1").await;
    assert_ne!(first.version_info, second.version_info);
    client.answer(&second, "CDS", Some(error("no"))).await;
    server.reports("envoy-1", "NACK CDS -b : no").await;
}

#[tokio::test]
async fn one_that_comes_back_with_everything_is_sent_nothing() {
    let server = Server::start();
    server.publish(FLEET, "CDS a=1; RDS r=one");
    let mut client = server.delta("envoy-1").await;
    client.requests("CDS").await;
    client.accepts("CDS +a=1").await;
    client.requests("RDS add=r").await;
    client.accepts("RDS +r=one").await;
    drop(client);
    let sent = server.fleets.pushes().total().resources;

    let mut client = server.delta("envoy-1").await;
    client.requests("CDS init=a:1").await;
    client.requests("RDS add=r init=r:one").await;
    // Equal content that is made again is the same content.
    server.publish(FLEET, "CDS a=1; RDS r=one");
    server.publish(FLEET, "CDS a=1; RDS r=two");
    client.accepts("RDS +r=two").await;
    assert_eq!(server.fleets.pushes().total().resources, sent + 1);
}

#[tokio::test]
async fn a_secret_that_an_envoy_refused_is_not_sent_to_it_when_it_comes_back() {
    let mut server = Server::start();
    server.publish(FLEET, "SDS s=bad t=good");
    let mut client = server.delta("envoy-1").await;
    client.requests("SDS add=s").await;
    client.refuses("SDS +s=bad", "KEY_VALUES_MISMATCH").await;
    server.reports("envoy-1", "NACK SDS s=bad : KEY_VALUES_MISMATCH").await;
    drop(client);
    // Envoy would acknowledge the repeat without using it.
    let mut client = server.delta("envoy-1").await;
    client.requests("SDS add=s,t").await;
    client.accepts("SDS +t=good").await;
    let mut other = server.delta("envoy-2").await;
    other.requests("SDS add=s").await;
    other.accepts("SDS +s=bad").await;
    server.publish(FLEET, "SDS s=mended t=good");
    client.accepts("SDS +s=mended").await;
}

#[tokio::test]
async fn an_unpublished_fleet_waits_and_is_served_once_published() {
    let server = Server::start();
    let mut client = server.delta("envoy-1").await;
    client.requests("CDS init=old:1").await;
    until(|| server.fleets.envoys().iter().any(|envoy| envoy.types.contains_key("CDS"))).await;
    assert_eq!(server.fleets.pushes().total().responses, 0);
    server.publish(FLEET, "CDS new=1");
    client.accepts("CDS +new=1").await;
    client.accepts("CDS -old").await;
}

#[tokio::test]
async fn a_withdrawn_fleet_keeps_what_it_has() {
    let server = Server::start();
    server.publish(FLEET, "CDS a=1; RDS r=1");
    let mut client = server.delta("envoy-1").await;
    client.requests("CDS").await;
    client.accepts("CDS +a=1").await;
    server.fleets.withdraw(FLEET);
    // The client continues with the resources that it has.
    client.requests("RDS add=r").await;
    client.accepts("RDS +r=1").await;
    let late = server.delta("envoy-2").await;
    late.requests("CDS").await;
    until(|| server.fleets.envoys().iter().filter(|envoy| !envoy.types.is_empty()).count() == 2).await;
    let count = server.fleets.pushes().total();
    assert_eq!((count.resources, count.removals), (2, 0));
}

#[tokio::test]
async fn fleets_are_kept_apart() {
    let server = Server::start();
    server.publish("infra/public", "CDS public=1");
    server.publish("infra/internal", "CDS internal=1");
    for fleet in ["public", "internal"] {
        let mut client = DeltaClient::open(server.channel().await, "e", &format!("infra/{fleet}")).await;
        client.requests("CDS").await;
        client.receives(&format!("CDS +{fleet}=1")).await;
    }
}

#[tokio::test]
async fn a_changed_identity_within_a_stream_ends_it() {
    let server = Server::start();
    server.publish("infra/secret", "CDS secret=1");
    for (id, fleet) in [("envoy-1", "infra/secret"), ("envoy-2", FLEET)] {
        let client = server.delta("envoy-1").await;
        client.send(request("CDS").from(node(id, fleet)).delta()).await;
        assert_eq!(client.end().await.unwrap_err().code(), Code::InvalidArgument);
    }
    assert_eq!(server.fleets.pushes().total().responses, 0);
    until(|| server.fleets.connected().is_empty()).await;
}

#[tokio::test]
async fn a_client_that_names_no_gateway_is_disconnected() {
    let server = Server::start();
    for fleet in ["", "no-slash"] {
        let client = DeltaClient::open(server.channel().await, "e", fleet).await;
        assert_eq!(client.end().await.unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn too_long_a_name_ends_the_stream() {
    let server = Server::start();
    let client = server.delta("e").await;
    client.requests(&format!("RDS add={}", "x".repeat(holdfast_xds::limits::NAME_BYTES_MAX + 1))).await;
    assert_eq!(client.end().await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn large_resources_and_many_of_them_arrive_whole() {
    let server = Server::start();
    let mut contents = Snapshot::default();
    for n in 0..500u32 {
        let body = n.to_le_bytes().repeat(if n % 100 == 0 { 300_000 } else { 1 + n as usize });
        contents.insert(ROUTE, Arc::new(Resource::new(format!("r{n}"), body, Origins::default())));
    }
    server.fleets.publish(FLEET, Offers::everyone(contents.clone()));
    let mut client = server.delta("e").await;
    let names: Vec<String> = (0..500).map(|n| format!("r{n}")).collect();
    client.requests(&format!("RDS add={}", names.join(","))).await;
    for _ in 0..500 {
        let response = client.take().await;
        let resource = &response.resources[0];
        let expected = contents.get(ROUTE, &resource.name).unwrap();
        assert!(resource.resource.as_ref().unwrap().value == expected.body, "{}", resource.name);
        assert_eq!(resource.version, expected.version.to_string());
    }
}

#[tokio::test]
async fn a_client_that_does_not_answer_is_sent_the_newest_in_the_end_and_no_queue() {
    let server = Server::start();
    let mut client = server.delta("e").await;
    client.requests("RDS add=r").await;
    for n in 0..5000u32 {
        server.publish(FLEET, &format!("RDS r={n}"));
        tokio::task::yield_now().await;
    }
    while delta_response(&client.take().await) != "RDS +r=4999" {}
    let sent = server.fleets.pushes().total().responses;
    assert!(sent <= 2 * holdfast_xds::limits::UNANSWERED_MAX as u64, "{sent} responses");
}

#[tokio::test]
async fn a_closed_notice_channel_stops_nothing() {
    let mut server = Server::start();
    server.notices.close();
    server.publish(FLEET, "RDS r=1");
    let mut client = server.delta("e").await;
    client.requests("RDS add=r").await;
    client.accepts("RDS +r=1").await;
    server.publish(FLEET, "RDS r=2");
    client.accepts("RDS +r=2").await;
}

#[tokio::test]
async fn stopping_ends_every_stream_so_that_envoys_look_elsewhere() {
    let mut server = Server::start();
    let client = server.delta("e").await;
    until(|| server.fleets.connected().get(FLEET) == Some(&1)).await;
    server.stop();
    assert_eq!(client.end().await.unwrap_err().code(), Code::Unavailable);
    soon(&mut server.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn only_the_two_streams_are_served_of_discovery() {
    let server = Server::start();
    let mut clusters = ClusterDiscoveryServiceClient::new(server.channel().await);
    let status = clusters.fetch_clusters(DiscoveryRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    let status = clusters.stream_clusters(tokio_stream::empty()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn health_check_reports_serving() {
    let server = Server::start();
    let mut health = HealthClient::new(server.channel().await);
    for service in ["", "envoy.service.discovery.v3.AggregatedDiscoveryService"] {
        let response = health.check(HealthCheckRequest { service: service.to_owned() }).await.unwrap().into_inner();
        assert_eq!(response.status(), ServingStatus::Serving);
    }
}

#[tokio::test]
async fn reflection_lists_what_is_served_and_describes_it() {
    let server = Server::start();
    let mut reflection = ServerReflectionClient::new(server.channel().await);
    let reflection_request = |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let requests = tokio_stream::iter([
        reflection_request(MessageRequest::ListServices(String::new())),
        reflection_request(MessageRequest::FileContainingSymbol(
            "envoy.service.discovery.v3.DeltaDiscoveryRequest".to_owned(),
        )),
    ]);
    let mut responses = reflection.server_reflection_info(requests).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        responses.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list")
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in [
        "envoy.service.discovery.v3.AggregatedDiscoveryService",
        "envoy.service.status.v3.ClientStatusDiscoveryService",
        "grpc.health.v1.Health",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(names.len() <= 4, "{names:?}");
    let described = responses.message().await.unwrap().unwrap().message_response;
    assert!(matches!(described, Some(MessageResponse::FileDescriptorResponse(_))));
}

#[tokio::test]
async fn client_status_lists_resources_of_each_envoy_without_contents() {
    let mut server = Server::start();
    server.publish(FLEET, "CDS a=1; SDS s=PRIVATE-KEY-canary t=PRIVATE-KEY-canary");
    let mut client = server.delta("envoy-1").await;
    client.requests("CDS").await;
    client.accepts("CDS +a=1").await;
    client.requests("SDS add=s,t").await;
    client.refuses("SDS +s=PRIVATE-KEY-canary", "bad").await;
    client.receives("SDS +t=PRIVATE-KEY-canary").await;
    server.reports("envoy-1", "ACK CDS a=1").await;
    server.reports("envoy-1", "NACK SDS s=PRIVATE-KEY-canary : bad").await;

    let mut status = ClientStatusDiscoveryServiceClient::new(server.channel().await);
    let fetched = status.fetch_client_status(ClientStatusRequest::default()).await.unwrap().into_inner();
    let mut streamed =
        status.stream_client_status(tokio_stream::iter([ClientStatusRequest::default()])).await.unwrap().into_inner();
    assert_eq!(streamed.message().await.unwrap().unwrap(), fetched);
    assert_eq!(fetched.config[0].node.as_ref().unwrap().id, "envoy-1");
    let statuses: Vec<_> = fetched.config[0]
        .generic_xds_configs
        .iter()
        .map(|config| (config.name.as_str(), config.config_status(), config.xds_config.is_some()))
        .collect();
    let expected =
        [("a", ConfigStatus::Synced, false), ("s", ConfigStatus::Error, false), ("t", ConfigStatus::Stale, false)];
    assert_eq!(statuses, expected);

    let views = serde_json::to_value(server.fleets.envoys()).unwrap();
    assert_eq!(views[0]["protocol"], "delta");
    assert_eq!(views[0]["types"]["CDS"]["synced"], 1);
    assert_eq!(views[0]["types"]["SDS"]["unanswered"], 1);
    assert_eq!(views[0]["types"]["SDS"]["refused"]["s"], Version::of(b"PRIVATE-KEY-canary").to_string());
    let history = &views[0]["history"];
    assert_eq!((&history["refused"]["type"], &history["refused"]["resources"][0]), (&"SDS".into(), &"s".into()));
    assert!(history["behind"].is_i64() && history["acknowledged"].is_i64() && !views[0]["isProven"].as_bool().unwrap());
    assert!(!views.to_string().contains("canary"));
}
