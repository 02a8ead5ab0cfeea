//! Header modification: setting, adding and removing request and response headers.

use std::sync::{Arc, LazyLock};

use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};

use super::Flaw;
use crate::model::sparse::Blank;

/// Maximum number of entries in one list; equal to the limit in the CRD.
pub const ENTRIES_MAX: usize = 16;

/// Header changes. Names are lower-case and valid, values are literal text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Headers that replace existing ones.
    pub set: Vec<(Arc<str>, Arc<str>)>,
    /// Headers that replace existing ones; values are Envoy format strings.
    pub set_formatted: Vec<(Arc<str>, Arc<str>)>,
    /// Headers that are added to existing ones.
    pub add: Vec<(Arc<str>, Arc<str>)>,
    /// Headers that are added to existing ones; values are Envoy format strings.
    pub add_formatted: Vec<(Arc<str>, Arc<str>)>,
    /// Headers that are removed.
    pub remove: Vec<Arc<str>>,
}

impl Blank for HeaderEdits {
    fn blank() -> &'static Self {
        static BLANK: LazyLock<HeaderEdits> = LazyLock::new(HeaderEdits::default);
        &BLANK
    }
}

impl HeaderEdits {
    /// Returns the names of the headers of which no earlier value remains: removed and replaced ones.
    pub fn overwritten(&self) -> impl Iterator<Item = &str> {
        let set = self.set.iter().chain(&self.set_formatted).map(|(name, _)| name);
        set.chain(&self.remove).map(|name| &**name)
    }

    /// Parses and validates the lists; every unusable entry is a flaw.
    pub fn read<'a>(
        set: impl IntoIterator<Item = (&'a str, &'a str)>,
        add: impl IntoIterator<Item = (&'a str, &'a str)>,
        remove: impl IntoIterator<Item = &'a str>,
        flaws: &mut Vec<Flaw>,
    ) -> Self {
        let set = pairs("set", set, flaws);
        let add = pairs("add", add, flaws);
        let mut names = Vec::new();
        for (index, name) in remove.into_iter().enumerate() {
            if index >= ENTRIES_MAX {
                flaws.push(Flaw::new("remove", format!("must have at most {ENTRIES_MAX} entries")));
                break;
            }
            match holdfast_check::header::modifiable_name(name) {
                Ok(name) => names.push(name.into()),
                Err(fault) => flaws.push(Flaw::new(format!("remove[{index}]"), fault)),
            }
        }
        Self { set, add, remove: names, ..Self::default() }
    }

    /// Returns these changes and then later ones, as one list: Envoy removes headers before it sets and adds others.
    pub fn followed_by(&self, later: &Self) -> Self {
        let join = |own: &[(Arc<str>, Arc<str>)], others: &[(Arc<str>, Arc<str>)]| {
            let kept = own.iter().filter(|(name, _)| !later.overwritten().any(|other| *other == **name));
            kept.chain(others).cloned().collect()
        };
        Self {
            set: join(&self.set, &later.set),
            set_formatted: join(&self.set_formatted, &later.set_formatted),
            add: join(&self.add, &later.add),
            add_formatted: join(&self.add_formatted, &later.add_formatted),
            remove: self.remove.iter().chain(&later.remove).cloned().collect(),
        }
    }

    /// Returns whether the changes remove or overwrite a header, so that its original value is hidden.
    pub fn hides(&self) -> bool {
        let Self { set, set_formatted, add: _, add_formatted: _, remove } = self;
        !set.is_empty() || !set_formatted.is_empty() || !remove.is_empty()
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns Envoy's form of headers to set and to add. Percent signs of literal values are escaped, since Envoy
    /// would read them as command operators.
    pub(crate) fn to_add(&self) -> Vec<HeaderValueOption> {
        let formatted = |action: HeaderAppendAction, name: &str, value: String| HeaderValueOption {
            header: Some(HeaderValue { key: name.to_owned(), value, ..Default::default() }),
            append_action: action.into(),
            keep_empty_value: true,
            ..Default::default()
        };
        let option = |action: HeaderAppendAction| {
            move |(name, value): &(Arc<str>, Arc<str>)| {
                formatted(action, name, holdfast_check::header::escape_percent(value).into_owned())
            }
        };
        let (overwrite, append) = (HeaderAppendAction::OverwriteIfExistsOrAdd, HeaderAppendAction::AppendIfExistsOrAdd);
        let raw = |action: HeaderAppendAction| {
            move |(name, value): &(Arc<str>, Arc<str>)| formatted(action, name, value.to_string())
        };
        let set = self.set.iter().map(option(overwrite)).chain(self.set_formatted.iter().map(raw(overwrite)));
        let add = self.add.iter().map(option(append)).chain(self.add_formatted.iter().map(raw(append)));
        set.chain(add).collect()
    }

    /// Returns Envoy's form of headers to remove.
    pub(crate) fn to_remove(&self) -> Vec<String> {
        self.remove.iter().map(ToString::to_string).collect()
    }
}

fn pairs<'a>(
    list: &str,
    entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    flaws: &mut Vec<Flaw>,
) -> Vec<(Arc<str>, Arc<str>)> {
    let mut read: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    for (index, (name, value)) in entries.into_iter().enumerate() {
        if index >= ENTRIES_MAX {
            flaws.push(Flaw::new(list, format!("must have at most {ENTRIES_MAX} entries")));
            break;
        }
        if let Err(fault) = holdfast_check::header::value(value) {
            flaws.push(Flaw::new(format!("{list}[{index}].value"), fault));
            continue;
        }
        match holdfast_check::header::modifiable_name(name) {
            // Of entries with equal names only the first counts:
            // https://gateway-api.sigs.k8s.io/reference/spec/#httpheader
            Ok(name) if read.iter().any(|(known, _)| **known == *name) => {}
            Ok(name) => read.push((name.into(), value.into())),
            Err(fault) => flaws.push(Flaw::new(format!("{list}[{index}].name"), fault)),
        }
    }
    // Most lists have one entry, and room for four until here.
    read.shrink_to_fit();
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_changes_come_after_earlier_ones() {
        let read =
            |set: &[(&'static str, &'static str)], add: &[(&'static str, &'static str)], remove: &[&'static str]| {
                let mut flaws = Vec::new();
                let (set, add) = (set.iter().copied(), add.iter().copied());
                let edits = HeaderEdits::read(set, add, remove.iter().copied(), &mut flaws);
                assert_eq!(flaws, []);
                edits
            };
        let first = read(&[("a", "1"), ("b", "1")], &[("c", "1")], &["d"]);
        assert_eq!(first.followed_by(&HeaderEdits::default()), first);
        assert_eq!(HeaderEdits::default().followed_by(&first), first);
        let later = read(&[("a", "2"), ("c", "2"), ("d", "2")], &[("b", "2")], &[]);
        let both = read(&[("b", "1"), ("a", "2"), ("c", "2"), ("d", "2")], &[("b", "2")], &["d"]);
        assert_eq!(first.followed_by(&later), both);
        assert_eq!(first.followed_by(&read(&[], &[], &["a", "c"])), read(&[("b", "1")], &[], &["d", "a", "c"]));
    }
}
