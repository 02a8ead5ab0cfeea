//! Random IP addresses for tests of the restrictions on backends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

/// IPv4 and IPv6 addresses, many of which are not allowed as backends.
pub(crate) fn addresses() -> impl Strategy<Value = IpAddr> {
    let first =
        prop_oneof![Just(127u8), Just(0), Just(10), Just(169), Just(224), Just(239), Just(255), Just(100), Just(168)];
    let v4 = (
        first,
        prop_oneof![Just(254u8), Just(0), Just(63), Just(100), any::<u8>()],
        prop_oneof![Just(0u16), any::<u16>()],
    )
        .prop_map(|(a, b, rest)| Ipv4Addr::from([a, b, (rest >> 8) as u8, rest as u8]));
    let known = prop::sample::select(vec![
        Ipv4Addr::new(169, 254, 169, 254),
        Ipv4Addr::new(100, 100, 100, 200),
        Ipv4Addr::new(168, 63, 129, 16),
        Ipv4Addr::BROADCAST,
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::UNSPECIFIED,
    ]);
    let v4 = prop_oneof![v4, known, any::<u32>().prop_map(Ipv4Addr::from)];
    (v4, 0..10u8, prop_oneof![Just(0u64), Just(1), any::<u64>()]).prop_map(|(v4, form, low)| {
        let (number, low) = (u128::from(u32::from(v4)), u128::from(low));
        let six = |bits: u128| IpAddr::V6(Ipv6Addr::from(bits));
        match form {
            0 => IpAddr::V4(v4),
            1 => IpAddr::V6(v4.to_ipv6_mapped()),
            2 => six(number),
            3 => six((0x0064_ff9b_u128 << 96) | number),
            4 => six((0x2002_u128 << 112) | (number << 80) | low),
            5 => six((0x2001_u128 << 112) | (number << 64) | low),
            6 => six((0x0064_ff9b_0001_u128 << 80) | low),
            7 => six((0xff02_u128 << 112) | low),
            8 => six((0xfd00_0ec2_u128 << 96) | 0x0254),
            _ => six((0xfe80_u128 << 112) | low),
        }
    })
}
