//! Request mirroring: copies of requests go to another backend, and its responses are discarded.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::route_action::RequestMirrorPolicy;

use super::Flaw;
use super::share::{self, RouteShare, WHOLE};
use crate::encode::names;
use crate::model::BackendCluster;

/// A mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The backend that receives the copies.
    pub backend: BackendCluster,
    /// The share of requests that are copied.
    pub share: RequestShare,
    /// Options of the copies, where set.
    pub sent: Option<Mirroring>,
}

/// Options of mirrored requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirroring {
    /// Whether the host is sent without the suffix `-shadow`.
    pub plain_host: bool,
    /// The host of the copies.
    pub host: Option<Arc<str>>,
}

/// A share of requests in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestShare(u32);

impl RequestShare {
    /// Every request.
    pub const ALL: RequestShare = RequestShare(WHOLE);

    /// Parses a share of Gateway API: a percentage or a fraction, not both.
    pub fn read(percent: Option<i32>, fraction: Option<(i32, Option<i32>)>) -> Result<Self, Flaw> {
        match (percent, fraction) {
            (None, None) => Ok(Self::ALL),
            (Some(_), Some(_)) => Err(Flaw::new("", "only one of percent and fraction may be set")),
            (Some(percent), None) => match u32::try_from(percent) {
                Ok(percent @ 0..=100) => Ok(Self(percent * (WHOLE / 100))),
                _ => Err(Flaw::new("percent", format!("percent is {percent}; it must be between 0 and 100"))),
            },
            (None, Some((numerator, denominator))) => {
                let denominator = denominator.unwrap_or(100);
                if numerator < 0 || denominator < 1 || numerator > denominator {
                    let message = format!(
                        "{numerator}/{denominator} is not a valid fraction: numerator must be between 0 and denominator"
                    );
                    return Err(Flaw::new("fraction", message));
                }
                let millionths = i64::from(numerator) * i64::from(WHOLE) / i64::from(denominator);
                Ok(Self(u32::try_from(millionths).unwrap_or(WHOLE)))
            }
        }
    }
}

impl Mirror {
    /// Returns the Envoy configuration for a route with this share of the requests of its match; all where unset.
    pub fn encode(&self, of: Option<RouteShare>) -> RequestMirrorPolicy {
        let millionths = self.share.0;
        RequestMirrorPolicy {
            cluster: names::cluster(&self.backend),
            disable_shadow_host_suffix_append: self.sent.as_ref().is_some_and(|sent| sent.plain_host),
            host_rewrite_literal: self.sent.as_ref().and_then(|sent| sent.host.as_deref()).unwrap_or_default().into(),
            runtime_fraction: (self.share != RequestShare::ALL)
                .then(|| of.map_or_else(|| share::fraction(millionths), |of| of.of_copies(millionths))),
            ..Default::default()
        }
    }
}
