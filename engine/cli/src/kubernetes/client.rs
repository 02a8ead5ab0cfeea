//! Client of the API server.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::failure::Failure;

/// A client with the configuration of the command line. Sends no request yet, so an unavailable API server is no error.
///
/// # Errors
/// Returns an error if there is no configuration, or it cannot be used.
pub async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, Failure> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let failure =
                |error: &dyn std::fmt::Display| Failure::usage(format!("--kubeconfig {}: {error}", path.display()));
            let file = Kubeconfig::read_from(path).map_err(|error| failure(&error))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| failure(&error))?
        }
        None if context.is_some() => {
            let failure = |error| Failure::usage(format!("--kube-context: {error}"));
            Config::from_kubeconfig(&options).await.map_err(failure)?
        }
        None => Config::infer().await.map_err(|error| {
            Failure::usage(format!(
                "neither an API server nor --manifests is configured (set --kubeconfig FILE or --manifests DIR): \
                 {error}"
            ))
        })?,
    };
    let server = config.cluster_url.clone();
    let client = Client::try_from(config).map_err(|error| Failure::usage(format!("API server {server}: {error}")))?;
    tracing::info!(%server, "uses an API server");
    Ok(client)
}
