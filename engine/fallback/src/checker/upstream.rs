//! Comparison of two versions of objects that determine how backends and extensions are reached, for the audit. The
//! code is independent of the planner. Exhaustive destructuring makes the compiler report a field that is not
//! classified.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::backend_tls::BackendTlsSpec;
use holdfast_api::apis::kgateway::backend::Backend;
use holdfast_api::apis::kgateway::backend_config::{BackendConfigSpec, BackendConfigTls, Parameters};
use holdfast_api::apis::kgateway::direct_response::DirectResponse;
use holdfast_api::apis::kgateway::extension::{ExtAuthProvider, ExtProcProvider, GatewayExtension, RateLimitProvider};
use holdfast_api::apis::kgateway::policy::Policy;

/// Returns, in a sentence, what an earlier version of an object lacks; `None` if it lacks nothing.
pub(super) fn weaker(now: &Body, then: &Body, trusted: bool) -> Option<String> {
    let lost = match (now, then) {
        (Body::BackendConfigPolicy(now), Body::BackendConfigPolicy(then)) => of_policies(now, then, trusted, config),
        (Body::BackendTlsPolicy(now), Body::BackendTlsPolicy(then)) => of_policies(now, then, trusted, validation),
        (Body::Backend(now), Body::Backend(then)) => {
            if trusted || now.unread.is_empty() {
                backend(now, then)
            } else {
                Some(UNREAD)
            }
        }
        (Body::GatewayExtension(now), Body::GatewayExtension(then)) => {
            if trusted || now.unread.is_empty() {
                extension(now, then, trusted)
            } else {
                Some(UNREAD)
            }
        }
        (Body::DirectResponse(now), Body::DirectResponse(then)) => response(now, then),
        _ => None,
    };
    lost.map(|field| format!("a field that protects today would not protect: {field}"))
}

const UNREAD: &str = "a field that cannot be read";

fn of_policies<T>(
    now: &Policy<T>,
    then: &Policy<T>,
    trusted: bool,
    lost: impl FnOnce(&T, &T) -> Option<&'static str>,
) -> Option<&'static str> {
    if !trusted && (!now.unread.is_empty() || now.spec.is_none()) {
        return Some(UNREAD);
    }
    let Some(then) = &then.spec else { return Some(UNREAD) };
    now.spec.as_ref().and_then(|now| lost(now, then))
}

/// Returns the first field that is not kept.
fn first(fields: impl IntoIterator<Item = (&'static str, bool)>) -> Option<&'static str> {
    fields.into_iter().find(|(_, is_kept)| !is_kept).map(|(field, _)| field)
}

/// Checks that the earlier version allows nothing that the current version does not allow.
fn closed(now: Option<bool>, then: Option<bool>) -> bool {
    then != Some(true) || now == Some(true)
}

fn config(now: &BackendConfigSpec, then: &BackendConfigSpec) -> Option<&'static str> {
    let BackendConfigSpec {
        connect_timeout: _,
        dns: _,
        per_connection_buffer_limit_bytes,
        tcp_keepalive: _,
        common_http_protocol_options: _,
        http1_protocol_options: _,
        http2_protocol_options: _,
        tls,
        load_balancer: _,
        health_check: _,
        outlier_detection: _,
        circuit_breakers,
        upstream_proxy_protocol,
    } = now;
    let limited = [
        (
            "perConnectionBufferLimitBytes",
            per_connection_buffer_limit_bytes.is_none() || then.per_connection_buffer_limit_bytes.is_some(),
        ),
        ("circuitBreakers", circuit_breakers.is_none() || then.circuit_breakers.is_some()),
        ("upstreamProxyProtocol", *upstream_proxy_protocol == then.upstream_proxy_protocol),
        ("tls", tls.is_none() || then.tls.is_some()),
    ];
    first(limited).or_else(|| {
        let (now, then) = (tls.clone().unwrap_or_default(), then.tls.clone().unwrap_or_default());
        encrypted(&now, &then)
    })
}

fn encrypted(now: &BackendConfigTls, then: &BackendConfigTls) -> Option<&'static str> {
    let BackendConfigTls {
        secret_ref,
        files,
        well_known,
        insecure_skip_verify,
        sni,
        verify_subject_alt_names,
        parameters,
        alpn_protocols: _,
        allow_renegotiation,
        simple,
    } = now;
    let Parameters { cipher_suites, ecdh_curves, max_version, min_version, signature_algorithms } =
        parameters.clone().unwrap_or_default();
    let before = then.parameters.clone().unwrap_or_default();
    let named = |list: &Option<Vec<Arc<str>>>| list.iter().flatten().cloned().collect::<BTreeSet<_>>();
    first([
        ("tls.secretRef", *secret_ref == then.secret_ref),
        ("tls.files", *files == then.files),
        ("tls.wellKnownCACertificates", *well_known == then.well_known),
        ("tls.insecureSkipVerify", closed(*insecure_skip_verify, then.insecure_skip_verify)),
        ("tls.sni", *sni == then.sni),
        ("tls.verifySubjectAltNames", *verify_subject_alt_names == then.verify_subject_alt_names),
        ("tls.allowRenegotiation", closed(*allow_renegotiation, then.allow_renegotiation)),
        ("tls.simpleTLS", *simple == then.simple),
        ("tls.parameters.minVersion", min_version == before.min_version),
        ("tls.parameters.maxVersion", max_version == before.max_version),
        ("tls.parameters.cipherSuites", named(&before.cipher_suites).is_subset(&named(&cipher_suites))),
        ("tls.parameters.ecdhCurves", named(&before.ecdh_curves).is_subset(&named(&ecdh_curves))),
        (
            "tls.parameters.signatureAlgorithms",
            named(&before.signature_algorithms).is_subset(&named(&signature_algorithms)),
        ),
    ])
}

fn validation(now: &BackendTlsSpec, then: &BackendTlsSpec) -> Option<&'static str> {
    let BackendTlsSpec { validation, options: _ } = now;
    first([("validation", *validation == then.validation)])
}

fn backend(now: &Backend, then: &Backend) -> Option<&'static str> {
    let Backend { kind: _, aws, fixed: _, dynamic_forward_proxy, gcp: _, priority_groups: _, unread: _ } = now;
    let auth = |backend: &Backend| backend.aws.as_ref().and_then(|aws| aws.auth.clone());
    let called = |backend: &Backend| {
        let lambda = backend.aws.as_ref().and_then(|aws| aws.lambda.clone());
        lambda.map(|lambda| lambda.endpoint_url)
    };
    let tls =
        |backend: &Backend| backend.dynamic_forward_proxy.as_ref().is_some_and(|any| any.enable_tls == Some(true));
    first([
        ("aws.auth", aws.as_ref().and_then(|aws| aws.auth.clone()) == auth(then)),
        ("aws.lambda.endpointURL", called(now) == called(then)),
        ("dynamicForwardProxy", then.dynamic_forward_proxy.is_none() || dynamic_forward_proxy.is_some()),
        ("dynamicForwardProxy.enableTls", !tls(now) || tls(then)),
    ])
}

fn response(now: &DirectResponse, then: &DirectResponse) -> Option<&'static str> {
    let DirectResponse { status, body: _, body_format: _, unread: _ } = now;
    let answers = |status: i64| (100..400).contains(&status);
    first([("status", answers(*status) || !answers(then.status))])
}

fn extension(now: &GatewayExtension, then: &GatewayExtension, trusted: bool) -> Option<&'static str> {
    let GatewayExtension { kind: _, ext_auth, ext_proc, rate_limit, jwt, oauth2, unread: _ } = now;
    let kept = |same: bool, is_set: bool, was_set: bool| same || (trusted && (was_set || !is_set));
    let forms = first([
        ("jwt", kept(*jwt == then.jwt, jwt.is_some(), then.jwt.is_some())),
        ("oauth2", kept(*oauth2 == then.oauth2, oauth2.is_some(), then.oauth2.is_some())),
        ("extAuth", ext_auth.is_none() || then.ext_auth.is_some()),
        ("extProc", ext_proc.is_none() || then.ext_proc.is_some()),
        ("rateLimit", rate_limit.is_none() || then.rate_limit.is_some()),
    ]);
    forms
        .or_else(|| {
            let (now, then) = (ext_auth.clone().unwrap_or_default(), then.ext_auth.clone().unwrap_or_default());
            authorized(&now, &then)
        })
        .or_else(|| {
            let (now, then) = (ext_proc.clone().unwrap_or_default(), then.ext_proc.clone().unwrap_or_default());
            processed(&now, &then)
        })
        .or_else(|| {
            let (now, then) = (rate_limit.clone().unwrap_or_default(), then.rate_limit.clone().unwrap_or_default());
            counted(&now, &then)
        })
}

fn authorized(now: &ExtAuthProvider, then: &ExtAuthProvider) -> Option<&'static str> {
    let ExtAuthProvider {
        grpc_service: _,
        http_service: _,
        headers_to_forward,
        fail_open,
        clear_route_cache,
        with_request_body,
        status_on_error: _,
        stat_prefix: _,
    } = now;
    let grpc = |provider: &ExtAuthProvider| {
        let service = provider.grpc_service.clone().unwrap_or_default();
        (service.backend_ref, service.authority)
    };
    let http = |provider: &ExtAuthProvider| {
        let service = provider.http_service.clone().unwrap_or_default();
        let believed = service.authorization_response.and_then(|response| response.headers_to_backend);
        (service.backend_ref, service.path_prefix, service.authorization_request, believed)
    };
    first([
        ("extAuth.grpcService", grpc(now) == grpc(then)),
        ("extAuth.httpService", http(now) == http(then)),
        ("extAuth.headersToForward", *headers_to_forward == then.headers_to_forward),
        ("extAuth.failOpen", closed(*fail_open, then.fail_open)),
        ("extAuth.clearRouteCache", *clear_route_cache == then.clear_route_cache),
        ("extAuth.withRequestBody", *with_request_body == then.with_request_body),
    ])
}

fn processed(now: &ExtProcProvider, then: &ExtProcProvider) -> Option<&'static str> {
    let ExtProcProvider {
        grpc_service: _,
        fail_open,
        processing_mode,
        allow_processing_mode_override,
        allowed_processing_mode_overrides,
        message_timeout: _,
        max_message_timeout: _,
        stat_prefix: _,
        route_cache_action,
        metadata_options,
        request_attributes,
        filter_stage,
    } = now;
    let grpc = |provider: &ExtProcProvider| {
        let service = provider.grpc_service.clone().unwrap_or_default();
        (service.backend_ref, service.authority)
    };
    first([
        ("extProc.grpcService", grpc(now) == grpc(then)),
        ("extProc.failOpen", closed(*fail_open, then.fail_open)),
        ("extProc.processingMode", *processing_mode == then.processing_mode),
        (
            "extProc.allowProcessingModeOverride",
            *allow_processing_mode_override == then.allow_processing_mode_override
                && *allowed_processing_mode_overrides == then.allowed_processing_mode_overrides,
        ),
        ("extProc.routeCacheAction", *route_cache_action == then.route_cache_action),
        ("extProc.metadataOptions", *metadata_options == then.metadata_options),
        ("extProc.requestAttributes", *request_attributes == then.request_attributes),
        ("extProc.filterStage", *filter_stage == then.filter_stage),
    ])
}

fn counted(now: &RateLimitProvider, then: &RateLimitProvider) -> Option<&'static str> {
    let RateLimitProvider { grpc_service: _, domain, fail_open, timeout: _, x_rate_limit_headers: _ } = now;
    let grpc = |provider: &RateLimitProvider| {
        let service = provider.grpc_service.clone().unwrap_or_default();
        (service.backend_ref, service.authority)
    };
    first([
        ("rateLimit.grpcService", grpc(now) == grpc(then)),
        ("rateLimit.domain", *domain == then.domain),
        ("rateLimit.failOpen", closed(*fail_open, then.fail_open)),
    ])
}
