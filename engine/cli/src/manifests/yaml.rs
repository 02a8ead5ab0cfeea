//! YAML parser: from text to documents (JSON values with the position of each field), within limits.
//!
//! The parser library only splits the text into events; this module interprets them. It is the parser of `serde-saphyr`,
//! which is used wherever one document is read: its deserializer ends at the first error of a text, and gives positions
//! only of fields with a type for them. Here, a syntax error invalidates only its own document. Well-formed text that
//! cannot be the content of an object (a duplicate key) becomes a [`Defect`] of its document.

use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::marks::{FieldMarks, Inner};
use super::scalar;

/// Maximum depth of nested mappings and lists.
pub const YAML_DEPTH_MAX: usize = 64;
/// Maximum number of documents of a file.
pub const YAML_DOCUMENTS_MAX: usize = 100_000;
/// Maximum number of nodes (scalars, lists, mappings) of a file, with aliases expanded.
pub const YAML_NODES_MAX: usize = 5_000_000;
/// Maximum number of nodes from aliases of one document: a few lines can expand to billions.
pub const ALIAS_NODES_MAX: usize = 10_000;
/// Maximum number of syntax errors, after which the rest of a file is not read.
pub const YAML_ERRORS_MAX: usize = 20;

/// A document of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The content.
    pub value: Value,
    /// The positions of its fields.
    pub marks: FieldMarks,
    /// Defects of the content, although it parses.
    pub defects: Vec<Defect>,
}

/// Well-formed text that cannot be the content of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// The field, as in `spec.rules[2].matches`.
    pub field: String,
    /// A sentence.
    pub message: String,
}

/// The reason why a document does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// A sentence.
    pub message: String,
}

impl SyntaxError {
    fn at(span: &Span, message: impl Into<String>) -> Self {
        let (line, column) = place(span);
        Self { line, column, message: message.into() }
    }
}

impl From<ScanError> for SyntaxError {
    fn from(error: ScanError) -> Self {
        let marker = error.marker();
        Self { line: number(marker.line()), column: number(marker.col() + 1), message: error.info() }
    }
}

/// The documents of a text, in order, without empty ones, and the syntax errors of the other documents.
pub fn parse(text: &str) -> (Vec<Document>, Vec<SyntaxError>) {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: YAML_DEPTH_MAX,
        block_nesting_limit: YAML_DEPTH_MAX,
    };
    let mut composer = Composer::new(text, options);
    let mut documents = Vec::new();
    let mut errors = Vec::new();
    loop {
        match composer.document() {
            Ok(Some(document)) => {
                if !document.value.is_null() || !document.defects.is_empty() {
                    documents.push(document);
                }
                if documents.len() > YAML_DOCUMENTS_MAX {
                    let line = documents.pop().map_or(0, |last| last.marks.line);
                    let message = format!("more than {YAML_DOCUMENTS_MAX} documents in one file; split the file");
                    errors.push(SyntaxError { line, column: 1, message });
                    break;
                }
            }
            Ok(None) => break,
            Err(error) => {
                errors.push(error);
                if errors.len() >= YAML_ERRORS_MAX || composer.nodes > YAML_NODES_MAX {
                    break;
                }
                match composer.parser.proceed_next_document() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        errors.push(error.into());
                        break;
                    }
                }
            }
        }
    }
    (documents, errors)
}

/// A node with an anchor, to which an alias can refer.
struct Anchored {
    value: Value,
    marks: FieldMarks,
    nodes: usize,
}

struct Composer<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Nodes of the file so far.
    nodes: usize,
    /// Nodes of the current document from aliases.
    alias_nodes: usize,
    anchors: HashMap<usize, Anchored>,
    defects: Vec<Defect>,
    /// The path of the current field.
    path: Vec<PathStep>,
}

/// The positions of a mapping's entries.
type Entries = Vec<(String, FieldMarks)>;

enum PathStep {
    Key(String),
    Index(usize),
}

impl<'t> Composer<'t> {
    fn new(text: &'t str, options: Options) -> Self {
        Self {
            parser: Parser::new_from_str_with_options(text, options),
            nodes: 0,
            alias_nodes: 0,
            anchors: HashMap::new(),
            defects: Vec::new(),
            path: Vec::new(),
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, SyntaxError> {
        self.parser.next_event().transpose().map_err(SyntaxError::from)
    }

    fn document(&mut self) -> Result<Option<Document>, SyntaxError> {
        self.anchors.clear();
        self.defects.clear();
        self.path.clear();
        self.alias_nodes = 0;
        loop {
            match self.next()? {
                None | Some((Event::StreamEnd, _)) => return Ok(None),
                Some((Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _)) => {}
                Some((event, span)) => {
                    let (value, marks) = self.node(event, &span, 0)?;
                    return Ok(Some(Document { value, marks, defects: std::mem::take(&mut self.defects) }));
                }
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<(Value, FieldMarks), SyntaxError> {
        if depth > YAML_DEPTH_MAX {
            return Err(SyntaxError::at(span, format!("nested deeper than {YAML_DEPTH_MAX} levels")));
        }
        self.count(1, span)?;
        let before = self.nodes;
        let (line, column) = place(span);
        let (anchor, value, inner) = match event {
            Event::Scalar(text, style, anchor, tag) => (anchor, self.scalar(&text, style, tag.as_deref()), Inner::Leaf),
            Event::SequenceStart(_, anchor, _) => {
                let (values, marks) = self.list(depth)?;
                (anchor, Value::Array(values), Inner::List(marks))
            }
            Event::MappingStart(_, anchor, _) => {
                let (values, marks) = self.mapping(depth)?;
                (anchor, Value::Object(values), Inner::Map(marks))
            }
            Event::Alias(id) => return self.alias(id, span),
            _ => return Err(SyntaxError::at(span, "a value was expected here")),
        };
        let marks = FieldMarks { line, column, inner };
        if anchor != 0 {
            let nodes = self.nodes - before + 1;
            self.anchors.insert(anchor, Anchored { value: value.clone(), marks: marks.clone(), nodes });
        }
        Ok((value, marks))
    }

    fn count(&mut self, nodes: usize, span: &Span) -> Result<(), SyntaxError> {
        self.nodes += nodes;
        if self.nodes > YAML_NODES_MAX {
            return Err(SyntaxError::at(
                span,
                format!("more than {YAML_NODES_MAX} values in one file; split the file"),
            ));
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
        let textual = style != ScalarStyle::Plain
            || tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str") || tag.parts() == ("", "!"));
        if textual {
            return Value::String(text.to_owned());
        }
        scalar::plain(text).unwrap_or_else(|message| {
            self.defect(message);
            Value::Null
        })
    }

    fn list(&mut self, depth: usize) -> Result<(Vec<Value>, Vec<FieldMarks>), SyntaxError> {
        let (mut values, mut marks) = (Vec::new(), Vec::new());
        while let Some((event, span)) = self.next()? {
            if event == Event::SequenceEnd {
                break;
            }
            self.path.push(PathStep::Index(values.len()));
            let (value, mark) = self.node(event, &span, depth + 1)?;
            self.path.pop();
            values.push(value);
            marks.push(mark);
        }
        Ok((values, marks))
    }

    fn mapping(&mut self, depth: usize) -> Result<(Map<String, Value>, Entries), SyntaxError> {
        let (mut values, mut marks) = (Map::new(), Vec::new());
        let mut merged = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
            let (key, _) = self.key(event, &span, depth)?;
            let Some((event, value_span)) = self.next()? else { break };
            self.path.push(PathStep::Key(key.clone()));
            let (value, mut mark) = self.node(event, &value_span, depth + 1)?;
            if merge {
                merged.push((value, mark));
            } else if values.contains_key(&key) {
                self.defect("the key is given twice in the same mapping".into());
            } else {
                (mark.line, mark.column) = place(&span);
                marks.push((key.clone(), mark));
                values.insert(key, value);
            }
            self.path.pop();
        }
        for (value, mark) in merged {
            self.merge(value, mark, &mut values, &mut marks);
        }
        Ok((values, marks))
    }

    /// A key as text: numbers and booleans keep their written form.
    fn key(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<(String, FieldMarks), SyntaxError> {
        if let Event::Scalar(text, _, 0, _) = &event {
            self.count(1, span)?;
            let (line, column) = place(span);
            return Ok((text.to_string(), FieldMarks::leaf(line, column)));
        }
        match self.node(event, span, depth + 1)? {
            (Value::String(text), marks) => Ok((text, marks)),
            (Value::Array(_) | Value::Object(_), _) => {
                Err(SyntaxError::at(span, "a list or mapping cannot be the key of a mapping"))
            }
            (value, marks) => Ok((value.to_string(), marks)),
        }
    }

    /// Merges `<<: *defaults`: entries that are missing here are taken from there. <https://yaml.org/type/merge.html>
    fn merge(&mut self, value: Value, mark: FieldMarks, values: &mut Map<String, Value>, marks: &mut Entries) {
        match (value, mark.inner) {
            (Value::Object(from), Inner::Map(from_marks)) => {
                for (key, mark) in from_marks {
                    if let (false, Some(value)) = (values.contains_key(&key), from.get(&key)) {
                        values.insert(key.clone(), value.clone());
                        marks.push((key, mark));
                    }
                }
            }
            (Value::Array(list), Inner::List(list_marks)) if list.iter().all(Value::is_object) => {
                for (value, mark) in list.into_iter().zip(list_marks) {
                    self.merge(value, mark, values, marks);
                }
            }
            _ => self.defect("the value of << must be a mapping, or a list of mappings".into()),
        }
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<(Value, FieldMarks), SyntaxError> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(SyntaxError::at(span, "an alias cannot be inside its own anchor"));
        };
        let nodes = anchored.nodes;
        self.alias_nodes += nodes;
        if self.alias_nodes > ALIAS_NODES_MAX {
            let message = format!("aliases of this document expand to more than {ALIAS_NODES_MAX} values");
            return Err(SyntaxError::at(span, message));
        }
        let found = (anchored.value.clone(), anchored.marks.clone());
        self.count(nodes, span)?;
        Ok(found)
    }

    fn defect(&mut self, message: String) {
        let mut field = String::new();
        for step in &self.path {
            match step {
                PathStep::Key(key) if field.is_empty() => field.push_str(key),
                PathStep::Key(key) => {
                    field.push('.');
                    field.push_str(key);
                }
                PathStep::Index(index) => {
                    field.push('[');
                    field.push_str(&index.to_string());
                    field.push(']');
                }
            }
        }
        self.defects.push(Defect { field, message });
    }
}

fn place(span: &Span) -> (u32, u32) {
    (number(span.start.line()), number(span.start.col() + 1))
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Document {
        let (mut documents, errors) = parse(text);
        assert_eq!(errors, []);
        assert_eq!(documents.len(), 1);
        documents.remove(0)
    }

    #[test]
    fn documents_keep_the_place_of_each_field() {
        let text = "# top\na: 1\nspec:\n  rules:\n  - name: x\n  - matches:\n    - {path: /p}\n  example.com/k: v\n---\n---\nb: 2\n";
        let (documents, errors) = parse(text);
        assert_eq!(errors, []);
        assert_eq!(documents.len(), 2, "an empty document is no document");
        let marks = &documents[0].marks;
        assert_eq!(marks.find("").0, 2);
        assert_eq!(marks.find("spec").0, 3);
        assert_eq!(marks.find("spec.rules[1].matches[0].path"), (7, 8));
        assert_eq!(marks.find("spec.rules[1].matches[0].headers").0, 7, "the innermost that is written");
        assert_eq!(marks.find("spec.example.com/k").0, 8);
        assert_eq!(documents[1].marks.find("b").0, 11);
    }

    #[test]
    fn a_syntax_error_costs_its_own_document() {
        let (documents, errors) = parse("a: 1\n---\nb: [1\nc: 2\n---\nd: 4\n");
        assert_eq!(documents.iter().map(|d| d.value.clone()).collect::<Vec<_>>(), [json!({"a": 1}), json!({"d": 4})]);
        assert_eq!(errors.len(), 1);
        assert!((3..=5).contains(&errors[0].line), "{errors:?}");
        assert!(!errors[0].message.is_empty());
    }

    #[test]
    fn anchors_merges_and_tags() {
        let document = one("base: &b {x: 1, y: 2}\nhere:\n  <<: *b\n  y: 3\nagain: *b\ntext: !!str 5\n");
        assert_eq!(
            document.value,
            json!({"base": {"x": 1, "y": 2}, "here": {"x": 1, "y": 3}, "again": {"x": 1, "y": 2}, "text": "5"})
        );
    }

    #[test]
    fn a_key_given_twice_is_a_defect_of_the_document() {
        let document = one("spec:\n  rules:\n  - a: 1\n    a: 2\n");
        assert_eq!(document.value, json!({"spec": {"rules": [{"a": 1}]}}));
        assert_eq!(document.defects.len(), 1);
        assert_eq!(document.defects[0].field, "spec.rules[0].a");
    }

    #[test]
    fn a_billion_laughs_are_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let alias = format!("*a{}", level - 1);
            text.push_str(&format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 10].join(", ")));
        }
        let (documents, errors) = parse(&text);
        assert!(documents.is_empty());
        assert!(errors[0].message.contains("aliases"), "{errors:?}");
        assert!(errors[0].line > 1);
    }

    #[test]
    fn depth_is_limited() {
        for text in [format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000)), "- ".repeat(5_000)] {
            let (documents, errors) = parse(&text);
            assert!(documents.is_empty());
            assert_eq!(errors.len(), 1, "{errors:?}");
        }
        // Blocks and flows together, each within the limit of the parser library.
        let (_, errors) = parse(&format!("{}{}", "- ".repeat(60), "[".repeat(60) + &"]".repeat(60)));
        assert!(errors[0].message.contains("nested deeper"), "{errors:?}");
    }

    #[test]
    fn json_is_yaml() {
        let document = one("{\n\t\"a\": [1, 2.5, true, null, \"\\u00e9\\/\"]\n}\n");
        assert_eq!(document.value, json!({"a": [1, 2.5, true, null, "é/"]}));
    }

    #[test]
    fn keys_are_text() {
        assert_eq!(one("80: a\ntrue: b\n").value, json!({"80": "a", "true": "b"}));
        let (documents, errors) = parse("? [a]\n: 1\n");
        assert!(documents.is_empty());
        assert!(errors[0].message.contains("key"), "{errors:?}");
    }
}
