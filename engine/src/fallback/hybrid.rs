//! A last valid version under today's claims.
//!
//! Last valid supplies the content of rules and nothing else: where a route attaches, for which hosts, and what its
//! metadata says are the desired version's. A claim that only the last valid version makes is not made.
//!
//! Of an HTTPProxy that content is its routes; its host with everything that guards it, whom it includes under which
//! conditions, its TCP proxy and its class are the desired version's.

use std::sync::Arc;

use crate::apis::Body;
use crate::apis::contour::http_proxy::HttpProxy;
use crate::apis::core::secret::Secret;
use crate::apis::gateway::route::Route;
use crate::object::Object;

/// Where a Secret has a certificate.
const CERTIFICATE: &str = "tls.crt";
/// Where it has its key.
const KEY: &str = "tls.key";

/// The last valid version as it may be served now; of an object of which nothing can be read, as it was.
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
        (Body::HttpProxy(desired), Body::HttpProxy(last)) => {
            Body::HttpProxy(Arc::new(HttpProxy { routes: last.routes.clone(), ..(**desired).clone() }))
        }
        (Body::Secret(desired), Body::Secret(last)) => certificate(Some(desired), last),
        _ => last.body.clone(),
    };
    Arc::new(Object { body, ..desired.clone() })
}

/// A server certificate with its key, and nothing else: authorities and lists beside it say who may come in.
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

fn under_claims<R: Clone>(desired: &Route<R>, last: &Route<R>) -> Route<R> {
    Route { parents: desired.parents.clone(), hostnames: desired.hostnames.clone(), rules: last.rules.clone() }
}
