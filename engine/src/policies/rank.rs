//! Which of two policies of one level comes first.

use std::cmp::Reverse;

use holdfast_graph::ObjectKey;

use crate::object::{Age, Object};

/// The annotation by which a policy comes before others of its level.
pub(crate) const WEIGHT_ANNOTATION: &str = "kgateway.dev/policy-weight";

/// The order of policies: heavier ones first, then older ones, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    weight: Reverse<i32>,
    age: Age,
    key: ObjectKey,
}

/// The rank of a policy, and what is wrong with the weight that it is given.
pub(crate) fn rank(object: &Object) -> (Rank, Option<String>) {
    let written = object.metadata.annotations.get(WEIGHT_ANNOTATION);
    let (weight, wrong) = match written.map(|text| text.trim().parse::<i32>()) {
        None => (0, None),
        Some(Ok(weight)) => (weight, None),
        Some(Err(_)) => (0, Some(format!("{WEIGHT_ANNOTATION} must be a whole number"))),
    };
    (Rank { weight: Reverse(weight), age: object.age(), key: object.key.clone() }, wrong)
}
