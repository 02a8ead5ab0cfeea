//! Virtual hosts of encoded route configurations, compared as bytes: an edit changes a few of thousands. Parts of the body
//! that both configurations share are not read.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_xds::{BodyPart, Resource};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// The number of the field `virtual_hosts` in `RouteConfiguration`.
const VIRTUAL_HOSTS: u32 = 2;

/// An encoded route configuration, by its fields.
struct EncodedFields<'a> {
    /// The fields with virtual hosts, in their order.
    hosts: Vec<&'a [u8]>,
    /// All other fields, in their order.
    others: Vec<&'a [u8]>,
}

impl<'a> EncodedFields<'a> {
    /// Returns the fields of a configuration; `None` if it cannot be decoded.
    fn of(body: &'a [u8]) -> Option<Self> {
        let (mut hosts, mut others, mut rest) = (Vec::new(), Vec::new(), body);
        while !rest.is_empty() {
            let begin = rest;
            let (field, wire_type) = decode_key(&mut rest).ok()?;
            if wire_type == WireType::LengthDelimited {
                let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
                rest = rest.get(length..)?;
            } else {
                skip_field(wire_type, field, &mut rest, DecodeContext::default()).ok()?;
            }
            let whole = begin.get(..begin.len().checked_sub(rest.len())?)?;
            if field == VIRTUAL_HOSTS { hosts.push(whole) } else { others.push(whole) }
        }
        Some(Self { hosts, others })
    }
}

/// Returns a route configuration with those of its virtual hosts that another configuration does not have in the same
/// place, counted from the begin or from the end; `None` if the two differ in another field, or cannot be decoded.
pub fn unlike(own: &Resource, other: &Resource) -> Option<Bytes> {
    let (own, other) = without_shared_parts(own, other);
    unlike_of(&own, &other)
}

/// Returns the bodies of two route configurations without the hosts of parts that both have at their begin or their end.
/// The first part stays: all fields but the hosts are in it.
fn without_shared_parts(own: &Resource, other: &Resource) -> (Bytes, Bytes) {
    let (Some((own_head, own_hosts)), Some((other_head, other_hosts))) =
        (own.parts().split_first(), other.parts().split_first())
    else {
        return (own.body.clone(), other.body.clone());
    };
    let (first, last) = common_ends(own_hosts, other_hosts, Arc::ptr_eq);
    let body = |head: &Arc<BodyPart>, hosts: &[Arc<BodyPart>]| {
        let left = hosts.get(first..hosts.len().saturating_sub(last)).unwrap_or_default();
        let fields: Vec<&[u8]> = std::iter::once(head).chain(left).map(|part| &part.fields[..]).collect();
        Bytes::from(fields.concat())
    };
    (body(own_head, own_hosts), body(other_head, other_hosts))
}

fn unlike_of(body: &[u8], other: &[u8]) -> Option<Bytes> {
    let (own, other) = (EncodedFields::of(body)?, EncodedFields::of(other)?);
    if own.others != other.others {
        return None;
    }
    let (first, last) = common_ends(&own.hosts, &other.hosts, |one, two| one == two);
    let unlike = own.hosts.get(first..own.hosts.len().saturating_sub(last)).unwrap_or_default();
    Some(own.others.iter().chain(unlike).copied().collect::<Vec<_>>().concat().into())
}

/// Returns how many elements two lists have in common at their begin, and of the rest at their end.
fn common_ends<T>(own: &[T], other: &[T], is_same: impl Fn(&T, &T) -> bool) -> (usize, usize) {
    let same = |(one, two): &(&T, &T)| is_same(one, two);
    let first = own.iter().zip(other).take_while(same).count();
    let most = own.len().min(other.len()).saturating_sub(first);
    (first, own.iter().rev().zip(other.iter().rev()).take(most).take_while(same).count())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use bytes::Bytes;
    use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
    use holdfast_graph::Origins;
    use holdfast_xds::{BodyPart, Resource};
    use prost::Message;

    use super::without_shared_parts;

    fn configuration(name: &str, hosts: &[(&str, &str)]) -> Vec<u8> {
        let host = |(name, domain): &(&str, &str)| VirtualHost {
            name: (*name).into(),
            domains: vec![(*domain).into()],
            ..Default::default()
        };
        let virtual_hosts = hosts.iter().map(host).collect();
        RouteConfiguration { name: name.into(), virtual_hosts, ..Default::default() }.encode_to_vec()
    }

    fn names(found: Option<Bytes>) -> Vec<String> {
        let found = RouteConfiguration::decode(found.unwrap()).unwrap();
        assert_eq!(found.name, "one");
        found.virtual_hosts.into_iter().map(|host| host.name).collect()
    }

    fn unlike(body: &[u8], other: &[u8]) -> Option<Bytes> {
        let of = |body: &[u8]| Resource::new("r", body.to_vec(), Origins::default());
        super::unlike(&of(body), &of(other))
    }

    /// Two configurations in parts of two hosts, which share the parts with equal hosts.
    #[test]
    fn shared_parts_change_nothing() {
        let hosts = |edited: &[usize], removed: &[usize]| -> Vec<(String, String)> {
            let left = (0..8).filter(|number| !removed.contains(number));
            left.map(|number| (format!("h{number}"), if edited.contains(&number) { "2" } else { "1" }.into())).collect()
        };
        let mut known = BTreeMap::new();
        let mut in_parts = |hosts: &[(String, String)]| {
            let encoded = |hosts: &[(String, String)]| {
                let hosts: Vec<(&str, &str)> = hosts.iter().map(|(name, domain)| (&**name, &**domain)).collect();
                configuration("", &hosts)
            };
            let head = Arc::new(BodyPart::new(configuration("one", &[])));
            let blocks = hosts.chunks(2).map(|hosts| {
                let part = || Arc::new(BodyPart::new(encoded(hosts)));
                known.entry(hosts.to_vec()).or_insert_with(part).clone()
            });
            let parts: Vec<Arc<BodyPart>> = std::iter::once(head).chain(blocks).collect();
            let body: Vec<u8> = parts.iter().flat_map(|part| part.fields.iter().copied()).collect();
            Resource::new("r", body, Origins::default()).of_parts(parts)
        };
        let before = in_parts(&hosts(&[], &[]));
        for (edited, removed) in
            [(&[][..], &[][..]), (&[0], &[]), (&[3, 6], &[]), (&[7], &[]), (&[], &[2, 3]), (&[4], &[0, 1]), (&[], &[5])]
        {
            let after = in_parts(&hosts(edited, removed));
            for (one, two) in [(&before, &after), (&after, &before)] {
                assert_eq!(super::unlike(one, two), unlike(&one.body, &two.body), "{edited:?} {removed:?}");
            }
        }
        let (own, other) = without_shared_parts(&before, &in_parts(&hosts(&[3], &[])));
        assert!(own.len() * 2 < before.body.len() && other.len() * 2 < before.body.len());
    }

    #[test]
    fn only_hosts_that_the_other_lacks_are_left() {
        let before = configuration("one", &[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]);
        assert_eq!(names(unlike(&before, &before)), Vec::<String>::new());
        let edited = configuration("one", &[("a", "1"), ("b", "2"), ("c", "1"), ("d", "1")]);
        assert_eq!(names(unlike(&before, &edited)), ["b"]);
        let removed = configuration("one", &[("a", "1"), ("c", "1"), ("d", "1")]);
        assert_eq!(names(unlike(&before, &removed)), ["b"]);
        assert_eq!(names(unlike(&removed, &before)), Vec::<String>::new());
        let swapped = configuration("one", &[("a", "1"), ("c", "1"), ("b", "1"), ("d", "1")]);
        assert_eq!(names(unlike(&before, &swapped)), ["b", "c"]);
        let twice = configuration("one", &[("a", "1"), ("a", "1")]);
        assert_eq!(names(unlike(&twice, &configuration("one", &[("a", "1")]))), ["a"]);
        assert_eq!(names(unlike(&before, &configuration("one", &[]))), ["a", "b", "c", "d"]);
    }

    #[test]
    fn configurations_with_other_fields_are_not_compared() {
        let hosts = [("a", "1")];
        assert_eq!(unlike(&configuration("one", &hosts), &configuration("two", &hosts)), None);
        assert_eq!(unlike(&configuration("one", &hosts), &[0xff]), None);
        assert_eq!(unlike(&[0x12, 0x7f, 0x00], &configuration("one", &hosts)), None);
    }
}
