//! The settings in force that decide what is served instead of broken objects.
//!
//! They are part of health, since they explain it: without a gate, a finding affects more, or nothing is served instead.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use holdfast_api::settings::{
    BACKFILL_UNRESOLVED_REFERENCES, FALLBACK_CONFIGURATION, INVALID_ROUTE_REPLACEMENT, Settings,
};
use serde::{Deserialize, Serialize};

/// The feature gates and the settings of last valid configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsInForce {
    /// Every feature gate, and whether it is on.
    pub gates: BTreeMap<String, bool>,
    /// Whether last valid versions are served instead of broken objects.
    pub use_last_valid: bool,
    /// Whether dependants return to their last valid versions together with the objects that they depend on.
    pub backfill_dependants: bool,
    /// Maximum age in seconds of a last valid version; no limit where unset.
    pub max_backfill_age: Option<i64>,
}

impl From<&Settings> for SettingsInForce {
    fn from(settings: &Settings) -> Self {
        let fallback = &settings.fallback;
        let gates = [
            (BACKFILL_UNRESOLVED_REFERENCES, fallback.backfill_unresolved),
            (FALLBACK_CONFIGURATION, fallback.isolate),
            (INVALID_ROUTE_REPLACEMENT, settings.replacement.is_some()),
        ];
        Self {
            gates: gates.map(|(name, on)| (name.to_owned(), on)).into(),
            use_last_valid: fallback.use_last_valid,
            backfill_dependants: fallback.backfill_dependants,
            max_backfill_age: fallback.max_backfill_age,
        }
    }
}

impl SettingsInForce {
    /// The gates, as in `FallbackConfiguration=true, InvalidRouteReplacement=true`.
    pub fn gates(&self) -> String {
        self.gates.iter().map(|(name, on)| format!("{name}={on}")).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for SettingsInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; last valid configuration: ", self.gates())?;
        if !self.use_last_valid {
            return f.write_str("off");
        }
        f.write_str(if self.backfill_dependants { "on" } else { "on, without dependants" })?;
        match self.max_backfill_age.and_then(|seconds| u64::try_from(seconds).ok()) {
            Some(seconds) => write!(f, ", at most {:?} old", Duration::from_secs(seconds)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_every_gate_and_what_last_valid_configuration_is_limited_to() {
        let mut settings = Settings::standalone();
        let line = |settings: &Settings| SettingsInForce::from(settings).to_string();
        assert_eq!(
            line(&settings),
            "BackfillUnresolvedReferences=false, FallbackConfiguration=false, InvalidRouteReplacement=true; last valid \
             configuration: off"
        );
        settings.fallback.isolate = true;
        settings.fallback.use_last_valid = true;
        settings.replacement = None;
        assert_eq!(
            line(&settings),
            "BackfillUnresolvedReferences=false, FallbackConfiguration=true, InvalidRouteReplacement=false; last valid \
             configuration: on"
        );
        settings.fallback.backfill_dependants = false;
        settings.fallback.max_backfill_age = Some(60);
        assert!(line(&settings).ends_with("configuration: on, without dependants, at most 60s old"));
    }
}
