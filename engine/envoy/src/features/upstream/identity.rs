//! The client certificate of a Gateway: what its Envoys present to TLS backends that have no client certificate of their
//! own.
//!
//! Routes and their backends are shared between Gateways, and the names of clusters do not depend on the certificate.
//! Each Gateway therefore encodes the same clusters with its own certificate.

use holdfast_graph::ObjectKey;

use super::UpstreamTls;
use crate::features::chain::ChainFilter;
use crate::features::guards::Guards;
use crate::features::remote::Remote;
use crate::model::{Action, BackendCluster, FixedResponse, Route};

/// The client certificate of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientIdentity {
    /// The Gateway has none.
    #[default]
    Anonymous,
    /// The certificate of a Secret.
    Certificate(ObjectKey),
    /// The Gateway requires a certificate that is not available. Its Envoys connect to no backend over TLS that would
    /// get this certificate.
    Unavailable,
}

impl ClientIdentity {
    /// Returns the Secret with the certificate.
    pub fn secret(&self) -> Option<&ObjectKey> {
        match self {
            Self::Certificate(secret) => Some(secret),
            Self::Anonymous | Self::Unavailable => None,
        }
    }

    /// Returns the Secret with the certificate that connections with these TLS settings present.
    pub fn presented<'a>(&'a self, tls: &'a UpstreamTls) -> Option<&'a ObjectKey> {
        tls.client.as_ref().or_else(|| self.secret())
    }

    /// Returns whether connections with these TLS settings are not possible.
    pub fn closes(&self, tls: Option<&UpstreamTls>) -> bool {
        *self == Self::Unavailable && tls.is_some_and(|tls| tls.client.is_none())
    }

    /// Returns whether connections to a backend are not possible.
    pub fn closes_backend(&self, backend: &BackendCluster) -> bool {
        self.closes(backend.tls())
    }

    /// Returns whether connections to a service that Envoy itself calls are not possible.
    pub fn closes_remote(&self, remote: &Remote) -> bool {
        self.closes(remote.tls())
    }

    /// Returns whether a filter calls a service to which connections are not possible.
    pub fn closes_guards(&self, guards: &Guards) -> bool {
        *self == Self::Unavailable
            && !guards.is_empty()
            && guards.filters().iter().flat_map(ChainFilter::remotes).any(|remote| self.closes_remote(remote))
    }

    /// Returns the Secret that a cluster with these TLS settings is made of, in addition to its own origins.
    pub fn origin(&self, tls: Option<&UpstreamTls>) -> Option<&ObjectKey> {
        tls.filter(|tls| tls.client.is_none()).and(self.secret())
    }

    /// Returns a route without the backends to which connections are not possible; `None` where it has none of them.
    /// Their share of requests gets 500, as with backends that do not exist. A route with a filter that needs such a
    /// service is replaced by the response: a filter that fails open would let its requests pass.
    pub fn close(&self, route: &Route, response: &FixedResponse) -> Option<Route> {
        if *self != Self::Unavailable {
            return None;
        }
        if self.closes_guards(&route.guards) {
            let bare = Route::bare(
                route.key.clone(),
                route.name.clone(),
                route.precedence.clone(),
                route.matches.clone(),
                Action::Respond(response.clone()),
                route.section.clone(),
            );
            return Some(Route {
                placeholder: route.placeholder.clone(),
                share: route.share,
                secure_port: route.secure_port,
                origins: route.origins.clone(),
                ..bare
            });
        }
        if !route.backends().any(|backend| self.closes_backend(backend)) {
            return None;
        }
        let mut route = route.clone();
        if let Action::Forward(forward) = &mut route.action {
            for weighted in &mut forward.backends {
                weighted.backend = weighted.backend.take().filter(|backend| !self.closes_backend(backend));
            }
            forward.mirrors.retain(|mirror| !self.closes_backend(&mirror.backend));
        }
        Some(route)
    }
}
