//! Tests of the planner against its audit, and of plans that were modified to be wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pairs;
mod parts;
mod planner;
mod policies;
mod proxies;
mod spoilt;

use holdfast_api::apis::gateway::GROUP;
use holdfast_graph::ObjectKey;
use serde_json::json;

use crate::testing::plans::Plans;

/// The route that is broken in most of the tests.
const CART: (&str, &str, &str) = ("HTTPRoute", "shop", "cart");

fn cart() -> ObjectKey {
    ObjectKey::new(GROUP, "HTTPRoute", "shop", "cart")
}

fn secret() -> ObjectKey {
    ObjectKey::new("", "Secret", "infra", "wildcard")
}

/// A valid configuration, with all content proven.
fn good() -> Plans {
    Plans::new(&mut |_| 0)
}

/// A configuration with a broken rule in the route, so that the last valid version of the route is served.
fn broken() -> Plans {
    let mut plans = good();
    plans.edit(CART, "/spec/rules/2/matches/0/path/value", json!("/a/["));
    let planned = plans.planned();
    assert_eq!(plans.objections(&planned), []);
    assert!(planned.0.overlay.objects.contains_key(&cart()), "{planned:?}");
    plans
}
