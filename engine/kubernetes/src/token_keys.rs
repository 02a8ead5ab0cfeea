//! Keys with which the API server signs tokens of ServiceAccounts.

use anyhow::{Context, Result};
use hyper::http::Request;
use kube::Client;

/// The path of the keys; by default every ServiceAccount may read it.
pub(crate) const PATH: &str = "/openid/v1/jwks";

/// A source of keys: the API server.
pub struct ServerKeys(pub Client);

impl ServerKeys {
    /// The current keys, as a JSON Web Key Set.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer with a text.
    pub async fn fetch(&self) -> Result<Vec<u8>> {
        let request = Request::get(PATH).body(Vec::new()).context(PATH)?;
        let text = self.0.request_text(request).await;
        let named = || format!("cannot fetch the keys of ServiceAccount tokens from the API server ({PATH})");
        Ok(text.with_context(named)?.into_bytes())
    }
}
