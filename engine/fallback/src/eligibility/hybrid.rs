//! Hybrids: last valid versions with the current claims.
//!
//! The last valid version supplies only the content of rules. The desired version supplies the attachment of a route,
//! its hostnames and its metadata. A claim that only the last valid version makes is not made. A claim that cannot be
//! used falls back to the last valid one; in translation, it yields to any current claim of another object.
//!
//! For an HTTPProxy, the last valid version supplies its routes. The desired version supplies its host with all guards,
//! its includes with their conditions, its TCP proxy and its class.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::apis::core::secret::Secret;
use holdfast_api::apis::gateway::route::GatewayRoute;
use holdfast_api::apis::kgateway::policy::Policy;
use holdfast_api::object::Object;

/// The entry of a Secret with the certificate.
const CERTIFICATE: &str = "tls.crt";
/// The entry of a Secret with the private key.
const KEY: &str = "tls.key";

/// Returns the last valid version in the form in which it may be served now. Without a readable desired version, this
/// is the last valid version itself, or only the certificate and key of a Secret.
pub(crate) fn hybrid(desired: Option<&Object>, last: &Arc<Object>) -> Arc<Object> {
    let Some(desired) = desired else {
        return match &last.body {
            Body::Secret(secret) => Arc::new(Object { body: certificate(None, secret), ..(**last).clone() }),
            _ => last.clone(),
        };
    };
    let body = match (&desired.body, &last.body) {
        (Body::HttpRoute(desired), Body::HttpRoute(last)) => Body::HttpRoute(Arc::new(under_claims(desired, last))),
        (Body::GrpcRoute(desired), Body::GrpcRoute(last)) => Body::GrpcRoute(Arc::new(under_claims(desired, last))),
        (Body::StreamRoute(desired), Body::StreamRoute(last)) => {
            Body::StreamRoute(Arc::new(under_claims(desired, last)))
        }
        (Body::HttpProxy(desired), Body::HttpProxy(last)) => {
            Body::HttpProxy(Arc::new(HttpProxy { routes: last.routes.clone(), ..(**desired).clone() }))
        }
        (Body::TrafficPolicy(desired), Body::TrafficPolicy(last)) => {
            Body::TrafficPolicy(Arc::new(Policy { targets: desired.targets.clone(), ..(**last).clone() }))
        }
        (Body::ListenerPolicy(desired), Body::ListenerPolicy(last)) => {
            Body::ListenerPolicy(Arc::new(Policy { targets: desired.targets.clone(), ..(**last).clone() }))
        }
        (Body::BackendConfigPolicy(desired), Body::BackendConfigPolicy(last)) => {
            Body::BackendConfigPolicy(Arc::new(Policy { targets: desired.targets.clone(), ..(**last).clone() }))
        }
        (Body::BackendTlsPolicy(desired), Body::BackendTlsPolicy(last)) => {
            Body::BackendTlsPolicy(Arc::new(Policy { targets: desired.targets.clone(), ..(**last).clone() }))
        }
        (Body::Secret(desired), Body::Secret(last)) => certificate(Some(desired), last),
        _ => last.body.clone(),
    };
    Arc::new(Object { body, ..desired.clone() })
}

/// Takes only the server certificate and its key from the last valid version: the certificate authorities and lists
/// beside them are access lists.
fn certificate(desired: Option<&Secret>, last: &Secret) -> Body {
    let mut data = desired.map(|desired| (*desired.data).clone()).unwrap_or_default();
    for name in [CERTIFICATE, KEY] {
        match last.data.get(name) {
            Some(bytes) => drop(data.insert(name.to_owned(), bytes.clone())),
            None => drop(data.remove(name)),
        }
    }
    let kind = desired.unwrap_or(last).kind.clone();
    Body::Secret(Secret { kind, data: Arc::new(data) })
}

fn under_claims<R: Clone>(desired: &GatewayRoute<R>, last: &GatewayRoute<R>) -> GatewayRoute<R> {
    GatewayRoute {
        parents: desired.parents.clone(),
        uses_default_gateways: desired.uses_default_gateways,
        hostnames: hostnames(&desired.hostnames, &last.hostnames),
        rules: last.rules.clone(),
    }
}

/// Returns the desired hostnames, with each unusable one replaced by its last valid counterpart.
///
/// The counterpart is the hostname at the same index if both lists have the same length; otherwise all missing
/// hostnames are used. A hostname that may have been removed on purpose is not added: that is, if another hostname was
/// added, or if more hostnames are missing than are unusable. If no desired hostname is usable, the whole last valid
/// list is used.
fn hostnames(desired: &[Arc<str>], last: &[Arc<str>]) -> Vec<Arc<str>> {
    let is_usable = |hostname: &&Arc<str>| holdfast_check::host::hostname(hostname).is_ok();
    let usable: Vec<&Arc<str>> = desired.iter().filter(is_usable).collect();
    let unusable = desired.len() - usable.len();
    if usable.is_empty() && unusable > 0 {
        return last.to_vec();
    }
    let missing: Vec<&Arc<str>> = last.iter().filter(|hostname| !usable.contains(hostname)).collect();
    let pairs = desired.iter().zip(last).filter(|(now, _)| !is_usable(now));
    let in_place: Vec<&Arc<str>> = pairs.map(|(_, then)| then).filter(|then| missing.contains(then)).collect();
    let nothing_new = usable.iter().all(|hostname| last.contains(hostname));
    let lent = if desired.len() == last.len() && in_place.len() == unusable {
        in_place
    } else if nothing_new && missing.len() <= unusable {
        missing
    } else {
        Vec::new()
    };
    if lent.is_empty() { desired.to_vec() } else { usable.into_iter().chain(lent).cloned().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames_that_fall_back() {
        let rows: [(&[&str], &[&str], &[&str]); 11] = [
            (&["a.test"], &["b.test"], &["a.test"]),
            (&["a.test", "b_!"], &["a.test", "b.test"], &["a.test", "b.test"]),
            (&["b_!", "a.test"], &["a.test", "b.test"], &["a.test", "b.test"]),
            (&["b_!"], &["b.test"], &["b.test"]),
            (&["b_!"], &["a.test", "b.test"], &["a.test", "b.test"]),
            (&["b_!"], &[], &[]),
            (&["a.test", "b_!"], &["a.test"], &["a.test", "b_!"]),
            (&["a.test", "b_!"], &["a.test", "b.test", "c.test"], &["a.test", "b_!"]),
            (&["d.test", "b_!"], &["a.test"], &["d.test", "b_!"]),
            (&["d.test", "b_!"], &["a.test", "b.test"], &["d.test", "b.test"]),
            (&["b.test", "a_!"], &["a.test", "b.test"], &["b.test", "a.test"]),
        ];
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
        for (desired, last, expected) in rows {
            assert_eq!(hostnames(&names(desired), &names(last)), names(expected), "{desired:?} after {last:?}");
        }
    }
}
