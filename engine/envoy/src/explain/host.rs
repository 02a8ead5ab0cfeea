//! The virtual host of a request.

use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use serde::Serialize;

use super::request::split_port;

/// A virtual host, and how its domain matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChosenHost {
    /// The name of the virtual host.
    pub name: String,
    /// The host that was compared.
    pub host: String,
    /// The domain that matches.
    pub domain: String,
    /// How it matches.
    pub by: DomainMatch,
}

/// How a domain matches. A later form has precedence, and of two wildcards the longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DomainMatch {
    /// `*`
    Any,
    /// `a.*`
    Prefix,
    /// `*.example`
    Suffix,
    /// The whole host.
    Exact,
}

/// Returns the virtual host for an authority.
pub(crate) fn choose<'c>(
    configuration: &'c RouteConfiguration,
    authority: &str,
) -> Option<(&'c VirtualHost, ChosenHost)> {
    let host = match configuration.ignore_port_in_host_matching {
        true => split_port(authority).0,
        false => authority,
    };
    let host = host.to_ascii_lowercase();
    let domains = configuration.virtual_hosts.iter().flat_map(|known| known.domains.iter().map(move |d| (known, d)));
    let ranked =
        domains.filter_map(|(known, domain)| Some((rank(&domain.to_ascii_lowercase(), &host)?, known, domain)));
    let ((by, _), known, domain) = ranked.max_by_key(|(rank, ..)| *rank)?;
    Some((known, ChosenHost { name: known.name.clone(), host, domain: domain.clone(), by }))
}

/// Returns how a domain matches, with the length of a wildcard. A wildcard covers at least one character.
fn rank(domain: &str, host: &str) -> Option<(DomainMatch, usize)> {
    if domain == "*" {
        return Some((DomainMatch::Any, 0));
    }
    if let Some(suffix) = domain.strip_prefix('*') {
        return (host.len() > suffix.len() && host.ends_with(suffix)).then_some((DomainMatch::Suffix, suffix.len()));
    }
    if let Some(prefix) = domain.strip_suffix('*') {
        return (host.len() > prefix.len() && host.starts_with(prefix)).then_some((DomainMatch::Prefix, prefix.len()));
    }
    (domain == host).then_some((DomainMatch::Exact, 0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_domain_precedes_a_suffix_a_prefix_and_any() {
        let host =
            |domain: &str| VirtualHost { name: domain.into(), domains: vec![domain.into()], ..Default::default() };
        let domains = ["*", "a.*", "*.example", "*.b.example", "a.b.example", "a.b.example:81"];
        let mut configuration = RouteConfiguration {
            virtual_hosts: domains.into_iter().map(host).collect(),
            ignore_port_in_host_matching: true,
            ..Default::default()
        };
        let by = |configuration: &RouteConfiguration, host| {
            let (_, chosen) = choose(configuration, host)?;
            Some((chosen.domain, chosen.by))
        };
        let cases = [
            ("a.b.example", "a.b.example", DomainMatch::Exact),
            ("A.B.example", "a.b.example", DomainMatch::Exact),
            ("a.b.example:81", "a.b.example", DomainMatch::Exact),
            ("x.b.example", "*.b.example", DomainMatch::Suffix),
            ("x.y.b.example", "*.b.example", DomainMatch::Suffix),
            ("b.example", "*.example", DomainMatch::Suffix),
            ("a.c.example", "*.example", DomainMatch::Suffix),
            ("a.other", "a.*", DomainMatch::Prefix),
            (".example", "*", DomainMatch::Any),
            ("example", "*", DomainMatch::Any),
        ];
        for (host, domain, form) in cases {
            assert_eq!(by(&configuration, host), Some((domain.to_owned(), form)), "{host}");
        }
        configuration.ignore_port_in_host_matching = false;
        assert_eq!(by(&configuration, "a.b.example:81").unwrap().0, "a.b.example:81");
        assert_eq!(by(&configuration, "x.b.example:81").unwrap().0, "*");
        configuration.virtual_hosts.remove(0);
        assert_eq!(by(&configuration, "x.b.example:81"), None);
    }
}
