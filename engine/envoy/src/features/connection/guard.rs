//! Connection guards: protection of backends that also applies to connections older than a change of the guards.
//!
//! A connection keeps the filter chain that it was accepted with until it is closed, but always uses the newest routes.
//! Therefore a chain with guards publishes a label of its guards, and its route configuration requires that label of
//! every chain: a request through a chain with another label is refused (403), and Envoy closes the connection with
//! that response.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::Identifier;
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac as Rules};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::envoy::extensions::filters::http::set_filter_state::v3::Config as SetFilterState;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::r#type::matcher::v3::filter_state_matcher::Matcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{FilterStateMatcher, StringMatcher};
use holdfast_xds::Version;
use prost::Message;

use super::socket::Socket;
use super::{ListenerSetting, ListenerSettings};
use crate::features::filter_state;

/// Name of the filter that publishes the label of a chain's guards, and the filter state key of the label.
pub(crate) const NAMES: &str = "holdfast.connection";

impl ListenerSettings {
    /// Returns a label derived from the guards of a chain; `None` where there are none.
    pub fn label(&self) -> Option<String> {
        let mut all = Vec::new();
        for (field, part) in self.parts.iter().filter(|(_, part)| part.guards()) {
            all.extend_from_slice(field.as_bytes());
            match part {
                ListenerSetting::Clients(clients) => {
                    all.push(u8::from(clients.required));
                    all.extend_from_slice(clients.trust.name().as_bytes());
                }
                ListenerSetting::Socket(Socket::Proxy { optional }) => all.push(u8::from(*optional)),
                part => {
                    let mut manager = HttpConnectionManager::default();
                    part.apply(&mut manager);
                    all.extend(manager.encode_to_vec());
                    all.extend(part.text("").unwrap_or_default());
                }
            }
            all.push(0);
        }
        (!all.is_empty()).then(|| Version::of(&all).to_string().chars().take(16).collect())
    }
}

/// Returns the filter that publishes the label in a chain.
pub fn naming(label: &str) -> SetFilterState {
    filter_state::keeps(NAMES, label.to_owned())
}

/// Returns the settings by which a route configuration requires the label of the chain.
pub fn demand(label: &str) -> RbacPerRoute {
    let named = Principal {
        identifier: Some(Identifier::FilterState(FilterStateMatcher {
            key: NAMES.into(),
            matcher: Some(Matcher::StringMatch(StringMatcher {
                match_pattern: Some(MatchPattern::Exact(label.to_owned())),
                ..Default::default()
            })),
        })),
    };
    let policy = Policy {
        permissions: vec![Permission { rule: Some(Rule::Any(true)) }],
        principals: vec![named],
        ..Default::default()
    };
    let rules = Rules {
        action: Action::Allow.into(),
        policies: HashMap::from([("connection".to_owned(), policy)]),
        ..Default::default()
    };
    RbacPerRoute { rbac: Some(Rbac { rules: Some(rules), ..Default::default() }) }
}

#[cfg(test)]
mod tests {
    use super::super::client_address::ClientAddress;
    use super::*;

    #[test]
    fn whatever_guards_is_in_the_label_and_nothing_else() {
        let address = |hops| ClientAddress { remote: true, hops, trusted: vec![], skip_append: None };
        let with = |parts: Vec<(&'static str, ListenerSetting)>| {
            ListenerSettings { service: "s".into(), parts: parts.into_iter().collect() }.label()
        };
        let one = with(vec![("a", ListenerSetting::ClientAddress(address(1)))]);
        assert!(one.is_some());
        assert_ne!(one, with(vec![("a", ListenerSetting::ClientAddress(address(2)))]));
        assert_ne!(one, with(vec![("p", ListenerSetting::Socket(Socket::Proxy { optional: false }))]));
        assert_eq!(
            one,
            with(vec![("a", ListenerSetting::ClientAddress(address(1))), ("e", ListenerSetting::Expect(true))])
        );
        assert_eq!(with(vec![("e", ListenerSetting::Expect(true))]), None);
    }
}
