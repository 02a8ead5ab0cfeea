//! Hosts and the route tables that hold them.

use std::cmp::Reverse;
use std::sync::Arc;

/// A route table of a Gateway: one for each plain port, one for each HTTPS listener.
///
/// Tables are not split further: browsers reuse one HTTP/2 connection for all hosts that its certificate covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableName {
    /// All plain HTTP listeners of a port.
    Port(u16),
    /// One HTTPS listener, by name.
    Listener(Arc<str>),
}

/// A host pattern: `*`, `*.example.com` or `example.com`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Arc<str>);

impl Host {
    /// Returns the pattern for all hosts.
    pub fn any() -> Self {
        Self("*".into())
    }

    /// Returns the hosts of a listener or route; all hosts where no pattern is set.
    pub fn new(pattern: Option<&Arc<str>>) -> Self {
        pattern.map_or_else(Self::any, |pattern| Self(pattern.clone()))
    }

    /// Returns a host that no request can have: Envoy answers 400 to a `Host` with a space before it looks for a route.
    pub fn unreachable() -> Self {
        Self("holdfast trial".into())
    }

    /// Returns the host as Envoy writes it in `domains`.
    pub fn domain(&self) -> &str {
        &self.0
    }

    /// Returns the text after the wildcard: `` for `*`, `.example.com` for `*.example.com`, `None` for an exact host.
    fn suffix(&self) -> Option<&str> {
        self.0.strip_prefix('*')
    }

    /// Returns whether the pattern is a wildcard.
    pub fn is_wildcard(&self) -> bool {
        self.suffix().is_some()
    }

    /// Returns whether every host that matches `other` also matches this pattern.
    pub fn covers(&self, other: &Host) -> bool {
        match self.suffix() {
            None => self == other,
            Some("") => true,
            Some(suffix) => match other.suffix() {
                Some(inner) => inner.ends_with(suffix),
                None => other.0.len() > suffix.len() && other.0.ends_with(suffix),
            },
        }
    }

    /// Returns the pattern of the hosts that match both patterns, if any.
    pub fn intersection(&self, other: &Host) -> Option<Host> {
        if self.covers(other) {
            Some(other.clone())
        } else if other.covers(self) {
            Some(self.clone())
        } else {
            None
        }
    }

    /// Returns the pattern itself and every wildcard with a suffix that covers it.
    pub fn and_above(&self) -> impl Iterator<Item = Host> {
        let labels: Vec<&str> = self.0.split('.').collect();
        let above = (1..labels.len()).map(|from| format!("*.{}", labels.get(from..).unwrap_or_default().join(".")));
        let above: Vec<Host> = above.map(|pattern| Self(pattern.into())).filter(|pattern| pattern != self).collect();
        std::iter::once(self.clone()).chain(above)
    }

    /// Returns the sort key of the pattern: the more specific pattern comes first.
    pub fn specificity(&self) -> (bool, Reverse<usize>) {
        (self.suffix().is_some(), Reverse(self.0.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::new(Some(&Arc::from(text)))
    }

    #[test]
    fn intersections_are_those_of_the_specification() {
        let rows = [
            ("*", "a.example.com", Some("a.example.com")),
            ("*.example.com", "a.example.com", Some("a.example.com")),
            ("*.example.com", "a.b.example.com", Some("a.b.example.com")),
            ("*.example.com", "example.com", None),
            ("*.example.com", "*.com", Some("*.example.com")),
            ("a.example.com", "*.example.com", Some("a.example.com")),
            ("a.example.com", "b.example.com", None),
            ("*.example.com", "*.example.org", None),
            ("*.example.com", "aexample.com", None),
        ];
        for (left, right, both) in rows {
            assert_eq!(host(left).intersection(&host(right)), both.map(host), "{left} and {right}");
            assert_eq!(host(right).intersection(&host(left)), both.map(host), "{right} and {left}");
        }
    }

    #[test]
    fn wildcards_above_a_host() {
        let above = |text: &str| host(text).and_above().map(|host| host.domain().to_owned()).collect::<Vec<_>>();
        assert_eq!(above("a.b.com"), ["a.b.com", "*.b.com", "*.com"]);
        assert_eq!(above("*.b.com"), ["*.b.com", "*.com"]);
        assert_eq!(above("*"), ["*"]);
    }

    #[test]
    fn the_more_specific_host_comes_first() {
        let mut hosts = [host("*"), host("*.com"), host("a.com"), host("*.example.com"), host("a.example.com")];
        hosts.sort_by_key(Host::specificity);
        let sorted: Vec<_> = hosts.iter().map(Host::domain).collect();
        assert_eq!(sorted, ["a.example.com", "a.com", "*.example.com", "*.com", "*"]);
    }
}
