//! Metrics of the fallback, of blame attribution and of the store. Labels are Gateways, steps and kinds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_fallback::attribution::Attributed;
use holdfast_fallback::view::{FallbackReport, ServedState};
use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::metrics::{BYTES, SECONDS, now, raise, signed, truth};
use super::register::Register;
use crate::store::persist::Persisted;

/// Upper bounds of the histogram of attribution rounds.
const ROUNDS: [f64; 8] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Metrics of the fallback, of blame attribution and of the store.
#[derive(Debug)]
pub struct FallbackMetrics {
    active: IntGaugeVec,
    held: IntGaugeVec,
    objects: IntGaugeVec,
    translations: IntCounter,
    translation_seconds: Histogram,
    pushes: IntCounterVec,
    push_seconds: HistogramVec,
    push_bytes: HistogramVec,
    attribution_rounds: Histogram,
    attribution_seconds: Histogram,
    last_valid_age: GaugeVec,
    store_commits: IntCounterVec,
    store_commit_seconds: Histogram,
    store_bytes: IntGauge,
    store_errors: IntCounterVec,
    store_failing: IntGauge,
    /// By Gateway: the time at which the oldest served last valid version was proven good.
    oldest: Mutex<BTreeMap<Arc<str>, i64>>,
}

impl FallbackMetrics {
    /// Registers all metrics with the value zero.
    ///
    /// # Errors
    /// Returns an error only if two metrics have the same name.
    pub(super) fn new(all: Register<'_>) -> prometheus::Result<Self> {
        Ok(Self {
            active: all.gauges(
                "fallback_active",
                "Whether a fallback is served instead of the desired configuration (1 or 0)",
                &["gateway"],
            )?,
            held: all.gauges(
                "held",
                "Whether the last acknowledged configuration is held, so that no change reaches Envoys (1 or 0)",
                &["gateway"],
            )?,
            objects: all.gauges("objects", "Objects that are not served as desired", &["step", "kind"])?,
            translations: all.counter("fallback_translation_total", "Translations that changed the fallback")?,
            translation_seconds: all.histogram(
                "fallback_translation_duration_seconds",
                "Duration of translations that changed the fallback",
                &SECONDS,
            )?,
            pushes: all.counters_by_success(
                "fallback_configuration_push_total",
                "Responses with a fallback that Envoys acknowledged or refused",
            )?,
            push_seconds: all.histograms_by_success(
                "fallback_configuration_push_duration_seconds",
                "Time from the creation of a fallback to the answer of an Envoy to a part of it",
                &SECONDS,
            )?,
            push_bytes: all.histograms_by_success(
                "fallback_configuration_push_size_bytes",
                "Size of the resources of a fallback in one response that an Envoy answered",
                &BYTES,
            )?,
            attribution_rounds: all.histogram(
                "attribution_rounds",
                "Trials until the object to blame was found",
                &ROUNDS,
            )?,
            attribution_seconds: all.histogram(
                "attribution_duration_seconds",
                "Time from a refusal until the object to blame was found",
                &SECONDS,
            )?,
            last_valid_age: all.fractions(
                "last_valid_age_seconds",
                "Age of the oldest last valid version that is served",
                &["gateway"],
            )?,
            store_commits: all.counter_of_others("store_commits_total", "Commits to the store")?,
            store_commit_seconds: all.histogram(
                "store_commit_duration_seconds",
                "Duration of commits to the store",
                &SECONDS,
            )?,
            store_bytes: all.gauge("store_size_bytes", "Size of the files of the store in bytes")?,
            store_errors: all
                .counter_of_others("store_errors_total", "Failed commits to the store, and refused changes")?,
            store_failing: all.gauge(
                "store_failing",
                "Whether last valid versions are not stored now: the store was not opened, its folder is gone, or commits fail \
                 or hang (1 or 0)",
            )?,
            oldest: Mutex::default(),
        })
    }

    /// Records whether last valid versions are not stored now.
    pub fn store_is_failing(&self, failing: bool) {
        self.store_failing.set(failing.into());
    }

    /// Records which objects are currently not served as desired.
    pub fn fallback(&self, report: &FallbackReport) {
        self.active.reset();
        self.held.reset();
        let mut oldest = BTreeMap::new();
        for gateway in &report.gateways {
            let active = !gateway.deviations.is_empty() || gateway.closes;
            self.active.with_label_values(&[&*gateway.name]).set(i64::from(active));
            let held = gateway.deviations.held || gateway.state == ServedState::Held;
            self.held.with_label_values(&[&*gateway.name]).set(i64::from(held));
            oldest.extend(gateway.oldest.map(|moment| (gateway.name.clone(), moment.0)));
        }
        *self.oldest.lock().unwrap_or_else(PoisonError::into_inner) = oldest;
        self.objects.reset();
        for ((step, kind), count) in report.counts() {
            self.objects.with_label_values(&[step, &*kind]).set(signed(count));
        }
    }

    /// Records the duration of a translation with another fallback.
    pub fn translated(&self, took: Duration) {
        self.translations.inc();
        self.translation_seconds.observe(took.as_secs_f64());
    }

    /// Records the answer of an Envoy to a part of a fallback.
    pub fn answered(&self, success: bool, bytes: usize, took: Option<Duration>) {
        let labels = [truth(success)];
        self.pushes.with_label_values(&labels).inc();
        self.push_bytes.with_label_values(&labels).observe(bytes as f64);
        if let Some(took) = took {
            self.push_seconds.with_label_values(&labels).observe(took.as_secs_f64());
        }
    }

    /// Records an attribution that found the culprit.
    pub fn attributed(&self, attributed: &Attributed) {
        self.attribution_rounds.observe(f64::from(attributed.rounds));
        self.attribution_seconds.observe(Duration::from_millis(attributed.took_ms).as_secs_f64());
    }

    /// Returns a function that observes the duration of commits.
    pub fn commits(&self) -> impl Fn(Duration) + Send + 'static {
        let seconds: Histogram = self.store_commit_seconds.clone();
        move |took| seconds.observe(took.as_secs_f64())
    }

    /// Updates the values that change with time: ages, and counters of the store.
    pub fn refresh(&self, persisted: Option<&Persisted>) {
        self.last_valid_age.reset();
        for (gateway, since) in &*self.oldest.lock().unwrap_or_else(PoisonError::into_inner) {
            let age: Gauge = self.last_valid_age.with_label_values(&[&**gateway]);
            age.set(now().saturating_sub(*since).max(0) as f64);
        }
        if let Some(persisted) = persisted {
            raise(&self.store_commits, &[], persisted.commits);
            raise(&self.store_errors, &[], persisted.errors.saturating_add(persisted.refused));
            self.store_bytes.set(i64::try_from(persisted.statistics.bytes_on_disk).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::serve::heartbeat::Heartbeat;
    use holdfast_xds::{Answer, Fleets, Outcome, ResourceType};

    use super::*;
    use crate::admin::metrics::Metrics;

    const REPORT: &str = r#"{"status":"triggered","brokenObjects":[],
      "backfilledObjects":[{"group":"g","kind":"HTTPRoute","version":"v1","namespace":"n","name":"o","id":"u",
        "causingObjects":[],"desiredGeneration":5,"servedGeneration":4,"servedSince":"2026-11-19T10:00:00Z"}],
      "replacedObjects":[
        {"group":"g","kind":"HTTPRoute","version":"v1","namespace":"n","name":"p","id":"v","causingObjects":[],
         "scope":"rule","section":"rules[0]","response":404},
        {"group":"g","kind":"HTTPRoute","version":"v1","namespace":"n","name":"p","id":"v","causingObjects":[],
         "scope":"rule","section":"rules[1]","response":404}],
      "excludedObjects":[],
      "gateways":[
        {"name":"infra/a","state":"fallback","generation":2,"envoys":{"acknowledged":1,"refused":0,"pending":0}},
        {"name":"infra/b","state":"current","generation":1,"envoys":{"acknowledged":1,"refused":0,"pending":0}}]}"#;

    fn has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|known| known == *line), "{line} is missing in:\n{text}");
        }
    }

    #[test]
    fn what_is_served_instead_is_counted_by_gateway_step_and_kind() {
        let metrics = Metrics::new().unwrap();
        let mut report: FallbackReport = serde_json::from_str(REPORT).unwrap();
        for gateway in report.gateways.iter_mut().take(1) {
            gateway.deviations.held = true;
            gateway.oldest = Some(holdfast_check::time::Moment(now() - 100));
        }
        metrics.fallback.fallback(&report);
        let text = metrics.text(&Fleets::new(), None, &Heartbeat::default().last()).unwrap();
        has(
            &text,
            &[
                r#"holdfast_fallback_active{gateway="infra/a"} 1"#,
                r#"holdfast_fallback_active{gateway="infra/b"} 0"#,
                r#"holdfast_held{gateway="infra/a"} 1"#,
                r#"holdfast_held{gateway="infra/b"} 0"#,
                r#"holdfast_objects{kind="HTTPRoute",step="backfilled"} 1"#,
                r#"holdfast_objects{kind="HTTPRoute",step="replaced"} 1"#,
            ],
        );
        let age =
            text.lines().find_map(|line| line.strip_prefix(r#"holdfast_last_valid_age_seconds{gateway="infra/a"} "#));
        assert!((100.0..1000.0).contains(&age.unwrap().parse::<f64>().unwrap()), "{age:?}");
        assert!(!text.contains("holdfast_objects{kind=\"HTTPRoute\",step=\"excluded\"}"));

        metrics.fallback.fallback(&FallbackReport::default());
        let text = metrics.text(&Fleets::new(), None, &Heartbeat::default().last()).unwrap();
        for gone in ["fallback_active{", "objects{", "last_valid_age_seconds{"] {
            assert!(!text.contains(&format!("holdfast_{gone}")), "{text}");
        }
    }

    #[test]
    fn answers_count_for_the_fallback_or_for_what_is_desired() {
        let metrics = Metrics::new().unwrap();
        let answer = |outcome| Answer {
            fleet: "infra/a".into(),
            node: "one".into(),
            build: "1.40.0".into(),
            kind: ResourceType::Route,
            outcome,
            resources: Vec::new(),
        };
        metrics.answered(&answer(Outcome::Acknowledged), None, true);
        metrics.answered(&answer(Outcome::Refused { message: "no".into() }), None, false);
        metrics.fallback.translated(Duration::from_millis(3));
        metrics.fallback.attributed(&Attributed { rounds: 3, took_ms: 200 });
        metrics.fallback.commits()(Duration::from_millis(3));
        let persisted = Persisted { commits: 7, errors: 1, refused: 2, ..Persisted::default() };
        let text = metrics.text(&Fleets::new(), Some(&persisted), &Heartbeat::default().last()).unwrap();
        has(
            &text,
            &[
                r#"holdfast_fallback_configuration_push_total{success="true"} 1"#,
                r#"holdfast_configuration_push_total{success="false"} 1"#,
                r#"holdfast_fallback_configuration_push_size_bytes_count{success="true"} 1"#,
                r#"holdfast_nacks_total{gateway="infra/a",type="RDS"} 1"#,
                "holdfast_fallback_translation_total 1",
                "holdfast_fallback_translation_duration_seconds_count 1",
                r#"holdfast_attribution_rounds_bucket{le="2"} 0"#,
                r#"holdfast_attribution_rounds_bucket{le="4"} 1"#,
                "holdfast_attribution_duration_seconds_sum 0.2",
                "holdfast_store_commits_total 7",
                "holdfast_store_errors_total 3",
                "holdfast_store_commit_duration_seconds_count 1",
                "holdfast_store_size_bytes 0",
            ],
        );
        has(&text, &[r#"holdfast_configuration_push_total{success="true"} 0"#]);
    }
}
