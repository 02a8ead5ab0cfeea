//! Metrics in the Prometheus text format. Labels are Gateways, types and kinds, never objects, so that the number of
//! series is bounded.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::fault::Class as Cause;
use holdfast_check::re2;
use holdfast_engine::report::ReplacementView;
use holdfast_envoy::refusal::{self, RefusalClass};
use holdfast_graph::Visits;
use holdfast_xds::{Answer, Fleets, Outcome, PushCount, ResourceType, Snapshot};
use prometheus::{
    Encoder, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

use super::certificate_metrics::CertificateMetrics;
use super::fallback_metrics::FallbackMetrics;
use super::input_metrics::InputMetrics;
use super::namespace_metrics::NamespaceMetrics;
use super::register::Register;
use super::shared_metrics::SharedMetrics;
use super::webhook_metrics::WebhookMetrics;
use crate::serve::heartbeat::LastBeat;
use crate::serve::silence::NotAnsweringByGateway;
use crate::store::persist::Persisted;

/// Upper bounds of the duration histograms, in seconds.
pub(super) const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Upper bounds of the size histograms, in bytes.
pub(super) const BYTES: [f64; 8] = [1e2, 1e3, 1e4, 1e5, 1e6, 5e6, 2e7, 1e8];

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Translations that changed nothing.
    pub unchanged: IntCounter,
    visits: IntCounterVec,
    broken_objects: IntGauge,
    regex_steps: IntCounter,
    main_loop_age: IntGauge,
    replacements: IntGaugeVec,
    translations: IntCounterVec,
    translation_seconds: Histogram,
    resources: IntGaugeVec,
    pushes: IntCounterVec,
    push_seconds: HistogramVec,
    push_bytes: HistogramVec,
    push_success_at: IntGauge,
    nacks: IntCounterVec,
    refusals: IntCounterVec,
    /// 1 if this replica writes statuses and Events.
    pub leader: IntGauge,
    /// Problems with watches of the API server, and missing permissions.
    pub problems: IntGaugeVec,
    connected: IntGaugeVec,
    silent: IntGaugeVec,
    sent: SentCounters,
    /// Metrics of the fallback and the store.
    pub fallback: FallbackMetrics,
    /// Metrics of the state that replicas share.
    pub shared: SharedMetrics,
    /// Metrics of inputs.
    pub inputs: InputMetrics,
    /// Metrics by namespace.
    pub namespaces: NamespaceMetrics,
    /// Metrics of served certificates.
    pub certificates: CertificateMetrics,
    /// Metrics of the admission webhook.
    pub webhook: WebhookMetrics,
    /// The Gateways that have series.
    gateways: Mutex<BTreeSet<Arc<str>>>,
    /// The time at which the configuration of each Gateway was last published.
    published: Mutex<HashMap<Arc<str>, Instant>>,
}

/// A kind of work of the main loop.
#[derive(Clone, Copy, Debug)]
pub enum LoopWork {
    /// Events: translation, and all decisions.
    Decide,
    /// Reports after a change: faults, health, Events, metrics.
    Report,
    /// Statuses of all objects.
    Statuses,
}

impl LoopWork {
    fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Report => "report",
            Self::Statuses => "statuses",
        }
    }
}

impl Metrics {
    /// Returns the result of a piece of work, and counts what it visits.
    pub fn visiting<T>(&self, work: LoopWork, function: impl FnOnce() -> T) -> T {
        let (result, visits) = Visits::of(function);
        self.visited(work, &visits);
        result
    }

    /// Counts what a piece of work visited.
    pub fn visited(&self, work: LoopWork, visits: &Visits) {
        for (what, count) in visits.named() {
            self.visits.with_label_values(&[work.name(), what]).inc_by(count);
        }
    }

    /// Registers all metrics with the value zero.
    ///
    /// # Errors
    /// Returns an error only if two metrics have the same name.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new_custom(Some("holdfast".into()), None)?;
        let all = Register(&registry);
        Ok(Self {
            unchanged: all.counter("snapshot_unchanged_total", "Translations without any change to send")?,
            visits: all.counters(
                "visits_total",
                "Objects, routes, hosts, resources and bytes that passes over many of them visit",
                &["work", "what"],
            )?,
            broken_objects: all
                .gauge("translation_broken_objects", "Objects with parts that are not served as written")?,
            regex_steps: all.counter("regex_check_steps_total", "Steps of the checks of regular expressions")?,
            main_loop_age: all.gauge(
                "main_loop_age_seconds",
                "Time since the main loop last began a piece of work, or waited for one",
            )?,
            replacements: all.gauges(
                "route_replacements",
                "Rules that a direct response replaces",
                &["gateway", "scope", "cause"],
            )?,
            translations: all.counters_by_success("translation_total", "Translations")?,
            translation_seconds: all.histogram("translation_duration_seconds", "Duration of translations", &SECONDS)?,
            resources: all.gauges("resources", "Resources that are served", &["gateway", "type"])?,
            pushes: all
                .counters_by_success("configuration_push_total", "Responses that Envoys acknowledged or refused")?,
            push_seconds: all.histograms_by_success(
                "configuration_push_duration_seconds",
                "Time from the creation of a configuration to the answer of an Envoy to a part of it",
                &SECONDS,
            )?,
            push_bytes: all.histograms_by_success(
                "configuration_push_size_bytes",
                "Size of the resources in one response that an Envoy answered",
                &BYTES,
            )?,
            push_success_at: all.gauge(
                "configuration_push_last_successful_timestamp_seconds",
                "Time of the last acknowledgement by an Envoy (seconds since 1970)",
            )?,
            nacks: all.counters("nacks_total", "Responses that Envoys refused", &["gateway", "type"])?,
            refusals: all.counters(
                "refusals_total",
                "Responses that Envoys refused, by the class of the refusal (class=content, host, transient or \
                 unknown)",
                &["gateway", "class"],
            )?,
            leader: all
                .gauge("leader", "Whether this replica is the leader, which writes statuses and Events (1 or 0)")?,
            problems: all.gauges(
                "api_server_troubles",
                "Watches of the API server with a problem, and missing permissions",
                &["about", "reason"],
            )?,
            connected: all.gauges("xds_connected_envoys", "Envoys that are connected", &["gateway"])?,
            silent: all.gauges("xds_silent_envoys", "Envoys that do not answer", &["gateway"])?,
            sent: SentCounters::new(all)?,
            fallback: FallbackMetrics::new(all)?,
            shared: SharedMetrics::new(all)?,
            inputs: InputMetrics::new(all)?,
            namespaces: NamespaceMetrics::new(all)?,
            certificates: CertificateMetrics::new(all)?,
            webhook: WebhookMetrics::new(all)?,
            gateways: Mutex::default(),
            published: Mutex::default(),
            registry,
        })
    }

    /// Records the duration of a translation; `None` for a translation that failed.
    pub fn translated(&self, took: Option<Duration>) {
        self.translations.with_label_values(&[truth(took.is_some())]).inc();
        if let Some(took) = took {
            self.translation_seconds.observe(took.as_secs_f64());
        }
    }

    /// Records the number of objects with a fault because of which a part of them is not served as written.
    pub fn broken(&self, objects: usize) {
        self.broken_objects.set(signed(objects));
    }

    /// Records the replacements of rules that are currently served.
    pub fn replaced(&self, replacements: &[ReplacementView]) {
        self.replacements.reset();
        for ReplacementView { gateway, scope, cause, .. } in replacements {
            let cause = match cause {
                Cause::Referential => "referential",
                Cause::Invalid => "invalid",
                Cause::Conflict => "conflict",
                Cause::Ignored => "ignored",
            };
            self.replacements.with_label_values(&[gateway, *scope, cause]).inc();
        }
    }

    /// Records that a configuration was passed to the xDS server.
    pub fn published(&self, gateway: &Arc<str>, snapshot: &Snapshot) {
        for kind in ResourceType::ALL {
            self.resources.with_label_values(&[gateway, kind.short_name()]).set(signed(snapshot.of(kind).len()));
        }
        for class in RefusalClass::ALL {
            // The series starts at zero, so that the first refusal is an increase.
            self.refusals.with_label_values(&[&**gateway, class.name()]);
        }
        self.published.lock().unwrap_or_else(PoisonError::into_inner).insert(gateway.clone(), Instant::now());
    }

    /// Records the current Gateways. Counters by Gateway start at 0 when the Gateway appears, because a series that
    /// starts at 1 shows no increase, and are removed with the Gateway.
    pub fn known<'a>(&self, gateways: impl Iterator<Item = &'a Arc<str>>) {
        let mut known = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        let now: BTreeSet<Arc<str>> = gateways.cloned().collect();
        for (gateway, kind) in now.difference(&known).flat_map(|gateway| ResourceType::ALL.map(|kind| (gateway, kind)))
        {
            self.nacks.with_label_values(&[&**gateway, kind.short_name()]).inc_by(0);
            self.sent.begin(gateway, kind.short_name());
        }
        for (gateway, kind) in known.difference(&now).flat_map(|gateway| ResourceType::ALL.map(|kind| (gateway, kind)))
        {
            // The series exists, unless other code removed it.
            let _ = self.nacks.remove_label_values(&[&**gateway, kind.short_name()]);
        }
        *known = now;
    }

    /// Records the Envoys that do not answer.
    pub fn not_answering(&self, not_answering: &NotAnsweringByGateway) {
        self.silent.reset();
        for gateway in &*self.gateways.lock().unwrap_or_else(PoisonError::into_inner) {
            self.silent.with_label_values(&[&**gateway]).set(0);
        }
        for (gateway, envoys) in not_answering {
            self.silent.with_label_values(&[&**gateway]).set(signed(envoys.len()));
        }
    }

    /// Removes the series of a Gateway that is gone.
    pub fn withdrawn(&self, gateway: &Arc<str>) {
        for kind in ResourceType::ALL {
            // The Gateway may never have been published.
            let _ = self.resources.remove_label_values(&[gateway, kind.short_name()]);
        }
        self.published.lock().unwrap_or_else(PoisonError::into_inner).remove(gateway);
    }

    /// Records the answer of an Envoy. `served` is the snapshot that the Envoys of its Gateway should have, `fallback`
    /// whether that snapshot is a fallback.
    pub fn answered(&self, answer: &Answer, served: Option<&Snapshot>, fallback: bool) {
        let success = answer.outcome == Outcome::Acknowledged;
        let bytes: usize = answer
            .resources
            .iter()
            .filter_map(|(name, version)| {
                let resource = served?.get(answer.kind, name)?;
                (Some(resource.version) == *version).then_some(resource.body.len())
            })
            .sum();
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner).get(&answer.fleet).copied();
        let took = published.map(|published| published.elapsed());
        if fallback {
            self.fallback.answered(success, bytes, took);
        } else {
            let labels = [truth(success)];
            self.pushes.with_label_values(&labels).inc();
            self.push_bytes.with_label_values(&labels).observe(bytes as f64);
            took.inspect(|took| self.push_seconds.with_label_values(&labels).observe(took.as_secs_f64()));
        }
        if let Outcome::Refused { message } = &answer.outcome {
            let class = refusal::class(answer.kind, message).name();
            self.refusals.with_label_values(&[&*answer.fleet, class]).inc();
        }
        if success {
            self.push_success_at.set(now());
        } else {
            self.nacks.with_label_values(&[&*answer.fleet, answer.kind.short_name()]).inc();
        }
    }

    /// All metrics as text, including the counters of the xDS server and the store.
    ///
    /// # Errors
    /// Returns no error in practice: the text is written to memory.
    pub fn text(
        &self,
        fleets: &Fleets,
        persisted: Option<&Persisted>,
        main_loop: &LastBeat,
    ) -> prometheus::Result<String> {
        self.main_loop_age.set(signed(usize::try_from(main_loop.age.as_secs()).unwrap_or(usize::MAX)));
        self.fallback.refresh(persisted);
        self.inputs.refresh();
        self.regex_steps.inc_by(re2::steps_taken().saturating_sub(self.regex_steps.get()));
        self.connected.reset();
        for gateway in &*self.gateways.lock().unwrap_or_else(PoisonError::into_inner) {
            self.connected.with_label_values(&[&**gateway]).set(0);
        }
        for (gateway, count) in fleets.connected() {
            self.connected.with_label_values(&[&*gateway]).set(signed(count));
        }
        for ((gateway, kind), count) in fleets.pushes().by_type {
            self.sent.take_over(&gateway, kind.short_name(), &count);
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Counters of the xDS server by Gateway and type.
#[derive(Debug)]
struct SentCounters {
    responses: IntCounterVec,
    resources: IntCounterVec,
    bytes: IntCounterVec,
}

impl SentCounters {
    fn new(all: Register<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            responses: all.counters("xds_responses_sent_total", "Responses sent to Envoys", &["gateway", "type"])?,
            resources: all.counters(
                "xds_resources_sent_total",
                "Resources sent to Envoys (change=update), and names of removed resources (change=removal)",
                &["gateway", "type", "change"],
            )?,
            bytes: all.counters("xds_sent_bytes_total", "Bytes of responses sent to Envoys", &["gateway", "type"])?,
        })
    }

    fn begin(&self, gateway: &str, kind: &str) {
        self.responses.with_label_values(&[gateway, kind]).inc_by(0);
        self.bytes.with_label_values(&[gateway, kind]).inc_by(0);
        for change in ["update", "removal"] {
            self.resources.with_label_values(&[gateway, kind, change]).inc_by(0);
        }
    }

    fn take_over(&self, gateway: &str, kind: &str, count: &PushCount) {
        let PushCount { responses, resources, removals, bytes, .. } = *count;
        raise(&self.responses, &[gateway, kind], responses);
        raise(&self.resources, &[gateway, kind, "update"], resources);
        raise(&self.resources, &[gateway, kind, "removal"], removals);
        raise(&self.bytes, &[gateway, kind], bytes);
    }
}

/// Raises a counter to a value. A lower value means that counting restarted, since a Gateway of that name was created
/// again.
pub(super) fn raise(counters: &IntCounterVec, labels: &[&str], value: u64) {
    let counter = counters.with_label_values(labels);
    if value < counter.get() {
        counter.reset();
    }
    counter.inc_by(value - counter.get());
}

pub(super) fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

pub(super) fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0))
}
