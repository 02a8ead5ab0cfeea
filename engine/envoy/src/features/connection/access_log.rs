//! Access logs of a listener.
//!
//! Of files, only the standard streams of Envoy's own process and `/dev/null` are supported: all others are on a
//! machine that the authors of policies do not own.

use std::sync::Arc;

use envoy_types::pb::envoy::config::accesslog::v3::AccessLog as Envoy;
use envoy_types::pb::envoy::config::accesslog::v3::access_log::ConfigType;
use envoy_types::pb::envoy::config::core::v3::ApiVersion;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::FileAccessLog;
use envoy_types::pb::envoy::extensions::access_loggers::grpc::v3::{
    CommonGrpcAccessLogConfig, HttpGrpcAccessLogConfig,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};

use super::collector::Collector;
use super::format::{Format, message};
use super::log_filter::LogFilter;
use super::open_telemetry::OpenTelemetryLogger;
use crate::encode::any;
use crate::features::remote::Remote;

/// Maximum number of access logs of one listener; equal to the limit in the CRD.
pub const LOGS_MAX: usize = 16;
/// Maximum number of headers in one list of a gRPC log.
pub const HEADERS_MAX: usize = 64;
/// The supported file paths.
pub const PATHS: [&str; 3] = ["/dev/stdout", "/dev/stderr", "/dev/null"];

/// Field number of `FileAccessLog.log_format`.
const LOG_FORMAT_FIELD: u32 = 5;

/// An access log.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLogger {
    /// The destination.
    pub sink: Sink,
    /// The logged requests; all where unset.
    pub filter: Option<LogFilter>,
}

/// The destination of an access log.
#[derive(Clone, Debug, PartialEq)]
pub enum Sink {
    /// A file, with the format of each entry.
    File(Arc<str>, Format),
    /// A gRPC access log service.
    Grpc(GrpcLog),
    /// An OpenTelemetry collector.
    OpenTelemetry(OpenTelemetryLogger),
}

/// A gRPC access log service.
#[derive(Clone, Debug, PartialEq)]
pub struct GrpcLog {
    /// The name of the log.
    pub name: Arc<str>,
    /// The collector.
    pub collector: Collector,
    /// Request headers to log.
    pub request_headers: Vec<Arc<str>>,
    /// Response headers to log.
    pub response_headers: Vec<Arc<str>>,
    /// Response trailers to log.
    pub response_trailers: Vec<Arc<str>>,
}

impl AccessLogger {
    /// Returns the service that receives the log.
    pub(super) fn remote(&self) -> Option<&Remote> {
        match &self.sink {
            Sink::File(..) => None,
            Sink::Grpc(log) => Some(&log.collector.remote),
            Sink::OpenTelemetry(log) => Some(&log.collector.remote),
        }
    }

    fn encode(&self, service: &str) -> Envoy {
        let (name, config) = match &self.sink {
            Sink::File(path, format) => {
                let mut value = FileAccessLog { path: path.to_string(), ..Default::default() }.encode_to_vec();
                message(LOG_FORMAT_FIELD, &format.encode(None, true), &mut value);
                ("envoy.access_loggers.file", Any { type_url: FileAccessLog::type_url(), value })
            }
            Sink::Grpc(log) => ("envoy.access_loggers.http_grpc", any(&log.encode())),
            Sink::OpenTelemetry(log) => ("envoy.access_loggers.open_telemetry", any(&log.encode(service))),
        };
        Envoy {
            name: name.into(),
            filter: self.filter.as_ref().map(LogFilter::encode),
            config_type: Some(ConfigType::TypedConfig(config)),
        }
    }
}

impl GrpcLog {
    fn encode(&self) -> HttpGrpcAccessLogConfig {
        let names = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect();
        HttpGrpcAccessLogConfig {
            common_config: Some(CommonGrpcAccessLogConfig {
                log_name: self.name.to_string(),
                grpc_service: Some(self.collector.encode()),
                transport_api_version: ApiVersion::V3.into(),
                ..Default::default()
            }),
            additional_request_headers_to_log: names(&self.request_headers),
            additional_response_headers_to_log: names(&self.response_headers),
            additional_response_trailers_to_log: names(&self.response_trailers),
        }
    }
}

/// Encodes all logs as a fragment to append to an encoded connection manager.
pub(super) fn encode(logs: &[AccessLogger], service: &str) -> Vec<u8> {
    let access_log = logs.iter().map(|log| log.encode(service)).collect();
    HttpConnectionManager { access_log, ..Default::default() }.encode_to_vec()
}
