//! Clusters or listeners that an Envoy names when it refuses part of a response.
//!
//! Envoy applies every valid cluster and listener of such a response and names each invalid one, as in `Error
//! adding/updating listener(s) l1: <why>\nl2: <why>\n` and `Error adding/updating cluster(s) c1: <why>, c2: <why>`. It
//! refuses a whole response, without names, where it cannot decode the response.

/// Length at which Envoy truncates its message and appends a mark.
const CUT_AT: usize = 4096;
/// Prefix of a message about refused listeners.
const LISTENERS: &str = "Error adding/updating listener(s) ";

/// Resources of a response that a refusal names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Blame<'a> {
    /// These were refused, all others were applied.
    Exactly(Vec<&'a str>),
    /// These were refused; the message was truncated, so there may be more.
    AtLeast(Vec<&'a str>),
    /// No resource is named.
    Unnamed,
}

/// Returns which of `names` the message blames.
pub(crate) fn blame<'a>(message: &str, names: impl Iterator<Item = &'a str>) -> Blame<'a> {
    let Some(list) =
        [LISTENERS, "Error adding/updating cluster(s) "].into_iter().find_map(|start| message.strip_prefix(start))
    else {
        return Blame::Unnamed;
    };
    let named: Vec<&str> = names.filter(|name| is_named(list, name)).collect();
    let was_cut = message.len() >= CUT_AT || message.ends_with("...(truncated)");
    match (named.is_empty(), was_cut) {
        (true, _) => Blame::Unnamed,
        (false, false) => Blame::Exactly(named),
        (false, true) => Blame::AtLeast(named),
    }
}

/// Returns the part of a message about one of the resources that it names, in the form of a message about this resource
/// only. Only listeners have separate lines: for clusters, the whole message is returned.
pub(crate) fn reason(message: &str, name: &str, named: &[&str]) -> String {
    let Some(list) = message.strip_prefix(LISTENERS) else { return message.to_owned() };
    let is_of = |line: &str, name: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "));
    let (mut own, mut is_own) = (Vec::new(), false);
    for line in list.lines() {
        if let Some(of) = named.iter().find(|of| is_of(line, of)) {
            is_own = *of == name;
        }
        if is_own {
            own.push(line);
        }
    }
    if own.is_empty() { message.to_owned() } else { format!("{LISTENERS}{}", own.join("\n")) }
}

/// Returns whether `name: ` is at the start of an item.
fn is_named(list: &str, name: &str) -> bool {
    let is_item = |at: usize| {
        let (before, after) = (&list[..at], &list[at + name.len()..]);
        after.starts_with(": ") && (before.is_empty() || before.ends_with('\n') || before.ends_with(", "))
    };
    !name.is_empty() && list.match_indices(name).any(|(at, _)| is_item(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(message: &str, names: &[&'a str]) -> Blame<'a> {
        blame(message, names.iter().copied())
    }

    #[test]
    fn listeners_and_clusters_are_named_each_in_its_form() {
        let listeners = "Error adding/updating listener(s) l1: duplicate address\nl2: no such filter\n";
        assert_eq!(of(listeners, &["l", "l1", "l2", "l3"]), Blame::Exactly(vec!["l1", "l2"]));
        let clusters = "Error adding/updating cluster(s) a/b: bad, c2: worse";
        assert_eq!(of(clusters, &["b", "a/b", "c2", "2"]), Blame::Exactly(vec!["a/b", "c2"]));
    }

    #[test]
    fn of_several_listeners_each_has_its_own_reason() {
        let message = "Error adding/updating listener(s) l1: cannot bind\nl2: no such filter\nin line 2\n";
        let named = ["l1", "l2"];
        assert_eq!(reason(message, "l1", &named), "Error adding/updating listener(s) l1: cannot bind");
        assert_eq!(reason(message, "l2", &named), "Error adding/updating listener(s) l2: no such filter\nin line 2");
        assert_eq!(reason("missing ]: [", "l1", &named), "missing ]: [");
        let clusters = "Error adding/updating cluster(s) a: bad, b: worse";
        assert_eq!(reason(clusters, "a", &["a", "b"]), clusters);
    }

    #[test]
    fn a_name_elsewhere_in_the_text_is_not_blamed() {
        let message = "Error adding/updating listener(s) l1: clashes with l2: sorry\n";
        assert_eq!(of(message, &["l2"]), Blame::Unnamed);
    }

    #[test]
    fn other_texts_name_no_resource() {
        assert_eq!(of("missing ]: [", &["missing ]"]), Blame::Unnamed);
        assert_eq!(of("", &["a"]), Blame::Unnamed);
    }

    #[test]
    fn a_message_that_was_cut_may_have_named_more() {
        let message = "Error adding/updating listener(s) l1: x\nl...(truncated)";
        assert_eq!(of(message, &["l1", "l2"]), Blame::AtLeast(vec!["l1"]));
    }
}
