//! Protection of ListenerPolicies, field by field, as they apply at one port.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::http_settings::{Http2ProtocolOptions, HttpSettings, UpgradeConfig};
use super::listener_policy::{ClientCertificateValidation, DefaultConfig, ListenerConfig, ListenerSpec, PortConfig};
use crate::apis::protection::{Declare, Sheet, allowed};

impl ListenerSpec {
    /// Returns the ports with settings of their own, and `None` for all other ports.
    pub fn ports(&self) -> BTreeSet<Option<i64>> {
        let ListenerSpec { default: _, per_port } = self;
        let own = per_port.iter().flatten().map(|PortConfig { port, listener: _ }| Some(*port));
        own.chain([None]).collect()
    }

    /// Returns the sheet for the listeners of one port, or, for `None`, of all ports without settings of their own.
    pub fn at(&self, port: Option<i64>, trusted: bool) -> Sheet {
        let ListenerSpec { default, per_port } = self;
        let mut sheet = Sheet::new(trusted);
        let clients = default.as_ref().and_then(|default| default.client_certificate_validation.clone());
        clients.unwrap_or_default().declare(&mut sheet);
        let mut own = per_port.iter().flatten().filter(|entry| Some(entry.port) == port);
        let config = own.next().map(|entry| entry.listener.clone());
        let config = config.or_else(|| default.as_ref().map(DefaultConfig::listener));
        config.unwrap_or_default().declare(&mut sheet);
        sheet
    }
}

impl Declare for ClientCertificateValidation {
    fn declare(&self, sheet: &mut Sheet) {
        let ClientCertificateValidation { mode, ca_certificate_refs } = self;
        let mode = Some(mode).filter(|mode| !mode.is_empty());
        sheet.equal("default.clientCertificateValidation.mode", "whether clients must show certificates", &mode);
        let authorities = Some(ca_certificate_refs).filter(|refs| !refs.is_empty());
        let because = "the certificate authorities of allowed clients";
        let field = "default.clientCertificateValidation.caCertificateRefs";
        sheet.access(field, because, &authorities, authorities.is_some());
    }
}

impl Declare for ListenerConfig {
    fn declare(&self, sheet: &mut Sheet) {
        let ListenerConfig {
            http_settings,
            per_connection_buffer_limit_bytes,
            proxy_protocol,
            tcp_keepalive,
            transport_socket_connect_timeout,
        } = self;
        http_settings.clone().unwrap_or_default().declare(sheet);
        let is_set = per_connection_buffer_limit_bytes.is_some();
        sheet.limit("perConnectionBufferLimitBytes", "limits the memory that a client uses in Envoy", is_set);
        sheet.equal("proxyProtocol", "decides which address is the client's", proxy_protocol);
        sheet.free("tcpKeepalive", "how connections are kept open", tcp_keepalive);
        let is_set = is_time(transport_socket_connect_timeout);
        sheet.limit("transportSocketConnectTimeout", "limits how long a client may hold a handshake", is_set);
    }
}

/// Returns whether a duration is set and not zero: zero means no limit.
fn is_time(text: &Option<Arc<str>>) -> bool {
    text.as_ref().is_some_and(|text| text.chars().any(|c| ('1'..='9').contains(&c)))
}

impl Declare for HttpSettings {
    fn declare(&self, sheet: &mut Sheet) {
        let HttpSettings {
            accept_http10,
            access_log,
            default_host_for_http10,
            early_request_header_modifier,
            forward_client_cert_details,
            generate_request_id,
            health_check,
            http2_protocol_options,
            idle_timeout,
            local_replies,
            max_headers_count,
            max_request_headers_kb,
            max_requests_per_connection,
            preserve_external_request_id,
            preserve_http1_header_case,
            proxy_100_continue,
            server_header_transformation,
            server_name,
            skip_xff_append,
            stream_idle_timeout,
            strip_host_port_mode,
            strip_trailing_host_dot,
            tracing,
            upgrade_config,
            use_remote_address,
            uuid_request_id_config,
            xff_num_trusted_hops,
            xff_trusted_cidrs,
        } = self;
        sheet.opening("httpSettings.acceptHttp10", "a protocol that clients may speak", allowed(*accept_http10));
        sheet.free("httpSettings.accessLog", "records; they protect no request", access_log);
        let because = "the host of requests without a host; the routes of this host keep their protection";
        sheet.free("httpSettings.defaultHostForHttp10", because, default_host_for_http10);
        let because = "changes requests before the route is selected, including headers that are trusted";
        sheet.equal("httpSettings.earlyRequestHeaderModifier", because, early_request_header_modifier);
        let because = "information about client certificates that backends trust";
        sheet.equal("httpSettings.forwardClientCertDetails", because, forward_client_cert_details);
        sheet.free("httpSettings.generateRequestId", "identities for logs and traces", generate_request_id);
        sheet.free("httpSettings.healthCheck", "Envoy itself answers at this path", health_check);
        http2(http2_protocol_options.as_ref(), sheet);
        let because = "limits how long a client may hold a connection";
        sheet.limit("httpSettings.idleTimeout", because, is_time(idle_timeout));
        sheet.free("httpSettings.localReplies", "the form of local replies of Envoy", local_replies);
        sheet.limit("httpSettings.maxHeadersCount", "limits the headers of clients", max_headers_count.is_some());
        let is_set = max_request_headers_kb.is_some();
        sheet.limit("httpSettings.maxRequestHeadersKb", "limits the headers of clients", is_set);
        let is_set = max_requests_per_connection.is_some();
        sheet.limit("httpSettings.maxRequestsPerConnection", "limits the use of a connection", is_set);
        let because = "backends see the client's own `x-request-id`";
        sheet.opening("httpSettings.preserveExternalRequestId", because, allowed(*preserve_external_request_id));
        sheet.free("httpSettings.preserveHttp1HeaderCase", "the spelling of headers", preserve_http1_header_case);
        sheet.free("httpSettings.proxy100Continue", "the server that answers `Expect`", proxy_100_continue);
        let because = "a response header that names Envoy";
        sheet.free("httpSettings.serverHeaderTransformation", because, server_header_transformation);
        sheet.free("httpSettings.serverName", because, server_name);
        sheet.equal("httpSettings.skipXFFAppend", "the client addresses that backends trust", skip_xff_append);
        let because = "limits how long a client may hold a stream";
        sheet.limit("httpSettings.streamIdleTimeout", because, is_time(stream_idle_timeout));
        let because = "the form of the host; the routes of this host keep their protection";
        sheet.free("httpSettings.stripHostPortMode", because, strip_host_port_mode);
        sheet.free("httpSettings.stripTrailingHostDot", because, strip_trailing_host_dot);
        sheet.free("httpSettings.tracing", "spans; they protect no request", tracing);
        upgrades(upgrade_config.as_ref(), sheet);
        sheet.equal("httpSettings.useRemoteAddress", "decides which address is the client's", use_remote_address);
        sheet.free("httpSettings.uuidRequestIdConfig", "identities for logs and traces", uuid_request_id_config);
        sheet.equal("httpSettings.xffNumTrustedHops", "decides which address is the client's", xff_num_trusted_hops);
        sheet.equal("httpSettings.xffTrustedCIDRs", "decides which address is the client's", xff_trusted_cidrs);
    }
}

fn http2(options: Option<&Http2ProtocolOptions>, sheet: &mut Sheet) {
    let Http2ProtocolOptions {
        allow_connect,
        initial_connection_window_size: _,
        initial_stream_window_size: _,
        max_concurrent_streams: _,
    } = options.cloned().unwrap_or_default();
    let because = "limits the memory that a client uses in Envoy; any figure is a limit";
    sheet.limit("httpSettings.http2ProtocolOptions", because, options.is_some());
    let field = "httpSettings.http2ProtocolOptions.allowConnect";
    sheet.opening(field, "streams may become tunnels", allowed(allow_connect));
}

fn upgrades(config: Option<&UpgradeConfig>, sheet: &mut Sheet) {
    let UpgradeConfig { enabled_upgrades } = config.cloned().unwrap_or_default();
    let upgrades = enabled_upgrades.iter().map(ToString::to_string);
    sheet.opening("httpSettings.upgradeConfig", "the protocols to which connections may be upgraded", upgrades);
}
