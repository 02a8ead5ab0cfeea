//! Hostnames of listeners, routes, redirects and rewrites, and origins for CORS.
//!
//! Envoy acknowledges a domain such as `a.*.b`, which then never matches. Hostnames here follow RFC 1123, as in Gateway
//! API: a wildcard is allowed only as the whole first label.

use std::net::Ipv4Addr;

use super::Excerpt;

/// Longest hostname, in bytes.
pub const HOSTNAME_BYTES_MAX: usize = 253;
/// Longest label, in bytes (RFC 1123 §2.1).
pub const LABEL_BYTES_MAX: usize = 63;

/// Reason why a hostname or an origin cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostFault {
    /// An empty hostname.
    #[error("the hostname is empty")]
    Empty,
    /// A hostname longer than [`HOSTNAME_BYTES_MAX`].
    #[error("hostname {host} has {bytes} bytes; at most {HOSTNAME_BYTES_MAX} are allowed")]
    Long {
        /// The hostname.
        host: Excerpt,
        /// Length of the hostname.
        bytes: usize,
    },
    /// An empty label, for example in `a..b` or after a trailing dot.
    #[error("hostname {host} has an empty label: a dot at its start or end, or two dots in a row")]
    EmptyLabel {
        /// The hostname.
        host: Excerpt,
    },
    /// A label longer than [`LABEL_BYTES_MAX`].
    #[error("hostname {host} has a label of {bytes} bytes; at most {LABEL_BYTES_MAX} are allowed between dots")]
    LongLabel {
        /// The hostname.
        host: Excerpt,
        /// Length of the label.
        bytes: usize,
    },
    /// Upper case, which Kubernetes does not allow in a hostname.
    #[error("hostname {host} has upper-case letters; write it in lower case")]
    UpperCase {
        /// The hostname.
        host: Excerpt,
    },
    /// A character that is not allowed in hostnames.
    #[error("hostname {host} contains {character:?}; allowed are lower-case letters, digits, '-' and '.'")]
    Character {
        /// The hostname.
        host: Excerpt,
        /// The first character that is not allowed.
        character: char,
    },
    /// A label that starts or ends with a hyphen.
    #[error("hostname {host} has a label that starts or ends with '-'")]
    Hyphen {
        /// The hostname.
        host: Excerpt,
    },
    /// A wildcard that is not the whole first label.
    #[error("hostname {host}: '*' is allowed only as the whole first label, as in \"*.example.com\"")]
    Wildcard {
        /// The hostname.
        host: Excerpt,
    },
    /// A wildcard where a precise hostname is needed.
    #[error("hostname {host} has a wildcard, but a precise hostname is needed here")]
    NotPrecise {
        /// The hostname.
        host: Excerpt,
    },
    /// An IP address.
    #[error("hostname {host} is an IP address; only names are allowed here")]
    IpAddress {
        /// The hostname.
        host: Excerpt,
    },
    /// An invalid origin for CORS.
    #[error(
        "origin {origin} must be \"*\" or scheme://host[:port] with scheme http or https, as in \"https://*.example.com\""
    )]
    Origin {
        /// The origin.
        origin: Excerpt,
    },
}

/// Checks a hostname that may start with a wildcard label (`*.example.com`).
pub fn hostname(host: &str) -> Result<(), HostFault> {
    if host.len() > HOSTNAME_BYTES_MAX {
        return Err(HostFault::Long { host: Excerpt::new(host), bytes: host.len() });
    }
    if host == "*" {
        return Err(HostFault::Wildcard { host: Excerpt::new(host) });
    }
    labels(host, host.strip_prefix("*.").unwrap_or(host))
}

/// Checks a hostname without wildcard, for redirects, rewrites and backends.
pub fn precise_hostname(host: &str) -> Result<(), HostFault> {
    hostname(host)?;
    if host.starts_with('*') { Err(HostFault::NotPrecise { host: Excerpt::new(host) }) } else { Ok(()) }
}

/// Checks an origin as in the CORS filter of Gateway API: `*`, or scheme, host and an optional port. The whole host, or
/// its first label, may be `*`.
pub fn origin(origin: &str) -> Result<(), HostFault> {
    if origin == "*" {
        return Ok(());
    }
    let fault = || HostFault::Origin { origin: Excerpt::new(origin) };
    let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://")).ok_or_else(fault)?;
    let (host, port) = rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)));
    let port_is_fine =
        port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok());
    let name = if host == "*" { "any" } else { host.strip_prefix("*.").unwrap_or(host) };
    let host_is_fine = origin.len() <= HOSTNAME_BYTES_MAX
        && name
            .split('.')
            .all(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    if port_is_fine && host_is_fine { Ok(()) } else { Err(fault()) }
}

/// Checks the labels of a hostname. `name` is `host` without its wildcard label.
fn labels(host: &str, name: &str) -> Result<(), HostFault> {
    if name.is_empty() {
        return Err(HostFault::Empty);
    }
    if name.parse::<Ipv4Addr>().is_ok()
        || host.contains(':') && host.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>().is_ok()
    {
        return Err(HostFault::IpAddress { host: Excerpt::new(host) });
    }
    for label in name.split('.') {
        self::label(host, label)?;
    }
    Ok(())
}

fn label(host: &str, label: &str) -> Result<(), HostFault> {
    if label.is_empty() {
        return Err(HostFault::EmptyLabel { host: Excerpt::new(host) });
    }
    if label.len() > LABEL_BYTES_MAX {
        return Err(HostFault::LongLabel { host: Excerpt::new(host), bytes: label.len() });
    }
    for character in label.chars() {
        match character {
            'a'..='z' | '0'..='9' | '-' => {}
            '*' => return Err(HostFault::Wildcard { host: Excerpt::new(host) }),
            'A'..='Z' => return Err(HostFault::UpperCase { host: Excerpt::new(host) }),
            _ => return Err(HostFault::Character { host: Excerpt::new(host), character }),
        }
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(HostFault::Hyphen { host: Excerpt::new(host) });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostnames() {
        for good in
            ["a", "example.com", "*.example.com", "x-1.example.com", "1.2.3.4.example", "*.com", "xn--bcher-kva.ch"]
        {
            assert!(hostname(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "a.*.b",
            "*a.b",
            "a*.b",
            "*.*.b",
            "*.",
            ".a",
            "a.",
            "a..b",
            "-a.b",
            "a-.b",
            "A.b",
            "a_b",
            "a b",
            "a:80",
            "ä.de",
            "1.2.3.4",
            "*.1.2.3.4",
            "::1",
            "[::1]",
            "a\n",
            "a/b",
        ] {
            assert!(hostname(bad).is_err(), "{bad:?}");
        }
        assert!(hostname(&"a".repeat(63)).is_ok());
        assert!(hostname(&"a".repeat(64)).is_err());
        assert!(hostname(&format!("{}a", "a.".repeat(126))).is_ok());
        assert!(hostname(&format!("{}aa", "a.".repeat(126))).is_err());
    }

    #[test]
    fn wildcards_are_not_precise() {
        assert!(precise_hostname("example.com").is_ok());
        assert!(matches!(precise_hostname("*.example.com").unwrap_err(), HostFault::NotPrecise { .. }));
    }

    #[test]
    fn errors_name_the_fault() {
        assert!(matches!(hostname("1.2.3.4").unwrap_err(), HostFault::IpAddress { .. }));
        assert!(matches!(hostname("fe80::1").unwrap_err(), HostFault::IpAddress { .. }));
        assert!(matches!(hostname("Example.com").unwrap_err(), HostFault::UpperCase { .. }));
        assert_eq!(
            hostname("a.*.b").unwrap_err().to_string(),
            "hostname \"a.*.b\": '*' is allowed only as the whole first label, as in \"*.example.com\""
        );
    }

    #[test]
    fn origins() {
        for good in ["*", "http://a", "https://example.com", "https://*.example.com:8443", "http://*", "https://A.com"]
        {
            assert!(origin(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "ftp://a",
            "https://",
            "https://a:",
            "https://a:99999",
            "https://a/b",
            "https://a.*.b",
            "https://a:+1",
        ] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn checks_never_panic(text in ".*") {
            let _ = (hostname(&text), precise_hostname(&text), origin(&text));
        }

        #[test]
        fn the_wildcard_of_a_good_name_is_good(text in "[a-z0-9.-]{1,20}") {
            prop_assert_eq!(hostname(&text).is_ok(), hostname(&format!("*.{text}")).is_ok());
        }
    }
}
