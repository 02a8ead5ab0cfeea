//! Client of the API server.

use std::path::Path;

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// An API server cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be read or used.
    #[error("--kubeconfig {0}: {1}")]
    Kubeconfig(String, KubeconfigError),
    /// The context does not exist.
    #[error("--kube-context: {0}")]
    Context(KubeconfigError),
    /// There is no configuration.
    #[error("neither an API server nor --manifests is configured (set --kubeconfig FILE or --manifests DIR): {0}")]
    NotConfigured(InferConfigError),
    /// The configuration of the connection cannot be used.
    #[error("API server {0}: {1}")]
    Connection(String, kube::Error),
}

/// A client with the configuration of the command line. Sends no request yet, so an unavailable API server is no error.
///
/// # Errors
/// Returns an error if there is no configuration, or it cannot be used.
pub async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, ClientError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let failure = |error| ClientError::Kubeconfig(path.display().to_string(), error);
            let file = Kubeconfig::read_from(path).map_err(failure)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(failure)?
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await.map_err(ClientError::Context)?,
        None => Config::infer().await.map_err(ClientError::NotConfigured)?,
    };
    let server = config.cluster_url.clone();
    let client = Client::try_from(config).map_err(|error| ClientError::Connection(server.to_string(), error))?;
    tracing::info!(%server, "uses an API server");
    Ok(client)
}
