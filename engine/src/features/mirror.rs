//! Copies of requests to another back end, whose answers are thrown away.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;
use envoy_types::pb::envoy::config::route::v3::route_action::RequestMirrorPolicy;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;

use super::Flaw;
use crate::encode::names;
use crate::model::Backend;

/// A mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Where the copies go.
    pub backend: Backend,
    /// Which share of the requests is copied.
    pub share: Share,
    /// How copies are sent, where that is said.
    pub sent: Option<Mirroring>,
}

/// How copies of requests are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirroring {
    /// Is their host left without `-shadow`?
    pub plain_host: bool,
    /// Their host.
    pub host: Option<Arc<str>>,
}

/// A share of requests in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

/// Millionths in a whole.
const WHOLE: u32 = 1_000_000;

impl Share {
    /// Every request.
    pub const ALL: Share = Share(WHOLE);

    /// A share as Gateway API writes it: a percentage or a fraction, not both.
    pub fn read(percent: Option<i32>, fraction: Option<(i32, Option<i32>)>) -> Result<Self, Flaw> {
        match (percent, fraction) {
            (None, None) => Ok(Self::ALL),
            (Some(_), Some(_)) => Err(Flaw::new("", "only one of percent and fraction may be set")),
            (Some(percent), None) => match u32::try_from(percent) {
                Ok(percent @ 0..=100) => Ok(Self(percent * (WHOLE / 100))),
                _ => Err(Flaw::new("percent", format!("percent is {percent}; it goes from 0 to 100"))),
            },
            (None, Some((numerator, denominator))) => {
                let denominator = denominator.unwrap_or(100);
                if numerator < 0 || denominator < 1 || numerator > denominator {
                    let message =
                        format!("{numerator}/{denominator} is no share: numerator goes from 0 to denominator");
                    return Err(Flaw::new("fraction", message));
                }
                let millionths = i64::from(numerator) * i64::from(WHOLE) / i64::from(denominator);
                Ok(Self(u32::try_from(millionths).unwrap_or(WHOLE)))
            }
        }
    }
}

impl Mirror {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> RequestMirrorPolicy {
        RequestMirrorPolicy {
            cluster: names::cluster(&self.backend),
            disable_shadow_host_suffix_append: self.sent.as_ref().is_some_and(|sent| sent.plain_host),
            host_rewrite_literal: self.sent.as_ref().and_then(|sent| sent.host.as_deref()).unwrap_or_default().into(),
            runtime_fraction: (self.share != Share::ALL).then(|| RuntimeFractionalPercent {
                default_value: Some(FractionalPercent {
                    numerator: self.share.0,
                    denominator: DenominatorType::Million.into(),
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}
