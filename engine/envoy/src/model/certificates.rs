//! The certificate that a client gets of a filter chain with several.
//!
//! Envoy looks the server name up among the DNS names of the certificates: the name itself, then the wildcard above it.
//! Of the certificates with that name, a client that supports ECDSA gets one with such a key where there is one, and of
//! several with the same kind of key each client gets the first. A name of no certificate gets the first of all.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::table::Host;

/// What Envoy selects a certificate by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateLabels {
    /// The DNS names in lower case.
    pub names: Vec<Arc<str>>,
    /// The kind of the key.
    pub key: SelectedKey,
}

/// A kind of key, as far as Envoy distinguishes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SelectedKey {
    /// ECDSA on the curve of this number of bits.
    Ecdsa(u16),
    /// RSA.
    #[default]
    Rsa,
    /// Ed25519.
    Ed25519,
}

impl SelectedKey {
    fn is_ecdsa(self) -> bool {
        matches!(self, Self::Ecdsa(_))
    }
}

/// The names at which clients get a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownAt {
    /// The names at which clients that support ECDSA get it: nearly all clients.
    pub hosts: BTreeSet<Host>,
    /// Further names at which only clients that do not support ECDSA get it.
    pub without_ecdsa: BTreeSet<Host>,
}

impl ShownAt {
    /// Returns whether some client gets the certificate.
    pub fn is_any(&self) -> bool {
        !self.hosts.is_empty() || !self.without_ecdsa.is_empty()
    }
}

/// Returns for each certificate of a filter chain, in order, the names at which clients get it. A name of no certificate
/// counts only if none of the certificates is for the hosts of the chain: clients that verify refuse any certificate at
/// such a name.
pub fn shown(host: &Host, certificates: &[&CertificateLabels]) -> Vec<ShownAt> {
    let mut shown = vec![ShownAt::default(); certificates.len()];
    for name in names(host, certificates) {
        let own = positions(&name, certificates);
        let wide = above(&name).map(|wide| positions(&wide, certificates)).unwrap_or_default();
        let found = if own.is_empty() { &wide } else { &own };
        let is_ecdsa = |position: &usize| certificates.get(*position).is_some_and(|one| one.key.is_ecdsa());
        let ecdsa: Vec<usize> = found.iter().copied().filter(is_ecdsa).collect();
        let by_most = if !ecdsa.is_empty() {
            ecdsa
        } else if found.is_empty() && !certificates.is_empty() {
            vec![0]
        } else {
            found.clone()
        };
        let others = own.iter().chain(wide.iter().filter(|_| own.iter().all(is_ecdsa)));
        let others: Vec<usize> = others.copied().filter(|position| !is_ecdsa(position)).collect();
        for position in others.iter().filter(|position| !by_most.contains(position)) {
            shown.get_mut(*position).map(|at| at.without_ecdsa.insert(name.clone()));
        }
        for position in by_most {
            shown.get_mut(position).map(|at| at.hosts.insert(name.clone()));
        }
    }
    shown
}

/// Returns the names that Envoy distinguishes at a chain: the host of the chain, or the names of certificates below it.
fn names(host: &Host, certificates: &[&CertificateLabels]) -> BTreeSet<Host> {
    let all = certificates.iter().flat_map(|one| &one.names).map(|name| Host::new(Some(name)));
    let below: BTreeSet<Host> = all.filter(|name| host.is_wildcard() && host.covers(name)).collect();
    if below.is_empty() { BTreeSet::from([host.clone()]) } else { below }
}

/// Returns the first certificate of each kind of key with this name.
fn positions(name: &Host, certificates: &[&CertificateLabels]) -> Vec<usize> {
    let mut kinds = BTreeSet::new();
    let has = |one: &CertificateLabels| one.names.iter().any(|own| **own == *name.domain());
    let with_name = certificates.iter().enumerate().filter(|(_, one)| has(one));
    with_name.filter(|(_, one)| kinds.insert(one.key)).map(|(position, _)| position).collect()
}

/// Returns the wildcard with one label less than an exact host; Envoy looks up no other one.
fn above(name: &Host) -> Option<Host> {
    let (_, rest) = name.domain().split_once('.').filter(|_| !name.is_wildcard())?;
    Some(Host::new(Some(&format!("*.{rest}").into())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    const P256: SelectedKey = SelectedKey::Ecdsa(256);

    /// Returns the names at which each certificate is shown; in parentheses those for clients without ECDSA.
    fn at(host: &str, certificates: &[(&str, SelectedKey)]) -> Vec<String> {
        let labels: Vec<CertificateLabels> = certificates
            .iter()
            .map(|(names, key)| CertificateLabels { names: names.split(' ').map(Into::into).collect(), key: *key })
            .collect();
        let text = |hosts: &BTreeSet<Host>| hosts.iter().map(Host::domain).collect::<Vec<_>>().join(" ");
        let shown = shown(&Host::new(Some(&host.into())), &labels.iter().collect::<Vec<_>>());
        let describe = |at: &ShownAt| match at.without_ecdsa.is_empty() {
            true => text(&at.hosts),
            false => format!("{}({})", text(&at.hosts), text(&at.without_ecdsa)),
        };
        shown.iter().map(describe).collect()
    }

    #[test]
    fn the_first_of_a_name_and_a_kind_of_key_is_shown() {
        assert_eq!(at("a.com", &[("a.com", P256), ("a.com", P256)]), ["a.com", ""]);
        assert_eq!(at("a.com", &[("a.com", SelectedKey::Rsa), ("a.com", P256)]), ["(a.com)", "a.com"]);
        assert_eq!(at("*", &[("a.com", P256), ("b.com a.com", P256)]), ["a.com", "b.com"]);
        assert_eq!(at("a.com", &[("a.com", SelectedKey::Rsa), ("a.com", SelectedKey::Rsa)]), ["a.com", ""]);
    }

    #[test]
    fn a_name_precedes_the_wildcard_above_it() {
        assert_eq!(at("a.b.com", &[("*.b.com", P256), ("a.b.com", P256)]), ["", "a.b.com"]);
        assert_eq!(at("*.b.com", &[("*.b.com", P256), ("a.b.com", P256)]), ["*.b.com", "a.b.com"]);
        assert_eq!(at("a.b.com", &[("c.com", P256), ("*.b.com", P256)]), ["", "a.b.com"]);
        assert_eq!(at("a.b.com", &[("*.b.com", SelectedKey::Rsa), ("a.b.com", P256)]), ["(a.b.com)", "a.b.com"]);
        assert_eq!(at("a.b.c.com", &[("d.com", P256), ("*.c.com", P256)]), ["a.b.c.com", ""], "two labels below");
    }

    #[test]
    fn a_name_of_no_certificate_gets_the_first_of_all() {
        assert_eq!(at("a.com", &[("b.com", P256), ("c.com", SelectedKey::Rsa)]), ["a.com", ""]);
        assert_eq!(at("*.a.com", &[("b.com", P256)]), ["*.a.com"]);
        assert_eq!(at("a.com", &[]), Vec::<String>::new());
        assert_eq!(at("a.com", &[("a.com", SelectedKey::Rsa), ("a.com", SelectedKey::Ed25519)]), ["a.com", "a.com"]);
    }
}
