//! Routes that get shares of the requests of one match: the answer of each share.
//!
//! Which share a request belongs to is decided by chance, so that no single answer is the result.

use envoy_types::pb::envoy::config::route::v3::RouteMatch;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use serde::{Deserialize, Serialize};

use super::answer::ExplainedAnswer;
use crate::features::share::WHOLE;

/// A share of the requests with one match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedShare {
    /// The name of the route; empty for requests that no route matches.
    pub route: String,
    /// The share in millionths.
    pub millionths: u32,
    /// The answer to these requests.
    pub answer: ExplainedAnswer,
}

/// Returns the end of the range of requests that a match has, in millionths; `None` without a condition on chance, or
/// if the condition is of another form than those of Holdfast.
pub(super) fn end(wanted: &RouteMatch) -> Option<u32> {
    let fraction = wanted.runtime_fraction.as_ref().filter(|fraction| fraction.runtime_key.is_empty())?;
    let value = fraction.default_value.as_ref()?;
    (value.denominator == i32::from(DenominatorType::Million)).then_some(value.numerator.min(WHOLE))
}

/// Returns millionths as a percentage.
pub(super) fn percent(millionths: u32) -> String {
    let (whole, rest) = (millionths / 10_000, millionths % 10_000);
    let rest = format!("{rest:04}");
    match rest.trim_end_matches('0') {
        "" => format!("{whole}%"),
        digits => format!("{whole}.{digits}%"),
    }
}

impl ExplainedShare {
    /// Returns the share as a percentage.
    pub fn percent(&self) -> String {
        percent(self.millionths)
    }
}

/// The shares of the routes that were compared with a request so far.
#[derive(Default)]
pub(super) struct FoundShares {
    end: u32,
    shares: Vec<ExplainedShare>,
}

impl FoundShares {
    /// Adds a route that matches, with the end of its range. Returns the result if no requests remain for later routes.
    pub(super) fn add(&mut self, route: &str, end: Option<u32>, answer: ExplainedAnswer) -> Option<ExplainedAnswer> {
        if end.is_none() && self.shares.is_empty() {
            return Some(answer);
        }
        let end = end.unwrap_or(WHOLE);
        let millionths = end.saturating_sub(self.end);
        if millionths > 0 {
            self.shares.push(ExplainedShare { route: route.to_owned(), millionths, answer });
            self.end = end;
        }
        (self.end >= WHOLE).then(|| ExplainedAnswer::Shares { shares: std::mem::take(&mut self.shares) })
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;

    use super::*;
    use crate::features::share::fraction;

    fn response(status: u16) -> ExplainedAnswer {
        ExplainedAnswer::Response { status, body: None, grpc_status: None }
    }

    #[test]
    fn a_route_without_a_fraction_ends_the_shares() {
        let mut shares = FoundShares::default();
        assert_eq!(shares.add("all", None, response(204)), Some(response(204)));
        assert_eq!(shares.add("first", Some(250_000), response(200)), None);
        assert_eq!(shares.add("none", Some(250_000), response(201)), None);
        let Some(ExplainedAnswer::Shares { shares }) = shares.add("last", None, response(500)) else {
            unreachable!("the last route has no fraction")
        };
        let shown: Vec<_> = shares.iter().map(|share| (&*share.route, share.percent())).collect();
        assert_eq!(shown, [("first", "25%".into()), ("last", "75%".into())]);
        assert!(!ExplainedAnswer::Shares { shares }.is_served(), "a share gets 500");
    }

    #[test]
    fn only_the_form_of_holdfast_is_evaluated() {
        let wanted = |fraction| RouteMatch { runtime_fraction: Some(fraction), ..Default::default() };
        assert_eq!(end(&wanted(fraction(5))), Some(5));
        assert_eq!(end(&wanted(RuntimeFractionalPercent { runtime_key: "key".into(), ..fraction(5) })), None);
        assert_eq!(end(&RouteMatch::default()), None);
    }

    #[test]
    fn millionths_are_shown_in_percent() {
        let shown = [(1_000_000, "100%"), (333_333, "33.3333%"), (10, "0.001%"), (0, "0%"), (15_000, "1.5%")];
        shown.into_iter().for_each(|(millionths, text)| assert_eq!(percent(millionths), text));
    }
}
