//! The commands other than `run`.

use std::fs;

use anyhow::{Error, Result, ensure};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, binary, manifests, stories, until};
use regex::bytes::Regex;
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    let plain = stories!(
        "commands",
        false,
        [
            translate_twice_gives_equal_bytes,
            check_as_json_and_sarif,
            check_in_ci,
            check_finds_what_is_misspelt,
            version_and_help,
            the_program_contains_no_test_code
        ]
    );
    let with_envoy = stories!("commands", true, [demo_runs_to_its_end, check_against_a_store_in_use]);
    plain.into_iter().chain(with_envoy).collect()
}

/// Writes a Gateway, valid routes and a broken one.
async fn sample(world: &World) -> Result<String> {
    let _echo = world.backend("echo").await?;
    world.gateway()?;
    for number in 0..20 {
        let spec = format!(
            r"rules:
- matches: [{{path: {{type: PathPrefix, value: /r{number}}}, headers: [{{name: a, value: b}}]}}]
  filters:
  - type: RequestHeaderModifier
    requestHeaderModifier: {{set: [{{name: x, value: y}}], add: [{{name: z, value: z}}]}}
  - type: CORS
    cors: {{allowOrigins: ['https://a.example'], allowMethods: [GET]}}
  backendRefs: [{{name: echo, port: 8080}}]"
        );
        world.route(&format!("r{number}"), &spec)?;
    }
    world.route("broken", "rules:\n- matches: [{path: {type: RegularExpression, value: '/a['}}]\n  backendRefs: [{name: echo, port: 8080}]")?;
    Ok(world.manifests().display().to_string())
}

/// Runs separate processes, so that an unstable order of a hash map becomes visible.
async fn translate_twice_gives_equal_bytes(world: World) -> Result<()> {
    let folder = sample(&world).await?;
    let first = world.command(&["translate", &folder]).await?;
    ensure!(first.stdout.contains("r7") && first.stdout.contains("virtual"), "{}", first.output());
    for _ in 0..2 {
        let again = world.command(&["translate", &folder]).await?;
        ensure!(again.stdout == first.stdout, "two translations of the same manifests differ");
        ensure!(again.code == first.code);
    }
    Ok(())
}

async fn check_as_json_and_sarif(world: World) -> Result<()> {
    let folder = sample(&world).await?;
    world
        .command(&["check", &folder])
        .await?
        .expect_code(1)?
        .expect_output(&["default/broken", "spec.rules[0].matches[0].path"])?;
    for output in ["json", "sarif"] {
        let finished = world.command(&["check", &folder, "--output", output]).await?;
        let page: Value = serde_json::from_str(&finished.expect_code(1)?.stdout)?;
        let text = page.to_string();
        ensure!(text.contains("broken") && text.contains("spec.rules[0].matches[0].path"), "{text}");
        ensure!(text.contains("route-broken.yaml"), "the file is not named: {text}");
        ensure!(output != "sarif" || page.get("version").and_then(Value::as_str) == Some("2.1.0"), "{text}");
    }
    Ok(())
}

/// The forms and exit codes for pipelines.
async fn check_in_ci(world: World) -> Result<()> {
    let folder = sample(&world).await?;
    let junit = world.command(&["check", &folder, "--output", "junit"]).await?;
    junit.expect_code(1)?.expect_output(&[
        "<testcase name=\"gateway.networking.k8s.io/HTTPRoute:default/r7\" ",
        "<testcase name=\"gateway.networking.k8s.io/HTTPRoute:default/broken\" ",
        "route-broken.yaml:",
        "failures=\"1\"",
    ])?;
    let quiet = world.command(&["check", "-q", &folder]).await?;
    ensure!(quiet.expect_code(1)?.stdout.lines().count() == 1, "{}", quiet.output());
    fs::remove_file(world.manifests().join("route-broken.yaml"))?;
    let quiet = world.command(&["check", "-q", &folder]).await?;
    ensure!(quiet.expect_code(0)?.stdout.is_empty(), "{}", quiet.output());

    let service = "{apiVersion: v1, kind: Service, metadata: {name: twice, namespace: default}, spec: {}}";
    world.write("twice.yaml", format!("{service}\n---\n{service}\n"))?;
    world
        .command(&["check", &folder])
        .await?
        .expect_code(1)?
        .expect_output(&["warning: core/Service:default/twice"])?;
    world.command(&["check", "--fail-on", "error", &folder]).await?.expect_code(0)?.expect_output(&["1 finding"])?;
    Ok(())
}

/// Misspelt kinds and files without objects are errors; kinds of other projects are not.
async fn check_finds_what_is_misspelt(world: World) -> Result<()> {
    let listeners = format!(
        "{}{}{}",
        manifests::listener("http", 80, "protocol: HTTP"),
        manifests::listener("other", 5432, "protocol: SCTP"),
        manifests::listener("far", 65_535, "protocol: TLS"),
    );
    world.gateway_with(&listeners)?;
    let misspelt = |version: &str, kind: &str| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a, namespace: default}}\nspec: {{}}\n")
    };
    let folder = world.manifests().display().to_string();
    world.write("route.yaml", misspelt("gateway.networking.k8s.io/v1", "HTTPRotue"))?;
    world.write("policy.yaml", misspelt("gateway.kgateway.dev/v1alpha1", "TrafficPolcy"))?;
    world.write("service.yaml", misspelt("v1", "Servcie"))?;
    let finished = world.command(&["check", &folder]).await?;
    finished.expect_code(1)?.expect_output(&[
        "route.yaml:1:1: error: ",
        "has no kind \"HTTPRotue\"; did you mean HTTPRoute?",
        "did you mean TrafficPolicy?",
        "did you mean Service?",
        "  http: HTTP 127.0.0.1:80, host *",
        "  other: SCTP 127.0.0.1:5432, host *, 0 routes, not served",
        "  far: TLS 127.0.0.1:65535, host *, 0 routes, not served",
    ])?;
    for name in ["route.yaml", "policy.yaml", "service.yaml"] {
        fs::remove_file(world.manifests().join(name))?;
    }
    world.write(
        "others.yaml",
        misspelt("apps/v1", "Deployment") + "---\n" + &misspelt("gateway.networking.k8s.io/v1", "BackendLBPolicy"),
    )?;
    let finished = world.command(&["check", &folder]).await?;
    finished.expect_output(&["BackendLBPolicy is not a kind that Holdfast reads; ignored"])?;
    ensure!(!finished.output().contains("did you mean"), "{}", finished.output());

    let empty = world.folder().join("empty.yaml");
    fs::write(&empty, "# nothing yet\n")?;
    let empty = empty.display().to_string();
    for paths in [vec![empty.as_str()], vec![folder.as_str(), empty.as_str()]] {
        let finished = world.command(&[&["check"][..], &paths].concat()).await?;
        finished.expect_code(1)?.expect_output(&[&format!("{empty}: error: the path contains no objects")])?;
        let page = world.command(&[&["check", "--output", "json"][..], &paths].concat()).await?;
        ensure!(page.stdout.contains("\"NoObjects\""), "{}", page.output());
    }
    Ok(())
}

async fn version_and_help(world: World) -> Result<()> {
    world.command(&["version"]).await?.expect_code(0)?.expect_output(&[env!("CARGO_PKG_VERSION")])?;
    let commands = ["run", "check", "translate", "bootstrap", "demo", "version"];
    world.command(&["--help"]).await?.expect_code(0)?.expect_output(&commands)?;
    let flags =
        ["--manifests", "--envoy", "--data-dir", "--xds-listen", "--invalid-route-response-code", "CONTROLLER_"];
    world.command(&["run", "--help"]).await?.expect_code(0)?.expect_output(&flags)?;
    Ok(())
}

async fn demo_runs_to_its_end(world: World) -> Result<()> {
    let finished = world.command(&["demo"]).await?;
    finished.expect_code(0)?.expect_output(&[
        "http://",
        "/checkout/orders/42  -> 200 by pod checkout-1, version 1 of the route",
        "HTTPRoute:checkout/checkout, refused by Envoy",
        "generation 1 is served instead of 2",
        "/debug/config/fallback: every object is served as desired",
        "rules[0] answers 404",
        ", as before",
        "pay.example.com/checkout             -> 404 by the Gateway",
        "The demo is complete: each step had the expected result.",
    ])?;
    Ok(())
}

const GATES: [&str; 3] = ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback"];

/// A proposed change is checked against the store of a running Holdfast.
async fn check_against_a_store_in_use(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    let rule = |path: &str, backend: &str| {
        format!("rules:\n- matches: [{{path: {path}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]")
    };
    world.route("cart", &rule("{type: PathPrefix, value: /cart}", "one"))?;
    world.route("shop", &rule("{type: PathPrefix, value: /}", "two"))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&GATES)).await?;
    get(port, "/cart").comes_to_reach("one").await?;
    let data = world.data().display().to_string();
    let check = async |folder: &str, more: &[&str]| {
        let args = [&["check", "--against", &data, folder], &GATES[..], more].concat();
        world.command(&args).await
    };
    let served = world.manifests().display().to_string();
    until("both routes are stored", async || {
        let finished = check(&served, &[]).await?;
        ensure!(!finished.expect_code(0)?.stdout.contains("has accepted this version"), "{}", finished.output());
        Ok(())
    })
    .await?;

    let proposal = world.folder().join("proposal");
    fs::create_dir(&proposal)?;
    for file in fs::read_dir(world.manifests())? {
        let file = file?;
        fs::copy(file.path(), proposal.join(file.file_name()))?;
    }
    let broken = rule("{type: RegularExpression, value: '/a['}", "one");
    fs::write(proposal.join("route-cart.yaml"), manifests::http_route("cart", &broken))?;
    fs::write(proposal.join("route-new.yaml"), manifests::http_route("new", &broken))?;
    fs::remove_file(proposal.join("route-shop.yaml"))?;
    let folder = proposal.display().to_string();
    check(&folder, &[]).await?.expect_code(1)?.expect_output(&[
        "HTTPRoute:default/cart: backfilled with generation 1 instead of 2",
        "HTTPRoute:default/new: rules[0] replaced, answers 404",
        "HTTPRoute:default/shop: would be deleted",
        "route-cart.yaml:",
    ])?;
    let finished = check(&folder, &["--output", "json"]).await?;
    let page: Value = serde_json::from_str(&finished.expect_code(1)?.stdout)?;
    let backfilled = page.pointer("/against/fallback/backfilledObjects/0/name").and_then(Value::as_str);
    ensure!(backfilled == Some("cart"), "{page}");

    let none = world.folder().join("drafts").display().to_string();
    world
        .command(&["check", "--against", &none, &folder])
        .await?
        .expect_code(2)?
        .expect_output(&["there is no store"])?;
    // The running Holdfast is not affected.
    get(port, "/").comes_to_reach("two").await?;
    holdfast.terminate().await?.expect_code(0)?;
    Ok(())
}

/// Texts of test support and of switches for tests: objects of users must not reach them.
const MARKERS: [&str; 8] = [
    "holdfast.dev/testing",
    "a test requests this panic",
    "testing-mistake",
    "holdfast-testing-pair",
    "story-mistake",
    "holdfast_test_support",
    "holdfast_test_objects",
    "holdfast_scenario_tests",
];

/// With `HOLDFAST_BIN`, the search is of another build, as the release.
async fn the_program_contains_no_test_code(_world: World) -> Result<()> {
    let program = fs::read(binary::holdfast()?)?;
    let contains = |text: &str| Ok::<_, Error>(Regex::new(&regex::escape(text))?.is_match(&program));
    ensure!(contains("gateway.kgateway.dev")?, "the search finds nothing in the program");
    let mut found = Vec::new();
    for marker in MARKERS {
        found.extend(contains(marker)?.then_some(marker));
    }
    ensure!(found.is_empty(), "the program contains {found:?}");
    Ok(())
}
