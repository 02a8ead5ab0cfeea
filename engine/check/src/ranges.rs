//! Ranges of addresses that no backend may have, for checks by Envoy where Envoy itself resolves the addresses.
//!
//! The ranges contain every address that [`super::address`] refuses, and more where the refused addresses do not form a
//! range.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address of the range.
    pub network: IpAddr,
    /// Length of the prefix, in bits.
    pub bits: u8,
}

/// The loopback range.
const LOOPBACK: (Ipv4Addr, u8) = (Ipv4Addr::new(127, 0, 0, 0), 8);
/// "This network", link-local addresses, multicast and broadcast, metadata services of clouds.
const REFUSED_V4: [(Ipv4Addr, u8); 6] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::BROADCAST, 32),
    (Ipv4Addr::new(100, 100, 100, 200), 32),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];
/// The same ranges in IPv6, and the ranges with IPv4 addresses at variable positions (NAT64 for local use, Teredo).
const REFUSED_V6: [(Ipv6Addr, u8); 7] = [
    (Ipv6Addr::UNSPECIFIED, 128),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
    (Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254), 128),
    (Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254), 128),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32),
];

/// Returns the ranges, without loopback where loopback is allowed.
pub fn refused(allow_loopback: bool) -> Vec<Range> {
    let all = || REFUSED_V4.into_iter().chain([LOOPBACK]);
    let own = || all().filter(move |range| !allow_loopback || *range != LOOPBACK);
    let plain = own().map(|(network, bits)| Range { network: network.into(), bits });
    let six = REFUSED_V6.into_iter().chain((!allow_loopback).then_some((Ipv6Addr::LOCALHOST, 128)));
    let six = six.map(|(network, bits)| Range { network: network.into(), bits });
    let mapped = own().map(|(network, bits)| carried(network.to_ipv6_mapped(), 96, bits));
    // `::1` is loopback, and does not contain an IPv4 address.
    let compatible = all().filter(move |(network, _)| !allow_loopback || !network.is_unspecified());
    let compatible = compatible.map(|(network, bits)| carried(at(network, 96), 96, bits));
    let translated = all().map(|(network, bits)| {
        let prefix = u128::from(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0));
        carried(Ipv6Addr::from(prefix | u128::from(at(network, 96))), 96, bits)
    });
    let six_to_four = all().map(|(network, bits)| {
        let prefix = u128::from(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0));
        carried(Ipv6Addr::from(prefix | u128::from(at(network, 16))), 16, bits)
    });
    plain.chain(six).chain(mapped).chain(compatible).chain(translated).chain(six_to_four).collect()
}

fn carried(network: Ipv6Addr, before: u8, bits: u8) -> Range {
    Range { network: network.into(), bits: before + bits }
}

/// Returns an IPv4 address as an IPv6 address with this number of bits before it.
fn at(address: Ipv4Addr, before: u32) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(u32::from(address)) << (96 - before))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::allowed;
    use crate::tests::addresses::addresses;

    fn holds(ranges: &[Range], address: IpAddr) -> bool {
        ranges.iter().any(|range| match (range.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(range.bits)).unwrap_or(0);
                u32::from(network) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(range.bits)).unwrap_or(0);
                u128::from(network) & mask == u128::from(address) & mask
            }
            _ => false,
        })
    }

    #[test]
    fn loopback_is_the_only_thing_that_may_be_allowed() {
        for (text, is_loopback) in
            [("127.9.9.9", true), ("::1", true), ("::ffff:127.0.0.1", true), ("169.254.169.254", false), ("::", false)]
        {
            let address = text.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            assert!(holds(&refused(false), address), "{text}");
            assert_eq!(holds(&refused(true), address), !is_loopback, "{text}");
        }
        for text in ["10.0.0.1", "192.168.1.1", "::ffff:10.0.0.1", "64:ff9b::8.8.8.8", "2606:4700::1111", "fd00::1"] {
            let address = text.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            assert!(!holds(&refused(false), address), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_refused_is_in_a_range(address in addresses(), allow: bool) {
            let is_compatible = matches!(address, IpAddr::V6(six) if u128::from(six) < 1 << 24);
            if allowed(address, allow).is_err() && !(allow && is_compatible) {
                prop_assert!(holds(&refused(allow), address), "{}", address);
            }
        }

        #[test]
        fn any_address_that_is_refused_is_in_a_range(bits: u128, allow: bool) {
            let address = IpAddr::V6(Ipv6Addr::from(bits));
            prop_assert!(allowed(address, allow).is_ok() || holds(&refused(allow), address));
        }
    }
}
