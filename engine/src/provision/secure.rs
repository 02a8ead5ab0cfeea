//! How an Envoy in a Pod speaks with the xDS server where that is trusted by name: TLS, and the token of its
//! ServiceAccount with every call. Both are files that are read again when they change.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::Operator;
use super::deployment::{BOOTSTRAP_FOLDER, TOKEN_FOLDER};

/// The file of those who are trusted to be the xDS server.
const AUTHORITIES: &str = "ca.crt";
/// The files that tell Envoy of them, and of the token, in the form of a response of SDS.
const SDS_AUTHORITIES: &str = "sds-authorities.json";
const SDS_TOKEN: &str = "sds-token.json";
/// The names of both in SDS.
const AUTHORITIES_NAME: &str = "holdfast-xds-authorities";
const TOKEN_NAME: &str = "holdfast-xds-token";
/// The cluster of the xDS server is the first of a bootstrap.
const CLUSTER: &str = "/static_resources/clusters/0";
const OPTIONS: &str = "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const TYPES: &str = "type.googleapis.com/envoy";

/// The files beside the bootstrap; none where nobody is trusted, which means that no TLS is spoken.
pub(super) fn files(operator: &Operator) -> BTreeMap<&'static str, String> {
    let Some(pem) = &operator.authorities else { return BTreeMap::new() };
    // Envoy compares an address with the addresses of a certificate only, and in the shortest form of IPv6.
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

/// The address by which Envoys reach the xDS server, where they have no name for it.
fn address(operator: &Operator) -> Option<IpAddr> {
    operator.server_name.trim_matches(['[', ']']).parse().ok()
}

fn response(mut secret: Value) -> String {
    if let Some(fields) = secret.as_object_mut() {
        fields.insert("@type".into(), json!(format!("{TYPES}.extensions.transport_sockets.tls.v3.Secret")));
    }
    json!({ "resources": [secret] }).to_string()
}

/// Makes the cluster of the xDS server speak TLS, and show the token.
pub(super) fn secure(bootstrap: &mut Value, operator: &Operator) {
    if operator.authorities.is_none() {
        return;
    }
    let Some(cluster) = bootstrap.pointer_mut(CLUSTER) else { return };
    let sds = |name: &str, file: &str, folder: &str| {
        let path = format!("{BOOTSTRAP_FOLDER}/{file}");
        // A volume is changed by giving its folder another one to point at.
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
    // TLS has server names for names only.
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

/// The filters by which the cluster of the xDS server shows a token with every call; where the token is, is said in the
/// form of SDS.
pub(crate) fn injecting(token: &Value) -> Value {
    json!([
        {
            "name": "envoy.filters.http.credential_injector",
            "typed_config": {
                "@type": format!("{TYPES}.extensions.filters.http.credential_injector.v3.CredentialInjector"),
                "overwrite": true,
                "credential": {
                    "name": "envoy.http.injected_credentials.generic",
                    "typed_config": {
                        "@type": format!("{TYPES}.extensions.http.injected_credentials.generic.v3.Generic"),
                        "credential": token,
                        "header": "Authorization",
                        "header_value_prefix": "Bearer ",
                    },
                },
            },
        },
        {
            "name": "envoy.filters.http.upstream_codec",
            "typed_config": { "@type": format!("{TYPES}.extensions.filters.http.upstream_codec.v3.UpstreamCodec") },
        },
    ])
}
