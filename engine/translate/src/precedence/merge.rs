//! Merge of the policies of one scope, field by field: the first policy that sets a field wins, and the policy is
//! recorded. Access lists are joined, unless they contradict each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_envoy::features::connection::ListenerSetting;
use holdfast_envoy::features::filters::{Filter, Filters, Setting};
use holdfast_envoy::features::guards::{GuardKind, Guards};
use holdfast_envoy::features::rewrite::PathRewrite;
use holdfast_graph::ObjectKey;

use super::action::ActionSettings;
use super::settings::{ACL, Field, Piece, Settings};

/// Merged policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    pieces: Settings,
    /// The policies that set each field.
    pub origins: Origins,
}

/// Policies by field.
pub type Origins = BTreeMap<Field, Vec<ObjectKey>>;

/// Merges policies, the most specific first, within each level in the order of their ranks.
pub fn merge<'a>(policies: impl Iterator<Item = (&'a ObjectKey, &'a Settings)>) -> Merged {
    let mut merged = Merged::default();
    for (key, settings) in policies {
        for (field, piece) in settings {
            // A policy can take part in two places, with a part of its fields first.
            if merged.origins.get(field).is_some_and(|known| known.contains(key)) {
                continue;
            }
            match merged.pieces.get_mut(field) {
                None => {
                    merged.pieces.insert(field, piece.clone());
                }
                Some(Piece::Acl(first)) if *field == ACL => {
                    let Piece::Acl(next) = piece else { continue };
                    let Some(joined) = first.join(next) else { continue };
                    *first = joined;
                }
                Some(_) => continue,
            }
            merged.origins.entry(field).or_default().push(key.clone());
        }
    }
    merged
}

impl Merged {
    /// Returns the settings of filters.
    pub fn filters(&self) -> Filters {
        let mut filters = Filters::new();
        for piece in self.pieces.values() {
            match piece {
                Piece::Filters(settings) => filters.extend(settings.iter().cloned()),
                Piece::Acl(acl) => {
                    // A response belongs to its access list: the response of a less specific list would not match.
                    let answer = acl.response.clone().map_or(Setting::Off, Setting::DenyResponse);
                    filters.insert(Filter::DenyResponse, Arc::new(answer));
                    filters.insert(Filter::Acl, Arc::new(Setting::Acl(acl.clone())));
                }
                _ => {}
            }
        }
        filters
    }

    /// Returns the guards: settings that need a filter in the chain.
    pub fn guards(&self) -> Guards {
        let mut guards = Guards::default();
        for piece in self.pieces.values() {
            match piece {
                Piece::ExtAuth(Some(auth)) => guards.ext_auth = Some(auth.clone()),
                Piece::ExtAuth(None) => drop(guards.off.insert(GuardKind::ExtAuth)),
                Piece::Jwt(Some(jwt)) => guards.jwt = Some(jwt.clone()),
                Piece::Jwt(None) => drop(guards.off.insert(GuardKind::Jwt)),
                Piece::GlobalLimit(limit) => guards.rate_limit = Some(limit.clone()),
                Piece::ExtProc(Some(shown)) => guards.ext_proc = Some(shown.clone()),
                Piece::ExtProc(None) => drop(guards.off.insert(GuardKind::ExtProc)),
                Piece::OAuth2(login) => guards.oauth2 = Some(login.clone()),
                _ => {}
            }
        }
        guards
    }

    /// Returns the settings of the listener.
    pub fn connection(&self) -> BTreeMap<Field, ListenerSetting> {
        let parts = self.pieces.iter().filter_map(|(field, piece)| match piece {
            Piece::Connection(part) => Some((*field, part.clone())),
            _ => None,
        });
        parts.collect()
    }

    /// Returns the settings for the forwarding of requests.
    pub fn action(&self) -> ActionSettings {
        let mut action = ActionSettings::default();
        for piece in self.pieces.values() {
            match piece {
                Piece::Filters(_) | Piece::Acl(_) => {}
                Piece::ExtAuth(_) | Piece::Jwt(_) | Piece::GlobalLimit(_) | Piece::Connection(_) => {}
                Piece::ExtProc(_) | Piece::OAuth2(_) => {}
                Piece::Timeouts(request, idle) => (action.request_timeout, action.idle_timeout) = (*request, *idle),
                Piece::Retry(retry) => action.retry = Some(retry.clone()),
                Piece::InternalRedirect(redirect) => action.internal_redirect = Some(redirect.clone()),
                Piece::Mirroring(mirroring) => action.mirroring = Some(mirroring.clone()),
                Piece::Path(path) => action.path = Some(PathRewrite::clone(path)),
                Piece::AutoHost(auto) => action.auto_host = *auto,
                Piece::StatPrefix(prefix) => action.stat_prefix = Some(prefix.clone()),
                Piece::Tracing(tracing) => action.tracing = Some(tracing.clone()),
            }
        }
        action
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_envoy::features::acl::{AccessList, AccessListEntry};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("g", "TrafficPolicy", "ns", name)
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn of_each_field_the_first_counts_as_a_whole() {
        let first = Settings::from([("timeouts", Piece::Timeouts(seconds(1), None))]);
        let second = Settings::from([
            ("timeouts", Piece::Timeouts(seconds(2), seconds(3))),
            ("autoHostRewrite", Piece::AutoHost(true)),
        ]);
        let (a, b) = (key("a"), key("b"));
        let merged = merge([(&a, &first), (&b, &second)].into_iter());
        let action = merged.action();
        assert_eq!((action.request_timeout, action.idle_timeout, action.auto_host), (seconds(1), None, true));
        assert_eq!(merged.origins, Origins::from([("timeouts", vec![a]), ("autoHostRewrite", vec![b])]));
    }

    #[test]
    fn access_lists_are_joined_unless_they_contradict_each_other() {
        let list = |default_allow, address: &str, allow| {
            let address = address.parse().unwrap_or(std::net::IpAddr::from([0, 0, 0, 0]));
            let entry = AccessListEntry { name: "r".into(), address, length: 32, allow };
            Settings::from([(
                ACL,
                Piece::Acl(AccessList { default_allow, entries: vec![entry], ..AccessList::default() }),
            )])
        };
        let (a, b) = (key("a"), key("b"));
        let entries = |first: &Settings, second: &Settings| {
            let merged = merge([(&a, first), (&b, second)].into_iter());
            let Some(Piece::Acl(acl)) = merged.pieces.get(ACL) else { return (0, 0) };
            (acl.entries.len(), merged.origins.values().map(Vec::len).sum())
        };
        let one = list(Some(false), "10.0.0.1", true);
        assert_eq!(entries(&one, &list(None, "10.0.0.2", true)), (2, 2));
        assert_eq!(entries(&one, &list(None, "10.0.0.1", false)), (1, 2));
        assert_eq!(entries(&one, &list(Some(true), "10.0.0.2", true)), (1, 1));
    }
}
