//! The conditions of a run, which its seed selects: the feature gates and the Envoys.

use holdfast_scenario_tests::fleet::{FleetEnvoy, RE2_HOLDFAST};

use super::super::{BACKFILL, REPLACE};

/// The feature gates of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gates {
    /// The fallback with last valid versions.
    LastValid,
    /// The fallback without last valid versions.
    Replace,
    /// No fallback: the Gateway is held as a whole.
    Off,
}

/// The Envoys of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fleet {
    /// Two Envoys without faults.
    Honest,
    /// One Envoy.
    Single,
    /// Two Envoys without faults, and one that refuses routes with a [mistake](holdfast_scenario_tests::mistakes).
    OneRefuses,
    /// Two Envoys without faults, and one of the same build that accepts regular expressions that they refuse.
    OneAccepts,
}

/// The conditions of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The feature gates.
    pub(super) gates: Gates,
    /// The Envoys.
    pub(super) fleet: Fleet,
}

impl Row {
    /// Returns the conditions of a seed: twelve successive seeds have all combinations.
    pub(super) fn of(seed: u64) -> Self {
        let gates = match seed % 3 {
            0 => Gates::LastValid,
            1 => Gates::Replace,
            _ => Gates::Off,
        };
        let fleet = match seed / 3 % 4 {
            0 => Fleet::Honest,
            1 => Fleet::Single,
            2 => Fleet::OneRefuses,
            _ => Fleet::OneAccepts,
        };
        Self { gates, fleet }
    }

    /// The flags of Holdfast.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self.gates {
            Gates::LastValid => &BACKFILL,
            Gates::Replace => &REPLACE,
            Gates::Off => &[],
        }
    }

    /// Whether edits of one namespace are served independently of what Envoys refuse of another one.
    pub(super) fn isolates_namespaces(self) -> bool {
        self.gates != Gates::Off
    }

    /// Whether an edit may add a mistake that only one Envoy refuses.
    pub(super) fn has_mistakes(self) -> bool {
        self.fleet == Fleet::OneRefuses
    }

    /// The Envoys. Each uses its node name as prefix of its own headers, so that a response of a backend shows which
    /// Envoy served it.
    pub(super) fn envoys(self) -> Vec<FleetEnvoy> {
        let small = FleetEnvoy::small;
        let envoys = match self.fleet {
            Fleet::Single => vec![small("one")],
            Fleet::Honest => vec![small("one"), small("two")],
            Fleet::OneRefuses => {
                vec![small("one"), small("two"), FleetEnvoy { has_mistakes: true, ..small("outlier") }]
            }
            Fleet::OneAccepts => vec![small("one"), small("two"), FleetEnvoy { re2: RE2_HOLDFAST, ..small("outlier") }],
        };
        envoys.into_iter().map(with_own_headers).collect()
    }
}

fn with_own_headers(mut envoy: FleetEnvoy) -> FleetEnvoy {
    let runtime = "\nlayered_runtime:";
    envoy.edits.push((runtime.to_owned(), format!("\nheader_prefix: x-{}{runtime}", envoy.node)));
    envoy
}
