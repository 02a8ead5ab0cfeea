//! `jwtAuth`: verification of tokens and their providers.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::kgateway::extension::{
    ExtensionJwtProvider, ExtensionLocalJwks, ExtensionRemoteJwks, Jwt as Written,
};
use holdfast_api::apis::kgateway::traffic_policy::{ExtensionRef, TrafficSpec};
use holdfast_api::apis::{Body, scheme};
use holdfast_envoy::encode::names;
use holdfast_envoy::features::jwt::{
    Fetching, JwtFilter, Keys, PROVIDERS_MAX, Provider, Requirement, RouteJwt, URI_BYTES_MAX, check_keys_or_pem,
};
use holdfast_graph::Role;

use super::super::reading::Reading;
use super::{Used, extension};
use crate::precedence::settings::Piece;

/// Timeout for fetching keys.
const KEYS_TIMEOUT: Duration = Duration::from_secs(5);
/// Range of the cache duration of keys and of the pause after a failed fetch: Envoy requires less than 9,000,000 s.
const KEPT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(2499 * 3600);
/// Entry of a ConfigMap that contains keys.
const KEYS_ENTRY: &str = "jwks";

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    let Some(written) = &spec.jwt_auth else { return };
    match (&written.extension_ref, &written.disable) {
        (None, Some(_)) => reading.piece("jwtAuth", Piece::Jwt(None)),
        (Some(reference), None) => {
            if let Some(jwt) = jwt(reference, reading) {
                reading.piece("jwtAuth", Piece::Jwt(Some(jwt)));
            }
        }
        _ => reading.invalid("spec.jwtAuth", "exactly one of extensionRef and disable must be set"),
    }
}

fn jwt(reference: &ExtensionRef, reading: &mut Reading<'_, '_>) -> Option<RouteJwt> {
    let (key, extension) = extension("jwtAuth", reference, reading)?;
    let mut used = Used { key: &key, field: "jwtAuth", reading };
    let Some(Written { validation_mode, providers: written }) = &extension.jwt else {
        used.misused("jwt", "must be set if jwtAuth of a policy references the extension");
        return None;
    };
    let allow_missing = match validation_mode.as_deref() {
        None | Some("Strict") => false,
        Some("AllowMissing") => true,
        Some(other) => {
            used.wrong("jwt.validationMode", format!("{other:?} is neither Strict nor AllowMissing"));
            return None;
        }
    };
    if written.is_empty() || written.len() > PROVIDERS_MAX {
        used.wrong("jwt.providers", format!("must have at least 1 and at most {PROVIDERS_MAX} entries"));
        return None;
    }
    let mut providers = BTreeMap::new();
    for (index, written) in written.iter().enumerate() {
        let provider = provider(&format!("jwt.providers[{index}]"), written, &mut used)?;
        if providers.insert(written.name.clone(), provider).is_some() {
            used.wrong(&format!("jwt.providers[{index}].name"), "is listed twice");
            return None;
        }
    }
    let requirement = Requirement { providers: providers.keys().cloned().collect(), allow_missing };
    let filter = JwtFilter {
        name: names::extension_filter("jwt", &key, false).into(),
        owners: vec![key.clone()],
        providers,
        requirements: [requirement.clone()].into(),
    };
    Some(RouteJwt { filter: Arc::new(filter), requirement })
}

fn provider(field: &str, written: &ExtensionJwtProvider, used: &mut Used<'_, '_, '_>) -> Option<Provider> {
    let jwks = written.jwks.clone().unwrap_or_default();
    let keys = match (&jwks.local, &jwks.remote) {
        (Some(local), None) => Keys::Written(local_keys(&format!("{field}.jwks.local"), local, used)?),
        (None, Some(remote)) => {
            if remote.url.is_empty() || remote.url.len() > URI_BYTES_MAX || !remote.url.starts_with("http") {
                used.wrong(&format!("{field}.jwks.remote.url"), "must be an http or https URL");
                return None;
            }
            let kept = used.duration(&format!("{field}.jwks.remote.cacheDuration"), remote.cache_duration.as_deref());
            if kept.is_some_and(|kept| !KEPT.contains(&kept)) {
                used.wrong(&format!("{field}.jwks.remote.cacheDuration"), "must be between 1ms and 2499h");
                return None;
            }
            let below = format!("{field}.jwks.remote.backendRef");
            let service = used.remote(&below, remote.backend_ref.as_ref(), false)?;
            let fetching = fetching(&format!("{field}.jwks.remote"), remote, used)?;
            Keys::Remote { uri: remote.url.clone(), remote: service, timeout: KEYS_TIMEOUT, kept, fetching }
        }
        _ => {
            used.wrong(&format!("{field}.jwks"), "exactly one of local and remote must be set");
            return None;
        }
    };
    let source = written.token_source.clone().unwrap_or_default();
    let mut headers = Vec::new();
    if let Some(header) = &source.header {
        let name = header.header.as_deref().unwrap_or("Authorization");
        match holdfast_check::header::name(name) {
            Ok(name) => headers.push((name.into(), header.prefix.clone().unwrap_or_default())),
            Err(fault) => {
                used.wrong(&format!("{field}.tokenSource.header.header"), fault);
                return None;
            }
        }
    }
    let mut claims = Vec::new();
    for (index, claim) in written.claims_to_headers.iter().flatten().enumerate() {
        match holdfast_check::header::modifiable_name(&claim.header) {
            Ok(header) => claims.push((claim.name.clone(), header.into())),
            Err(fault) => {
                used.wrong(&format!("{field}.claimsToHeaders[{index}].header"), fault);
                return None;
            }
        }
    }
    Some(Provider {
        issuer: written.issuer.clone().filter(|issuer| !issuer.is_empty()),
        audiences: written.audiences.clone().unwrap_or_default(),
        keys,
        forward: written.forward_token == Some(true),
        headers,
        parameters: source.query_parameter.into_iter().collect(),
        cookies: Vec::new(),
        claims,
    })
}

/// Reads keys from the cluster.
fn local_keys(field: &str, local: &ExtensionLocalJwks, used: &mut Used<'_, '_, '_>) -> Option<Arc<str>> {
    let (text, below) = match (&local.inline, &local.config_map_ref) {
        (Some(text), None) => (text.clone(), "inline"),
        (None, Some(named)) => (in_config_map(field, &named.name, used)?, "configMapRef"),
        _ => {
            used.wrong(field, "exactly one of inline and configMapRef must be set");
            return None;
        }
    };
    match check_keys_or_pem(text.as_bytes()) {
        Ok(keys) => Some(keys),
        Err(message) => {
            used.wrong(&format!("{field}.{below}"), message);
            None
        }
    }
}

/// Reads the keys from a ConfigMap in the namespace of the extension.
fn in_config_map(field: &str, name: &str, used: &mut Used<'_, '_, '_>) -> Option<Arc<str>> {
    let field = format!("{field}.configMapRef");
    if name.is_empty() {
        used.wrong(&field, "must name a ConfigMap");
        return None;
    }
    let key = scheme::config_map_key(&used.key.namespace, name);
    used.reading.reader.edge(used.key, "", &key, Role::Requires);
    let Some(Body::ConfigMap(map)) = used.reading.reader.object(&key).map(|object| &object.body) else {
        used.lacks(&field, "ConfigMapNotFound", &key);
        return None;
    };
    let Some(text) = map.data.get(KEYS_ENTRY) else {
        let message = format!("ConfigMap {} has no entry {KEYS_ENTRY}", key.namespaced_name());
        used.missing(&field, "ConfigMapNotFound", message);
        return None;
    };
    used.reading.read_from(&key);
    Some(text.clone())
}

/// Reads the settings for fetching keys.
fn fetching(field: &str, remote: &ExtensionRemoteJwks, used: &mut Used<'_, '_, '_>) -> Option<Fetching> {
    let mut fetching = Fetching::default();
    if let Some(ahead) = &remote.async_fetch {
        let below = format!("{field}.asyncFetch.failedRefetchDuration");
        let pause = used.duration(&below, ahead.failed_refetch_duration.as_deref());
        if pause.is_some_and(|pause| !KEPT.contains(&pause)) {
            used.wrong(&below, "must be between 1ms and 2499h");
            return None;
        }
        fetching.ahead = Some((ahead.fast_listener == Some(true), pause));
    }
    if let Some(retry) = &remote.retry_policy {
        let below = format!("{field}.retryPolicy");
        let times = used.times(&below, ("numRetries", retry.num_retries, 1), ("backOff", retry.back_off.as_ref()))?;
        fetching.again = Some(times);
    }
    Some(fetching)
}
