//! Credentials of an Envoy for the xDS server, in its bootstrap: files that Envoy reloads when they change.
//!
//! Envoy watches the folder of its certificate only if the certificate comes by SDS. So two small files, in the form of
//! SDS responses, refer to the certificate and the authorities.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use holdfast_translate::provision::secure;
use serde_json::{Value, json};

use crate::arguments::ServerAddress;
use crate::failure::Failure;

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

/// Flags of the credentials in a bootstrap.
#[derive(Clone, Debug, Args)]
pub struct CredentialArgs {
    /// Folder, as the Envoy sees it, of its certificate (tls.crt, tls.key) and of the authority of the server (ca.crt),
    /// with the SDS files that `holdfast certgen` writes: the Envoy connects with mutual TLS
    #[arg(long, env = "CONTROLLER_XDS_CREDENTIALS", value_name = "DIR")]
    pub xds_credentials: Option<PathBuf>,
    /// File, as the Envoy sees it, of a token of the Gateway's ServiceAccount, which replaces the certificate; a file
    /// sds-token.yaml in the folder of --xds-credentials must refer to it (see --print)
    #[arg(long, env = "CONTROLLER_XDS_TOKEN", value_name = "PATH", requires = "xds_credentials")]
    pub xds_token: Option<PathBuf>,
    /// Name in the server's certificate [default: the host of --xds]
    #[arg(long, env = "CONTROLLER_XDS_SERVER_NAME", value_name = "NAME")]
    pub xds_server_name: Option<String>,
    /// Content to print: a certificate that `holdfast certgen` did not make also needs the SDS files
    #[arg(long, env = "CONTROLLER_PRINT", value_enum, default_value_t = Printed::Bootstrap)]
    pub print: Printed,
}

/// The content that `holdfast bootstrap` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Printed {
    /// The bootstrap
    Bootstrap,
    /// The file sds-certificate.yaml for the folder of --xds-credentials
    SdsCertificate,
    /// The file sds-authorities.yaml for that folder
    SdsAuthorities,
    /// The file sds-token.yaml for that folder
    SdsToken,
}

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

impl CredentialArgs {
    /// The credentials that the flags describe, if any.
    ///
    /// # Errors
    /// Returns an error if the flags are incomplete or contradict each other.
    pub fn credentials(&self, xds: &ServerAddress) -> Result<Option<Credentials>, Failure> {
        let Some(folder) = &self.xds_credentials else {
            return match (self.print, &self.xds_server_name) {
                (Printed::Bootstrap, None) => Ok(None),
                _ => Err(Failure::usage("--xds-server-name and --print sds-... need --xds-credentials")),
            };
        };
        let ServerAddress::Tcp(host, _) = xds else {
            return Err(Failure::usage("--xds-credentials: a unix socket does not use TLS; set --xds HOST:PORT"));
        };
        if !folder.is_absolute() {
            return Err(Failure::usage("--xds-credentials: the path must be absolute, as the Envoy sees it"));
        }
        if self.xds_token.as_ref().is_some_and(|token| !token.is_absolute()) {
            return Err(Failure::usage("--xds-token: the path must be absolute, as the Envoy sees it"));
        }
        if self.print == Printed::SdsToken && self.xds_token.is_none() {
            return Err(Failure::usage("--print sds-token: set the path of the token with --xds-token"));
        }
        let server_name = self.xds_server_name.clone().unwrap_or_else(|| host.clone());
        let (folder, token) = (folder.clone(), self.xds_token.clone());
        Ok(Some(Credentials { sds: folder.clone(), folder, token, server_name }))
    }
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
        Some(secure::injecting(&json!({ "name": TOKEN_NAME, "sds_config": source })))
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cli::DataFormat;
    use crate::output;

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
        let text = output::format(&all, DataFormat::Yaml).unwrap();
        holdfast_golden::check(concat!(env!("CARGO_MANIFEST_DIR"), "/src/xds/credentials.golden.yaml"), &text);
        let by_address = Credentials { server_name: "10.0.0.1".into(), ..credentials }.transport_socket();
        assert!(by_address.to_string().contains("IP_ADDRESS") && by_address.pointer("/typed_config/sni").is_none());
    }

    #[test]
    fn ambiguous_credential_flags_are_refused() {
        let tcp = ServerAddress::Tcp("holdfast.infra.svc".into(), 18000);
        let args = |folder: Option<&str>, name: Option<&str>, print| CredentialArgs {
            xds_credentials: folder.map(Into::into),
            xds_token: None,
            xds_server_name: name.map(Into::into),
            print,
        };
        let found = args(Some("/x"), None, Printed::Bootstrap).credentials(&tcp).unwrap().unwrap();
        assert_eq!(found.server_name, "holdfast.infra.svc");
        assert_eq!(args(None, None, Printed::Bootstrap).credentials(&tcp).unwrap(), None);
        args(None, Some("x"), Printed::Bootstrap).credentials(&tcp).unwrap_err();
        args(None, None, Printed::SdsCertificate).credentials(&tcp).unwrap_err();
        args(Some("/x"), None, Printed::SdsToken).credentials(&tcp).unwrap_err();
        let token =
            |path: &str| CredentialArgs { xds_token: Some(path.into()), ..args(Some("/x"), None, Printed::SdsToken) };
        assert!(token("/t").credentials(&tcp).unwrap().unwrap().token.is_some());
        token("t").credentials(&tcp).unwrap_err();
        args(Some("x"), None, Printed::Bootstrap).credentials(&tcp).unwrap_err();
        args(Some("/x"), None, Printed::Bootstrap).credentials(&ServerAddress::Unix("/s".into())).unwrap_err();
    }
}
