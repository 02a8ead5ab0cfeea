//! Decoding of a JSON document into an object: identity first, then metadata, then the typed content with its faults.

use holdfast_graph::ObjectKey;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::meta::RawMetadata;
use super::misspelt;
use super::scheme::{self, ResourceScope};
use super::typed::{self, TypedValue, UnknownField};
use super::unserved;
use crate::fault::{Class, Fault};
use crate::object::{Object, Source};

/// The reason of faults of fields that no version of the API has.
pub const UNKNOWN_FIELD: &str = "UnknownField";
/// The fields of an object, except for its metadata, of the kinds in which unknown fields are errors.
const DOCUMENT: [&str; 4] = ["apiVersion", "kind", "spec", "status"];
/// The fields of metadata. <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/>
const METADATA: [&str; 16] = [
    "annotations",
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// Longest name or namespace that is accepted, in bytes; the limit of Kubernetes.
pub const NAME_BYTES_MAX: usize = 253;

/// Result of decoding a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// An object that can be used, perhaps in part: the faults describe what could not be read.
    Object(Box<Object>, Vec<Fault>),
    /// An object with a known identity and unusable content.
    Unusable(ObjectKey, Vec<Fault>),
    /// A kind that Holdfast does not read; the sentence names the kind. Not an error: folders hold Deployments too.
    Foreign(String),
    /// An object without effect, because Holdfast does not read this kind of the group of a gateway.
    Unserved(Fault),
    /// Not an object, for example because the kind is misspelt; the sentence describes the problem.
    Nameless(String),
}

/// Faults of one object, collected while the object is decoded.
#[derive(Debug)]
pub struct Found {
    /// The object.
    pub key: ObjectKey,
    /// The faults found so far.
    pub faults: Vec<Fault>,
    /// Whether an unknown field is an error of the part that has it.
    is_strict: bool,
}

impl Found {
    /// Adds an error of content.
    pub fn invalid(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.faults.push(Fault::new(&self.key, Class::Invalid, field, "Invalid", message));
    }

    /// Adds a fault for a field that the decoded type does not have.
    /// `meant` is the field that was probably intended. Returns whether the fault is an error.
    pub fn unknown(&mut self, field: String, meant: Option<&str>) -> bool {
        let mut message = format!("the field {field} is not known to this version of Holdfast");
        let class = if self.is_strict { Class::Invalid } else { Class::Ignored };
        if !self.is_strict {
            message.push_str(" and is not served");
        }
        if let Some(meant) = meant {
            message.push_str(&format!("; did you mean {meant}?"));
        }
        self.faults.push(Fault::new(&self.key, class, field, UNKNOWN_FIELD, message));
        self.is_strict
    }

    /// Adds a fault for each of the remaining fields of a spec after its known fields were read one by one. Returns,
    /// for each field that is an error, the field that was probably intended.
    pub fn unknown_in_spec<'a>(
        &mut self,
        rest: impl Iterator<Item = &'a String>,
        known: &[&'static str],
    ) -> Vec<Option<&'static str>> {
        let mut wrong = Vec::new();
        for (index, name) in rest.enumerate() {
            let is_compared = index < typed::COMPARED_FIELDS_MAX;
            let meant = is_compared.then(|| misspelt::similar(name, known.iter().copied())).flatten();
            if self.unknown(format!("spec.{name}"), meant) {
                wrong.push(meant);
            }
        }
        wrong
    }

    /// Returns the last error with its field, in a sentence.
    pub fn why(&self) -> String {
        let last = self.faults.iter().rev().find(|fault| fault.is_error());
        last.map(Fault::sentence).unwrap_or_default()
    }

    /// Decodes the value of a field. Each unknown field is reported as a fault; an error becomes a fault and `None`.
    ///
    /// An unknown field may be a misspelt one that is meant to guard or to narrow the part that has it, so that it is an
    /// error in manifests. Of an object of an API server it is a field of a later CRD: misspelt fields were rejected or
    /// removed.
    pub fn typed<T: DeserializeOwned>(&mut self, field: &str, value: &Value) -> Option<T> {
        let TypedValue { result, unknown } = typed::read(value);
        let mut is_wrong = false;
        let mut intended = Vec::new();
        for UnknownField { path, meant } in unknown {
            intended.extend(meant.map(|meant| format!("missing field `{meant}`")));
            is_wrong |= self.unknown(below(field, &path), meant);
        }
        match result {
            Ok(read) => (!is_wrong).then_some(read),
            // The misspelt field is the missing one.
            Err(error) if is_wrong && intended.contains(&error.message) => None,
            Err(error) => {
                self.invalid(below(field, &error.path), in_yaml_terms(&error.message));
                None
            }
        }
    }
}

/// Returns the path of a value below a field.
fn below(field: &str, path: &str) -> String {
    let point = if path.is_empty() || path.starts_with('[') { "" } else { "." };
    format!("{field}{point}{path}")
}

/// Translates type names in messages of serde into YAML terms.
fn in_yaml_terms(message: &str) -> String {
    const TERMS: [(&str, &str); 8] = [
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected an object"),
        ("expected i32", "expected a whole number"),
        ("expected i64", "expected a whole number"),
        ("expected a string", "expected text"),
        ("invalid type: sequence", "invalid type: a list"),
        ("invalid type: map", "invalid type: an object"),
        ("invalid type: string", "invalid type: text"),
    ];
    let mut plain = match message.split_once("expected struct ") {
        Some((before, name)) => {
            let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            format!("{before}expected an object{rest}")
        }
        None => message.to_owned(),
    };
    for (term, better) in TERMS {
        plain = plain.replace(term, better);
    }
    plain
}

/// Decodes one document. `source` is the place where the document was written.
pub fn decode(document: Value, source: Option<Source>) -> Decoded {
    decode_defective(document, source, &[])
}

/// Decodes a document with errors in its text: `defects` lists the fields, each with a sentence. Nothing of such an
/// object is used, except the targets of a policy: these targets are closed.
pub fn decode_defective(mut document: Value, source: Option<Source>, defects: &[(String, String)]) -> Decoded {
    let Some(fields) = document.as_object_mut() else {
        return Decoded::Nameless("not an object: a document has apiVersion, kind and metadata".into());
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind_name) = (text("apiVersion"), text("kind"));
    if api_version.is_empty() || kind_name.is_empty() {
        return Decoded::Nameless("apiVersion and kind must be set".into());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let metadata = fields.remove("metadata").unwrap_or_default();
    let Some(kind) = scheme::find(group, &kind_name) else {
        return match misspelt::meant(group, &kind_name) {
            Some(meant) => Decoded::Nameless(format!(
                "{api_version} has no kind {kind_name:?}; did you mean {meant}? The object is ignored"
            )),
            None => unread(group, &kind_name, &api_version, &metadata),
        };
    };
    let is_checked = source.is_some() && kind.refuses_unknown_metadata();
    let key = match identity((kind.group, kind.kind), kind.scope, &metadata, is_checked) {
        Ok(key) => key,
        Err(message) => return Decoded::Nameless(format!("{kind_name}: {message}")),
    };
    let is_strict = source.is_some() && kind.refuses_unknown_fields();
    let mut found = Found { key: key.clone(), faults: Vec::new(), is_strict };
    defects.iter().for_each(|(field, message)| found.invalid(field, message));
    if !kind.versions.contains(&version) {
        found.invalid(
            "apiVersion",
            format!("{kind_name} is supported in {} {}, not in {version}", kind.group, kind.versions.join(" and ")),
        );
    }
    if is_checked {
        check_metadata(&metadata, &mut found);
    }
    if is_strict {
        for name in fields.keys().filter(|name| !DOCUMENT.contains(&name.as_str())) {
            found.unknown(name.clone(), None);
        }
    }
    let read = found.typed_quietly::<RawMetadata>("metadata", &metadata);
    let metadata = match read {
        // The targets of a policy are closed as long as the policy cannot be used.
        _ if !found.faults.is_empty() && kind.protects() => RawMetadata::guessed(&metadata),
        Some(metadata) if found.faults.is_empty() => metadata,
        _ => return Decoded::Unusable(key, found.faults),
    };
    match (kind.decode)(document, &mut found) {
        Some(body) => Decoded::Object(Box::new(Object { key, metadata: metadata.keep(), body, source }), found.faults),
        None => Decoded::Unusable(key, found.faults),
    }
}

/// Returns the result for an object of a kind that is not read.
fn unread(group: &str, kind: &str, api_version: &str, metadata: &Value) -> Decoded {
    if !unserved::is_of_gateway(group) {
        return Decoded::Foreign(format!("{api_version} {kind} is not a kind that Holdfast reads"));
    }
    match identity((group, kind), ResourceScope::Namespaced, metadata, false) {
        Ok(key) => Decoded::Unserved(unserved::fault(&key)),
        Err(message) => Decoded::Nameless(format!("{kind}: {message}")),
    }
}

impl Found {
    /// As [`Found::typed`], for values of which only some fields are read on purpose: unknown fields are no faults.
    pub fn typed_quietly<T: DeserializeOwned>(&mut self, field: &str, value: &Value) -> Option<T> {
        let read = typed::read(value).result;
        read.map_err(|error| self.invalid(below(field, &error.path), in_yaml_terms(&error.message))).ok()
    }
}

/// Returns the fields of metadata that Kubernetes does not have.
fn unknown_metadata(metadata: &Value) -> impl Iterator<Item = &str> {
    let names = metadata.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    names.filter(|name| !METADATA.contains(name)).take(typed::COMPARED_FIELDS_MAX)
}

/// Adds an error for each unknown field of the metadata, which may be meant as the labels.
fn check_metadata(metadata: &Value, found: &mut Found) {
    for name in unknown_metadata(metadata) {
        let meant = misspelt::similar(name, METADATA.into_iter().filter(|known| metadata.get(known).is_none()));
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        found.invalid(format!("metadata.{name}"), format!("the field is not known to Kubernetes{meant}"));
    }
}

/// The remedy for the template of a manifest.
pub const TEMPLATE: &str = "this looks like a Helm template, which must be rendered first (helm template)";

fn identity(
    (group, kind): (&str, &str),
    scope: ResourceScope,
    metadata: &Value,
    is_checked: bool,
) -> Result<ObjectKey, String> {
    let text = |name: &str| match metadata.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(Value::Array(_) | Value::Object(_)) => Err(format!("metadata.{name} must be a string")),
        Some(other) => {
            Err(format!("metadata.{name} must be a string, not {other}: write it in quotes, as \"{other}\""))
        }
    };
    let may_be_namespace = is_checked && scope == ResourceScope::Namespaced && metadata.get("namespace").is_none();
    let is_meant = |name: &&str| *name == "ns" || misspelt::similar(name, ["namespace"].into_iter()).is_some();
    if let Some(unknown) = unknown_metadata(metadata).find(is_meant).filter(|_| may_be_namespace) {
        return Err(format!("metadata.{unknown} is not known; did you mean namespace, which is not set?"));
    }
    let (name, namespace) = (text("name")?, text("namespace")?);
    if name.is_empty() {
        return Err("metadata.name must be set".into());
    }
    for (field, value) in [("name", name), ("namespace", namespace)] {
        let legal = value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
        if !legal && value.contains("{{") {
            return Err(format!("metadata.{field} is a template: {TEMPLATE}"));
        }
        if !legal || value.len() > NAME_BYTES_MAX {
            let shown: String = value.chars().take(64).collect();
            return Err(format!(
                "metadata.{field} {shown:?} must consist of lower-case letters, digits, '-' and '.', with at most \
                 {NAME_BYTES_MAX} characters"
            ));
        }
    }
    let namespace = match scope {
        ResourceScope::Cluster => "",
        ResourceScope::Namespaced if namespace.is_empty() => "default",
        ResourceScope::Namespaced => namespace,
    };
    Ok(ObjectKey::new(group, kind, namespace, name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
