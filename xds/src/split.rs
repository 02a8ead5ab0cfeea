//! A route configuration as it is sent to a client that takes virtual hosts one by one (VHDS): the route configuration
//! without hosts, and its hosts.
//!
//! The bytes are divided, not decoded: a host is a range of the body of the route configuration.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds>

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::{AggregatedConfigSource, ApiVersion, ConfigSource};
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, Vhds, VirtualHost};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::{Resource, Version};

/// `RouteConfiguration.name`.
const NAME: u32 = 1;
/// `RouteConfiguration.virtual_hosts`.
const VIRTUAL_HOSTS: u32 = 2;
/// `RouteConfiguration.validate_clusters`.
const VALIDATE_CLUSTERS: u32 = 7;
/// `RouteConfiguration.ignore_port_in_host_matching`.
const IGNORE_PORT: u32 = 14;
/// `VirtualHost.name`.
const HOST_NAME: u32 = 1;

/// The attribute of conditions with the name of the virtual host.
///
/// <https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/advanced/attributes>
const READS_NAME: &[u8] = b"virtual_host_name";
/// The name of no host.
const NO_HOST: &str = "none";

/// A divided route configuration.
#[derive(Debug)]
pub(crate) struct SplitRoutes {
    /// The route configuration without hosts.
    head: Resource,
    /// The route configuration with its hosts.
    whole: Bytes,
    /// The hosts in the order of their names, each name once.
    hosts: Vec<HostPart>,
}

/// A virtual host.
#[derive(Debug)]
struct HostPart {
    /// The content of the field with the name.
    name: Range<usize>,
    /// The field with the name.
    field: Range<usize>,
    message: Range<usize>,
    version: Version,
}

/// The difference between the hosts of a client and those of a route configuration.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HostChanges {
    /// Hosts that are new or different.
    pub(crate) sent: Vec<Arc<Resource>>,
    /// Names of the resources of hosts that are gone.
    pub(crate) removed: Vec<Arc<str>>,
}

impl HostPart {
    /// Returns the host with this message; `None` if it has no name.
    fn of(whole: &[u8], message: Range<usize>) -> Option<Self> {
        let mut rest = &whole[message.clone()];
        while !rest.is_empty() {
            let start = message.end - rest.len();
            let (tag, wire_type) = decode_key(&mut rest).ok()?;
            if tag == HOST_NAME && wire_type == WireType::LengthDelimited {
                let name = content(&whole[..message.end], &mut rest)?;
                let (field, version) = (start..name.end, Version::of(&whole[message.clone()]));
                return Some(Self { name, field, message, version });
            }
            skip_field(wire_type, tag, &mut rest, DecodeContext::default()).ok()?;
        }
        None
    }
}

impl SplitRoutes {
    /// Divides a route configuration. Returns `None` if its hosts cannot be sent separately: if it has settings for all
    /// hosts, which would change before or after the hosts, two hosts of one name, or conditions about the names of hosts,
    /// which are other names then.
    pub(crate) fn of(routes: &Resource) -> Option<Self> {
        let whole = routes.body.clone();
        if reads_host_name(&whole) {
            return None;
        }
        let (mut head, mut hosts) = (Vec::new(), Vec::new());
        let mut rest = &whole[..];
        while !rest.is_empty() {
            let start = whole.len() - rest.len();
            let (tag, wire_type) = decode_key(&mut rest).ok()?;
            match (tag, wire_type) {
                (VIRTUAL_HOSTS, WireType::LengthDelimited) => {
                    let message = content(&whole, &mut rest)?;
                    hosts.push(HostPart::of(&whole, message)?);
                }
                (NAME | VALIDATE_CLUSTERS | IGNORE_PORT, _) => {
                    skip_field(wire_type, tag, &mut rest, DecodeContext::default()).ok()?;
                    head.extend_from_slice(&whole[start..whole.len() - rest.len()]);
                }
                _ => return None,
            }
        }
        hosts.sort_unstable_by(|a, b| whole[a.name.clone()].cmp(&whole[b.name.clone()]));
        let is_ambiguous = hosts.windows(2).any(|two| whole[two[0].name.clone()] == whole[two[1].name.clone()]);
        let are_names = hosts.iter().all(|host| std::str::from_utf8(&whole[host.name.clone()]).is_ok());
        head.extend(reference());
        let head = Resource::new(routes.name.clone(), head, routes.origins.clone());
        (!is_ambiguous && are_names).then_some(Self { head, whole, hosts })
    }

    /// Returns the route configuration without hosts, as a part of a delivery.
    pub(crate) fn head(&self, generation: u32) -> Arc<Resource> {
        Arc::new(self.head.clone().of_generation(generation))
    }

    /// Returns the version of the route configuration without hosts.
    pub(crate) fn head_version(&self) -> Version {
        self.head.version
    }

    /// Returns the name of the route configuration.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.head.name
    }

    /// Returns the names and versions of the hosts in the order of the names.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&str, Version)> {
        // Names that are no UTF-8 were refused above.
        self.hosts.iter().map(|host| (self.host_name(host), host.version))
    }

    /// Returns the changes for a client that needs all hosts, and may have these from before, given in the order of their
    /// names. Envoy waits for a first response that is not empty: where there are no hosts, the response removes one that
    /// never existed.
    pub(crate) fn all<'a>(&self, before: impl Iterator<Item = &'a str>, generation: u32) -> HostChanges {
        let mut changes = self.changes(before.map(|host| (host, None)), generation);
        if changes == HostChanges::default() {
            changes.removed.push(resource_name(&self.head.name, NO_HOST));
        }
        changes
    }

    /// Returns the changes for a client with these hosts, given in the order of their names.
    pub(crate) fn changes<'a>(
        &self,
        client: impl Iterator<Item = (&'a str, Option<Version>)>,
        generation: u32,
    ) -> HostChanges {
        let mut changes = HostChanges::default();
        let (mut client, mut hosts) = (client.peekable(), self.hosts.iter().peekable());
        loop {
            let order = match (client.peek(), hosts.peek()) {
                (None, None) => return changes,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((known, _)), Some(host)) => (*known).cmp(self.host_name(host)),
            };
            let known = if order.is_le() { client.next() } else { None };
            let host = if order.is_ge() { hosts.next() } else { None };
            match (known, host) {
                (Some((_, version)), Some(host)) if version == Some(host.version) => {}
                (_, Some(host)) => changes.sent.push(Arc::new(self.resource(host, generation))),
                (Some((name, _)), None) => changes.removed.push(resource_name(&self.head.name, name)),
                (None, None) => {}
            }
        }
    }

    /// Returns the resource of a host. Envoy removes a host by the name of its resource, and keeps it by the name in its
    /// message: the two must be equal, or a removed host would be served for ever.
    fn resource(&self, host: &HostPart, generation: u32) -> Resource {
        let name = resource_name(&self.head.name, self.host_name(host));
        let mut body = VirtualHost { name: name.to_string(), ..Default::default() }.encode_to_vec();
        body.extend_from_slice(&self.whole[host.message.start..host.field.start]);
        body.extend_from_slice(&self.whole[host.field.end..host.message.end]);
        Resource::with_version(name, host.version, body, self.head.origins.clone()).of_generation(generation)
    }

    fn host_name(&self, host: &HostPart) -> &str {
        std::str::from_utf8(&self.whole[host.name.clone()]).unwrap_or_default()
    }
}

/// Returns whether a resource has a condition or an attribute that is the name of the virtual host.
pub(crate) fn reads_host_name(body: &[u8]) -> bool {
    body.windows(READS_NAME.len()).any(|part| part == READS_NAME)
}

/// Returns the name of the resource of a virtual host; Envoy requires this form.
pub(crate) fn resource_name(routes: &str, host: &str) -> Arc<str> {
    format!("{routes}/{host}").into()
}

/// Returns the encoded field `vhds`: the hosts come over the same stream.
fn reference() -> Vec<u8> {
    let source = ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        resource_api_version: ApiVersion::V3.into(),
        ..Default::default()
    };
    RouteConfiguration { vhds: Some(Vhds { config_source: Some(source) }), ..Default::default() }.encode_to_vec()
}

/// Takes the content of a field with a length from the rest of a message; returns its range in the message.
fn content(whole: &[u8], rest: &mut &[u8]) -> Option<Range<usize>> {
    let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
    let start = whole.len() - rest.len();
    let (_, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(start..start + length)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use envoy_types::pb::envoy::config::route::v3::Route;
    use envoy_types::pb::google::protobuf::{Any, BoolValue};
    use holdfast_graph::Origins;

    use super::*;

    fn host(name: &str, domain: &str) -> VirtualHost {
        let routes = vec![Route { name: "r".into(), ..Default::default() }];
        VirtualHost { name: name.into(), domains: vec![domain.into()], routes, ..Default::default() }
    }

    fn routes(hosts: Vec<VirtualHost>) -> RouteConfiguration {
        RouteConfiguration {
            name: "http/80".into(),
            virtual_hosts: hosts,
            ignore_port_in_host_matching: true,
            validate_clusters: Some(BoolValue { value: false }),
            ..Default::default()
        }
    }

    fn resource(routes: &RouteConfiguration) -> Resource {
        Resource::new("http/80", routes.encode_to_vec(), Origins::default())
    }

    fn split(routes: &RouteConfiguration) -> SplitRoutes {
        SplitRoutes::of(&resource(routes)).unwrap()
    }

    #[test]
    fn the_parts_together_are_the_whole() {
        let routes = routes(vec![host("b", "b.test"), host("a", "a.test")]);
        let split = split(&routes);
        let mut head = RouteConfiguration::decode(split.head(1).body.clone()).unwrap();
        assert!(matches!(
            head.vhds.take().unwrap().config_source.unwrap().config_source_specifier,
            Some(ConfigSourceSpecifier::Ads(_))
        ));
        let all = split.changes(std::iter::empty(), 1);
        let names: Vec<&str> = all.sent.iter().map(|host| &*host.name).collect();
        assert_eq!(names, ["http/80/a", "http/80/b"]);
        let hosts = all.sent.iter().rev().map(|host| {
            let decoded = VirtualHost::decode(host.body.clone()).unwrap();
            assert_eq!(*decoded.name, *host.name, "Envoy removes a host by the name in its message");
            VirtualHost { name: decoded.name.rsplit_once('/').unwrap().1.to_owned(), ..decoded }
        });
        head.virtual_hosts = hosts.collect();
        assert_eq!(head, routes);
    }

    #[test]
    fn only_differences_are_sent() {
        let before = split(&routes(vec![host("a", "a.test"), host("b", "b.test"), host("c", "c.test")]));
        let after = split(&routes(vec![host("d", "d.test"), host("b", "other.test"), host("a", "a.test")]));
        let changes = after.changes(before.versions().map(|(name, version)| (name, Some(version))), 1);
        let names: Vec<&str> = changes.sent.iter().map(|host| &*host.name).collect();
        assert_eq!(names, ["http/80/b", "http/80/d"]);
        assert_eq!(changes.removed, [Arc::from("http/80/c")]);
        let same = after.changes(after.versions().map(|(name, version)| (name, Some(version))), 1);
        assert_eq!(same, HostChanges::default());
        assert_eq!(before.head_version(), after.head_version(), "the head does not depend on the hosts");
        let unknown = after.changes([("a", None)].into_iter(), 1);
        assert_eq!(unknown.sent.len(), 3, "a host of another server's version is sent again");
    }

    #[test]
    fn a_client_without_hosts_is_sent_a_response_in_any_case() {
        let none = split(&routes(Vec::new())).all(std::iter::empty(), 1);
        assert_eq!((none.sent.len(), none.removed), (0, vec![Arc::from("http/80/none")]));
        let one = split(&routes(vec![host("a", "a.test")])).all(["b"].into_iter(), 1);
        assert_eq!((one.sent.len(), one.removed), (1, vec![Arc::from("http/80/b")]));
    }

    #[test]
    fn settings_of_all_hosts_and_ambiguous_names_stay_whole() {
        let mut guarded = routes(vec![host("a", "a.test")]);
        guarded.typed_per_filter_config.insert("f".into(), Any::default());
        assert!(SplitRoutes::of(&resource(&guarded)).is_none());
        let twice = routes(vec![host("a", "a.test"), host("a", "b.test")]);
        assert!(SplitRoutes::of(&resource(&twice)).is_none());
        let mut reads = host("a", "a.test");
        reads
            .typed_per_filter_config
            .insert("f".into(), Any { value: b"..virtual_host_name..".into(), ..Any::default() });
        assert!(SplitRoutes::of(&resource(&routes(vec![reads]))).is_none());
        let unnamed = routes(vec![VirtualHost { domains: vec!["*".into()], ..Default::default() }]);
        assert!(SplitRoutes::of(&resource(&unnamed)).is_none());
        assert!(SplitRoutes::of(&Resource::new("x", vec![0x12, 0xff, 0xff], Origins::default())).is_none());
    }
}
