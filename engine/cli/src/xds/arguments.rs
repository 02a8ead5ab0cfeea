//! Flags of the xDS server, and the protection that they configure.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use holdfast_engine::identity::names;
use holdfast_engine::identity::token::Rules;
use holdfast_xds::Fleets;

use crate::arguments::{ListenAddress, socket_address, socket_path};
use crate::cli::EnvoyMode;
use crate::failure::Failure;
use crate::headings;

/// The listen address of the xDS server, and the authentication of Envoys.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = headings::XDS)]
pub struct XdsArgs {
    /// Listen address of the xDS server: unix:PATH, or ADDRESS:PORT [default: unix:<data-dir>/xds.sock]
    ///
    /// Without TLS, every client that can connect is trusted to be an Envoy of the Gateway that it names, and receives
    /// that Gateway's private keys: therefore only loopback addresses and unix sockets are accepted.
    #[arg(long, env = "CONTROLLER_XDS_LISTEN", value_name = "ADDR")]
    pub xds_listen: Option<XdsListen>,
    /// File of the server certificate (PEM, with its chain); reloaded when it changes
    #[arg(long, env = "CONTROLLER_XDS_TLS_CERT", value_name = "PATH")]
    pub xds_tls_cert: Option<PathBuf>,
    /// File of its private key (PEM)
    #[arg(long, env = "CONTROLLER_XDS_TLS_KEY", value_name = "PATH")]
    pub xds_tls_key: Option<PathBuf>,
    /// File of the authorities that sign the client certificates of Envoys (PEM); these certificates name the Gateway
    #[arg(long, env = "CONTROLLER_XDS_CLIENT_CA", value_name = "PATH")]
    pub xds_client_ca: Option<PathBuf>,
    /// Trust domain in the URIs of client certificates, spiffe://DOMAIN/gateway/NAMESPACE/NAME
    #[arg(long, env = "CONTROLLER_XDS_TRUST_DOMAIN", value_name = "DOMAIN", default_value = names::TRUST_DOMAIN)]
    #[arg(value_parser = trust_domain)]
    pub xds_trust_domain: String,
    /// Accept tokens of ServiceAccounts with this audience: a token of the ServiceAccount NAME-holdfast belongs to the
    /// Gateway NAME in its namespace
    #[arg(long, env = "CONTROLLER_XDS_TOKEN_AUDIENCE", value_name = "AUDIENCE")]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub xds_token_audience: Option<String>,
    /// Issuer of these tokens
    #[arg(long, env = "CONTROLLER_XDS_TOKEN_ISSUER", value_name = "URL")]
    #[arg(default_value = "https://kubernetes.default.svc.cluster.local")]
    pub xds_token_issuer: String,
    /// File of the public keys that sign these tokens (a JSON Web Key Set); reloaded when it changes [default: the keys
    /// are fetched from the API server, and kept for a day while it is unavailable]
    #[arg(long, env = "CONTROLLER_XDS_TOKEN_JWKS", value_name = "PATH")]
    pub xds_token_jwks: Option<PathBuf>,
    /// How virtual hosts are sent to Envoys: whole, all hosts of a route configuration after each edit; or separate, only
    /// the edited hosts (VHDS), to Envoys from version 1.40 on
    #[arg(long, env = "CONTROLLER_XDS_VIRTUAL_HOSTS", value_name = "FORM", default_value = "whole")]
    pub xds_virtual_hosts: VirtualHostForm,
    /// Serve without TLS on an address that other hosts can reach, and trust every client about its Gateway
    #[arg(long, env = "CONTROLLER_INSECURE_XDS", value_name = "BOOL", default_value_t = false)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub insecure_xds: bool,
}

/// The form in which virtual hosts are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VirtualHostForm {
    /// All hosts of a route configuration in one resource.
    #[default]
    Whole,
    /// Each host as a resource.
    Separate,
}

impl VirtualHostForm {
    /// Returns the state of an xDS server that uses this form.
    pub fn fleets(self) -> Fleets {
        match self {
            VirtualHostForm::Whole => Fleets::new(),
            VirtualHostForm::Separate => Fleets::with_separate_hosts(),
        }
    }
}

/// The listen address of the xDS server: any address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdsListen(pub ListenAddress);

impl FromStr for XdsListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) => socket_path(path).map(ListenAddress::Unix).map(Self),
            None => socket_address(text).map(ListenAddress::Tcp).map(Self),
        }
    }
}

/// The protection of the xDS server against unauthenticated peers.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerProtection {
    /// Only users of this host can reach the server.
    None,
    /// No protection: every client that reaches this address is trusted.
    Insecure(SocketAddr),
    /// TLS with authentication of clients.
    Tls(Box<Protected>),
}

/// The files of the server, and the accepted proofs of clients.
#[derive(Debug, PartialEq, Eq)]
pub struct Protected {
    /// File of the certificate.
    pub certificate: PathBuf,
    /// File of its key.
    pub key: PathBuf,
    /// File of the authorities of client certificates, if these are accepted.
    pub client_ca: Option<PathBuf>,
    /// The trust domain in the names of Gateways.
    pub trust_domain: String,
    /// The accepted tokens, if any.
    pub tokens: Option<Tokens>,
}

/// The accepted tokens.
#[derive(Debug, PartialEq, Eq)]
pub struct Tokens {
    /// The required claims.
    pub rules: Rules,
    /// File of the keys that sign the tokens; without it the keys are fetched from the API server.
    pub key_set: Option<PathBuf>,
}

impl XdsArgs {
    /// The protection that the flags configure.
    ///
    /// # Errors
    /// Returns an error if the protection is insufficient, or the flags contradict each other; it describes the remedy.
    pub fn protection(&self, envoys: EnvoyMode, has_api_server: bool) -> Result<ServerProtection, Failure> {
        let wrong = |why: &str| Err(Failure::usage(why));
        let address = match &self.xds_listen {
            Some(XdsListen(ListenAddress::Tcp(address))) => Some(*address),
            Some(XdsListen(ListenAddress::Unix(_))) | None => None,
        };
        let (Some(certificate), Some(key)) = (self.xds_tls_cert.clone(), self.xds_tls_key.clone()) else {
            if self.xds_tls_cert.is_some() || self.xds_tls_key.is_some() {
                return wrong("--xds-tls-cert and --xds-tls-key must be set together");
            }
            if self.xds_client_ca.is_some() || self.xds_token_audience.is_some() || self.xds_token_jwks.is_some() {
                return wrong(
                    "--xds-client-ca and --xds-token-... need TLS: set --xds-tls-cert and --xds-tls-key too \
                     (`holdfast certgen` makes certificates)",
                );
            }
            return match address {
                Some(address) if !address.ip().is_loopback() && self.insecure_xds => {
                    Ok(ServerProtection::Insecure(address))
                }
                Some(address) if !address.ip().is_loopback() => Err(Failure::usage(format!(
                    "--xds-listen {address}: this address is not a loopback address, and any client that reaches it could read the private keys of every Gateway. Serve over TLS with --xds-tls-cert, --xds-tls-key and --xds-client-ca (`holdfast \
                     certgen` makes the certificates), listen on a loopback address or a unix socket, or set --insecure-xds if no other client reaches it"
                ))),
                _ => Ok(ServerProtection::None),
            };
        };
        if address.is_none() {
            return wrong("--xds-tls-cert needs an address: set --xds-listen ADDRESS:PORT");
        }
        if self.insecure_xds {
            return wrong("--insecure-xds and --xds-tls-cert contradict each other");
        }
        if envoys == EnvoyMode::Managed {
            return wrong(
                "--xds-tls-cert is for Envoys that Holdfast does not start: set --envoy none (managed Envoys use a socket of this host)",
            );
        }
        if self.xds_client_ca.is_none() && self.xds_token_audience.is_none() {
            return wrong(
                "with --xds-tls-cert Envoys have to prove to which Gateway they belong: set --xds-client-ca for certificates, --xds-token-audience for tokens of ServiceAccounts, or both",
            );
        }
        let tokens = match (&self.xds_token_audience, &self.xds_token_jwks) {
            (Some(audience), key_set) if has_api_server || key_set.is_some() => {
                let rules = Rules { audience: audience.clone(), issuer: self.xds_token_issuer.clone() };
                Some(Tokens { rules, key_set: key_set.clone() })
            }
            (Some(_), _) => {
                return wrong("--xds-token-audience needs the keys that verify tokens: set --xds-token-jwks");
            }
            (None, Some(_)) => {
                return wrong("--xds-token-jwks needs --xds-token-audience: the audience of accepted tokens");
            }
            (None, None) => None,
        };
        let (client_ca, trust_domain) = (self.xds_client_ca.clone(), self.xds_trust_domain.clone());
        Ok(ServerProtection::Tls(Box::new(Protected { certificate, key, client_ca, trust_domain, tokens })))
    }
}

/// Parses a trust domain, in the form of a URI's host.
pub fn trust_domain(text: &str) -> Result<String, String> {
    let is_legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_');
    if text.is_empty() || text.len() > 253 || !text.bytes().all(is_legal) {
        return Err("expected at most 253 lower-case letters, digits, dots, dashes and underscores".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        xds: XdsArgs,
    }

    fn protection(line: &str, envoys: EnvoyMode) -> Result<ServerProtection, String> {
        let words = std::iter::once("x").chain(line.split(' ').filter(|word| !word.is_empty()));
        Line::try_parse_from(words).unwrap().xds.protection(envoys, false).map_err(|failure| failure.to_string())
    }

    #[test]
    fn what_others_can_reach_is_served_over_tls_or_not_at_all() {
        for line in ["", "--xds-listen unix:/x", "--xds-listen 127.0.0.1:1", "--xds-listen [::1]:1"] {
            assert_eq!(protection(line, EnvoyMode::Managed), Ok(ServerProtection::None), "{line}");
        }
        let reachable = "--xds-listen 0.0.0.0:18000";
        let error = protection(reachable, EnvoyMode::None).unwrap_err();
        for flag in ["--xds-listen 0.0.0.0:18000", "--xds-tls-cert", "--insecure-xds", "certgen"] {
            assert!(error.contains(flag), "{flag}: {error}");
        }
        let insecure = protection(&format!("{reachable} --insecure-xds"), EnvoyMode::None);
        assert_eq!(insecure, Ok(ServerProtection::Insecure("0.0.0.0:18000".parse().unwrap())));
        let tls = format!("{reachable} --xds-tls-cert c --xds-tls-key k --xds-client-ca a");
        let Ok(ServerProtection::Tls(protected)) = protection(&tls, EnvoyMode::None) else { panic!("no TLS") };
        assert_eq!((protected.client_ca, protected.tokens), (Some("a".into()), None));
        assert_eq!(protected.trust_domain, "holdfast.dev");
        let tokens = "--xds-tls-cert c --xds-tls-key k --xds-token-audience h --xds-token-jwks j --xds-token-issuer i";
        let tls = format!("--xds-listen 127.0.0.1:1 {tokens}");
        let Ok(ServerProtection::Tls(protected)) = protection(&tls, EnvoyMode::None) else { panic!("no TLS") };
        let rules = Rules { audience: "h".into(), issuer: "i".into() };
        assert_eq!(protected.tokens, Some(Tokens { rules, key_set: Some("j".into()) }));
        // The keys are fetched from the API server.
        let line = "x --xds-listen 127.0.0.1:1 --xds-tls-cert c --xds-tls-key k --xds-token-audience h";
        let xds = Line::try_parse_from(line.split(' ')).unwrap().xds;
        let Ok(ServerProtection::Tls(protected)) = xds.protection(EnvoyMode::None, true) else { panic!("no TLS") };
        assert_eq!(protected.tokens.unwrap().key_set, None);
    }

    #[test]
    fn contradicting_flags_are_reported() {
        let pair = "--xds-listen 127.0.0.1:1 --xds-tls-cert c --xds-tls-key k";
        for (line, names) in [
            ("--xds-tls-cert c".to_owned(), "--xds-tls-key"),
            ("--xds-tls-key c".to_owned(), "--xds-tls-cert"),
            ("--xds-client-ca a".to_owned(), "need TLS"),
            ("--xds-token-audience a".to_owned(), "need TLS"),
            ("--xds-tls-cert c --xds-tls-key k --xds-client-ca a".to_owned(), "--xds-listen"),
            ("--xds-listen unix:/x --xds-tls-cert c --xds-tls-key k --xds-client-ca a".to_owned(), "--xds-listen"),
            (pair.to_owned(), "--xds-client-ca"),
            (format!("{pair} --xds-client-ca a --insecure-xds"), "contradict"),
            (format!("{pair} --xds-token-audience a"), "--xds-token-jwks"),
            (format!("{pair} --xds-client-ca a --xds-token-jwks j"), "--xds-token-audience"),
        ] {
            let error = protection(&line, EnvoyMode::None).unwrap_err();
            assert!(error.contains(names), "{line}: {error}");
        }
        let managed = protection(&format!("{pair} --xds-client-ca a"), EnvoyMode::Managed).unwrap_err();
        assert!(managed.contains("--envoy none"));
    }
}
