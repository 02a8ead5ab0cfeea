//! Replacing of prefixes: which replacement is meant, and the two routes that trailing slashes take.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::conditions::Conditions;
use super::order::Standing;
use super::path::Path;
use super::tree::Leaf;
use crate::apis::contour::policy::ReplacePrefix;
use crate::check;

/// Replacements of one route that are read.
pub(crate) const REPLACEMENTS_MAX: usize = 256;

/// Which replacement a route gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// None: nothing is to be replaced.
    Nothing,
    /// None of those that are there is for this prefix.
    NoneMatches,
    /// This one.
    Replacement(Arc<str>),
}

/// Why replacements cannot be used: the reason of the sub-condition, and a sentence.
pub(crate) type Refused = (&'static str, String);

/// Chooses the replacement for the prefix that the includes render.
pub(crate) fn select(entries: &[ReplacePrefix], path: &Path) -> Result<Selected, Refused> {
    if entries.is_empty() {
        return Ok(Selected::Nothing);
    }
    let Path::Prefix(rendered) = path else {
        let message = "cannot specify prefix replacements without a prefix condition";
        return Err(("MustHavePrefix", message.into()));
    };
    if entries.len() > REPLACEMENTS_MAX {
        return Err(("InvalidReplacement", format!("more than {REPLACEMENTS_MAX} prefix replacements")));
    }
    let mut prefixes = BTreeSet::new();
    for entry in entries {
        match entry.prefix.as_deref().unwrap_or_default() {
            "" if !prefixes.insert("") => {
                return Err(("AmbiguousReplacement", "ambiguous prefix replacement".into()));
            }
            prefix if !prefix.is_empty() && !prefixes.insert(prefix) => {
                return Err(("DuplicateReplacement", format!("duplicate replacement prefix '{prefix}'")));
            }
            _ => {}
        }
    }
    for entry in entries {
        let text = &*entry.replacement;
        if text.is_empty() {
            return Err(("EmptyReplacement", "a prefix replacement must not be empty".into()));
        }
        if !text.starts_with('/') {
            return Err(("RelativeReplacement", format!("prefix replacements must start with /, {text} was supplied")));
        }
        check::path::prefix_replacement(text).map_err(|fault| ("InvalidReplacement", fault.to_string()))?;
    }
    let of = |wanted: &str| entries.iter().find(|entry| entry.prefix.as_deref().unwrap_or_default() == wanted);
    Ok(match of(rendered).or_else(|| of("")) {
        Some(entry) => Selected::Replacement(entry.replacement.clone()),
        None => Selected::NoneMatches,
    })
}

/// A route as it is to be served.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Served<'a> {
    /// What was read.
    pub(crate) leaf: &'a Leaf,
    /// Which requests it is for.
    pub(crate) conditions: Conditions,
    /// How it ranks.
    pub(crate) standing: Standing,
    /// What stands in the place of the path that it matched.
    pub(crate) replacement: Option<Arc<str>>,
}

/// The routes to be served for those that were written. `replacements` has one entry a leaf.
///
/// A prefix without a slash at its end would lose or double the slash between it and the rest. So a route on `/foo` or
/// `/foo/` alone becomes two, `/foo/` with a replacement that ends with a slash and `/foo` with one that does not. Where
/// somebody wrote both, both stay as they are.
pub(crate) fn expand<'a>(leaves: &'a [Leaf], replacements: &[Option<Arc<str>>]) -> Vec<Served<'a>> {
    let written: std::collections::HashSet<&Conditions> = leaves.iter().map(|leaf| &leaf.conditions).collect();
    let mut served = Vec::new();
    for (leaf, replacement) in leaves.iter().zip(replacements) {
        let plain = |replacement: Option<Arc<str>>| Served {
            leaf,
            conditions: leaf.conditions.clone(),
            standing: leaf.standing,
            replacement,
        };
        let (Some(replacement), Path::Prefix(prefix)) = (replacement, &leaf.conditions.path) else {
            served.push(plain(replacement.clone()));
            continue;
        };
        let bare = prefix.trim_end_matches('/');
        let twin = |path: Path| Conditions { path, ..leaf.conditions.clone() };
        let slashed: Arc<str> = format!("{bare}/").into();
        let has_slash = prefix.ends_with('/');
        let other = if has_slash { Arc::from(bare) } else { slashed.clone() };
        if bare.is_empty() || written.contains(&twin(Path::Prefix(other))) {
            served.push(plain(Some(replacement.clone())));
            continue;
        }
        let new = replacement.trim_end_matches('/');
        let (short, long): (Arc<str>, Arc<str>) =
            (if new.is_empty() { "/" } else { new }.into(), format!("{new}/").into());
        let (own, implicit, theirs) = if has_slash {
            (long, twin(Path::Exact(bare.into())), short)
        } else {
            (short, twin(Path::Prefix(slashed)), long)
        };
        served.push(plain(Some(own)));
        if !written.contains(&implicit) {
            let standing = Standing::Implicit;
            served.push(Served { leaf, conditions: implicit, standing, replacement: Some(theirs) });
        }
    }
    served
}
