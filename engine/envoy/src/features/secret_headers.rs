//! Headers with values from Secrets.
//!
//! A filter of their own sets them, so that the admin pages can recognize them: settings under that filter's name are
//! shown without values.

use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::HeaderMutationPerRoute;

use super::header_mutation::HeaderMutations;

/// Maximum number of headers from one Secret.
pub const ENTRIES_MAX: usize = 64;

/// Headers with secret values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretHeaders {
    headers: HeaderMutations,
}

/// Omits the values.
impl std::fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = |edits: &super::headers::HeaderEdits| edits.set.len() + edits.add.len();
        write!(f, "SecretHeaders({} and {} headers)", count(&self.headers.request), count(&self.headers.response))
    }
}

impl SecretHeaders {
    /// Creates the headers of both directions.
    pub fn new(headers: HeaderMutations) -> Self {
        Self { headers }
    }

    /// Returns whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.headers == HeaderMutations::default()
    }

    /// Returns the per-route configuration.
    pub fn encode(&self) -> HeaderMutationPerRoute {
        self.headers.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::headers::HeaderEdits;

    #[test]
    fn values_are_not_shown() {
        let request = HeaderEdits { set: vec![("x-key".into(), "canary".into())], ..HeaderEdits::default() };
        let headers = SecretHeaders::new(HeaderMutations { request, ..HeaderMutations::default() });
        assert_eq!(format!("{headers:?}"), "SecretHeaders(1 and 0 headers)");
        assert!(!headers.is_empty() && SecretHeaders::default().is_empty());
    }
}
