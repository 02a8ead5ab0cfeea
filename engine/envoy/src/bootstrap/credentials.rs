//! Credentials of an Envoy for the xDS server, in its bootstrap: files that Envoy reloads when they change.
//!
//! Envoy watches the folder of its certificate only if the certificate comes by SDS. So two small files, in the form of
//! SDS responses, refer to the certificate and the authorities.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The file of the Envoy's certificate, with its chain.
pub const CERTIFICATE: &str = "tls.crt";
/// The file of its key.
pub const KEY: &str = "tls.key";
/// The file of the authorities that sign the server's certificate.
pub const AUTHORITIES: &str = "ca.crt";
/// The SDS file that refers to the Envoy's certificate.
pub const SDS_CERTIFICATE: &str = "sds-certificate.yaml";
/// The SDS file that refers to the authorities.
pub const SDS_AUTHORITIES: &str = "sds-authorities.yaml";

/// The SDS file that refers to the token.
pub const SDS_TOKEN: &str = "sds-token.yaml";

/// The SDS names of these secrets.
const TOKEN_NAME: &str = "holdfast-xds-token";
const CERTIFICATE_NAME: &str = "holdfast-xds-certificate";
const AUTHORITIES_NAME: &str = "holdfast-xds-authorities";

/// The credentials of an Envoy, and its verification of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The folder of its certificate, absolute, as the Envoy sees it.
    pub folder: PathBuf,
    /// The folder of the SDS files, often the same one.
    pub sds: PathBuf,
    /// The file of a token that replaces the certificate, absolute, as the Envoy sees it.
    pub token: Option<PathBuf>,
    /// The name in the server's certificate.
    pub server_name: String,
}

impl Credentials {
    /// The transport socket of the cluster of the xDS server.
    pub fn transport_socket(&self) -> Value {
        let by_address = self.server_name.parse::<std::net::IpAddr>().is_ok();
        let kind = if by_address { "IP_ADDRESS" } else { "DNS" };
        let from = |name: &str, file: &str| {
            let source = json!({ "path_config_source": { "path": self.sds.join(file) }, "resource_api_version": "V3" });
            json!({ "name": name, "sds_config": source })
        };
        let mut context = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {
                "alpn_protocols": ["h2"],
                "tls_params": { "tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3" },
                "combined_validation_context": {
                    "default_validation_context": {
                        "match_typed_subject_alt_names": [
                            { "san_type": kind, "matcher": { "exact": self.server_name } },
                        ],
                    },
                    "validation_context_sds_secret_config": from(AUTHORITIES_NAME, SDS_AUTHORITIES),
                },
            },
        });
        let shown = || json!([from(CERTIFICATE_NAME, SDS_CERTIFICATE)]);
        if let (None, Some(common)) =
            (&self.token, context.pointer_mut("/common_tls_context").and_then(Value::as_object_mut))
        {
            common.insert("tls_certificate_sds_secret_configs".into(), shown());
        }
        if !by_address && let Some(fields) = context.as_object_mut() {
            fields.insert("sni".into(), json!(self.server_name));
        }
        json!({ "name": "envoy.transport_sockets.tls", "typed_config": context })
    }

    /// The HTTP filters of the cluster of the xDS server, which add the token to every call; `None` without a token.
    pub fn http_filters(&self) -> Option<Value> {
        // A volume is updated by a change of the link to its current folder.
        let watched = json!({ "path": self.token.as_ref()?.parent()? });
        let source = json!({ "path": self.sds.join(SDS_TOKEN), "watched_directory": watched });
        let source = json!({ "path_config_source": source, "resource_api_version": "V3" });
        Some(injecting(&json!({ "name": TOKEN_NAME, "sds_config": source })))
    }

    /// The contents of [`SDS_TOKEN`].
    pub fn sds_token(token: &Path) -> Value {
        secret(TOKEN_NAME, "generic_secret", json!({ "secret": { "filename": token } }))
    }

    /// The contents of [`SDS_CERTIFICATE`].
    pub fn sds_certificate(folder: &Path) -> Value {
        let file = |name: &str| json!({ "filename": folder.join(name) });
        secret(
            CERTIFICATE_NAME,
            "tls_certificate",
            json!({
                "certificate_chain": file(CERTIFICATE),
                "private_key": file(KEY),
                "watched_directory": { "path": folder },
            }),
        )
    }

    /// The contents of [`SDS_AUTHORITIES`].
    pub fn sds_authorities(folder: &Path) -> Value {
        let authorities = json!({ "filename": folder.join(AUTHORITIES) });
        let watched = json!({ "path": folder });
        secret(
            AUTHORITIES_NAME,
            "validation_context",
            json!({ "trusted_ca": authorities, "watched_directory": watched }),
        )
    }
}

fn secret(name: &str, field: &str, value: Value) -> Value {
    let mut secret = json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        "name": name,
    });
    if let Some(fields) = secret.as_object_mut() {
        fields.insert(field.into(), value);
    }
    json!({ "resources": [secret] })
}

/// HTTP filters that add the token to every call to the xDS server; `token` is the SDS configuration of the token.
pub fn injecting(token: &Value) -> Value {
    json!([
        {
            "name": "envoy.filters.http.credential_injector",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
                "overwrite": true,
                "credential": {
                    "name": "envoy.http.injected_credentials.generic",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic",
                        "credential": token,
                        "header": "Authorization",
                        "header_value_prefix": "Bearer ",
                    },
                },
            },
        },
        {
            "name": "envoy.filters.http.upstream_codec",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec",
            },
        },
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::yaml;

    #[test]
    fn credentials_match_the_golden_file() {
        let folder = PathBuf::from("/etc/holdfast/xds");
        let (sds, server_name) = (folder.clone(), "holdfast.infra.svc".to_owned());
        let credentials = Credentials { folder: folder.clone(), sds, token: None, server_name };
        assert_eq!(credentials.http_filters(), None);
        let token = Some(PathBuf::from("/var/run/token"));
        let with_token = Credentials { token: token.clone(), ..credentials.clone() };
        let all = json!({
            "transport_socket": credentials.transport_socket(),
            "sds_certificate": Credentials::sds_certificate(&folder),
            "sds_authorities": Credentials::sds_authorities(&folder),
            "with_token": {
                "transport_socket": with_token.transport_socket(),
                "http_filters": with_token.http_filters(),
                "sds_token": token.as_deref().map(Credentials::sds_token),
            },
        });
        let text = yaml::text(&all).unwrap();
        holdfast_golden::check(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bootstrap/credentials.golden.yaml"), &text);
        let by_address = Credentials { server_name: "10.0.0.1".into(), ..credentials }.transport_socket();
        assert!(by_address.to_string().contains("IP_ADDRESS") && by_address.pointer("/typed_config/sni").is_none());
    }
}
