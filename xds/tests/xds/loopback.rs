//! Tests with a real gRPC client over loopback.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::service::cluster::v3::cluster_discovery_service_client::ClusterDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use envoy_types::pb::envoy::service::status::v3::{ClientStatusRequest, ConfigStatus};
use holdfast_graph::Origins;
use holdfast_xds::{Outcome, Resource, ResourceType, Version};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::client::{DeltaClient, Server, SotwClient, error, node, snapshot, soon, until};

const CLUSTER: ResourceType = ResourceType::Cluster;
const ROUTE: ResourceType = ResourceType::Route;
const FLEET: &str = "infra/public";

#[tokio::test]
async fn an_incremental_client_is_sent_what_changes_and_its_answers_are_reported() {
    let mut server = Server::start();
    server.publish(FLEET, snapshot(&[(ROUTE, "r", b"one"), (ROUTE, "s", b"one")]));
    let mut client = server.delta("envoy-1").await;
    client.subscribe(ROUTE, &["r", "s"]).await;
    let (first, second) = (client.next().await, client.next().await);
    assert_eq!((first.resources[0].name.as_str(), second.resources[0].name.as_str()), ("r", "s"));
    let any = first.resources[0].resource.as_ref().unwrap();
    assert_eq!((any.type_url.as_str(), any.value.as_slice()), (ROUTE.url(), b"one".as_slice()));

    client.answer(&first, None).await;
    client.answer(&second, error("missing ]: [")).await;
    let answer = server.answer().await;
    assert_eq!((&*answer.fleet, &*answer.node, answer.kind), (FLEET, "envoy-1", ROUTE));
    assert_eq!(answer.outcome, Outcome::Acknowledged);
    assert_eq!(answer.resources, [(Arc::from("r"), Some(Version::of(b"one")))]);
    let answer = server.answer().await;
    assert_eq!(answer.outcome, Outcome::Refused { message: "missing ]: [".to_owned() });
    assert_eq!(answer.resources, [(Arc::from("s"), Some(Version::of(b"one")))]);

    server.publish(FLEET, snapshot(&[(ROUTE, "r", b"two"), (ROUTE, "s", b"one")]));
    let third = client.take().await;
    assert_eq!(third.resources.len(), 1);
    assert_eq!(third.resources[0].version, Version::of(b"two").to_string());
    assert_eq!(server.answer().await.outcome, Outcome::Acknowledged);
    let count = server.fleets.pushes().of(FLEET, ROUTE);
    assert_eq!((count.responses, count.resources, count.acknowledged, count.refused), (3, 3, 2, 1));
}

#[tokio::test]
async fn a_state_of_the_world_client_is_served_too() {
    let mut server = Server::start();
    server.publish(FLEET, snapshot(&[(CLUSTER, "a", b""), (CLUSTER, "b", b"")]));
    let mut client = SotwClient::open(server.channel().await, "envoy-1", FLEET).await;
    client.subscribe(CLUSTER, &[]).await;
    let first = client.next().await;
    assert_eq!((first.resources.len(), first.type_url.as_str()), (2, CLUSTER.url()));
    client.answer(&first, &[], None).await;
    assert_eq!(server.answer().await.resources.len(), 2);
    server.publish(FLEET, snapshot(&[(CLUSTER, "a", b"")]));
    let second = client.next().await;
    assert_eq!(second.resources.len(), 1);
    assert_ne!(first.version_info, second.version_info);
    client.answer(&second, &[], error("no")).await;
    let answer = server.answer().await;
    assert_eq!(answer.resources, [(Arc::from("b"), None)]);
    assert_eq!(answer.outcome, Outcome::Refused { message: "no".to_owned() });
}

#[tokio::test]
async fn one_that_comes_back_with_everything_is_sent_nothing() {
    let server = Server::start();
    let contents = snapshot(&[(CLUSTER, "a", b""), (ROUTE, "r", b"one")]);
    server.publish(FLEET, contents.clone());
    let mut client = server.delta("envoy-1").await;
    client.subscribe(CLUSTER, &[]).await;
    client.take().await;
    client.subscribe(ROUTE, &["r"]).await;
    client.take().await;
    drop(client);
    let sent = server.fleets.pushes().total().resources;

    let mut client = server.delta("envoy-1").await;
    let had = |kind| contents.of(kind).values().map(|r| (r.name.to_string(), r.version.to_string())).collect();
    client.resume(CLUSTER, &[], &had(CLUSTER)).await;
    client.resume(ROUTE, &["r"], &had(ROUTE)).await;
    // Equal content that is made again is the same content.
    server.publish(FLEET, snapshot(&[(CLUSTER, "a", b""), (ROUTE, "r", b"one")]));
    server.publish(FLEET, snapshot(&[(CLUSTER, "a", b""), (ROUTE, "r", b"two")]));
    assert_eq!(client.take().await.resources[0].version, Version::of(b"two").to_string());
    assert_eq!(server.fleets.pushes().total().resources, sent + 1);
}

#[tokio::test]
async fn a_secret_that_an_envoy_refused_is_not_sent_to_it_when_it_comes_back() {
    let mut server = Server::start();
    let secret = ResourceType::Secret;
    server.publish(FLEET, snapshot(&[(secret, "s", b"bad"), (secret, "t", b"good")]));
    let mut client = server.delta("envoy-1").await;
    client.subscribe(secret, &["s"]).await;
    let response = client.next().await;
    client.answer(&response, error("KEY_VALUES_MISMATCH")).await;
    assert!(matches!(server.answer().await.outcome, Outcome::Refused { .. }));
    drop(client);
    // Envoy would acknowledge the repeat without using it.
    let mut client = server.delta("envoy-1").await;
    client.subscribe(secret, &["s", "t"]).await;
    assert_eq!(client.take().await.resources[0].name, "t");
    let mut other = server.delta("envoy-2").await;
    other.subscribe(secret, &["s"]).await;
    assert_eq!(other.take().await.resources[0].name, "s");
    server.publish(FLEET, snapshot(&[(secret, "s", b"mended"), (secret, "t", b"good")]));
    assert_eq!(client.take().await.resources[0].name, "s");
}

#[tokio::test]
async fn an_unpublished_fleet_waits_and_is_served_once_published() {
    let server = Server::start();
    let mut client = server.delta("envoy-1").await;
    client.resume(CLUSTER, &[], &BTreeMap::from([("old".to_owned(), "v".to_owned())])).await;
    until(|| server.fleets.envoys().iter().any(|envoy| envoy.types.contains_key("CDS"))).await;
    assert_eq!(server.fleets.pushes().total().responses, 0);
    server.publish(FLEET, snapshot(&[(CLUSTER, "new", b"")]));
    assert_eq!(client.take().await.resources[0].name, "new");
    assert_eq!(client.take().await.removed_resources, ["old"]);
}

#[tokio::test]
async fn a_withdrawn_fleet_keeps_what_it_has() {
    let server = Server::start();
    server.publish(FLEET, snapshot(&[(CLUSTER, "a", b""), (ROUTE, "r", b"1")]));
    let mut client = server.delta("envoy-1").await;
    client.subscribe(CLUSTER, &[]).await;
    client.take().await;
    server.fleets.withdraw(FLEET);
    // The client continues with the resources that it has.
    client.subscribe(ROUTE, &["r"]).await;
    assert_eq!(client.take().await.resources[0].name, "r");
    let late = server.delta("envoy-2").await;
    late.subscribe(CLUSTER, &[]).await;
    until(|| server.fleets.envoys().iter().filter(|envoy| !envoy.types.is_empty()).count() == 2).await;
    let count = server.fleets.pushes().total();
    assert_eq!((count.resources, count.removals), (2, 0));
}

#[tokio::test]
async fn fleets_are_kept_apart() {
    let server = Server::start();
    server.publish("infra/public", snapshot(&[(CLUSTER, "public", b"")]));
    server.publish("infra/internal", snapshot(&[(CLUSTER, "internal", b"")]));
    for fleet in ["public", "internal"] {
        let mut client = DeltaClient::open(server.channel().await, "e", &format!("infra/{fleet}")).await;
        client.subscribe(CLUSTER, &[]).await;
        let response = client.next().await;
        assert_eq!(response.resources.len(), 1);
        assert_eq!(response.resources[0].name, fleet);
    }
}

#[tokio::test]
async fn a_changed_identity_within_a_stream_ends_it() {
    let server = Server::start();
    server.publish("infra/secret", snapshot(&[(CLUSTER, "secret", b"")]));
    for (id, fleet) in [("envoy-1", "infra/secret"), ("envoy-2", FLEET)] {
        let client = server.delta("envoy-1").await;
        let type_url = CLUSTER.url().to_owned();
        client.send(DeltaDiscoveryRequest { node: node(id, fleet), type_url, ..Default::default() }).await;
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
    client.subscribe(ROUTE, &[&"x".repeat(holdfast_xds::limits::NAME_BYTES_MAX + 1)]).await;
    assert_eq!(client.end().await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn large_resources_and_many_of_them_arrive_whole() {
    let server = Server::start();
    let mut contents = snapshot(&[]);
    for n in 0..500u32 {
        let body = n.to_le_bytes().repeat(if n % 100 == 0 { 300_000 } else { 1 + n as usize });
        contents.insert(ROUTE, Arc::new(Resource::new(format!("r{n}"), body, Origins::default())));
    }
    server.publish(FLEET, contents.clone());
    let mut client = server.delta("e").await;
    let names: Vec<String> = (0..500).map(|n| format!("r{n}")).collect();
    client.subscribe(ROUTE, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
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
    client.subscribe(ROUTE, &["r"]).await;
    for n in 0..5000u32 {
        server.publish(FLEET, snapshot(&[(ROUTE, "r", n.to_string().as_bytes())]));
        tokio::task::yield_now().await;
    }
    let mut last = client.take().await;
    while last.resources[0].version != Version::of(b"4999").to_string() {
        last = client.take().await;
    }
    let sent = server.fleets.pushes().total().responses;
    assert!(sent <= 2 * holdfast_xds::limits::UNANSWERED_MAX as u64, "{sent} responses");
}

#[tokio::test]
async fn a_closed_notice_channel_stops_nothing() {
    let mut server = Server::start();
    server.notices.close();
    server.publish(FLEET, snapshot(&[(ROUTE, "r", b"1")]));
    let mut client = server.delta("e").await;
    client.subscribe(ROUTE, &["r"]).await;
    client.take().await;
    server.publish(FLEET, snapshot(&[(ROUTE, "r", b"2")]));
    client.take().await;
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
    let secret = ResourceType::Secret;
    let canary = b"PRIVATE KEY canary";
    server.publish(FLEET, snapshot(&[(CLUSTER, "a", b""), (secret, "s", canary), (secret, "t", canary)]));
    let mut client = server.delta("envoy-1").await;
    client.subscribe(CLUSTER, &[]).await;
    client.take().await;
    client.subscribe(secret, &["s", "t"]).await;
    let refused = client.next().await;
    client.answer(&refused, error("bad")).await;
    client.next().await;
    for _ in 0..2 {
        server.answer().await;
    }

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
    assert_eq!(views[0]["types"]["SDS"]["refused"]["s"], Version::of(canary).to_string());
    assert!(!views.to_string().contains("canary"));
}
