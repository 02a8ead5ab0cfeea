//! What can go wrong at the store's boundary.

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A record is over the limit.
    #[error("{name} is too large: {bytes} bytes, at most {max} are stored")]
    TooLarge {
        /// The object or resource.
        name: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// There is more of something than the limit.
    #[error("{count} {what}; at most {max} are stored")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// What was read is not what was written.
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
    /// There is no store there.
    #[error("there is no store at {0}")]
    Absent(String),
    /// Another has written what several share, since it was read here.
    #[error("another has written what is shared, since it was read")]
    Conflict,
    /// The files below cannot be used.
    #[error("the store's files cannot be used: {0}")]
    Unavailable(String),
}

impl StoreError {
    /// Would the same batch be refused again, whenever it is tried?
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::TooMany { .. })
    }
}
