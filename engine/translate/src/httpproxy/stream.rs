//! `tcpproxy`: destination of the connections of a host, through the HTTPProxies that it is delegated to.
//!
//! Without a usable destination, the connections of this host are refused, and of no other host; requests without TLS
//! are still served.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::apis::contour::virtual_host::{TcpProxy, VirtualHost};
use holdfast_api::fault::{Class, at};
use holdfast_api::section::STREAM;
use holdfast_api::settings::Settings;
use holdfast_envoy::features::ip_filter::IpFilter;
use holdfast_envoy::features::stream::Stream;
use holdfast_envoy::features::upstream::{Balance, Upstream};
use holdfast_envoy::model::BackendCluster;
use holdfast_graph::{ObjectKey, Role};

use super::service::{self, SERVICES_MAX, ServiceReference, Unusable};
use super::{HOST, is_ours, policy, upstream};
use crate::httpproxy::includes::{self, DEPTH_MAX};
use crate::outcome::finding::{Finding, NOT_READABLE};
use crate::outcome::host::StreamClaim;
use crate::reader::Reader;

/// Type of sub-conditions about the content of a `tcpproxy`.
const PROXY: &str = "TCPProxyError";
/// Type of sub-conditions about the include of a `tcpproxy`.
const INCLUDE: &str = "TCPProxyIncludeError";

/// Reads the destination of the connections of a root's host; `None` if the root has no `tcpproxy`.
pub(super) fn claim(
    key: &ObjectKey,
    proxy: &Arc<HttpProxy>,
    host: &VirtualHost,
    settings: &Settings,
    findings: &mut Vec<Finding>,
    reader: &mut Reader<'_>,
) -> Option<StreamClaim> {
    proxy.tcp_proxy.as_ref()?;
    let Some(tls) = &host.tls else {
        let message = "Spec.TCPProxy requires that either Spec.TLS.Passthrough or Spec.TLS.SecretName be set";
        findings.push(Finding::error(key, "spec.tcpproxy", PROXY, "TLSMustBeConfigured", message));
        return None;
    };
    let mut walk = Walk { chain: vec![key.clone()], settings, findings, reader };
    let backends = walk.follow(proxy.clone());
    let origins = walk.chain.clone();
    let members = walk.chain.split_off(1);
    let guard = guard(key, host, findings);
    let to = backends.zip(guard).map(|(backends, ip_filter)| Arc::new(Stream { backends, ip_filter, origins }));
    Some(StreamClaim { passthrough: tls.passthrough == Some(true), to, members })
}

/// Returns the host's policies that apply to connections; `None` if the host has a policy that applies to requests
/// only.
fn guard(key: &ObjectKey, host: &VirtualHost, findings: &mut Vec<Finding>) -> Option<Option<IpFilter>> {
    let has_providers = host.jwt_providers.as_ref().is_some_and(|providers| !providers.is_empty());
    let what = match (host.authorization.is_some(), has_providers) {
        (true, _) => Some("authorization"),
        (false, true) => Some("jwtProviders"),
        (false, false) => None,
    };
    if let Some(what) = what {
        let message = format!(
            "Spec.TCPProxy: {what} requires HTTP requests, and cannot apply to TCP connections; connections to the \
             host are refused"
        );
        findings.push(Finding::error(key, "spec.tcpproxy", PROXY, "NotServed", message));
        return None;
    }
    // Invalid lists are reported for the host, which is closed.
    policy::ip_filter(host.ip_allow_policy.as_deref(), host.ip_deny_policy.as_deref()).ok()
}

/// The backends with their weights.
type Backends = Vec<(Option<BackendCluster>, u32)>;

struct Walk<'a, 'r> {
    /// The root and the HTTPProxies that it is delegated to.
    chain: Vec<ObjectKey>,
    settings: &'a Settings,
    findings: &'a mut Vec<Finding>,
    reader: &'a mut Reader<'r>,
}

impl Walk<'_, '_> {
    fn error(&mut self, field: &str, kind: &'static str, reason: &'static str, class: Class, message: String) {
        let Some(owner) = self.chain.last() else { return };
        self.findings.push(Finding::error(owner, field, kind, reason, message).of_class(class));
    }

    /// Sets the cause of the finding that was reported last.
    fn caused_by(&mut self, cause: ObjectKey) {
        if let Some(found) = self.findings.last_mut() {
            found.cause = Some(cause);
        }
    }

    /// Follows the delegation up to the HTTPProxy with Services.
    fn follow(&mut self, root: Arc<HttpProxy>) -> Option<Backends> {
        let mut proxy = root;
        loop {
            let written = match &proxy.tcp_proxy {
                Some(Some(written)) => written,
                _ => {
                    let message = "spec.tcpproxy could not be read; connections are refused".to_owned();
                    self.error("spec.tcpproxy", PROXY, NOT_READABLE, Class::Invalid, message);
                    return None;
                }
            };
            let services = written.services.as_deref().unwrap_or_default();
            let (field, include) = match (&written.include, &written.includes) {
                (Some(include), _) => ("spec.tcpproxy.include", Some(include)),
                (None, Some(include)) => ("spec.tcpproxy.includes", Some(include)),
                (None, None) => ("spec.tcpproxy", None),
            };
            match (services.is_empty(), include) {
                (false, Some(_)) => {
                    let message = "cannot specify services and include in the same httpproxy".to_owned();
                    self.error("spec.tcpproxy", PROXY, "NoServicesAndInclude", Class::Invalid, message);
                    return None;
                }
                (false, None) => return self.services(written),
                (true, None) => {
                    let message = "either services or inclusion must be specified".to_owned();
                    self.error("spec.tcpproxy", PROXY, "NothingDefined", Class::Invalid, message);
                    return None;
                }
                (true, Some(include)) => {
                    let owner = self.chain.last()?.clone();
                    let namespace = include.namespace.as_deref().filter(|namespace| !namespace.is_empty());
                    let target = includes::key(namespace.unwrap_or(&owner.namespace), &include.name);
                    proxy = self.enter(&owner, field, &target)?;
                }
            }
        }
    }

    /// Returns the HTTPProxy that an include references.
    fn enter(&mut self, owner: &ObjectKey, field: &str, target: &ObjectKey) -> Option<Arc<HttpProxy>> {
        self.reader.edge(owner, STREAM, target, Role::Mentions);
        let name = target.namespaced_name();
        let found = self.reader.object(target).and_then(|object| match &object.body {
            Body::HttpProxy(proxy) => is_ours(object, proxy, self.settings).then(|| proxy.clone()),
            _ => None,
        });
        let Some(child) = found else {
            let message = format!("include {name} {}", self.reader.unfound(target));
            self.error(field, INCLUDE, "IncludeNotFound", Class::Referential, message);
            self.caused_by(target.clone());
            return None;
        };
        if child.virtual_host.is_some() {
            let message = format!("root httpproxy cannot include another root httpproxy ({name})");
            self.error(field, INCLUDE, "RootIncludesRoot", Class::Invalid, message);
            return None;
        }
        if self.chain.contains(target) {
            let names: Vec<String> = self.chain.iter().chain([target]).map(ObjectKey::namespaced_name).collect();
            let message = format!("include creates a cycle: {}", names.join(" -> "));
            self.error(field, INCLUDE, "IncludeCreatesCycle", Class::Invalid, message);
            return None;
        }
        if self.chain.len() >= DEPTH_MAX {
            let message = format!("includes go deeper than {DEPTH_MAX}: {name}");
            self.error(field, INCLUDE, "TooMany", Class::Invalid, message);
            return None;
        }
        if child.tcp_proxy.is_none() {
            let message = format!("include {name} has no tcpproxy");
            self.error(field, INCLUDE, "NothingDefined", Class::Referential, message);
            return None;
        }
        // If the including HTTPProxy is closed, the included one is closed as well.
        match self.chain.len() {
            1 => self.reader.edge_to_section(target, owner, HOST, Role::Attaches),
            _ => self.reader.edge(target, "", owner, Role::Attaches),
        }
        self.chain.push(target.clone());
        Some(child)
    }

    /// Returns the Services of the last HTTPProxy. Missing Services are left out if there are others.
    fn services(&mut self, written: &TcpProxy) -> Option<Backends> {
        let owner = self.chain.last()?.clone();
        let services = written.services.as_deref().unwrap_or_default();
        if services.len() > SERVICES_MAX {
            let message = format!("a tcpproxy may have {SERVICES_MAX} Services");
            self.error("spec.tcpproxy.services", PROXY, "TooMany", Class::Invalid, message);
            return None;
        }
        let health = match upstream::connects(written.health_check_policy.as_ref()) {
            Ok(health) => health,
            Err(why) => {
                let field = "spec.tcpproxy.healthCheckPolicy";
                self.error(field, PROXY, "HealthCheckPolicyInvalid", Class::Invalid, why);
                return None;
            }
        };
        let common = Upstream { balance: self.balance(&owner, written), health, ..Upstream::default() };
        let mut backends = Vec::new();
        let mut whole = true;
        for (index, service) in services.iter().enumerate() {
            let field = at("spec.tcpproxy.services", index);
            let weight = match holdfast_check::number::weight(service.weight.unwrap_or(0)) {
                Ok(weight) => weight,
                Err(fault) => {
                    let field = format!("{field}.weight");
                    self.error(&field, PROXY, "WeightInvalid", Class::Invalid, fault.to_string());
                    return None;
                }
            };
            let reference =
                ServiceReference { owner: &owner, section: STREAM, service, common: &common, host: &"".into() };
            match service::backend(&reference, self.reader) {
                Ok((backend, warning)) => {
                    let field = format!("{field}.validation");
                    self.findings.extend(warning.map(|warning| warning.found(&owner, field, "ServiceError")));
                    backends.push((Some(backend), weight));
                }
                Err(Unusable::Missing(service, what)) => {
                    let message = format!("Spec.TCPProxy unresolved service reference: {what}");
                    self.error(&field, PROXY, "ServiceUnresolvedReference", Class::Referential, message);
                    self.caused_by(service);
                }
                Err(Unusable::Wrong { below, kind, reason, class, message, cause }) => {
                    self.error(&format!("{field}.{below}"), kind, reason, class, message);
                    cause.into_iter().for_each(|cause| self.caused_by(*cause));
                    whole = false;
                }
            }
        }
        if !whole || backends.is_empty() {
            return None;
        }
        if backends.iter().all(|(_, weight)| *weight == 0) {
            backends.iter_mut().for_each(|(_, weight)| *weight = 1);
        }
        backends.retain(|(_, weight)| *weight > 0);
        if let Err(fault) = holdfast_check::number::weight_sum(backends.iter().map(|(_, weight)| *weight)) {
            let field = "spec.tcpproxy.services";
            self.error(field, PROXY, "WeightInvalid", Class::Invalid, fault.to_string());
            return None;
        }
        Some(backends)
    }

    /// Returns the load balancing policy; a connection has no parts to hash.
    fn balance(&mut self, owner: &ObjectKey, written: &TcpProxy) -> Balance {
        let strategy = written.load_balancer_policy.as_ref().and_then(|policy| policy.strategy.as_deref());
        let mut warn = |message: String| {
            let field = "spec.tcpproxy.loadBalancerPolicy";
            self.findings.push(Finding::warning(owner, field, PROXY, "IgnoredField", message));
        };
        match strategy.unwrap_or_default() {
            strategy @ ("Cookie" | "RequestHash") => {
                warn(format!(
                    "ignoring field \"Spec.TCPProxy.LoadBalancerPolicy\"; {strategy} load balancer policy is not \
                     supported for TCPProxies"
                ));
                Balance::RoundRobin
            }
            _ => {
                let (balance, _, warning) = policy::balance(written.load_balancer_policy.as_ref());
                warning.into_iter().for_each(warn);
                balance
            }
        }
    }
}
