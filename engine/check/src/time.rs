//! Timestamps in RFC 3339, in UTC, with a precision of seconds. Data only: no clock is read here.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in seconds of Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

/// Writes RFC 3339, as in `2026-11-20T10:00:00Z`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_second(self.0) {
            Ok(time) => time.fmt(f),
            // Beyond the year 9999.
            Err(_) => write!(f, "@{}", self.0),
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse::<Timestamp>().map(|time| Self(time.as_second())).map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        assert_eq!(Moment(1_763_632_800).to_string(), "2025-11-20T10:00:00Z");
        assert_eq!(Moment(0).to_string(), "1970-01-01T00:00:00Z");
        for moment in [Moment(0), Moment(1_763_632_800), Moment(-1)] {
            let text = serde_json::to_string(&moment).unwrap();
            assert_eq!(serde_json::from_str::<Moment>(&text).unwrap(), moment);
        }
        assert_eq!(Moment(i64::MAX).to_string(), format!("@{}", i64::MAX));
        assert!(serde_json::from_str::<Moment>("\"yesterday\"").is_err());
    }
}
