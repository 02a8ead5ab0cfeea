//! Regular expressions for the addresses that no backend may have, in the format in which Envoy writes an address with
//! a port: `10.0.0.1:80`, `[fd00::1]:80`.
//!
//! The expressions match each address of [`super::ranges`], and a few more where that makes them shorter. Their input
//! is canonical text, which Envoy makes from bytes; it never contains text of users.

/// Any address with a port.
pub const ANY: &str = r"^([0-9.]+|\[[0-9a-f:.]+\]):[0-9]+$";

/// "This network", at the beginning of an IPv4 address.
const THIS_V4: &str = r"0\.";
/// Link-local addresses and multicast.
const BEGIN_V4: &str = r"169\.254\.|22[4-9]\.|23[0-9]\.";
/// Loopback.
const LOOPBACK_V4: &str = r"127\.";
/// Whole IPv4 addresses: broadcast, metadata services of clouds.
const WHOLE_V4: &str = r"255\.255\.255\.255[:\]]|100\.100\.100\.200[:\]]|168\.63\.129\.16[:\]]";

/// "This network" within an IPv6 address, after `::`.
const THIS_HEX: &str = r"([0-9a-f]{1,2}:)?[0-9a-f]{0,4}\]";
/// The other ranges after `::`: loopback, link-local addresses, multicast, broadcast, metadata services.
const OTHER_HEX: &str = r"7f[0-9a-f]{2}:|a9fe:|e[0-9a-f]{3}:|ffff:ffff\]|6464:64c8\]|a83f:8110\]";
/// All ranges after `2002:`.
const SIX_TO_FOUR: [&str; 2] =
    [r":|[0-9a-f]{1,2}:|7f[0-9a-f]{2}:|a9fe:|e[0-9a-f]{3}:", "ffff:ffff:|6464:64c8:|a83f:8110:"];
/// IPv6 ranges: link-local addresses, multicast, NAT64 for local use and Teredo; metadata services.
const OTHER_V6: [&str; 2] =
    [r"fe[89ab][0-9a-f]:|ff[0-9a-f]{2}:|64:ff9b:1:|2001::|2001:0:", r"fd00:ec2::254\]|fd20:ce::254\]"];

/// Returns expressions of which at least one matches each refused address; loopback is left out where it is allowed.
/// Each expression is small enough for Envoy's limit in conditions.
pub fn refused(allow_loopback: bool) -> Vec<String> {
    let all = [format!("{THIS_V4}|{LOOPBACK_V4}|{BEGIN_V4}"), WHOLE_V4.to_owned()];
    let own = if allow_loopback { [format!("{THIS_V4}|{BEGIN_V4}"), WHOLE_V4.to_owned()] } else { all.clone() };
    // `::1` is loopback, and does not contain an IPv4 address.
    let compatible = if allow_loopback {
        [format!("{LOOPBACK_V4}|{BEGIN_V4}"), WHOLE_V4.to_owned(), r"\]".to_owned()].to_vec()
    } else {
        [all.to_vec(), vec![THIS_HEX.to_owned()]].concat()
    };
    let hex = [THIS_HEX, OTHER_HEX].map(str::to_owned);
    let within = |begin: &'static str, patterns: Vec<String>| {
        patterns.into_iter().map(move |pattern| format!("^{begin}({pattern})")).collect::<Vec<_>>()
    };
    [
        within("", own.to_vec()),
        within(r"\[", OTHER_V6.map(str::to_owned).to_vec()),
        within(r"\[::ffff:", own.to_vec()),
        within(r"\[::", [compatible, vec![OTHER_HEX.to_owned()]].concat()),
        within(r"\[64:ff9b::", hex.to_vec()),
        within(r"\[2002:", SIX_TO_FOUR.map(str::to_owned).to_vec()),
    ]
    .concat()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

    use proptest::prelude::*;
    use regex::{Regex, RegexSet};

    use super::*;
    use crate::address::allowed;
    use crate::re2::{Limits, Regexes};
    use crate::tests::addresses::addresses;

    /// Returns whether the expressions match the address, in every notation of `::a.b.c.d`.
    fn matches(all: &RegexSet, address: IpAddr) -> bool {
        let texts = [Some(SocketAddr::new(address, 80).to_string()), with_dots(address)];
        texts.into_iter().flatten().all(|text| all.is_match(&text))
    }

    fn set(allow_loopback: bool) -> RegexSet {
        RegexSet::new(refused(allow_loopback)).unwrap()
    }

    /// Returns an IPv4-compatible address as the C library writes it.
    fn with_dots(address: IpAddr) -> Option<String> {
        let IpAddr::V6(six) = address else { return None };
        let low = u32::try_from(u128::from(six)).ok().filter(|low| *low > 0xffff)?;
        Some(format!("[::{}]:80", Ipv4Addr::from(low)))
    }

    #[test]
    fn what_may_be_a_backend_is_not_matched() {
        let any = Regex::new(ANY).unwrap();
        for allow in [false, true] {
            let refused = set(allow);
            for text in [
                "10.0.0.1:80",
                "172.16.0.1:443",
                "192.168.1.1:1",
                "100.100.100.20:80",
                "168.63.129.160:80",
                "8.8.8.8:53",
                "223.255.255.255:1",
                "240.0.0.1:65535",
                "[fd00::1]:80",
                "[2606:4700::1111]:443",
                "[::ffff:10.0.0.1]:80",
                "[64:ff9b::808:808]:443",
                "[64:ff9b::a00:1]:443",
                "[2002:a00:1::1]:80",
                "[2001:db8::1]:80",
                "[2001:4860:4860::8888]:80",
                "[fd00:ec2::2541]:80",
            ] {
                assert!(any.is_match(text) && !refused.is_match(text), "{text}");
            }
        }
        let allowed = set(true);
        for text in ["127.0.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(!allowed.is_match(text), "{text}");
        }
        for text in ["", "/run/socket", "10.0.0.1", "name:80"] {
            assert!(!any.is_match(text), "{text}");
        }
    }

    #[test]
    fn each_is_as_small_as_conditions_allow() {
        for regex in refused(true).into_iter().chain(refused(false)).chain([ANY.to_owned()]) {
            let regexes = Regexes::of_object(Limits::default());
            let condition = format!("request.path.matches(r'{regex}')");
            assert!(crate::cel::check(&condition, &regexes).is_ok(), "{regex}");
        }
    }

    proptest! {
        #[test]
        fn what_is_refused_is_matched(address in addresses(), allow: bool) {
            // With loopback allowed, `::0.0.x.x` may be `::1`, which does not contain an IPv4 address.
            let is_low = matches!(address, IpAddr::V6(six) if u128::from(six) < 1 << 24);
            if allowed(address, allow).is_err() && !(allow && is_low) {
                prop_assert!(matches(&set(allow), address), "{}", address);
            }
        }

        #[test]
        fn every_address_is_one(bits: u128, four: u32) {
            let any = Regex::new(ANY).unwrap();
            for address in [IpAddr::V6(Ipv6Addr::from(bits)), IpAddr::V4(Ipv4Addr::from(four))] {
                prop_assert!(any.is_match(&SocketAddr::new(address, 8080).to_string()));
            }
        }
    }
}
