//! What was reported after the last change. Each report looks at all objects, so pages use these instead of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use holdfast_engine::engine::Engine;
use holdfast_engine::report::Reports;
use holdfast_fallback::view::FallbackReport;

/// Namespaces with objects, each with the Gateways (`namespace/name`) that serve routes of it.
pub(crate) type NamespaceGateways = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

/// The reports of the last change.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    reports: Option<Arc<Reports>>,
    namespaces: OnceLock<Arc<NamespaceGateways>>,
}

impl Reported {
    /// Keeps new reports.
    pub(super) fn set(&mut self, reports: Reports) {
        *self = Self { reports: Some(Arc::new(reports)), namespaces: OnceLock::new() };
    }

    /// The last report of the fallback; `None` before the first one.
    pub(super) fn fallback(&self) -> Option<&FallbackReport> {
        self.reports.as_deref().map(|reports| &reports.fallback)
    }

    /// The reports of the last change; those of the present state before the first one.
    pub(crate) fn reports(&self, engine: &Engine) -> Arc<Reports> {
        self.reports.clone().unwrap_or_else(|| Arc::new(engine.reports()))
    }

    /// The namespaces, computed once after each change.
    pub(crate) fn namespaces(&self, engine: &Engine) -> Arc<NamespaceGateways> {
        self.namespaces.get_or_init(|| Arc::new(engine.namespaces())).clone()
    }
}
