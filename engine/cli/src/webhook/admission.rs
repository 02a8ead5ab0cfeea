//! The wire form: `AdmissionReview` of `admission.k8s.io/v1`.
//!
//! Everything here comes from outside. A body that is not such a review is an error, never a panic.

use std::sync::Arc;

use holdfast_graph::ObjectKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Version and kind of requests and responses.
const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// Maximum length of the identifier of a request, in bytes; the API server sends 36.
const UID_BYTES_MAX: usize = 256;

/// Maximum number of values in the JSON of a request; a request with more is answered without being read further. The
/// largest objects of users have some thousands, and each value takes up to a kilobyte of memory.
pub(super) const REVIEW_VALUES_MAX: usize = 100_000;

/// The reason why a body is not a review.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAReview {
    #[error("the body cannot be read as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("expected {KIND} of {API_VERSION}")]
    Kind,
    #[error("request.uid is empty, or longer than {UID_BYTES_MAX} bytes")]
    Uid,
}

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[serde(default)]
    operation: String,
    /// The subresource, such as `status`.
    #[serde(default)]
    sub_resource: Option<String>,
    /// The object that would be stored.
    #[serde(default)]
    object: Value,
    /// The stored object; null for a new one.
    #[serde(default)]
    old_object: Value,
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReviewAnswer {
    /// Why the object is refused; `None` if it is allowed.
    pub(super) refusal: Option<String>,
    /// Warnings for the user.
    pub(super) warnings: Vec<String>,
}

/// The part of a request that does not depend on the size of its object.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RequestHead {
    /// The identifier, repeated in the response.
    pub(super) uid: Arc<str>,
    #[serde(default)]
    kind: ReviewedKind,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ReviewedKind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview<R> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<R>,
}

/// Reads the head of a request, and nothing of its object.
///
/// # Errors
/// Returns an error if the body is not a review.
pub(super) fn head(body: &[u8]) -> Result<RequestHead, NotAReview> {
    let head: RequestHead = request(body)?;
    if head.uid.is_empty() || head.uid.len() > UID_BYTES_MAX {
        return Err(NotAReview::Uid);
    }
    Ok(head)
}

/// Reads the body of a request.
///
/// # Errors
/// Returns an error if the body is not a review.
pub(super) fn read(body: &[u8]) -> Result<AdmissionRequest, NotAReview> {
    request(body)
}

fn request<R: DeserializeOwned>(body: &[u8]) -> Result<R, NotAReview> {
    let review: AdmissionReview<R> = serde_json::from_slice(body)?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(NotAReview::Kind);
    }
    review.request.ok_or(NotAReview::Kind)
}

/// Returns whether a body may have more values than one review reads. Signs within texts count as well.
pub(super) fn has_too_many_values(body: &[u8]) -> bool {
    let begins_value = |sign: &&u8| matches!(sign, b'{' | b'[' | b',');
    body.iter().filter(begins_value).nth(REVIEW_VALUES_MAX).is_some()
}

impl RequestHead {
    /// Returns the name of the object for messages.
    pub(super) fn object_name(&self) -> String {
        let Self { kind: ReviewedKind { kind }, namespace, name, .. } = self;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }
}

/// Returns the body of a response.
pub(super) fn response(uid: &str, answer: &ReviewAnswer) -> Value {
    let mut response = json!({ "uid": uid, "allowed": answer.refusal.is_none() });
    if let Some(fields) = response.as_object_mut() {
        if let Some(message) = &answer.refusal {
            fields.insert("status".into(), json!({ "code": 403, "message": message }));
        }
        if !answer.warnings.is_empty() {
            fields.insert("warnings".into(), json!(answer.warnings));
        }
    }
    json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })
}

impl AdmissionRequest {
    /// Returns the object, if its content has to be reviewed. A change of metadata or status alone changes nothing that
    /// a user can repair in the spec, and an object under deletion must not be kept from its end.
    pub(super) fn object(self) -> Option<Value> {
        let is_whole = self.sub_resource.as_deref().unwrap_or_default().is_empty();
        let is_stored = matches!(&*self.operation, "CREATE" | "UPDATE");
        let is_leaving = self.object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
        let is_edited = self.operation == "CREATE" || !same_content(&self.object, &self.old_object);
        (is_whole && is_stored && !is_leaving && is_edited && self.object.is_object()).then_some(self.object)
    }
}

/// Returns whether two versions differ at most in their metadata and status.
fn same_content(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    let content = |name: &&String| !["metadata", "status"].contains(&name.as_str());
    one.keys().chain(other.keys()).filter(content).all(|name| one.get(name) == other.get(name))
}

/// Returns the name of an object for messages: `HTTPRoute shop/cart`.
pub(super) fn name(key: &ObjectKey) -> String {
    format!("{} {}", key.kind, key.namespaced_name())
}
