//! The object of a query: `KIND/NAMESPACE/NAME`, or `KIND/NAME` of a kind without namespaces.

use std::fmt;
use std::str::FromStr;

use holdfast_api::apis::{KINDS, Kind, ResourceScope};
use holdfast_graph::ObjectKey;
use holdfast_graph::key::KeyParts;

use crate::nearest::nearest;
use crate::printable::plain;

/// An object that was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiffTarget(pub(crate) ObjectKey);

impl FromStr for DiffTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let kind = kind(parts.first().copied().unwrap_or_default())?;
        let key = |namespace: &str, name: &str| Self(ObjectKey::new(kind.group, kind.kind, namespace, name));
        match (kind.scope, parts.as_slice()) {
            (_, names) if names.iter().any(|name| name.is_empty()) => Err("an empty name".into()),
            (ResourceScope::Namespaced, [_, namespace, name]) => Ok(key(namespace, name)),
            (ResourceScope::Cluster, [_, name]) => Ok(key("", name)),
            (ResourceScope::Namespaced, _) => Err(format!("not {}/NAMESPACE/NAME", kind.kind)),
            (ResourceScope::Cluster, _) => Err(format!("not {}/NAME", kind.kind)),
        }
    }
}

/// `HTTPRoute/shop/cart`, which `from_str` reads.
impl fmt::Display for DiffTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyParts { kind, namespace, name, .. } = &*self.0;
        match namespace.is_empty() {
            true => write!(f, "{kind}/{name}"),
            false => write!(f, "{kind}/{namespace}/{name}"),
        }
    }
}

/// The kind with a name, in upper or lower case; the plural name is accepted, too.
fn kind(name: &str) -> Result<&'static Kind, String> {
    let is_meant = |kind: &&Kind| kind.kind.eq_ignore_ascii_case(name) || kind.plural.eq_ignore_ascii_case(name);
    KINDS.iter().find(is_meant).ok_or_else(|| {
        let names = KINDS.iter().map(|kind| kind.kind);
        let hint = nearest(name, names).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("unknown kind {}: expected KIND/NAMESPACE/NAME, as in HTTPRoute/shop/cart{hint}", plain(name))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_by_kind_namespace_and_name() {
        let read = |text: &str| text.parse::<DiffTarget>();
        for text in ["HTTPRoute/shop/cart", "httproutes/shop/cart", "httproute/shop/cart"] {
            assert_eq!(read(text).unwrap().to_string(), "HTTPRoute/shop/cart");
        }
        assert_eq!(read("GatewayClass/holdfast").unwrap().0.kind.as_ref(), "GatewayClass");
        assert_eq!(read("HTTPRoute/cart").unwrap_err(), "not HTTPRoute/NAMESPACE/NAME");
        assert_eq!(read("gatewayclass/a/b").unwrap_err(), "not GatewayClass/NAME");
        assert!(read("HTPRoute/shop/cart").unwrap_err().ends_with("did you mean HTTPRoute?"));
        assert_eq!(read("HTTPRoute//cart").unwrap_err(), "an empty name");
        assert!(read("").unwrap_err().starts_with("unknown kind "));
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in KINDS {
            let same = KINDS.iter().filter(|other| other.kind.eq_ignore_ascii_case(kind.kind));
            assert_eq!(same.count(), 1, "{}", kind.kind);
        }
    }
}
