//! Percentiles by nearest rank: every figure is a time that was measured, none is interpolated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Percentiles of some times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Percentiles {
    /// Returns the percentiles of the times; all are 0 where there are none.
    pub(crate) fn of(times: &[Duration]) -> Self {
        let mut sorted: Vec<f64> = times.iter().map(|time| milliseconds(*time)).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |percent| ranked(&sorted, percent);
        Self { p50: at(50), p95: at(95), p99: at(99), max: at(100) }
    }

    /// Adds percentile to percentile, for the sum of two floors.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            p50: self.p50 + other.p50,
            p95: self.p95 + other.p95,
            p99: self.p99 + other.p99,
            max: self.max + other.max,
        }
    }
}

/// Returns the smallest value that at least `percent` of the sorted values do not exceed.
fn ranked(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Returns a time in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(milliseconds: impl IntoIterator<Item = u64>) -> Percentiles {
        Percentiles::of(&milliseconds.into_iter().map(Duration::from_millis).collect::<Vec<_>>())
    }

    #[test]
    fn a_percentile_is_the_value_of_the_nearest_rank() {
        assert_eq!(of((1..=100).rev()), Percentiles { p50: 50.0, p95: 95.0, p99: 99.0, max: 100.0 });
        assert_eq!(of(1..=60), Percentiles { p50: 30.0, p95: 57.0, p99: 60.0, max: 60.0 });
    }

    #[test]
    fn few_values_have_percentiles_too() {
        assert_eq!(of([]), Percentiles::default());
        assert_eq!(of([7]), Percentiles { p50: 7.0, p95: 7.0, p99: 7.0, max: 7.0 });
        assert_eq!(of([9, 7]), Percentiles { p50: 7.0, p95: 9.0, p99: 9.0, max: 9.0 });
    }
}
