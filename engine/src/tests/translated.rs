//! A translator with its objects: applies manifests and returns what was translated again.

#![allow(clippy::panic)]

use std::sync::Arc;

use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_graph::Graph;
use holdfast_translate::{Changes, Translator};

use crate::engine::Event;
use crate::testing;

/// Objects, and their translation.
pub(super) struct Translated {
    pub(super) translator: Translator,
    objects: ObjectSnapshot,
    graph: Graph,
}

impl Translated {
    /// Creates a translation of no objects.
    pub(super) fn new(settings: Settings) -> Self {
        Self { translator: Translator::new(settings), objects: ObjectSnapshot::default(), graph: Graph::default() }
    }

    /// Creates or replaces objects.
    pub(super) fn apply(&mut self, yaml: &str) -> Changes {
        for event in testing::events(yaml) {
            let Event::Applied(object, _) = event else { panic!("{event:?}") };
            let object = Arc::new(*object);
            let old = self.objects.insert(object.clone());
            self.translator.changed(&object.key, old.as_deref(), Some(&object));
        }
        self.translator.translate(&self.objects, &mut self.graph)
    }

    /// Creates or replaces objects; returns the names of the routes that were translated again.
    pub(super) fn apply_routes(&mut self, yaml: &str) -> Vec<String> {
        self.apply(yaml).routes.iter().map(|key| key.name.to_string()).collect()
    }
}
