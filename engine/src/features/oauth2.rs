//! Users log in elsewhere (OAuth 2.0, OpenID Connect), and come back with cookies that only Envoy can make.
//!
//! What Envoy needs to know in secret is resources of its own: the client's secret, and the key of the cookies. That key
//! is derived from the client's secret and the name of the object: it has to be the same for all Envoys and after every
//! restart, nobody has to store it, and whoever changes the client's secret ends all sessions with it.
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
use super::jwt::Jwt;
use super::remote::Remote;
use crate::check;
use crate::encode;
use crate::encode::{cluster::ads, names};
use crate::model::NamedMatch;

/// Entries of one list.
pub const ENTRIES_MAX: usize = 64;
/// Bytes of an address, of a name or of a scope.
pub const TEXT_BYTES_MAX: usize = 2048;
/// Bytes of a client's secret.
pub const SECRET_BYTES_MAX: usize = 4096;

/// How long an answer with tokens may take.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The scope without which nobody can be logged out elsewhere.
const OPENID: &str = "openid";
/// Tells this use of a client's secret from every other one.
const COOKIE_KEY_CONTEXT: &str = "holdfast.dev 2026-11 key of OAuth2 cookies from a client's secret";
/// The cookie of access tokens, where nothing else is said.
const ACCESS_COOKIE: &str = "BearerToken";
/// The cookie of ID tokens, where nothing else is said.
const ID_COOKIE: &str = "IdToken";

/// The names of all other cookies.
const OWN_COOKIES: [&str; 5] = ["OauthHMAC", "OauthExpires", "RefreshToken", "OauthNonce", "CodeVerifier"];

/// Where users log in, as a filter of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Login {
    /// The filter's name.
    pub name: Arc<str>,
    /// The object that says all this.
    pub owner: ObjectKey,
    /// Who is asked for tokens.
    pub remote: Remote,
    /// The address that it is asked at.
    pub token_endpoint: Arc<str>,
    /// Where users are sent.
    pub authorization_endpoint: Arc<str>,
    /// Where they are sent when they log out.
    pub end_session_endpoint: Option<Arc<str>>,
    /// Where they come back to, with what Envoy fills in.
    pub redirect_uri: Arc<str>,
    /// The path of it.
    pub redirect_path: Arc<str>,
    /// The path that logs out.
    pub logout_path: Arc<str>,
    /// Do back ends get the token as `authorization`?
    pub forward_access_token: bool,
    /// What is asked for; `user` where none is listed.
    pub scopes: Vec<Arc<str>>,
    /// Who asks.
    pub client_id: Arc<str>,
    /// By which it is known.
    pub secret: ClientSecret,
    /// What cookies look like.
    pub cookies: Cookies,
    /// Requests that are refused (401) where others are sent to log in: those that have one of these headers.
    pub deny_redirect: Vec<NamedMatch>,
}

/// A client's secret, and where it comes from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientSecret {
    /// The object that holds it.
    pub key: ObjectKey,
    /// It.
    pub content: Bytes,
}

/// Without the secret.
impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientSecret({})", self.key.namespaced_name())
    }
}

/// What cookies look like.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookies {
    /// The domain that they are for; the host alone where unset.
    pub domain: Option<Arc<str>>,
    /// The name of the access token's.
    pub access: Option<Arc<str>>,
    /// The name of the ID token's.
    pub id: Option<Arc<str>>,
    /// Whether other sites' requests carry them.
    pub same_site: SameSite,
    /// Is there none for the access token?
    pub no_access: bool,
    /// Is there none for the ID token?
    pub no_id: bool,
    /// Is there none for the refresh token?
    pub no_refresh: bool,
}

/// Whether requests that other sites make carry cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SameSite {
    /// Only when somebody follows a link.
    #[default]
    Lax,
    /// Never.
    Strict,
    /// Always.
    None,
}

/// What a route says: only users who are logged in may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth2 {
    /// Where they log in.
    pub login: Arc<Login>,
    /// Which tokens they must have then; each is looked at on its own.
    pub tokens: Vec<Jwt>,
}

impl Login {
    /// Checks it; everything that cannot be used is a flaw.
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
            flaws.extend(check::path::matched(path).err().map(|fault| Flaw::new(field, fault)));
        }
        if self.redirect_path == self.logout_path {
            flaws.push(Flaw::new("logoutPath", "must be another path than that of redirectURI"));
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
            let wrong = name.as_deref().and_then(|name| check::header::name(name).err());
            flaws.extend(wrong.map(|fault| Flaw::new(format!("cookies.names.{field}"), fault)));
        }
        let (access, id) = self.cookies.names();
        if access == id || [access, id].iter().any(|name| OWN_COOKIES.contains(name)) {
            flaws.push(Flaw::new("cookies.names", "each cookie must have a name of its own"));
        }
        if let Some(domain) = &self.cookies.domain
            && let Err(fault) = check::host::precise_hostname(domain)
        {
            flaws.push(Flaw::new("cookies.domain", fault));
        }
        flaws
    }

    /// What Envoy needs to know in secret.
    pub(crate) fn secrets(&self) -> [Resource; 2] {
        let derived = blake3::derive_key(COOKIE_KEY_CONTEXT, &self.secret.content);
        let own = blake3::keyed_hash(&derived, self.owner.namespaced_name().to_string().as_bytes());
        let cookie_key = Bytes::from(own.to_hex().as_bytes().to_vec());
        let origins: Origins = [self.secret.key.clone(), self.owner.clone()].into_iter().collect();
        [(names::login_client(&self.owner), &self.secret.content), (names::login_cookies(&self.owner), &cookie_key)]
            .map(|(name, content)| Resource::new(name.clone(), generic(name, content), origins.clone()))
    }

    /// Envoy's form.
    pub(crate) fn encode(&self) -> envoy::OAuth2 {
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
    /// The names of those of the access token and of the ID token.
    pub(crate) fn names(&self) -> (&str, &str) {
        (self.access.as_deref().unwrap_or(ACCESS_COOKIE), self.id.as_deref().unwrap_or(ID_COOKIE))
    }

    fn encode(&self) -> envoy::CookieConfigs {
        let cookie =
            |same_site: EnvoySameSite| Some(envoy::CookieConfig { same_site: same_site.into(), ..Default::default() });
        let (own, while_logging_in) = match self.same_site {
            SameSite::Lax => (EnvoySameSite::Lax, EnvoySameSite::Lax),
            // Users come back by a link of another site: nobody could log in without these.
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

impl OAuth2 {
    /// Envoy's form: the filter takes part, and does what it does everywhere.
    pub(crate) fn encode(&self) -> FilterConfig {
        FilterConfig { config: Some(Any::default()), ..Default::default() }
    }
}

fn generic(name: String, content: &Bytes) -> Bytes {
    let inline = DataSource { specifier: Some(Specifier::InlineBytes(content.to_vec())), ..Default::default() };
    let secret = GenericSecret { secret: Some(inline), ..Default::default() };
    Secret { name, r#type: Some(Type::GenericSecret(secret)) }.encode_to_vec().into()
}

/// Is it text without a space, of a length that is usual?
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= TEXT_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Checks an address of https.
pub fn check_https(uri: &str) -> Result<(), &'static str> {
    const WRONG: &str = "must be an address that begins with https:// and has a host";
    if uri.len() > TEXT_BYTES_MAX {
        return Err("is too long");
    }
    let rest = uri.strip_prefix("https://").ok_or(WRONG)?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (host, port) = authority.split_once(':').unwrap_or((authority, "443"));
    if check::host::precise_hostname(&host.to_ascii_lowercase()).is_err() && host.parse::<std::net::Ipv4Addr>().is_err()
    {
        return Err(WRONG);
    }
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err("must have a port between 1 and 65535, or none");
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/?".contains(&byte);
    if tail.bytes().all(is_allowed) { Ok(()) } else { Err("contains a character that no address may have") }
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
    fn what_cannot_be_used_is_told() {
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
