//! `extAuth`: external authorization.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::kgateway::extension::{ExtAuthProvider, HttpService};
use holdfast_api::apis::kgateway::traffic_policy::{ExtAuthBufferSettings, ExtensionRef, TrafficSpec};
use holdfast_envoy::encode::names;
use holdfast_envoy::features::call_options::CallOptions;
use holdfast_envoy::features::ext_auth::{
    AuthProtocol, AuthServer, BufferedBody, OverHttp, RouteExtAuth, TIMEOUT_DEFAULT, stat_prefix_fault,
};
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::model::{Like, MatchedPart};

use super::super::reading::Reading;
use super::{Used, extension};
use crate::precedence::settings::Piece;

/// Default timeout of authorization over HTTP.
const HTTP_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    let Some(written) = &spec.ext_auth else { return };
    match (&written.extension_ref, &written.disable) {
        (None, Some(_)) => reading.piece("extAuth", Piece::ExtAuth(None)),
        (Some(reference), None) => {
            let context: BTreeMap<_, _> = written.context_extensions.clone().unwrap_or_default();
            let body = written.with_request_body.as_ref().map(body);
            if let Some(server) = server(reference, reading) {
                let auth = RouteExtAuth { server, context, body };
                reading.flaws("extAuth", auth.check());
                reading.piece("extAuth", Piece::ExtAuth(Some(auth)));
            }
        }
        _ => reading.invalid("spec.extAuth", "exactly one of extensionRef and disable must be set"),
    }
}

fn body(written: &ExtAuthBufferSettings) -> BufferedBody {
    BufferedBody {
        max: written.max_request_bytes.and_then(|max| u32::try_from(max).ok()).unwrap_or(0),
        partial: written.allow_partial_message == Some(true),
        as_bytes: written.pack_as_bytes == Some(true),
    }
}

fn exactly(names: Option<&[Arc<str>]>) -> Vec<Like> {
    let like = |name: &Arc<str>| Like { part: MatchedPart::Whole, text: name.clone(), ignore_case: true };
    names.unwrap_or_default().iter().map(like).collect()
}

fn server(reference: &ExtensionRef, reading: &mut Reading<'_, '_>) -> Option<Arc<AuthServer>> {
    let (key, extension) = extension("extAuth", reference, reading)?;
    let mut used = Used { key: &key, field: "extAuth", reading };
    let Some(written) = &extension.ext_auth else {
        used.misused("extAuth", "must be set if extAuth of a policy references the extension");
        return None;
    };
    let ExtAuthProvider { grpc_service, http_service, with_request_body, status_on_error, .. } = written;
    let status_on_error = match status_on_error.map(u16::try_from).transpose() {
        Ok(status) => status.filter(|status| (100..=511).contains(status)),
        Err(_) => None,
    };
    if written.clear_route_cache == Some(true) {
        // The first route of a request decides which filters it passes.
        let message =
            "must not be true: a request that is routed again would bypass the filters that protect the new route";
        used.wrong("extAuth.clearRouteCache", message);
    }
    if written.status_on_error.is_some() && status_on_error.is_none() {
        used.wrong("extAuth.statusOnError", "must be between 100 and 511");
    }
    let (remote, call_options, spoken, timeout) = match (grpc_service, http_service) {
        (Some(service), None) => {
            let timeout = used.duration("extAuth.grpcService.requestTimeout", service.request_timeout.as_deref());
            let (remote, call_options) = used.grpc("extAuth.grpcService", service)?;
            (remote, call_options, AuthProtocol::Grpc, timeout.unwrap_or(TIMEOUT_DEFAULT))
        }
        (None, Some(service)) => over_http(service, &mut used)?,
        _ => {
            used.wrong("extAuth", "exactly one of grpcService and httpService must be set");
            return None;
        }
    };
    let fail_open = written.fail_open == Some(true);
    let stat_prefix = used.stat_prefix("extAuth.statPrefix", written.stat_prefix.as_ref(), stat_prefix_fault);
    let server = AuthServer {
        name: names::extension_filter("ext_auth", &key, fail_open).into(),
        owners: vec![key.clone()],
        remote,
        call_options,
        spoken,
        timeout,
        fail_open,
        body: with_request_body.as_ref().map(body),
        headers: exactly(written.headers_to_forward.as_deref()),
        status_on_error,
        stat_prefix,
    };
    let flaws = server.check();
    for flaw in &flaws {
        used.wrong(&format!("extAuth.{}", flaw.field), &flaw.message);
    }
    flaws.is_empty().then(|| Arc::new(server))
}

fn over_http(
    service: &HttpService,
    used: &mut Used<'_, '_, '_>,
) -> Option<(Remote, CallOptions, AuthProtocol, Duration)> {
    let answer = service.authorization_response.clone().unwrap_or_default();
    let timeout = used.duration("extAuth.httpService.requestTimeout", service.request_timeout.as_deref());
    let again = used.again("extAuth.httpService.retry", service.retry.as_ref())?;
    let added = added(service, used)?;
    let remote = used.remote("extAuth.httpService.backendRef", service.backend_ref.as_ref(), false)?;
    let http = OverHttp {
        path_prefix: service.path_prefix.clone().unwrap_or_default(),
        added,
        to_backend: exactly(answer.headers_to_backend.as_deref()),
        all_to_backend: false,
        to_client: exactly(answer.headers_to_client.as_deref()),
        to_client_on_success: exactly(answer.headers_to_client_on_success.as_deref()),
    };
    let call_options = CallOptions { authority: None, again };
    Some((remote, call_options, AuthProtocol::Http(http), timeout.unwrap_or(HTTP_TIMEOUT)))
}

/// Reads additional headers for the authorization service; Envoy substitutes commands in their values.
fn added(service: &HttpService, used: &mut Used<'_, '_, '_>) -> Option<Vec<(Arc<str>, Arc<str>)>> {
    let mut added = Vec::new();
    let written = service.authorization_request.as_ref().and_then(|request| request.headers_to_add.as_ref());
    for (name, value) in written.into_iter().flatten() {
        let field = format!("extAuth.httpService.authorizationRequest.headersToAdd[{name}]");
        let wrong = match (holdfast_check::header::modifiable_name(name), holdfast_check::header::value(value)) {
            (Ok(name), Ok(())) => match holdfast_check::format::check(value) {
                Ok(()) => {
                    added.push((name.into(), value.as_str().into()));
                    continue;
                }
                Err(fault) => fault.to_string(),
            },
            (Err(fault), _) | (_, Err(fault)) => fault.to_string(),
        };
        used.wrong(&field, wrong);
        return None;
    }
    Some(added)
}
