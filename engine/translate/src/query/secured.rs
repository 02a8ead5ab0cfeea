//! Current TLS requirements of backends, for checks of clusters that were made earlier.

use holdfast_api::apis::Body;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::inspect::clusters::ClusterTls;
use holdfast_envoy::model::BackendProtocol;
use holdfast_graph::{ObjectKey, Role};

use crate::Translator;
use crate::backend_policy::backend::{Referrer, Sent};
use crate::backend_policy::{Target, is_config, is_tls};
use crate::overlay::Overlay;

impl Translator {
    /// Returns the allowed TLS settings of clusters for a Service's port or a Backend where current policies require TLS; the
    /// list is empty where no connection is allowed. Returns `None` where no object requires TLS. `over` has policies
    /// that are read in other versions; `identity` is the client certificate of the Gateway.
    pub fn secured(
        &self,
        (place, port): (&ObjectKey, Option<u16>),
        over: &Overlay,
        identity: &ClientIdentity,
        objects: &ObjectSnapshot,
    ) -> Option<Vec<ClusterTls>> {
        let object = objects.get(place)?;
        let port = match &object.body {
            Body::Service(service) => service.port(port?, "TCP").map(|port| &*port.name),
            _ => None,
        };
        let mut reader = self.reader(Some(over), objects);
        let requires_tls = |key: &ObjectKey| match objects.get(key).map(|object| &object.body) {
            Some(Body::BackendConfigPolicy(policy)) => {
                is_config(key)
                    && (!policy.unread.is_empty() || policy.spec.as_ref().is_none_or(|spec| spec.tls.is_some()))
            }
            _ => is_tls(key),
        };
        if !reader.attached(place, &object.metadata.labels).keys().any(requires_tls) {
            return None;
        }
        let target = Target { key: place, labels: &object.metadata.labels, port };
        let referrer = Referrer { route: place, section: "", field: "", role: Role::Mentions, sent: Sent::Others };
        let mut allowed = Vec::new();
        for protocol in [BackendProtocol::Http1, BackendProtocol::H2c] {
            let Ok(upstream) = crate::backend_policy::of(&target, protocol, &referrer, &mut reader) else {
                return Some(Vec::new());
            };
            // If the Service has several ports, the policy may be for another port.
            upstream.tls.as_ref()?;
            allowed.extend(ClusterTls::of(&upstream, identity));
        }
        Some(allowed)
    }

    /// Returns the backend policies that are currently attached to a Service or Backend.
    pub fn policies_of_backend(&self, place: &ObjectKey, objects: &ObjectSnapshot) -> Vec<ObjectKey> {
        let Some(object) = objects.get(place) else { return Vec::new() };
        let attached = self.reader(None, objects).attached(place, &object.metadata.labels);
        attached.into_keys().filter(crate::backend_policy::is_policy).collect()
    }
}
