//! Routes of Gateway API and HTTPProxies at one Gateway: conflicts about hosts.
//!
//! `seats.rs` decides the owner of a host, as part of the HTTPProxy; this module removes hosts from routes according to
//! that decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::status::Condition;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_graph::ObjectKey;

use crate::outcome::claims::{Attachment, Parent};
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::host::{HostClaim, Seats};
use crate::reader::Reader;

/// Removes the hosts of HTTPProxies from a route at one of its parents.
pub(crate) fn give_way(
    key: &ObjectKey,
    hostnames: &[Arc<str>],
    mut parent: Parent,
    gateway: Option<&ObjectKey>,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Parent {
    if gateway != Some(&parent.gateway) || parent.attachments.is_empty() {
        return parent;
    }
    let Some(plan) = reader.outcome::<GatewayPlan>(&parent.gateway) else { return parent };
    let mut lost: BTreeMap<Host, ObjectKey> = BTreeMap::new();
    for attachment in &mut parent.attachments {
        let taken =
            |host: &Host, reader: &mut Reader<'_>| taken(host, secure_port(attachment, plan), attachment, reader);
        let gone: BTreeMap<Host, ObjectKey> =
            attachment.hosts.iter().filter_map(|host| Some((host.clone(), taken(host, reader)?))).collect();
        attachment.hosts.retain(|host| !gone.contains_key(host));
        attachment.owned.retain(|host| !gone.contains_key(host));
        attachment.lent.retain(|host| !gone.contains_key(host));
        lost.extend(gone);
    }
    parent.attachments.retain(|attachment| !attachment.hosts.is_empty());
    for (host, winner) in &lost {
        let index = hostnames.iter().position(|hostname| **hostname == *host.domain());
        let field = match index {
            _ if parent.is_default() => parent.field(),
            Some(index) => at("spec.hostnames", index),
            None => "spec.hostnames".to_owned(),
        };
        faults.push(Fault::new(key, Class::Conflict, field, "HostnameConflict", message(host, winner)));
    }
    if let (Some((host, winner)), true) = (lost.iter().next(), parent.attachments.is_empty()) {
        parent.accepted = Condition::new("Accepted", false, "HostnameConflict", message(host, winner));
    }
    parent
}

fn message(host: &Host, winner: &ObjectKey) -> String {
    format!("{:?} is the host of the older HTTPProxy {}", host.domain(), winner.namespaced_name())
}

/// Returns the root that owns a host at a listener.
fn taken(host: &Host, secure: Option<u16>, attachment: &Attachment, reader: &mut Reader<'_>) -> Option<ObjectKey> {
    let patterns: Vec<Host> = if secure.is_some() { host.and_above().collect() } else { vec![host.clone()] };
    patterns.into_iter().find_map(|pattern| {
        let fqdn: Arc<str> = pattern.domain().into();
        let roots: Vec<ObjectKey> = reader.roots(&fqdn).into_iter().map(|root| root.key.clone()).collect();
        roots.into_iter().find(|root| {
            let claim = reader.outcome::<HostClaim>(root);
            claim.is_some_and(|claim| sits(claim, &pattern, host, secure, attachment))
        })
    })
}

/// Checks whether the host of a root excludes a route from a host at a listener.
fn sits(claim: &HostClaim, pattern: &Host, host: &Host, secure: Option<u16>, attachment: &Attachment) -> bool {
    let Some(Seats { http, https, .. }) = claim.seats.as_ref().filter(|_| claim.host.as_ref() == Some(pattern)) else {
        return false;
    };
    match (&attachment.table, secure) {
        (TableName::Port(port), _) => pattern == host && *http == Some(*port),
        (TableName::Listener(_), port) => https.as_ref().is_some_and(|https| Some(https.port) == port),
    }
}

/// Returns the port of an attachment's listener with TLS.
fn secure_port(attachment: &Attachment, plan: &GatewayPlan) -> Option<u16> {
    let mut listeners = plan.listeners.iter().filter(|listener| listener.https);
    listeners.find(|listener| listener.name == attachment.listener.name).map(|listener| listener.port)
}
