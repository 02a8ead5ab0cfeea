//! `holdfast bootstrap`: prints a bootstrap configuration for an Envoy, or the credentials that it names.

use std::process::ExitCode;

use clap::Args;
use holdfast_envoy::bootstrap::{Bootstrap, Credentials, MAX_CONNECTIONS, MAX_HEAP_BYTES};

use crate::arguments::{self, GatewayName, ListenAddress, Switchable};
use crate::cli::{DataFormat, XdsMode};
use crate::failure::Failure;
use crate::output;
use crate::xds::credentials::{CredentialArgs, Printed};

/// `holdfast bootstrap`.
#[derive(Debug, Args)]
pub struct BootstrapArgs {
    /// Gateway of the Envoy
    #[arg(long, env = "CONTROLLER_GATEWAY", value_name = "NAMESPACE/NAME")]
    pub gateway: GatewayName,
    /// Address of the xDS server: unix:PATH, or HOST:PORT
    #[arg(long, env = "CONTROLLER_XDS", value_name = "ADDR", default_value = "127.0.0.1:18000")]
    pub xds: arguments::ServerAddress,
    /// The credentials of the Envoy.
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// Listen address of Envoy's admin interface: unix:PATH, a loopback ADDRESS:PORT, or none. Every client with access
    /// to it controls the Envoy
    #[arg(long, env = "CONTROLLER_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:19000")]
    pub admin: Switchable<ListenAddress>,
    /// Variant of the protocol: delta sends only changes
    #[arg(long, env = "CONTROLLER_XDS_MODE", value_enum, default_value_t = XdsMode::Delta)]
    pub xds_mode: XdsMode,
    /// node.id, the name of this Envoy [default: the Gateway's name and "envoy"]
    #[arg(long, env = "CONTROLLER_NODE_ID", value_name = "ID")]
    pub node_id: Option<String>,
    /// Heap size (bytes) at which the Envoy rejects requests; slightly less than the limit of its pod or host
    #[arg(long, env = "CONTROLLER_MAX_HEAP_BYTES", value_name = "BYTES", default_value_t = MAX_HEAP_BYTES)]
    #[arg(value_parser = clap::value_parser!(u64).range(64 * 1024 * 1024..))]
    pub max_heap_bytes: u64,
    /// Maximum number of connections from clients, at which the Envoy accepts no more
    #[arg(long, env = "CONTROLLER_MAX_CONNECTIONS", value_name = "COUNT", default_value_t = MAX_CONNECTIONS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
}

/// Prints the bootstrap configuration, or the requested form of the credentials.
///
/// # Errors
/// Returns an error if it is unclear how the Envoy proves which Gateway it belongs to.
pub fn run(args: BootstrapArgs) -> Result<ExitCode, Failure> {
    let printed = args.credentials.print;
    let bootstrap = bootstrap(args)?;
    let value = match (printed, &bootstrap.credentials) {
        (Printed::SdsCertificate, Some(credentials)) => Credentials::sds_certificate(&credentials.folder),
        (Printed::SdsAuthorities, Some(credentials)) => Credentials::sds_authorities(&credentials.folder),
        (Printed::SdsToken, Some(Credentials { token: Some(token), .. })) => Credentials::sds_token(token),
        _ => bootstrap.to_json(),
    };
    output::print(&output::format(&value, DataFormat::Yaml)?)
}

/// The bootstrap that the command line describes.
fn bootstrap(args: BootstrapArgs) -> Result<Bootstrap, Failure> {
    let gateway = args.gateway.0;
    Ok(Bootstrap {
        node_id: args.node_id.unwrap_or_else(|| format!("{}-envoy", gateway.replace('/', "-"))),
        gateway,
        credentials: args.credentials.credentials(&args.xds)?,
        xds: args.xds,
        admin: args.admin.0,
        mode: args.xds_mode.into(),
        max_heap_bytes: args.max_heap_bytes,
        max_connections: args.max_connections,
    })
}
