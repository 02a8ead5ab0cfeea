//! Decoding: from the documents of a file to its objects.

use std::fmt;
use std::sync::Arc;

use holdfast_api::apis::decode::TEMPLATE;
use holdfast_api::apis::{Decoded, KINDS, decode, decode_defective};
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::{Object, Source};
use holdfast_graph::ObjectKey;
use serde_json::{Map, Value, json};

use super::Problem;
use super::marks::FieldMarks;
use super::yaml::{self, Defect};

/// Maximum size of an object (bytes of its JSON form), which is the limit of the API server's storage.
pub const OBJECT_BYTES_MAX: usize = 1536 * 1024;
/// Maximum depth of nested lists of objects.
const LIST_DEPTH_MAX: usize = 4;

/// An object of a file.
#[derive(Debug, PartialEq)]
pub struct ManifestEntry {
    /// The key of the object.
    pub key: ObjectKey,
    /// The object; `None` if its content is unusable.
    pub object: Option<Object>,
    /// The faults that decoding found.
    pub faults: Vec<Fault>,
    /// Hash of everything but metadata and status, that is, of the content that determines the generation in an API
    /// server.
    pub content: [u8; 16],
    /// The position of the object.
    pub source: Source,
    /// The positions of its fields, if they are kept.
    pub marks: Option<FieldMarks>,
}

/// What is kept of the documents of a file, besides the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptOfManifest {
    /// Nothing.
    Objects,
    /// The positions of all fields, for reports about objects.
    Marks,
    /// The same, and the documents as they were written, also of kinds that are not read.
    Documents,
}

/// An object of a kind of a gateway that Holdfast does not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnservedObject {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// The finding: that the object has no effect, and what to use instead.
    pub fault: Fault,
}

/// `file:line:column: object: field: message`.
impl fmt::Display for UnservedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.fault)
    }
}

/// A document as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestDocument {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The content.
    pub value: Value,
    /// The positions of its fields.
    pub marks: FieldMarks,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub struct ManifestContents {
    /// The objects, in order.
    pub entries: Vec<Arc<ManifestEntry>>,
    /// Documents that do not parse, or are no objects.
    pub problems: Vec<Problem>,
    /// Objects of kinds that are not read, with their positions.
    pub foreign: Vec<Problem>,
    /// Objects without effect: of kinds of a gateway that are not read.
    pub unserved: Vec<UnservedObject>,
    /// The documents of objects of all kinds, in order, if they are kept.
    pub documents: Vec<ManifestDocument>,
    /// Whether the whole file parsed. If not, missing objects are not known to be deleted.
    pub complete: bool,
    /// Whether a document with an unidentifiable object exists.
    pub nameless: bool,
}

impl ManifestContents {
    /// Returns whether the file contains nothing, not even a problem.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.problems.is_empty() && self.foreign.is_empty() && self.unserved.is_empty()
    }

    /// Returns whether an object that is missing here is certainly deleted.
    pub fn certain(&self) -> bool {
        self.complete && !self.nameless
    }
}

/// The objects in the text of a file.
pub fn contents(file: &Arc<str>, bytes: &[u8], kept: KeptOfManifest) -> ManifestContents {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}'),
        Err(error) => {
            let (line, column) = line_of(bytes, error.valid_up_to());
            let message = "not valid UTF-8; save the file as UTF-8".to_owned();
            return ManifestContents {
                problems: vec![Problem { file: file.clone(), line, column, message }],
                ..ManifestContents::default()
            };
        }
    };
    let (documents, errors) = yaml::parse(text);
    let mut contents = ManifestContents { complete: errors.is_empty(), ..ManifestContents::default() };
    for error in errors {
        let (line, column) = (error.line, error.column);
        let message = match has_template_action(text, line) {
            true => format!("{TEMPLATE}: {}", error.message),
            false => error.message,
        };
        contents.problems.push(Problem { file: file.clone(), line, column, message });
    }
    let mut reader = ManifestReader { file, kept, contents };
    for document in documents {
        reader.document(document.value, document.marks, &document.defects, 0);
    }
    reader.contents
}

/// Returns whether a text has an action of a Helm template up to a line: `{{`, which begins a line or a value. In YAML
/// this would be a mapping with a mapping as its key.
fn has_template_action(text: &str, line: u32) -> bool {
    let lines = text.lines().take(usize::try_from(line).unwrap_or(usize::MAX));
    let begins = |line: &str| {
        let line = line.trim_start();
        line.starts_with("{{") || line.contains(": {{") || line.contains("- {{")
    };
    lines.into_iter().any(begins)
}

struct ManifestReader<'a> {
    file: &'a Arc<str>,
    kept: KeptOfManifest,
    contents: ManifestContents,
}

impl ManifestReader<'_> {
    fn document(&mut self, value: Value, marks: FieldMarks, defects: &[Defect], depth: usize) {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let has_items = value.get("items").is_some_and(Value::is_array);
        let problem = match kind.strip_suffix("List") {
            Some(_) if has_items && depth < LIST_DEPTH_MAX => return self.list(value, &marks, defects, depth),
            Some(of) if of.is_empty() || KINDS.iter().any(|known| known.kind == of) => {
                if has_items {
                    format!(
                        "lists are nested deeper than {LIST_DEPTH_MAX} levels; the objects of this list are not read"
                    )
                } else {
                    format!(
                        "items: this field of a {kind} must be a list of objects; to delete the objects, delete the \
                         file"
                    )
                }
            }
            _ => return self.object(value, marks, defects),
        };
        self.problem(&marks, problem);
    }

    /// Reads `kind: List`, as `kubectl get -o yaml` writes it.
    fn list(&mut self, mut list: Value, marks: &FieldMarks, defects: &[Defect], depth: usize) {
        let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) else { return };
        for (index, item) in items.into_iter().enumerate() {
            let prefix = format!("items[{index}]");
            let own: Vec<Defect> = defects
                .iter()
                .filter_map(|defect| {
                    let rest = defect.field.strip_prefix(&prefix)?;
                    let field = rest.strip_prefix('.').unwrap_or(rest).to_owned();
                    Some(Defect { field, message: defect.message.clone() })
                })
                .collect();
            let place = marks.entry("items").and_then(|items| items.item(index));
            let place = place.cloned().unwrap_or_else(|| FieldMarks::leaf(marks.line, marks.column));
            self.document(item, place, &own, depth + 1);
        }
    }

    fn object(&mut self, value: Value, marks: FieldMarks, defects: &[Defect]) {
        if let Some(twice) = defects.iter().find(|defect| ["apiVersion", "kind"].contains(&&*defect.field)) {
            let message = format!(
                "{} is given twice: a line with --- is missing between two objects, of which none is used",
                twice.field
            );
            return self.problem(&marks, message);
        }
        let source = Source { file: self.file.clone(), line: marks.line };
        let bytes = size(&value);
        let content = content_hash(&value);
        let too_large = bytes > OBJECT_BYTES_MAX;
        if self.kept == KeptOfManifest::Documents {
            let (file, value, marks) = (self.file.clone(), value.clone(), marks.clone());
            self.contents.documents.push(ManifestDocument { file, value, marks });
        }
        let decoded = if too_large {
            unusable(&value, &source, |key| {
                let message =
                    format!("the object has {bytes} bytes; objects of more than {OBJECT_BYTES_MAX} bytes are ignored");
                vec![Fault::new(key, Class::Invalid, "", "TooLarge", message)]
            })
        } else {
            let defects: Vec<_> = defects.iter().map(|d| (d.field.clone(), d.message.clone())).collect();
            decode_defective(value, Some(source.clone()), &defects)
        };
        let (key, object, faults) = match decoded {
            Decoded::Object(object, faults) => (object.key.clone(), Some(*object), faults),
            Decoded::Unusable(key, faults) => (key, None, faults),
            Decoded::Foreign(message) => return self.foreign(&marks, message),
            Decoded::Unserved(fault) => return self.unserved(&marks, fault),
            Decoded::Nameless(message) => {
                // A defect of the text explains more than the error that follows from it.
                let message = defects.first().map_or(message, |defect| format!("{}: {}", defect.field, defect.message));
                return self.problem(&marks, message);
            }
        };
        let marks = (self.kept != KeptOfManifest::Objects).then_some(marks);
        self.contents.entries.push(Arc::new(ManifestEntry { key, object, faults, content, source, marks }));
    }

    fn problem(&mut self, marks: &FieldMarks, message: String) {
        self.contents.nameless = true;
        let problem = Problem { file: self.file.clone(), line: marks.line, column: marks.column, message };
        self.contents.problems.push(problem);
    }

    /// Records an object of a kind that is not read. This is no problem, unless the kind looks like a misspelt one of
    /// ours.
    fn foreign(&mut self, marks: &FieldMarks, message: String) {
        let mut words = message.split(' ');
        let (group, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let group = group.split_once('/').map_or("", |(group, _)| group);
        if self.is_of_another_group(marks, group, kind) {
            return;
        }
        let problem = Problem { file: self.file.clone(), line: marks.line, column: marks.column, message };
        self.contents.foreign.push(problem);
    }

    /// Records an object without effect. Like an object that is not read, it is no problem: the other objects of the
    /// file are used as they are.
    fn unserved(&mut self, marks: &FieldMarks, fault: Fault) {
        if self.is_of_another_group(marks, &fault.object.group, &fault.object.kind) {
            return;
        }
        let (line, column) = marks.find(&fault.field);
        self.contents.unserved.push(UnservedObject { file: self.file.clone(), line, column, fault });
    }

    /// Records a problem if a kind was probably intended as one of another group. Returns whether it was.
    fn is_of_another_group(&mut self, marks: &FieldMarks, group: &str, kind: &str) -> bool {
        let Some(meant) = misspelt(group, kind) else { return false };
        let (line, column) = marks.find("apiVersion");
        let meant = if meant.is_empty() { "the core group" } else { meant };
        let message = format!("apiVersion: Holdfast reads {kind} of {meant}, not of {group:?}");
        self.contents.nameless = true;
        self.contents.problems.push(Problem { file: self.file.clone(), line, column, message });
        true
    }
}

/// The group that was probably intended, if a kind of ours has a group similar to ours.
fn misspelt(group: &str, kind: &str) -> Option<&'static str> {
    let known = KINDS.iter().find(|known| known.kind == kind && known.group != group)?;
    let lower = group.to_ascii_lowercase();
    let is_similar = ["k8s", "gateway", "contour"].iter().any(|part| lower.contains(part));
    (is_similar || !group.contains('.')).then_some(known.group)
}

/// The result for an unusable document, from its identity alone.
fn unusable(value: &Value, source: &Source, faults: impl FnOnce(&ObjectKey) -> Vec<Fault>) -> Decoded {
    let mut identity = Map::new();
    for field in ["apiVersion", "kind"] {
        identity.insert(field.into(), value.get(field).cloned().unwrap_or_default());
    }
    let metadata = |field: &str| value.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default();
    let metadata = json!({"name": metadata("name"), "namespace": metadata("namespace")});
    identity.insert("metadata".into(), metadata);
    match decode(Value::Object(identity), Some(source.clone())) {
        Decoded::Object(object, _) => {
            let faults = faults(&object.key);
            Decoded::Unusable(object.key, faults)
        }
        Decoded::Unusable(key, _) => {
            let faults = faults(&key);
            Decoded::Unusable(key, faults)
        }
        other => other,
    }
}

/// The approximate size of a value's JSON form, in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => 2 + values.iter().map(|value| size(value) + 1).sum::<usize>(),
        Value::Object(fields) => 2 + fields.iter().map(|(key, value)| key.len() + 4 + size(value)).sum::<usize>(),
    }
}

fn content_hash(value: &Value) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    if let Value::Object(fields) = value {
        for (key, value) in fields.iter().filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status")) {
            hasher.update(key.as_bytes());
            // Writing a JSON value to a hasher cannot fail.
            let _ = serde_json::to_writer(&mut hasher, value);
        }
    }
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

/// Line and column, from 1, of a byte of a text.
fn line_of(bytes: &[u8], offset: usize) -> (u32, u32) {
    let before = bytes.get(..offset).unwrap_or(bytes);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}
