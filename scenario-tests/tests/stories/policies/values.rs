//! Values from other sources: headers from Secrets, which are never exposed, and bodies that Envoy generates.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::holdfast::Holdfast;
use holdfast_scenario_tests::request::{Reply, get, request};
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories};

use super::enforced::{LEVELS, ROUTE, set};
use crate::seeing::for_each_file;

pub(crate) fn stories() -> Vec<Story> {
    stories!("policies", true, [headers_from_secrets, bodies_made_of_formats, metadata_of_requests_and_responses])
}

fn secret(value: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: values, namespace: default}}, stringData: {{key: \"{value}\"}}}}"
    )
}

/// At every level; a missing or invalid header value closes the route, which recovers.
async fn headers_from_secrets(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let spec = "headerModifiers: {request: {set: [{name: x-key, secretRef: {name: values, key: key}}]}}";
    set(&world, LEVELS[0].0, spec)?;
    world.write("secret.yaml", secret("cuckoo-1 100%"))?;
    let options = HoldfastOptions::new(&world)?.args(&["--log-level", "debug"]);
    let holdfast = world.run_with(options).await?;
    let request = request(port).header("x-key", "forged");
    let comes = async |value: &str| {
        let has = |reply: &Reply| reply.echo().is_ok_and(|seen| seen.header("x-key") == [value]);
        request.comes_to("the value is there", has).await
    };
    for (target, closed) in LEVELS {
        set(&world, target, spec)?;
        comes("cuckoo-1 100%").await?;
        world.delete("secret.yaml")?;
        request.comes_to_answer(closed).await?;
        world.write("secret.yaml", secret("cuckoo-broken\\n"))?;
        request.answers(closed).await?;
        world.write("secret.yaml", secret("cuckoo-2"))?;
        comes("cuckoo-2").await?;
        world.write("secret.yaml", secret("cuckoo-1 100%"))?;
        comes("cuckoo-1 100%").await?;
    }
    appears_nowhere(&world, holdfast).await
}

/// The values reach Envoy and nothing else: no page, no metric, no log, no file.
async fn appears_nowhere(world: &World, holdfast: Holdfast) -> Result<()> {
    let clean = |what: &str, text: &str| {
        ensure!(!text.contains("cuckoo"), "{what} holds a value");
        Ok(())
    };
    let configs = ["config/fallback", "config/successful", "config/failed", "config/raw-error"];
    for page in configs.into_iter().chain(["graph", "plan", "policies", "envoys", "faults", "statuses", "store"]) {
        let reply = get(holdfast.options.diagnostics, &format!("/debug/{page}")).host("localhost").answers(200).await?;
        clean(page, &reply.body)?;
    }
    clean("metrics", &holdfast.metrics().await?)?;
    let folder = world.manifests().display().to_string();
    for command in ["check", "translate"] {
        let output = world.command(&[command, &folder]).await?.output();
        ensure!(command == "check" || output.contains("x-key"), "nothing is shown");
        clean(command, &output)?;
    }
    let options = holdfast.kill()?;
    for_each_file(&options.data, &mut |path, text| clean(&path.display().to_string(), text))?;
    for_each_file(&world.folder().join("logs"), &mut |path, text| clean(&path.display().to_string(), text))
}

async fn bodies_made_of_formats(world: World) -> Result<()> {
    let port = world.gateway()?;
    let named = "extensionRef: {group: gateway.kgateway.dev, kind: DirectResponse, name: answer}";
    world.route("r", &format!("rules:\n- filters: [{{type: ExtensionRef, {named}}}]"))?;
    let answer = |spec: &str| {
        world.write(
            "answer.yaml",
            format!(
                "{{apiVersion: gateway.kgateway.dev/v1alpha1, kind: DirectResponse, \
                 metadata: {{name: answer, namespace: default}}, spec: {{status: 418, {spec}}}}}"
            ),
        )
    };
    answer("bodyFormat: {text: \"<b>%REQ(x-a)%</b> 100%%\", contentType: text/html}")?;
    let _holdfast = world.run().await?;
    let request = request(port).header("x-a", "it \"is\"");
    let reply = request.comes_to("the text", |reply| reply.body == "<b>it \"is\"</b> 100%").await?;
    ensure!(reply.status == 418 && reply.header("content-type") == "text/html", "{reply:?}");
    answer("bodyFormat: {json: {z: [1, true, null], a: {who: \"%REQ(x-a)%\"}}}")?;
    let reply = request.comes_to("the object", |reply| reply.header("content-type") == "application/json").await?;
    ensure!(reply.body.trim() == r#"{"a":{"who":"it \"is\""},"z":[1,true,null]}"#, "{reply:?}");
    answer("bodyFormat: {text: \"%NOBODY%\"}")?;
    request.comes_to_answer(404).await?;
    answer("body: plain")?;
    request.comes_to("the plain body", |reply| reply.status == 418 && reply.body == "plain").await?;
    Ok(())
}

async fn metadata_of_requests_and_responses(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let entry = |key: &str, value: &str| format!("{{namespace: own, key: {key}, value: {{stringValue: \"{value}\"}}}}");
    let attribute = |kind: &str| {
        format!(
            "{{name: {kind}, metadata: {{kind: {kind}, metadataKey: {{key: own, path: [{{key: a}}]}}, defaultValue: b}}}}"
        )
    };
    let spec = format!(
        "transformation:\n    request: {{dynamicMetadata: [{}, {}]}}\n    response: {{dynamicMetadata: [{}]}}\n  \
         headerModifiers: {{response: {{set: [{{name: x-told, value: \"%DYNAMIC_METADATA(own:a)% %DYNAMIC_METADATA(own:b)%\"}}]}}}}\n  \
         tracing: {{attributes: [{}, {}, {}, {}]}}",
        entry("a", "100%%"),
        entry("b", "%REQ(x-b)%"),
        entry("c", "text"),
        attribute("Request"),
        attribute("Route"),
        attribute("Cluster"),
        attribute("Host"),
    );
    set(&world, LEVELS[0].0, &spec)?;
    let _holdfast = world.run().await?;
    let reply = request(port).header("x-b", "two").comes_to_reach("echo").await?;
    ensure!(reply.header("x-told") == "100% two", "{reply:?}");
    Ok(())
}
