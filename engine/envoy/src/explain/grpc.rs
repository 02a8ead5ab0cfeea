//! The responses of Envoy itself to gRPC calls: status 200 with `grpc-status`, and the body as `grpc-message`.

/// The prefix of the content types of gRPC calls.
const CONTENT_TYPE: &str = "application/grpc";

/// Returns whether a content type is that of a gRPC call, as Envoy compares it: `application/grpc` or
/// `application/grpc+PROTOCOL`, in lower case and without parameters.
pub(super) fn is_call(content_type: &str) -> bool {
    content_type.strip_prefix(CONTENT_TYPE).is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
}

/// Returns `grpc-status` for an HTTP status.
pub(super) fn status(http: u16) -> u8 {
    match http {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}

/// Returns the name of a status.
pub fn name(status: u8) -> &'static str {
    match status {
        7 => "PERMISSION_DENIED",
        12 => "UNIMPLEMENTED",
        13 => "INTERNAL",
        14 => "UNAVAILABLE",
        16 => "UNAUTHENTICATED",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_of_calls_have_no_parameters() {
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;a=b", false),
            ("application/grpc-web", false),
            ("application/grpc,text/plain", false),
            ("Application/grpc", false),
            ("", false),
        ] {
            assert_eq!(is_call(content_type), expected, "{content_type}");
        }
    }

    #[test]
    fn each_http_status_has_a_status_of_grpc() {
        let named = |http| name(status(http));
        for (http, expected) in [
            (400, "INTERNAL"),
            (401, "UNAUTHENTICATED"),
            (403, "PERMISSION_DENIED"),
            (404, "UNIMPLEMENTED"),
            (429, "UNAVAILABLE"),
            (502, "UNAVAILABLE"),
            (503, "UNAVAILABLE"),
            (504, "UNAVAILABLE"),
            (200, "UNKNOWN"),
            (302, "UNKNOWN"),
            (421, "UNKNOWN"),
            (500, "UNKNOWN"),
        ] {
            assert_eq!(named(http), expected, "{http}");
        }
    }
}
