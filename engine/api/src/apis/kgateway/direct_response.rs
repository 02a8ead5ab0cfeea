//! DirectResponse: a response without a backend.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{self, Unread};
use crate::apis::Body;
use crate::apis::decode::Found;

/// A DirectResponse.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectResponse {
    /// Status.
    pub status: i64,
    /// Body.
    pub body: Option<Arc<str>>,
    /// Format from which the body is made.
    pub body_format: Option<BodyFormat>,
    /// Parts that could not be read.
    #[serde(skip)]
    pub unread: Vec<Unread>,
}

/// A format for a body.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyFormat {
    /// Text format.
    pub text: Option<Arc<str>>,
    /// JSON format.
    pub json: Option<Value>,
    /// Content type.
    pub content_type: Option<Arc<str>>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let before = found.faults.len();
    let spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let response: DirectResponse = found.typed("spec", &spec)?;
    if let Err(fault) = holdfast_check::number::response_status(response.status) {
        found.invalid("spec.status", fault.to_string());
    }
    if let Err(fault) = holdfast_check::number::body(response.body.as_deref().unwrap_or_default().as_bytes()) {
        found.invalid("spec.body", fault.to_string());
    }
    if let Some(BodyFormat { text, json, content_type }) = &response.body_format {
        if let Err(fault) = holdfast_check::format::body(text.as_deref(), json.as_ref(), content_type.as_deref()) {
            found.invalid("spec.bodyFormat", fault.to_string());
        }
        if response.body.is_some() {
            found.invalid("spec.bodyFormat", "only one of body and bodyFormat may be set");
        }
    }
    let unread = policy::whole_or_not(found, before);
    Some(Body::DirectResponse(Arc::new(DirectResponse { unread, ..response })))
}
