//! Contents in the form for trials on the probe: a part alone, or several parts together, each as a route
//! configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_envoy::encode::route_configuration::EncodedHosts;
use holdfast_envoy::encode::{names, route_configuration};
use holdfast_envoy::features::filters::Filters;
use holdfast_envoy::features::guards::Guards;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::model::HostSettings;
use holdfast_envoy::model::table::Host;
use holdfast_graph::Content;
use holdfast_translate::route::Rendered;

/// A part in its host.
#[derive(Clone, Debug)]
pub struct Item {
    /// The host.
    pub host: Host,
    /// The hash of the bytes.
    pub content: Content,
    /// The part.
    pub rendered: Arc<Rendered>,
}

/// Returns a route configuration with one part alone.
pub fn alone(rendered: &Rendered, context: ListenerContext) -> Bytes {
    assembled(std::iter::once((&Host::any(), rendered)), context)
}

/// Returns a route configuration with these parts, each in its host, in their order of precedence.
pub fn together<'a>(items: impl Iterator<Item = &'a Item>, context: ListenerContext) -> Bytes {
    assembled(items.map(|item| (&item.host, &*item.rendered)), context)
}

fn assembled<'a>(parts: impl Iterator<Item = (&'a Host, &'a Rendered)>, context: ListenerContext) -> Bytes {
    let mut hosts: BTreeMap<&Host, Vec<&Rendered>> = BTreeMap::new();
    parts.for_each(|(host, rendered)| hosts.entry(host).or_default().push(rendered));
    let mut hosts: Vec<(Bytes, holdfast_xds::Version)> = hosts
        .into_iter()
        .map(|(host, mut parts)| {
            parts.sort_by(|a, b| a.route.precedence.cmp(&b.route.precedence));
            let routes: Vec<Bytes> = parts.iter().map(|rendered| rendered.encoded(context).0).collect();
            let host = route_configuration::virtual_host(
                names::virtual_host(host),
                host.domain().into(),
                routes.iter(),
                &HostSettings::default(),
            );
            let version = holdfast_xds::Version::of(&host);
            (host, version)
        })
        .collect();
    let hosts = EncodedHosts::new(hosts.iter_mut().map(|(host, version)| (host, &*version)).collect());
    let hosts = std::iter::once(&hosts);
    route_configuration::route_configuration("trial".into(), &Filters::new(), &Guards::default(), hosts).body
}
