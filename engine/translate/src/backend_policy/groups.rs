//! Priority groups of Backends: one cluster, with one priority for each group.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kgateway::backend::PriorityGroup;
use holdfast_api::apis::kinds;
use holdfast_api::fault::at;
use holdfast_envoy::features::hosts::{HOSTS_MAX, Hosts};
use holdfast_envoy::model::BackendProtocol;
use holdfast_graph::ObjectKey;

use super::notes::Notes;
use super::{Behalf, hosts, is_policy};
use crate::reader::Reader;

/// Groups, and Backends of one group; same limits as in the CRD.
const GROUPS_MAX: usize = 16;
const BACKENDS_MAX: usize = 16;
/// The field path.
const FIELD: &str = "spec.priorityGroups";

pub(super) fn read(
    key: &ObjectKey,
    written: &[PriorityGroup],
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> Option<(Arc<Hosts>, BackendProtocol)> {
    if written.is_empty() || written.len() > GROUPS_MAX {
        notes.invalid(FIELD, format!("must have 1 to {GROUPS_MAX} entries"));
    }
    let loopback = reader.settings.allow_loopback_backends;
    let mut found = Hosts { owner: key.clone(), members: Vec::new(), groups: Vec::new(), loopback };
    let (mut known, mut spoken) = (BTreeSet::new(), None);
    for (index, group) in written.iter().take(GROUPS_MAX).enumerate() {
        let field = format!("{}.backendRefs", at(FIELD, index));
        if group.backend_refs.is_empty() || group.backend_refs.len() > BACKENDS_MAX {
            notes.invalid(&field, format!("must have 1 to {BACKENDS_MAX} entries"));
        }
        let mut hosts = Vec::new();
        for (index, reference) in group.backend_refs.iter().take(BACKENDS_MAX).enumerate() {
            let field = at(&field, index);
            let member = ObjectKey::new(GROUP, kinds::BACKEND, &*key.namespace, &*reference.name);
            let Some((own, protocol)) = self::member(&field, &member, behalf, reader, notes) else { continue };
            if *spoken.get_or_insert(protocol) != protocol {
                notes.invalid(
                    &field,
                    "all Backends of the priority groups must have the same protocol: see their appProtocol",
                );
            }
            // A host in several groups belongs to the first one: Envoy accepts each host once.
            let fresh = own.groups.iter().flatten().filter(|host| known.insert((*host).clone()));
            hosts.extend(fresh.cloned());
            if !found.members.contains(&member) {
                found.members.push(member);
            }
        }
        found.groups.extend((!hosts.is_empty()).then_some(hosts));
    }
    if known.len() > HOSTS_MAX {
        notes.invalid(FIELD, format!("must have at most {HOSTS_MAX} hosts in all"));
    }
    spoken.map(|protocol| (Arc::new(found), protocol))
}

/// Returns the hosts of a referenced Backend.
fn member(
    field: &str,
    member: &ObjectKey,
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> Option<(Arc<Hosts>, BackendProtocol)> {
    let name = member.namespaced_name();
    reader.edge(behalf.key, behalf.section, member, behalf.role);
    let Some(object) = reader.object(member) else {
        notes.lacks(field, "BackendNotFound", member, format!("Backend {name} {}", reader.lacking(member)));
        return None;
    };
    let fixed = match &object.body {
        Body::Backend(backend) if backend.unread.is_empty() => backend.fixed.as_ref(),
        _ => None,
    };
    let Some(fixed) = fixed else {
        notes.unsupported(
            field,
            format!("Backend {name} is not a static Backend: only static Backends can be in a priority group"),
        );
        return None;
    };
    // The group would use the hosts without the settings of the policy.
    let policies = reader.attached(member, &object.metadata.labels);
    if let Some(policy) = policies.keys().find(|policy| is_policy(policy)) {
        let message = format!(
            "{} {} is attached to Backend {name}, and cannot apply to a single Backend of a priority group: attach \
             the policy to the Backend with the priority groups",
            policy.kind,
            policy.namespaced_name()
        );
        notes.invalid(field, message);
        return None;
    }
    let mut own = Notes::default();
    let read = hosts::read(member, fixed, reader.settings.allow_loopback_backends, &mut own);
    if !own.is_empty() {
        notes.invalid(field, format!("Backend {name} cannot be served: {}", own.sentence()));
    }
    read.filter(|_| own.is_empty())
}
