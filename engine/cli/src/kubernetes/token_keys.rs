//! Keys with which the API server signs tokens of ServiceAccounts.

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use kube::Client;
use tonic::codegen::http::Request;

use crate::xds::keys::KeySetSource;

/// The path of the keys; by default every ServiceAccount may read it.
pub(super) const PATH: &str = "/openid/v1/jwks";

/// A source of keys: the API server.
pub struct ServerKeys(pub Client);

impl KeySetSource for ServerKeys {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            let request = Request::get(PATH).body(Vec::new()).context(PATH)?;
            let text = self.0.request_text(request).await;
            Ok(text
                .with_context(|| {
                    format!("cannot fetch the keys of ServiceAccount tokens from the API server ({PATH})")
                })?
                .into_bytes())
        })
    }
}
