//! Virtual hosts of encoded route configurations, compared as bytes: an edit changes a few of thousands.

use bytes::Bytes;
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
pub fn unlike(body: &[u8], other: &[u8]) -> Option<Bytes> {
    let (own, other) = (EncodedFields::of(body)?, EncodedFields::of(other)?);
    if own.others != other.others {
        return None;
    }
    let same = |(one, two): &(&&[u8], &&[u8])| one == two;
    let first = own.hosts.iter().zip(&other.hosts).take_while(same).count();
    let left = |hosts: &[&[u8]]| hosts.len().saturating_sub(first);
    let most = left(&own.hosts).min(left(&other.hosts));
    let last = own.hosts.iter().rev().zip(other.hosts.iter().rev()).take(most).take_while(same).count();
    let unlike = own.hosts.get(first..own.hosts.len().saturating_sub(last)).unwrap_or_default();
    Some(own.others.iter().chain(unlike).copied().collect::<Vec<_>>().concat().into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
    use prost::Message;

    use super::*;

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
