//! Fields of the experimental channel of Gateway API 1.6 that are known and not served.

use holdfast_graph::ObjectKey;

use super::GROUP;

/// The kind of the object, and the path of the field without indexes.
const FIELDS: [(&str, &str); 6] = [
    ("Gateway", "spec.defaultScope"),
    ("GRPCRoute", "spec.useDefaultGateways"),
    ("HTTPRoute", "spec.useDefaultGateways"),
    ("TCPRoute", "spec.useDefaultGateways"),
    ("TLSRoute", "spec.useDefaultGateways"),
    ("UDPRoute", "spec.useDefaultGateways"),
];

/// Returns whether a field that the decoded type does not have is a field of Gateway API.
pub(in crate::apis) fn is_unserved(object: &ObjectKey, field: &str) -> bool {
    if &*object.group != GROUP {
        return false;
    }
    let mut path = String::with_capacity(field.len());
    path.extend(field.chars().filter(|character| !character.is_ascii_digit()));
    FIELDS.contains(&(&*object.kind, path.as_str()))
}
