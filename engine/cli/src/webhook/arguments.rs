//! Flags of the admission webhook.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::socket_address;
use crate::failure::Failure;
use crate::headings;

/// What the webhook does about an object with a fault of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WebhookMode {
    /// The object is stored, and the user sees a warning
    #[default]
    Warn,
    /// The object is not stored
    Deny,
}

impl WebhookMode {
    /// The name, as in the flag.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// The admission webhook.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = headings::WEBHOOK)]
pub struct WebhookArgs {
    /// Listen address of the validating admission webhook (path /review): ADDRESS:PORT [default: none, no webhook]
    #[arg(long, env = "CONTROLLER_WEBHOOK_LISTEN", value_name = "ADDR", value_parser = socket_address)]
    #[arg(requires = "webhook_tls_cert", requires = "webhook_tls_key")]
    pub webhook_listen: Option<SocketAddr>,
    /// What the webhook does about an object that cannot be served as written because of a fault of its own
    #[arg(long, env = "CONTROLLER_WEBHOOK_MODE", value_enum, default_value_t = WebhookMode::Warn)]
    pub webhook_mode: WebhookMode,
    /// File of the webhook's certificate with its chain, in PEM; reloaded when it changes
    #[arg(long, env = "CONTROLLER_WEBHOOK_TLS_CERT", value_name = "FILE")]
    pub webhook_tls_cert: Option<PathBuf>,
    /// File of the private key of that certificate, in PEM
    #[arg(long, env = "CONTROLLER_WEBHOOK_TLS_KEY", value_name = "FILE")]
    pub webhook_tls_key: Option<PathBuf>,
}

impl WebhookArgs {
    /// The address with the files of certificate and key; `None` without a webhook.
    ///
    /// # Errors
    /// Returns an error if flags are missing.
    pub(super) fn listen(&self) -> Result<Option<(SocketAddr, PathBuf, PathBuf)>, Failure> {
        match (self.webhook_listen, &self.webhook_tls_cert, &self.webhook_tls_key) {
            (None, None, None) => Ok(None),
            (Some(address), Some(certificate), Some(key)) => Ok(Some((address, certificate.clone(), key.clone()))),
            _ => Err(Failure::usage("--webhook-listen, --webhook-tls-cert and --webhook-tls-key must be set together")),
        }
    }
}
