//! Precedence of policies of one level.

use std::cmp::Reverse;

use holdfast_api::object::{Age, Object};
use holdfast_graph::ObjectKey;

/// Annotation with the weight of a policy among the policies of its level.
pub(crate) const WEIGHT_ANNOTATION: &str = "kgateway.dev/policy-weight";

/// Precedence of policies: by higher weight, then by age (older first), then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    weight: Reverse<i32>,
    age: Age,
    key: ObjectKey,
}

/// Returns the rank of a policy, and a message if its weight is invalid.
pub fn rank(object: &Object) -> (Rank, Option<String>) {
    let written = object.metadata.annotations.get(WEIGHT_ANNOTATION);
    let (weight, wrong) = match written.map(|text| text.trim().parse::<i32>()) {
        None => (0, None),
        Some(Ok(weight)) => (weight, None),
        Some(Err(_)) => (0, Some(format!("{WEIGHT_ANNOTATION} must be a whole number"))),
    };
    (Rank { weight: Reverse(weight), age: object.age(), key: object.key.clone() }, wrong)
}
