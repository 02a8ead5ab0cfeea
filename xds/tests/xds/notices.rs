//! Tests over loopback: streams are reported, and each Envoy is served the offer for its node, its build or everyone.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::config::core::v3::{BuildVersion, Node};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use holdfast_xds::identity::FLAGS_FIELD;
use holdfast_xds::{EnvoyId, Listen, Notice, Offers, ResourceType, Snapshot, Waiting, bind};

use crate::client::{DeltaClient, FLEET, Server, until};
use crate::vocabulary::{node, request, snapshot};

const CLUSTER: ResourceType = ResourceType::Cluster;

fn envoy(node: &str, build: &str) -> EnvoyId {
    EnvoyId { fleet: Arc::from(FLEET), node: Arc::from(node), build: Arc::from(build) }
}

/// Returns the node that an Envoy of version 1.40.0 reports.
fn node_with_flags(id: &str, flags: &str) -> Node {
    let version = SemanticVersion { major_number: 1, minor_number: 40, patch: 0 };
    let build = BuildVersion { version: Some(version), ..Default::default() };
    let fields = [(FLAGS_FIELD.to_owned(), Value { kind: Some(Kind::StringValue(flags.to_owned())) })].into();
    Node {
        user_agent_version_type: Some(UserAgentVersionType::UserAgentBuildVersion(build)),
        metadata: Some(Struct { fields }),
        ..node(id, FLEET)
    }
}

/// Returns a snapshot of two clusters, one of which has this content.
fn clusters(content: &str) -> Snapshot {
    snapshot(&format!("CDS a={content} b=same"))
}

fn is_answer(notice: &Notice) -> bool {
    matches!(notice, Notice::Answered(answer) if &*answer.node == "envoy-1")
}

#[tokio::test]
async fn a_stream_reports_its_start_its_answers_and_its_end() {
    let mut server = Server::start();
    server.publish(FLEET, "CDS a=1 b=same");
    let first = DeltaDiscoveryRequest { node: Some(node_with_flags("envoy-1", "re2=7")), ..Default::default() };
    let mut client = DeltaClient::open_with(server.channel().await, first).await;
    client.requests("CDS").await;
    client.accepts("CDS +a=1 +b=same").await;
    let id = envoy("envoy-1", "1.40.0+re2=7");
    assert_eq!(server.notice().await, Notice::Connected(id.clone(), false));
    assert!(is_answer(&server.notice().await));
    drop(client);
    assert_eq!(server.notice().await, Notice::Disconnected(id));
    assert!(server.fleets.envoys().is_empty(), "it is in no list any more");
}

#[tokio::test]
async fn a_stream_reports_whether_its_envoy_has_resources() {
    let mut server = Server::start();
    let first = request("CDS init=a:1").from(node("envoy-1", FLEET)).delta();
    let _client = DeltaClient::open_with(server.channel().await, first).await;
    assert_eq!(server.notice().await, Notice::Connected(envoy("envoy-1", ""), true));
}

#[tokio::test]
async fn each_stream_of_a_node_reports_separately() {
    let mut server = Server::start();
    let id = envoy("envoy-1", "");
    let old = server.delta("envoy-1").await;
    assert_eq!(server.notice().await, Notice::Connected(id.clone(), false));
    let new = server.delta("envoy-1").await;
    assert_eq!(server.notice().await, Notice::Connected(id.clone(), false));
    drop(old);
    assert_eq!(server.notice().await, Notice::Disconnected(id.clone()));
    assert_eq!(server.fleets.connected().get(FLEET), Some(&1));
    drop(new);
    assert_eq!(server.notice().await, Notice::Disconnected(id));
}

#[tokio::test]
async fn a_rejected_stream_reports_nothing() {
    let mut server = Server::start();
    let client = DeltaClient::open(server.channel().await, "envoy-1", "no-slash").await;
    assert!(client.end().await.is_err());
    let _client = server.delta("envoy-2").await;
    assert_eq!(server.notice().await, Notice::Connected(envoy("envoy-2", ""), false));
}

#[tokio::test]
async fn a_stopping_server_reports_the_end_of_its_streams() {
    let mut server = Server::start();
    let client = server.delta("envoy-1").await;
    assert!(matches!(server.notice().await, Notice::Connected(..)));
    server.stop();
    assert!(client.end().await.is_err());
    assert_eq!(server.notice().await, Notice::Disconnected(envoy("envoy-1", "")));
}

#[tokio::test]
async fn no_notice_is_lost_while_the_receiver_is_busy() {
    let mut server = Server::with_room(bind(Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap(), 1);
    server.publish(FLEET, "CDS a=1 b=same");
    // The answer waits behind the notice of the connection, and the notice of the disconnection behind both.
    let mut client = server.delta("envoy-1").await;
    client.requests("CDS").await;
    client.accepts("CDS +a=1 +b=same").await;
    until(|| server.fleets.pushes().of(FLEET, CLUSTER).acknowledged == 1).await;
    drop(client);
    until(|| server.fleets.connected().is_empty()).await;
    let id = envoy("envoy-1", "");
    assert_eq!(server.notice().await, Notice::Connected(id.clone(), false));
    assert!(is_answer(&server.notice().await));
    assert_eq!(server.notice().await, Notice::Disconnected(id));
}

#[tokio::test]
async fn each_envoy_is_served_what_its_node_its_build_or_everyone_should_have() {
    let server = Server::start();
    let mut offers = Offers::everyone(clusters("everyone"));
    offers.builds.insert("1.40.0+re2=7".into(), clusters("build"));
    offers.nodes.insert("envoy-1".into(), clusters("node"));
    server.fleets.publish(FLEET, offers.clone());
    let mut clients = BTreeMap::new();
    for (id, flags, expected) in
        [("envoy-1", "re2=7", "node"), ("envoy-2", "re2=7", "build"), ("envoy-3", "", "everyone")]
    {
        let first = request("CDS").from(node_with_flags(id, flags)).delta();
        let mut client = DeltaClient::open_with(server.channel().await, first).await;
        client.accepts(&format!("CDS +a={expected} +b=same")).await;
        clients.insert(id, client);
    }
    let sent = server.fleets.pushes().of(FLEET, CLUSTER).resources;
    offers.nodes.clear();
    server.fleets.publish(FLEET, offers.clone());
    clients.get_mut("envoy-1").unwrap().accepts("CDS +a=build").await;
    // No other Envoy was sent anything: the next response of each one is for the next offer.
    offers.everyone = clusters("all");
    offers.builds.clear();
    server.fleets.publish(FLEET, offers);
    for client in clients.values_mut() {
        client.accepts("CDS +a=all").await;
    }
    assert_eq!(server.fleets.pushes().of(FLEET, CLUSTER).resources, sent + 4);
}

#[tokio::test]
async fn a_fresh_only_offer_is_withheld_from_a_resuming_envoy_until_it_is_for_all() {
    let server = Server::start();
    let stored = Offers { fresh_only: true, ..Offers::everyone(clusters("stored")) };
    server.fleets.publish(FLEET, stored);
    let mut back = server.delta("envoy-1").await;
    back.requests("CDS init=a:newer,b:same").await;
    let mut fresh = server.delta("envoy-2").await;
    fresh.requests("CDS").await;
    fresh.accepts("CDS +a=stored +b=same").await;
    until(|| server.fleets.envoys().iter().all(|envoy| envoy.types.contains_key("CDS"))).await;
    assert_eq!(server.fleets.pushes().of(FLEET, CLUSTER).responses, 1);

    server.publish(FLEET, "CDS a=newer b=same");
    fresh.accepts("CDS +a=newer").await;
    server.publish(FLEET, "CDS a=newest b=same");
    // The resources that it had are not sent again.
    back.accepts("CDS +a=newest").await;
}

#[tokio::test]
async fn a_waiting_envoy_is_sent_nothing_until_its_turn() {
    let server = Server::start();
    let mut offers = Offers::everyone(clusters("first"));
    offers.waiting.everyone = true;
    offers.nodes.insert("envoy-1".into(), clusters("first"));
    server.fleets.publish(FLEET, offers.clone());
    let mut waiting = server.delta("envoy-2").await;
    waiting.requests("CDS").await;
    let mut first = server.delta("envoy-1").await;
    first.requests("CDS").await;
    first.accepts("CDS +a=first +b=same").await;
    until(|| server.fleets.envoys().iter().all(|envoy| envoy.types.contains_key("CDS"))).await;
    assert_eq!(server.fleets.pushes().of(FLEET, CLUSTER).responses, 1);
    // Equal content, now for all Envoys.
    offers.waiting = Waiting::default();
    offers.nodes.clear();
    server.fleets.publish(FLEET, offers);
    waiting.accepts("CDS +a=first +b=same").await;
    assert_eq!(server.fleets.pushes().of(FLEET, CLUSTER).responses, 2);
}

#[tokio::test]
async fn the_same_content_is_sent_once_it_is_for_all() {
    let server = Server::start();
    server.fleets.publish(FLEET, Offers { fresh_only: true, ..Offers::everyone(clusters("1")) });
    let mut back = server.delta("envoy-1").await;
    back.requests("CDS init=a:0").await;
    until(|| server.fleets.envoys().iter().any(|envoy| envoy.types.contains_key("CDS"))).await;
    server.publish(FLEET, "CDS a=1 b=same");
    back.accepts("CDS +a=1 +b=same").await;
}
