//! Resources in their wire form: encoded once, shared by all clients, named and versioned by content.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use holdfast_graph::{Origins, visits};
use serde::Serialize;

use crate::json;
use crate::split::SplitRoutes;

/// The xDS types that are served, in make-before-break order: referents come before referrers.
///
/// <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ResourceType {
    /// `envoy.config.cluster.v3.Cluster`.
    Cluster,
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment`.
    Endpoints,
    /// `envoy.extensions.transport_sockets.tls.v3.Secret`.
    Secret,
    /// `envoy.config.listener.v3.Listener`.
    Listener,
    /// `envoy.config.route.v3.RouteConfiguration`.
    Route,
}

impl ResourceType {
    /// Every type, in make-before-break order.
    pub const ALL: [ResourceType; 5] = [
        ResourceType::Cluster,
        ResourceType::Endpoints,
        ResourceType::Secret,
        ResourceType::Listener,
        ResourceType::Route,
    ];

    /// Returns the type URL.
    pub fn url(self) -> &'static str {
        match self {
            ResourceType::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            ResourceType::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            ResourceType::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            ResourceType::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            ResourceType::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// Returns the type with this URL, if it is served.
    pub fn from_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.url() == url)
    }

    /// Returns the usual abbreviation: `CDS`, `EDS`, `SDS`, `LDS`, `RDS`.
    pub fn short_name(self) -> &'static str {
        match self {
            ResourceType::Cluster => "CDS",
            ResourceType::Endpoints => "EDS",
            ResourceType::Secret => "SDS",
            ResourceType::Listener => "LDS",
            ResourceType::Route => "RDS",
        }
    }
}

/// Content hash of a resource: equal content has equal versions, also after a restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version([u8; 16]);

impl Version {
    /// Returns the version of these bytes (the first 16 bytes of their BLAKE3).
    pub fn of(bytes: &[u8]) -> Self {
        let mut version = [0; 16];
        version.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        Self(version)
    }

    /// Parses a version of 32 hexadecimal digits; returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
        let mut version = [0; 16];
        for (byte, pair) in version.iter_mut().zip(digits.chunks_exact(2)) {
            for &digit in pair {
                let value = match digit {
                    b'0'..=b'9' => digit - b'0',
                    b'a'..=b'f' => digit - b'a' + 10,
                    _ => return None,
                };
                *byte = *byte << 4 | value;
            }
        }
        Some(Self(version))
    }

    /// Returns a version of known value.
    pub fn from_bytes(version: [u8; 16]) -> Self {
        Self(version)
    }

    /// Returns the hash.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Writes 32 lower-case hexadecimal digits, the form on the wire.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

/// An encoded resource.
#[derive(Clone)]
pub struct Resource {
    /// Name of the resource, unique within its type and fleet.
    pub name: Arc<str>,
    /// Hash of the content.
    pub version: Version,
    /// The encoded message: the `value` of the `Any`, not the `Any` itself.
    pub body: Bytes,
    /// The objects from which the resource was made.
    pub origins: Origins,
    /// The number of the delivery of a route configuration to a client, of which the resource is a part; 0 for all other
    /// resources. A part of the version on the wire.
    generation: u32,
    /// The bytes before the body on the wire, written once for all clients.
    head: OnceLock<(ResourceType, Bytes)>,
    /// Whether the resource has a credential. Computed once, when the resource is first stored.
    sensitive: OnceLock<bool>,
    /// A route configuration with its hosts apart. Divided once, when it is first sent to a client in that form.
    split: OnceLock<Option<Arc<SplitRoutes>>>,
    /// The parts of the body; empty if it was encoded as a whole.
    parts: Vec<Arc<BodyPart>>,
}

/// Consecutive fields of the body of a resource. Versions of the resource in which the fields are equal share the part,
/// and what is computed of it.
pub struct BodyPart {
    /// The encoded fields.
    pub fields: Bytes,
    sensitive: OnceLock<bool>,
}

impl BodyPart {
    /// Returns a part with these encoded fields.
    pub fn new(fields: impl Into<Bytes>) -> Self {
        Self { fields: fields.into(), sensitive: OnceLock::new() }
    }

    /// Returns whether the fields have a credential. Computed once for a part.
    fn is_sensitive(&self, kind: ResourceType) -> bool {
        *self.sensitive.get_or_init(|| is_sensitive_body(kind, &self.fields))
    }
}

/// Never shows the fields: they may contain a credential.
impl fmt::Debug for BodyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyPart").field("bytes", &self.fields.len()).finish_non_exhaustive()
    }
}

fn is_sensitive_body(kind: ResourceType, body: &[u8]) -> bool {
    visits::bytes(body.len());
    json::is_sensitive_resource(kind, body)
}

/// The bytes before the body are not compared: they follow from the other fields.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && self.name == other.name
            && self.origins == other.origins
            && self.body == other.body
    }
}

impl Eq for Resource {}

impl Resource {
    /// Returns a resource with the hash of its bytes as its version.
    pub fn new(name: impl Into<Arc<str>>, body: impl Into<Bytes>, origins: Origins) -> Self {
        let body = body.into();
        let version = Version::of(&body);
        Self::with_version(name, version, body, origins)
    }

    /// Returns a resource with a version that was made from the versions of its parts; the version must change whenever
    /// the bytes do.
    pub fn with_version(name: impl Into<Arc<str>>, version: Version, body: impl Into<Bytes>, origins: Origins) -> Self {
        Self {
            name: name.into(),
            version,
            body: body.into(),
            origins,
            generation: 0,
            head: OnceLock::new(),
            sensitive: OnceLock::new(),
            split: OnceLock::new(),
            parts: Vec::new(),
        }
    }

    /// Returns the resource with the parts that its body consists of. The first part of a route configuration has all
    /// fields but the virtual hosts.
    pub fn of_parts(self, parts: Vec<Arc<BodyPart>>) -> Self {
        Self { parts, ..self }
    }

    /// Returns the parts of the body; nothing if it was encoded as a whole.
    pub fn parts(&self) -> &[Arc<BodyPart>] {
        &self.parts
    }

    /// Returns the resource as a part of this delivery to a client.
    pub(crate) fn of_generation(self, generation: u32) -> Self {
        Self { generation, head: OnceLock::new(), ..self }
    }

    /// Returns the version on the wire.
    pub fn wire_version(&self) -> String {
        match self.generation {
            0 => self.version.to_string(),
            generation => format!("{}-{generation}", self.version),
        }
    }

    /// Returns this route configuration with its hosts apart; `None` where it has to be sent whole.
    pub(crate) fn split(&self) -> Option<Arc<SplitRoutes>> {
        self.split.get_or_init(|| SplitRoutes::of(self).map(Arc::new)).clone()
    }

    /// Returns whether the body has a credential: the content of a Secret, a key, a password, or a header that carries
    /// one.
    ///
    /// The answer is computed once for a resource, or for each of its parts; the cost equals that of displaying it.
    pub fn is_sensitive(&self, kind: ResourceType) -> bool {
        *self.sensitive.get_or_init(|| match kind {
            ResourceType::Secret => true,
            ResourceType::Endpoints => false,
            _ if self.parts.is_empty() => is_sensitive_body(kind, &self.body),
            _ => self.parts.iter().any(|part| part.is_sensitive(kind)),
        })
    }

    /// Returns the bytes before the body on the wire for this type: written by `write` once, however many clients the
    /// resource is sent to.
    pub(crate) fn head(&self, kind: ResourceType, write: impl Fn(&Self) -> Bytes) -> Bytes {
        match self.head.get_or_init(|| (kind, write(self))) {
            (written, head) if *written == kind => head.clone(),
            _ => write(self),
        }
    }
}

/// Never shows the body: it may contain a private key.
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use holdfast_graph::Visits;

    use super::*;

    #[test]
    fn the_search_for_credentials_is_made_once_for_each_part() {
        let part = |fields: &'static [u8]| Arc::new(BodyPart::new(fields));
        let (first, second, undecodable) = (part(b"\x0a\x01r"), part(b"\x0a\x02rr"), part(b"\x0a\xfftoken"));
        let search = |parts: [&Arc<BodyPart>; 2]| {
            let body: Vec<u8> = parts.iter().flat_map(|part| part.fields.iter()).copied().collect();
            let whole = Resource::new("r", body, Origins::default());
            let resource = whole.clone().of_parts(parts.map(Arc::clone).to_vec());
            let (is_sensitive, visits) = Visits::of(|| resource.is_sensitive(ResourceType::Route));
            assert_eq!(is_sensitive, whole.is_sensitive(ResourceType::Route));
            (is_sensitive, visits.bytes)
        };
        assert_eq!(search([&first, &second]), (false, 7));
        assert_eq!(search([&first, &second]), (false, 0));
        assert_eq!(search([&second, &undecodable]), (true, 7));
    }
}
