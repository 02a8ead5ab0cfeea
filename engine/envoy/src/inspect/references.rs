//! References of encoded resources to other resources, by name.

use std::collections::BTreeSet;

/// A reference by which an Envoy subscribes to another resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceReference {
    /// To a route configuration: field `route_config_name` of `Rds`.
    Routes,
    /// To a Secret: field `name` of `SdsSecretConfig`.
    Secret,
}

impl ResourceReference {
    /// Returns the tag of the field, a string.
    fn tag(self) -> u8 {
        match self {
            Self::Routes => 0x12,
            Self::Secret => 0x0a,
        }
    }
}

/// Finds the referenced names in a message, at any depth: the tag of the field, the length, and the bytes. Another
/// string field with the same tag and a name may match too.
pub fn find(body: &[u8], reference: ResourceReference, names: &BTreeSet<&[u8]>, found: &mut BTreeSet<Vec<u8>>) {
    let tag = reference.tag();
    for (at, _) in body.iter().enumerate().filter(|(_, byte)| **byte == tag) {
        let rest = body.get(at + 1..).unwrap_or_default();
        let (length, rest) = match rest {
            [low, rest @ ..] if *low < 0x80 => (usize::from(*low), rest),
            [low, high, rest @ ..] if *high < 0x80 => (usize::from(low & 0x7f) | usize::from(*high) << 7, rest),
            _ => continue,
        };
        if let Some(name) = rest.get(..length).filter(|name| names.contains(name)) {
            found.insert(name.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::Rds;
    use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::SdsSecretConfig;
    use prost::Message;

    use super::*;

    #[test]
    fn tags_are_those_of_the_fields() {
        let long = "x".repeat(300);
        let rds = |name: &str| Rds { route_config_name: name.into(), config_source: None }.encode_to_vec();
        let sds = |name: &str| SdsSecretConfig { name: name.into(), sds_config: None }.encode_to_vec();
        let body = [rds("http/80"), rds(&long), sds("shop/cert")].concat();
        let names = ["http/80", &long, "shop/cert", "other"];
        let found = |reference| {
            let mut found = BTreeSet::new();
            find(&body, reference, &names.iter().map(|name| name.as_bytes()).collect(), &mut found);
            found.into_iter().map(|name| String::from_utf8_lossy(&name).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(ResourceReference::Routes), ["http/80", &long]);
        assert_eq!(found(ResourceReference::Secret), ["shop/cert"]);
    }
}
