//! Shares of requests: several routes with one match, of which each gets a part of the requests by chance.
//!
//! Envoy draws one number for a request, and compares its remainder with the fraction of each route in order. Therefore
//! the fraction of a route is the end of its range: it includes the ranges of the routes before it. The last route has
//! no fraction, and gets all that remains.
//!
//! Envoy compares the fractions of mirrors with the same number. The copies of a share are counted from the beginning of
//! its range: a fraction of the whole would copy all requests of the first share, and none of the last one. For the same
//! reason, a share must not have weighted clusters: Envoy selects them by this number, too.

use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;

/// The number of millionths in a whole.
pub(crate) const WHOLE: u32 = 1_000_000;

/// A range of requests in millionths, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteShare {
    from: u32,
    to: u32,
}

impl RouteShare {
    /// Returns a share for each of these weights, in order. A weight of less than a millionth of the sum may get no
    /// requests.
    pub fn of(weights: &[u32]) -> Vec<Self> {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let (mut sum, mut from) = (0_u64, 0);
        let share = |weight: &u32| {
            sum += u64::from(*weight);
            let end = sum.saturating_mul(WHOLE.into()).checked_div(total);
            let to = end.and_then(|end| u32::try_from(end).ok()).unwrap_or(WHOLE);
            let share = Self { from, to };
            from = to;
            share
        };
        weights.iter().map(share).collect()
    }

    /// Returns the fraction of the route; `None` if it is the last one.
    pub(crate) fn encode(self) -> Option<RuntimeFractionalPercent> {
        (self.to < WHOLE).then(|| fraction(self.to))
    }

    /// Returns the fraction of a mirror that copies so many millionths of the requests of the share.
    pub(crate) fn of_copies(self, millionths: u32) -> RuntimeFractionalPercent {
        let copied = u64::from(self.to - self.from) * u64::from(millionths) / u64::from(WHOLE);
        fraction(self.from + u32::try_from(copied).unwrap_or_default())
    }
}

/// Returns a fraction of all requests; Holdfast sets no runtime key.
pub(crate) fn fraction(millionths: u32) -> RuntimeFractionalPercent {
    let denominator = DenominatorType::Million.into();
    let default_value = Some(FractionalPercent { numerator: millionths, denominator });
    RuntimeFractionalPercent { default_value, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millionths(fraction: Option<RuntimeFractionalPercent>) -> Option<u32> {
        fraction.and_then(|fraction| fraction.default_value).map(|value| value.numerator)
    }

    #[test]
    fn shares_follow_each_other_and_the_last_one_gets_the_rest() {
        let ends = |weights: &[u32]| -> Vec<Option<u32>> {
            RouteShare::of(weights).into_iter().map(|share| millionths(share.encode())).collect()
        };
        assert_eq!(ends(&[1, 1]), [Some(500_000), None]);
        assert_eq!(ends(&[1, 1, 1]), [Some(333_333), Some(666_666), None]);
        assert_eq!(ends(&[70, 20, 10]), [Some(700_000), Some(900_000), None]);
        assert_eq!(ends(&[3]), [None]);
        assert_eq!(ends(&[1, u32::MAX - 1]), [Some(0), None], "a share that is too small for a millionth");
        assert_eq!(ends(&[]), []);
    }

    #[test]
    fn copies_are_a_part_of_the_share() {
        let shares = RouteShare::of(&[1, 3]);
        let copies = |share: usize, percent: u32| millionths(Some(shares[share].of_copies(percent * (WHOLE / 100))));
        assert_eq!([copies(0, 0), copies(0, 10), copies(0, 100)], [Some(0), Some(25_000), Some(250_000)]);
        assert_eq!([copies(1, 0), copies(1, 10), copies(1, 100)], [Some(250_000), Some(325_000), Some(1_000_000)]);
    }
}
