//! Use of a GatewayExtension by a field of a policy: problems of the extension are reported for the policy.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::kgateway::extension::{Backoff, ExtensionRetryPolicy, GrpcService};
use holdfast_envoy::features::call_options::{ATTEMPTS_MAX, CallOptions, CallRetryPolicy};
use holdfast_envoy::features::remote::Remote;
use holdfast_graph::{ObjectKey, Role};

use super::super::reading::Reading;
use crate::backend_policy::backend::{self, Reference, Referrer, Sent};

/// A GatewayExtension that a field uses, while it is read.
pub(in super::super) struct Used<'u, 'r, 'a> {
    /// The extension.
    pub(in super::super) key: &'u ObjectKey,
    /// The field of the policy.
    pub(in super::super) field: &'u str,
    /// The reading of the policy.
    pub(in super::super) reading: &'u mut Reading<'r, 'a>,
}

impl Used<'_, '_, '_> {
    pub(in super::super) fn wrong(&mut self, below: &str, message: impl std::fmt::Display) {
        let field = format!("spec.{}.extensionRef", self.field);
        self.reading.wrong_extension(field, self.key, format!("spec.{below}: {message}"));
    }

    /// Returns the prefix of its statistics. An invalid prefix is ignored, since statistics protect no request.
    pub(in super::super) fn stat_prefix(
        &mut self,
        below: &str,
        written: Option<&Arc<str>>,
        fault: impl Fn(&str) -> Option<String>,
    ) -> Option<Arc<str>> {
        let wrong = written.and_then(|prefix| fault(prefix));
        if let Some(message) = &wrong {
            self.reading.extension_ignored(self.key, below, message);
        }
        written.filter(|_| wrong.is_none()).cloned()
    }

    /// Reports that the extension has the wrong type for the field: this is a fault of the policy, not of the
    /// extension.
    pub(in super::super) fn misused(&mut self, below: &str, message: &str) {
        let message = format!("GatewayExtension {}: spec.{below}: {message}", self.key.namespaced_name());
        self.reading.invalid(format!("spec.{}.extensionRef", self.field), message);
    }

    /// Reports that an object that the extension references is missing.
    pub(in super::super) fn missing(&mut self, below: &str, reason: &'static str, message: impl std::fmt::Display) {
        let field = format!("spec.{}.extensionRef", self.field);
        self.reading.extension_misses(field, self.key, reason, format!("spec.{below}: {message}"), None);
    }

    /// Reports that an object that the extension references does not exist, or cannot be read.
    pub(in super::super) fn lacks(&mut self, below: &str, reason: &'static str, key: &ObjectKey) {
        let field = format!("spec.{}.extensionRef", self.field);
        let lacking = self.reading.reader.lacking(key);
        let message = format!("spec.{below}: {} {} {lacking}", key.kind, key.namespaced_name());
        self.reading.extension_misses(field, self.key, reason, message, Some(key));
    }

    pub(in super::super) fn duration(&mut self, below: &str, text: Option<&str>) -> Option<Duration> {
        match text.map(holdfast_check::duration::duration)? {
            Ok(duration) => Some(duration),
            Err(fault) => {
                self.wrong(below, fault);
                None
            }
        }
    }

    /// Returns the external service that the extension calls.
    pub(in super::super) fn remote(&mut self, below: &str, written: Option<&BackendRef>, grpc: bool) -> Option<Remote> {
        let Some(written) = written else {
            self.wrong(below, "backendRef must be set");
            return None;
        };
        let field = format!("spec.{below}");
        let referrer =
            Referrer { route: self.key, section: "", field: &field, role: Role::Requires, sent: Sent::Others };
        let reference = Reference {
            group: written.group.as_deref(),
            kind: written.kind.as_deref(),
            namespace: written.namespace.as_deref(),
            name: &written.name,
            port: written.port,
        };
        match backend::resolve(&referrer, &reference, self.reading.reader) {
            Ok(backend) => Some(Remote::Backend(if grpc { backend.over_h2() } else { backend })),
            Err(refused) => {
                let fault = refused.fault;
                let field = format!("spec.{}.extensionRef", self.field);
                let message = format!("{}: {}", fault.field, fault.message);
                self.reading.extension_misses(field, self.key, fault.reason, message, fault.cause.as_ref());
                None
            }
        }
    }

    /// Returns the gRPC service that the extension calls, and the settings of the calls.
    pub(in super::super) fn grpc(&mut self, below: &str, service: &GrpcService) -> Option<(Remote, CallOptions)> {
        let authority = match &service.authority {
            Some(authority) if authority.is_empty() || holdfast_check::header::value(authority).is_err() => {
                self.wrong(&format!("{below}.authority"), "this is not a valid Host header");
                return None;
            }
            authority => authority.clone(),
        };
        let again = self.again(&format!("{below}.retry"), service.retry.as_ref())?;
        let remote = self.remote(&format!("{below}.backendRef"), service.backend_ref.as_ref(), true)?;
        Some((remote, CallOptions { authority, again }))
    }

    /// Returns the retry settings of calls; `None` if they are invalid.
    pub(super) fn again(
        &mut self,
        below: &str,
        written: Option<&ExtensionRetryPolicy>,
    ) -> Option<Option<CallRetryPolicy>> {
        let Some(ExtensionRetryPolicy { attempts, backoff }) = written else { return Some(None) };
        self.times(below, ("attempts", *attempts, 0), ("backoff", backoff.as_ref())).map(Some)
    }

    /// Returns the number of retries and the pauses. The names of the fields differ.
    pub(super) fn times(
        &mut self,
        below: &str,
        (attempts, count, least): (&str, Option<i64>, u32),
        (backoff, pauses): (&str, Option<&Backoff>),
    ) -> Option<CallRetryPolicy> {
        let count = count.unwrap_or(1);
        let Some(count) = u32::try_from(count).ok().filter(|count| (least..=ATTEMPTS_MAX).contains(count)) else {
            self.wrong(&format!("{below}.{attempts}"), format!("{count} is not between {least} and {ATTEMPTS_MAX}"));
            return None;
        };
        let Some(Backoff { base_interval, max_interval }) = pauses else {
            return Some(CallRetryPolicy { count, pauses: None });
        };
        let pause = |text: Option<&str>| match text.map(holdfast_check::duration::duration) {
            None => Ok(None),
            Some(Ok(pause)) if !pause.is_zero() => Ok(Some(pause)),
            Some(Ok(_)) => Err("must be at least 1ms".to_owned()),
            Some(Err(fault)) => Err(fault.to_string()),
        };
        let (first, longest) = match (pause(base_interval.as_deref()), pause(max_interval.as_deref())) {
            (Ok(first), Ok(longest)) => (first, longest),
            (first, longest) => {
                for (name, wrong) in [("baseInterval", first.err()), ("maxInterval", longest.err())] {
                    if let Some(wrong) = wrong {
                        self.wrong(&format!("{below}.{backoff}.{name}"), wrong);
                    }
                }
                return None;
            }
        };
        let Some(first) = first else {
            self.wrong(&format!("{below}.{backoff}.baseInterval"), "must be set");
            return None;
        };
        if longest.is_some_and(|longest| longest < first) {
            self.wrong(&format!("{below}.{backoff}.maxInterval"), "must not be shorter than baseInterval");
            return None;
        }
        Some(CallRetryPolicy { count, pauses: Some((first, longest)) })
    }
}
