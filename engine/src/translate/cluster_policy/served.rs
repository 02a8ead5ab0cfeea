//! What a Backend stands for, whichever of its forms is set.

use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::notes::Notes;
use super::{Behalf, hosts};
use crate::apis::kgateway::backend::Backend;
use crate::features::forward_proxy::Anywhere;
use crate::features::hosts::Hosts;
use crate::features::upstream::{Trust, Upstream, UpstreamTls, Validation};
use crate::model::{Place, Protocol};
use crate::translate::backend::Referrer;
use crate::translate::reader::Reader;

/// What a Backend stands for.
pub(in crate::translate) enum Served {
    /// Hosts that it names, and what they are spoken to in.
    Hosts(Arc<Hosts>, Protocol),
    /// Wherever a request wants to go.
    Anywhere(Arc<Anywhere>),
}

/// What of a Backend is used; a sentence where it cannot be served.
pub(in crate::translate) fn served(
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
    _behalf: Behalf<'_>,
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
        let why = "tokens of GCP are made from the identity of the proxy, which serves others too";
        notes.unsupported("spec.gcp", why);
        return None;
    }
    if backend.aws.is_some() {
        notes.unsupported("spec.aws", "requests to AWS are signed with keys that Holdfast gives to no Envoy");
        return None;
    }
    if let Some(written) = &backend.dynamic_forward_proxy {
        let tls = written.enable_tls.unwrap_or(false);
        return Some(Served::Anywhere(Arc::new(Anywhere { owner: key.clone(), tls, loopback })));
    }
    if backend.priority_groups.is_some() {
        notes.unsupported("spec.priorityGroups", "Backends stand for themselves only");
        return None;
    }
    let (hosts, protocol) = hosts::read(key, backend.fixed.as_ref()?, loopback, notes)?;
    Some(Served::Hosts(hosts, protocol))
}

impl Served {
    /// What it is spoken to in, where nobody asks for something else.
    pub(in crate::translate) fn protocol(&self) -> Protocol {
        match self {
            Served::Hosts(_, protocol) => *protocol,
            Served::Anywhere(_) => Protocol::Http1,
        }
    }

    /// Why it cannot be used like this: with what policies say, for requests of clients or for something else.
    pub(in crate::translate) fn fits(&self, upstream: &Upstream, are_requests: bool) -> Result<(), String> {
        match self {
            Served::Hosts(..) => Ok(()),
            Served::Anywhere(_) if !are_requests => {
                Err("spec.dynamicForwardProxy: only requests of clients can choose where they go".into())
            }
            Served::Anywhere(_) => Anywhere::fits(upstream),
        }
    }

    /// How it is spoken to, with what policies say.
    pub(in crate::translate) fn with(&self, mut upstream: Upstream, protocol: Protocol) -> Upstream {
        if let Served::Anywhere(anywhere) = self
            && anywhere.tls
        {
            let validation = Some(Validation { trust: Trust::System, names: Vec::new() });
            upstream.tls = Some(UpstreamTls { validation, h2: protocol == Protocol::H2c, ..UpstreamTls::default() });
        }
        upstream
    }

    /// Where it is.
    pub(in crate::translate) fn place(self) -> Place {
        match self {
            Served::Hosts(hosts, _) => Place::Hosts(hosts),
            Served::Anywhere(anywhere) => Place::Anywhere(anywhere),
        }
    }
}
