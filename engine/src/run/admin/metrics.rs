//! Metrics in Prometheus' text form. Labels are Gateways, types and kinds: as many as there are of those, never objects.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_xds::{ResourceType, Snapshot};
use prometheus::core::Collector;
use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// Upper bounds (seconds) of the histogram of translations.
const TRANSLATION_SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Every metric.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Translations that left everything as it was.
    pub unchanged: IntCounter,
    /// Objects with a fault that keeps something from being served as written.
    pub broken_objects: IntGauge,
    translations: IntCounterVec,
    translation_seconds: Histogram,
    resources: IntGaugeVec,
    published_at: IntGaugeVec,
}

impl Metrics {
    /// All of them, at zero.
    ///
    /// # Errors
    /// Never, as long as no two have the same name.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new_custom(Some("holdfast".into()), None)?;
        let seconds = HistogramOpts::new("translation_duration_seconds", "Time that translations took")
            .buckets(TRANSLATION_SECONDS.to_vec());
        Ok(Self {
            unchanged: kept(
                &registry,
                IntCounter::new("snapshot_unchanged_total", "Translations after which nothing had to be sent")?,
            )?,
            broken_objects: kept(
                &registry,
                IntGauge::new("translation_broken_objects", "Objects of which something is not served as written")?,
            )?,
            translations: kept(
                &registry,
                IntCounterVec::new(Opts::new("translation_total", "Translations"), &["success"])?,
            )?,
            translation_seconds: kept(&registry, Histogram::with_opts(seconds)?)?,
            resources: kept(
                &registry,
                IntGaugeVec::new(Opts::new("resources", "Resources that are served"), &["gateway", "type"])?,
            )?,
            published_at: kept(
                &registry,
                IntGaugeVec::new(
                    Opts::new("published_timestamp_seconds", "When a configuration was last made for a Gateway"),
                    &["gateway"],
                )?,
            )?,
            registry,
        })
    }

    /// A translation ended.
    pub fn translated(&self, success: bool, took: Duration) {
        self.translations.with_label_values(&[if success { "true" } else { "false" }]).inc();
        self.translation_seconds.observe(took.as_secs_f64());
    }

    /// A configuration was handed to the xDS server.
    pub fn published(&self, gateway: &Arc<str>, snapshot: &Snapshot) {
        for kind in ResourceType::ALL {
            let count = i64::try_from(snapshot.of(kind).len()).unwrap_or(i64::MAX);
            self.resources.with_label_values(&[gateway, kind.short_name()]).set(count);
        }
        self.published_at.with_label_values(&[&**gateway]).set(now());
    }

    /// All of them as text.
    ///
    /// # Errors
    /// Never, in practice: the text is written to memory.
    pub fn text(&self) -> prometheus::Result<String> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0))
}

fn kept<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> prometheus::Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
