//! ReferenceGrant: references into a namespace that are allowed.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#referencegrant>

use std::sync::Arc;

use gateway_api::referencegrants::ReferenceGrantSpec;
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// A ReferenceGrant. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceGrant(Arc<ReferenceGrantSpec>);

impl ReferenceGrant {
    /// Returns the grant as it is written.
    pub fn spec(&self) -> &ReferenceGrantSpec {
        &self.0
    }

    /// Returns whether the grant allows objects of `from` (group, kind, namespace) to refer to an object `to` (group,
    /// kind, name) in the namespace of the grant.
    pub fn allows(&self, from: (&str, &str, &str), to: (&str, &str, &str)) -> bool {
        let from_matches = self.0.from.iter().any(|f| (&*f.group, &*f.kind, &*f.namespace) == from);
        let to_matches = self.0.to.iter().any(|t| {
            // The Go types of the API server decode an empty name as no name.
            let any_name = t.name.as_deref().is_none_or(str::is_empty);
            (&*t.group, &*t.kind) == (to.0, to.1) && (any_name || t.name.as_deref() == Some(to.2))
        });
        from_matches && to_matches
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let spec = found.typed("spec", &document.get_mut("spec").map(Value::take).unwrap_or_default())?;
    Some(Body::ReferenceGrant(ReferenceGrant(Arc::new(spec))))
}
