//! Positions of the fields of a document in its file.

/// The position of a node, and of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMarks {
    /// Line, from 1: of the key for an entry of a mapping, else of the node itself.
    pub line: u32,
    /// Column, from 1, of the same position.
    pub column: u32,
    pub(super) inner: Inner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inner {
    Leaf,
    List(Vec<FieldMarks>),
    Map(Vec<(String, FieldMarks)>),
}

impl FieldMarks {
    /// The marks of a node without children.
    pub(super) fn leaf(line: u32, column: u32) -> Self {
        Self { line, column, inner: Inner::Leaf }
    }

    /// The marks of an entry of a list.
    pub(super) fn item(&self, index: usize) -> Option<&FieldMarks> {
        match &self.inner {
            Inner::List(items) => items.get(index),
            _ => None,
        }
    }

    /// The marks of an entry of a mapping.
    pub(super) fn entry(&self, key: &str) -> Option<&FieldMarks> {
        match &self.inner {
            Inner::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, marks)| marks),
            _ => None,
        }
    }

    /// The position of a field such as `spec.rules[2].matches[0].path`, as line and column.
    ///
    /// If the field is missing, returns the position of the innermost existing node.
    pub fn find(&self, field: &str) -> (u32, u32) {
        let mut here = self;
        let mut rest = field;
        while let Some((next, remaining)) = here.step(rest) {
            here = next;
            rest = remaining.strip_prefix('.').unwrap_or(remaining);
        }
        (here.line, here.column)
    }

    /// One step along a path: the next node, and the rest of the path.
    fn step<'a>(&self, path: &'a str) -> Option<(&FieldMarks, &'a str)> {
        match &self.inner {
            Inner::Leaf => None,
            Inner::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                Some((items.get(index.parse::<usize>().ok()?)?, rest))
            }
            // A key may contain dots itself (`metadata.labels.example.com/team`), so the longest matching key is used.
            Inner::Map(entries) => entries
                .iter()
                .filter_map(|(key, marks)| {
                    let rest = path.strip_prefix(key.as_str())?;
                    let whole = !key.is_empty() && (rest.is_empty() || rest.starts_with(['.', '[']));
                    whole.then_some((key.len(), marks, rest))
                })
                .max_by_key(|(length, ..)| *length)
                .map(|(_, marks, rest)| (marks, rest)),
        }
    }
}
