//! Example manifests of Contour, as its users have them: each is served as it is, or has exactly the faults in
//! `tests/contour/report.yaml`.
//!
//! What a manifest uses and does not contain is in other manifests ([`BESIDE`]), in `tests/contour/surroundings.yaml`,
//! or a Secret of the golden cases under another name ([`SECRETS`]).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_api::settings::{RateLimits, Settings};
use holdfast_engine::engine::{Engine, Event};
use holdfast_graph::ObjectKey;
use holdfast_test_support as testing;
use holdfast_xds::ResourceType;
use serde_json::{Map, Value, json};

use crate::golden;

/// The beginnings of paths, and the manifests that are applied before the manifests there.
const BESIDE: &[(&str, &[&str])] = &[
    ("examples/example-workload/httpproxy/", &["examples/example-workload/httpproxy/00-common/01-services.yaml"]),
    ("site/content/docs/main/config/rate-limiting-", &["site/content/docs/main/config/rate-limiting-4.yaml"]),
    ("site/content/docs/main/config/tls-delegation-1", &["site/content/docs/main/config/tls-delegation-0.yaml"]),
    ("site/content/docs/main/config/upstream-tls-0", &["site/content/docs/main/config/upstream-tls-1.yaml"]),
    ("site/content/docs/main/config/upstream-tls-3", &["site/content/docs/main/config/inclusion-delegation-1.yaml"]),
    (
        "site/content/examples/authdemo/",
        &[
            "site/content/examples/authdemo/02-auth-deployment.yaml",
            "site/content/examples/authdemo/04-extensionservice.yaml",
            "site/content/examples/authdemo/04-sampleapp.yaml",
        ],
    ),
    (
        "site/content/examples/proxydemo/",
        &["site/content/examples/proxydemo/01-prereq.yaml", "site/content/examples/proxydemo/04-marketing-prereq.yaml"],
    ),
    ("site/content/examples/proxydemo/05-", &["site/content/examples/proxydemo/04-proxy-include-basic.yaml"]),
    (
        "site/content/examples/proxydemo/06-",
        &[
            "site/content/examples/proxydemo/04-proxy-include-basic.yaml",
            "site/content/examples/proxydemo/05-proxy-include-info.yaml",
        ],
    ),
];

/// Secrets that the manifests name, as `namespace/name`, and the Secret of the golden cases with their content.
const SECRETS: &[(&str, &str)] = &[
    ("default/client-crl", "shop/clients"),
    ("default/client-root-ca", "shop/clients"),
    ("default/my-certificate-authority", "shop/clients"),
    ("default/secret", "infra/wild"),
    ("default/testsecret", "infra/wild"),
    ("defaultub/testsecret", "infra/wild"),
    ("marketing/foo-ca-cert", "shop/clients"),
    ("projectcontour-auth/envoycert", "infra/wild"),
    ("www-admin/example-com-wildcard", "infra/wild"),
    ("www-admin/fallback-secret-name", "infra/wild"),
];

/// Kinds of objects with routes: without a fault, each of them must be in the configuration of an Envoy.
const WITH_ROUTES: [&str; 2] = ["HTTPProxy", "HTTPRoute"];

#[test]
fn examples_of_contour_are_served_as_they_are_or_have_known_faults() {
    let folder = top().join("contour");
    let mut paths = manifests(&folder.join("manifests"));
    paths.sort_unstable();
    assert!(paths.len() > 100, "only {} manifests", paths.len());
    let results = paths.iter().map(|path| {
        let name = path.strip_prefix(folder.join("manifests")).unwrap().to_str().unwrap().to_owned();
        let result = result(&name);
        (name, result)
    });
    let report = Value::Object(results.collect::<Map<_, _>>());
    holdfast_golden::check(folder.join("report.yaml"), &golden::text(&report));
}

/// Returns the folder `tests`.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the files in a folder and in the folders below.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { manifests(&path) } else { vec![path] }).collect()
}

/// Returns `served`, or the faults and unserved objects of a manifest.
fn result(name: &str) -> Value {
    let mut events = surroundings();
    for (prefix, beside) in BESIDE {
        if name.starts_with(prefix) {
            events.extend(beside.iter().flat_map(|path| testing::events(&manifest(path))));
        }
    }
    let own = testing::events(&manifest(name));
    let with_routes: BTreeSet<ObjectKey> = own.iter().filter_map(with_routes).collect();
    events.extend(own);
    let mut engine = Engine::new(settings());
    engine.handle(events);

    assert_eq!(testing::unreported(&engine), Vec::<String>::new(), "{name}");
    let faults: Vec<Value> = engine.faults().iter().map(golden::fault).collect();
    let served = origins(&engine);
    let unserved: Vec<String> = with_routes.difference(&served).map(ToString::to_string).collect();
    match (faults.is_empty(), unserved.is_empty()) {
        (true, true) if with_routes.is_empty() => json!("no faults"),
        (true, true) => json!("served"),
        (_, true) => json!({ "faults": faults }),
        (_, false) => json!({ "faults": faults, "not served": unserved }),
    }
}

fn manifest(name: &str) -> String {
    fs::read_to_string(top().join("contour/manifests").join(name)).unwrap()
}

fn with_routes(event: &Event) -> Option<ObjectKey> {
    let key = match event {
        Event::Applied(object, _) => &object.key,
        Event::Unusable(key, _) => key,
        _ => return None,
    };
    WITH_ROUTES.contains(&&*key.kind).then(|| key.clone())
}

/// Returns the objects from which the configuration of Envoys is made.
fn origins(engine: &Engine) -> BTreeSet<ObjectKey> {
    let gateways = engine.gateways();
    let fleets = gateways.iter().filter_map(|gateway| engine.fleet(&gateway.name));
    let resources = fleets.flat_map(|fleet| ResourceType::ALL.into_iter().flat_map(|kind| fleet.of(kind).values()));
    resources.flat_map(|resource| resource.origins.iter().cloned()).collect()
}

/// Returns the objects that the manifests use and do not contain.
fn surroundings() -> Vec<Event> {
    let mut events = testing::events(&fs::read_to_string(top().join("contour/surroundings.yaml")).unwrap());
    let known: Vec<Value> = ["certificates.yaml", "clients.yaml"]
        .iter()
        .flat_map(|file| testing::documents(&fs::read_to_string(top().join("golden/include").join(file)).unwrap()))
        .collect();
    for (name, content) in SECRETS {
        let names = |text: &'static str| text.split_once('/').unwrap();
        let (namespace, content) = names(content);
        let is_it =
            |secret: &&Value| secret["metadata"]["namespace"] == namespace && secret["metadata"]["name"] == content;
        let mut secret = known.iter().find(is_it).unwrap().clone();
        let (namespace, name) = names(name);
        secret["metadata"] = json!({ "namespace": namespace, "name": name });
        events.extend(testing::event(secret));
    }
    events
}

/// Returns the settings that are in Contour's own configuration in its documentation.
fn settings() -> Settings {
    let mut settings = Settings::standalone();
    settings.proxies.fallback_certificate = Some(ObjectKey::new("", "Secret", "www-admin", "fallback-secret-name"));
    settings.proxies.rate_limit = Some(RateLimits {
        service: ObjectKey::new("projectcontour.io", "ExtensionService", "projectcontour", "ratelimit"),
        domain: "contour".into(),
        timeout: Duration::from_millis(100),
        fail_open: true,
        quota_headers: false,
        resource_exhausted: false,
    });
    settings
}
