//! Flags of data planes.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use holdfast_kubernetes::planes::DataPlaneOptions;

use crate::arguments::ServerAddress;
use crate::headings;

/// The default image of Envoy.
pub const IMAGE: &str = "envoyproxy/envoy:distroless-v1.40.0";
/// The port of the xDS server.
const XDS_PORT: u16 = 18000;
/// The default namespace, if the one in which Holdfast runs is unknown.
const NAMESPACE: &str = "holdfast-system";

/// The settings of deployed Envoys.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = headings::PROVISION)]
pub struct ProvisionArgs {
    /// Deploy and maintain Envoys for each Gateway: a Deployment, a Service and what they need [default: true with an
    /// API server, unless --envoy is managed]
    #[arg(long, env = "CONTROLLER_PROVISION", value_name = "BOOL", conflicts_with = "manifests")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub provision: Option<bool>,
    /// Image of the deployed Envoys, unless parameters name one
    #[arg(long, env = "CONTROLLER_PROVISION_IMAGE", value_name = "IMAGE", default_value = IMAGE)]
    pub provision_image: String,
    /// Image of Holdfast for a container next to each deployed Envoy, which drains it when its Pod is terminated
    /// [default: none]
    #[arg(long, env = "CONTROLLER_PROVISION_DRAIN_IMAGE", value_name = "IMAGE")]
    pub provision_drain_image: Option<String>,
    /// Address of the xDS server for the deployed Envoys [default: holdfast.NAMESPACE.svc:18000, of $POD_NAMESPACE]
    #[arg(long, env = "CONTROLLER_PROVISION_XDS_ADDRESS", value_name = "HOST:PORT")]
    pub provision_xds_address: Option<ServerAddress>,
    /// File (PEM) of the authorities by which deployed Envoys verify the xDS server: with it they use TLS, and
    /// authenticate with the token of their ServiceAccount
    #[arg(long, env = "CONTROLLER_PROVISION_XDS_AUTHORITIES", value_name = "FILE")]
    pub provision_xds_authorities: Option<PathBuf>,
    /// Audience of the token by which deployed Envoys authenticate to the xDS server
    #[arg(long, env = "CONTROLLER_PROVISION_TOKEN_AUDIENCE", value_name = "NAME", default_value = "holdfast.dev/xds")]
    pub provision_token_audience: String,
    /// Addresses in the status of Gateways for which no Envoys are deployed
    #[arg(long, env = "CONTROLLER_GATEWAY_ADDRESSES", value_name = "ADDRESS", value_delimiter = ',', num_args = 1..)]
    pub gateway_addresses: Vec<String>,
}

impl ProvisionArgs {
    /// The options that all data planes have in common.
    pub(crate) fn options(&self) -> DataPlaneOptions {
        DataPlaneOptions {
            image: self.provision_image.clone(),
            drain_image: self.provision_drain_image.clone(),
            token_audience: self.provision_token_audience.clone(),
            xds: self.xds_address(),
            authorities: self.provision_xds_authorities.clone(),
        }
    }

    /// The address of the xDS server for Envoys.
    fn xds_address(&self) -> ServerAddress {
        let namespace = || std::env::var("POD_NAMESPACE").ok().filter(|namespace| !namespace.is_empty());
        let default = || {
            let namespace = namespace().unwrap_or_else(|| NAMESPACE.into());
            ServerAddress::Tcp(format!("holdfast.{namespace}.svc"), XDS_PORT)
        };
        self.provision_xds_address.clone().unwrap_or_else(default)
    }
}
