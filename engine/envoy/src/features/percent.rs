//! Percentages.

use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;

/// A share in percent, from 0 to 100; the default is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percent(u32);

impl Percent {
    /// 100 percent.
    pub const ALL: Percent = Percent(100);

    /// Creates a share; returns `None` outside of 0 to 100.
    pub fn new(percent: i64) -> Option<Self> {
        u32::try_from(percent).ok().filter(|percent| *percent <= 100).map(Self)
    }

    /// Returns Envoy's fraction.
    pub fn encode(self) -> FractionalPercent {
        FractionalPercent { numerator: self.0, denominator: DenominatorType::Hundred.into() }
    }
}

/// Returns Envoy's runtime fraction; Holdfast sets no runtime key.
pub fn runtime(percent: Percent) -> RuntimeFractionalPercent {
    RuntimeFractionalPercent { default_value: Some(percent.encode()), ..Default::default() }
}
