//! No regular expression reaches Envoy unchecked, in any place: in matches, header conditions, rewrites, CORS
//! origins, conditions of log filters, or `matches` of a condition in CEL.
//!
//! The descriptors of the Envoy API show which fields can hold a regex. The golden cases show in which places Holdfast
//! publishes one; each of their texts is then broken in turn, and must not be published.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::settings::Settings;
use holdfast_check::re2::{Limits, Regexes};
use holdfast_engine::engine::Engine;
use holdfast_test_support as testing;
use holdfast_xds::{ResourceType, to_json};
use prost_reflect::{DescriptorPool, Kind};
use serde_json::Value;

use crate::cases;

/// The string fields of the Envoy API that hold a regex. A new one must be found by [`collect`], and checked.
const FIELDS: [&str; 2] = [
    // Of the bootstrap, which Holdfast writes itself.
    "envoy.config.metrics.v3.TagSpecifier.regex",
    "envoy.type.matcher.v3.RegexMatcher.regex",
];

/// The places in which golden cases publish a regex: the two innermost fields of the message. The texts of a new place
/// are broken as those of all others; this list shows that the golden cases still have all places.
const PLACES: [&str; 9] = [
    "additionalOrigins.safeRegex",
    "allowOriginStringMatch.safeRegex",
    "decoderHeaderMutationRules.disallowExpression",
    "expression",
    "match.safeRegex",
    "matches()",
    "patterns.safeRegex",
    "regexRewrite.pattern",
    "stringMatch.safeRegex",
];

/// The end of a text that makes every regex invalid.
const BROKEN: &str = "(";

/// Texts by place.
type Places = BTreeMap<String, BTreeSet<String>>;

/// Returns every published regex, by its place.
fn published(documents: &[Value]) -> Places {
    let mut engine = Engine::new(Settings::standalone());
    engine.handle(documents.iter().filter_map(|document| testing::event(document.clone())).collect());
    let mut places = Places::new();
    for gateway in engine.gateways() {
        let Some(snapshot) = engine.fleet(&gateway.name) else { continue };
        for kind in ResourceType::ALL {
            snapshot.of(kind).values().for_each(|resource| collect(&to_json(kind, &resource.body), "", &mut places));
        }
    }
    places
}

/// Collects the regexes in a message. `place`: the field with the message.
fn collect(value: &Value, place: &str, places: &mut Places) {
    let mut note = |place: &str, text: &Value| {
        let texts = places.entry(place.to_owned()).or_default();
        texts.extend(text.as_str().map(str::to_owned));
    };
    match value {
        Value::Object(object) => {
            if let Some(text) =
                object.get("regex").filter(|_| object.keys().all(|key| key == "regex" || key == "googleRe2"))
            {
                note(place, text);
            }
            if object.get("function").and_then(Value::as_str) == Some("matches") {
                let arguments = object.get("args").and_then(Value::as_array).into_iter().flatten();
                let texts = arguments.filter_map(|argument| argument.pointer("/constExpr/stringValue"));
                texts.for_each(|text| note("matches()", text));
            }
            // The condition of a log filter is a text.
            if let Some(text) = object.get("expression").and_then(Value::as_str) {
                matched(text).for_each(|text| note("expression", &text.into()));
            }
            let outer = place.rsplit('.').next().unwrap_or_default();
            object.iter().for_each(|(key, value)| collect(value, &format!("{outer}.{key}"), places));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, place, places)),
        _ => {}
    }
}

/// Returns the literals that a condition passes to `matches`.
fn matched(condition: &str) -> impl Iterator<Item = &str> {
    let calls = condition.split("matches(").skip(1);
    calls.filter_map(|call| {
        let quote = call.chars().next().filter(|quote| ['\'', '"'].contains(quote))?;
        call.get(1..)?.split(quote).next()
    })
}

/// Returns the pointers to the strings of a document.
fn strings(value: &Value, pointer: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((pointer.to_owned(), text.clone())),
        Value::Object(object) => object.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            strings(value, &format!("{pointer}/{key}"), found);
        }),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| strings(value, &format!("{pointer}/{at}"), found));
        }
        _ => {}
    }
}

/// Returns a text from which one of the regexes was made, with a mistake in the regex.
fn broken(text: &str, regexes: &BTreeSet<&str>) -> Option<String> {
    if text.len() < 2 {
        return None;
    }
    if regexes.iter().any(|regex| regex.contains(text)) {
        return Some(format!("{text}{BROKEN}"));
    }
    // A condition contains the regex, as it is or escaped.
    let inner = regexes.iter().find(|regex| regex.len() > 1 && text.contains(**regex))?;
    Some(text.replace(*inner, &format!("{inner}{BROKEN}")))
}

#[test]
fn the_envoy_api_has_no_other_regexes() {
    let pool = DescriptorPool::decode(include_bytes!("../../../xds/src/types.bin").as_slice()).unwrap();
    let fields = pool.all_messages().flat_map(|message| message.fields().collect::<Vec<_>>());
    let regexes = fields.filter(|field| field.kind() == Kind::String && field.name().contains("regex"));
    let ours = regexes.map(|field| field.full_name().to_owned()).filter(|name| name.starts_with("envoy."));
    assert_eq!(ours.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), FIELDS);
}

#[test]
fn no_regex_is_published_without_a_check() {
    let (mut seen, mut wrong, mut tried) = (BTreeSet::new(), Vec::new(), 0);
    for (name, documents) in cases::all() {
        let before = published(&documents);
        let regexes: BTreeSet<&str> = before.values().flatten().map(String::as_str).collect();
        for (at, document) in documents.iter().enumerate() {
            let mut found = Vec::new();
            strings(document, "", &mut found);
            for (pointer, text) in found {
                let Some(text) = broken(&text, &regexes) else { continue };
                let mut documents = documents.clone();
                *documents[at].pointer_mut(&pointer).unwrap() = text.into();
                tried += 1;
                for (place, text) in
                    published(&documents).iter().flat_map(|(place, texts)| texts.iter().map(move |text| (place, text)))
                {
                    if Regexes::of_object(Limits::default()).check(text).is_err() {
                        wrong.push(format!("{name}: {pointer} of object {at}: {place} {text:?}"));
                    }
                }
            }
        }
        seen.extend(before.into_keys());
    }
    assert!(wrong.is_empty(), "published without a check:\n{}", wrong.join("\n"));
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), PLACES);
    assert!(tried > 50, "only {tried} texts were broken");
}
