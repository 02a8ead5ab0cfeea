//! ExtensionServices: services that Envoy itself calls, and their faults.
//!
//! An ExtensionService with an error is not used: routes and hosts that need it are closed.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::extension_service::{CircuitBreakers, ExtensionService};
use holdfast_api::apis::scheme;
use holdfast_api::fault::{Class, at};
use holdfast_envoy::features::remote::{CircuitBreakerLimits, Group};
use holdfast_envoy::features::upstream::{Balance, CertificateValidation, SubjectAltName, Upstream, UpstreamTls};
use holdfast_envoy::model::port::Transport;
use holdfast_envoy::model::{BackendProtocol, ServicePort};
use holdfast_graph::{ObjectKey, Role};

use super::client;
use super::policy;
use super::timeouts::{self, Limit};
use super::validation::{self, NoValidation, UpstreamVerification};
use crate::outcome::finding::{Finding, Level};
use crate::reader::Reader;

/// Maximum number of Services of one ExtensionService.
const SERVICES_MAX: usize = 64;

/// Result of the translation of an ExtensionService.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Extension {
    /// The cluster; unset if there is an error.
    pub(super) group: Option<Arc<Group>>,
    /// Timeout of a response.
    pub(super) response: Limit,
    /// Findings.
    pub(crate) findings: Vec<Finding>,
}

/// Reports an error: the field below `spec`, the type and the reason of the sub-condition, the class, a sentence for
/// users, and the object at fault, if it is not the ExtensionService.
type ReportError<'f> = dyn FnMut(&str, &'static str, &'static str, Class, String, Option<ObjectKey>) + 'f;

/// Reads an ExtensionService; `None` if it does not exist.
pub(crate) fn read(key: &ObjectKey, reader: &mut Reader<'_>) -> Option<Extension> {
    let object = reader.object(key)?;
    let Body::ExtensionService(written) = &object.body else { return None };
    let mut findings = Vec::new();
    let mut error = |field: &str, kind, reason, class, message: String, cause| {
        let found = Finding::error(key, format!("spec.{field}"), kind, reason, message).of_class(class);
        findings.push(found.caused_by(cause));
    };
    let written_times = written.timeout_policy.clone().unwrap_or_default();
    let mut time = |field: &str, text: Option<&str>| {
        timeouts::limit(text).unwrap_or_else(|fault| {
            let message = format!("spec.timeoutPolicy failed to parse: error parsing {field} timeout: {fault}");
            error("timeoutPolicy", "SpecError", "TimeoutPolicyNotValid", Class::Invalid, message, None);
            Limit::Default
        })
    };
    let response = time("response", written_times.response.as_deref());
    time("idle", written_times.idle.as_deref());
    let idle = match time("idle connection", written_times.idle_connection.as_deref()) {
        Limit::Default => None,
        Limit::Off => Some(std::time::Duration::ZERO),
        Limit::After(limit) => Some(limit),
    };
    let protocol = written.protocol.as_deref().filter(|protocol| !protocol.is_empty()).unwrap_or("h2");
    let (spoken, tls) = match protocol {
        "h2" => (BackendProtocol::H2c, true),
        "h2c" => (BackendProtocol::H2c, false),
        "http/1.1" => (BackendProtocol::Http1, false),
        other => {
            let message = format!("protocol {other:?} is none of h2, h2c and http/1.1");
            error("protocol", "SpecError", "UnsupportedProtocol", Class::Invalid, message, None);
            (BackendProtocol::H2c, true)
        }
    };
    let limits = limits(written.circuit_breaker_policy.as_ref()).unwrap_or_else(|message| {
        error("circuitBreakerPolicy", "SpecError", "CircuitBreakerPolicyNotValid", Class::Invalid, message, None);
        CircuitBreakerLimits::default()
    });
    let services = services(key, written, reader, &mut error);
    let balance = balance(key, written, &mut findings);
    let validation = verification(key, written, (!tls).then_some(protocol), reader, &mut findings);
    if written_times.idle.as_deref().is_some_and(|idle| !idle.is_empty()) {
        let message =
            "ignoring field \".Spec.TimeoutPolicy.Idle\"; idle timeouts are not supported for ExtensionClusters";
        let field = "spec.timeoutPolicy.idle";
        findings.push(Finding::warning(key, field, "SpecError", "IgnoredField", message));
    }
    let client = if tls { client(key, reader, &mut findings) } else { None };
    let whole = findings.iter().all(|finding| finding.level == Level::Warning) && !services.is_empty();
    let group = whole.then(|| {
        let tls = tls.then(|| UpstreamTls {
            sni: sni(validation.as_ref()),
            h2: true,
            validation,
            client,
            ..UpstreamTls::default()
        });
        let upstream = Upstream { balance, tls, idle, ..Upstream::default() };
        Arc::new(Group { owner: key.clone(), services, protocol: spoken, upstream, limits })
    });
    Some(Extension { group, response, findings })
}

/// Returns the cluster of an ExtensionService and its timeout of a response; in other cases the reason, as the end of a
/// sentence about the ExtensionService.
pub(super) fn resolve(key: &ObjectKey, reader: &mut Reader<'_>) -> Result<(Arc<Group>, Limit), String> {
    let Some(extension) = read(key, reader) else { return Err(reader.unfound(key).to_owned()) };
    let first = extension.findings.iter().find(|finding| finding.level != Level::Warning);
    let why = first.map_or("has no services", |finding| &*finding.message);
    extension.group.map(|group| (group, extension.response)).ok_or_else(|| format!("has an error: {why}"))
}

/// Reads the client certificate that the server gets.
fn client(key: &ObjectKey, reader: &mut Reader<'_>, findings: &mut Vec<Finding>) -> Option<ObjectKey> {
    client::read(key, "", reader).unwrap_or_else(|no| {
        let NoValidation { reason, class, message, cause } = no;
        let found = Finding::error(key, "spec.protocol", client::KIND, reason, message).of_class(class);
        findings.push(found.caused_by(cause.map(|cause| *cause)));
        None
    })
}

/// Reads the verification of the server's certificate. `plain`: the protocol, if it does not use TLS.
fn verification(
    key: &ObjectKey,
    written: &ExtensionService,
    plain: Option<&str>,
    reader: &mut Reader<'_>,
    findings: &mut Vec<Finding>,
) -> Option<CertificateValidation> {
    const FIELD: &str = "spec.validation";
    written.validation.as_ref()?;
    if let Some(protocol) = plain {
        let message = format!("upstream TLS validation not supported for {protocol:?} protocol");
        findings.push(Finding::error(key, FIELD, "SpecError", "InconsistentProtocol", message));
    }
    match validation::read(key, "", written.validation.as_ref(), reader) {
        Ok(UpstreamVerification { required, warning }) => {
            let warning = warning.filter(|_| plain.is_none());
            findings.extend(warning.map(|warning| warning.found(key, FIELD, "SpecError")));
            required
        }
        Err(NoValidation { reason, class, message: why, cause }) => {
            let (kind, message) = match reason {
                validation::REASON => ("SpecError", format!("TLS upstream validation policy error: {why}")),
                _ => ("TLSError", why),
            };
            let found = Finding::error(key, FIELD, kind, reason, message).of_class(class);
            findings.push(found.caused_by(cause.map(|cause| *cause)));
            None
        }
    }
}

/// Returns the SNI: the name that the certificate must have.
fn sni(validation: Option<&CertificateValidation>) -> Arc<str> {
    match validation.and_then(|validation| validation.names.first()) {
        Some(SubjectAltName::Dns(name)) => name.clone(),
        _ => "".into(),
    }
}

fn limits(written: Option<&CircuitBreakers>) -> Result<CircuitBreakerLimits, String> {
    let Some(written) = written else { return Ok(CircuitBreakerLimits::default()) };
    let count = |field: &str, value: Option<i64>| match value.unwrap_or(0) {
        0 => Ok(None),
        value => u32::try_from(value).map(Some).map_err(|_| format!("{field} {value} is no count")),
    };
    Ok(CircuitBreakerLimits {
        connections: count("maxConnections", written.max_connections)?,
        pending: count("maxPendingRequests", written.max_pending_requests)?,
        requests: count("maxRequests", written.max_requests)?,
        retries: count("maxRetries", written.max_retries)?,
        connections_per_endpoint: count("perHostMaxConnections", written.per_host_max_connections)?,
    })
}

fn balance(key: &ObjectKey, written: &ExtensionService, findings: &mut Vec<Finding>) -> Balance {
    let strategy = written.load_balancer_policy.as_ref().and_then(|policy| policy.strategy.as_deref());
    let (field, kind, reason) = ("spec.loadBalancerPolicy", "SpecError", "IgnoredField");
    if let Some(strategy @ ("Cookie" | "RequestHash")) = strategy {
        let message = format!(
            "ignoring field \".Spec.LoadBalancerPolicy\"; {strategy} load balancer policy is not supported for \
             ExtensionClusters"
        );
        findings.push(Finding::warning(key, field, kind, reason, message));
        return Balance::RoundRobin;
    }
    let (balance, _, warning) = policy::balance(written.load_balancer_policy.as_ref());
    findings.extend(warning.map(|message| Finding::warning(key, field, kind, reason, message)));
    balance
}

/// Returns the Services of the ExtensionService without duplicates, with their weights.
fn services(
    key: &ObjectKey,
    written: &ExtensionService,
    reader: &mut Reader<'_>,
    error: &mut ReportError<'_>,
) -> Vec<(ServicePort, u32)> {
    let mut services: Vec<(ServicePort, u32)> = Vec::new();
    if written.services.is_empty() || written.services.len() > SERVICES_MAX {
        let message = format!("there must be at least 1 and at most {SERVICES_MAX} Services");
        error("services", "ServiceError", "ServiceUnresolvedReference", Class::Invalid, message, None);
    }
    for (index, target) in written.services.iter().enumerate().take(SERVICES_MAX) {
        let field = at("services", index);
        let service = scheme::service_key(&key.namespace, &target.name);
        let name = service.namespaced_name();
        reader.edge(key, "", &service, Role::Requires);
        let mut missing = |class, why: String| {
            let message = format!("unresolved service {name:?}: {why}");
            let cause = Some(service.clone()).filter(|_| class == Class::Referential);
            error(&field, "ServiceError", "ServiceUnresolvedReference", class, message, cause);
        };
        let Ok(number @ 1..) = u16::try_from(target.port) else {
            missing(Class::Invalid, format!("port {} is not in the range 1-65535", target.port));
            continue;
        };
        let found = reader.object(&service).and_then(|object| match &object.body {
            Body::Service(service) => Some(service),
            _ => None,
        });
        let Some(found) = found else {
            missing(Class::Referential, format!("service {name:?} {}", reader.unfound(&service)));
            continue;
        };
        if found.external_name {
            let message = format!("Service {name:?} is of unsupported type \"ExternalName\".");
            error(&field, "ServiceError", "UnsupportedServiceType", Class::Invalid, message, None);
            continue;
        }
        if found.port(number, "TCP").is_none_or(|port| &*port.protocol != "TCP") {
            missing(Class::Referential, format!("port \"{number}\" on service {name:?} not matched"));
            continue;
        }
        match holdfast_check::number::weight(target.weight.unwrap_or(0)) {
            Ok(weight) => services
                .push((ServicePort { key: service, port: number, transport: Transport::Tcp, health: None }, weight)),
            Err(fault) => missing(Class::Invalid, fault.to_string()),
        }
    }
    if services.iter().all(|(_, weight)| *weight == 0) {
        services.iter_mut().for_each(|(_, weight)| *weight = 1);
    }
    services.retain(|(_, weight)| *weight > 0);
    // A Service that is listed twice has the sum of both weights.
    services.sort_unstable();
    services.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
    services
}
