//! Certificates in Secrets: each shelf is one Secret, read and applied through the API server.
//!
//! A Secret is applied only at the resource version at which it was read: of two concurrent renewals the API server
//! rejects one, which succeeds in its next run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use holdfast_kubernetes::client;
use holdfast_kubernetes::leader::within;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::{Client, Error};
use tokio::runtime::Runtime;

use super::shelf::{Shelf, ShelfContents};
use crate::failure::Failure;

/// The type of Secrets with a certificate and its key.
pub(super) const TLS: &str = "kubernetes.io/tls";
/// The field manager.
pub(super) const AS: &str = "holdfast-certgen";
/// Maximum number of keys of a Secret that are read.
const SECRET_KEYS_MAX: usize = 64;

/// A connection to an API server.
pub(super) struct Secrets {
    pub(super) runtime: Runtime,
    pub(super) client: Client,
}

impl Secrets {
    /// The API server that the command line names. Sends no request yet.
    ///
    /// # Errors
    /// Returns an error if no API server is configured.
    pub(super) fn of(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
        let client = runtime.block_on(client::client(kubeconfig, context))?;
        Ok(Self { runtime, client })
    }

    /// A Secret of the given type.
    pub(super) fn shelf(&self, namespace: &str, name: &str, kind: &'static str) -> SecretShelf<'_> {
        let api = Api::namespaced(self.client.clone(), namespace);
        let named = format!("Secret {namespace}/{name}");
        SecretShelf { runtime: &self.runtime, api, name: name.to_owned(), named, kind, revision: RefCell::new(None) }
    }
}

/// A Secret.
pub(super) struct SecretShelf<'a> {
    runtime: &'a Runtime,
    api: Api<Secret>,
    name: String,
    /// The name for messages.
    named: String,
    kind: &'static str,
    /// The resource version at which the Secret was read.
    revision: RefCell<Option<String>>,
}

impl Shelf for SecretShelf<'_> {
    fn read(&self) -> Result<ShelfContents> {
        let found = self.runtime.block_on(within(self.api.get_opt(&self.name)));
        let Some(secret) = found.with_context(|| self.named.clone())? else { return Ok(ShelfContents::new()) };
        if secret.type_.as_deref() != Some(self.kind) {
            let kind = secret.type_.unwrap_or_default();
            bail!(
                "{} is of type {kind} instead of {}: Holdfast did not create it; delete it first, or use another name",
                self.named,
                self.kind
            );
        }
        self.revision.replace(secret.metadata.resource_version);
        let data = secret.data.unwrap_or_default();
        Ok(data.into_iter().take(SECRET_KEYS_MAX).map(|(name, bytes)| (name, bytes.0)).collect())
    }

    fn write(&self, contents: &ShelfContents) -> Result<()> {
        let data: BTreeMap<String, ByteString> =
            contents.iter().map(|(name, bytes)| (name.clone(), ByteString(bytes.clone()))).collect();
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: self.revision.borrow().clone(),
                ..ObjectMeta::default()
            },
            type_: Some(self.kind.to_owned()),
            data: Some(data),
            ..Secret::default()
        };
        let params = PatchParams::apply(AS).force();
        match self.runtime.block_on(within(self.api.patch(&self.name, &params, &Patch::Apply(&secret)))) {
            Ok(written) => {
                self.revision.replace(written.metadata.resource_version);
                Ok(())
            }
            Err(Error::Api(status)) if status.code == 409 => {
                bail!("{}: another client has changed it meanwhile; run this command again", self.named)
            }
            // The content is not part of the message.
            Err(error) => Err(error).with_context(|| format!("{} cannot be written", self.named)),
        }
    }
}
