//! A bucket of Secrets in one namespace: what several replicas share.
//!
//! Each blob is a Secret of its own, found by a label. Its revision is that of the API server, so that of two writers one
//! is refused. It is asked from the thread that shares, which may wait.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdfast_store::StoreError;
use holdfast_store::shards::{Bucket, Expected, Put, Revision};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Client, Error};
use tokio::runtime::Handle;

use super::leader::within;

/// What the names begin with.
const PREFIX: &str = "holdfast-store-";
/// The label that all of them carry.
const LABEL: &str = "holdfast.dev/store";
const VALUE: &str = "shared";
/// The type of the Secrets, and the key under which the blob stands.
const TYPE: &str = "holdfast.dev/store";
const KEY: &str = "blob";

/// See the module.
pub(crate) struct SecretBucket {
    api: Api<Secret>,
    runtime: Handle,
}

impl SecretBucket {
    /// Secrets of a namespace. To be made in the runtime, and used outside of it.
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), runtime: Handle::current() }
    }

    fn ask<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.runtime.block_on(within(request))
    }

    fn secret(name: &str, bytes: &Bytes, revision: Option<&Revision>) -> Secret {
        Secret {
            metadata: ObjectMeta {
                name: Some(format!("{PREFIX}{name}")),
                labels: Some(BTreeMap::from([(LABEL.to_owned(), VALUE.to_owned())])),
                resource_version: revision.map(ToString::to_string),
                ..ObjectMeta::default()
            },
            type_: Some(TYPE.to_owned()),
            data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(bytes.to_vec()))])),
            ..Secret::default()
        }
    }

    fn create(&self, name: &str, bytes: &Bytes) -> Result<Put, Error> {
        written(self.ask(self.api.create(&PostParams::default(), &Self::secret(name, bytes, None))))
    }

    fn replace(&self, name: &str, bytes: &Bytes, revision: Option<&Revision>) -> Result<Put, Error> {
        let (secret, params) = (Self::secret(name, bytes, revision), PostParams::default());
        written(self.ask(self.api.replace(&format!("{PREFIX}{name}"), &params, &secret)))
    }
}

/// A write that was refused since it is not as it was expected to be is no trouble.
fn written(outcome: Result<Secret, Error>) -> Result<Put, Error> {
    match outcome {
        Ok(secret) => Ok(Put::Written(secret.metadata.resource_version.unwrap_or_default().into())),
        Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Put::Conflict),
        Err(error) => Err(error),
    }
}

/// Never shows what was sent.
fn trouble(error: &Error) -> StoreError {
    StoreError::Unavailable(format!("the API server does not give or take Secrets: {error}"))
}

impl Bucket for SecretBucket {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        let params = ListParams::default().labels(&format!("{LABEL}={VALUE}"));
        let found = self.ask(self.api.list_metadata(&params)).map_err(|error| trouble(&error))?;
        let names = found.items.into_iter().filter_map(|secret| secret.metadata.name);
        Ok(names.filter_map(|name| name.strip_prefix(PREFIX).map(str::to_owned)).collect())
    }

    fn get(&self, name: &str) -> Result<Option<(Bytes, Revision)>, StoreError> {
        let found = self.ask(self.api.get_opt(&format!("{PREFIX}{name}"))).map_err(|error| trouble(&error))?;
        Ok(found.map(|secret| {
            let blob = secret.data.unwrap_or_default().remove(KEY).unwrap_or_default();
            (blob.0.into(), secret.metadata.resource_version.unwrap_or_default().into())
        }))
    }

    fn put(&self, name: &str, bytes: Bytes, expected: &Expected) -> Result<Put, StoreError> {
        let outcome = match expected {
            Expected::Absent => self.create(name, &bytes),
            Expected::At(revision) => self.replace(name, &bytes, Some(revision)),
            Expected::Anything => match self.create(name, &bytes) {
                // It is there: then it is replaced, whatever it holds.
                Ok(Put::Conflict) => self.replace(name, &bytes, None),
                outcome => outcome,
            },
        };
        outcome.map_err(|error| trouble(&error))
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        match self.ask(self.api.delete(&format!("{PREFIX}{name}"), &DeleteParams::default())) {
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            outcome => outcome.map(drop).map_err(|error| trouble(&error)),
        }
    }
}
