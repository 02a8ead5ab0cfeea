//! Narrowed conditions: the usable conditions are kept, and of an unusable one only the presence of its header or
//! parameter.

use std::collections::BTreeSet;

use holdfast_api::apis::contour::condition::{HeaderCondition, QueryCondition};
use holdfast_check::re2::Regexes;
use holdfast_envoy::model::{NamedMatch, ValueMatch};

use super::{CONDITIONS_MAX, some};

/// Narrows conditions on headers.
pub(super) fn headers(written: &[HeaderCondition], regexes: &Regexes) -> BTreeSet<NamedMatch> {
    if let Ok(all) = super::headers(written, regexes) {
        return all;
    }
    let mut left = BTreeSet::new();
    for header in written.iter().take(CONDITIONS_MAX) {
        let Ok(name) = holdfast_check::header::name(&header.name) else { continue };
        // Of several conditions on one header, it is unknown which one contradicts the others.
        let is_only = written.iter().filter(|other| other.name.eq_ignore_ascii_case(&header.name)).count() == 1;
        match super::headers(std::slice::from_ref(header), regexes) {
            Ok(read) if is_only => left.extend(read),
            _ if is_negative(header) => {}
            _ => drop(left.insert(NamedMatch::new(name, ValueMatch::Present))),
        }
    }
    left
}

/// Narrows conditions on query parameters.
pub(super) fn query(written: &[QueryCondition], regexes: &Regexes) -> BTreeSet<NamedMatch> {
    if let Ok(all) = super::query(written, regexes) {
        return all;
    }
    let mut left = BTreeSet::new();
    for parameter in written.iter().take(CONDITIONS_MAX) {
        if holdfast_check::header::query_name(&parameter.name).is_err() {
            continue;
        }
        let is_only = written.iter().filter(|other| other.name == parameter.name).count() == 1;
        match super::query(std::slice::from_ref(parameter), regexes) {
            Ok(read) if is_only => left.extend(read),
            _ => drop(left.insert(NamedMatch::new(parameter.name.clone(), ValueMatch::Present))),
        }
    }
    left
}

/// Checks whether a condition excludes a header or a value.
fn is_negative(header: &HeaderCondition) -> bool {
    header.notpresent == Some(true) || some(header.notcontains.as_ref().or(header.notexact.as_ref())).is_some()
}
