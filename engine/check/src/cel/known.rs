//! Functions and attributes of CEL in Envoy.

/// Types, which are also values.
pub(super) const TYPES: [&str; 12] =
    ["bool", "bytes", "double", "dyn", "google", "int", "list", "map", "null_type", "string", "type", "uint"];

/// Attributes that exist when a request is evaluated, with their fields; an attribute without listed fields has any.
pub(super) const ATTRIBUTES: [(&str, &[&str]); 7] = [
    (
        "request",
        &[
            "headers",
            "headers_bytes",
            "host",
            "id",
            "method",
            "path",
            "protocol",
            "query",
            "referer",
            "scheme",
            "size",
            "time",
            "total_size",
            "url_path",
            "useragent",
        ],
    ),
    ("source", &["address", "port"]),
    ("destination", &["address", "port"]),
    (
        "connection",
        &[
            "dns_san_local_certificate",
            "dns_san_peer_certificate",
            "id",
            "mtls",
            "peer_certificate",
            "requested_server_name",
            "sha256_peer_certificate_digest",
            "subject_local_certificate",
            "subject_peer_certificate",
            "tls_version",
            "uri_san_local_certificate",
            "uri_san_peer_certificate",
        ],
    ),
    (
        "xds",
        &[
            "cluster_metadata",
            "cluster_name",
            "filter_chain_name",
            "listener_direction",
            "listener_metadata",
            "route_metadata",
            "route_name",
            "virtual_host_metadata",
            "virtual_host_name",
        ],
    ),
    ("metadata", &[]),
    ("filter_state", &[]),
];

/// Attributes that get their values later.
pub(super) const LATER: [&str; 3] = ["response", "upstream", "upstream_filter_state"];

/// The only attribute that is a condition by itself.
pub(super) const TRUE_OR_FALSE: (&str, &str) = ("connection", "mtls");

/// Methods, with the range of the number of their arguments.
pub(super) const METHODS: [(&str, std::ops::RangeInclusive<usize>); 15] = [
    ("contains", 1..=1),
    ("endsWith", 1..=1),
    ("getDate", 0..=1),
    ("getDayOfMonth", 0..=1),
    ("getDayOfWeek", 0..=1),
    ("getDayOfYear", 0..=1),
    ("getFullYear", 0..=1),
    ("getHours", 0..=1),
    ("getMilliseconds", 0..=1),
    ("getMinutes", 0..=1),
    ("getMonth", 0..=1),
    ("getSeconds", 0..=1),
    ("matches", 1..=1),
    ("size", 0..=0),
    ("startsWith", 1..=1),
];

/// Other functions, with the number of their arguments.
pub(super) const FUNCTIONS: [(&str, usize); 14] = [
    ("bool", 1),
    ("bytes", 1),
    ("contains", 2),
    ("double", 1),
    ("duration", 1),
    ("dyn", 1),
    ("endsWith", 2),
    ("int", 1),
    ("matches", 2),
    ("size", 1),
    ("startsWith", 2),
    ("timestamp", 1),
    ("type", 1),
    ("uint", 1),
];

/// Functions of the regex extension, in `re`, with the number of their arguments.
pub(super) const REGEXES: [(&str, usize); 3] = [("capture", 2), ("captureN", 2), ("extract", 3)];

/// Functions with a result that may be true or false.
pub(super) const CONDITIONS: [&str; 6] = ["bool", "contains", "dyn", "endsWith", "matches", "startsWith"];

/// Maximum program size of a regex, as Envoy sets it for CEL; no setting of Envoy changes it.
pub(super) const REGEX_PROGRAM_MAX: u32 = 100;
