//! TLSCertificateDelegation: the namespaces with HTTPProxies that may use the certificates of another namespace.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// A TLSCertificateDelegation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delegation {
    /// The delegations.
    #[serde(default)]
    pub delegations: Vec<CertificateDelegation>,
}

/// One Secret, and the namespaces that may use it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateDelegation {
    /// The Secret, in the namespace of the delegation.
    pub secret_name: Arc<str>,
    /// The namespaces; `*` for all.
    #[serde(default)]
    pub target_namespaces: Vec<Arc<str>>,
}

impl Delegation {
    /// Returns whether objects of a namespace may use this Secret of the namespace of the delegation.
    pub fn allows(&self, secret: &str, namespace: &str) -> bool {
        self.delegations.iter().any(|delegation| {
            let targets = &delegation.target_namespaces;
            // A "*" beside other entries is taken as the name of a namespace, which cannot exist.
            let everyone = matches!(targets.as_slice(), [only] if &**only == "*");
            *delegation.secret_name == *secret && (everyone || targets.iter().any(|target| **target == *namespace))
        })
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let spec = found.typed("spec", &document.get_mut("spec").map(Value::take).unwrap_or_default())?;
    Some(Body::CertificateDelegation(Arc::new(spec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_counts_only_as_the_single_target() {
        let delegation = |targets: &[&str]| Delegation {
            delegations: vec![CertificateDelegation {
                secret_name: "cert".into(),
                target_namespaces: targets.iter().map(|target| Arc::from(*target)).collect(),
            }],
        };
        assert!(delegation(&["*"]).allows("cert", "shop"));
        assert!(delegation(&["shop", "blog"]).allows("cert", "shop"));
        assert!(!delegation(&["*", "blog"]).allows("cert", "shop"));
        assert!(!delegation(&["*"]).allows("other", "shop"));
        assert!(!delegation(&[]).allows("cert", "shop"));
    }
}
