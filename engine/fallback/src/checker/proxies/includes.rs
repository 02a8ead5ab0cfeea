//! Includes of current HTTPProxies, with their prefixes, computed again from the objects.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::GROUP;
use holdfast_api::apis::contour::http_proxy::{HttpProxy, ProxyEntry};
use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;
use holdfast_translate::httpproxy::is_ours;
use holdfast_translate::overlay::Overlay;

use super::super::today::Today;
use crate::plan::world::World;

/// Limit of includes that are followed for one root.
const FOLLOWED_MAX: usize = 20_000;
/// Limit of the depth of includes.
const DEPTH_MAX: usize = 64;

/// The proxies that take part in a host, with their prefixes.
pub(super) struct Included {
    prefixes: BTreeMap<ObjectKey, BTreeSet<String>>,
}

impl Included {
    /// Returns the proxies that a root includes, and the root itself.
    pub(super) fn of<'a>(root: &ObjectKey, proxy: &'a HttpProxy, overlay: &'a Overlay, today: &'a Today<'_>) -> Self {
        let mut included = Self { prefixes: BTreeMap::from([(root.clone(), BTreeSet::from([String::new()]))]) };
        let mut next = vec![(vec![root.clone()], String::new(), proxy)];
        let mut followed = 0;
        while let Some((chain, above, proxy)) = next.pop() {
            let Some(includer) = chain.last() else { continue };
            for entry in &proxy.includes {
                let ProxyEntry::Decoded(include) = entry else { continue };
                let namespace = include.namespace.as_ref().filter(|namespace| !namespace.is_empty());
                let namespace = namespace.unwrap_or(&includer.namespace);
                let target = ObjectKey::new(GROUP, kinds::HTTP_PROXY, namespace.clone(), include.name.clone());
                let Some(child) = readable(&target, overlay, today).filter(|child| child.virtual_host.is_none()) else {
                    continue;
                };
                followed += 1;
                if chain.contains(&target) || chain.len() > DEPTH_MAX || followed > FOLLOWED_MAX {
                    continue;
                }
                let own = include.conditions.iter().flatten().find_map(|condition| condition.prefix.as_deref());
                let own = own.unwrap_or_default().trim_start_matches('/');
                let prefix = match own {
                    "" => above.clone(),
                    own => format!("{}/{own}", above.trim_end_matches('/')),
                };
                included.prefixes.entry(target.clone()).or_default().insert(prefix.clone());
                next.push(([chain.as_slice(), &[target]].concat(), prefix, child));
            }
        }
        included
    }

    /// Returns the prefixes below which a proxy takes part; `None` if it does not take part.
    pub(super) fn prefixes(&self, key: &ObjectKey) -> Option<&BTreeSet<String>> {
        self.prefixes.get(key)
    }
}

/// Returns the current version of a proxy, or its stand-in version if the current one cannot be read.
fn readable<'a>(key: &ObjectKey, overlay: &'a Overlay, today: &'a Today<'_>) -> Option<&'a HttpProxy> {
    let stand_in = || overlay.objects.get(key).filter(|_| today.is_unusable(key));
    match &today.object(key).or_else(stand_in)?.body {
        Body::HttpProxy(proxy) => Some(proxy),
        _ => None,
    }
}

/// Checks whether the current version of a root claims its host.
pub(super) fn is_served(root: &ObjectKey, today: &Today<'_>, world: &World<'_>) -> bool {
    let Some(object) = today.object(root) else { return false };
    let Object { body: Body::HttpProxy(proxy), .. } = &**object else { return false };
    let namespaces = &world.settings.proxies.root_namespaces;
    let is_root = namespaces.is_empty() || namespaces.contains(&root.namespace);
    proxy.virtual_host.is_some() && is_root && is_ours(object, proxy, world.settings)
}
