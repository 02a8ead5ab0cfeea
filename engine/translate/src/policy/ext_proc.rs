//! `extProc`: external processing of requests and responses, by a GatewayExtension.

use std::cmp::Reverse;
use std::sync::Arc;

use holdfast_api::apis::kgateway::extension::{ExtProcProvider, FilterStage};
use holdfast_api::apis::kgateway::traffic_policy::{ExtProc as Written, ExtensionRef, ProcessingMode, TrafficSpec};
use holdfast_envoy::encode::names;
use holdfast_envoy::features::ext_proc::{
    FilterPlace, Modes, ProcessedParts, ProcessingService, RouteExtProc, ShownBody, stat_prefix_fault,
};

use super::extensions::{self, Used};
use super::reading::Reading;
use crate::precedence::settings::{EXT_PROC, Piece};

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    match &spec.ext_proc {
        None => {}
        Some(Written { extension_ref: None, disable: Some(_), .. }) => {
            reading.piece(EXT_PROC, Piece::ExtProc(None));
        }
        Some(Written { extension_ref: Some(reference), disable: None, processing_mode }) => {
            let modes = match processing_mode.as_ref().map(modes).transpose() {
                Ok(modes) => modes,
                Err((field, message)) => {
                    return reading.invalid(format!("spec.extProc.processingMode.{field}"), message);
                }
            };
            reading.flaws("extProc", modes.iter().flat_map(|modes| modes.check("processingMode")));
            if let Some(service) = service(reference, reading) {
                reading.piece(EXT_PROC, Piece::ExtProc(Some(RouteExtProc { service, modes })));
            }
        }
        _ => reading.invalid("spec.extProc", "exactly one of extensionRef and disable must be set"),
    }
}

/// Returns the service of a GatewayExtension.
fn service(reference: &ExtensionRef, reading: &mut Reading<'_, '_>) -> Option<Arc<ProcessingService>> {
    let (key, extension) = extensions::extension("extProc", reference, reading)?;
    let mut used = Used { key: &key, field: "extProc", reading };
    let Some(written) = &extension.ext_proc else {
        used.misused("extProc", "must be set if extProc of a policy references the extension");
        return None;
    };
    let ExtProcProvider { grpc_service: Some(grpc), fail_open, allow_processing_mode_override, .. } = written else {
        used.wrong("extProc.grpcService", "must be set");
        return None;
    };
    match written.route_cache_action.as_deref() {
        // Both keep the route.
        None | Some("FromResponse" | "Retain") => {}
        Some("Clear") => {
            let message =
                "is not supported: a request that is routed again would bypass the filters that protect the new route";
            used.wrong("extProc.routeCacheAction", message);
            return None;
        }
        Some(other) => {
            used.wrong("extProc.routeCacheAction", format!("{other:?} is none of FromResponse, Clear and Retain"));
            return None;
        }
    }
    let timeout = used.duration("extProc.grpcService.requestTimeout", grpc.request_timeout.as_deref());
    let (remote, call_options) = used.grpc("extProc.grpcService", grpc)?;
    let modes_at = |field: &str, written: &ProcessingMode, used: &mut Used<'_, '_, '_>| match modes(written) {
        Ok(modes) => Some(modes),
        Err((below, message)) => {
            used.wrong(&format!("extProc.{field}.{below}"), message);
            None
        }
    };
    let shown = match &written.processing_mode {
        None => Modes::default(),
        Some(written) => modes_at("processingMode", written, &mut used)?,
    };
    let mut others = Vec::new();
    for (index, written) in written.allowed_processing_mode_overrides.iter().flatten().enumerate() {
        others.push(modes_at(&format!("allowedProcessingModeOverrides[{index}]"), written, &mut used)?);
    }
    let (place, weight) = place(written.filter_stage.as_ref(), &mut used)?;
    // As in kgateway: external processing fails open by default.
    let fail_open = *fail_open != Some(false);
    let metadata = written.metadata_options.clone().unwrap_or_default().forwarding.unwrap_or_default();
    let message_timeout = used.duration("extProc.messageTimeout", written.message_timeout.as_deref());
    let message_timeout_max = used.duration("extProc.maxMessageTimeout", written.max_message_timeout.as_deref());
    let stat_prefix = used.stat_prefix("extProc.statPrefix", written.stat_prefix.as_ref(), stat_prefix_fault);
    let service = ProcessingService {
        place,
        weight: Reverse(weight),
        name: names::extension_filter("ext_proc", &key, fail_open).into(),
        owners: vec![key.clone()],
        remote,
        call_options,
        timeout,
        fail_open,
        modes: shown,
        others: (*allow_processing_mode_override == Some(true)).then_some(others),
        message_timeout,
        message_timeout_max,
        stat_prefix: stat_prefix.unwrap_or_default(),
        metadata: (metadata.typed.unwrap_or_default(), metadata.untyped.unwrap_or_default()),
        attributes: written.request_attributes.clone().unwrap_or_default(),
    };
    let flaws = service.check();
    for flaw in &flaws {
        used.wrong(&format!("extProc.{}", flaw.field), &flaw.message);
    }
    flaws.is_empty().then(|| Arc::new(service))
}

/// Returns the processing modes; or the invalid field with the reason.
fn modes(written: &ProcessingMode) -> Result<Modes, (&'static str, String)> {
    let sent = |field, text: &Option<Arc<str>>| match text.as_deref() {
        None | Some("DEFAULT") => Ok(None),
        Some("SEND") => Ok(Some(true)),
        Some("SKIP") => Ok(Some(false)),
        Some(other) => Err((field, format!("{other:?} is none of DEFAULT, SEND and SKIP"))),
    };
    let body = |field, text: &Option<Arc<str>>| match text.as_deref() {
        None | Some("NONE") => Ok(ShownBody::None),
        Some("STREAMED") => Ok(ShownBody::Streamed),
        Some("BUFFERED") => Ok(ShownBody::Buffered),
        Some("BUFFERED_PARTIAL") => Ok(ShownBody::BufferedPartial),
        Some("FULL_DUPLEX_STREAMED") => Ok(ShownBody::FullDuplexStreamed),
        Some(other) => {
            let message = "is none of NONE, STREAMED, BUFFERED, BUFFERED_PARTIAL and FULL_DUPLEX_STREAMED";
            Err((field, format!("{other:?} {message}")))
        }
    };
    Ok(Modes {
        request: ProcessedParts {
            headers: sent("requestHeaderMode", &written.request_header_mode)?,
            body: body("requestBodyMode", &written.request_body_mode)?,
            trailers: sent("requestTrailerMode", &written.request_trailer_mode)?,
        },
        response: ProcessedParts {
            headers: sent("responseHeaderMode", &written.response_header_mode)?,
            body: body("responseBodyMode", &written.response_body_mode)?,
            trailers: sent("responseTrailerMode", &written.response_trailer_mode)?,
        },
    })
}

/// Returns the position among the filters, and the weight at this position.
fn place(written: Option<&FilterStage>, used: &mut Used<'_, '_, '_>) -> Option<(FilterPlace, i32)> {
    let Some(FilterStage { stage, predicate, weight }) = written else { return Some((FilterPlace::default(), 0)) };
    let before = match predicate.as_deref() {
        Some("Before") => true,
        None | Some("During" | "After") => false,
        Some(other) => {
            used.wrong("extProc.filterStage.predicate", format!("{other:?} is none of Before, During and After"));
            return None;
        }
    };
    let place = match (stage.as_deref(), before) {
        (Some("Fault"), true) => FilterPlace::First,
        (Some("Fault"), false) | (Some("AuthN"), true) => FilterPlace::Unknown,
        (Some("AuthN"), false) | (Some("AuthZ"), true) => FilterPlace::Known,
        (Some("AuthZ"), false) | (Some("RateLimit"), true) => FilterPlace::Allowed,
        (Some("RateLimit"), false) => FilterPlace::Counted,
        (Some("Route"), _) => FilterPlace::Last,
        _ => {
            used.wrong("extProc.filterStage.stage", "must be one of Fault, AuthN, AuthZ, RateLimit and Route");
            return None;
        }
    };
    let Ok(weight) = i32::try_from(weight.unwrap_or_default()) else {
        used.wrong("extProc.filterStage.weight", "is out of range");
        return None;
    };
    Some((place, weight))
}
