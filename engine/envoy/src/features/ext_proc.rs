//! External processing over gRPC: a service receives requests and responses, and may change or reject them.
//!
//! A response of the service never makes Envoy select the route again: the first route of a request decides which
//! filters apply, and the filters of another route would be skipped.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/ext_proc_filter>

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3 as envoy;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ext_proc_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::external_processor::RouteCacheAction;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::metadata_options::MetadataNamespaces;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{BodySendMode, HeaderSendMode};
use holdfast_graph::ObjectKey;

use super::Flaw;
use super::call_options::CallOptions;
use super::remote::Remote;
use crate::encode::duration;

/// Maximum number of entries in one list.
pub const ENTRIES_MAX: usize = 64;
/// Maximum length of an entry of a list and of a prefix of statistics, in bytes.
pub const TEXT_BYTES_MAX: usize = 256;
/// The longest timeout of one message; Envoy's own limit.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// A processing service, as a filter of a chain. Services at the same place are in the order of these fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessingService {
    /// The place among the other filters.
    pub place: FilterPlace,
    /// The weight: at one place, services with a higher weight come first.
    pub weight: Reverse<i32>,
    /// The filter's name.
    pub name: Arc<str>,
    /// The objects that configure the service.
    pub owners: Vec<ObjectKey>,
    /// The service that Envoy calls.
    pub remote: Remote,
    /// Authority and retries.
    pub call_options: CallOptions,
    /// Timeout of the whole exchange for one request; no limit where unset.
    pub timeout: Option<Duration>,
    /// Whether requests pass when the service does not answer.
    pub fail_open: bool,
    /// The processing mode, unless a route overrides it.
    pub modes: Modes,
    /// Modes that the service may select itself: none where unset, any where the list is empty.
    pub others: Option<Vec<Modes>>,
    /// Timeout of one message; Envoy's own 200 ms where unset.
    pub message_timeout: Option<Duration>,
    /// The longest timeout that the service may request; it may request none where unset.
    pub message_timeout_max: Option<Duration>,
    /// Prefix of the filter's statistics.
    pub stat_prefix: Arc<str>,
    /// Metadata namespaces that the service receives: typed and untyped.
    pub metadata: (Vec<Arc<str>>, Vec<Arc<str>>),
    /// Request attributes that the service receives, as expressions.
    pub attributes: Vec<Arc<str>>,
}

/// Place of a processing filter in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterPlace {
    /// Before all other filters.
    First,
    /// Before authentication.
    Unknown,
    /// After authentication.
    Known,
    /// After authorization.
    #[default]
    Allowed,
    /// After rate limiting.
    Counted,
    /// After all other filters.
    Last,
}

/// Processing mode: the parts of requests and responses that the service receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Modes {
    /// Parts of requests.
    pub request: ProcessedParts,
    /// Parts of responses.
    pub response: ProcessedParts,
}

/// The parts of one direction that the service receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessedParts {
    /// Whether the headers are sent; yes where unset.
    pub headers: Option<bool>,
    /// How the body is sent.
    pub body: ShownBody,
    /// Whether the trailers are sent; no where unset.
    pub trailers: Option<bool>,
}

/// How a body is sent to the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShownBody {
    /// Not sent.
    #[default]
    None,
    /// In pieces.
    Streamed,
    /// As a whole.
    Buffered,
    /// As much of the body as the buffer holds.
    BufferedPartial,
    /// In pieces, with responses at any time.
    FullDuplexStreamed,
}

/// Per-route settings: requests of the route are sent to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteExtProc {
    /// The processing service.
    pub service: Arc<ProcessingService>,
    /// The processing mode that overrides the mode of the service.
    pub modes: Option<Modes>,
}

impl ProcessingService {
    /// Validates the settings; every unusable one is a flaw.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = self.modes.check("processingMode");
        for (index, modes) in self.others.iter().flatten().enumerate().take(ENTRIES_MAX) {
            flaws.extend(modes.check(&format!("allowedProcessingModeOverrides[{index}]")));
        }
        if self.others.as_ref().is_some_and(|others| others.len() > ENTRIES_MAX) {
            flaws.push(too_many("allowedProcessingModeOverrides"));
        }
        for (field, list) in [
            ("metadataOptions.forwarding.typed", &self.metadata.0),
            ("metadataOptions.forwarding.untyped", &self.metadata.1),
            ("requestAttributes", &self.attributes),
        ] {
            if list.len() > ENTRIES_MAX {
                flaws.push(too_many(field));
            }
            let wrong = |text: &Arc<str>| text.is_empty() || text.len() > TEXT_BYTES_MAX;
            if let Some(index) = list.iter().take(ENTRIES_MAX).position(wrong) {
                let message = format!("must not be empty, and have at most {TEXT_BYTES_MAX} bytes");
                flaws.push(Flaw::new(format!("{field}[{index}]"), message));
            }
        }
        for (field, time) in [("messageTimeout", self.message_timeout), ("maxMessageTimeout", self.message_timeout_max)]
        {
            if time.is_some_and(|time| time > TIMEOUT_MAX) {
                flaws.push(Flaw::new(field, "must not be longer than 1h"));
            }
        }
        flaws
    }

    /// Returns the Envoy configuration.
    pub fn encode(&self) -> envoy::ExternalProcessor {
        let texts = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (typed, untyped) = &self.metadata;
        let forwards_metadata = !typed.is_empty() || !untyped.is_empty();
        envoy::ExternalProcessor {
            grpc_service: Some(self.call_options.grpc(&self.remote, self.timeout)),
            failure_mode_allow: self.fail_open,
            processing_mode: Some(self.modes.encode()),
            request_attributes: texts(&self.attributes),
            message_timeout: self.message_timeout.map(duration),
            max_message_timeout: self.message_timeout_max.map(duration),
            stat_prefix: self.stat_prefix.to_string(),
            allow_mode_override: self.others.is_some(),
            allowed_override_modes: self.others.iter().flatten().map(Modes::encode).collect(),
            metadata_options: forwards_metadata.then(|| envoy::MetadataOptions {
                forwarding_namespaces: Some(MetadataNamespaces { typed: texts(typed), untyped: texts(untyped) }),
                ..Default::default()
            }),
            route_cache_action: RouteCacheAction::Retain.into(),
            ..Default::default()
        }
    }
}

fn too_many(field: &str) -> Flaw {
    Flaw::new(field, format!("must have at most {ENTRIES_MAX} entries"))
}

/// Returns why the text is not usable as a prefix of statistics; `None` where it is.
pub fn stat_prefix_fault(prefix: &str) -> Option<String> {
    let fits = prefix.len() <= TEXT_BYTES_MAX && !prefix.contains(char::is_control);
    (!fits).then(|| format!("is text of one line of at most {TEXT_BYTES_MAX} bytes"))
}

impl Modes {
    /// Checks for combinations that Envoy refuses.
    pub fn check(&self, field: &str) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (direction, shown) in [("request", &self.request), ("response", &self.response)] {
            if shown.body == ShownBody::FullDuplexStreamed && shown.trailers != Some(true) {
                let message = format!("must be SEND where {direction}BodyMode is FULL_DUPLEX_STREAMED");
                flaws.push(Flaw::new(format!("{field}.{direction}TrailerMode"), message));
            }
        }
        flaws
    }

    fn encode(&self) -> envoy::ProcessingMode {
        let sent = |sent: Option<bool>| match sent {
            None => HeaderSendMode::Default.into(),
            Some(true) => HeaderSendMode::Send.into(),
            Some(false) => HeaderSendMode::Skip.into(),
        };
        envoy::ProcessingMode {
            request_header_mode: sent(self.request.headers),
            response_header_mode: sent(self.response.headers),
            request_body_mode: self.request.body.encode(),
            response_body_mode: self.response.body.encode(),
            request_trailer_mode: sent(self.request.trailers),
            response_trailer_mode: sent(self.response.trailers),
        }
    }
}

impl ShownBody {
    fn encode(self) -> i32 {
        let mode = match self {
            ShownBody::None => BodySendMode::None,
            ShownBody::Streamed => BodySendMode::Streamed,
            ShownBody::Buffered => BodySendMode::Buffered,
            ShownBody::BufferedPartial => BodySendMode::BufferedPartial,
            ShownBody::FullDuplexStreamed => BodySendMode::FullDuplexStreamed,
        };
        mode.into()
    }
}

impl RouteExtProc {
    /// Returns the per-route configuration.
    pub fn encode(&self) -> envoy::ExtProcPerRoute {
        let processing_mode = self.modes.as_ref().map(Modes::encode);
        let overrides = envoy::ExtProcOverrides { processing_mode, ..Default::default() };
        envoy::ExtProcPerRoute { r#override: Some(Override::Overrides(overrides)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_body_that_are_answered_at_any_time_need_trailers() {
        let shown =
            |trailers| ProcessedParts { body: ShownBody::FullDuplexStreamed, trailers, ..ProcessedParts::default() };
        for (trailers, flaws) in [(Some(true), 0), (Some(false), 1), (None, 1)] {
            let modes = Modes { response: shown(trailers), ..Modes::default() };
            assert_eq!(modes.check("processingMode").len(), flaws, "{trailers:?}");
        }
        assert_eq!(Modes { request: shown(None), response: shown(None) }.check("m")[1].field, "m.responseTrailerMode");
    }
}
