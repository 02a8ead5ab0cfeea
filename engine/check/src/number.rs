//! Numbers with a range: weights, ports, status codes, sizes of bodies.

/// Largest weight of one backend (as in the Gateway API schema).
pub const WEIGHT_MAX: i64 = 1_000_000;
/// Largest body of a direct response, in bytes (Envoy's default limit; a larger body is refused).
pub const BODY_BYTES_MAX: usize = 4096;
/// Valid status codes of a redirect.
pub const REDIRECT_STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// Reason why a number cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NumberFault {
    /// A weight outside of 0 to [`WEIGHT_MAX`].
    #[error("weight {weight} is out of range; weights go from 0 to {WEIGHT_MAX}")]
    Weight {
        /// The weight.
        weight: i64,
    },
    /// All weights are zero, or there is no weight: Envoy refuses such a list of clusters.
    #[error("the weights add up to 0, so no backend would get any request; give at least one a weight above 0")]
    NoWeight,
    /// The sum does not fit into 32 bits: Envoy refuses such a list of clusters.
    #[error("the weights add up to {sum}; at most {max} is allowed", max = u32::MAX)]
    WeightSum {
        /// The sum.
        sum: u64,
    },
    /// A port outside of 1 to 65535.
    #[error("port {port} is out of range; ports go from 1 to 65535")]
    Port {
        /// The port.
        port: i64,
    },
    /// An invalid status code for a redirect.
    #[error("status code {status} is not a redirect; use 301, 302, 303, 307 or 308")]
    RedirectStatus {
        /// The status code.
        status: i64,
    },
    /// An invalid status code for a direct response.
    #[error("status code {status} is out of range; a direct response must have a status from 200 to 599")]
    ResponseStatus {
        /// The status code.
        status: i64,
    },
    /// A body larger than [`BODY_BYTES_MAX`].
    #[error("the response body has {bytes} bytes; at most {BODY_BYTES_MAX} are allowed")]
    Body {
        /// Size of the body.
        bytes: usize,
    },
}

/// Checks one weight.
pub fn weight(weight: i64) -> Result<u32, NumberFault> {
    match u32::try_from(weight) {
        Ok(fine) if weight <= WEIGHT_MAX => Ok(fine),
        _ => Err(NumberFault::Weight { weight }),
    }
}

/// Checks that the weights of one rule can be sent together and returns their sum, which is never 0.
pub fn weight_sum(weights: impl IntoIterator<Item = u32>) -> Result<u32, NumberFault> {
    let sum = weights.into_iter().fold(0u64, |sum, weight| sum.saturating_add(u64::from(weight)));
    match u32::try_from(sum) {
        Ok(0) => Err(NumberFault::NoWeight),
        Ok(sum) => Ok(sum),
        Err(_) => Err(NumberFault::WeightSum { sum }),
    }
}

/// Checks a TCP or UDP port.
pub fn port(port: i64) -> Result<u16, NumberFault> {
    match u16::try_from(port) {
        Ok(fine) if fine > 0 => Ok(fine),
        _ => Err(NumberFault::Port { port }),
    }
}

/// Checks the status code of a redirect.
pub fn redirect_status(status: i64) -> Result<u16, NumberFault> {
    match u16::try_from(status) {
        Ok(fine) if REDIRECT_STATUSES.contains(&fine) => Ok(fine),
        _ => Err(NumberFault::RedirectStatus { status }),
    }
}

/// Checks the status code of a direct response.
pub fn response_status(status: i64) -> Result<u16, NumberFault> {
    match u16::try_from(status) {
        Ok(fine) if (200..600).contains(&fine) => Ok(fine),
        _ => Err(NumberFault::ResponseStatus { status }),
    }
}

/// Checks the size of the body of a direct response.
pub fn body(body: &[u8]) -> Result<(), NumberFault> {
    if body.len() > BODY_BYTES_MAX { Err(NumberFault::Body { bytes: body.len() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        assert_eq!(weight(0), Ok(0));
        assert_eq!(weight(1_000_000), Ok(1_000_000));
        assert!(weight(1_000_001).is_err());
        assert!(weight(-1).is_err());
        assert!(weight(i64::MAX).is_err());
    }

    #[test]
    fn sums_of_weights() {
        assert_eq!(weight_sum([1, 2]), Ok(3));
        assert_eq!(weight_sum([]), Err(NumberFault::NoWeight));
        assert_eq!(weight_sum([0, 0]), Err(NumberFault::NoWeight));
        assert_eq!(weight_sum([u32::MAX]), Ok(u32::MAX));
        assert_eq!(weight_sum([u32::MAX, 1]), Err(NumberFault::WeightSum { sum: 1 << 32 }));
    }

    #[test]
    fn ports_and_status_codes() {
        assert_eq!(port(65535), Ok(65535));
        assert!(port(0).is_err() && port(65536).is_err() && port(-1).is_err());
        assert_eq!(redirect_status(308), Ok(308));
        assert!(redirect_status(300).is_err() && redirect_status(304).is_err());
        assert_eq!(response_status(200), Ok(200));
        assert_eq!(response_status(599), Ok(599));
        assert!(response_status(199).is_err() && response_status(600).is_err());
    }

    #[test]
    fn bodies() {
        assert!(body(&[0; 4096]).is_ok());
        assert_eq!(body(&[0; 4097]), Err(NumberFault::Body { bytes: 4097 }));
    }
}
