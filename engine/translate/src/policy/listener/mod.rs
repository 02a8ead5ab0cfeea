//! ListenerPolicies, field by field: settings of all ports and of single ports.
//!
//! Settings of a port replace the settings of all ports; the verification of client certificates applies to every port.

mod client;
pub(crate) mod clients;
mod collectors;
mod filters;
mod http;
mod logs;
mod replies;
mod tracer;

use std::collections::BTreeMap;

use holdfast_api::apis::kgateway::keepalive::TcpKeepalive;
use holdfast_api::apis::kgateway::listener_policy::{ListenerConfig, ListenerSpec};
use holdfast_envoy::features::connection::ListenerSetting;
use holdfast_envoy::features::connection::socket::{DownstreamKeepalive, KEEPALIVE_SECONDS_MAX, PROBES_MAX, Socket};

use super::reading::Reading;
use super::traffic::{duration, number, positive};
use crate::precedence::settings::{Field, Piece, Settings as Pieces};

/// Maximum number of ports of one policy; the limit of the CRD.
pub(crate) const PORTS_MAX: usize = 64;

/// Settings of one port, or of all ports.
struct PortSettings<'s> {
    /// Path below `spec`.
    at: &'s str,
    pieces: Pieces,
}

impl PortSettings<'_> {
    fn part(&mut self, field: Field, part: ListenerSetting) {
        self.pieces.insert(field, Piece::Connection(part));
    }

    /// Returns the path of a field below `spec`.
    fn below(&self, field: &str) -> String {
        format!("{}.{field}", self.at)
    }
}

/// Reads the settings of a policy; returns those of single ports by the declared port.
pub(super) fn read(spec: &ListenerSpec, reading: &mut Reading<'_, '_>) -> BTreeMap<i64, Pieces> {
    let clients = spec.default.as_ref().and_then(|default| default.client_certificate_validation.as_ref());
    let clients = clients.and_then(|written| clients::read("default.clientCertificateValidation", written, reading));
    let clients =
        clients.map(|clients| ("clientCertificateValidation", Piece::Connection(ListenerSetting::Clients(clients))));
    if let Some(default) = &spec.default {
        listener("default", &default.listener(), reading).into_iter().for_each(|(field, piece)| {
            reading.piece(field, piece);
        });
    }
    if let Some((field, piece)) = clients.clone() {
        reading.piece(field, piece);
    }
    let mut ports = BTreeMap::new();
    for (index, entry) in spec.per_port.iter().flatten().enumerate() {
        let at = format!("perPort[{index}]");
        if index >= PORTS_MAX {
            reading.invalid("spec.perPort", format!("must have at most {PORTS_MAX} entries"));
            break;
        }
        if let Err(fault) = holdfast_check::number::port(entry.port) {
            reading.invalid(format!("spec.{at}.port"), fault);
        }
        let mut pieces = listener(&format!("{at}.listener"), &entry.listener, reading);
        pieces.extend(clients.clone());
        if ports.insert(entry.port, pieces).is_some() {
            reading.invalid(format!("spec.{at}.port"), "is listed twice");
        }
    }
    ports
}

fn listener(at: &str, written: &ListenerConfig, reading: &mut Reading<'_, '_>) -> Pieces {
    let mut port_settings = PortSettings { at, pieces: Pieces::new() };
    if let Some(proxy) = &written.proxy_protocol {
        let optional = proxy.allow_requests_without_proxy_protocol.unwrap_or(false);
        port_settings.part("proxyProtocol", ListenerSetting::Socket(Socket::Proxy { optional }));
    }
    if let Some(keepalive) = &written.tcp_keepalive {
        let keepalive = self::keepalive(&port_settings.below("tcpKeepalive"), keepalive, reading);
        port_settings.part("tcpKeepalive", ListenerSetting::Socket(Socket::Keepalive(keepalive)));
    }
    if let Some(bytes) = written.per_connection_buffer_limit_bytes {
        let bytes = number(&port_settings.below("perConnectionBufferLimitBytes"), bytes, 0, reading);
        port_settings.part("perConnectionBufferLimitBytes", ListenerSetting::Socket(Socket::Buffer(bytes)));
    }
    let field = "transportSocketConnectTimeout";
    let limit = written.transport_socket_connect_timeout.as_deref();
    if let Some(limit) = positive(&port_settings.below(field), limit, reading) {
        port_settings.part(field, ListenerSetting::Socket(Socket::Handshake(limit)));
    }
    if let Some(settings) = &written.http_settings {
        http::read(settings, &mut port_settings, reading);
    }
    port_settings.pieces
}

fn keepalive(field: &str, written: &TcpKeepalive, reading: &mut Reading<'_, '_>) -> DownstreamKeepalive {
    let mut seconds = |below: &str, text: Option<&str>| {
        let field = format!("{field}.{below}");
        let time = duration(&field, text, reading)?;
        match u32::try_from(time.as_secs()) {
            Ok(seconds) if (1..=KEEPALIVE_SECONDS_MAX).contains(&time.as_secs()) => Some(seconds),
            _ => {
                let message = format!("must be from 1s to {KEEPALIVE_SECONDS_MAX}s");
                reading.invalid(format!("spec.{field}"), message);
                None
            }
        }
    };
    let idle = seconds("keepAliveTime", written.keep_alive_time.as_deref());
    let interval = seconds("keepAliveInterval", written.keep_alive_interval.as_deref());
    let probes = written.keep_alive_probes.map(|probes| {
        let field = format!("{field}.keepAliveProbes");
        let probes = number(&field, probes, 0, reading);
        if probes > PROBES_MAX {
            reading.invalid(format!("spec.{field}"), format!("must be at most {PROBES_MAX}"));
        }
        probes
    });
    // Zero probes means the default of the operating system.
    DownstreamKeepalive { idle, interval, probes: probes.filter(|probes| *probes > 0) }
}
