//! Tests of the wire form, of the answers and of their limits. Reviews themselves are tested in `engine/src/review`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use axum::body::Body;
use axum::http::Request as HttpRequest;
use holdfast_api::fault::{Class, Fault};
use holdfast_engine::review::{EffectKind, Review, ReviewEffect, ReviewOwner};
use holdfast_graph::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::admission::ReviewAnswer;
use super::arguments::WebhookMode;
use super::wording::{WARNING_BYTES_MAX, WARNINGS_MAX};
use super::*;
use crate::admin::metrics::Metrics;

fn object(spec: Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "cart", "namespace": "shop", "uid": "u", "generation": 2 }, "spec": spec,
    })
}

fn body(request: Value) -> Value {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request })
}

fn read(request: Value) -> admission::AdmissionRequest {
    admission::read(body(request).to_string().as_bytes()).unwrap()
}

fn key() -> ObjectKey {
    ObjectKey::new("gateway.networking.k8s.io", "HTTPRoute", "shop", "cart")
}

fn fault(class: Class, field: &str, message: &str) -> Fault {
    Fault::new(&key(), class, field, "Reason", message)
}

fn effect(object: ObjectKey, section: &str, kind: EffectKind) -> ReviewEffect {
    let field = if section.is_empty() { String::new() } else { format!("spec.{section}") };
    ReviewEffect { object, section: section.into(), field, kind }
}

fn broken() -> Review {
    Review {
        owner: ReviewOwner::Ours,
        faults: vec![fault(Class::Invalid, "spec.rules[0].matches[0].path.value", "the regex has no end")],
        refused: None,
        served: vec![effect(key(), "", EffectKind::Earlier(4))],
    }
}

#[test]
fn only_changes_of_content_are_reviewed() {
    let object =
        |metadata: Value, spec: u32| json!({ "kind": "X", "metadata": metadata, "spec": spec, "status": spec });
    let (plain, labelled) = (json!({}), json!({ "labels": { "a": "b" } }));
    for (request, is_reviewed) in [
        (json!({ "uid": "1", "operation": "CREATE", "object": object(plain.clone(), 1) }), true),
        (
            json!({ "uid": "1", "operation": "UPDATE", "object": object(plain.clone(), 1), "oldObject": object(plain.clone(), 2) }),
            true,
        ),
        (
            json!({ "uid": "1", "operation": "UPDATE", "object": object(labelled, 1), "oldObject": object(plain.clone(), 1) }),
            false,
        ),
        (
            json!({ "uid": "1", "operation": "UPDATE", "subResource": "status", "object": object(plain.clone(), 1), "oldObject": object(plain.clone(), 2) }),
            false,
        ),
        (
            json!({ "uid": "1", "operation": "UPDATE", "object": object(json!({ "deletionTimestamp": "now" }), 1), "oldObject": object(plain.clone(), 2) }),
            false,
        ),
        (json!({ "uid": "1", "operation": "DELETE", "oldObject": object(plain.clone(), 1) }), false),
        (json!({ "uid": "1", "operation": "UPDATE", "object": object(plain.clone(), 1) }), true),
        (json!({ "uid": "1", "operation": "CREATE" }), false),
        (json!({ "uid": "1" }), false),
    ] {
        assert_eq!(read(request.clone()).object().is_some(), is_reviewed, "{request}");
    }
    let status = json!({ "kind": "X", "metadata": {}, "spec": 1, "status": 2 });
    let request = json!({ "uid": "1", "operation": "UPDATE", "object": status, "oldObject": object(plain, 1) });
    assert!(read(request).object().is_none());
}

#[test]
fn what_is_no_review_is_an_error() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for text in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        "\"x\"",
        "{\"request\": 1}",
        &deep,
        &body(json!(null)).to_string(),
        &body(json!({})).to_string(),
        &body(json!({ "uid": "" })).to_string(),
        &body(json!({ "uid": 7 })).to_string(),
        &body(json!({ "uid": "x".repeat(300) })).to_string(),
        &body(json!({ "uid": "1", "operation": 1 })).to_string(),
        &body(json!({ "uid": "1" })).to_string().replace("/v1", "/v1beta1"),
        &body(json!({ "uid": "1" })).to_string().replace("AdmissionReview", "Review"),
    ] {
        let is_read = admission::head(text.as_bytes()).is_ok() && admission::read(text.as_bytes()).is_ok();
        assert!(!is_read, "{text}");
    }
    assert!(admission::head(&[0xff, 0xfe]).is_err());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            Just("metadata"),
            Just("spec"),
            Just("name"),
            Just("rules"),
            Just("kind"),
            Just("deletionTimestamp"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

fn reviewer() -> Reviewer {
    // The main loop has ended: what needs it is not checked.
    let (handle, _) = CoreHandle::new();
    Reviewer::new(handle, WebhookMode::Deny, Metrics::new().unwrap().webhook)
}

async fn post(text: String) -> (u16, Value) {
    let request = HttpRequest::post(PATH).body(Body::from(text)).unwrap();
    let response = pages(reviewer()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

proptest! {
    #[test]
    fn any_object_is_allowed_or_answered(object in any_value(), old in any_value(), operation in ".{0,8}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for operation in [&*operation, "CREATE", "UPDATE"] {
            let request = json!({ "uid": "1", "operation": operation, "object": object, "oldObject": old });
            let (status, answer) = runtime.block_on(post(body(request).to_string()));
            prop_assert_eq!(status, 200);
            prop_assert_eq!(&answer["response"]["allowed"], true);
        }
        let (status, _) = runtime.block_on(post(object.to_string()));
        prop_assert_eq!(status, 400);
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert!(admission::read(&bytes).is_err());
    }
}

#[tokio::test]
async fn a_request_with_too_many_values_is_a_warning() {
    let values = vec![json!({ "": 0 }); admission::REVIEW_VALUES_MAX];
    let request = json!({
        "uid": "7", "kind": { "kind": "HTTPRoute" }, "namespace": "shop", "name": "cart",
        "operation": "CREATE", "object": object(json!({ "x": values })),
    });
    let (status, answer) = post(body(request).to_string()).await;
    assert_eq!((status, &answer["response"]["allowed"]), (200, &json!(true)));
    let warning = answer["response"]["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("HTTPRoute shop/cart: Holdfast has not checked it: it has more than"), "{warning}");
}

#[tokio::test]
async fn a_review_that_is_not_possible_is_a_warning() {
    let request = json!({
        "uid": "7", "kind": { "kind": "HTTPRoute" }, "namespace": "shop", "name": "cart",
        "operation": "CREATE", "object": object(json!({})),
    });
    let (status, answer) = post(body(request).to_string()).await;
    assert_eq!(status, 200);
    assert_eq!(answer["response"]["uid"], "7");
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(
        answer["response"]["warnings"],
        json!(["HTTPRoute shop/cart: Holdfast has not checked it: it is ending"])
    );
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let (status, _) = post("x".repeat(REVIEW_BYTES_MAX + 1)).await;
    assert_eq!(status, 413);
}

#[test]
fn a_fault_of_content_warns_or_denies_with_the_same_text() {
    let warned = verdict::answer(WebhookMode::Warn, &key(), &broken());
    assert_eq!(
        warned.warnings,
        [
            "HTTPRoute shop/cart: spec.rules[0].matches[0].path.value: the regex has no end; generation 4 goes on being served",
            "HTTPRoute shop/cart: it is stored nevertheless: edit these fields and apply it again",
        ]
    );
    assert_eq!(warned.refusal, None);
    let denied = verdict::answer(WebhookMode::Deny, &key(), &broken());
    assert_eq!(denied.warnings, [""; 0]);
    let lines: Vec<String> = denied.refusal.unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines[0], warned.warnings[0]);
    assert!(lines[1].contains("it is not stored: edit these fields"), "{lines:?}");
}

#[test]
fn nothing_else_denies() {
    for class in [Class::Referential, Class::Ignored, Class::Conflict] {
        let review = Review { faults: vec![fault(class, "spec.x", "so")], ..broken() };
        let answer = verdict::answer(WebhookMode::Deny, &key(), &review);
        assert_eq!((answer.refusal, answer.warnings.len()), (None, 1), "{class:?}");
    }
    let unknown = Review { owner: ReviewOwner::Unknown, ..broken() };
    assert!(verdict::answer(WebhookMode::Deny, &key(), &unknown).refusal.is_none());
    let other = Review { owner: ReviewOwner::Other, ..broken() };
    assert_eq!(verdict::answer(WebhookMode::Deny, &key(), &other), ReviewAnswer::default());
    let refused = Review { faults: Vec::new(), refused: Some("no such field".into()), ..broken() };
    let answer = verdict::answer(WebhookMode::Deny, &key(), &refused).refusal.unwrap();
    assert!(answer.contains("Envoy has refused this content: no such field; generation 4"), "{answer}");
    let fine = Review { owner: ReviewOwner::Ours, ..Review::default() };
    assert_eq!(verdict::answer(WebhookMode::Deny, &key(), &fine), ReviewAnswer::default());
}

#[test]
fn effects_belong_to_the_faults_that_cause_them() {
    let [left_out, own] = ["listeners[https]", "rules[1]"].map(|section| effect(key(), section, EffectKind::Nothing));
    let left_out = ReviewEffect { field: "spec.listeners[1]".into(), ..left_out };
    let faults = vec![
        fault(Class::Invalid, "spec.listeners[1].hostname", "one"),
        fault(Class::Ignored, "spec.listeners[1].name", "two"),
        fault(Class::Invalid, "spec.listeners[10].hostname", "three"),
        fault(Class::Invalid, "spec.rules[1]", "four"),
    ];
    let review = Review { faults, served: vec![left_out, own], ..broken() };
    let lines = verdict::answer(WebhookMode::Warn, &key(), &review).warnings;
    assert!(lines[0].ends_with("one; listeners[https] would be left out"), "{lines:?}");
    assert!(lines[1].ends_with("two") && lines[2].ends_with("three"), "{lines:?}");
    assert!(lines[3].ends_with("four; rules[1] would be left out"), "{lines:?}");
}

#[test]
fn warnings_fit_into_their_limits() {
    let faults = (0..30).map(|n| fault(Class::Invalid, &format!("spec.rules[{n}]"), &"é\n".repeat(400)));
    let other = ObjectKey::new("g", "HTTPRoute", "shop", "other");
    let own = effect(key(), "rules[1]", EffectKind::Response(404));
    let others = (0..9).map(|n| effect(other.clone(), &format!("rules[{n}]"), EffectKind::Response(500)));
    let review = Review { faults: faults.collect(), served: [own].into_iter().chain(others).collect(), ..broken() };
    let lines = verdict::answer(WebhookMode::Warn, &key(), &review).warnings;
    assert_eq!(lines.len(), WARNINGS_MAX + 3);
    assert!(lines.iter().all(|line| line.len() <= WARNING_BYTES_MAX && !line.contains('\n')), "{lines:?}");
    assert!(lines.iter().map(String::len).sum::<usize>() <= 4096);
    // What clients get is not cut, and belongs to its field only.
    assert!(lines[1].ends_with("…; requests for rules[1] would get response 404"), "{}", lines[1]);
    assert!(!lines[0].contains("404") && !lines[2].contains("404"));
    assert!(lines[WARNINGS_MAX].contains("18 more faults"), "{lines:?}");
    assert!(lines[WARNINGS_MAX + 1].contains("HTTPRoute shop/other: requests for rules[0] would get response 500"));
    assert!(lines[WARNINGS_MAX + 1].ends_with("and 6 more"), "{}", lines[WARNINGS_MAX + 1]);
}
