//! Bucket of Secrets in one namespace, which several replicas share.
//!
//! Each blob is a Secret, found by a label and recognized by its type. Its revision is the resource version, so that
//! the API server rejects one of two concurrent writes. The bucket is used from the thread that shares, which may
//! block. A Secret with such a name that has another type or exceeds the size limit is read as an empty blob, which the
//! reader treats as damaged.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdfast_store::StoreError;
use holdfast_store::shards::{BLOB_BYTES_MAX, Bucket, Expected, LEAVES_MAX, NAME_BYTES_MAX, Put, Revision};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Client, Error};
use tokio::runtime::Handle;

use crate::leader::within;

/// The type of the Secrets, by which watches exclude them.
pub const TYPE: &str = "holdfast.dev/shared-store";
/// The label of all these Secrets; its value is the owner.
const LABEL: &str = "holdfast.dev/shared-store";
/// The key of the blob in the data.
const KEY: &str = "blob";
/// Maximum length of the owner, in bytes: the limit of a label value. Owner and blob name form the name of a Secret.
pub const OWNER_BYTES_MAX: usize = 63;
/// Names per page of a list, and limit in pages.
const PAGE: u32 = 500;
const SECRET_PAGES_MAX: usize = 4 * LEAVES_MAX / PAGE as usize;
/// Maximum number of attempts of a write that conflicts with other writers.
const SECRET_READ_TRIES_MAX: usize = 3;

const _: () = assert!(OWNER_BYTES_MAX + SEPARATOR.len() + NAME_BYTES_MAX <= 253);
// The API server accepts at most 1 MiB.
const _: () = assert!(BLOB_BYTES_MAX <= 1024 * 1024);

/// Separator between the owner and the name of a blob.
const SEPARATOR: &str = "-shared-";

/// A bucket of Secrets.
pub struct SecretBucket {
    api: Api<Secret>,
    owner: String,
    runtime: Handle,
}

impl SecretBucket {
    /// The Secrets of an owner in a namespace. Must be created in the runtime, and used from a thread that may block.
    pub fn new(client: Client, namespace: &str, owner: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), owner: owner.to_owned(), runtime: Handle::current() }
    }

    fn block_on<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.runtime.block_on(within(request))
    }

    fn name(&self, blob: &str) -> String {
        format!("{}{SEPARATOR}{blob}", self.owner)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        [("app.kubernetes.io/managed-by", "holdfast"), (LABEL, &self.owner)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn secret(&self, name: &str, bytes: &Bytes, revision: Option<&Revision>) -> Secret {
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name(name)),
                labels: Some(self.labels()),
                resource_version: revision.map(ToString::to_string),
                ..ObjectMeta::default()
            },
            type_: Some(TYPE.to_owned()),
            data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(bytes.to_vec()))])),
            ..Secret::default()
        }
    }

    fn create(&self, name: &str, bytes: &Bytes) -> Result<Put, Error> {
        written(self.block_on(self.api.create(&PostParams::default(), &self.secret(name, bytes, None))))
    }

    /// Replaces a blob. A Secret of another type cannot become a blob, so it is deleted first.
    fn replace(&self, name: &str, bytes: &Bytes, revision: Option<&Revision>) -> Result<Put, Error> {
        let (secret, params) = (self.secret(name, bytes, revision), PostParams::default());
        match written(self.block_on(self.api.replace(&self.name(name), &params, &secret))) {
            Err(Error::Api(status)) if status.code == 422 => match self.remove(name, revision) {
                Err(Error::Api(status)) if status.code == 409 => Ok(Put::Conflict),
                outcome => outcome.and_then(|()| self.create(name, bytes)),
            },
            outcome => outcome,
        }
    }

    fn remove(&self, name: &str, revision: Option<&Revision>) -> Result<(), Error> {
        let as_read =
            revision.map(|revision| Preconditions { resource_version: Some(revision.to_string()), uid: None });
        let params = DeleteParams { preconditions: as_read, ..DeleteParams::default() };
        match self.block_on(self.api.delete(&self.name(name), &params)) {
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Writes a blob whatever exists. Other writers may create or remove it meanwhile.
    fn overwrite(&self, name: &str, bytes: &Bytes) -> Result<Put, Error> {
        for _ in 0..SECRET_READ_TRIES_MAX {
            let outcome = match self.create(name, bytes)? {
                Put::Conflict => self.replace(name, bytes, None)?,
                created => created,
            };
            if outcome != Put::Conflict {
                return Ok(outcome);
            }
        }
        Err(Error::Service("others write and remove it at the same time".into()))
    }
}

/// A write that was rejected because of an unexpected state is a conflict, not an error.
fn written(outcome: Result<Secret, Error>) -> Result<Put, Error> {
    match outcome {
        Ok(secret) => Ok(Put::Written(secret.metadata.resource_version.unwrap_or_default().into())),
        Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Put::Conflict),
        Err(error) => Err(error),
    }
}

/// The blob of a Secret; empty if the Secret is not a valid blob.
fn blob(secret: Secret) -> Bytes {
    let is_ours = secret.type_.as_deref() == Some(TYPE);
    let blob = secret.data.filter(|_| is_ours).and_then(|mut data| data.remove(KEY)).unwrap_or_default().0;
    if blob.len() <= BLOB_BYTES_MAX { blob.into() } else { Bytes::new() }
}

/// The error never contains the content of a request.
fn unavailable(error: &Error) -> StoreError {
    StoreError::Unavailable(format!("cannot read or write Secrets of the shared store: {error}"))
}

impl Bucket for SecretBucket {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        let (prefix, mut names) = (self.name(""), Vec::new());
        let mut params = ListParams::default().labels(&format!("{LABEL}={}", self.owner)).limit(PAGE);
        for _ in 0..SECRET_PAGES_MAX {
            let page = self.block_on(self.api.list_metadata(&params)).map_err(|error| unavailable(&error))?;
            let of_page = page.items.into_iter().filter_map(|secret| secret.metadata.name);
            names.extend(of_page.filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned)));
            match page.metadata.continue_.filter(|more| !more.is_empty()) {
                Some(more) => params = params.continue_token(&more),
                None => return Ok(names),
            }
        }
        Err(StoreError::Unavailable(
            "there are more Secrets with the label of the shared store than Holdfast creates".into(),
        ))
    }

    fn get(&self, name: &str) -> Result<Option<(Bytes, Revision)>, StoreError> {
        let found = self.block_on(self.api.get_opt(&self.name(name))).map_err(|error| unavailable(&error))?;
        Ok(found.map(|mut secret| {
            let revision = secret.metadata.resource_version.take().unwrap_or_default().into();
            (blob(secret), revision)
        }))
    }

    fn put(&self, name: &str, bytes: Bytes, expected: &Expected) -> Result<Put, StoreError> {
        let outcome = match expected {
            Expected::Absent => self.create(name, &bytes),
            Expected::At(revision) => self.replace(name, &bytes, Some(revision)),
            Expected::Anything => self.overwrite(name, &bytes),
        };
        outcome.map_err(|error| unavailable(&error))
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.remove(name, None).map_err(|error| unavailable(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(kind: &str, bytes: usize) -> Secret {
        let data = BTreeMap::from([(KEY.to_owned(), ByteString(vec![1; bytes]))]);
        Secret { type_: Some(kind.to_owned()), data: Some(data), ..Secret::default() }
    }

    #[test]
    fn what_is_no_blob_is_an_empty_one() {
        assert_eq!(blob(secret(TYPE, 3)).len(), 3);
        assert_eq!(blob(secret(TYPE, BLOB_BYTES_MAX)).len(), BLOB_BYTES_MAX);
        assert!(blob(secret(TYPE, BLOB_BYTES_MAX + 1)).is_empty(), "more than a blob has");
        assert!(blob(secret("Opaque", 3)).is_empty(), "somebody else's");
        assert!(blob(Secret { data: None, ..secret(TYPE, 3) }).is_empty());
    }
}
