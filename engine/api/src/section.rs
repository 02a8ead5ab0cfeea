//! Sections of objects: the parts that dependencies, decisions, reports and stored verdicts refer to.
//!
//! A section is a field path without `spec.`, and a string wherever it is compared, sorted or stored. All such paths that
//! are more than the field of a fault are made and parsed here.

use std::fmt;

/// The host of a root HTTPProxy, and the filter chain of that host.
pub const HOST: &str = "virtualhost";
/// The TCP proxy of an HTTPProxy.
pub const STREAM: &str = "tcpproxy";
/// The TLS settings of a Gateway, which apply to its TLS listeners and to those of its ListenerSets.
pub const GATEWAY_TLS: &str = "tls";

const RULES: &str = "rules";
const ROUTES: &str = "routes";
const INCLUDES: &str = "includes";
const LISTENERS: &str = "listeners";
const HOSTNAMES: &str = "hostnames";

/// The meaning of a section. `Display` writes the path that `parse` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectSection<'a> {
    /// The object as a whole.
    Whole,
    /// A rule of an HTTPRoute or GRPCRoute, by index.
    Rule(usize),
    /// A route of an HTTPProxy, by index.
    ProxyRoute(usize),
    /// An include of an HTTPProxy, by index.
    Include(usize),
    /// A listener of a Gateway or ListenerSet: by name in dependencies, by index in reports.
    Listener(&'a str),
    /// A host name of a route, by index.
    Hostname(usize),
    /// See [`HOST`].
    Host,
    /// See [`STREAM`].
    Stream,
    /// Any other field, for example of a policy.
    Field(&'a str),
}

impl<'a> ObjectSection<'a> {
    /// Returns the meaning of a section.
    pub fn parse(section: &'a str) -> Self {
        let index = |list| entry(section, list).and_then(|index| index.parse().ok());
        let known = match section {
            "" => Some(Self::Whole),
            HOST => Some(Self::Host),
            STREAM => Some(Self::Stream),
            _ => None,
        };
        known
            .or_else(|| index(RULES).map(Self::Rule))
            .or_else(|| index(ROUTES).map(Self::ProxyRoute))
            .or_else(|| index(INCLUDES).map(Self::Include))
            .or_else(|| index(HOSTNAMES).map(Self::Hostname))
            .or_else(|| entry(section, LISTENERS).map(Self::Listener))
            .unwrap_or(Self::Field(section))
    }
}

/// Returns the name or index of an entry of a list.
fn entry<'a>(section: &'a str, list: &str) -> Option<&'a str> {
    section.strip_prefix(list)?.strip_prefix('[')?.strip_suffix(']')
}

impl fmt::Display for ObjectSection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Rule(index) => write!(f, "{RULES}[{index}]"),
            Self::ProxyRoute(index) => write!(f, "{ROUTES}[{index}]"),
            Self::Include(index) => write!(f, "{INCLUDES}[{index}]"),
            Self::Listener(name) => write!(f, "{LISTENERS}[{name}]"),
            Self::Hostname(index) => write!(f, "{HOSTNAMES}[{index}]"),
            Self::Host => f.write_str(HOST),
            Self::Stream => f.write_str(STREAM),
            Self::Field(path) => f.write_str(path),
        }
    }
}

/// Returns the section of a field of the host of a root HTTPProxy.
pub fn of_host(field: &str) -> String {
    format!("{HOST}.{field}")
}

/// Returns whether a section is the host of a root HTTPProxy, or a field of it.
pub fn is_of_host(section: &str) -> bool {
    section.strip_prefix(HOST).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the section of a listener by its name.
pub fn listener(name: &str) -> String {
    ObjectSection::Listener(name).to_string()
}

/// Returns the field of a section in the form of faults: `spec.rules[1]`; empty for the object as a whole.
pub fn field(section: &str) -> String {
    if section.is_empty() { String::new() } else { format!("spec.{section}") }
}

/// Returns a field of a fault as a section: `rules[1].matches[0]` of `spec.rules[1].matches[0]`.
pub fn of_field(field: &str) -> &str {
    field.strip_prefix("spec.").unwrap_or(field)
}

/// Returns the part of an object that contains a field: `rules[1]` of `spec.rules[1].matches[0]`.
pub fn unit(field: &str) -> &str {
    of_field(field).split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_parsed_as_they_are_written() {
        let all = [
            (ObjectSection::Whole, ""),
            (ObjectSection::Rule(0), "rules[0]"),
            (ObjectSection::ProxyRoute(12), "routes[12]"),
            (ObjectSection::Include(1), "includes[1]"),
            (ObjectSection::Listener("http"), "listeners[http]"),
            (ObjectSection::Hostname(3), "hostnames[3]"),
            (ObjectSection::Host, "virtualhost"),
            (ObjectSection::Stream, "tcpproxy"),
            (ObjectSection::Field("default.httpSettings.accessLog[0]"), "default.httpSettings.accessLog[0]"),
            (ObjectSection::Field("rules[first]"), "rules[first]"),
            (ObjectSection::Field("rules[0].matches[1]"), "rules[0].matches[1]"),
        ];
        for (section, text) in all {
            assert_eq!(section.to_string(), text);
            assert_eq!(ObjectSection::parse(text), section, "{text}");
        }
    }

    #[test]
    fn fields_of_faults_are_sections_with_a_prefix() {
        for section in ["", "rules[1]", "virtualhost"] {
            assert_eq!(is_of_host(section), section == "virtualhost", "{section}");
            assert_eq!(of_field(&field(section)), section);
            assert_eq!(unit(&field(section)), section);
        }
        assert_eq!(unit("spec.rules[1].matches[0]"), "rules[1]");
        assert!(is_of_host(&of_host("corsPolicy")) && !is_of_host("virtualhosts"));
    }
}
