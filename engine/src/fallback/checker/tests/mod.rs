//! The planner against its checker, and plans that were spoilt on purpose.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pairs;
mod parts;
mod planner;
mod policies;
mod proxies;
mod spoilt;

use holdfast_graph::ObjectKey;
use serde_json::json;

use crate::apis::gateway::GROUP;
use crate::testing::plans::Plans;

/// The route that is broken in most of the tests.
const CART: (&str, &str, &str) = ("HTTPRoute", "shop", "cart");

fn cart() -> ObjectKey {
    ObjectKey::new(GROUP, "HTTPRoute", "shop", "cart")
}

fn secret() -> ObjectKey {
    ObjectKey::new("", "Secret", "infra", "wildcard")
}

/// Everything good, and proven.
fn good() -> Plans {
    Plans::new(&mut |_| 0)
}

/// A rule of the route was broken, so that its last valid version stands in.
fn broken() -> Plans {
    let mut plans = good();
    plans.edit(CART, "/spec/rules/2/matches/0/path/value", json!("/a/["));
    let planned = plans.planned();
    assert_eq!(plans.objections(&planned), []);
    assert!(planned.0.overlay.objects.contains_key(&cart()), "{planned:?}");
    plans
}
