//! Tests of resources that a reconnecting client already has: they are not sent, and still count as acknowledged.

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use holdfast_xds::connection::{Connection, Protocol};
use holdfast_xds::response::Form;
use holdfast_xds::{Outcome, ResourceType, Snapshot};

use crate::script::resource;

fn snapshot(kind: ResourceType, contents: &[(&str, &str)]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    contents.iter().for_each(|(name, content)| snapshot.insert(kind, resource(kind, name, content)));
    snapshot
}

/// Subscribes to some names, and reports the versions that the client has of them.
fn comes_with(connection: &mut Connection, kind: ResourceType, had: &[(&str, &str)]) {
    let version = |name: &str, content: &str| resource(kind, name, content).version.to_string();
    let request = DeltaDiscoveryRequest {
        type_url: kind.url().to_owned(),
        resource_names_subscribe: had.iter().map(|(name, _)| (*name).to_owned()).collect(),
        initial_resource_versions: had
            .iter()
            .map(|(name, content)| ((*name).to_owned(), version(name, content)))
            .collect(),
        ..Default::default()
    };
    assert_eq!(connection.on_delta_request(&request), Ok(Vec::new()));
}

fn met(connection: &mut Connection) -> Vec<String> {
    let verdicts = connection.take_met();
    assert!(verdicts.iter().all(|verdict| verdict.outcome == Outcome::Acknowledged));
    let names = verdicts.iter().flat_map(|verdict| &verdict.resources);
    names.map(|(name, _)| name.to_string()).collect()
}

#[test]
fn resources_the_client_has_are_reported_once_in_any_order() {
    let offered = snapshot(ResourceType::Route, &[("a", "1"), ("b", "2")]);
    for snapshot_first in [true, false] {
        let mut connection = Connection::new(Protocol::Delta);
        if snapshot_first {
            connection.on_snapshot(offered.clone());
        }
        comes_with(&mut connection, ResourceType::Route, &[("a", "1"), ("b", "1")]);
        if !snapshot_first {
            assert_eq!(met(&mut connection), [""; 0]);
            connection.on_snapshot(offered.clone());
        }
        assert_eq!(met(&mut connection), ["a"]);
        connection.on_snapshot(offered.clone());
        assert_eq!(met(&mut connection), [""; 0]);
    }
}

#[test]
fn a_later_snapshot_may_be_what_it_has() {
    let mut connection = Connection::new(Protocol::Delta);
    comes_with(&mut connection, ResourceType::Route, &[("a", "2"), ("b", "2")]);
    connection.on_snapshot(snapshot(ResourceType::Route, &[("a", "1"), ("b", "2")]));
    assert_eq!(met(&mut connection), ["b"]);
    connection.on_snapshot(snapshot(ResourceType::Route, &[("a", "2"), ("b", "2")]));
    assert_eq!(met(&mut connection), ["a"]);
}

#[test]
fn what_was_sent_meanwhile_has_to_be_answered() {
    let mut connection = Connection::new(Protocol::Delta);
    comes_with(&mut connection, ResourceType::Route, &[("a", "2")]);
    connection.on_snapshot(snapshot(ResourceType::Route, &[("a", "1")]));
    assert!(connection.next_response().is_some());
    connection.on_snapshot(snapshot(ResourceType::Route, &[("a", "2")]));
    assert_eq!(met(&mut connection), [""; 0]);
}

#[test]
fn of_secrets_nothing_is_believed() {
    let mut connection = Connection::new(Protocol::Delta);
    connection.on_snapshot(snapshot(ResourceType::Secret, &[("a", "1")]));
    comes_with(&mut connection, ResourceType::Secret, &[("a", "1")]);
    assert_eq!(met(&mut connection), [""; 0]);
}

/// In the state of the world, reports the version of the last accepted response of the type.
fn comes_with_version(connection: &mut Connection, kind: ResourceType, names: &[&str], version: &str) {
    let request = DiscoveryRequest {
        type_url: kind.url().to_owned(),
        resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        version_info: version.to_owned(),
        ..Default::default()
    };
    assert_eq!(connection.on_sotw_request(&request), Ok(Vec::new()));
}

fn sent_version(kind: ResourceType, names: &[&str], offered: &Snapshot) -> String {
    let mut connection = Connection::new(Protocol::Sotw);
    connection.on_snapshot(offered.clone());
    comes_with_version(&mut connection, kind, names, "");
    match connection.next_response().unwrap().form {
        Form::Sotw { version } => version,
        form => panic!("{form:?}"),
    }
}

#[test]
fn a_state_of_the_world_version_covers_all_resources() {
    for (kind, names, all) in [(ResourceType::Route, &["a"][..], &["a"][..]), (ResourceType::Cluster, &[], &["a", "b"])]
    {
        let offered = snapshot(kind, &[("a", "1"), ("b", "2")]);
        let version = sent_version(kind, names, &offered);
        for snapshot_first in [true, false] {
            let mut connection = Connection::new(Protocol::Sotw);
            if snapshot_first {
                connection.on_snapshot(offered.clone());
            }
            comes_with_version(&mut connection, kind, names, &version);
            if !snapshot_first {
                assert_eq!(met(&mut connection), [""; 0]);
                connection.on_snapshot(offered.clone());
            }
            assert!(connection.next_response().is_none());
            assert_eq!(met(&mut connection), *all);
        }
        let mut connection = Connection::new(Protocol::Sotw);
        connection.on_snapshot(snapshot(kind, &[("a", "3"), ("b", "2")]));
        comes_with_version(&mut connection, kind, names, &version);
        assert_eq!(met(&mut connection), [""; 0]);
    }
}

#[test]
fn of_secrets_no_version_is_believed() {
    let offered = snapshot(ResourceType::Secret, &[("a", "1")]);
    let version = sent_version(ResourceType::Secret, &["a"], &offered);
    let mut connection = Connection::new(Protocol::Sotw);
    connection.on_snapshot(offered);
    comes_with_version(&mut connection, ResourceType::Secret, &["a"], &version);
    assert_eq!(met(&mut connection), [""; 0]);
}
