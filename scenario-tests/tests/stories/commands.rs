//! The commands beside `run`.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::{Story, World, stories};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    let plain =
        stories!("commands", false, [translate_twice_gives_equal_bytes, check_as_json_and_sarif, version_and_help]);
    plain.into_iter().chain(stories!("commands", true, [demo_runs_to_its_end])).collect()
}

/// A Gateway, a good route and a broken one.
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

/// Two processes, so that no order of a hash map can hide.
async fn translate_twice_gives_equal_bytes(world: World) -> Result<()> {
    let folder = sample(&world).await?;
    let first = world.command(&["translate", &folder]).await?;
    ensure!(first.stdout.contains("r7") && first.stdout.contains("virtual"), "{}", first.said());
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
        .expect_said(&["default/broken", "spec.rules[0].matches[0].path"])?;
    for output in ["json", "sarif"] {
        let said = world.command(&["check", &folder, "--output", output]).await?;
        let page: Value = serde_json::from_str(&said.expect_code(1)?.stdout)?;
        let text = page.to_string();
        ensure!(text.contains("broken") && text.contains("spec.rules[0].matches[0].path"), "{text}");
        ensure!(text.contains("route-broken.yaml"), "the file is not named: {text}");
        ensure!(output != "sarif" || page.get("version").and_then(Value::as_str) == Some("2.1.0"), "{text}");
    }
    Ok(())
}

async fn version_and_help(world: World) -> Result<()> {
    world.command(&["version"]).await?.expect_code(0)?.expect_said(&[env!("CARGO_PKG_VERSION")])?;
    let commands = ["run", "check", "translate", "bootstrap", "demo", "version"];
    world.command(&["--help"]).await?.expect_code(0)?.expect_said(&commands)?;
    let flags =
        ["--manifests", "--envoy", "--data-dir", "--xds-listen", "--invalid-route-response-code", "CONTROLLER_"];
    world.command(&["run", "--help"]).await?.expect_code(0)?.expect_said(&flags)?;
    Ok(())
}

async fn demo_runs_to_its_end(world: World) -> Result<()> {
    let said = world.command(&["demo"]).await?;
    said.expect_code(0)?.expect_said(&[
        "http://",
        "/checkout/orders/42    -> 200 by pod checkout-1, version 1 of the route",
        "has refused since it started: 1.",
        "404 by the Gateway",
        "The demo went as it should.",
    ])?;
    Ok(())
}
