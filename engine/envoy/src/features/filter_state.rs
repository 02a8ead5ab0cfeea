//! Filter state that a chain stores as text for each request, for later filters to read.

use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format;
use envoy_types::pb::envoy::config::core::v3::{DataSource, SubstitutionFormatString};
use envoy_types::pb::envoy::extensions::filters::common::set_filter_state::v3::FilterStateValue;
use envoy_types::pb::envoy::extensions::filters::common::set_filter_state::v3::filter_state_value::{Key, Value};
use envoy_types::pb::envoy::extensions::filters::http::set_filter_state::v3::Config as SetFilterState;

/// Returns a filter that stores a text under a key. Envoy expands command operators of access logs in the text: `%` is
/// written `%%`.
pub fn keeps(key: &str, text: String) -> SetFilterState {
    let text = SubstitutionFormatString {
        format: Some(Format::TextFormatSource(DataSource {
            specifier: Some(Specifier::InlineString(text)),
            ..Default::default()
        })),
        ..Default::default()
    };
    SetFilterState {
        on_request_headers: vec![FilterStateValue {
            factory_key: "envoy.string".into(),
            key: Some(Key::ObjectKey(key.into())),
            value: Some(Value::FormatString(text)),
            ..Default::default()
        }],
        ..Default::default()
    }
}
