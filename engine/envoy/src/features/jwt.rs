//! JWT authentication: providers and the requirements of routes.
//!
//! The name of a requirement contains a hash of its content: a chain that has another form of the requirement, or none,
//! refuses the request.
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

use super::call_options::CallRetryPolicy;
use super::remote::Remote;
use crate::encode;

/// Metadata key of the claims of a token.
const CLAIMS: &str = "payload";
/// Maximum number of providers in one filter.
pub const PROVIDERS_MAX: usize = 64;
/// Maximum size of an inline JSON Web Key Set (JWKS), in bytes.
pub const JWKS_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of a JWKS URI, in bytes.
pub const URI_BYTES_MAX: usize = 2048;

/// Field number of `JwtAuthentication.providers`.
const PROVIDERS_FIELD: u32 = 1;
/// Field number of `JwtAuthentication.requirement_map`.
const REQUIREMENTS_FIELD: u32 = 5;

/// JWT providers, as a filter of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JwtFilter {
    /// The filter's name.
    pub name: Arc<str>,
    /// The objects that configure the filter.
    pub owners: Vec<ObjectKey>,
    /// JWT providers by name.
    pub providers: BTreeMap<Arc<str>, Provider>,
    /// The requirements that routes may use.
    pub requirements: BTreeSet<Requirement>,
}

/// A JWT provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Provider {
    /// The required issuer; any where unset.
    pub issuer: Option<Arc<str>>,
    /// The accepted audiences, of which a token must contain one; any where empty.
    pub audiences: Vec<Arc<str>>,
    /// The keys that verify tokens.
    pub keys: Keys,
    /// Whether the token is forwarded to backends.
    pub forward: bool,
    /// Headers that carry tokens, each with the prefix before the token; `Authorization: Bearer` where no source is
    /// set.
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    /// Query parameters that carry tokens.
    pub parameters: Vec<Arc<str>>,
    /// Cookies that carry tokens.
    pub cookies: Vec<Arc<str>>,
    /// Claims, each with the request header that carries it to backends.
    pub claims: Vec<(Arc<str>, Arc<str>)>,
}

/// The keys of a JWT provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keys {
    /// Remote keys, which Envoy fetches.
    Remote {
        /// The JWKS URI.
        uri: Arc<str>,
        /// The service that Envoy calls.
        remote: Remote,
        /// Timeout of a fetch.
        timeout: Duration,
        /// How long fetched keys are cached; Envoy's default where unset.
        kept: Option<Duration>,
        /// When the keys are fetched.
        fetching: Fetching,
    },
    /// Inline keys, as JSON.
    Written(Arc<str>),
}

/// When Envoy fetches keys; by default for the first request that needs them, in one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fetching {
    /// Asynchronous fetching, before the first request: whether the listener opens before the keys are available, and
    /// the pause after a failed fetch.
    pub ahead: Option<(bool, Option<Duration>)>,
    /// Retries of a fetch.
    pub again: Option<CallRetryPolicy>,
}

/// A requirement for a token of one of the given providers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// The providers, at least one.
    pub providers: BTreeSet<Arc<str>>,
    /// Whether requests without a token pass.
    pub allow_missing: bool,
}

/// Per-route settings: the token that requests of a route must carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteJwt {
    /// The filter that has the requirement.
    pub filter: Arc<JwtFilter>,
    /// The requirement, one of the filter's.
    pub requirement: Requirement,
}

impl JwtFilter {
    /// Returns the services that Envoy calls.
    pub fn remotes(&self) -> Vec<&Remote> {
        let keys = self.providers.values().map(|provider| &provider.keys);
        let remotes = keys.filter_map(|keys| match keys {
            Keys::Remote { remote, .. } => Some(remote),
            Keys::Written(_) => None,
        });
        remotes.collect()
    }

    /// Returns the name of a requirement, derived from its content and that of its providers.
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

    /// Returns the Envoy configuration. The entries of its maps are encoded in order.
    pub fn encode(&self) -> Any {
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
    /// Returns a requirement for a token of this provider.
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

impl RouteJwt {
    /// Returns the per-route configuration.
    pub fn encode(&self) -> envoy::PerRouteConfig {
        let name = self.filter.name_of(&self.requirement);
        envoy::PerRouteConfig { requirement_specifier: Some(RequirementSpecifier::RequirementName(name)) }
    }
}

/// Validates inline keys in any form that kgateway reads: a JWKS, one key as JSON, or a public key in PEM, which becomes a
/// JWKS without a key id, so that it verifies tokens with any key id.
pub fn check_keys_or_pem(text: &[u8]) -> Result<Arc<str>, String> {
    // A JSON text never begins with the dashes of a block, and text before a block of PEM is ignored.
    let is_pem = |line: &[u8]| line.starts_with(b"-----BEGIN ");
    if text.trim_ascii_start().starts_with(b"{") || !text.split(|byte| *byte == b'\n').any(is_pem) {
        return check_keys(text);
    }
    let key = holdfast_check::certificate::json_web_key(text).map_err(|fault| fault.to_string())?;
    Ok(serde_json::json!({ "keys": [key] }).to_string().into())
}

/// Validates an inline JWKS. It may contain public keys only, since the admin pages show it.
pub fn check_keys(text: &[u8]) -> Result<Arc<str>, String> {
    if text.len() > JWKS_BYTES_MAX {
        return Err(format!("it has more than {JWKS_BYTES_MAX} bytes"));
    }
    let not_jwks = || "it is not a JSON Web Key Set (JWKS)".to_owned();
    let text = std::str::from_utf8(text).map_err(|_| not_jwks())?;
    let document: serde_json::Value = serde_json::from_str(text).map_err(|_| not_jwks())?;
    // A single key is read as a set with one key.
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
            return Err(format!("keys[{index}] contains a private or symmetric key; only public keys are allowed"));
        }
        let whole = match part("kty") {
            Some("RSA") => is_number("n") && is_number("e"),
            Some("EC") => part("crv").is_some() && is_number("x") && is_number("y"),
            Some("OKP") => part("crv").is_some() && is_number("x"),
            _ => return Err(format!("keys[{index}] has an unsupported type: kty must be RSA, EC or OKP")),
        };
        if !whole {
            return Err(format!("keys[{index}] lacks parts of a public key"));
        }
    }
    // Returns the text unchanged, unless it was a single key.
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
        for (wrong, expected) in [
            ("", "not a JSON Web Key Set"),
            ("[]", "not a JSON Web Key Set"),
            (r#"{"keys":[]}"#, "no keys"),
            (r#"{"keys":[{"kty":"RSA","n":"sXch","e":"AQAB","d":"AA"}]}"#, "private"),
            (r#"{"keys":[{"kty":"oct","k":"AA"}]}"#, "private or symmetric"),
            (r#"{"keys":[{"kty":"RSA","n":"s+/=","e":"AQAB"}]}"#, "lacks"),
            (r#"{"keys":[{"kty":"XYZ"}]}"#, "unsupported type"),
        ] {
            assert!(check_keys(wrong.as_bytes()).is_err_and(|why| why.contains(expected)), "{wrong}");
        }
        assert!(check_keys(&vec![b' '; JWKS_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_public_key_in_pem_becomes_a_key_set() {
        let pem = "A key:\n-----BEGIN PUBLIC KEY-----\n\
                   MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE7tsev5aB8uf4d4R/7DnVUDLv6XHJ\n\
                   OwHQoDmOEIKaIAgsMTulxfts6hbbyw19P7r/zZ4Yr/g8HyKwTshu7P4k8w==\n-----END PUBLIC KEY-----\n";
        let keys = check_keys_or_pem(pem.as_bytes());
        assert!(keys.as_ref().is_ok_and(|keys| keys.contains(r#""alg":"ES256""#)), "{keys:?}");
        assert_eq!(keys.clone().and_then(|keys| check_keys(keys.as_bytes())), keys);
        assert!(check_keys(pem.as_bytes()).is_err());
        let json = r#"{"keys":[{"kty":"RSA","n":"sXch","e":"AQAB"}]}"#;
        assert_eq!(check_keys_or_pem(json.as_bytes()).as_deref(), Ok(json));
        let neither = check_keys_or_pem(b"secret");
        assert!(neither.is_err_and(|why| why.contains("not a JSON Web Key Set")));
        let private = pem.replace("PUBLIC", "PRIVATE");
        assert!(check_keys_or_pem(private.as_bytes()).is_err_and(|why| why.contains("private key")));
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
