//! Flags with the settings of HTTPProxies.

use clap::Args;
use holdfast_api::settings::Proxies;

use super::rate_limits::RateLimitArgs;
use crate::arguments::{GatewayName, SecretName};
use crate::failure::Failure;
use crate::headings;

/// Settings of HTTPProxies.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = headings::PROXIES)]
pub struct ProxyArgs {
    /// Gateway with the listeners that serve HTTPProxies [default: two dedicated listeners]
    #[arg(long, env = "CONTROLLER_HTTPPROXY_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub httpproxy_gateway: Option<GatewayName>,
    /// Port of the listener of HTTPProxies without TLS
    #[arg(long, env = "CONTROLLER_HTTPPROXY_HTTP", value_name = "PORT", default_value_t = 8080)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub httpproxy_http: u16,
    /// Port of the listener of HTTPProxies with TLS
    #[arg(long, env = "CONTROLLER_HTTPPROXY_HTTPS", value_name = "PORT", default_value_t = 8443)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub httpproxy_https: u16,
    /// Namespaces in which root HTTPProxies are allowed [default: all]
    #[arg(long, env = "CONTROLLER_ROOT_NAMESPACES", value_name = "NAMESPACE", value_delimiter = ',')]
    pub root_namespaces: Vec<String>,
    /// Classes of HTTPProxies that are served [default: contour, and HTTPProxies without a class]
    #[arg(long, env = "CONTROLLER_INGRESS_CLASS_NAMES", value_name = "CLASS", value_delimiter = ',')]
    pub ingress_class_names: Vec<String>,
    /// The service for global rate limits.
    #[command(flatten)]
    pub rate_limits: RateLimitArgs,
    /// Secret with the certificate for clients that send no server name (SNI); HTTPProxies with
    /// `tls.enableFallbackCertificate` are also served to these clients
    #[arg(help_heading = headings::PROXIES)]
    #[arg(long, env = "CONTROLLER_HTTPPROXY_FALLBACK_CERTIFICATE", value_name = "NAMESPACE/NAME")]
    pub httpproxy_fallback_certificate: Option<SecretName>,
    /// Secret with the client certificate that Services and ExtensionServices of HTTPProxies get over TLS
    #[arg(help_heading = headings::PROXIES)]
    #[arg(long, env = "CONTROLLER_HTTPPROXY_CLIENT_CERTIFICATE", value_name = "NAMESPACE/NAME")]
    pub httpproxy_client_certificate: Option<SecretName>,
}

impl ProxyArgs {
    pub(super) fn settings(&self) -> Result<Proxies, Failure> {
        if self.httpproxy_http == self.httpproxy_https {
            return Err(Failure::usage("--httpproxy-http and --httpproxy-https must be two ports"));
        }
        let list = |list: &[String]| list.iter().map(|entry| entry.as_str().into()).collect();
        Ok(Proxies {
            gateway: self.httpproxy_gateway.as_ref().map(GatewayName::key),
            http_port: self.httpproxy_http,
            https_port: self.httpproxy_https,
            root_namespaces: list(&self.root_namespaces),
            ingress_classes: list(&self.ingress_class_names),
            rate_limit: self.rate_limits.settings()?,
            fallback_certificate: self.httpproxy_fallback_certificate.as_ref().map(SecretName::key),
            client_certificate: self.httpproxy_client_certificate.as_ref().map(SecretName::key),
        })
    }
}
