//! Prefix rewriting: selection of the replacement, and the two routes that trailing slashes require.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::contour::policy::ReplacePrefix;

use super::conditions::Conditions;
use super::order::RouteOrigin;
use super::path::Path;
use crate::httpproxy::includes::Leaf;

/// Maximum number of replacements of one route.
pub(crate) const REPLACEMENTS_MAX: usize = 256;

/// The replacement of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// The route has no replacements.
    Nothing,
    /// No replacement is for this prefix.
    NoneMatches,
    /// The selected replacement.
    Replacement(Arc<str>),
}

/// Reason why replacements cannot be used: the reason of the sub-condition, and a sentence.
pub type Refused = (&'static str, String);

/// Selects the replacement for the prefix that results from the includes.
pub fn select(entries: &[ReplacePrefix], path: &Path) -> Result<Selected, Refused> {
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
        holdfast_check::path::prefix_replacement(text).map_err(|fault| ("InvalidReplacement", fault.to_string()))?;
    }
    let of = |wanted: &str| entries.iter().find(|entry| entry.prefix.as_deref().unwrap_or_default() == wanted);
    Ok(match of(rendered).or_else(|| of("")) {
        Some(entry) => Selected::Replacement(entry.replacement.clone()),
        None => Selected::NoneMatches,
    })
}

/// Returns what is probably not meant in the replacements of a route, of which `selected` is in force.
pub fn doubts(entries: &[ReplacePrefix], selected: &str, leaf: &Leaf) -> Vec<Refused> {
    let Path::Prefix(rendered) = &leaf.conditions.path else { return Vec::new() };
    let mut doubts = Vec::new();
    if &**rendered == "/" && !selected.ends_with('/') {
        let message = format!(
            "the prefix / is replaced by {selected}, which does not end with a slash: /a becomes {selected}a; write \
             {selected}/"
        );
        doubts.push(("MissingSlash", message));
    }
    // A route of an included HTTPProxy has other prefixes below other includes.
    let is_alone = leaf.ancestors.is_empty();
    let prefix = |entry: &ReplacePrefix| entry.prefix.as_deref().unwrap_or_default().to_owned();
    let is_exact = entries.iter().any(|entry| prefix(entry) == **rendered);
    let is_unused = |prefix: &String| *prefix != **rendered && (is_exact || !prefix.is_empty());
    for unused in entries.iter().map(prefix).filter(|_| is_alone).filter(is_unused) {
        let message = match &*unused {
            "" => format!("an entry without prefix is not used: another entry has the prefix {rendered} of the route"),
            unused => format!("the entry for the prefix {unused} is not used: the prefix of the route is {rendered}"),
        };
        doubts.push(("UnusedReplacement", message));
    }
    doubts
}

/// A route after the expansion of rewrites.
#[derive(Clone, Debug, PartialEq)]
pub struct Served<'a> {
    /// The leaf that the route was made from.
    pub leaf: &'a Leaf,
    /// Index of the leaf.
    pub index: usize,
    /// Conditions of the route.
    pub conditions: Conditions,
    /// Rank among routes with the same path.
    pub origin: RouteOrigin,
    /// Replacement of the matched prefix.
    pub replacement: Option<Arc<str>>,
}

/// Expands written routes to served routes. `replacements` has one entry for each leaf.
///
/// The replacement of a prefix without trailing slash would remove or double the slash between the prefix and the rest
/// of the path. So a route for only one of `/foo` and `/foo/` becomes two routes: `/foo/` with a replacement that ends
/// with a slash, and `/foo` with a replacement that does not. If both are written, both are kept.
pub fn expand<'a>(leaves: &'a [Leaf], replacements: &[Option<Arc<str>>]) -> Vec<Served<'a>> {
    let written: std::collections::HashSet<&Conditions> = leaves.iter().map(|leaf| &leaf.conditions).collect();
    let mut served = Vec::new();
    for (index, (leaf, replacement)) in leaves.iter().zip(replacements).enumerate() {
        let plain = |replacement: Option<Arc<str>>| Served {
            leaf,
            index,
            conditions: leaf.conditions.clone(),
            origin: leaf.origin,
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
            let origin = RouteOrigin::Implicit;
            served.push(Served { leaf, index, conditions: implicit, origin, replacement: Some(theirs) });
        }
    }
    served
}
