//! Settings of the engine, from the flags of `holdfast run`.

use std::net::{IpAddr, Ipv4Addr};

use holdfast_api::settings::Settings;

use super::ports;
use crate::cli::EnvoyMode;
use crate::commands::run::RunArgs;
use crate::failure::Failure;

/// The settings that the flags describe.
///
/// # Errors
/// Returns an error if flags contradict each other.
pub(super) fn settings(args: &RunArgs) -> Result<Settings, Failure> {
    let in_cluster = args.manifests.is_empty() && args.envoys() == EnvoyMode::None;
    if args.provision.provision == Some(true) && !in_cluster {
        return Err(Failure::usage(
            "--provision needs an API server and --envoy none: Holdfast deploys Envoys in a cluster, or starts them \
             on this host, not both",
        ));
    }
    let provision = in_cluster && args.provision.provision.unwrap_or(args.listen_address.is_none());
    // Envoys in Pods have their own host, on which they may bind any port.
    let shared = args.listen_address.or((!in_cluster).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let low_port_shift = shared.map_or(0, ports::low_port_shift);
    if low_port_shift != 0 {
        tracing::info!(
            "this process has no permission to bind ports below 1024: Envoy listens on these ports plus \
             {low_port_shift}"
        );
    }
    let mut settings = args.translation.settings()?;
    // Users with write access to EndpointSlices must not reach services on the loopback addresses of Envoy hosts.
    settings.allow_loopback_backends &=
        !args.manifests.is_empty() || args.translation.allow_loopback_backends.is_some();
    if args.translation.allow_health_checks_by_name.is_none() {
        settings.allow_health_checks_by_name = settings.allow_loopback_backends;
    }
    settings.fallback.ack_timeout_ms = u64::try_from(args.ack_timeout.as_millis()).unwrap_or(u64::MAX);
    settings.fallback.stores_credentials = args.store_key.store_key_file.is_some();
    let addresses = args.provision.gateway_addresses.iter().map(|address| address.as_str().into()).collect();
    Ok(Settings { listen_address: shared, low_port_shift, provision, addresses, ..settings })
}
