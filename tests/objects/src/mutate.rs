//! Broken input, derived from valid input: a value in a document is replaced, removed or repeated.
//!
//! Numbers from the caller select the change, so that a fuzzer and a seeded test share the code.

use serde_json::{Value, json};

/// Returns a number below its argument; 0 if the argument is 0.
pub type Choose<'a> = dyn FnMut(usize) -> usize + 'a;

/// Returns one of the documents with up to three broken values.
pub fn mutated(documents: &[Value], choose: &mut Choose<'_>) -> Value {
    let Some(document) = documents.get(choose(documents.len())) else { return Value::Null };
    let mut document = document.clone();
    for _ in 0..=choose(3) {
        let mut paths = Vec::new();
        gather(&document, String::new(), &mut paths);
        // The identity mostly stays unchanged: otherwise the document is another object or no object.
        paths.retain(|path| !path.starts_with("/apiVersion") && !path.starts_with("/kind") && path != "/metadata");
        let Some(path) = paths.get(choose(paths.len())) else { break };
        breakage(&mut document, path, choose);
    }
    document
}

fn gather(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            gather(value, format!("{path}/{name}"), paths);
        }),
        Value::Array(entries) => {
            entries.iter().enumerate().for_each(|(index, value)| gather(value, format!("{path}/{index}"), paths));
        }
        _ => {}
    }
    if !path.is_empty() {
        paths.push(path);
    }
}

fn breakage(document: &mut Value, path: &str, choose: &mut Choose<'_>) {
    let strange = [
        json!(null),
        json!(""),
        json!("*"),
        json!("*.example.com"),
        json!("cart"),
        json!("/"),
        json!("/a//b"),
        json!("[a"),
        json!("RegularExpression"),
        json!("a\nb"),
        json!("100%"),
        json!(0),
        json!(-1),
        json!(8080),
        json!(99_999),
        json!(1.5),
        json!(true),
        json!([]),
        json!({}),
        json!({"type": "Exact", "value": "/x"}),
        json!("x".repeat(3000)),
    ];
    match choose(4) {
        0 => {
            if let Some((parent, name)) = path.rsplit_once('/')
                && let Some(Value::Object(fields)) = document.pointer_mut(parent)
            {
                fields.remove(name);
            }
        }
        1 => {
            if let Some(Value::Array(entries)) = document.pointer_mut(path)
                && let Some(entry) = entries.first().cloned()
            {
                let times = 1 + choose(80);
                entries.extend(std::iter::repeat_n(entry, times));
            }
        }
        _ => {
            if let (Some(value), Some(strange)) = (document.pointer_mut(path), strange.get(choose(strange.len()))) {
                *value = strange.clone();
            }
        }
    }
}
