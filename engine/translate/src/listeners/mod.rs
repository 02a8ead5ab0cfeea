//! Listeners of Gateways and ListenerSets: what each serves, the routes that it allows, and its certificates; conflicts
//! between listeners.
//!
//! This room reads listeners one by one and compares them. It does not know which listeners a Gateway has: `gateway_api`
//! collects them.

pub(crate) mod addresses;
mod certificate;
pub(crate) mod conflicts;
pub(crate) mod frontend;
pub(crate) mod namespaces;
pub(crate) mod owner;
mod tls_options;

use gateway_api::gateways::{
    GatewayListenersAllowedRoutes, GatewayListenersAllowedRoutesNamespacesFrom as From, GatewayListenersTls,
    GatewayListenersTlsMode,
};
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::gateway::ListenerEntry;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_graph::ObjectKey;

pub(crate) use self::certificate::{UsableCertificate, at_secret, certificate};
use self::certificate::{read_certificate, report_dates};
use crate::outcome::listener::{ListenerPlan, ListenerState, Namespaces, Traffic};
use crate::provision::READY_PORT;
use crate::reader::Reader;

/// Certificates of one listener; same limit as in the CRD.
pub(crate) const CERTIFICATES_MAX: usize = 64;

/// Returns the port that is bound for a port as written.
pub(crate) fn bound_port(port: i32, settings: &Settings) -> Option<u16> {
    let port = holdfast_check::number::port(port.into()).ok()?;
    if port < 1024 { port.checked_add(settings.low_port_shift) } else { Some(port) }
}

/// Returns why the port of a listener cannot be bound; `None` if it can.
fn unusable_port(declared: i32, bound: Option<u16>, traffic: Traffic, settings: &Settings) -> Option<String> {
    match bound {
        None => {
            let fault = holdfast_check::number::port(declared.into()).err();
            Some(fault.map_or_else(|| format!("port {declared} cannot be bound"), |fault| fault.to_string()))
        }
        Some(READY_PORT) if settings.provision && traffic != Traffic::Datagrams => {
            Some(format!("port {READY_PORT} is reserved for the readiness probe of the Envoy Pods; use another port"))
        }
        Some(_) => None,
    }
}

/// Translates a listener of a Gateway or ListenerSet.
pub(crate) fn plan(
    owner: &ObjectKey,
    field: &str,
    entry: &ListenerEntry,
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> ListenerPlan {
    let mut plan = ListenerPlan::unread(owner, field, entry);
    let mut fault = |field: String, class: Class, reason: &'static str, message: String| {
        faults.push(Fault::new(owner, class, field, reason, message));
    };
    let Some(listener) = &entry.written else {
        // Decoding has already reported the fault.
        plan.reject(ListenerState::Out, "Invalid", "the listener could not be read");
        return plan;
    };
    if entry.name.contains('/') {
        let message = format!("the name of a listener must not contain a slash: {:?}", entry.name);
        plan.reject(ListenerState::Out, "Invalid", &message);
        fault(format!("{field}.name"), Class::Invalid, "Invalid", message);
        return plan;
    }
    plan.https = matches!(&*listener.protocol, "HTTPS" | "TLS");
    plan.traffic = Traffic::of(&listener.protocol, listener.tls.as_ref());
    plan.kinds = plan.traffic.kinds().iter().copied().collect();
    let port = bound_port(listener.port, settings);
    (plan.port, plan.seen_port) = (port.unwrap_or(0), port.unwrap_or(0));
    if !matches!(&*listener.protocol, "HTTP" | "HTTPS" | "TCP" | "TLS" | "UDP") {
        let message = format!("protocol {:?} is not supported: use HTTP, HTTPS, TLS, TCP or UDP", listener.protocol);
        plan.reject(ListenerState::Out, "UnsupportedProtocol", &message);
        plan.kinds.clear();
        // Reports name the hosts that are not served.
        let hostname = listener.hostname.as_deref();
        plan.hostname = hostname.filter(|hostname| holdfast_check::host::hostname(hostname).is_ok()).map(Into::into);
        fault(format!("{field}.protocol"), Class::Invalid, "UnsupportedProtocol", message);
        return plan;
    }
    if let Some(message) = unusable_port(listener.port, port, plan.traffic, settings) {
        plan.reject(ListenerState::Out, "PortUnavailable", &message);
        fault(format!("{field}.port"), Class::Invalid, "PortUnavailable", message);
    }
    match listener.hostname.as_deref().filter(|hostname| !hostname.is_empty()) {
        Some(_) if plan.traffic.is_of_port() => {
            let message = format!("hostname has no effect on a listener of protocol {}", listener.protocol);
            fault(format!("{field}.hostname"), Class::Ignored, "NotServed", message);
        }
        Some(hostname) => claim_hostname(owner, &mut plan, hostname, reader, &mut fault),
        None => {}
    }
    if !entry.whole && plan.state == ListenerState::Serving {
        // The claim of the listener is known; its allowed routes are not.
        plan.reject(
            ListenerState::Closed,
            "Invalid",
            "the listener could not be decoded completely; requests to its hosts are refused",
        );
        plan.namespaces = Namespaces::None;
        return plan;
    }
    allowed_routes(&mut plan, listener.allowed_routes.as_ref(), &mut fault);
    if plan.https {
        tls(owner, &mut plan, listener.tls.as_ref(), reader, faults);
    } else if listener.tls.is_some() {
        fault(
            format!("{field}.tls"),
            Class::Ignored,
            "NotServed",
            format!("tls has no effect on a listener of protocol {}", listener.protocol),
        );
    }
    plan
}

/// Sets the hostname of a listener. A listener with an unusable hostname takes part with the hostname of the last valid
/// version, if there is one.
fn claim_hostname(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    hostname: &str,
    reader: &mut Reader<'_>,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) {
    let Err(error) = holdfast_check::host::hostname(hostname) else {
        plan.hostname = Some(hostname.into());
        return;
    };
    let message = error.to_string();
    fault(format!("{}.hostname", plan.field), Class::Invalid, "Invalid", message.clone());
    let state = plan.state;
    plan.reject(ListenerState::Out, "Invalid", &message);
    match reader.lent(owner, plan.section()).and_then(|lent| lent.hostname.clone()) {
        Some(lent) => (plan.hostname, plan.state) = (lent, state),
        None => plan.hostname = Some(hostname.into()),
    }
    plan.hostname_fault = Some(message);
}

fn allowed_routes(
    plan: &mut ListenerPlan,
    allowed: Option<&GatewayListenersAllowedRoutes>,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) {
    let field = format!("{}.allowedRoutes", plan.field);
    let Some(allowed) = allowed else { return };
    if let Some(kinds) = allowed.kinds.as_ref().filter(|kinds| !kinds.is_empty()) {
        plan.kinds.clear();
        for (index, kind) in kinds.iter().enumerate() {
            let group = kind.group.as_deref().unwrap_or(GROUP);
            match plan.traffic.kinds().iter().find(|known| group == GROUP && **known == kind.kind) {
                Some(known) => {
                    plan.kinds.insert(*known);
                }
                None => {
                    let message = format!("routes of kind {group}/{} cannot attach to this listener", kind.kind);
                    plan.resolved_refs = Condition::new("ResolvedRefs", false, "InvalidRouteKinds", &message);
                    fault(format!("{field}.kinds[{index}]"), Class::Invalid, "InvalidRouteKinds", message);
                }
            }
        }
    }
    let Some(namespaces) = &allowed.namespaces else { return };
    plan.namespaces = match namespaces.from {
        Some(From::All) => Namespaces::All,
        Some(From::Same) | None => Namespaces::Same,
        Some(From::Selector) => namespaces::selected(namespaces.selector.as_ref(), &field, "route", fault),
    };
}

/// The reason of a certificate that cannot be used.
const INVALID_CERTIFICATE: &str = "InvalidCertificateRef";

fn tls(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    tls: Option<&GatewayListenersTls>,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) {
    let field = format!("{}.tls", plan.field);
    if let Some(options) = tls.and_then(|tls| tls.options.as_ref()) {
        let lent = reader.lent(owner, plan.section()).map(|lent| &lent.options);
        tls_options::read(owner, plan, options, lent, faults);
    }
    if plan.traffic == Traffic::Passthrough {
        return;
    }
    let references = tls.and_then(|tls| tls.certificate_refs.as_deref()).unwrap_or_default();
    if tls.and_then(|tls| tls.mode.as_ref()) == Some(&GatewayListenersTlsMode::Passthrough) {
        let message = "mode Passthrough is not supported for listeners of protocol HTTPS";
        plan.reject_tls(ListenerState::Closed, "UnsupportedValue", message);
        let message = format!("{message}; use Terminate");
        faults.push(Fault::new(owner, Class::Invalid, format!("{field}.mode"), "UnsupportedValue", message));
        return;
    }
    let all = format!("{field}.certificateRefs");
    let wrong = |message: String| Fault::new(owner, Class::Invalid, &all, INVALID_CERTIFICATE, message);
    if references.is_empty() {
        let message = match plan.traffic {
            Traffic::Requests => "an HTTPS listener needs a certificate: set certificateRefs",
            _ => "a TLS listener needs a certificate: set certificateRefs, or mode Passthrough",
        };
        let fault = wrong(message.to_owned());
        unresolved(plan, fault, faults);
    }
    if references.len() > CERTIFICATES_MAX {
        unresolved(plan, wrong(format!("must have at most {CERTIFICATES_MAX} entries")), faults);
    }
    let mut usable = Vec::new();
    for (index, reference) in references.iter().enumerate().take(CERTIFICATES_MAX) {
        let field = at(&all, index);
        if let Some(secret) = read_certificate(owner, plan, &field, reference, reader, faults) {
            usable.push((field, secret));
        }
    }
    report_dates(owner, plan, usable, faults);
    if plan.certificates.is_empty() && plan.state == ListenerState::Serving {
        plan.state = ListenerState::Closed;
    }
}

/// Reports a reference of a listener that cannot be resolved.
fn unresolved(plan: &mut ListenerPlan, fault: Fault, faults: &mut Vec<Fault>) {
    // The condition has the reasons of the specification only.
    let reason = if fault.class == Class::Referential { fault.reason } else { INVALID_CERTIFICATE };
    plan.resolved_refs = Condition::new("ResolvedRefs", false, reason, &fault.message);
    faults.push(fault);
}
