//! Search and filters of the overview: plain parameters of GET.

use form_urlencoded::Serializer;
use holdfast_engine::health::view::{Health, HealthFinding, Severity};
use maud::{Markup, html};

use super::frame::KnownNames;
use super::hosts::HostService;
use crate::finding::{finding_lines, plain};

/// Maximum length of a value, in bytes.
const FILTER_BYTES_MAX: usize = 500;

/// The states of the filter: value, words, and what they select.
const STATES: [(&str, &str); 4] = [
    ("error", "Clients get errors"),
    ("earlier", "Earlier version served"),
    ("warning", "Warnings"),
    ("served", "Served as written"),
];

/// What of the overview is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OverviewFilter {
    /// Text in the names of hosts and objects, and in findings; in lower case.
    search: String,
    /// A namespace; empty for all.
    pub(super) namespace: String,
    /// A Gateway as `namespace/name`; empty for all.
    pub(super) gateway: String,
    /// One of [`STATES`]; empty for all.
    state: String,
    /// The page of the hosts, from 1.
    pub(super) hosts: usize,
    /// The page of the findings, from 1.
    pub(super) findings: usize,
    /// The page of the episodes, from 1.
    pub(super) episodes: usize,
}

impl OverviewFilter {
    /// Reads the parameters of the page. An empty value is no filter.
    ///
    /// # Errors
    /// Returns an error if a parameter or its value is unknown.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        let mut filter = Self::default();
        for (name, value) in parameters {
            if value.len() > FILTER_BYTES_MAX {
                return Err(format!("{}: longer than {FILTER_BYTES_MAX} bytes", plain(&name)));
            }
            let number = || value.parse().map_err(|_| format!("{name}: not a number of a page"));
            match &*name {
                "q" => filter.search = value.trim().to_lowercase(),
                "namespace" => filter.namespace = value,
                "gateway" => filter.gateway = value,
                "state" if value.is_empty() || STATES.iter().any(|(known, _)| *known == value) => filter.state = value,
                "state" => return Err("state: expected error, earlier, warning or served".into()),
                "hosts" => filter.hosts = number()?,
                "findings" => filter.findings = number()?,
                "episodes" => filter.episodes = number()?,
                _ => {
                    return Err(format!(
                        "unknown parameter {}: the parameters are q, namespace, gateway, state, hosts, findings and \
                         episodes",
                        plain(&name)
                    ));
                }
            }
        }
        Ok(filter)
    }

    /// Returns whether the whole state is shown.
    pub(super) fn is_all(&self) -> bool {
        [&self.search, &self.namespace, &self.gateway, &self.state].into_iter().all(String::is_empty)
    }

    /// Returns the health of the namespace and the Gateway.
    pub(super) fn part(&self, health: Health) -> Health {
        let health = if self.namespace.is_empty() { health } else { health.of_namespace(&self.namespace) };
        if self.gateway.is_empty() { health } else { health.of_gateway(&self.gateway) }
    }

    /// Returns why the namespace or the Gateway is not known; `None` if both are.
    pub(super) fn unknown(&self, health: &Health) -> Option<String> {
        let is_known = health.known_namespaces().contains(&*self.namespace);
        if !self.namespace.is_empty() && !is_known {
            return Some(format!("Holdfast has read no object of namespace {}.", plain(&self.namespace)));
        }
        let is_known = health.known_gateways().contains(&self.gateway);
        (!self.gateway.is_empty() && !is_known)
            .then(|| format!("There is no Gateway {} that Holdfast serves.", plain(&self.gateway)))
    }

    /// Returns whether a Gateway is shown: the selected one, or those with routes of the selected namespace.
    pub(super) fn has_gateway(&self, gateway: &str, health: &Health) -> bool {
        let of_namespace = health.namespaces.get(&*self.namespace);
        let is_own = gateway.split_once('/').is_some_and(|(namespace, _)| namespace == self.namespace);
        (self.gateway.is_empty() || self.gateway == gateway)
            && (self.namespace.is_empty() || is_own || of_namespace.is_some_and(|at| at.contains(gateway)))
    }

    /// Returns the part as a clause of a sentence, as in ` of namespace shop`.
    pub(super) fn clause(&self) -> String {
        let of = if self.namespace.is_empty() { String::new() } else { format!(" of namespace {}", self.namespace) };
        let at = if self.gateway.is_empty() { String::new() } else { format!(" at Gateway {}", self.gateway) };
        plain(&format!("{of}{at}"))
    }

    /// Returns whether hosts in this state are shown.
    pub(super) fn has_host_state(&self, state: HostService) -> bool {
        match &*self.state {
            "" => true,
            wanted => wanted == state.filter(),
        }
    }

    /// Returns whether findings of this severity are shown.
    pub(super) fn has_severity(&self, severity: Severity) -> bool {
        let of_severity = match severity {
            Severity::Outage => "error",
            Severity::Degraded => "earlier",
            Severity::Warning => "warning",
        };
        self.state.is_empty() || self.state == of_severity
    }

    /// Returns whether a text has the searched one.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.search.is_empty() || text.to_lowercase().contains(&self.search)
    }

    /// Returns whether a finding has the searched text: in its objects, or in what is shown of it.
    pub(super) fn is_in_finding(&self, finding: &HealthFinding, severity: Severity) -> bool {
        if self.search.is_empty() {
            return true;
        }
        let subjects = finding.objects.iter().map(|subject| &subject.object);
        let others = finding.served.iter().map(|served| &served.object).chain(&finding.affected);
        let has_name = |object| self.is_in(&crate::finding::name(object));
        let hosts = finding.served.iter().flat_map(|served| &served.hosts);
        subjects.chain(others).any(has_name)
            || hosts.map(|host| &**host).any(|host| self.is_in(host))
            || finding_lines(finding, severity, 0, super::article::SHOWN).iter().any(|line| self.is_in(&line.text))
    }

    /// Returns the address of the overview with this filter, and with the page of one list.
    pub(super) fn link(&self, page: Option<(&str, usize)>) -> String {
        let mut query = Serializer::new(String::new());
        let texts =
            [("q", &self.search), ("namespace", &self.namespace), ("gateway", &self.gateway), ("state", &self.state)];
        for (name, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
            query.append_pair(name, value);
        }
        let pages = [("hosts", self.hosts), ("findings", self.findings), ("episodes", self.episodes)];
        let changed = |name: &str, number| page.filter(|(wanted, _)| *wanted == name).map_or(number, |(_, to)| to);
        for (name, number) in pages.into_iter().map(|(name, number)| (name, changed(name, number))) {
            if number > 1 {
                query.append_pair(name, &number.to_string());
            }
        }
        match query.finish() {
            query if query.is_empty() => "/".to_owned(),
            query => format!("/?{query}"),
        }
    }

    /// Returns the form.
    pub(super) fn form(&self, known: &KnownNames) -> Markup {
        let option = |value: &str, words: &str, selected: &str| {
            html! {
                option value=(value) selected[value == selected] { (plain(words)) }
            }
        };
        let names = |known: &[String], selected: &str| {
            html! {
                (option("", "All", selected))
                @for name in known { (option(name, name, selected)) }
                // A name that is not known any more stays selected.
                @if !selected.is_empty() && !known.iter().any(|name| name == selected) {
                    (option(selected, selected, selected))
                }
            }
        };
        html! {
            form method="get" action="/" role="search" {
                label { "Search " input type="search" name="q" value=(self.search) maxlength=(FILTER_BYTES_MAX); }
                label { "Namespace " select name="namespace" { (names(&known.namespaces, &self.namespace)) } }
                label { "Gateway " select name="gateway" { (names(&known.gateways, &self.gateway)) } }
                label { "State "
                    select name="state" {
                        (option("", "All", &self.state))
                        @for (value, words) in STATES { (option(value, words, &self.state)) }
                    }
                }
                button type="submit" { "Show" }
                @if !self.is_all() { a href="/" { "Clear" } }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<OverviewFilter, String> {
        let parameters = form_urlencoded::parse(query.as_bytes()).into_owned();
        OverviewFilter::read(parameters.collect())
    }

    #[test]
    fn a_link_is_read_as_the_filter_that_it_was_made_from() {
        let filter = read("q=A+%26%3C&namespace=shop&gateway=infra/public&state=error&findings=3").unwrap();
        assert_eq!(filter.search, "a &<");
        let link = filter.link(Some(("hosts", 2)));
        let again = read(link.strip_prefix("/?").unwrap()).unwrap();
        assert_eq!(again, OverviewFilter { hosts: 2, ..filter });
        assert_eq!(OverviewFilter::default().link(None), "/");
        assert_eq!(read("q=&namespace=&gateway=&state=").unwrap(), OverviewFilter::default());
    }

    #[test]
    fn unknown_parameters_and_values_are_errors() {
        for query in ["a=b", "state=bad", "hosts=x", "findings=-1", &format!("q={}", "a".repeat(FILTER_BYTES_MAX + 1))]
        {
            assert!(read(query).is_err(), "{query}");
        }
    }
}
