//! BackendConfigPolicy settings, except TLS.

use holdfast_api::apis::kgateway::backend_config::{BackendConfigSpec, Dns, UpstreamProxyProtocol};
use holdfast_api::apis::kgateway::keepalive::TcpKeepalive;
use holdfast_api::apis::kgateway::targets::Targets;
use holdfast_api::fault::at;
use holdfast_envoy::features::upstream::{Configured, Lookups, ProxyProtocolVersion, UpstreamKeepalive};

use super::notes::Notes;
use super::{BackendSettings, balance, health, http};

/// Checks that no target names a section: these policies apply to backends as a whole.
pub(super) fn targets(targets: &Targets, notes: &mut Notes) {
    let message = "a BackendConfigPolicy applies to all ports of a backend: sectionName must not be set";
    for (index, _) in targets.references.iter().filter(|(_, target)| target.section_name.is_some()) {
        notes.invalid(format!("{}.sectionName", at("spec.targetRefs", *index)), message);
    }
    for (index, _) in targets.selectors.iter().filter(|(_, target)| target.section_name.is_some()) {
        notes.invalid(format!("{}.sectionName", at("spec.targetSelectors", *index)), message);
    }
}

pub(super) fn read(spec: &BackendConfigSpec, notes: &mut Notes) -> BackendSettings {
    if spec.http1_protocol_options.is_some() && spec.http2_protocol_options.is_some() {
        notes.invalid("spec", "only one of http1ProtocolOptions and http2ProtocolOptions may be set");
    }
    let buffer = spec.per_connection_buffer_limit_bytes;
    let configured = Configured {
        origins: Vec::new(),
        connect_timeout: notes.positive("spec.connectTimeout", spec.connect_timeout.as_deref()),
        buffer: notes.number("spec.perConnectionBufferLimitBytes", buffer, 0, u32::MAX),
        keepalive: spec.tcp_keepalive.as_ref().map(|written| keepalive(written, notes)),
        lookups: spec.dns.as_ref().map(|written| lookups(written, notes)),
        common_http: spec.common_http_protocol_options.as_ref().map(|written| http::common(written, notes)),
        http1: spec.http1_protocol_options.as_ref().map(http::one),
        http2: spec.http2_protocol_options.as_ref().map(|written| http::two(written, notes)),
        balance: spec.load_balancer.as_ref().and_then(|written| balance::read(written, notes)),
        health: spec.health_check.as_ref().and_then(|written| health::checked(written, notes)),
        outliers: spec.outlier_detection.as_ref().map(|written| health::outliers(written, notes)),
        breakers: spec.circuit_breakers.as_ref().map(|written| health::breakers(written, notes)),
        proxy_protocol: spec.upstream_proxy_protocol.as_ref().and_then(|written| proxy_protocol(written, notes)),
    };
    BackendSettings { configured, tls: None }
}

fn keepalive(written: &TcpKeepalive, notes: &mut Notes) -> UpstreamKeepalive {
    let field = "spec.tcpKeepalive";
    UpstreamKeepalive {
        probes: notes.number(&format!("{field}.keepAliveProbes"), written.keep_alive_probes, 0, u32::MAX),
        time: notes.seconds(&format!("{field}.keepAliveTime"), written.keep_alive_time.as_deref()),
        interval: notes.seconds(&format!("{field}.keepAliveInterval"), written.keep_alive_interval.as_deref()),
    }
}

fn lookups(written: &Dns, notes: &mut Notes) -> Lookups {
    let interval = notes.positive("spec.dns.refreshRate", written.refresh_rate.as_deref());
    let jitter = notes.duration("spec.dns.jitter", written.jitter.as_deref());
    if interval.zip(jitter).is_some_and(|(interval, jitter)| jitter > interval) {
        notes.invalid("spec.dns.jitter", "must not be longer than refreshRate");
    }
    Lookups { interval, jitter, respect_ttl: written.respect_ttl.unwrap_or(false) }
}

fn proxy_protocol(written: &UpstreamProxyProtocol, notes: &mut Notes) -> Option<ProxyProtocolVersion> {
    match written.version.as_deref().unwrap_or("V1") {
        "V1" => Some(ProxyProtocolVersion::V1),
        "V2" => Some(ProxyProtocolVersion::V2),
        other => {
            notes.invalid("spec.upstreamProxyProtocol.version", format!("{other:?} is neither V1 nor V2"));
            None
        }
    }
}
