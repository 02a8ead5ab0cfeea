//! Names of the objects of a data plane. They depend on the Gateway's identity only, so that a change of its spec keeps
//! them.

use holdfast_graph::ObjectKey;

/// Maximum length of a name and of a label's value.
const NAME_CHARS_MAX: usize = 63;
/// Maximum length of a ServiceAccount's name.
const ACCOUNT_CHARS_MAX: usize = 253;
/// Suffix of all names.
const SUFFIX: &str = "-holdfast";
/// Length of the hash that distinguishes changed or shortened names.
const HASH_CHARS: usize = 8;

/// Returns the name of every object of a Gateway's data plane: `public-holdfast`.
///
/// A name that is invalid for a Service (too long, with a dot, or with a digit first) is changed, and a hash
/// distinguishes it.
pub fn name(gateway: &ObjectKey) -> String {
    let written = &*gateway.name;
    let first_is_letter = written.starts_with(|first: char| first.is_ascii_lowercase());
    if first_is_letter && !written.contains('.') && written.len() + SUFFIX.len() <= NAME_CHARS_MAX {
        return format!("{written}{SUFFIX}");
    }
    let prefix = if first_is_letter { "" } else { "gw-" };
    let room = NAME_CHARS_MAX - SUFFIX.len() - HASH_CHARS - 1 - prefix.len();
    let stem: String = written.chars().map(|c| if c == '.' { '-' } else { c }).take(room).collect();
    format!("{prefix}{}-{}{SUFFIX}", stem.trim_end_matches('-'), short_hash(written))
}

/// Returns the name of the ServiceAccount. It identifies the Gateway of an Envoy, so it contains the Gateway's name
/// unchanged wherever possible: names of ServiceAccounts may be long and may contain dots.
pub fn account(gateway: &ObjectKey) -> String {
    if gateway.name.len() + SUFFIX.len() <= ACCOUNT_CHARS_MAX {
        format!("{}{SUFFIX}", gateway.name)
    } else {
        name(gateway)
    }
}

/// Returns a name in the form of a label's value.
pub fn label(name: &str) -> String {
    if name.len() <= NAME_CHARS_MAX {
        return name.to_owned();
    }
    let stem: String = name.chars().take(NAME_CHARS_MAX - HASH_CHARS - 1).collect();
    format!("{}-{}", stem.trim_end_matches(['-', '.']), short_hash(name))
}

fn short_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(HASH_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str) -> String {
        super::name(&ObjectKey::new("g", "Gateway", "infra", name))
    }

    #[test]
    fn names_are_plain_where_they_can_be() {
        assert_eq!(named("public"), "public-holdfast");
        assert_eq!(named(&"a".repeat(54)), format!("{}-holdfast", "a".repeat(54)));
    }

    #[test]
    fn unusable_names_stay_distinct() {
        let long = |last: char| format!("{}{last}", "a".repeat(60));
        assert_ne!(named(&long('a')), named(&long('b')));
        assert_ne!(named("a.b"), named("a-b"));
        assert!(named("1st").starts_with("gw-1st-"));
        assert!(account(&ObjectKey::new("g", "Gateway", "infra", "a".repeat(253).as_str())).len() <= 63);
    }

    proptest! {
        #[test]
        fn every_name_is_one_of_a_service(name in "[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?") {
            let (named, label) = (named(&name), label(&name));
            prop_assert!(named.len() <= 63 && named.starts_with(|c: char| c.is_ascii_lowercase()));
            prop_assert!(named.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{}", named);
            prop_assert!(label.len() <= 63 && label.ends_with(|c: char| c.is_ascii_alphanumeric()), "{}", label);
        }
    }
}
