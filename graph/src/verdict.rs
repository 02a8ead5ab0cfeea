//! Verdicts: which translated content is at fault, how it was detected, since when, and with which witnesses.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Node;

/// Hash of the translated content of a part: the identity of refused content, whatever object it comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Content(pub [u8; 16]);

/// Writes 32 hexadecimal digits.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes the same text as `Display`.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Content> for String {
    fn from(content: Content) -> Self {
        content.to_string()
    }
}

impl TryFrom<String> for Content {
    type Error = Unreadable;

    fn try_from(text: String) -> Result<Self, Unreadable> {
        text.parse()
    }
}

/// Parses 32 hexadecimal digits.
impl FromStr for Content {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        // A sign would be accepted as part of a number.
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Unreadable::Content);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| Unreadable::Content)?;
        Ok(Self(number.to_be_bytes()))
    }
}

/// Method by which a fault was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detected {
    /// By translation.
    Translation,
    /// By a refusal of the probe Envoy.
    Probe,
    /// By a refusal of an Envoy of the fleet.
    Nack,
    /// One of several contents that may have been refused; not convicted, and readmitted by trial.
    Suspected,
}

/// Writes the method as it is serialized.
impl fmt::Display for Detected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Detected::Translation => "translation",
            Detected::Probe => "probe",
            Detected::Nack => "nack",
            Detected::Suspected => "suspected",
        })
    }
}

/// Parses the form that `Display` writes.
impl FromStr for Detected {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        match text {
            "translation" => Ok(Detected::Translation),
            "probe" => Ok(Detected::Probe),
            "nack" => Ok(Detected::Nack),
            "suspected" => Ok(Detected::Suspected),
            _ => Err(Unreadable::Detected),
        }
    }
}

/// Reason why a text could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not the hash of a content.
    #[error("a content is 32 hexadecimal digits")]
    Content,
    /// Not one of the methods of detection.
    #[error("the detection is one of translation, probe, nack, suspected")]
    Detected,
}

/// A verdict: a content is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The node with this content when the fault was found.
    pub node: Node,
    /// The generation of the object at that time.
    pub generation: i64,
    /// The method of detection.
    pub detected: Detected,
    /// The field, as a path; empty where it is not known.
    pub field: Arc<str>,
    /// The message of the refusal or fault.
    pub message: Arc<str>,
    /// Time of the first verdict, in seconds of Unix time.
    pub since: i64,
    /// The contents together with which it was refused; empty where the content is refused by itself.
    pub witnesses: Vec<Content>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read_as_they_are_displayed() {
        let content = Content([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 254, 255]);
        assert_eq!(content.to_string(), "000102030405060708090a0b0c0d".to_owned() + "feff");
        assert_eq!(content.to_string().parse(), Ok(content));
        let signed = "+0102030405060708090a0b0c0dfeff0";
        for text in ["", "00", signed, &"0".repeat(33), &"g".repeat(32)] {
            assert_eq!(text.parse::<Content>(), Err(Unreadable::Content), "{text}");
        }
    }

    #[test]
    fn detections_are_read_as_they_are_displayed_and_serialized() {
        for detected in [Detected::Translation, Detected::Probe, Detected::Nack, Detected::Suspected] {
            assert_eq!(detected.to_string().parse(), Ok(detected));
            assert_eq!(serde_json::to_string(&detected).ok(), Some(format!("\"{detected}\"")));
        }
        assert_eq!("NACK".parse::<Detected>(), Err(Unreadable::Detected));
    }
}
