//! Backends in all forms: static hosts, dynamic forward proxy, AWS Lambda.

use std::sync::Arc;

use holdfast_api::apis::kgateway::backend::Backend;
use holdfast_envoy::features::forward_proxy::Anywhere;
use holdfast_envoy::features::function::Function;
use holdfast_envoy::features::hosts::Hosts;
use holdfast_envoy::features::upstream::{CertificateValidation, SubjectAltName, Trust, Upstream, UpstreamTls};
use holdfast_envoy::model::{BackendProtocol, EndpointSource};
use holdfast_graph::ObjectKey;

use super::notes::Notes;
use super::{Behalf, function, groups, hosts};
use crate::backend_policy::backend::Referrer;
use crate::reader::Reader;

/// A Backend, resolved.
pub(crate) enum Served {
    /// Static hosts, and their protocol.
    Hosts(Arc<Hosts>, BackendProtocol),
    /// The host that each request names (dynamic forward proxy).
    Anywhere(Arc<Anywhere>),
    /// A function, and whether it is called over TLS where no policy specifies TLS.
    Function(Arc<Function>, bool),
}

/// Resolves a Backend; an error message where it cannot be served.
pub(crate) fn served(
    key: &ObjectKey,
    backend: &Backend,
    referrer: &Referrer<'_>,
    reader: &mut Reader<'_>,
) -> Result<Served, String> {
    let mut notes = Notes::default();
    let behalf = Behalf { key: referrer.route, section: referrer.section, role: referrer.role };
    read(key, backend, behalf, reader, &mut notes).filter(|_| notes.is_empty()).ok_or_else(|| notes.sentence())
}

/// Reads a Backend.
pub(super) fn read(
    key: &ObjectKey,
    backend: &Backend,
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> Option<Served> {
    notes.unread(&backend.unread);
    let loopback = reader.settings.allow_loopback_backends;
    let forms = [
        backend.fixed.is_some(),
        backend.aws.is_some(),
        backend.dynamic_forward_proxy.is_some(),
        backend.gcp.is_some(),
        backend.priority_groups.is_some(),
    ];
    let set = forms.iter().filter(|is_set| **is_set).count();
    if set != 1 {
        if set > 1 || backend.unread.is_empty() {
            let message = "exactly one of static, aws, dynamicForwardProxy, gcp and priorityGroups must be set";
            notes.invalid("spec", message);
        }
        return None;
    }
    if backend.gcp.is_some() {
        let why = "GCP tokens are issued for the identity of the proxy, which serves other teams as well";
        notes.unsupported("spec.gcp", why);
        return None;
    }
    if let Some(aws) = &backend.aws {
        let (function, tls) = function::read(key, aws, behalf, reader, notes)?;
        return Some(Served::Function(Arc::new(function), tls));
    }
    if let Some(written) = &backend.dynamic_forward_proxy {
        let tls = written.enable_tls.unwrap_or(false);
        return Some(Served::Anywhere(Arc::new(Anywhere { owner: key.clone(), tls, loopback })));
    }
    let (hosts, protocol) = match &backend.priority_groups {
        Some(groups) => groups::read(key, groups, behalf, reader, notes)?,
        None => hosts::read(key, backend.fixed.as_ref()?, loopback, notes)?,
    };
    Some(Served::Hosts(hosts, protocol))
}

impl Served {
    /// Returns the protocol of the backend where no other protocol is required.
    pub(crate) fn protocol(&self) -> BackendProtocol {
        match self {
            Served::Hosts(_, protocol) => *protocol,
            Served::Anywhere(_) | Served::Function(..) => BackendProtocol::Http1,
        }
    }

    /// Checks that the Backend supports this use: the protocol, the policy settings, client requests or other requests,
    /// and whether health checks of hosts with DNS names are enabled. Returns the error message otherwise.
    pub(crate) fn fits(
        &self,
        upstream: &Upstream,
        protocol: BackendProtocol,
        are_requests: bool,
        checks_by_name: bool,
    ) -> Result<(), String> {
        match self {
            Served::Hosts(hosts, _) => hosts.fits(upstream, checks_by_name),
            Served::Anywhere(_) if !are_requests => {
                Err("spec.dynamicForwardProxy: a dynamic forward proxy can serve only requests of clients through a \
                     route"
                    .into())
            }
            Served::Anywhere(_) => Anywhere::fits(upstream),
            Served::Function(..) if !are_requests || protocol != BackendProtocol::Http1 => {
                Err("spec.aws.lambda: a function can be called only for HTTP requests of clients through a route, not \
                     for gRPC calls"
                    .into())
            }
            Served::Function(function, _) => function.hosts.fits(upstream, checks_by_name),
        }
    }

    /// Returns the upstream settings: the policy settings, and TLS where the Backend itself requires it.
    pub(crate) fn with(&self, mut upstream: Upstream, protocol: BackendProtocol) -> Upstream {
        let system = |names| Some(CertificateValidation { trust: Trust::System, names });
        match self {
            Served::Anywhere(anywhere) if anywhere.tls => {
                let h2 = protocol == BackendProtocol::H2c;
                upstream.tls = Some(UpstreamTls { validation: system(Vec::new()), h2, ..UpstreamTls::default() });
            }
            Served::Function(function, true) if upstream.tls.is_none() => {
                let name = function.server_name();
                let names = name.map_or_else(
                    || SubjectAltName::Address(function.authority.clone()),
                    |name| SubjectAltName::Dns(name.clone()),
                );
                let sni = name.cloned().unwrap_or_else(|| "".into());
                upstream.tls = Some(UpstreamTls { sni, validation: system(vec![names]), ..UpstreamTls::default() });
            }
            Served::Hosts(..) | Served::Anywhere(_) | Served::Function(..) => {}
        }
        upstream
    }

    /// Returns the place of the backend.
    pub(crate) fn place(self) -> EndpointSource {
        match self {
            Served::Hosts(hosts, _) => EndpointSource::Hosts(hosts),
            Served::Anywhere(anywhere) => EndpointSource::Anywhere(anywhere),
            Served::Function(function, _) => EndpointSource::Function(function),
        }
    }
}
