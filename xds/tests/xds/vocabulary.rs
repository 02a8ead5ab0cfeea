//! Words for the messages of a test: snapshots, requests, responses and answers, each as one line of text.
//!
//! ```text
//! CDS a=1 b=eds1; RDS r=1         a snapshot: the content of each resource, by type and name
//! CDS                             a request; add=a,b del=a,b init=a:1,b:2 in delta; names=a,b version= in SotW
//! CDS n=1 err=why not             a request that answers response 1; err= extends to the end of the line
//! CDS +a=1 +b=eds1 -c             a response; SotW has no signs
//! ACK CDS a=1 -c                  the report of an answer; NACK has ` : why` at the end
//! ```
//!
//! The bytes of a resource follow from its type, name and content, so that a test names the content instead of bytes
//! and versions. A cluster with a content that starts with `eds` gets its endpoints over EDS.

use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::EdsClusterConfig;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::google::rpc::Status;
use holdfast_graph::Origins;
use holdfast_xds::connection::{ClientVerdict, Connection, Protocol, Violation};
use holdfast_xds::{Outcome, Resource, ResourceType, Snapshot, Version};
use prost::Message;

/// Returns the type with this abbreviation.
pub(crate) fn kind(short: &str) -> ResourceType {
    let found = ResourceType::ALL.into_iter().find(|kind| kind.short_name() == short);
    found.unwrap_or_else(|| panic!("no type {short}"))
}

/// Returns a resource with a content that is described by a word.
pub(crate) fn resource(kind: ResourceType, name: &str, content: &str) -> Arc<Resource> {
    let body = match kind {
        ResourceType::Cluster => Cluster {
            name: name.to_owned(),
            alt_stat_name: content.to_owned(),
            eds_cluster_config: content.starts_with("eds").then(EdsClusterConfig::default),
            ..Default::default()
        }
        .encode_to_vec(),
        _ => content.as_bytes().to_vec(),
    };
    Arc::new(Resource::new(name, body, Origins::default()))
}

/// Returns the word for the content of a resource.
fn content(kind: ResourceType, body: &[u8]) -> String {
    match kind {
        ResourceType::Cluster => Cluster::decode(body).unwrap().alt_stat_name,
        _ => String::from_utf8(body.to_vec()).unwrap(),
    }
}

/// Returns the resources of a snapshot, each with its type and the word for its content.
pub(crate) fn resources(text: &str) -> Vec<(ResourceType, &str, Arc<Resource>)> {
    let mut resources = Vec::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (short, words) = part.split_once(' ').unwrap_or((part, ""));
        let kind = kind(short);
        for word in words.split_whitespace() {
            let (name, content) = word.split_once('=').unwrap_or_else(|| panic!("`{word}` has no content"));
            resources.push((kind, content, resource(kind, name, content)));
        }
    }
    resources
}

pub(crate) fn snapshot(text: &str) -> Snapshot {
    let mut snapshot = Snapshot::default();
    resources(text).into_iter().for_each(|(kind, _, resource)| snapshot.insert(kind, resource));
    snapshot
}

/// A request in either variant of the protocol.
#[derive(Clone, Debug)]
pub(crate) struct EnvoyRequest {
    pub(crate) kind: ResourceType,
    pub(crate) node: Option<Node>,
    /// Delta: the names to subscribe to; state of the world: all names.
    pub(crate) names: Vec<String>,
    pub(crate) unsubscribed: Vec<String>,
    /// The resources that the client has, with their versions.
    pub(crate) had: Vec<(String, String)>,
    pub(crate) version: String,
    pub(crate) nonce: String,
    pub(crate) error: Option<Status>,
}

pub(crate) fn request(text: &str) -> EnvoyRequest {
    let (short, rest) = text.split_once(' ').unwrap_or((text, ""));
    let kind = kind(short);
    let (fields, error) = match rest.split_once("err=") {
        Some((fields, message)) => (fields, Some(error(&message.replace("\\n", "\n")))),
        None => (rest, None),
    };
    let mut request = EnvoyRequest {
        kind,
        node: None,
        names: Vec::new(),
        unsubscribed: Vec::new(),
        had: Vec::new(),
        version: String::new(),
        nonce: String::new(),
        error,
    };
    for field in fields.split_whitespace() {
        let (word, value) = field.split_once('=').unwrap_or((field, ""));
        let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
        match word {
            "add" | "names" => request.names = list(),
            "del" => request.unsubscribed = list(),
            "init" => request.had = list().iter().map(|had| version_of(kind, had)).collect(),
            "version" => request.version = value.to_owned(),
            "n" => request.nonce = value.to_owned(),
            _ => panic!("a request has no field `{field}`"),
        }
    }
    request
}

/// Returns the name and version of a resource that is written as `name:content`.
fn version_of(kind: ResourceType, had: &str) -> (String, String) {
    let (name, content) = had.split_once(':').unwrap_or_else(|| panic!("`{had}` has no content"));
    (name.to_owned(), resource(kind, name, content).version.to_string())
}

/// Returns an error as Envoy sends it.
pub(crate) fn error(message: &str) -> Status {
    Status { code: 13, message: message.to_owned(), ..Default::default() }
}

/// Returns the node that an Envoy reports.
pub(crate) fn node(id: &str, fleet: &str) -> Node {
    Node { id: id.to_owned(), cluster: fleet.to_owned(), ..Default::default() }
}

impl EnvoyRequest {
    /// Adds the node of the client, as the first request of a stream has it.
    pub(crate) fn from(self, node: Node) -> Self {
        Self { node: Some(node), ..self }
    }

    pub(crate) fn delta(self) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest {
            node: self.node,
            type_url: self.kind.url().to_owned(),
            resource_names_subscribe: self.names,
            resource_names_unsubscribe: self.unsubscribed,
            initial_resource_versions: self.had.into_iter().collect(),
            response_nonce: self.nonce,
            error_detail: self.error,
            ..Default::default()
        }
    }

    pub(crate) fn sotw(self) -> DiscoveryRequest {
        DiscoveryRequest {
            node: self.node,
            type_url: self.kind.url().to_owned(),
            resource_names: self.names,
            version_info: self.version,
            response_nonce: self.nonce,
            error_detail: self.error,
            ..Default::default()
        }
    }

    /// Sends the request to a state machine, in its variant of the protocol.
    pub(crate) fn send_to(self, connection: &mut Connection) -> Result<Vec<ClientVerdict>, Violation> {
        match connection.protocol() {
            Protocol::Delta => connection.on_delta_request(&self.delta()),
            Protocol::Sotw => connection.on_sotw_request(&self.sotw()),
        }
    }
}

/// Returns the type and the content of the bytes of a resource.
fn sent(type_url: &str, any: &Any) -> (ResourceType, String) {
    assert_eq!(any.type_url, type_url);
    let kind = ResourceType::from_url(type_url).unwrap();
    (kind, content(kind, &any.value))
}

/// Returns a response as text, without its nonce. Its versions must be those of its contents.
pub(crate) fn delta_response(response: &DeltaDiscoveryResponse) -> String {
    let mut words = vec![ResourceType::from_url(&response.type_url).unwrap().short_name().to_owned()];
    for resource in &response.resources {
        let any = resource.resource.as_ref().unwrap();
        assert_eq!(resource.version, Version::of(&any.value).to_string(), "{}", resource.name);
        words.push(format!("+{}={}", resource.name, sent(&response.type_url, any).1));
    }
    words.extend(response.removed_resources.iter().map(|name| format!("-{name}")));
    words.join(" ")
}

/// Returns a response in the state of the world as text, without its nonce. Only clusters contain their name.
pub(crate) fn sotw_response(response: &DiscoveryResponse) -> String {
    let mut words = vec![ResourceType::from_url(&response.type_url).unwrap().short_name().to_owned()];
    for any in &response.resources {
        words.push(match sent(&response.type_url, any) {
            (ResourceType::Cluster, content) => {
                format!("{}={content}", Cluster::decode(any.value.as_slice()).unwrap().name)
            }
            (_, content) => content,
        });
    }
    words.join(" ")
}

/// An answer: its type, its outcome, and the resources with their versions.
pub(crate) type ReadAnswer = (ResourceType, Outcome, Vec<(Arc<str>, Option<Version>)>);

/// Returns the type, the outcome and the resources of an answer.
pub(crate) fn answered(text: &str) -> ReadAnswer {
    let (words, reason) = text.split_once(" : ").unwrap_or((text, ""));
    let mut words = words.split_whitespace();
    let outcome = match words.next() {
        Some("ACK") => Outcome::Acknowledged,
        Some("NACK") => Outcome::Refused { message: reason.to_owned() },
        _ => panic!("`{text}` is no answer"),
    };
    let kind = kind(words.next().unwrap());
    let resources = words.map(|word| match (word.strip_prefix('-'), word.split_once('=')) {
        (Some(removed), _) => (Arc::from(removed), None),
        (None, Some((name, content))) => (Arc::from(name), Some(resource(kind, name, content).version)),
        (None, None) => panic!("`{word}` has no content"),
    });
    (kind, outcome, resources.collect())
}
