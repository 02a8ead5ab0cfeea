//! The reasons why no last valid version of a broken object is served, as sentences for operators.

use std::fmt;

use holdfast_api::apis::protection::Lack;
use holdfast_graph::ObjectKey;

/// The reason why no last valid version of an object is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// No version was proven good.
    NoVersion,
    /// No version was proven good in this run, and versions of earlier runs are unknown: the object has credentials.
    NotStored,
    /// The only versions that were proven good have the desired content.
    SameContent,
    /// The annotation of the desired version excludes it.
    Annotation,
    /// The maximum age is reached.
    TooOld,
    /// The desired version references an object that does not exist or is not valid.
    Awaits(String),
    /// The desired version cannot be read, and may be stricter.
    MayBeStricter,
    /// Units of the object are on trial.
    OnTrial,
    /// The desired version lacks a backend, and the gate for such objects is off.
    LacksBackend {
        /// The generation of the newest version with another content.
        generation: i64,
    },
    /// The newest version with another content may not be served.
    Unfit {
        /// The generation of the version.
        generation: i64,
        /// The reason.
        why: Unfit,
    },
}

/// The reason why one version may not be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The annotation of the version excludes it.
    Annotation,
    /// The version has no routes.
    Empty,
    /// The version protects less than the desired one.
    Protects(Lack),
    /// The version has a fault with the current objects.
    Fault(String),
    /// Envoys refuse content of the version.
    Refused,
    /// The version uses an object that Envoys refuse.
    Uses(ObjectKey),
    /// Another broken object closes the object in every version.
    Closed(ObjectKey),
    /// The certificate of the version has expired, or is not valid yet.
    Outdated,
    /// Objects of the kind are always served in the desired version.
    Kind,
    /// This part of the object is always served in the desired version.
    Part(&'static str),
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyNot::NoVersion => f.write_str("no last valid version exists"),
            WhyNot::NotStored => f.write_str(
                "no last valid version exists: without --store-key-file, those of objects with credentials are lost at \
                 a restart",
            ),
            WhyNot::SameContent => f.write_str("no last valid version with another content exists"),
            WhyNot::Annotation => {
                f.write_str("no last valid version is served instead: the annotation holdfast.dev/fallback is never")
            }
            WhyNot::TooOld => f.write_str(
                "no last valid version is served instead: the object has been broken for longer than --max-backfill-age",
            ),
            WhyNot::Awaits(what) => {
                write!(f, "no last valid version is served instead: what the object references must be valid first: {what}")
            }
            WhyNot::MayBeStricter => f.write_str(
                "no last valid version is served instead: the object cannot be read, and may be stricter than before",
            ),
            WhyNot::OnTrial => f.write_str("no last valid version is served instead: the object is on trial"),
            WhyNot::LacksBackend { generation } => write!(
                f,
                "generation {generation} is not served instead: a backend is missing, and the feature gate \
                 BackfillUnresolvedReferences is off"
            ),
            WhyNot::Unfit { generation, why } => write!(f, "generation {generation} is not served instead: {why}"),
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Annotation => f.write_str("its annotation holdfast.dev/fallback is never"),
            Unfit::Empty => f.write_str("it has no routes"),
            Unfit::Protects(lost) => lost.fmt(f),
            Unfit::Fault(message) => f.write_str(message),
            Unfit::Refused => f.write_str("Envoys refuse it as well"),
            Unfit::Uses(key) => write!(f, "it uses {} {}, which Envoys refuse", key.kind, key.namespaced_name()),
            Unfit::Closed(key) => {
                write!(f, "it is closed because of {} {}, whatever its version", key.kind, key.namespaced_name())
            }
            Unfit::Outdated => f.write_str("its certificate has expired, or is not valid yet"),
            Unfit::Kind => f.write_str("objects of this kind are always served in the newest version"),
            Unfit::Part(part) => write!(f, "{part} of the newest version always applies"),
        }
    }
}
