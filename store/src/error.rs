//! Errors of the store.

/// Reason why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A record over the limit.
    #[error("{name} is too large: {bytes} bytes, at most {max} are stored")]
    TooLarge {
        /// The object or resource.
        name: String,
        /// Size of the record.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A number of entries over the limit.
    #[error("{count} {what}; at most {max} are stored")]
    TooMany {
        /// The kind of the entries.
        what: &'static str,
        /// The number.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// A record that differs from what was written.
    #[error("the record of {name} is damaged")]
    Damaged {
        /// The object or resource.
        name: String,
    },
    /// The disk is full.
    #[error("there is no space left on the disk: {0}")]
    Full(String),
    /// Another process uses the store's folder.
    #[error("another process uses {0}")]
    InUse(String),
    /// There is no store at the path.
    #[error("there is no store at {0}")]
    Absent(String),
    /// Another process has written to the shared store since it was read here.
    #[error("another process has written to the shared store since it was read")]
    Conflict,
    /// The files of the store cannot be used.
    #[error("the store's files cannot be used: {0}")]
    Unavailable(String),
}

impl StoreError {
    /// Returns whether a batch with this error would be refused again, whenever it is tried.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::TooMany { .. })
    }
}
