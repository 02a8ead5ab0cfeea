//! Guards at routes, hosts and route configurations: settings that need a filter in the chain.
//!
//! For each kind of guard, the setting closest to the route applies. Envoy looks up the settings of each filter by the
//! filter's name, from the route outwards, and uses the first ones it finds; this includes the settings of the chain's
//! guard. Therefore a level with guards of its own also covers the outer levels: it disables the filters that it
//! replaces, and requires the filters that stay in force again. A level without guards leaves the outer levels
//! unchanged.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::chain::{ChainFilter, GUARD, demand};
use super::ext_auth::RouteExtAuth;
use super::ext_proc::RouteExtProc;
use super::filters::Guarding;
use super::jwt::RouteJwt;
use super::oauth2::RouteOAuth2;
use super::rate_limit::GlobalLimit;
use crate::encode::any;
use crate::model::sparse::Blank;

/// Kinds of guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuardKind {
    /// External authorization.
    ExtAuth,
    /// External authorization by a filter of the rule itself.
    RuleAuth,
    /// JWT authentication.
    Jwt,
    /// Global rate limiting.
    RateLimit,
    /// External processing.
    ExtProc,
    /// OAuth 2.0 login.
    OAuth2,
}

/// The guards at one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// External authorization of requests.
    pub ext_auth: Option<RouteExtAuth>,
    /// External authorization that the rule of a route and its backend require themselves, in addition to that of
    /// policies: none replaces or disables another. Each has another filter.
    pub rule_auth: Vec<RouteExtAuth>,
    /// The token that requests must carry.
    pub jwt: Option<RouteJwt>,
    /// The global rate limit of requests.
    pub rate_limit: Option<GlobalLimit>,
    /// External processing of requests and responses.
    pub ext_proc: Option<RouteExtProc>,
    /// The login that requests must have.
    pub oauth2: Option<Arc<RouteOAuth2>>,
    /// Kinds that are disabled here, whatever the outer levels set.
    pub off: BTreeSet<GuardKind>,
    /// The filters of the outer levels.
    pub above: Above,
}

/// Filters of the outer levels by name, as they apply to this level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Above {
    /// Filters that stay in force.
    in_force: BTreeSet<Arc<str>>,
    /// Filters that this level replaces or disables.
    replaced: BTreeSet<Arc<str>>,
}

impl Blank for Guards {
    fn blank() -> &'static Self {
        static BLANK: LazyLock<Guards> = LazyLock::new(Guards::default);
        &BLANK
    }
}

impl Guards {
    /// Returns whether nothing is set at this level.
    pub fn is_empty(&self) -> bool {
        let Self { ext_auth, rule_auth, jwt, rate_limit, ext_proc, oauth2, off, above: _ } = self;
        let no_services = ext_auth.is_none() && rule_auth.is_empty() && ext_proc.is_none() && oauth2.is_none();
        no_services && jwt.is_none() && rate_limit.is_none() && off.is_empty()
    }

    /// Returns the filters that these guards need in the chain.
    pub fn filters(&self) -> Vec<ChainFilter> {
        self.set().into_iter().map(|(_, filter)| filter).collect()
    }

    /// Returns these guards with the filters of the given outer levels, nearest level first.
    pub fn under<'a>(&self, levels: impl IntoIterator<Item = &'a Guards>) -> Self {
        let mut guards = Self { above: Above::default(), ..self.clone() };
        if guards.is_empty() {
            return guards;
        }
        let own: BTreeSet<Arc<str>> = guards.filters().iter().map(|filter| filter.name().into()).collect();
        let (mut kinds, mut above) = (guards.kinds(), Above::default());
        for level in levels {
            for (kind, filter) in level.set() {
                let name: Arc<str> = filter.name().into();
                if !kinds.contains(&kind) {
                    above.in_force.insert(name);
                } else if !own.contains(&name) && !above.in_force.contains(&name) {
                    above.replaced.insert(name);
                }
            }
            kinds.extend(level.kinds());
        }
        guards.above = above;
        guards
    }

    /// Returns the per-route settings by filter name, those of the chain's guard included.
    pub fn encode(&self) -> Vec<(String, Any)> {
        if self.is_empty() {
            return Vec::new();
        }
        let own = self.set();
        let off = || any(&FilterConfig { disabled: true, ..Default::default() });
        let mut names: Vec<&str> = own.iter().map(|(_, filter)| filter.name()).collect();
        names.extend(self.above.in_force.iter().map(|name| &**name));
        let demanded = match (names.is_empty(), self.above.replaced.is_empty()) {
            (false, _) => Some(any(&demand(&names))),
            // Outer levels require only filters that are disabled here.
            (true, false) => Some(off()),
            (true, true) => None,
        };
        let mut settings: Vec<(String, Any)> = Vec::new();
        settings.extend(demanded.map(|demanded| (GUARD.to_owned(), demanded)));
        settings.extend(self.above.replaced.iter().map(|name| (name.to_string(), off())));
        settings.extend(
            self.ext_auth.iter().chain(&self.rule_auth).map(|auth| (auth.server.name.to_string(), auth.encode())),
        );
        settings.extend(self.oauth2.iter().map(|oauth2| (oauth2.login.name.to_string(), any(&oauth2.encode()))));
        settings.extend(self.tokens().chain(&self.jwt).map(|jwt| (jwt.filter.name.to_string(), any(&jwt.encode()))));
        settings.extend(self.rate_limit.iter().map(|limit| (limit.service.name.to_string(), any(&limit.encode()))));
        settings.extend(self.ext_proc.iter().map(|shown| (shown.service.name.to_string(), any(&shown.encode()))));
        settings
    }

    /// Returns the encoded settings by filter name; see [`Guarding`].
    pub fn guarding(&self) -> Guarding {
        self.encode().into_iter().map(|(name, config)| (name, config.encode_to_vec())).collect()
    }

    /// Returns the guards that are set here, each with its filter.
    fn set(&self) -> Vec<(GuardKind, ChainFilter)> {
        let ext_auth = self.ext_auth.iter().map(|auth| (GuardKind::ExtAuth, ChainFilter::ExtAuth(auth.server.clone())));
        let rule_auth = self.rule_auth.iter();
        let rule_auth = rule_auth.map(|auth| (GuardKind::RuleAuth, ChainFilter::ExtAuth(auth.server.clone())));
        let jwt = self.jwt.iter().map(|jwt| (GuardKind::Jwt, ChainFilter::Jwt(jwt.filter.clone())));
        let limit = self.rate_limit.iter();
        let limit = limit.map(|limit| (GuardKind::RateLimit, ChainFilter::RateLimit(limit.service.clone())));
        let shown = self.ext_proc.iter();
        let shown = shown.map(|shown| (GuardKind::ExtProc, ChainFilter::ExtProc(shown.service.clone())));
        let login = self.oauth2.iter();
        let login = login.map(|oauth2| (GuardKind::OAuth2, ChainFilter::OAuth2(oauth2.login.clone())));
        // A level with another login also has the tokens of that login.
        let tokens = self.tokens().map(|token| (GuardKind::OAuth2, ChainFilter::Jwt(token.filter.clone())));
        ext_auth.chain(rule_auth).chain(login).chain(tokens).chain(jwt).chain(limit).chain(shown).collect()
    }

    /// Returns the tokens that users must have after login.
    fn tokens(&self) -> impl Iterator<Item = &RouteJwt> {
        self.oauth2.iter().flat_map(|oauth2| &oauth2.tokens)
    }

    /// Returns the kinds that are set or disabled here.
    fn kinds(&self) -> BTreeSet<GuardKind> {
        self.set().into_iter().map(|(kind, _)| kind).chain(self.off.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests;
