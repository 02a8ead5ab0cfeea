//! Requests that must have a token, and who makes tokens.
//!
//! A requirement is known by its content: a chain that knows another form of it, or none, refuses the request.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/jwt_authn_filter>

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3 as envoy;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::jwt_provider::JwksSourceSpecifier;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::jwt_requirement::RequiresType;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::per_route_config::RequirementSpecifier;
use envoy_types::pb::google::protobuf::{Any, Empty};
use holdfast_graph::ObjectKey;
use holdfast_xds::Version;
use prost::{Message, Name};

use super::asking::Again;
use super::remote::Remote;
use crate::encode;

/// The key of metadata under which the claims of a token are found.
const CLAIMS: &str = "payload";
/// Makers of tokens of one filter.
pub const PROVIDERS_MAX: usize = 64;
/// Bytes of keys that are written down.
pub const JWKS_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an address of keys.
pub const URI_BYTES_MAX: usize = 2048;

/// `JwtAuthentication.providers`.
const PROVIDERS_FIELD: u32 = 1;
/// `JwtAuthentication.requirement_map`.
const REQUIREMENTS_FIELD: u32 = 5;

/// Makers of tokens, as a filter of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JwtFilter {
    /// The filter's name.
    pub name: Arc<str>,
    /// The objects that say all this.
    pub owners: Vec<ObjectKey>,
    /// Makers of tokens, by name.
    pub providers: BTreeMap<Arc<str>, Provider>,
    /// What routes may ask for.
    pub requirements: BTreeSet<Requirement>,
}

/// Who makes tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Provider {
    /// The issuer that stands in them; any where unset.
    pub issuer: Option<Arc<str>>,
    /// The audiences of which one stands in them; any where none is listed.
    pub audiences: Vec<Arc<str>>,
    /// The keys.
    pub keys: Keys,
    /// Is the token passed on?
    pub forward: bool,
    /// Headers in which tokens stand, each with what stands before them; `Authorization: Bearer` where nothing is said.
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    /// Query parameters in which tokens stand.
    pub parameters: Vec<Arc<str>>,
    /// Cookies in which tokens stand.
    pub cookies: Vec<Arc<str>>,
    /// Claims, each with the header in which back ends are told.
    pub claims: Vec<(Arc<str>, Arc<str>)>,
}

/// The keys of a maker of tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keys {
    /// They are fetched.
    Remote {
        /// The address.
        uri: Arc<str>,
        /// Who is asked.
        remote: Remote,
        /// How long an answer may take.
        timeout: Duration,
        /// How long they are kept; as usual where unset.
        kept: Option<Duration>,
        /// When they are fetched.
        fetching: Fetching,
    },
    /// They are written down, as JSON.
    Written(Arc<str>),
}

/// When keys are fetched: by the first request that needs them, and once, where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fetching {
    /// Before the first request. Does the listener open before they are there, and how long is it until a fetch that
    /// failed is tried again?
    pub ahead: Option<(bool, Option<Duration>)>,
    /// When a fetch is tried again.
    pub again: Option<Again>,
}

/// Tokens of one of these makers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// The makers, at least one.
    pub providers: BTreeSet<Arc<str>>,
    /// May there be no token at all?
    pub allow_missing: bool,
}

/// What a route says: which token its requests must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// The filter that knows it.
    pub filter: Arc<JwtFilter>,
    /// The requirement, one of the filter's.
    pub requirement: Requirement,
}

impl JwtFilter {
    /// Whom it asks.
    pub fn remotes(&self) -> Vec<&Remote> {
        let keys = self.providers.values().map(|provider| &provider.keys);
        let asked = keys.filter_map(|keys| match keys {
            Keys::Remote { remote, .. } => Some(remote),
            Keys::Written(_) => None,
        });
        asked.collect()
    }

    /// What a requirement is called: by its own content and that of the makers it names.
    fn name_of(&self, requirement: &Requirement) -> String {
        let mut bytes = vec![u8::from(requirement.allow_missing)];
        for name in &requirement.providers {
            bytes.extend(name.as_bytes());
            bytes.push(0);
            bytes
                .extend(self.providers.get(name).map(|provider| provider.encode().encode_to_vec()).unwrap_or_default());
        }
        let label: String = Version::of(&bytes).to_string().chars().take(16).collect();
        let names: Vec<&str> = requirement.providers.iter().map(|name| &**name).collect();
        format!("{}/{label}", names.join("+"))
    }

    /// Envoy's form. Its maps are written by hand, in order.
    pub(crate) fn encode(&self) -> Any {
        let mut value = Vec::new();
        for (name, provider) in &self.providers {
            let provider = provider.encode();
            encode::entry(
                PROVIDERS_FIELD,
                name,
                |bytes| prost::encoding::message::encode(2, &provider, bytes),
                &mut value,
            );
        }
        let named: BTreeMap<String, envoy::JwtRequirement> =
            self.requirements.iter().map(|requirement| (self.name_of(requirement), requirement.encode())).collect();
        for (name, requirement) in &named {
            encode::entry(
                REQUIREMENTS_FIELD,
                name,
                |bytes| prost::encoding::message::encode(2, requirement, bytes),
                &mut value,
            );
        }
        Any { type_url: envoy::JwtAuthentication::type_url(), value }
    }
}

impl Provider {
    fn encode(&self) -> envoy::JwtProvider {
        let texts = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect();
        let header = |(name, prefix): &(Arc<str>, Arc<str>)| envoy::JwtHeader {
            name: name.to_string(),
            value_prefix: prefix.to_string(),
        };
        let claim = |(claim, header): &(Arc<str>, Arc<str>)| envoy::JwtClaimToHeader {
            claim_name: claim.to_string(),
            header_name: header.to_string(),
            ..Default::default()
        };
        envoy::JwtProvider {
            issuer: self.issuer.iter().map(ToString::to_string).collect(),
            audiences: texts(&self.audiences),
            forward: self.forward,
            from_headers: self.headers.iter().map(header).collect(),
            from_params: texts(&self.parameters),
            from_cookies: texts(&self.cookies),
            claim_to_headers: self.claims.iter().map(claim).collect(),
            // For conditions, as in kgateway.
            payload_in_metadata: CLAIMS.into(),
            jwks_source_specifier: Some(match &self.keys {
                Keys::Remote { uri, remote, timeout, kept, fetching } => {
                    JwksSourceSpecifier::RemoteJwks(envoy::RemoteJwks {
                        http_uri: Some(remote.http(uri.to_string(), *timeout)),
                        cache_duration: kept.map(encode::duration),
                        async_fetch: fetching.ahead.map(|(fast_listener, pause)| envoy::JwksAsyncFetch {
                            fast_listener,
                            failed_refetch_duration: pause.map(encode::duration),
                        }),
                        retry_policy: fetching.again.map(|again| again.encode("")),
                    })
                }
                Keys::Written(keys) => JwksSourceSpecifier::LocalJwks(DataSource {
                    specifier: Some(Specifier::InlineString(keys.to_string())),
                    ..Default::default()
                }),
            }),
            ..Default::default()
        }
    }
}

impl Requirement {
    /// Tokens of this maker.
    pub fn of(provider: &Arc<str>) -> Self {
        Self { providers: [provider.clone()].into(), allow_missing: false }
    }

    fn encode(&self) -> envoy::JwtRequirement {
        let requirement = |kind| envoy::JwtRequirement { requires_type: Some(kind) };
        let providers = self.providers.iter().map(|name| requirement(RequiresType::ProviderName(name.to_string())));
        let missing = self.allow_missing.then(|| requirement(RequiresType::AllowMissing(Empty {})));
        let mut all: Vec<_> = providers.chain(missing).collect();
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                all.extend(last);
                requirement(RequiresType::RequiresAny(envoy::JwtRequirementOrList { requirements: all }))
            }
        }
    }
}

impl Jwt {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> envoy::PerRouteConfig {
        let name = self.filter.name_of(&self.requirement);
        envoy::PerRouteConfig { requirement_specifier: Some(RequirementSpecifier::RequirementName(name)) }
    }
}

/// Checks keys that are written down: public ones only, since they go into what pages show.
pub fn check_keys(text: &[u8]) -> Result<Arc<str>, String> {
    if text.len() > JWKS_BYTES_MAX {
        return Err(format!("it has more than {JWKS_BYTES_MAX} bytes"));
    }
    let not_jwks = || "it is no JSON Web Key Set".to_owned();
    let text = std::str::from_utf8(text).map_err(|_| not_jwks())?;
    let document: serde_json::Value = serde_json::from_str(text).map_err(|_| not_jwks())?;
    // One key alone is a set of one.
    let document = if document.get("kty").is_some() { serde_json::json!({ "keys": [document] }) } else { document };
    let keys = document.get("keys").and_then(serde_json::Value::as_array).ok_or_else(not_jwks)?;
    if keys.is_empty() {
        return Err("it has no keys".into());
    }
    for (index, key) in keys.iter().enumerate() {
        let part = |name: &str| key.get(name).and_then(serde_json::Value::as_str);
        let is_number =
            |name: &str| part(name).is_some_and(|text| !text.is_empty() && URL_SAFE_NO_PAD.decode(text).is_ok());
        if ["d", "k", "p", "q"].iter().any(|name| key.get(*name).is_some()) {
            return Err(format!("keys[{index}] holds a private or secret key; only public keys can be served"));
        }
        let whole = match part("kty") {
            Some("RSA") => is_number("n") && is_number("e"),
            Some("EC") => part("crv").is_some() && is_number("x") && is_number("y"),
            Some("OKP") => part("crv").is_some() && is_number("x"),
            _ => return Err(format!("keys[{index}] is of no known type: RSA, EC and OKP are served")),
        };
        if !whole {
            return Err(format!("keys[{index}] lacks parts of a public key"));
        }
    }
    // As it is written, but for one that is a set only now.
    let is_set = text.parse::<serde_json::Value>().is_ok_and(|written| written == document);
    Ok(if is_set { text.into() } else { document.to_string().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_keys_are_taken() {
        let rsa = r#"{"keys":[{"kty":"RSA","n":"sXch","e":"AQAB"}]}"#;
        assert!(check_keys(rsa.as_bytes()).is_ok());
        assert!(check_keys(br#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#).is_ok());
        for (wrong, word) in [
            ("", "no JSON Web Key Set"),
            ("[]", "no JSON Web Key Set"),
            (r#"{"keys":[]}"#, "no keys"),
            (r#"{"keys":[{"kty":"RSA","n":"sXch","e":"AQAB","d":"AA"}]}"#, "private"),
            (r#"{"keys":[{"kty":"oct","k":"AA"}]}"#, "private or secret"),
            (r#"{"keys":[{"kty":"RSA","n":"s+/=","e":"AQAB"}]}"#, "lacks"),
            (r#"{"keys":[{"kty":"XYZ"}]}"#, "no known type"),
        ] {
            assert!(check_keys(wrong.as_bytes()).is_err_and(|why| why.contains(word)), "{wrong}");
        }
        assert!(check_keys(&vec![b' '; JWKS_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_requirement_is_called_by_what_its_makers_are() {
        let provider = |issuer: &str| Provider {
            issuer: Some(issuer.into()),
            audiences: vec![],
            keys: Keys::Written("{}".into()),
            forward: false,
            headers: vec![],
            parameters: vec![],
            cookies: vec![],
            claims: vec![],
        };
        let name = |issuer: &str, allow_missing| {
            let requirement = Requirement { providers: ["p".into()].into(), allow_missing };
            let providers = BTreeMap::from([("p".into(), provider(issuer))]);
            JwtFilter { name: "jwt".into(), owners: vec![], providers, requirements: BTreeSet::new() }
                .name_of(&requirement)
        };
        assert_eq!(name("a", false), name("a", false));
        assert_ne!(name("a", false), name("b", false));
        assert_ne!(name("a", false), name("a", true));
    }
}
