//! Registration of metrics: a function for each sort of metric, with its name and help.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    Result,
};

use super::metrics::{raise, truth};

/// The registry of all metrics. Each function fails only if two metrics have the same name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register<'a>(pub(super) &'a Registry);

impl Register<'_> {
    fn kept<C: Collector + Clone + 'static>(self, collector: C) -> Result<C> {
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    pub(super) fn counter(self, name: &str, help: &str) -> Result<IntCounter> {
        self.kept(IntCounter::new(name, help)?)
    }

    pub(super) fn counters(self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.kept(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// Counters by success, both of them at 0.
    pub(super) fn counters_by_success(self, name: &str, help: &str) -> Result<IntCounterVec> {
        let counters = self.counters(name, help, &["success"])?;
        [true, false].iter().for_each(|success| counters.with_label_values(&[truth(*success)]).inc_by(0));
        Ok(counters)
    }

    /// A counter that another part of the program counts, at 0; see [`raise`].
    pub(super) fn counter_of_others(self, name: &str, help: &str) -> Result<IntCounterVec> {
        let counters = self.counters(name, help, &[])?;
        raise(&counters, &[], 0);
        Ok(counters)
    }

    pub(super) fn gauge(self, name: &str, help: &str) -> Result<IntGauge> {
        self.kept(IntGauge::new(name, help)?)
    }

    pub(super) fn gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.kept(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// Gauges with values that are not whole numbers.
    pub(super) fn fractions(self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec> {
        self.kept(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram> {
        self.kept(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
    }

    /// Histograms by success, both of them without observations.
    pub(super) fn histograms_by_success(self, name: &str, help: &str, buckets: &[f64]) -> Result<HistogramVec> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let histograms = self.kept(HistogramVec::new(options, &["success"])?)?;
        [true, false].iter().for_each(|success| drop(histograms.with_label_values(&[truth(*success)])));
        Ok(histograms)
    }
}
