//! Rewriting of cookie attributes in responses of backends.
//!
//! Envoy has no other means for it than a Lua script. The script is one fixed text, which the filter holds under a
//! name; the rules of a route are passed to it as data.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3::lua_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::lua::v3::{Lua, LuaPerRoute};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value};

/// Name of the filter in the filter chain, and key of its per-route settings.
pub const FILTER: &str = "envoy.filters.http.lua";
/// Maximum number of rules of one route.
pub const RULES_MAX: usize = 64;
/// Name of the script in the filter's configuration, and of the rules in the script's context.
const NAME: &str = "cookies";
const SCRIPT: &str = include_str!("cookies.lua");

/// A rewrite of the cookies with the given name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CookieRewrite {
    /// The name of the cookie.
    pub name: Arc<str>,
    /// The new path. This and each following field is unchanged where unset.
    pub path: Option<Arc<str>>,
    /// The new domain.
    pub domain: Option<Arc<str>>,
    /// Whether the cookie has the `Secure` attribute.
    pub secure: Option<bool>,
    /// The `SameSite` attribute: `Strict`, `Lax` or `None`.
    pub same_site: Option<Arc<str>>,
}

impl CookieRewrite {
    /// Merges a more specific rule for the same cookie, which takes precedence.
    fn under(&self, first: &Self) -> Self {
        let or = |first: &Option<Arc<str>>, own: &Option<Arc<str>>| first.clone().or_else(|| own.clone());
        Self {
            name: self.name.clone(),
            path: or(&first.path, &self.path),
            domain: or(&first.domain, &self.domain),
            secure: first.secure.or(self.secure),
            same_site: or(&first.same_site, &self.same_site),
        }
    }

    fn encode(&self) -> Value {
        let or_empty = |field: &Option<Arc<str>>| text(field.as_deref().unwrap_or_default());
        let secure = text(self.secure.map_or("", |secure| if secure { "yes" } else { "no" }));
        let (path, domain, same_site) = (or_empty(&self.path), or_empty(&self.domain), or_empty(&self.same_site));
        list([text(&self.name), path, domain, secure, same_site].into_iter())
    }
}

/// Merges the rules of a route with those of one of its backends, which take precedence.
pub fn together(route: &[CookieRewrite], backend: &[CookieRewrite]) -> Vec<CookieRewrite> {
    let mut all: Vec<CookieRewrite> = route
        .iter()
        .map(|rule| {
            backend.iter().find(|own| own.name == rule.name).map_or_else(|| rule.clone(), |own| rule.under(own))
        })
        .collect();
    all.extend(backend.iter().filter(|own| route.iter().all(|rule| rule.name != own.name)).cloned());
    all
}

/// Returns the per-route configuration with the given rules.
pub fn encode(rules: &[CookieRewrite]) -> LuaPerRoute {
    let rules = list(rules.iter().map(CookieRewrite::encode));
    LuaPerRoute {
        // One entry only: the order of several entries is not defined.
        filter_context: Some(Struct { fields: [(NAME.to_owned(), rules)].into() }),
        r#override: Some(Override::Name(NAME.into())),
        ..Default::default()
    }
}

/// Returns the configuration of the filter in the chain, which runs no script unless a route has rules.
pub fn filter() -> Lua {
    let script = DataSource { specifier: Some(Specifier::InlineString(SCRIPT.into())), ..Default::default() };
    Lua { source_codes: [(NAME.to_owned(), script)].into(), ..Default::default() }
}

/// Returns a text as an argument of a script.
pub(super) fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

/// Returns a list as an argument of a script.
pub(super) fn list(values: impl Iterator<Item = Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values: values.collect() })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_backend_come_first_and_leave_the_rest() {
        let rule = |name: &str, path: Option<&str>, secure| CookieRewrite {
            name: name.into(),
            path: path.map(Arc::from),
            secure,
            ..CookieRewrite::default()
        };
        let route = [rule("a", Some("/r"), Some(true)), rule("b", Some("/b"), None)];
        let backend = [rule("c", None, Some(false)), rule("a", Some("/s"), None)];
        let all = [rule("a", Some("/s"), Some(true)), rule("b", Some("/b"), None), rule("c", None, Some(false))];
        assert_eq!(together(&route, &backend), all);
    }
}
