//! The relevant combinations of gates, with and without a probe.

/// A combination of gates.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateCombination {
    /// FallbackConfiguration.
    isolate: bool,
    /// InvalidRouteReplacement.
    replace: bool,
    /// Use of last valid versions, if enabled.
    last_valid: Option<LastValidOptions>,
    /// Whether there is a probe.
    pub(super) probe: bool,
}

/// Options of last valid versions.
#[derive(Clone, Copy, Debug)]
struct LastValidOptions {
    /// Whether dependants are backfilled together with the objects that they depend on.
    dependants: bool,
    /// BackfillUnresolvedReferences.
    unresolved: bool,
}

const fn gates(isolate: bool, replace: bool, probe: bool) -> GateCombination {
    GateCombination { isolate, replace, last_valid: None, probe }
}

const fn last_valid(replace: bool, dependants: bool, unresolved: bool, probe: bool) -> GateCombination {
    GateCombination { isolate: true, replace, last_valid: Some(LastValidOptions { dependants, unresolved }), probe }
}

/// All combinations.
pub(super) const ALL: [GateCombination; 12] = [
    gates(false, true, false),
    gates(false, false, true),
    gates(true, true, true),
    gates(true, false, false),
    last_valid(true, true, false, false),
    last_valid(false, true, false, true),
    last_valid(true, false, false, true),
    last_valid(false, false, false, false),
    last_valid(true, true, true, true),
    last_valid(false, true, true, false),
    last_valid(true, false, true, false),
    last_valid(false, false, true, true),
];

impl GateCombination {
    /// Returns the flags.
    pub(super) fn flags(self) -> Vec<String> {
        let mut named = vec![("InvalidRouteReplacement", self.replace), ("FallbackConfiguration", self.isolate)];
        let mut flags = Vec::new();
        if let Some(LastValidOptions { dependants, unresolved }) = self.last_valid {
            named.push(("BackfillUnresolvedReferences", unresolved));
            flags.push("--use-last-valid-config-for-fallback=true".to_owned());
            flags.push(format!("--backfill-dependants={dependants}"));
        }
        let named: Vec<String> = named.into_iter().map(|(gate, on)| format!("{gate}={on}")).collect();
        flags.extend(["--feature-gates".to_owned(), named.join(",")]);
        flags.extend(["--probe".to_owned(), if self.probe { "on" } else { "off" }.to_owned()]);
        flags
    }

    /// Whether faults that translation finds always close, because no stand-in version exists.
    pub(super) fn closes(self) -> bool {
        self.last_valid.is_none()
    }
}
