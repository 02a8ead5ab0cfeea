//! Access logs.

use std::sync::Arc;

use holdfast_api::apis::kgateway::records::{
    AccessLog as Written, AnyValue, FileSink, KeyValues, LogService, OpenTelemetryLog as WrittenOpenTelemetry,
};
use holdfast_envoy::features::connection::access_log::{AccessLogger, GrpcLog, HEADERS_MAX, LOGS_MAX, PATHS, Sink};
use holdfast_envoy::features::connection::format::Format;
use holdfast_envoy::features::connection::open_telemetry::{DEPTH_MAX, OpenTelemetryLogger, VALUES_MAX, Value};

use super::super::reading::Reading;
use super::{collectors, filters};

pub(super) fn read(field: &str, written: &[Option<Written>], reading: &mut Reading<'_, '_>) -> Vec<AccessLogger> {
    if written.len() > LOGS_MAX {
        let message = format!("must have at most {LOGS_MAX} entries: further entries are ignored");
        reading.ignored(format!("spec.{field}"), "Invalid", message);
    }
    let mut logs = Vec::new();
    for (index, log) in written.iter().enumerate().take(LOGS_MAX) {
        // Decoding has reported unreadable entries already.
        let Some(log) = log else { continue };
        logs.extend(reading.observing(|reading| self::log(&format!("{field}[{index}]"), log, reading)));
    }
    logs
}

fn log(field: &str, written: &Written, reading: &mut Reading<'_, '_>) -> Option<AccessLogger> {
    let filter = written.filter.as_ref().and_then(|filter| filters::read(&format!("{field}.filter"), filter, reading));
    let sink = match (&written.file_sink, &written.grpc_service, &written.open_telemetry) {
        (Some(file), None, None) => self::file(&format!("{field}.fileSink"), file, reading),
        (None, Some(service), None) => grpc(&format!("{field}.grpcService"), service, reading).map(Sink::Grpc),
        (None, None, Some(log)) => {
            open_telemetry(&format!("{field}.openTelemetry"), log, reading).map(Sink::OpenTelemetry)
        }
        _ => {
            let message = "exactly one of fileSink, grpcService and openTelemetry must be set";
            reading.invalid(format!("spec.{field}"), message);
            None
        }
    };
    sink.map(|sink| AccessLogger { sink, filter })
}

fn file(field: &str, written: &FileSink, reading: &mut Reading<'_, '_>) -> Option<Sink> {
    if !PATHS.contains(&&*written.path) {
        // The file is on the host of the Envoy, and any file would be overwritten.
        let message = format!("{:?} is not allowed; the allowed paths are {}", written.path, PATHS.join(", "));
        reading.invalid(format!("spec.{field}.path"), message);
    }
    let format = match (&written.string_format, &written.json_format) {
        (Some(text), None) => Format::Text(text.clone()),
        (None, Some(fields)) => Format::Json(fields.clone()),
        _ => {
            reading.invalid(format!("spec.{field}"), "exactly one of stringFormat and jsonFormat must be set");
            return None;
        }
    };
    let below = if written.string_format.is_some() { "stringFormat" } else { "jsonFormat" };
    if let Some(message) = format.check() {
        reading.invalid(format!("spec.{field}.{below}"), message);
    }
    Some(Sink::File(written.path.clone(), format))
}

fn grpc(field: &str, written: &LogService, reading: &mut Reading<'_, '_>) -> Option<GrpcLog> {
    let name = log_name(field, written, reading);
    let mut names = |below: &str, names: &Option<Vec<Arc<str>>>| {
        for (index, name) in names.iter().flatten().enumerate() {
            if index >= HEADERS_MAX {
                reading.invalid(format!("spec.{field}.{below}"), format!("must have at most {HEADERS_MAX} entries"));
                break;
            }
            if let Err(fault) = holdfast_check::header::name(name) {
                reading.invalid(format!("spec.{field}.{below}[{index}]"), fault);
            }
        }
        names.clone().unwrap_or_default()
    };
    let request_headers = names("additionalRequestHeadersToLog", &written.additional_request_headers_to_log);
    let response_headers = names("additionalResponseHeadersToLog", &written.additional_response_headers_to_log);
    let response_trailers = names("additionalResponseTrailersToLog", &written.additional_response_trailers_to_log);
    let collector = collectors::read(field, &written.service(), reading)?;
    Some(GrpcLog { name, collector, request_headers, response_headers, response_trailers })
}

fn log_name(field: &str, written: &LogService, reading: &mut Reading<'_, '_>) -> Arc<str> {
    if written.log_name.is_empty() {
        reading.invalid(format!("spec.{field}.logName"), "must not be empty");
    }
    written.log_name.clone()
}

fn open_telemetry(
    field: &str,
    written: &WrittenOpenTelemetry,
    reading: &mut Reading<'_, '_>,
) -> Option<OpenTelemetryLogger> {
    let service = format!("{field}.grpcService");
    let name = log_name(&service, &written.grpc_service, reading);
    let body = written.body.clone().filter(|body| !body.is_empty());
    if let Some(message) = body.clone().and_then(|body| Format::Text(body).check()) {
        reading.invalid(format!("spec.{field}.body"), message);
    }
    let attributes = values(&format!("{field}.attributes"), written.attributes.as_ref(), 0, reading);
    let resource = values(&format!("{field}.resourceAttributes"), written.resource_attributes.as_ref(), 0, reading);
    let collector = collectors::read(&service, &written.grpc_service.service(), reading)?;
    let without_labels = written.disable_builtin_labels.unwrap_or(false);
    Some(OpenTelemetryLogger { name, collector, body, without_labels, attributes, resource })
}

fn values(
    field: &str,
    written: Option<&KeyValues>,
    depth: usize,
    reading: &mut Reading<'_, '_>,
) -> Vec<(Arc<str>, Value)> {
    let written = written.map(|written| written.values.as_slice()).unwrap_or_default();
    if written.len() > VALUES_MAX {
        reading.invalid(format!("spec.{field}.values"), format!("must have at most {VALUES_MAX} entries"));
    }
    let mut read = Vec::new();
    for (index, entry) in written.iter().enumerate().take(VALUES_MAX) {
        let field = format!("{field}.values[{index}]");
        if entry.key.is_empty() {
            reading.invalid(format!("spec.{field}.key"), "must not be empty");
        }
        read.extend(
            value(&format!("{field}.value"), &entry.value, depth, reading).map(|value| (entry.key.clone(), value)),
        );
    }
    read
}

fn value(field: &str, written: &AnyValue, depth: usize, reading: &mut Reading<'_, '_>) -> Option<Value> {
    if depth >= DEPTH_MAX {
        reading.invalid(format!("spec.{field}"), format!("values may be nested {DEPTH_MAX} deep"));
        return None;
    }
    match (&written.string_value, &written.array_value, &written.kv_list_value) {
        (Some(text), None, None) => {
            if let Some(message) = Format::Text(text.clone()).check().filter(|_| !text.is_empty()) {
                reading.invalid(format!("spec.{field}.stringValue"), message);
            }
            Some(Value::Text(text.clone()))
        }
        (None, Some(values), None) => {
            let field = format!("{field}.arrayValue");
            if values.len() > VALUES_MAX {
                reading.invalid(format!("spec.{field}"), format!("must have at most {VALUES_MAX} entries"));
            }
            let values = values.iter().take(VALUES_MAX).enumerate();
            let values = values.filter_map(|(index, one)| value(&format!("{field}[{index}]"), one, depth + 1, reading));
            Some(Value::List(values.collect()))
        }
        (None, None, Some(list)) => {
            Some(Value::Map(values(&format!("{field}.kvListValue"), Some(list), depth + 1, reading)))
        }
        _ => {
            reading
                .invalid(format!("spec.{field}"), "exactly one of stringValue, arrayValue and kvListValue must be set");
            None
        }
    }
}
