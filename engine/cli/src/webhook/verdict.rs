//! The answer about a reviewed object: refused, or allowed with warnings.
//!
//! An object is refused for its own content only: a value that cannot be used, or content that Envoys refused before. A
//! missing object may still be applied, so that its reference is a warning at most, and so is a field that is ignored. An
//! object that may belong to another controller is never refused, and one that does is not mentioned.

use holdfast_api::fault::Class;
use holdfast_engine::review::{Review, ReviewOwner};
use holdfast_graph::ObjectKey;

use super::admission::ReviewAnswer;
use super::arguments::WebhookMode;
use super::wording;

/// The last sentence of a warning about an object that is stored nevertheless.
const STORED: &str = "it is stored nevertheless: edit these fields and apply it again";
/// The last sentence of a refusal.
const NOT_STORED: &str = "it is not stored: edit these fields and apply it again";

/// Returns the answer about an object.
pub(super) fn answer(mode: WebhookMode, key: &ObjectKey, review: &Review) -> ReviewAnswer {
    let is_faulty = review.refused.is_some() || review.faults.iter().any(|fault| fault.class == Class::Invalid);
    let is_refused = mode == WebhookMode::Deny && review.owner == ReviewOwner::Ours && is_faulty;
    let mut lines = wording::lines(key, review);
    if lines.is_empty() || review.owner == ReviewOwner::Other {
        return ReviewAnswer::default();
    }
    if is_faulty {
        lines.push(wording::line(key, "", if is_refused { NOT_STORED } else { STORED }, None));
    }
    match is_refused {
        true => ReviewAnswer { refusal: Some(lines.join("\n")), warnings: Vec::new() },
        false => ReviewAnswer { refusal: None, warnings: lines },
    }
}

/// Returns the answer about an object that could not be reviewed.
pub(super) fn not_checked(name: &str, why: &str) -> ReviewAnswer {
    ReviewAnswer {
        refusal: None,
        warnings: vec![wording::cut(format!("{name}: Holdfast has not checked it: {why}"), None)],
    }
}
