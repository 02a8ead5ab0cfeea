//! With the gate off: what Envoys refuse takes the whole Gateway back to what was last valid, until something changes.

use holdfast_xds::ResourceType;

use super::line::{Around, Line};

/// How a Gateway stands that is held as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Is everything held that nobody has acknowledged?
    pub(crate) held: bool,
    /// Has anything changed since?
    pub(crate) changed: bool,
}

impl Line {
    /// Everything that was not acknowledged is held back from now on, where anything was acknowledged at all.
    pub(crate) fn hold_as_a_whole(&mut self, around: &Around<'_>) {
        if self.hold.has_acknowledged_routes() {
            self.whole = Whole { held: true, changed: false };
            let gateway = self.gateway.clone();
            self.quarantine.note_refusal(&gateway, around.now_ms);
        }
    }

    /// Something that was held has changed, and need not wait: everything is tried once more. True where that is so.
    pub(crate) fn let_go(&mut self, around: &Around<'_>) -> bool {
        let waits = self.quarantine.wait_until(&self.gateway, around.now_ms).is_some();
        let goes = self.whole.held && self.whole.changed && !waits;
        if goes {
            self.whole = Whole::default();
        }
        goes
    }

    /// Is what its fleet should have now what was refused before?
    pub(crate) fn is_refused_already(&self, around: &Around<'_>) -> bool {
        let snapshot = around.translator.snapshot(&self.fleet);
        let resources = snapshot.into_iter().flat_map(|snapshot| {
            ResourceType::ALL.into_iter().flat_map(|kind| snapshot.of(kind).values().map(move |one| (kind, one)))
        });
        resources.into_iter().any(|(kind, one)| self.hold.refusal_of(kind, &one.name, one.version).is_some())
    }
}
