//! Validation of backend addresses: addresses that no object may use.
//!
//! Without this check, an author of a Service or an EndpointSlice could send requests to the admin port of Envoy
//! itself, to the node, or to the metadata service of the cloud. Addresses that contain an IPv4 address (IPv4-mapped,
//! NAT64, 6to4, Teredo) are also checked by the contained address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Excerpt;

/// Metadata services of clouds, including those outside the link-local range.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
/// Metadata services over IPv6.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254), Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254)];

/// Reason why an address cannot be a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    /// The text is not an IP address.
    #[error("{address} is no IP address")]
    Syntax {
        /// The text.
        address: Excerpt,
    },
    /// The host of the proxy itself.
    #[error("address {0} is a loopback address: it would reach the proxy itself, so it cannot be a backend")]
    Loopback(IpAddr),
    /// A link-local address, on the network of the proxy.
    #[error("address {0} is link-local and cannot be a backend")]
    LinkLocal(IpAddr),
    /// The metadata service of a cloud.
    #[error("address {0} is the metadata service of a cloud and cannot be a backend")]
    Metadata(IpAddr),
    /// An unspecified host.
    #[error("address {0} names no host (\"this network\") and cannot be a backend")]
    Unspecified(IpAddr),
    /// A multicast or broadcast address.
    #[error("address {0} is a multicast or broadcast address and cannot be a backend")]
    Multicast(IpAddr),
    /// An IPv6 address that contains a refused IPv4 address.
    #[error("address {address} carries the IPv4 address {inner}, which cannot be a backend")]
    Carries {
        /// The address as written.
        address: Ipv6Addr,
        /// The contained address.
        inner: Ipv4Addr,
    },
}

/// Parses an address and checks it; see [`allowed`].
pub fn parse(text: &str, allow_loopback: bool) -> Result<IpAddr, AddressFault> {
    let address = text.parse().map_err(|_| AddressFault::Syntax { address: Excerpt::new(text) })?;
    allowed(address, allow_loopback)?;
    Ok(address)
}

/// Checks that an address may be a backend.
///
/// `allow_loopback` is for standalone mode, where backends run on the same machine as the proxy.
pub fn allowed(address: IpAddr, allow_loopback: bool) -> Result<(), AddressFault> {
    match address {
        IpAddr::V4(v4) => allowed_v4(v4, allow_loopback),
        IpAddr::V6(v6) => allowed_v6(v6, allow_loopback),
    }
}

fn allowed_v4(address: Ipv4Addr, allow_loopback: bool) -> Result<(), AddressFault> {
    let ip = IpAddr::V4(address);
    if METADATA_V4.contains(&address) {
        Err(AddressFault::Metadata(ip))
    } else if address.octets()[0] == 0 {
        Err(AddressFault::Unspecified(ip))
    } else if address.is_loopback() && !allow_loopback {
        Err(AddressFault::Loopback(ip))
    } else if address.is_link_local() {
        Err(AddressFault::LinkLocal(ip))
    } else if address.is_multicast() || address.is_broadcast() {
        Err(AddressFault::Multicast(ip))
    } else {
        Ok(())
    }
}

fn allowed_v6(address: Ipv6Addr, allow_loopback: bool) -> Result<(), AddressFault> {
    let ip = IpAddr::V6(address);
    if METADATA_V6.contains(&address) {
        Err(AddressFault::Metadata(ip))
    } else if address.is_unspecified() {
        Err(AddressFault::Unspecified(ip))
    } else if address.is_loopback() {
        if allow_loopback { Ok(()) } else { Err(AddressFault::Loopback(ip)) }
    } else if address.is_unicast_link_local() {
        Err(AddressFault::LinkLocal(ip))
    } else if address.is_multicast() {
        Err(AddressFault::Multicast(ip))
    } else if let Some(inner) = address.to_ipv4_mapped() {
        // The operating system treats a mapped address as the IPv4 address itself.
        allowed_v4(inner, allow_loopback).map_err(|_| AddressFault::Carries { address, inner })
    } else {
        match carried(address).into_iter().flatten().find(|inner| allowed_v4(*inner, false).is_err()) {
            Some(inner) => Err(AddressFault::Carries { address, inner }),
            None => Ok(()),
        }
    }
}

/// Returns the IPv4 addresses that translators (RFC 6052, 8215, 3056, 4380) may extract from an IPv6 address.
fn carried(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = address.segments();
    let join = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match [s0, s1, s2, s3, s4, s5] {
        // ::a.b.c.d: IPv4-compatible, deprecated.
        [0, 0, 0, 0, 0, 0] => [join(s6, s7), None],
        // 64:ff9b::/96: the well-known prefix of NAT64.
        [0x64, 0xff9b, 0, 0, 0, 0] => [join(s6, s7), None],
        // 64:ff9b:1::/48: for local use. The address is at the end (a /96 inside) or on both sides of bits 64 to 71.
        [0x64, 0xff9b, 1, high, middle, low] => {
            let [_, third] = middle.to_be_bytes();
            let [fourth, _] = low.to_be_bytes();
            [join(s6, s7), join(high, u16::from_be_bytes([third, fourth]))]
        }
        // 2002::/16: 6to4.
        [0x2002, high, low, ..] => [join(high, low), None],
        // 2001::/32: Teredo. The server, and the client with all bits inverted.
        [0x2001, 0, high, low, ..] => [join(high, low), join(!s6, !s7)],
        _ => [None, None],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_addresses_are_allowed() {
        for good in [
            "10.0.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "100.64.0.1",
            "203.0.113.9",
            "198.18.0.1",
            "240.0.0.1",
            "fd00::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "64:ff9b::8.8.8.8",
            "2002:a00:1::1",
            "2606:4700::1111",
            "255.255.255.254",
        ] {
            assert!(parse(good, false).is_ok(), "{good}");
        }
    }

    #[test]
    fn dangerous_addresses_are_refused() {
        for bad in [
            "127.0.0.1",
            "127.255.255.255",
            "::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "169.254.1.1",
            "fe80::1",
            "febf::1",
            "224.0.0.1",
            "239.1.1.1",
            "255.255.255.255",
            "ff02::1",
            "100.100.100.200",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "::127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::169.254.169.254",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "2001:0:808:808:0:0:8000:fffe",
        ] {
            assert!(parse(bad, false).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_that_is_no_address_is_refused() {
        for bad in [
            "",
            "example.com",
            "10.0.0",
            "010.0.0.1",
            "10.0.0.1:80",
            "fe80::1%eth0",
            "0x7f000001",
            "2130706433",
            " 10.0.0.1",
        ] {
            assert!(matches!(parse(bad, true), Err(AddressFault::Syntax { .. })), "{bad}");
        }
    }

    #[test]
    fn loopback_may_be_allowed_and_nothing_else_with_it() {
        for good in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(parse(good, true).is_ok(), "{good}");
        }
        for bad in ["0.0.0.0", "::", "169.254.169.254", "fe80::1", "64:ff9b::127.0.0.1", "::127.0.0.1", "224.0.0.1"] {
            assert!(parse(bad, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_are_sentences() {
        assert_eq!(
            parse("::ffff:169.254.169.254", true).unwrap_err().to_string(),
            "address ::ffff:169.254.169.254 carries the IPv4 address 169.254.169.254, which cannot be a backend"
        );
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_judged_as_the_address_itself(bits: u32, allow: bool) {
            let v4 = Ipv4Addr::from(bits);
            let mapped = IpAddr::V6(v4.to_ipv6_mapped());
            prop_assert_eq!(allowed(IpAddr::V4(v4), allow).is_ok(), allowed(mapped, allow).is_ok());
        }

        #[test]
        fn what_is_refused_with_loopback_is_refused_without(bits: u128) {
            let address = IpAddr::V6(Ipv6Addr::from(bits));
            prop_assert!(allowed(address, true).is_ok() || allowed(address, false).is_err());
        }
    }
}
