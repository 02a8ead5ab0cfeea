//! Detection of misspelt kinds, fields and names of objects: the known kind of the same group, the known field of the
//! same object, or the existing object of the same kind, that was probably intended.

use super::scheme::KINDS;
use super::unserved;

/// Longest name, in characters, that is compared with the names of kinds or fields; a longer name is not a misspelt
/// one.
const KIND_CHARS_MAX: usize = 40;
/// Number of edits by which a name of the core group may differ: most kinds of this group are not read.
const CORE_EDITS: usize = 2;

/// Returns the kind that was probably intended by an unknown name: the kind of the same group with the most similar
/// spelling, if any is similar enough.
pub(super) fn meant(group: &str, name: &str) -> Option<&'static str> {
    if unserved::is_known(group, name) || name.chars().count() > KIND_CHARS_MAX {
        return None;
    }
    let kinds = KINDS.iter().filter(|kind| kind.group == group).map(|kind| kind.kind);
    let (edits, kind) = kinds.map(|kind| (edits(name, kind), kind)).min()?;
    let most = if group.is_empty() { CORE_EDITS } else { name.len().max(kind.len()) / 3 };
    (edits <= most).then_some(kind)
}

/// Returns the field or the object that was probably intended by an unknown name: the most similar of the known names,
/// if any is similar enough; of equally similar names the first.
pub fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.chars().count() > KIND_CHARS_MAX {
        return None;
    }
    let most = |known: &str| name.len().max(known.len()) / 3;
    let near = known.filter(|known| name.len().abs_diff(known.len()) <= most(known));
    let (edits, known) = near.map(|known| (edits(name, known), known)).min_by_key(|(edits, _)| *edits)?;
    (edits <= most(known)).then_some(known)
}

/// Returns the number of letters that are missing, added, changed or swapped with their neighbour between two names;
/// capital and small letters are equal.
fn edits(one: &str, other: &str) -> usize {
    let lower = |text: &str| text.chars().map(|letter| letter.to_ascii_lowercase()).collect::<Vec<_>>();
    let (one, other) = (lower(one), lower(other));
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut now = vec![row + 1];
        for (column, known) in other.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
            let changed = at(&last, column) + usize::from(letter != known);
            let mut least = changed.min(at(&last, column + 1) + 1).min(at(&now, column) + 1);
            let is_swapped =
                row > 0 && column > 0 && one.get(row - 1) == Some(known) && other.get(column - 1) == Some(letter);
            if is_swapped {
                least = least.min(at(&before, column - 1) + 1);
            }
            now.push(least);
        }
        before = std::mem::replace(&mut last, now);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{contour, gateway, kgateway};
    use super::*;

    #[test]
    fn a_misspelt_kind_is_recognised_and_no_other_is() {
        for (group, name, kind) in [
            (gateway::GROUP, "HTTPRotue", Some("HTTPRoute")),
            (gateway::GROUP, "HttpRoute", Some("HTTPRoute")),
            (gateway::GROUP, "HTTPRoutes", Some("HTTPRoute")),
            (gateway::GROUP, "Gatway", Some("Gateway")),
            (kgateway::GROUP, "TrafficPolcy", Some("TrafficPolicy")),
            (contour::GROUP, "HTTPproxies", Some("HTTPProxy")),
            ("", "Servcie", Some("Service")),
            ("", "ServiceAccount", None),
            ("", "Pod", None),
            ("apps", "Deployment", None),
            (gateway::GROUP, "TSLRoute", Some("TLSRoute")),
            (kgateway::GROUP, "HTTPListenerPolicy", None),
            (kgateway::GROUP, "GatewayParameters", None),
            (gateway::GROUP, "Mesh", None),
        ] {
            assert_eq!(meant(group, name), kind, "{group} {name}");
        }
        assert_eq!(meant(gateway::GROUP, &"HTTPRoute".repeat(1000)), None);
    }
}
