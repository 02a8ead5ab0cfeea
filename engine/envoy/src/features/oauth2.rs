//! OAuth 2.0 and OpenID Connect login: after a login at the provider, users have cookies that only Envoy can create.
//!
//! The secrets that Envoy needs are resources of their own: the client secret, and the key that signs the cookies. That
//! key is derived from the client secret and the name of the object: the key has to be the same in all Envoys and after
//! every restart without being stored, and a change of the client secret thus ends all sessions.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/oauth2_filter>

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::envoy::extensions::filters::http::oauth2::v3 as envoy;
use envoy_types::pb::envoy::extensions::filters::http::oauth2::v3::cookie_config::SameSite as EnvoySameSite;
use envoy_types::pb::envoy::extensions::filters::http::oauth2::v3::o_auth2_credentials::{CookieNames, TokenFormation};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{GenericSecret, SdsSecretConfig, Secret};
use envoy_types::pb::envoy::r#type::matcher::v3::path_matcher::Rule;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{PathMatcher, StringMatcher};
use envoy_types::pb::google::protobuf::Any;
use holdfast_graph::{ObjectKey, Origins};
use holdfast_xds::Resource;
use prost::Message;

use super::Flaw;
use super::jwt::RouteJwt;
use super::remote::Remote;
use crate::encode;
use crate::encode::{cluster::ads, names};
use crate::model::NamedMatch;

/// Maximum number of entries in one list.
pub const ENTRIES_MAX: usize = 64;
/// Maximum length of a URL, a name or a scope, in bytes.
pub const TEXT_BYTES_MAX: usize = 2048;
/// Maximum length of a client secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 4096;

/// Timeout of a request for tokens.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The scope that logout at the provider requires.
const OPENID: &str = "openid";
/// Context string of the key derivation, which separates this use of a client secret from every other use.
const COOKIE_KEY_CONTEXT: &str = "holdfast.dev 2026-11 key of OAuth2 cookies from a client's secret";
/// The default name of the access token's cookie.
const ACCESS_COOKIE: &str = "BearerToken";
/// The default name of the ID token's cookie.
const ID_COOKIE: &str = "IdToken";

/// The names of all other cookies.
const OWN_COOKIES: [&str; 5] = ["OauthHMAC", "OauthExpires", "RefreshToken", "OauthNonce", "CodeVerifier"];

/// A login at a provider, as a filter of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Login {
    /// The filter's name.
    pub name: Arc<str>,
    /// The object that configures the login.
    pub owner: ObjectKey,
    /// The service that Envoy requests tokens from.
    pub remote: Remote,
    /// The URL of the token endpoint.
    pub token_endpoint: Arc<str>,
    /// The URL that users are redirected to for login.
    pub authorization_endpoint: Arc<str>,
    /// The URL that users are redirected to for logout.
    pub end_session_endpoint: Option<Arc<str>>,
    /// The URL that users return to after login; may contain Envoy format strings.
    pub redirect_uri: Arc<str>,
    /// The path of the redirect URI.
    pub redirect_path: Arc<str>,
    /// The path that logs users out.
    pub logout_path: Arc<str>,
    /// Whether backends receive the access token in the header `authorization`.
    pub forward_access_token: bool,
    /// The requested scopes; `user` where empty.
    pub scopes: Vec<Arc<str>>,
    /// The client ID.
    pub client_id: Arc<str>,
    /// The client secret.
    pub secret: ClientSecret,
    /// Cookie settings.
    pub cookies: Cookies,
    /// Headers of requests that are refused (401) instead of being redirected to login; one match is enough.
    pub deny_redirect: Vec<NamedMatch>,
}

/// A client secret, and the object that contains it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientSecret {
    /// The object that contains the secret.
    pub key: ObjectKey,
    /// The secret.
    pub content: Bytes,
}

/// Omits the secret.
impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientSecret({})", self.key.namespaced_name())
    }
}

/// Cookie settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookies {
    /// The domain of the cookies; only the host where unset.
    pub domain: Option<Arc<str>>,
    /// The name of the access token's cookie.
    pub access: Option<Arc<str>>,
    /// The name of the ID token's cookie.
    pub id: Option<Arc<str>>,
    /// The `SameSite` attribute.
    pub same_site: SameSite,
    /// Whether the access token's cookie is omitted.
    pub no_access: bool,
    /// Whether the ID token's cookie is omitted.
    pub no_id: bool,
    /// Whether the refresh token's cookie is omitted.
    pub no_refresh: bool,
}

/// The `SameSite` attribute of cookies: whether requests from other sites carry them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SameSite {
    /// Only when a user follows a link.
    #[default]
    Lax,
    /// Never.
    Strict,
    /// Always.
    None,
}

/// Per-route settings: only logged-in users may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOAuth2 {
    /// The login.
    pub login: Arc<Login>,
    /// The tokens that users must have after login; each is checked separately.
    pub tokens: Vec<RouteJwt>,
}

impl Login {
    /// Validates the settings; every unusable one is a flaw.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (field, uri) in [
            ("authorizationEndpoint", Some(&self.authorization_endpoint)),
            ("tokenEndpoint", Some(&self.token_endpoint)),
            ("endSessionEndpoint", self.end_session_endpoint.as_ref()),
        ] {
            flaws.extend(uri.and_then(|uri| check_https(uri).err()).map(|message| Flaw::new(field, message)));
        }
        if self.end_session_endpoint.is_some() && !self.scopes.iter().any(|scope| &**scope == OPENID) {
            flaws.push(Flaw::new("endSessionEndpoint", "needs the scope openid"));
        }
        for (field, path) in [("redirectURI", &self.redirect_path), ("logoutPath", &self.logout_path)] {
            flaws.extend(holdfast_check::path::matched(path).err().map(|fault| Flaw::new(field, fault)));
        }
        if self.redirect_path == self.logout_path {
            flaws.push(Flaw::new("logoutPath", "must differ from the path of redirectURI"));
        }
        if self.scopes.len() > ENTRIES_MAX {
            flaws.push(Flaw::new("scopes", format!("must have at most {ENTRIES_MAX} entries")));
        }
        for (index, scope) in self.scopes.iter().enumerate().take(ENTRIES_MAX) {
            if !is_word(scope) {
                flaws.push(Flaw::new(format!("scopes[{index}]"), "must be a word of visible ASCII characters"));
            }
        }
        if !is_word(&self.client_id) {
            flaws.push(Flaw::new("credentials.clientID", "must be a word of visible ASCII characters"));
        }
        for (field, name) in [("accessToken", &self.cookies.access), ("idToken", &self.cookies.id)] {
            let wrong = name.as_deref().and_then(|name| holdfast_check::header::name(name).err());
            flaws.extend(wrong.map(|fault| Flaw::new(format!("cookies.names.{field}"), fault)));
        }
        let (access, id) = self.cookies.names();
        if access == id || [access, id].iter().any(|name| OWN_COOKIES.contains(name)) {
            flaws
                .push(Flaw::new("cookies.names", "each cookie must have a unique name that Envoy does not use itself"));
        }
        if let Some(domain) = &self.cookies.domain
            && let Err(fault) = holdfast_check::host::precise_hostname(domain)
        {
            flaws.push(Flaw::new("cookies.domain", fault));
        }
        flaws
    }

    /// Returns the Secrets that Envoy needs: the client secret and the key of the cookies.
    pub fn secrets(&self) -> [Resource; 2] {
        let derived = blake3::derive_key(COOKIE_KEY_CONTEXT, &self.secret.content);
        let own = blake3::keyed_hash(&derived, self.owner.namespaced_name().to_string().as_bytes());
        let cookie_key = Bytes::from(own.to_hex().as_bytes().to_vec());
        let origins: Origins = [self.secret.key.clone(), self.owner.clone()].into_iter().collect();
        [(names::login_client(&self.owner), &self.secret.content), (names::login_cookies(&self.owner), &cookie_key)]
            .map(|(name, content)| Resource::new(name.clone(), generic(name, content), origins.clone()))
    }

    /// Returns the Envoy configuration.
    pub fn encode(&self) -> envoy::OAuth2 {
        let secret = |name| Some(SdsSecretConfig { name, sds_config: Some(ads()) });
        let text = |text: &Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
        let path = |path: &str| PathMatcher {
            rule: Some(Rule::Path(StringMatcher {
                match_pattern: Some(MatchPattern::Exact(path.to_owned())),
                ..Default::default()
            })),
        };
        let credentials = envoy::OAuth2Credentials {
            client_id: self.client_id.to_string(),
            token_secret: secret(names::login_client(&self.owner)),
            token_formation: secret(names::login_cookies(&self.owner)).map(TokenFormation::HmacSecret),
            cookie_names: Some(CookieNames {
                bearer_token: text(&self.cookies.access),
                id_token: text(&self.cookies.id),
                ..Default::default()
            }),
            cookie_domain: text(&self.cookies.domain),
        };
        let config = envoy::OAuth2Config {
            token_endpoint: Some(self.remote.http(self.token_endpoint.to_string(), TOKEN_TIMEOUT)),
            authorization_endpoint: self.authorization_endpoint.to_string(),
            end_session_endpoint: text(&self.end_session_endpoint),
            credentials: Some(credentials),
            redirect_uri: self.redirect_uri.to_string(),
            redirect_path_matcher: Some(path(&self.redirect_path)),
            signout_path: Some(path(&self.logout_path)),
            forward_bearer_token: self.forward_access_token,
            auth_scopes: self.scopes.iter().map(ToString::to_string).collect(),
            deny_redirect_matcher: self.deny_redirect.iter().map(encode::route::header).collect(),
            disable_access_token_set_cookie: self.cookies.no_access,
            disable_id_token_set_cookie: self.cookies.no_id,
            disable_refresh_token_set_cookie: self.cookies.no_refresh,
            cookie_configs: Some(self.cookies.encode()),
            ..Default::default()
        };
        envoy::OAuth2 { config: Some(config) }
    }
}

impl Cookies {
    /// Returns the names of the access token's and the ID token's cookies.
    pub fn names(&self) -> (&str, &str) {
        (self.access.as_deref().unwrap_or(ACCESS_COOKIE), self.id.as_deref().unwrap_or(ID_COOKIE))
    }

    fn encode(&self) -> envoy::CookieConfigs {
        let cookie =
            |same_site: EnvoySameSite| Some(envoy::CookieConfig { same_site: same_site.into(), ..Default::default() });
        let (own, while_logging_in) = match self.same_site {
            SameSite::Lax => (EnvoySameSite::Lax, EnvoySameSite::Lax),
            // Users return by a link of another site: without these cookies no login would succeed.
            SameSite::Strict => (EnvoySameSite::Strict, EnvoySameSite::Lax),
            SameSite::None => (EnvoySameSite::None, EnvoySameSite::None),
        };
        envoy::CookieConfigs {
            bearer_token_cookie_config: cookie(own),
            oauth_hmac_cookie_config: cookie(own),
            oauth_expires_cookie_config: cookie(own),
            id_token_cookie_config: cookie(own),
            refresh_token_cookie_config: cookie(own),
            oauth_nonce_cookie_config: cookie(while_logging_in),
            code_verifier_cookie_config: cookie(while_logging_in),
        }
    }
}

impl RouteOAuth2 {
    /// Returns the per-route configuration, which enables the filter without further settings.
    pub fn encode(&self) -> FilterConfig {
        FilterConfig { config: Some(Any::default()), ..Default::default() }
    }
}

fn generic(name: String, content: &Bytes) -> Bytes {
    let inline = DataSource { specifier: Some(Specifier::InlineBytes(content.to_vec())), ..Default::default() };
    let secret = GenericSecret { secret: Some(inline), ..Default::default() };
    Secret { name, r#type: Some(Type::GenericSecret(secret)) }.encode_to_vec().into()
}

/// Returns whether the text is a single word of visible ASCII characters, within the length limit.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= TEXT_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Validates an HTTPS URL.
pub fn check_https(uri: &str) -> Result<(), &'static str> {
    const WRONG: &str = "must be an https URL with a host";
    if uri.len() > TEXT_BYTES_MAX {
        return Err("is too long");
    }
    let rest = uri.strip_prefix("https://").ok_or(WRONG)?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (host, port) = authority.split_once(':').unwrap_or((authority, "443"));
    if holdfast_check::host::precise_hostname(&host.to_ascii_lowercase()).is_err()
        && host.parse::<std::net::Ipv4Addr>().is_err()
    {
        return Err(WRONG);
    }
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err("must have a port between 1 and 65535, or none");
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/?".contains(&byte);
    if tail.bytes().all(is_allowed) { Ok(()) } else { Err("contains a character that is not allowed in a URL") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::remote::{DnsHost, Family};

    fn login(secret: &'static str, owner: &str) -> Login {
        let remote =
            DnsHost { host: "idp.example.com".into(), port: 443, family: Family::Auto, tls: None, loopback: false };
        let key = |kind: &str, name: &str| ObjectKey::new("", kind, "shop", name);
        Login {
            name: "oauth2".into(),
            owner: key("GatewayExtension", owner),
            remote: Remote::Host(Arc::new(remote)),
            token_endpoint: "https://idp.example.com/token".into(),
            authorization_endpoint: "https://idp.example.com/auth?tenant=a".into(),
            end_session_endpoint: None,
            redirect_uri: "https://shop.example.com/back".into(),
            redirect_path: "/back".into(),
            logout_path: "/logout".into(),
            forward_access_token: false,
            scopes: vec![],
            client_id: "shop".into(),
            secret: ClientSecret { key: key("Secret", "client"), content: Bytes::from_static(secret.as_bytes()) },
            cookies: Cookies::default(),
            deny_redirect: vec![],
        }
    }

    #[test]
    fn the_key_of_cookies_is_as_stable_and_as_secret_as_the_clients_secret() {
        let key = |login: &Login| login.secrets()[1].body.clone();
        let plain = login("s3cret", "idp");
        assert_eq!(key(&plain), key(&plain.clone()));
        assert_eq!(key(&plain), key(&Login { logout_path: "/bye".into(), ..plain.clone() }));
        assert_ne!(key(&plain), key(&login("other", "idp")));
        let [client, cookies] = plain.secrets();
        let [_, others] = login("s3cret", "idq").secrets();
        assert_ne!(cookies.body.slice(cookies.name.len()..), others.body.slice(others.name.len()..));
        let holds = |resource: &Resource| resource.body.windows(6).any(|window| window == b"s3cret");
        assert!(holds(&client) && !holds(&cookies));
        assert!(!format!("{plain:?}").contains("s3cret"));
        let filter = plain.encode().encode_to_vec();
        assert!(!filter.windows(6).any(|window| window == b"s3cret"));
    }

    #[test]
    fn unusable_fields_are_reported() {
        let fields = |login: Login| login.check().into_iter().map(|flaw| flaw.field).collect::<Vec<_>>();
        let plain = login("s", "idp");
        assert!(fields(plain.clone()).is_empty());
        let end = Some("https://idp.example.com/end".into());
        assert_eq!(fields(Login { end_session_endpoint: end.clone(), ..plain.clone() }), ["endSessionEndpoint"]);
        let scopes = vec!["openid".into()];
        assert!(fields(Login { end_session_endpoint: end, scopes, ..plain.clone() }).is_empty());
        assert_eq!(fields(Login { scopes: vec!["a b".into()], ..plain.clone() }), ["scopes[0]"]);
        assert_eq!(fields(Login { logout_path: "/back".into(), ..plain.clone() }), ["logoutPath"]);
        assert_eq!(fields(Login { redirect_path: "back".into(), ..plain.clone() }), ["redirectURI"]);
        let cookies = Cookies { access: Some("a b".into()), domain: Some("*.b".into()), ..Cookies::default() };
        assert_eq!(fields(Login { cookies, ..plain.clone() }), ["cookies.names.accessToken", "cookies.domain"]);
        let cookies = Cookies { id: Some("BearerToken".into()), ..Cookies::default() };
        assert_eq!(fields(Login { cookies, ..plain.clone() }), ["cookies.names"]);
        assert_eq!(fields(Login { client_id: "".into(), ..plain }), ["credentials.clientID"]);
    }

    #[test]
    fn addresses() {
        for fine in ["https://a.example/x", "https://A.example:8443", "https://a/b?c=d%20", "https://10.0.0.1/t"] {
            assert_eq!(check_https(fine), Ok(()), "{fine}");
        }
        for wrong in
            ["http://a/b", "https:///b", "https://a:0/", "https://a:x/", "https://a/b c", "https://a/\u{e9}", ""]
        {
            assert!(check_https(wrong).is_err(), "{wrong}");
        }
    }
}
