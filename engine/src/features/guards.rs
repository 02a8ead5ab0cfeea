//! What routes, hosts and route configurations say of guards: settings that need a filter in the chain.
//!
//! Of each kind what is said closest to the route counts. Envoy looks for the settings of each filter by its name, from
//! the route outwards, and takes the first: the guard's as well. So whoever says something of its own says it for what
//! is said further away too: the filters that it replaces are switched off, and those that stay in force are demanded
//! once more. Whoever says nothing leaves everything as it is further away.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::google::protobuf::Any;

use super::chain::{ChainFilter, GUARD, demand};
use super::ext_auth::ExtAuth;
use super::ext_proc::ExtProc;
use super::jwt::Jwt;
use super::oauth2::OAuth2;
use super::rate_limit::GlobalLimit;
use crate::encode::any;

/// Kinds of guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Somebody is asked whether a request may pass.
    ExtAuth,
    /// Tokens.
    Jwt,
    /// Limits that all Envoys share.
    RateLimit,
    /// Somebody sees requests on their way.
    ExtProc,
    /// Users log in elsewhere.
    OAuth2,
}

/// What is said at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// Who is asked whether a request may pass.
    pub ext_auth: Option<ExtAuth>,
    /// Which token it must have.
    pub jwt: Option<Jwt>,
    /// How often such requests may come to all Envoys together.
    pub rate_limit: Option<GlobalLimit>,
    /// Who sees them on their way.
    pub ext_proc: Option<ExtProc>,
    /// Where users must have logged in.
    pub oauth2: Option<Arc<OAuth2>>,
    /// What is switched off here, whatever is said further away.
    pub off: BTreeSet<Kind>,
    /// What stands further away, as it is here.
    pub(crate) above: Above,
}

/// Filters of what is said further away, by name, as they are for whoever says something closer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Above {
    /// They stay in force.
    in_force: BTreeSet<Arc<str>>,
    /// Something closer stands in their place, or nothing at all.
    replaced: BTreeSet<Arc<str>>,
}

impl Guards {
    /// Is nothing said?
    pub fn is_empty(&self) -> bool {
        let Self { ext_auth, jwt, rate_limit, ext_proc, oauth2, off, above: _ } = self;
        let nobody = ext_auth.is_none() && ext_proc.is_none() && oauth2.is_none();
        nobody && jwt.is_none() && rate_limit.is_none() && off.is_empty()
    }

    /// The filters that must be in the chain for it.
    pub fn filters(&self) -> Vec<ChainFilter> {
        self.set().into_iter().map(|(_, filter)| filter).collect()
    }

    /// The same under what is said further away, the closer first.
    pub(crate) fn under<'a>(&self, levels: impl IntoIterator<Item = &'a Guards>) -> Self {
        let mut guards = Self { above: Above::default(), ..self.clone() };
        if guards.is_empty() {
            return guards;
        }
        let own: BTreeSet<Arc<str>> = guards.filters().iter().map(|filter| filter.name().into()).collect();
        let (mut said, mut above) = (guards.kinds(), Above::default());
        for level in levels {
            for (kind, filter) in level.set() {
                let name: Arc<str> = filter.name().into();
                if !said.contains(&kind) {
                    above.in_force.insert(name);
                } else if !own.contains(&name) && !above.in_force.contains(&name) {
                    above.replaced.insert(name);
                }
            }
            said.extend(level.kinds());
        }
        guards.above = above;
        guards
    }

    /// Envoy's settings by the names of the filters, the guard's among them.
    pub(crate) fn encode(&self) -> Vec<(String, Any)> {
        if self.is_empty() {
            return Vec::new();
        }
        let own = self.set();
        let off = || any(&FilterConfig { disabled: true, ..Default::default() });
        let mut names: Vec<&str> = own.iter().map(|(_, filter)| filter.name()).collect();
        names.extend(self.above.in_force.iter().map(|name| &**name));
        let demanded = match (names.is_empty(), self.above.replaced.is_empty()) {
            (false, _) => Some(any(&demand(&names))),
            // What is demanded further away is for filters that are switched off here.
            (true, false) => Some(off()),
            (true, true) => None,
        };
        let mut settings: Vec<(String, Any)> = Vec::new();
        settings.extend(demanded.map(|demanded| (GUARD.to_owned(), demanded)));
        settings.extend(self.above.replaced.iter().map(|name| (name.to_string(), off())));
        settings.extend(self.ext_auth.iter().map(|auth| (auth.server.name.to_string(), auth.encode())));
        settings.extend(self.oauth2.iter().map(|oauth2| (oauth2.login.name.to_string(), any(&oauth2.encode()))));
        settings.extend(self.tokens().chain(&self.jwt).map(|jwt| (jwt.filter.name.to_string(), any(&jwt.encode()))));
        settings.extend(self.rate_limit.iter().map(|limit| (limit.service.name.to_string(), any(&limit.encode()))));
        settings.extend(self.ext_proc.iter().map(|shown| (shown.service.name.to_string(), any(&shown.encode()))));
        settings
    }

    /// What is set here, and the filter of each.
    fn set(&self) -> Vec<(Kind, ChainFilter)> {
        let ext_auth = self.ext_auth.iter().map(|auth| (Kind::ExtAuth, ChainFilter::ExtAuth(auth.server.clone())));
        let jwt = self.jwt.iter().map(|jwt| (Kind::Jwt, ChainFilter::Jwt(jwt.filter.clone())));
        let limit = self.rate_limit.iter();
        let limit = limit.map(|limit| (Kind::RateLimit, ChainFilter::RateLimit(limit.service.clone())));
        let shown = self.ext_proc.iter();
        let shown = shown.map(|shown| (Kind::ExtProc, ChainFilter::ExtProc(shown.service.clone())));
        let login = self.oauth2.iter();
        let login = login.map(|oauth2| (Kind::OAuth2, ChainFilter::OAuth2(oauth2.login.clone())));
        // Whoever has another login has its tokens too.
        let tokens = self.tokens().map(|token| (Kind::OAuth2, ChainFilter::Jwt(token.filter.clone())));
        ext_auth.chain(login).chain(tokens).chain(jwt).chain(limit).chain(shown).collect()
    }

    /// Tokens that users must have who logged in.
    fn tokens(&self) -> impl Iterator<Item = &Jwt> {
        self.oauth2.iter().flat_map(|oauth2| &oauth2.tokens)
    }

    /// Of what something is said here.
    fn kinds(&self) -> BTreeSet<Kind> {
        self.set().into_iter().map(|(kind, _)| kind).chain(self.off.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests;
