//! What would be served instead of an object under review, or because of it.

use std::sync::Arc;

use holdfast_fallback::view::FallbackReport;
use holdfast_graph::ObjectKey;

/// Something that would not be served as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReviewEffect {
    /// An earlier generation of the object, or of a section of it.
    Earlier {
        /// The object under review, or an object that goes back together with it.
        object: ObjectKey,
        /// The section; empty for the object as a whole.
        section: Arc<str>,
        /// The generation.
        generation: i64,
    },
    /// A direct response to the requests of the object, or of a section of it.
    Response {
        /// The object under review, or an object that depends on it.
        object: ObjectKey,
        /// The section; empty for the object as a whole.
        section: Arc<str>,
        /// The status code.
        status: u16,
    },
    /// The object, or a section of it, is left out.
    LeftOut {
        /// The object under review, or an object that depends on it.
        object: ObjectKey,
        /// The section; empty for the object as a whole.
        section: Arc<str>,
    },
}

impl ReviewEffect {
    /// Returns the object of which something else is served.
    pub fn object(&self) -> &ObjectKey {
        match self {
            Self::Earlier { object, .. } | Self::Response { object, .. } | Self::LeftOut { object, .. } => object,
        }
    }
}

/// Returns the steps of a plan about an object, or because of it: first those about the object itself.
pub(super) fn served(report: &FallbackReport, key: &ObjectKey) -> Vec<ReviewEffect> {
    let name = key.to_string();
    let mut served = Vec::new();
    for it in &report.backfilled_objects {
        if it.object.is(key) || it.causing_objects.contains(&name) {
            let (section, generation) = (it.section.clone(), it.served_generation);
            served.push(ReviewEffect::Earlier { object: it.object.key(), section, generation });
        }
    }
    for it in &report.replaced_objects {
        if it.object.is(key) || it.causing_objects.contains(&name) {
            let (section, status) = (it.section.clone(), it.response);
            served.push(ReviewEffect::Response { object: it.object.key(), section, status });
        }
    }
    for it in &report.excluded_objects {
        if it.object.is(key) || it.causing_objects.contains(&name) {
            served.push(ReviewEffect::LeftOut { object: it.object.key(), section: it.section.clone() });
        }
    }
    served.sort_by_key(|it| it.object() != key);
    served.dedup();
    served
}
