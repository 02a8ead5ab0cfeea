//! `oauth2`: login of users at an OAuth2 provider, by a GatewayExtension.
//!
//! Endpoints must be specified: translation does no I/O, so it cannot fetch the endpoints that an issuer publishes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::kgateway::extension::{DenyRedirect, OAuth2 as Written, OAuth2Cookies, OAuth2Token};
use holdfast_api::apis::kgateway::traffic_policy::{ExtensionRef, TrafficSpec};
use holdfast_api::apis::{Body, scheme};
use holdfast_envoy::encode::names;
use holdfast_envoy::features::jwt::{Fetching, JwtFilter, Keys, Provider, Requirement, RouteJwt};
use holdfast_envoy::features::oauth2::{
    ClientSecret, Cookies, ENTRIES_MAX, Login, RouteOAuth2, SECRET_BYTES_MAX, SameSite, check_https,
};
use holdfast_envoy::model::{NamedMatch, ValueMatch};
use holdfast_graph::Role;

use super::extensions::{self, Used};
use super::reading::Reading;
use crate::precedence::settings::{OAUTH2, Piece};

/// Entry of a Secret that contains the client secret.
const SECRET_KEY: &str = "client-secret";
/// Default redirect URI after the login.
const REDIRECT_URI: &str = "%REQ(x-forwarded-proto)%://%REQ(:authority)%/oauth2/redirect";
/// Default path of the logout.
const LOGOUT_PATH: &str = "/logout";
/// Timeout for fetching keys.
const KEYS_TIMEOUT: Duration = Duration::from_secs(5);
/// Message about endpoints that are not specified.
const WRITE_OUT: &str = "must be set: Holdfast does not discover endpoints from issuerURI";

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    let Some(written) = &spec.oauth2 else { return };
    if written.disable.is_some() {
        return reading.invalid("spec.oauth2.disable", "is no field of oauth2");
    }
    let Some(reference) = &written.extension_ref else {
        return reading.invalid("spec.oauth2", "extensionRef must be set");
    };
    if let Some(login) = login(reference, reading) {
        reading.piece(OAUTH2, Piece::OAuth2(Arc::new(login)));
    }
}

fn login(reference: &ExtensionRef, reading: &mut Reading<'_, '_>) -> Option<RouteOAuth2> {
    let (key, extension) = extensions::extension("oauth2", reference, reading)?;
    let mut used = Used { key: &key, field: "oauth2", reading };
    let Some(written) = &extension.oauth2 else {
        used.misused("oauth2", "must be set if oauth2 of a policy references the extension");
        return None;
    };
    let endpoints = [
        ("oauth2.authorizationEndpoint", &written.authorization_endpoint),
        ("oauth2.tokenEndpoint", &written.token_endpoint),
    ];
    for (field, _) in endpoints.iter().filter(|(_, endpoint)| endpoint.is_none()) {
        used.wrong(field, WRITE_OUT);
    }
    let (Some(authorization_endpoint), Some(token_endpoint)) =
        (written.authorization_endpoint.clone(), written.token_endpoint.clone())
    else {
        return None;
    };
    let Some(credentials) = &written.credentials else {
        used.wrong("oauth2.credentials", "must be set");
        return None;
    };
    let named = credentials.client_secret_ref.as_ref().map(|named| &*named.name).unwrap_or_default();
    let secret = secret(named, &mut used)?;
    let redirect_uri: Arc<str> = written.redirect_uri.clone().unwrap_or_else(|| REDIRECT_URI.into());
    let redirect_path = match path_of(&redirect_uri) {
        Ok(path) => path.into(),
        Err(message) => {
            used.wrong("oauth2.redirectURI", message);
            return None;
        }
    };
    let cookies = cookies(written.cookies.as_ref(), &mut used)?;
    let deny_redirect = denied(written.deny_redirect.as_ref(), &mut used)?;
    let tokens = tokens(written, &cookies, &mut used)?;
    let login = Login {
        name: names::extension_filter("oauth2", &key, false).into(),
        owner: key.clone(),
        remote: used.remote("oauth2.backendRef", written.backend_ref.as_ref(), false)?,
        token_endpoint,
        authorization_endpoint,
        end_session_endpoint: written.end_session_endpoint.clone(),
        redirect_uri,
        redirect_path,
        logout_path: written.logout_path.clone().unwrap_or_else(|| LOGOUT_PATH.into()),
        forward_access_token: written.forward_access_token == Some(true),
        scopes: written.scopes.clone().unwrap_or_default(),
        client_id: credentials.client_id.clone(),
        secret,
        cookies,
        deny_redirect,
    };
    let flaws = login.check();
    for flaw in &flaws {
        used.wrong(&format!("oauth2.{}", flaw.field), &flaw.message);
    }
    flaws.is_empty().then(|| RouteOAuth2 { login: Arc::new(login), tokens })
}

/// Reads the client secret. Messages contain no part of it.
fn secret(name: &str, used: &mut Used<'_, '_, '_>) -> Option<ClientSecret> {
    let field = "oauth2.credentials.clientSecretRef";
    if name.is_empty() {
        used.wrong(field, "must name a Secret");
        return None;
    }
    let key = scheme::secret_key(&used.key.namespace, name);
    used.reading.reader.edge(used.key, "", &key, Role::Requires);
    let Some(Body::Secret(secret)) = used.reading.reader.object(&key).map(|object| &object.body) else {
        used.lacks(field, "SecretNotFound", &key);
        return None;
    };
    let Some(content) = secret.data.get(SECRET_KEY).cloned() else {
        let message = format!("Secret {} has no entry {SECRET_KEY}", key.namespaced_name());
        used.missing(field, "SecretEntryNotFound", message);
        return None;
    };
    let text = std::str::from_utf8(&content).ok().filter(|text| !text.is_empty() && !text.contains(char::is_control));
    if text.is_none_or(|text| text.len() > SECRET_BYTES_MAX) {
        let message = format!(
            "Secret {}, entry {SECRET_KEY}: the client secret must be one line of text, without a line break, of at \
             most \
             {SECRET_BYTES_MAX} bytes",
            key.namespaced_name()
        );
        used.wrong(field, message);
        return None;
    }
    Some(ClientSecret { key, content })
}

fn cookies(written: Option<&OAuth2Cookies>, used: &mut Used<'_, '_, '_>) -> Option<Cookies> {
    let written = written.cloned().unwrap_or_default();
    let names = written.names.unwrap_or_default();
    let same_site = match written.same_site.as_deref() {
        None | Some("Lax") => SameSite::Lax,
        Some("Strict") => SameSite::Strict,
        Some("None") => SameSite::None,
        Some(other) => {
            used.wrong("oauth2.cookies.sameSite", format!("{other:?} is none of Lax, Strict and None"));
            return None;
        }
    };
    Some(Cookies {
        domain: written.domain,
        access: names.access_token,
        id: names.id_token,
        same_site,
        no_access: written.disable_access_token_set_cookie == Some(true),
        no_id: written.disable_id_token_set_cookie == Some(true),
        no_refresh: written.disable_refresh_token_set_cookie == Some(true),
    })
}

/// Reads the headers of requests that are refused instead of redirected to the login.
fn denied(written: Option<&DenyRedirect>, used: &mut Used<'_, '_, '_>) -> Option<Vec<NamedMatch>> {
    let Some(written) = written else { return Some(Vec::new()) };
    let field = "oauth2.denyRedirect.headers";
    if written.headers.is_empty() || written.headers.len() > ENTRIES_MAX {
        used.wrong(field, format!("must have at least 1 and at most {ENTRIES_MAX} entries"));
        return None;
    }
    let mut matches = Vec::new();
    for (index, header) in written.headers.iter().enumerate() {
        let name = match holdfast_check::header::name(&header.name) {
            Ok(name) => name,
            Err(fault) => {
                used.wrong(&format!("{field}[{index}].name"), fault);
                return None;
            }
        };
        let value = match header.kind.as_deref() {
            None | Some("Exact") if !header.value.is_empty() => ValueMatch::Exact(header.value.clone()),
            Some("RegularExpression") => {
                if let Err(fault) = used.reading.regexes_of(used.key).check(&header.value) {
                    used.wrong(&format!("{field}[{index}].value"), fault);
                    return None;
                }
                ValueMatch::Regex(header.value.clone())
            }
            _ => {
                let message = "must have a value, and be of type Exact or RegularExpression";
                used.wrong(&format!("{field}[{index}]"), message);
                return None;
            }
        };
        matches.push(NamedMatch::new(name, value));
    }
    Some(matches)
}

/// Reads the verification of tokens after the login, each by a separate filter.
fn tokens(written: &Written, cookies: &Cookies, used: &mut Used<'_, '_, '_>) -> Option<Vec<RouteJwt>> {
    let Some(jwt) = &written.jwt else { return Some(Vec::new()) };
    let (access, id) = cookies.names();
    let wanted = [
        ("accessToken", jwt.access_token.as_ref(), access, cookies.no_access),
        ("idToken", jwt.id_token.as_ref(), id, cookies.no_id),
    ];
    let mut tokens = Vec::new();
    for (name, token, cookie, has_none) in wanted {
        let Some(token) = token else { continue };
        let field = format!("oauth2.jwt.{name}");
        if has_none {
            used.wrong(&field, "cannot be verified, since the cookie of the token is disabled");
            return None;
        }
        let Some(uri) = &jwt.jwks_uri else {
            used.wrong("oauth2.jwt.jwksURI", WRITE_OUT);
            return None;
        };
        if let Err(message) = check_https(uri) {
            used.wrong("oauth2.jwt.jwksURI", message);
            return None;
        }
        // By default, keys are fetched from the host that issues the tokens.
        let (below, reference) = match &jwt.jwks_backend_ref {
            Some(reference) => ("oauth2.jwt.jwksBackendRef", Some(reference)),
            None => ("oauth2.backendRef", written.backend_ref.as_ref()),
        };
        let remote = used.remote(below, reference, false)?;
        let keys =
            Keys::Remote { uri: uri.clone(), remote, timeout: KEYS_TIMEOUT, kept: None, fetching: Fetching::default() };
        tokens.push(verified(name, token, cookie, keys, used)?);
    }
    Some(tokens)
}

fn verified(
    name: &str,
    token: &OAuth2Token,
    cookie: &str,
    keys: Keys,
    used: &mut Used<'_, '_, '_>,
) -> Option<RouteJwt> {
    let mut claims = Vec::new();
    for (index, claim) in token.claims_to_headers.iter().flatten().enumerate() {
        match holdfast_check::header::modifiable_name(&claim.header) {
            Ok(header) => claims.push((claim.name.clone(), header.into())),
            Err(fault) => {
                used.wrong(&format!("oauth2.jwt.{name}.claimsToHeaders[{index}].header"), fault);
                return None;
            }
        }
    }
    let provider = Provider {
        issuer: None,
        audiences: token.audiences.clone().unwrap_or_default(),
        keys,
        forward: true,
        headers: Vec::new(),
        parameters: Vec::new(),
        cookies: vec![cookie.into()],
        claims,
    };
    let name: Arc<str> = name.into();
    let requirement = Requirement::of(&name);
    let filter = JwtFilter {
        name: names::extension_filter(&format!("oauth2/{name}"), used.key, false).into(),
        owners: vec![used.key.clone()],
        providers: BTreeMap::from([(name, provider)]),
        requirements: [requirement.clone()].into(),
    };
    Some(RouteJwt { filter: Arc::new(filter), requirement })
}

/// Returns the path of a redirect URI in which Envoy substitutes commands; or a message.
fn path_of(uri: &str) -> Result<String, String> {
    if uri.len() > holdfast_envoy::features::oauth2::TEXT_BYTES_MAX || !uri.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err("must be a URL of visible ASCII characters".into());
    }
    // Substituted text contains no path and none of the separators that are searched for here.
    let mut plain = String::new();
    let mut rest = uri;
    while let Some((before, after)) = rest.split_once('%') {
        let Some((command, tail)) = after.split_once('%') else {
            return Err("has a percent sign that is not part of a command such as %REQ(name)%".into());
        };
        if !is_filled_in(command) {
            return Err(format!("%{command}% is not a command that Envoy substitutes here: use %REQ(name)%"));
        }
        plain.push_str(before);
        plain.push('x');
        rest = tail;
    }
    plain.push_str(rest);
    let wrong = || "must be a URL with a path, such as https://shop.example.com/oauth2/redirect".to_owned();
    let (scheme, rest) = plain.split_once("://").ok_or_else(wrong)?;
    let (host, path) = rest.split_once('/').ok_or_else(wrong)?;
    let usable = !host.is_empty() && ["http", "https", "x"].contains(&scheme) && !path.contains(['?', '#']);
    // Envoy cannot compare requests with a path that contains substituted text.
    let written = uri.strip_suffix(path).is_some_and(|before| before.ends_with('/'));
    if usable && written { Ok(format!("/{path}")) } else { Err(wrong()) }
}

/// Checks for a header of the request, or a header with an alternative.
fn is_filled_in(command: &str) -> bool {
    let is_name = |name: &str| {
        let name = name.strip_prefix(':').unwrap_or(name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let names = command.strip_prefix("REQ(").and_then(|rest| rest.strip_suffix(')'));
    names.is_some_and(|names| match names.split_once('?') {
        Some((name, other)) => is_name(name) && is_name(other),
        None => is_name(names),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_that_users_come_back_to() {
        for (uri, path) in [
            (REDIRECT_URI, "/oauth2/redirect"),
            ("https://shop.example.com/", "/"),
            ("%REQ(x-forwarded-proto?:scheme)%://a:8443/b/c", "/b/c"),
        ] {
            assert_eq!(path_of(uri).as_deref(), Ok(path), "{uri}");
        }
        for wrong in [
            "",
            "/oauth2/redirect",
            "https://shop.example.com",
            "https:///x",
            "ftp://a/b",
            "https://a/b?c",
            "https://a/%REQ(x-path)%",
            "https://a/50%",
            "https://%NOBODY%/a",
            "https://a/%2f%2f",
            "https://a/b c",
        ] {
            assert!(path_of(wrong).is_err(), "{wrong}");
        }
    }
}
