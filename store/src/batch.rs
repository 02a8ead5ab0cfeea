//! Changes that are committed together.

use holdfast_graph::ObjectKey;

use crate::error::StoreError;
use crate::record::{PAYLOAD_BYTES_MAX, Scope, StoredObject, StoredResource};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A version of an object was proven good in a scope.
    Promote(Scope, StoredObject),
    /// An object was deleted: its versions go, in every scope.
    Forget(ObjectKey),
    /// This is the configuration that was acknowledged in a scope, as a whole.
    Acknowledge(Scope, Vec<StoredResource>),
    /// A Gateway is gone: everything of its scopes goes.
    ForgetGateway(std::sync::Arc<str>),
}

/// Changes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    changes: Vec<Change>,
}

impl Batch {
    /// Adds a change.
    #[must_use]
    pub fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// The changes, in order.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Checks every payload against the limits.
    ///
    /// # Errors
    /// Names the first record that is too large.
    pub fn check(&self) -> Result<(), StoreError> {
        let too_large = |name: String, bytes: usize| match bytes > PAYLOAD_BYTES_MAX {
            true => Err(StoreError::TooLarge { name, bytes }),
            false => Ok(()),
        };
        self.changes.iter().try_for_each(|change| match change {
            Change::Promote(_, object) => too_large(object.key.to_string(), object.payload.len()),
            Change::Acknowledge(_, resources) => {
                resources.iter().try_for_each(|resource| too_large(resource.name.to_string(), resource.body.len()))
            }
            Change::Forget(_) | Change::ForgetGateway(_) => Ok(()),
        })
    }
}
