//! Connection of an Envoy in a Pod to an xDS server with authentication: TLS, and the token of the ServiceAccount on
//! every call. Certificate authorities and token are files that Envoy reloads when they change.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_envoy::bootstrap::credentials::injecting;
use serde_json::{Value, json};

use super::Operator;
use super::deployment::{BOOTSTRAP_FOLDER, TOKEN_FOLDER};

/// File of the certificate authorities that are trusted for the xDS server.
const AUTHORITIES: &str = "ca.crt";
/// Files with the certificate authorities and the token, as SDS responses.
const SDS_AUTHORITIES: &str = "sds-authorities.json";
const SDS_TOKEN: &str = "sds-token.json";
/// Names of both in SDS.
const AUTHORITIES_NAME: &str = "holdfast-xds-authorities";
const TOKEN_NAME: &str = "holdfast-xds-token";
/// The cluster of the xDS server is the first cluster of a bootstrap.
const CLUSTER: &str = "/static_resources/clusters/0";
const OPTIONS: &str = "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const TYPES: &str = "type.googleapis.com/envoy";

/// Files beside the bootstrap; none if no certificate authority is set, which means that the connection has no TLS.
pub(super) fn files(operator: &Operator) -> BTreeMap<&'static str, String> {
    let Some(pem) = &operator.authorities else { return BTreeMap::new() };
    // Envoy compares an IP address with the IP addresses of a certificate only, and in the shortest form of IPv6.
    let san = match address(operator) {
        Some(address) => json!({ "san_type": "IP_ADDRESS", "matcher": { "exact": address.to_string() } }),
        None => json!({ "san_type": "DNS", "matcher": { "exact": operator.server_name } }),
    };
    let authorities = json!({
        "name": AUTHORITIES_NAME,
        "validation_context": {
            "trusted_ca": { "filename": format!("{BOOTSTRAP_FOLDER}/{AUTHORITIES}") },
            "match_typed_subject_alt_names": [san],
        },
    });
    let token = json!({
        "name": TOKEN_NAME,
        "generic_secret": { "secret": { "filename": format!("{TOKEN_FOLDER}/token") } },
    });
    [(AUTHORITIES, pem.clone()), (SDS_AUTHORITIES, response(authorities)), (SDS_TOKEN, response(token))].into()
}

/// IP address of the xDS server, if Envoys do not reach it by a name.
fn address(operator: &Operator) -> Option<IpAddr> {
    operator.server_name.trim_matches(['[', ']']).parse().ok()
}

fn response(mut secret: Value) -> String {
    if let Some(fields) = secret.as_object_mut() {
        fields.insert("@type".into(), json!(format!("{TYPES}.extensions.transport_sockets.tls.v3.Secret")));
    }
    json!({ "resources": [secret] }).to_string()
}

/// Configures TLS and the token in the cluster of the xDS server.
pub(super) fn secure(bootstrap: &mut Value, operator: &Operator) {
    if operator.authorities.is_none() {
        return;
    }
    let Some(cluster) = bootstrap.pointer_mut(CLUSTER) else { return };
    let sds = |name: &str, file: &str, folder: &str| {
        let path = format!("{BOOTSTRAP_FOLDER}/{file}");
        // Kubernetes updates a volume by a change of the symbolic link to its folder.
        let source = json!({ "path": path, "watched_directory": { "path": folder } });
        json!({ "name": name, "sds_config": { "path_config_source": source, "resource_api_version": "V3" } })
    };
    let mut socket = json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": format!("{TYPES}.extensions.transport_sockets.tls.v3.UpstreamTlsContext"),
            "common_tls_context": {
                "tls_params": { "tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3" },
                "alpn_protocols": ["h2"],
                "validation_context_sds_secret_config": sds(AUTHORITIES_NAME, SDS_AUTHORITIES, BOOTSTRAP_FOLDER),
            },
        },
    });
    // TLS allows a name as server name (SNI), but not an IP address.
    if address(operator).is_none()
        && let Some(context) = socket.pointer_mut("/typed_config")
    {
        super::put(context, "sni", Some(&operator.server_name));
    }
    super::put(cluster, "transport_socket", Some(socket));
    if let Some(options) = cluster.pointer_mut(OPTIONS) {
        super::put(options, "http_filters", Some(injecting(&sds(TOKEN_NAME, SDS_TOKEN, TOKEN_FOLDER))));
    }
}
