//! Tests of resources that a reconnecting client already has: they are not sent, and still count as acknowledged.

use holdfast_xds::connection::{Connection, Protocol};
use holdfast_xds::response::Form;
use holdfast_xds::{Outcome, Snapshot};

use crate::vocabulary::{request, snapshot};

/// Sends a request that answers no response.
fn send(connection: &mut Connection, text: &str) {
    assert_eq!(request(text).send_to(connection), Ok(Vec::new()));
}

/// Returns the names of the resources that were reported as acknowledged since the last call.
fn met(connection: &mut Connection) -> Vec<String> {
    let verdicts = connection.take_met();
    assert!(verdicts.iter().all(|verdict| verdict.outcome == Outcome::Acknowledged));
    let names = verdicts.iter().flat_map(|verdict| &verdict.resources);
    names.map(|(name, _)| name.to_string()).collect()
}

#[test]
fn resources_the_client_has_are_reported_once_in_any_order() {
    let offered = snapshot("RDS a=1 b=2");
    for snapshot_first in [true, false] {
        let mut connection = Connection::new(Protocol::Delta);
        if snapshot_first {
            connection.on_snapshot(offered.clone());
        }
        send(&mut connection, "RDS add=a,b init=a:1,b:1");
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
    send(&mut connection, "RDS add=a,b init=a:2,b:2");
    connection.on_snapshot(snapshot("RDS a=1 b=2"));
    assert_eq!(met(&mut connection), ["b"]);
    connection.on_snapshot(snapshot("RDS a=2 b=2"));
    assert_eq!(met(&mut connection), ["a"]);
}

#[test]
fn what_was_sent_meanwhile_has_to_be_answered() {
    let mut connection = Connection::new(Protocol::Delta);
    send(&mut connection, "RDS add=a init=a:2");
    connection.on_snapshot(snapshot("RDS a=1"));
    assert!(connection.next_response().is_some());
    assert_eq!(met(&mut connection), ["a"], "the version that it had before is reported, once");
    connection.on_snapshot(snapshot("RDS a=2"));
    assert_eq!(met(&mut connection), [""; 0]);
}

#[test]
fn of_secrets_nothing_is_believed() {
    let mut connection = Connection::new(Protocol::Delta);
    connection.on_snapshot(snapshot("SDS a=1"));
    send(&mut connection, "SDS add=a init=a:1");
    assert_eq!(met(&mut connection), [""; 0]);
}

/// In the state of the world, returns the version of the response to a request.
fn sent_version(text: &str, offered: &Snapshot) -> String {
    let mut connection = Connection::new(Protocol::Sotw);
    connection.on_snapshot(offered.clone());
    send(&mut connection, text);
    match connection.next_response().unwrap().form {
        Form::Sotw { version } => version,
        form => panic!("{form:?}"),
    }
}

#[test]
fn a_state_of_the_world_version_covers_all_resources() {
    for (kind, text, all) in [("RDS", "RDS names=a", &["a"][..]), ("CDS", "CDS", &["a", "b"])] {
        let offered = snapshot(&format!("{kind} a=1 b=2"));
        let again = format!("{text} version={}", sent_version(text, &offered));
        for snapshot_first in [true, false] {
            let mut connection = Connection::new(Protocol::Sotw);
            if snapshot_first {
                connection.on_snapshot(offered.clone());
            }
            send(&mut connection, &again);
            if !snapshot_first {
                assert_eq!(met(&mut connection), [""; 0]);
                connection.on_snapshot(offered.clone());
            }
            assert!(connection.next_response().is_none());
            assert_eq!(met(&mut connection), *all);
        }
        let mut connection = Connection::new(Protocol::Sotw);
        connection.on_snapshot(snapshot(&format!("{kind} a=3 b=2")));
        send(&mut connection, &again);
        assert_eq!(met(&mut connection), [""; 0]);
    }
}

#[test]
fn of_secrets_no_version_is_believed() {
    let offered = snapshot("SDS a=1");
    let version = sent_version("SDS names=a", &offered);
    let mut connection = Connection::new(Protocol::Sotw);
    connection.on_snapshot(offered);
    send(&mut connection, &format!("SDS names=a version={version}"));
    assert_eq!(met(&mut connection), [""; 0]);
}
