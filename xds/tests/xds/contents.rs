//! Contents that the model publishes, and messages of its Envoy: contents are identified by a number.

use std::sync::Arc;

use envoy_types::pb::google::rpc::Status;
use holdfast_graph::Origins;
use holdfast_xds::{Resource, ResourceType, Version};

/// The encoded `eds_cluster_config` of a cluster, empty, used as a mark at the end.
pub(super) const EDS: [u8; 2] = [0x1a, 0x00];

/// Returns a resource with a numbered content; a cluster with or without EDS.
pub(super) fn content(kind: ResourceType, name: &str, number: u32, eds: bool) -> Arc<Resource> {
    let mut body = Vec::new();
    if kind == ResourceType::Cluster {
        // `name`, and `alt_stat_name` for the content.
        body.extend([0x0a, name.len() as u8]);
        body.extend(name.as_bytes());
        body.extend([0xe2, 0x01, 0x04]);
        body.extend(number.to_be_bytes().map(|byte| byte & 0x7f));
        if eds {
            body.extend(EDS);
        }
    } else {
        body.extend(number.to_be_bytes());
    }
    Arc::new(Resource::new(name, body, Origins::default()))
}

/// Returns whether this Envoy never accepts a content: one of five contents.
pub(super) fn is_bad_content(version: Version) -> bool {
    version.as_bytes()[0].is_multiple_of(5)
}

pub(super) fn describe(kind: ResourceType, resource: &Resource) -> String {
    let mark = if is_bad_content(resource.version) { "(bad)" } else { "" };
    let names = if kind == ResourceType::Route { format!("->{}", cluster_of(resource)) } else { String::new() };
    let version = resource.version.to_string();
    format!("{}:{}={}{names}{mark}", kind.short_name(), resource.name, &version[..4])
}

/// Returns a content that this Envoy accepts.
pub(super) fn good_content(kind: ResourceType, name: &str, number: u32, eds: bool) -> Arc<Resource> {
    let mut numbers = (0..).map(|more: u32| number.wrapping_add(more << 20));
    numbers
        .find_map(|number| Some(content(kind, name, number, eds)).filter(|made| !is_bad_content(made.version)))
        .unwrap()
}

pub(super) fn cluster_of(route: &Resource) -> &str {
    std::str::from_utf8(&route.body).unwrap().split(' ').next().unwrap()
}

pub(super) fn key(resource: &Resource) -> (String, Version) {
    (resource.name.to_string(), resource.version)
}

pub(super) fn status(message: String) -> Status {
    Status { code: 13, message, ..Default::default() }
}

/// Returns Envoy's list of refused resources.
pub(super) fn listed(kind: ResourceType, bad: &[&Arc<Resource>], cut: bool) -> String {
    let end = if cut { "...(truncated)" } else { "" };
    let item = |resource: &&Arc<Resource>| format!("{}: bad", resource.name);
    if kind == ResourceType::Cluster {
        let items: Vec<String> = bad.iter().map(item).collect();
        format!("Error adding/updating cluster(s) {}{end}", items.join(", "))
    } else {
        let items: Vec<String> = bad.iter().map(|resource| item(resource) + "\n").collect();
        format!("Error adding/updating listener(s) {}{end}", items.concat())
    }
}
