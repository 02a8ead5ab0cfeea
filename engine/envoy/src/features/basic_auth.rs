//! HTTP basic authentication: model, validation, Envoy form.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::extensions::filters::http::basic_auth::v3::{BasicAuth as Envoy, BasicAuthPerRoute};

use super::Flaw;

/// Maximum number of users in one policy.
pub const USERS_MAX: usize = 4096;
/// Size of a SHA-1 hash in bytes.
const HASH_BYTES: usize = 20;
/// Prefix of the only hash format that Envoy supports.
const HASH_PREFIX: &str = "{SHA}";

/// Users with the hashes of their passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicAuthUsers {
    /// Lines of a htpasswd file; at least one.
    users: Arc<str>,
}

/// Omits the hashes.
impl std::fmt::Debug for BasicAuthUsers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BasicAuth({} users)", self.users.lines().count())
    }
}

impl BasicAuthUsers {
    /// Reads lines of a htpasswd file. Messages of flaws do not repeat their content.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, Flaw> {
        let mut names = BTreeSet::new();
        let mut users = Vec::new();
        for (index, line) in lines.into_iter().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let flaw = |message: &str| Flaw::new(format!("[{index}]"), message);
            let (name, hash) =
                line.split_once(':').ok_or_else(|| flaw("must be a name, a colon and the hash of a password"))?;
            if name.is_empty() || hash.is_empty() {
                return Err(flaw("must be a name, a colon and the hash of a password"));
            }
            let hash = hash
                .strip_prefix(HASH_PREFIX)
                .ok_or_else(|| flaw("the hash must begin with {SHA}, as `htpasswd -s` makes it"))?;
            if STANDARD.decode(hash).map_or(0, |bytes| bytes.len()) != HASH_BYTES {
                return Err(flaw("after {SHA} there must be 20 bytes in base64"));
            }
            if !names.insert(name) {
                return Err(flaw("the name of the user is listed twice"));
            }
            users.push(line);
        }
        match users.len() {
            0 => Err(Flaw::new("", "there is no user, so that no request would be allowed")),
            1..=USERS_MAX => Ok(Self { users: users.join("\n").into() }),
            _ => Err(Flaw::new("", format!("must have at most {USERS_MAX} users"))),
        }
    }

    /// Returns the per-route configuration, with the users.
    pub fn encode(&self) -> BasicAuthPerRoute {
        BasicAuthPerRoute { users: Some(inline(&self.users)) }
    }

    /// Returns the configuration of the filter in the chain, which has no users.
    pub(crate) fn in_chain() -> Envoy {
        Envoy { users: Some(inline("#")), ..Default::default() }
    }
}

fn inline(text: &str) -> DataSource {
    DataSource { specifier: Some(Specifier::InlineString(text.into())), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_and_hashes_are_never_shown() {
        let good = "alice:{SHA}d95o2uzYI7q7tY7bHI4U1xBug7s=";
        assert!(BasicAuthUsers::read([good, "", "# others"]).is_ok());
        let wrong = [
            "alice",
            "alice:",
            ":{SHA}d95o2uzYI7q7tY7bHI4U1xBug7s=",
            "alice:$apr1$x$y",
            "alice:{SHA}d95o2uzYI7q7",
            "alice:{SHA}?",
        ];
        for line in wrong {
            let flaw = BasicAuthUsers::read([line]).err().map(|flaw| flaw.message).unwrap_or_default();
            assert!(!flaw.is_empty() && !flaw.contains("d95o"), "{line}: {flaw}");
        }
        assert!(BasicAuthUsers::read([good, good]).is_err());
        assert!(BasicAuthUsers::read([]).is_err());
        let shown = format!("{:?}", BasicAuthUsers::read([good]));
        assert!(!shown.contains("d95o"), "{shown}");
    }
}
