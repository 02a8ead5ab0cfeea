//! Metrics by namespace, so that alerts reach the team that owns the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_api::fault::Fault;
use holdfast_engine::health::{Health, Severity};
use holdfast_engine::report::missing_backends;
use holdfast_fallback::view::FallbackReport;
use prometheus::{IntGauge, IntGaugeVec};

use super::metrics::signed;
use super::register::Register;

/// Maximum number of namespaces with series of their own; problems in all other namespaces are counted under [`OTHER`].
pub const NAMESPACES_MAX: usize = 100;
/// The label for all namespaces beyond [`NAMESPACES_MAX`]. No namespace has this name: `_` is not allowed in names.
pub const OTHER: &str = "_other";

/// Metrics by namespace.
#[derive(Debug)]
pub struct NamespaceMetrics {
    objects: IntGaugeVec,
    missing: IntGaugeVec,
    findings: IntGaugeVec,
    unhealthy: IntGaugeVec,
    input_problems: IntGauge,
    /// Namespaces that had a problem, up to the limit; they keep their series.
    known: Mutex<BTreeSet<Arc<str>>>,
}

impl NamespaceMetrics {
    /// Registers the metrics without any namespace.
    ///
    /// # Errors
    /// Returns an error only if two metrics have the same name.
    pub(super) fn new(all: Register<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            objects: all.gauges(
                "namespace_objects",
                "Objects of a namespace that are not served as desired",
                &["namespace", "kind", "step"],
            )?,
            missing: all.gauges(
                "missing_backends",
                "References to backends that do not exist, or may not be used: their requests are answered with an error",
                &["namespace"],
            )?,
            findings: all.gauges(
                "health_findings",
                "Causes of parts that are not served as desired, by their severity for clients",
                &["severity"],
            )
            .inspect(|findings| {
                for severity in Severity::ALL {
                    findings.with_label_values(&[severity.name()]).set(0);
                }
            })?,
            unhealthy: all.gauges(
                "health_objects",
                "Objects of a namespace with a finding, each counted with its worst finding",
                &["namespace", "severity"],
            )?,
            input_problems: all.gauge("input_problems", "Inputs that cannot be read")?,
            known: Mutex::default(),
        })
    }

    /// Records which objects are currently not served as desired.
    pub fn fallback(&self, report: &FallbackReport) {
        let mut counts: BTreeMap<(Arc<str>, Arc<str>, &str), usize> = BTreeMap::new();
        for (step, object) in report.by_step() {
            *counts.entry((self.label(&object.namespace), object.kind.clone(), step)).or_default() += 1;
        }
        self.objects.reset();
        for ((namespace, kind, step), count) in counts {
            self.objects.with_label_values(&[&*namespace, &*kind, step]).set(signed(count));
        }
    }

    /// Records the current faults.
    pub fn faults(&self, faults: &[Fault]) {
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for (namespace, count) in missing_backends(faults) {
            *counts.entry(self.label(&namespace)).or_default() += count;
        }
        self.missing.reset();
        for namespace in &*self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            self.missing.with_label_values(&[&**namespace]).set(0);
        }
        for (namespace, count) in counts {
            self.missing.with_label_values(&[&*namespace]).set(signed(count));
        }
    }

    /// Records the current health.
    pub fn health(&self, health: &Health) {
        for severity in Severity::ALL {
            self.findings.with_label_values(&[severity.name()]).set(signed(health.of(severity).len()));
        }
        self.input_problems.set(signed(health.inputs.problems.len()));
        let mut counts: BTreeMap<(Arc<str>, &str), usize> = BTreeMap::new();
        for ((severity, namespace), count) in health.objects_by_namespace() {
            *counts.entry((self.label(&namespace), severity.name())).or_default() += count;
        }
        self.unhealthy.reset();
        for ((namespace, severity), count) in counts {
            self.unhealthy.with_label_values(&[&*namespace, severity]).set(signed(count));
        }
    }

    /// The label of a namespace: its name, or [`OTHER`] beyond the limit.
    pub(super) fn label(&self, namespace: &Arc<str>) -> Arc<str> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(namespace) {
            return namespace.clone();
        }
        if known.len() >= NAMESPACES_MAX {
            return OTHER.into();
        }
        known.insert(namespace.clone());
        namespace.clone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_api::apis::gateway::GROUP;
    use holdfast_api::fault::Class;
    use holdfast_graph::ObjectKey;
    use prometheus::Registry;

    use super::*;

    fn missing(namespace: &str) -> Fault {
        let key = ObjectKey::new(GROUP, "HTTPRoute", namespace, "r");
        Fault::new(&key, Class::Referential, "spec.rules[0].backendRefs[0].name", "BackendNotFound", "it is not there")
    }

    #[test]
    fn health_has_a_figure_for_each_severity_from_the_start() {
        let metrics = NamespaceMetrics::new(Register(&Registry::new())).unwrap();
        let of = |severity: Severity| metrics.findings.with_label_values(&[severity.name()]).get();
        assert_eq!(Severity::ALL.map(of), [0, 0, 0]);
        metrics.health(&Health::default());
        assert_eq!((Severity::ALL.map(of), metrics.input_problems.get()), ([0, 0, 0], 0));
    }

    #[test]
    fn as_many_namespaces_have_series_as_the_limit_allows() {
        let metrics = NamespaceMetrics::new(Register(&Registry::new())).unwrap();
        let faults: Vec<Fault> = (0..NAMESPACES_MAX + 5).map(|index| missing(&format!("team-{index:03}"))).collect();
        metrics.faults(&faults);
        let of = |namespace: &str| metrics.missing.with_label_values(&[namespace]).get();
        assert_eq!((of("team-000"), of("team-099"), of(OTHER)), (1, 1, 5));
        // A namespace that has recovered keeps its series, at 0.
        metrics.faults(&faults[1..]);
        assert_eq!((of("team-000"), of("team-099"), of(OTHER)), (0, 1, 5));
        let own = Fault { reason: "InvalidCertificateRef", field: "spec.tls".into(), ..missing("team-000") };
        metrics.faults(&[own]);
        assert_eq!((of("team-000"), of("team-001")), (0, 0), "a missing Secret is no missing backend");
    }
}
