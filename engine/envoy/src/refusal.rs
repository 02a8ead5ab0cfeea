//! Classes of refusals: content, a resource of Envoy's host, a transient state of that host, or unknown.
//!
//! Envoy sends no code for the cause (`error_detail.code` is always 13), only a message, and parts of the message can
//! be text of users. Therefore a class other than content requires a message of an exact form: Envoy's own prefix, and
//! the text of an operating system error at the very end, where text of users cannot occur.

use holdfast_xds::ResourceType;
use serde::Serialize;

/// The class of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RefusalClass {
    /// The refused bytes: the same bytes would be refused again. The only class that convicts.
    #[default]
    Content,
    /// A resource of the Envoy's host: an address in use, file descriptors, memory, disk space. Envoy read the content
    /// and found it valid.
    Host,
    /// A transient state of the Envoy's host: an interrupted or temporarily impossible system call.
    Transient,
    /// Envoy sent an empty message.
    Unknown,
}

impl RefusalClass {
    /// Returns the serialized name, which is also the label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            RefusalClass::Content => "content",
            RefusalClass::Host => "host",
            RefusalClass::Transient => "transient",
            RefusalClass::Unknown => "unknown",
        }
    }

    /// All classes.
    pub const ALL: [RefusalClass; 4] =
        [RefusalClass::Content, RefusalClass::Host, RefusalClass::Transient, RefusalClass::Unknown];
}

/// Prefixes of Envoy's refusals of listeners and clusters; each refused resource follows as `name: reason`.
const BEGINNINGS: [&str; 2] = ["Error adding/updating listener(s) ", "Error adding/updating cluster(s) "];
/// Operating system errors about resources that other processes use as well.
const EXHAUSTED: [&str; 5] = [
    "Too many open files",
    "Too many open files in system",
    "Cannot allocate memory",
    "No space left on device",
    "No buffer space available",
];
/// Operating system errors that a retry of the same call may not return.
const PASSING: [&str; 2] = ["Interrupted system call", "Resource temporarily unavailable"];

/// Returns the class of a refusal. Routes and Secrets use no resource of the host: a refusal of them is about their
/// content.
///
/// A file path in an object that cannot be opened is content: without that field the rest is served.
pub fn class(kind: ResourceType, message: &str) -> RefusalClass {
    if !matches!(kind, ResourceType::Listener | ResourceType::Cluster) {
        return RefusalClass::Content;
    }
    if message.trim().is_empty() {
        return RefusalClass::Unknown;
    }
    let list = BEGINNINGS.iter().find_map(|beginning| message.strip_prefix(beginning));
    let Some(list) = list else { return of_reason(message.trim()) };
    // A message about several resources has a reason for each: if one reason is content, the refusal is content.
    let reasons = list.lines().filter(|line| !line.trim().is_empty());
    reasons
        .map(|line| line.split_once(": ").map_or(RefusalClass::Content, |(_, why)| of_reason(why.trim())))
        .min()
        .unwrap_or_default()
}

/// Returns the class of one reason, as in `cannot bind '0.0.0.0:80': Address already in use`.
fn of_reason(reason: &str) -> RefusalClass {
    let Some((before, error)) = reason.rsplit_once("': ") else { return RefusalClass::Content };
    if let Some(address) = before.strip_prefix("cannot bind '") {
        let is_address = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit() || b".:[]%".contains(&byte));
        let is_error = error.bytes().all(|byte| byte.is_ascii_alphabetic() || b" -/()".contains(&byte));
        return match is_address(address) && is_error {
            true if PASSING.contains(&error) => RefusalClass::Transient,
            true => RefusalClass::Host,
            false => RefusalClass::Content,
        };
    }
    if !before.starts_with("unable to open file '") {
        RefusalClass::Content
    } else if EXHAUSTED.contains(&error) {
        RefusalClass::Host
    } else if PASSING.contains(&error) {
        RefusalClass::Transient
    } else {
        RefusalClass::Content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the class of a listener's refusal for this reason, checked both alone and within Envoy's list.
    fn of(reason: &str) -> RefusalClass {
        let alone = class(ResourceType::Listener, reason);
        let listed = class(ResourceType::Listener, &format!("Error adding/updating listener(s) http/80: {reason}\n"));
        assert_eq!(alone, listed, "{reason}");
        alone
    }

    #[test]
    fn an_address_that_cannot_be_bound_is_the_hosts() {
        for error in ["Address already in use", "Cannot assign requested address", "Permission denied"] {
            assert_eq!(of(&format!("cannot bind '0.0.0.0:80': {error}")), RefusalClass::Host);
            assert_eq!(of(&format!("cannot bind '[::]:443': {error}")), RefusalClass::Host);
        }
        assert_eq!(of("cannot bind '0.0.0.0:80': Resource temporarily unavailable"), RefusalClass::Transient);
    }

    #[test]
    fn a_file_is_the_hosts_only_where_the_host_has_no_more_of_something() {
        assert_eq!(of("unable to open file '/dev/stdout': Too many open files"), RefusalClass::Host);
        assert_eq!(of("unable to open file '/var/log/a': No space left on device"), RefusalClass::Host);
        assert_eq!(of("unable to open file '/nonexistent/x': No such file or directory"), RefusalClass::Content);
        assert_eq!(
            of("unable to open file '/x': Too many open files': No such file or directory"),
            RefusalClass::Content
        );
    }

    #[test]
    fn what_users_wrote_makes_no_other_class() {
        for reason in [
            "missing ]: [cannot bind '0.0.0.0:80': Address already in use",
            "no such provider: cannot bind '0.0.0.0:80': Address already in use",
            "cannot bind 'example.com and 0.0.0.0:80': Address already in use",
            "cannot bind '0.0.0.0:80': it says 'no'",
            "error adding listener: 'l2' has duplicate address '127.0.0.1:49402' as existing listener",
            "missing ]: [",
        ] {
            assert_eq!(of(reason), RefusalClass::Content, "{reason}");
        }
        let bind = "cannot bind '0.0.0.0:80': Address already in use";
        for kind in [ResourceType::Route, ResourceType::Secret, ResourceType::Endpoints] {
            assert_eq!(class(kind, bind), RefusalClass::Content);
        }
    }

    #[test]
    fn of_several_listeners_one_with_bad_content_counts_for_all() {
        let bind = "cannot bind '0.0.0.0:80': Address already in use";
        let text = |other: &str| format!("Error adding/updating listener(s) http/80: {bind}\nhttp/81: {other}\n");
        assert_eq!(class(ResourceType::Listener, &text(bind)), RefusalClass::Host);
        assert_eq!(class(ResourceType::Listener, &text("missing ]: [")), RefusalClass::Content);
    }

    #[test]
    fn an_empty_message_is_classified_by_the_resource_type() {
        assert_eq!(class(ResourceType::Listener, " \n"), RefusalClass::Unknown);
        assert_eq!(class(ResourceType::Cluster, ""), RefusalClass::Unknown);
        assert_eq!(class(ResourceType::Route, ""), RefusalClass::Content);
    }

    #[test]
    fn names_are_those_that_are_serialized() {
        for class in RefusalClass::ALL {
            assert_eq!(serde_json::to_string(&class).ok(), Some(format!("\"{}\"", class.name())));
        }
    }
}
