//! Requests that the placeholders of a host keep from routes before them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_envoy::encode;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::model::placeholder::ComparedRoute;
use holdfast_envoy::model::{Match, Route};

use crate::outcome::route::Rendered;

/// Maximum number of overlaps of the placeholders of one host. Beyond it, a placeholder precedes the first route that
/// it overlaps as a whole, and so closes narrower routes after that route as well.
pub(crate) const OVERLAPS_MAX: usize = 1000;

/// Returns the routes to add to a host, in bytes, by the index of the route that they precede.
pub(super) fn overlaps(routes: &[Arc<Rendered>], context: ListenerContext) -> BTreeMap<usize, Vec<Bytes>> {
    let mut added: BTreeMap<usize, Vec<Bytes>> = BTreeMap::new();
    if routes.iter().all(|rendered| rendered.route.placeholder.is_none()) {
        return added;
    }
    let routes: Vec<_> = routes.iter().map(|rendered| ComparedRoute::new(&rendered.route)).collect();
    let mut count = 0;
    let placeholders = routes.iter().enumerate().filter(|(_, compared)| compared.route.placeholder.is_some());
    for (own, placeholder) in placeholders {
        for (index, other) in routes.iter().enumerate().take(own) {
            let Some(both) = placeholder.overlap(other) else { continue };
            let is_beyond = count >= OVERLAPS_MAX;
            let matches = if is_beyond { placeholder.route.matches.clone() } else { both };
            added.entry(index).or_default().push(answering(placeholder.route, matches, context));
            if is_beyond {
                break;
            }
            count += 1;
        }
    }
    added
}

/// Encodes a route that answers these requests as the placeholder does.
fn answering(placeholder: &Route, matches: Match, context: ListenerContext) -> Bytes {
    let route = Route { matches, ..placeholder.clone() };
    encode::route::encode(&route, context).into()
}
