//! Scope of status changes: an edit changes only the statuses of the objects that it affects.

use std::collections::BTreeMap;

use holdfast_api::settings::Settings;
use holdfast_engine::engine::Engine;
use holdfast_test_support as testing;
use serde_json::{Value, json};

/// Number of trees, each with a root, two children and a leaf of the first child.
const TREES: usize = 20;

fn proxy(name: &str, generation: i64, spec: &Value) -> Value {
    json!({
        "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy",
        "metadata": {"name": name, "namespace": "shop", "generation": generation}, "spec": spec,
    })
}

fn answer(path: &str) -> Value {
    json!({"conditions": [{"prefix": path}], "directResponsePolicy": {"statusCode": 200}})
}

fn world() -> Vec<Value> {
    let include = |name: String, path: &str| json!({"name": name, "conditions": [{"prefix": path}]});
    let tree = |tree: usize| {
        let root = json!({
            "virtualhost": {"fqdn": format!("host-{tree}.example.com")},
            "includes": [include(format!("first-{tree}"), "/a"), include(format!("second-{tree}"), "/a")],
        });
        let first = json!({"includes": [include(format!("leaf-{tree}"), "/b")], "routes": [answer("/first")]});
        [
            proxy(&format!("root-{tree}"), 1, &root),
            proxy(&format!("first-{tree}"), 1, &first),
            proxy(&format!("second-{tree}"), 1, &json!({"routes": [answer("/second"), answer("/b/taken")]})),
            proxy(&format!("leaf-{tree}"), 1, &json!({"routes": [answer("/leaf")]})),
        ]
    };
    (0..TREES).flat_map(tree).collect()
}

fn statuses(engine: &Engine) -> BTreeMap<String, Value> {
    engine.statuses().into_iter().map(|status| (status.object.name.to_string(), status.status)).collect()
}

/// Returns the objects with a different status after the edit.
fn changed(engine: &mut Engine, edit: Value) -> Vec<String> {
    let before = statuses(engine);
    engine.handle(testing::event(edit).into_iter().collect());
    let after = statuses(engine);
    let other = |name: &&String| before.get(*name) != after.get(*name);
    let mut names: Vec<String> = before.keys().chain(after.keys()).filter(other).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn an_edit_changes_only_the_statuses_of_affected_objects() {
    let mut engine = Engine::new(Settings::standalone());
    engine.handle(world().into_iter().filter_map(testing::event).collect());
    assert_eq!(statuses(&engine).len(), 4 * TREES);
    let leaf = |routes: &[Value]| json!({"routes": routes});
    // One more route: only `observedGeneration` changes.
    let routes = [answer("/leaf"), answer("/more")];
    assert_eq!(changed(&mut engine, proxy("leaf-3", 2, &leaf(&routes))), ["leaf-3"]);
    // The same edit again changes nothing.
    assert_eq!(changed(&mut engine, proxy("leaf-3", 2, &leaf(&routes))), Vec::<String>::new());
    // A route with the conditions of another proxy's route: the statuses of that proxy and of the common root change.
    let routes = [answer("/leaf"), answer("/taken")];
    assert_eq!(changed(&mut engine, proxy("leaf-3", 3, &leaf(&routes))), ["leaf-3", "root-3", "second-3"]);
    let back = [answer("/leaf")];
    assert_eq!(changed(&mut engine, proxy("leaf-3", 4, &leaf(&back))), ["leaf-3", "root-3", "second-3"]);
    // A fault within one proxy changes no other status.
    let broken =
        [answer("/leaf"), json!({"conditions": [{"regex": "["}], "directResponsePolicy": {"statusCode": 200}})];
    assert_eq!(changed(&mut engine, proxy("leaf-3", 5, &leaf(&broken))), ["leaf-3"]);
    // An orphaned proxy: only its status and the status of the proxy that no longer includes it change.
    let first = json!({"routes": [answer("/first")]});
    assert_eq!(changed(&mut engine, proxy("first-3", 2, &first)), ["first-3", "leaf-3"]);
}
