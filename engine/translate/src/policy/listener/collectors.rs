//! Collectors of access logs and traces. A missing collector is reported and closes nothing.

use std::sync::Arc;

use holdfast_api::apis::kgateway::records::CollectorGrpcService;
use holdfast_envoy::features::connection::collector::{Collector, CollectorRetry, METADATA_MAX};
use holdfast_envoy::features::remote::Remote;
use holdfast_graph::Role;

use super::super::reading::Reading;
use super::super::traffic::{number, positive};
use crate::backend_policy::backend::{self, Reference, Referrer, Sent};

/// Reads a collector; `None` if it is missing.
pub(super) fn read(field: &str, written: &CollectorGrpcService, reading: &mut Reading<'_, '_>) -> Option<Collector> {
    let authority = written.authority.clone().filter(|authority| !authority.is_empty());
    if let Some(fault) = authority.as_ref().and_then(|authority| holdfast_check::header::value(authority).err()) {
        reading.invalid(format!("spec.{field}.authority"), fault);
    }
    let metadata = metadata(field, written, reading);
    let message_bytes = written
        .max_receive_message_length
        .map(|bytes| number(&format!("{field}.maxReceiveMessageLength"), bytes, 1, reading));
    let timeout = positive(&format!("{field}.timeout"), written.timeout.as_deref(), reading);
    let retry = retry(field, written, reading);
    let remote = remote(field, written, reading)?;
    let without_envoy_headers = written.skip_envoy_headers.unwrap_or(false);
    Some(Collector { remote, authority, metadata, message_bytes, retry, without_envoy_headers, timeout })
}

fn metadata(field: &str, written: &CollectorGrpcService, reading: &mut Reading<'_, '_>) -> Vec<(Arc<str>, Arc<str>)> {
    let entries = written.initial_metadata.as_deref().unwrap_or_default();
    if entries.len() > METADATA_MAX {
        reading.invalid(format!("spec.{field}.initialMetadata"), format!("must have at most {METADATA_MAX} entries"));
    }
    let mut read = Vec::new();
    for (index, entry) in entries.iter().enumerate().take(METADATA_MAX) {
        let field = format!("spec.{field}.initialMetadata[{index}]");
        let value = entry.value.clone().unwrap_or_default();
        match (holdfast_check::header::modifiable_name(&entry.key), holdfast_check::header::value(&value)) {
            (Ok(name), Ok(())) => read.push((name.into(), value)),
            (Err(fault), _) => reading.invalid(format!("{field}.key"), fault),
            (_, Err(fault)) => reading.invalid(format!("{field}.value"), fault),
        }
    }
    read
}

fn retry(field: &str, written: &CollectorGrpcService, reading: &mut Reading<'_, '_>) -> Option<CollectorRetry> {
    let written = written.retry_policy.as_ref()?;
    let field = format!("{field}.retryPolicy");
    let times = written.num_retries.map(|times| number(&format!("{field}.numRetries"), times, 1, reading));
    let between = written.retry_back_off.as_ref().and_then(|between| {
        let field = format!("{field}.retryBackOff");
        let shortest = positive(&format!("{field}.baseInterval"), Some(&between.base_interval), reading)?;
        let longest = positive(&format!("{field}.maxInterval"), between.max_interval.as_deref(), reading);
        if longest.is_some_and(|longest| longest < shortest) {
            reading.invalid(format!("spec.{field}.maxInterval"), "must not be less than baseInterval");
        }
        Some((shortest, longest))
    });
    Some(CollectorRetry { times, between })
}

fn remote(field: &str, written: &CollectorGrpcService, reading: &mut Reading<'_, '_>) -> Option<Remote> {
    let Some(reference) = &written.backend_ref else {
        reading.invalid(format!("spec.{field}.backendRef"), "must be set");
        return None;
    };
    let field = format!("spec.{field}.backendRef");
    let referrer =
        Referrer { route: reading.key, section: "", field: &field, role: Role::Mentions, sent: Sent::Others };
    let reference = Reference {
        group: reference.group.as_deref(),
        kind: reference.kind.as_deref(),
        namespace: reference.namespace.as_deref(),
        name: &reference.name,
        port: reference.port,
    };
    match backend::resolve(&referrer, &reference, reading.reader) {
        Ok(backend) => Some(Remote::Backend(backend.over_h2())),
        Err(refused) => {
            let fault = &refused.fault;
            reading.ignored(&fault.field, fault.reason, format!("{}; the collector receives no data", fault.message));
            None
        }
    }
}
