//! The keys that the API server signs tokens of ServiceAccounts with.

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use kube::Client;
use tonic::codegen::http::Request;

use crate::run::xds::keys::KeySource;

/// Where the API server tells them; every ServiceAccount may ask by default.
pub(super) const PATH: &str = "/openid/v1/jwks";

/// Asks an API server.
pub struct ServerKeys(pub Client);

impl KeySource for ServerKeys {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            let request = Request::get(PATH).body(Vec::new()).context(PATH)?;
            let text = self.0.request_text(request).await;
            Ok(text.with_context(|| format!("the API server does not tell its keys ({PATH})"))?.into_bytes())
        })
    }
}
