//! Services of a route: look-up, weights, and the split into backends and a mirror.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::route::{ProxyRoute, ProxyService};
use holdfast_api::apis::core::service::Port;
use holdfast_api::apis::scheme;
use holdfast_api::fault::{Class, at};
use holdfast_api::object::Object;
use holdfast_envoy::features::cookies::{CookieRewrite, together};
use holdfast_envoy::features::mirror::{Mirror, RequestShare};
use holdfast_envoy::features::upstream::{CertificateValidation, Upstream, UpstreamTls};
use holdfast_envoy::model::port::Transport;
use holdfast_envoy::model::{BackendCluster, BackendProtocol, EndpointSource, ServicePort, WeightedBackend};
use holdfast_graph::{ObjectKey, Role};

use super::action::{Context, RouteFailure};
use super::client;
use super::cookies;
use super::headers::{self, Edits, HostValues};
use super::upstream;
use super::validation::{self, NoValidation, Warning};
use crate::annotations;
use crate::outcome::finding::Finding;
use crate::reader::Reader;

/// Maximum number of Services of one route.
pub(super) const SERVICES_MAX: usize = 256;
/// Annotation of a Service that lists its ports by upstream protocol.
const PROTOCOL_ANNOTATION: &str = "projectcontour.io/upstream-protocol.";

/// Services of a route.
pub(super) struct Found {
    /// Backends; never empty.
    pub(super) backends: Vec<WeightedBackend>,
    /// Mirrors.
    pub(super) mirrors: Vec<Mirror>,
}

/// Finds the Services of a route. `common` has the settings that all of them share.
pub(super) fn find(
    context: &mut Context<'_, '_>,
    route: &ProxyRoute,
    common: &Upstream,
    host: &Arc<str>,
    route_cookies: &[CookieRewrite],
) -> Result<Found, RouteFailure> {
    let services = route.services.as_deref().unwrap_or_default();
    if services.len() > SERVICES_MAX {
        let message = format!("a route may have {SERVICES_MAX} Services");
        return Err(context.invalid("services", "ServiceError", "TooMany", message));
    }
    if services.iter().filter(|service| service.mirror == Some(true)).count() > 1 {
        let message = "only one service per route may be nominated as mirror";
        return Err(context.invalid("services", "ServiceError", "OnlyOneMirror", message));
    }
    let mut found = Found { backends: Vec::new(), mirrors: Vec::new() };
    let mut missing = None;
    for (index, service) in services.iter().enumerate() {
        let field = at("services", index);
        let weight = match holdfast_check::number::weight(service.weight.unwrap_or(0)) {
            Ok(weight) => weight,
            Err(fault) => {
                return Err(context.invalid(
                    &format!("{field}.weight"),
                    "ServiceError",
                    "WeightInvalid",
                    fault.to_string(),
                ));
            }
        };
        let (request, response) = edits(context, service, &field)?;
        let own = service.cookie_rewrite_policies.as_deref();
        let cookies = cookies::read(context, own, &format!("{field}.cookieRewritePolicies"), "service")?;
        // The SNI is the host header that the backend receives.
        let host = request.host.as_ref().unwrap_or(host);
        let backend = match one(context, service, &field, common, host)? {
            Ok(backend) => backend,
            Err(message) => {
                missing.get_or_insert(message);
                continue;
            }
        };
        if service.mirror == Some(true) {
            let percent = if weight == 0 { 100 } else { weight.min(100) };
            let share = RequestShare::read(i32::try_from(percent).ok(), None).unwrap_or(RequestShare::ALL);
            found.mirrors.push(Mirror { backend, share, sent: None });
            continue;
        }
        found.backends.push(WeightedBackend {
            backend: Some(backend),
            weight,
            request_headers: request.edits.into(),
            response_headers: response.edits.into(),
            host: request.host,
            cookies: if cookies.is_empty() { cookies } else { together(route_cookies, &cookies) },
        });
    }
    found.distribute_weights();
    if found.backends.is_empty() {
        let message =
            missing.unwrap_or_else(|| "all Services of the route are mirrors, so that no Service responds".to_owned());
        return Err(RouteFailure::NoService(message.into()));
    }
    let sum = holdfast_check::number::weight_sum(found.backends.iter().map(|backend| backend.weight));
    if let Err(fault) = sum {
        return Err(context.invalid("services", "ServiceError", "WeightInvalid", fault.to_string()));
    }
    Ok(found)
}

impl Found {
    /// Drops backends without weight; if no backend has a weight, all get the same.
    fn distribute_weights(&mut self) {
        if self.backends.iter().all(|backend| backend.weight == 0) {
            self.backends.iter_mut().for_each(|backend| backend.weight = 1);
        }
        self.backends.retain(|backend| backend.weight > 0);
    }
}

/// Reads the header policies of one Service.
fn edits(context: &mut Context<'_, '_>, service: &ProxyService, field: &str) -> Result<(Edits, Edits), RouteFailure> {
    let known = [
        ("CONTOUR_NAMESPACE", context.leaf.owner.namespace.to_string()),
        ("CONTOUR_SERVICE_NAME", service.name.to_string()),
        ("CONTOUR_SERVICE_PORT", service.port.to_string()),
    ];
    let request =
        headers::read(service.request_headers_policy.as_ref(), HostValues::Literal, &known).map_err(|message| {
            let message = format!("{message} on request headers");
            context.invalid(
                &format!("{field}.requestHeadersPolicy"),
                "ServiceError",
                "RequestHeadersPolicyInvalid",
                message,
            )
        })?;
    let response =
        headers::read(service.response_headers_policy.as_ref(), HostValues::Refused, &known).map_err(|message| {
            let message = format!("{message} on response headers");
            let field = format!("{field}.responseHeadersPolicy");
            context.invalid(&field, "ServiceError", "ResponseHeadersPolicyInvalid", message)
        })?;
    Ok((request, response))
}

/// Returns one Service; the inner error means that it is missing.
fn one(
    context: &mut Context<'_, '_>,
    service: &ProxyService,
    field: &str,
    common: &Upstream,
    host: &Arc<str>,
) -> Result<Result<BackendCluster, String>, RouteFailure> {
    let owner = context.leaf.owner.clone();
    let reference = ServiceReference { owner: &owner, section: context.section, service, common, host };
    match backend(&reference, context.reader) {
        Ok((backend, warning)) => {
            let below = format!("{}.{field}.validation", context.field);
            context.findings.extend(warning.map(|warning| warning.found(&owner, below, "ServiceError")));
            let key = scheme::service_key(&owner.namespace, &service.name);
            if let Some(message) = context.reader.object(&key).and_then(|object| annotations::limits_of_service(object))
            {
                context.warn(field, "ServiceError", "IgnoredField", &message);
            }
            Ok(Ok(backend))
        }
        Err(Unusable::Missing(service, what)) => {
            let message = format!("Spec.Routes unresolved service reference: {what}");
            let field = format!("{}.{field}", context.field);
            let found = Finding::error(&owner, field, "ServiceError", "ServiceUnresolvedReference", &message);
            context.findings.push(found.of_class(Class::Referential).caused_by(Some(service)));
            Ok(Err(message))
        }
        Err(Unusable::Wrong { below, kind, reason, class, message, cause }) => {
            let field = format!("{field}.{below}");
            // The verification of a backend's certificate protects the requests to it.
            let problem = match below {
                "protocol" | "validation" => context.guarded(&field, kind, reason, &message),
                _ => context.invalid(&field, kind, reason, message),
            };
            if let Some(found) = context.findings.last_mut() {
                (found.class, found.cause) = (class, cause.map(|cause| *cause));
            }
            Err(problem)
        }
    }
}

/// A reference to a Service, with its context.
pub(super) struct ServiceReference<'a> {
    /// The HTTPProxy with the reference.
    pub(super) owner: &'a ObjectKey,
    /// Section of the HTTPProxy.
    pub(super) section: &'a str,
    /// The reference.
    pub(super) service: &'a ProxyService,
    /// Settings that all Services of the section share.
    pub(super) common: &'a Upstream,
    /// The SNI.
    pub(super) host: &'a Arc<str>,
}

/// Reason why a Service cannot be used.
pub(super) enum Unusable {
    /// The Service or its port is missing: the Service, and a message.
    Missing(ObjectKey, String),
    /// A setting of the reference cannot be served.
    Wrong {
        /// Field below the Service.
        below: &'static str,
        /// Type of the sub-condition.
        kind: &'static str,
        /// Reason of the sub-condition.
        reason: &'static str,
        /// Class of the fault.
        class: Class,
        /// A sentence for users.
        message: String,
        /// The object at fault, if it is not the HTTPProxy.
        cause: Option<Box<ObjectKey>>,
    },
}

/// A backend with a warning about the verification of its certificate, or the reason why there is none.
type BackendResult = Result<(BackendCluster, Option<Warning>), Unusable>;

/// Returns the backend of a Service, and a warning.
pub(super) fn backend(reference: &ServiceReference<'_>, reader: &mut Reader<'_>) -> BackendResult {
    let ServiceReference { owner, section, service, common, host } = reference;
    let wrong = |below, kind, reason, message| {
        Err(Unusable::Wrong { below, kind, reason, class: Class::Invalid, message, cause: None })
    };
    let Ok(number @ 1..) = u16::try_from(service.port) else {
        let message = format!("service {:?}: port must be in the range 1-65535", service.name);
        return wrong("port", "ServiceError", "ServicePortInvalid", message);
    };
    let key = scheme::service_key(&owner.namespace, &service.name);
    reader.edge(owner, *section, &key, Role::Requires);
    let name = key.namespaced_name();
    let missing = |what: String| Err(Unusable::Missing(key.clone(), what));
    let Some(object) = reader.object(&key).cloned() else {
        return missing(format!("service {name:?} {}", reader.unfound(&key)));
    };
    let Body::Service(known) = &object.body else { return missing(format!("service {name:?} not found")) };
    if known.external_name {
        return missing(format!("{name} is an ExternalName service, these are not served"));
    }
    let Some(port) = known.port(number, "TCP").filter(|port| &*port.protocol == "TCP") else {
        return missing(format!("port \"{number}\" on service {name:?} not matched"));
    };
    let health = health_port(service, number)?;
    let is_there = |health: &u16| known.port(*health, "TCP").is_some_and(|port| &*port.protocol == "TCP");
    if let Some(health) = health.filter(|health| !is_there(health)) {
        return missing(format!("port \"{health}\" on service {name:?} not matched"));
    }
    let (tls, h2) = match protocol(service, port, &object) {
        "" => (false, false),
        "h2c" => (false, true),
        "h2" => (true, true),
        "tls" => (true, false),
        other => {
            return wrong("protocol", "ServiceError", "UnsupportedProtocol", format!("unsupported protocol: {other}"));
        }
    };
    let (validation, warning) = verification(reference, tls, reader)?;
    let slow_start = match upstream::slow_start(service.slow_start_policy.as_ref()) {
        Ok(slow_start) => slow_start,
        Err(why) => {
            return wrong("slowStartPolicy", "ServiceError", "SlowStartInvalid", format!("{why} on slow start"));
        }
    };
    let client = if tls { client::read(owner, section, reader).map_err(no_client)? } else { None };
    let tls = tls.then(|| UpstreamTls { sni: (*host).clone(), h2, validation, client, ..UpstreamTls::default() });
    let upstream = Upstream { tls, slow_start, ..(*common).clone() };
    let backend = BackendCluster {
        place: EndpointSource::Service(ServicePort { key, port: number, transport: Transport::Tcp, health }),
        protocol: if h2 { BackendProtocol::H2c } else { BackendProtocol::Http1 },
        tuned: upstream.tuned(),
    };
    Ok((backend, warning))
}

fn no_client(no: NoValidation) -> Unusable {
    let NoValidation { reason, class, message, cause } = no;
    Unusable::Wrong { below: "protocol", kind: client::KIND, reason, class, message, cause }
}

/// Reads the verification of the backend's certificate, and a warning. `tls`: whether the connection uses TLS.
fn verification(
    reference: &ServiceReference<'_>,
    tls: bool,
    reader: &mut Reader<'_>,
) -> Result<(Option<CertificateValidation>, Option<Warning>), Unusable> {
    let ServiceReference { owner, section, service, .. } = reference;
    let read = validation::read(owner, section, service.validation.as_ref(), reader).map_err(|no| {
        let NoValidation { reason, class, message: why, cause } = no;
        let (kind, message) = match reason {
            validation::REASON => {
                let of = format!("Service [{}:{}]", service.name, service.port);
                ("ServiceError", format!("{of} TLS upstream validation policy error: {why}"))
            }
            _ => ("TLSError", why),
        };
        Unusable::Wrong { below: "validation", kind, reason, class, message, cause }
    })?;
    let warning = match read.required {
        Some(_) if !tls => Some(Warning {
            reason: "IgnoredField",
            message: "validation has no effect: the connection to the Service does not use TLS".to_owned(),
            cause: None,
        }),
        _ => read.warning,
    };
    Ok((read.required, warning))
}

/// Returns the port for health checks, if it is not the port for requests.
fn health_port(service: &ProxyService, number: u16) -> Result<Option<u16>, Unusable> {
    let Some(written) = service.health_port else { return Ok(None) };
    match u16::try_from(written) {
        Ok(health) => Ok(Some(health).filter(|health| *health != number)),
        Err(_) => Err(Unusable::Wrong {
            below: "healthPort",
            kind: "ServiceError",
            reason: "ServicePortInvalid",
            class: Class::Invalid,
            message: format!("service {:?}: health port {written} must be in the range 1-65535", service.name),
            cause: None,
        }),
    }
}

/// Returns the protocol of a port: from the route, else from the port, else from the Service's annotations.
fn protocol<'a>(service: &'a ProxyService, port: &Port, object: &Object) -> &'a str {
    if let Some(protocol) = service.protocol.as_deref().filter(|protocol| !protocol.is_empty()) {
        return protocol;
    }
    match &*port.app_protocol {
        "kubernetes.io/h2c" => return "h2c",
        "https" | "kubernetes.io/wss" => return "tls",
        _ => {}
    }
    let number = port.port.to_string();
    let named = |protocol: &&str| {
        let ports = object.metadata.annotations.get(&format!("{PROTOCOL_ANNOTATION}{protocol}"));
        let mut ports = ports.into_iter().flat_map(|ports| ports.split(',')).map(str::trim);
        ports.any(|named| named == number || (!named.is_empty() && *named == *port.name))
    };
    ["h2", "h2c", "tls"].into_iter().find(named).unwrap_or_default()
}
