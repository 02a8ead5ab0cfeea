//! Local replies: the format of responses that Envoy generates itself.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::ResponseMapper;
use envoy_types::pb::google::protobuf::UInt32Value;
use prost::Message;

use super::format::{LocalReplyBody, message};
use super::log_filter::LogFilter;
use crate::features::headers::HeaderEdits;

/// Maximum number of mappers of one listener; equal to the limit in the CRD.
pub const MAPPERS_MAX: usize = 16;
/// Maximum length of a response body, in bytes.
pub const BODY_BYTES_MAX: usize = 4096;

/// Field number of `HttpConnectionManager.local_reply_config`.
const LOCAL_REPLY_FIELD: u32 = 38;
/// Field numbers of `LocalReplyConfig.mappers` and `.body_format`.
const MAPPERS_FIELD: u32 = 1;
const BODY_FORMAT_FIELD: u32 = 2;
/// Field number of `ResponseMapper.body_format_override`.
const OVERRIDE_FIELD: u32 = 4;

/// The format of local replies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalReplySettings {
    /// The body format of all local replies.
    pub format: Option<LocalReplyBody>,
    /// Changes to some local replies; the first matching mapper applies.
    pub mappers: Vec<Mapper>,
}

/// Changes to some local replies.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapper {
    /// The responses that the mapper applies to.
    pub filter: LogFilter,
    /// The new status.
    pub status: Option<u32>,
    /// The new body.
    pub body: Option<Arc<str>>,
    /// The format of the body.
    pub format: Option<LocalReplyBody>,
    /// Headers that are added.
    pub headers: HeaderEdits,
}

impl LocalReplySettings {
    /// Encodes the local replies as a fragment to append to an encoded connection manager.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut config = Vec::new();
        for mapper in &self.mappers {
            message(MAPPERS_FIELD, &mapper.encode(), &mut config);
        }
        if let Some(format) = &self.format {
            message(BODY_FORMAT_FIELD, &encoded(format), &mut config);
        }
        let mut bytes = Vec::new();
        message(LOCAL_REPLY_FIELD, &config, &mut bytes);
        bytes
    }
}

impl Mapper {
    fn encode(&self) -> Vec<u8> {
        let inline = |text: &Arc<str>| DataSource {
            specifier: Some(Specifier::InlineString(text.to_string())),
            ..Default::default()
        };
        let mut bytes = ResponseMapper {
            filter: Some(self.filter.encode()),
            status_code: self.status.map(|value| UInt32Value { value }),
            body: self.body.as_ref().map(inline),
            headers_to_add: self.headers.to_add(),
            ..Default::default()
        }
        .encode_to_vec();
        if let Some(format) = &self.format {
            message(OVERRIDE_FIELD, &encoded(format), &mut bytes);
        }
        bytes
    }
}

fn encoded(body: &LocalReplyBody) -> Vec<u8> {
    body.format.encode(body.content_type.as_deref(), false)
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

    use super::super::format::Format;
    use super::*;

    #[test]
    fn a_connection_manager_reads_it() {
        let format = |text: &str| Some(LocalReplyBody { format: Format::Text(text.into()), content_type: None });
        let mapper = Mapper {
            filter: LogFilter::NotHealthCheck,
            status: Some(418),
            body: Some("body".into()),
            format: format("override"),
            headers: HeaderEdits::default(),
        };
        let replies = LocalReplySettings { format: format("default"), mappers: vec![mapper] };
        let read = HttpConnectionManager::decode(&*replies.encode()).unwrap_or_default();
        let shown = format!("{:?}", read.local_reply_config);
        for part in ["418", "\"body\"", "\"override\"", "\"default\"", "NotHealthCheckFilter"] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
    }
}
