//! What can go wrong at the store's boundary.

use crate::record::PAYLOAD_BYTES_MAX;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A record is over the limit.
    #[error("{name} has {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are stored")]
    TooLarge {
        /// The object or resource.
        name: String,
        /// Its size.
        bytes: usize,
    },
    /// What was read is not what was written.
    #[error("the record of {name} is damaged")]
    Damaged {
        /// The object or resource.
        name: String,
    },
}
