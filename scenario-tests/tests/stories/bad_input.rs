//! Invalid input: each error is reported with file, line, object and field, and valid objects are served.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::manifests::{self, documents, http_route};
use holdfast_scenario_tests::process::Finished;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    let plain = stories!(
        "bad_input",
        false,
        [
            yaml_that_does_not_parse,
            wrong_types,
            unknown_kinds,
            invalid_utf8,
            reference_cycle,
            empty_folder_and_no_folder,
            wrong_flags,
            port_in_use,
            no_envoy_to_be_had,
            clean_input,
        ]
    );
    let served =
        stories!("bad_input", true, [all_of_it_beside_a_good_route, object_of_two_megabytes, ten_thousand_matches]);
    plain.into_iter().chain(served).collect()
}

const GOOD: &str =
    "rules:\n- matches: [{path: {type: PathPrefix, value: /good}}]\n  backendRefs: [{name: echo, port: 8080}]";

/// Runs `holdfast check` on the world's folder.
async fn check(world: &World) -> Result<Finished> {
    world.command(&["check", &world.manifests().display().to_string()]).await
}

async fn clean_input(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    world.gateway()?;
    world.route("good", GOOD)?;
    check(&world).await?.expect_code(0)?;
    Ok(())
}

async fn yaml_that_does_not_parse(world: World) -> Result<()> {
    world.gateway()?;
    world.write("broken.yaml", format!("{}---\nkind: [unclosed\n", http_route("good", GOOD)))?;
    let line = http_route("good", GOOD).lines().count() + 2;
    let finished = check(&world).await?;
    finished.expect_code(1)?.expect_output(&["broken.yaml"])?;
    ensure!(
        finished.output().contains(&format!("broken.yaml:{line}"))
            || finished.output().contains(&format!("broken.yaml:{}", line + 1)),
        "line {line} is not named:\n{}",
        finished.output()
    );
    Ok(())
}

async fn wrong_types(world: World) -> Result<()> {
    world.gateway()?;
    let bad = http_route(
        "bad",
        "rules:\n- matches: [{path: {type: PathPrefix, value: /a}}]\n  backendRefs:\n  - {name: echo, port: eighty}",
    );
    world.write("types.yaml", documents(&[http_route("good", GOOD), bad]))?;
    let finished = check(&world).await?;
    finished.expect_code(1)?.expect_output(&[
        "types.yaml:",
        "HTTPRoute",
        "default/bad",
        "spec.rules[0].backendRefs[0].port",
    ])?;
    let enumeration = http_route("bad", "rules:\n- matches: [{path: {type: Suffix, value: /a}}]");
    world.write("types.yaml", enumeration)?;
    check(&world).await?.expect_code(1)?.expect_output(&[
        "default/bad",
        "spec.rules[0].matches[0].path.type",
        "Suffix",
    ])?;
    Ok(())
}

async fn unknown_kinds(world: World) -> Result<()> {
    world.gateway()?;
    let of = |version: &str, kind: &str| format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: strange\n");
    world.write("kinds.yaml", of("gateway.networking.k8s.io/v9", "HTTPRoute"))?;
    check(&world).await?.expect_code(1)?.expect_output(&[
        "kinds.yaml:1",
        "gateway.networking.k8s.io",
        "v9",
        "HTTPRoute",
    ])?;
    for text in ["kind: HTTPRoute\n", "apiVersion: v1\nmetadata: {name: a}\n", "- a\n- b\n", "just text\n"] {
        world.write("kinds.yaml", text)?;
        check(&world).await?.expect_code(1)?.expect_output(&["kinds.yaml"])?;
    }
    Ok(())
}

async fn invalid_utf8(world: World) -> Result<()> {
    world.gateway()?;
    let mut text = http_route("good", GOOD).into_bytes();
    text.extend(b"---\nkind: \xff\xfe\n");
    world.write("bytes.yaml", text)?;
    check(&world).await?.expect_code(1)?.expect_output(&["bytes.yaml", "UTF-8"])?;
    Ok(())
}

/// Cyclic references: a route with a route as its backend, grants that refer to each other.
async fn reference_cycle(world: World) -> Result<()> {
    world.gateway()?;
    let to = |name: &str, other: &str| {
        let back = format!(
            "rules:\n- backendRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {other}, port: 80}}]"
        );
        http_route(name, &back)
    };
    let parent = manifests::route("HTTPRoute", "default", "own", "- {kind: HTTPRoute, name: own}", GOOD);
    world.write("cycle.yaml", documents(&[to("a", "b"), to("b", "a"), parent]))?;
    check(&world).await?.expect_code(1)?.expect_output(&["default/a", "default/b", "spec.rules[0].backendRefs[0]"])?;
    Ok(())
}

async fn empty_folder_and_no_folder(world: World) -> Result<()> {
    let folder = world.manifests().display().to_string();
    let missing = world.folder().join("missing").display().to_string();
    check(&world).await?.expect_code(2)?.expect_output(&[&folder])?;
    world.command(&["check", &missing]).await?.expect_code(2)?.expect_output(&[&missing])?;
    let options = HoldfastOptions { manifests: vec![missing.clone().into()], ..HoldfastOptions::new(&world)? };
    Holdfast::start(&world, options.without_envoy())?.finish().await?.expect_code(2)?.expect_output(&[&missing])?;
    // An empty folder is not an error for `run`: it waits for manifests, and reports this.
    let holdfast = Holdfast::start(&world, HoldfastOptions::new(&world)?.without_envoy())?;
    holdfast.comes_to_print(&[&folder]).await?;
    holdfast.terminate().await?.expect_code(0)?;
    Ok(())
}

async fn wrong_flags(world: World) -> Result<()> {
    let folder = world.manifests().display().to_string();
    for (args, word) in [
        (vec!["run", "--manifests", &folder, "--feature-gates", "NoSuchGate=true"], "NoSuchGate"),
        (
            vec!["run", "--manifests", &folder, "--feature-gates", "InvalidRouteReplacement=perhaps"],
            "InvalidRouteReplacement",
        ),
        (vec!["run", "--manifests", &folder, "--invalid-route-response-code", "99"], "--invalid-route-response-code"),
        (vec!["run", "--manifests", &folder, "--xds-listen", "nowhere"], "--xds-listen"),
        (vec!["check"], "PATH"),
        (vec!["sing"], "sing"),
    ] {
        world.command(&args).await?.expect_code(2)?.expect_output(&[word])?;
    }
    Ok(())
}

async fn port_in_use(world: World) -> Result<()> {
    world.gateway()?;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = taken.local_addr()?.port();
    let free = HoldfastOptions::new(&world)?.without_envoy();
    let options = [
        HoldfastOptions { xds: format!("127.0.0.1:{port}"), ..free.clone() },
        HoldfastOptions { diagnostics: port, ..free.clone() },
        HoldfastOptions { metrics: port, ..free },
    ];
    for options in options {
        let finished = Holdfast::start(&world, options)?.finish().await?;
        ensure!(finished.code.is_some_and(|code| code != 0), "{finished:?}");
        finished.expect_output(&[&port.to_string(), "in use"])?;
    }
    Ok(())
}

/// No Envoy configured, none on the path, and none available for download: the message names the variable to set.
async fn no_envoy_to_be_had(world: World) -> Result<()> {
    world.gateway()?;
    let empty = world.folder().join("empty").display().to_string();
    std::fs::create_dir(&empty)?;
    let nowhere = HoldfastOptions::new(&world)?
        .env("PATH", &empty)
        .env("HOME", &empty)
        .env("XDG_CACHE_HOME", &empty)
        .env("ENVOY_BIN", "");
    let named = nowhere.clone().env("ENVOY_BIN", "/nowhere/envoy");
    for (options, words) in [(nowhere, vec!["ENVOY_BIN"]), (named, vec!["ENVOY_BIN", "/nowhere/envoy"])] {
        let finished = Holdfast::start(&world, options)?.finish().await?;
        ensure!(finished.code.is_some_and(|code| code != 0), "{finished:?}");
        finished.expect_output(&words)?;
    }
    Ok(())
}

/// All invalid inputs above, in one folder with a valid route, which is served.
async fn all_of_it_beside_a_good_route(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("good", GOOD)?;
    world.write("1-broken.yaml", "kind: [unclosed\n")?;
    world.write("2-types.yaml", http_route("bad", "rules: 7"))?;
    world.write("3-kinds.yaml", "apiVersion: example.com/v1\nkind: Strange\nmetadata: {name: s}\n")?;
    world.write("4-bytes.yaml", b"\xff\xfe\x00")?;
    world.write("5-empty.yaml", "")?;
    world.write("6-nulls.yaml", "---\n---\nnull\n---\n")?;
    world.write("7-deep.yaml", "[".repeat(10_000))?;
    world.write("8-alias.yaml", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n")?;
    world.write("9-names.yaml", http_route("Not_A_Name!", GOOD))?;
    let holdfast = world.run().await?;
    get(port, "/good").comes_to_reach("echo").await?;
    holdfast.comes_to_print(&["1-broken.yaml", "2-types.yaml", "4-bytes.yaml"]).await?;
    world.route("good", &GOOD.replace("/good", "/better"))?;
    get(port, "/better").comes_to_reach("echo").await?;
    Ok(())
}

async fn object_of_two_megabytes(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let large = http_route("large", GOOD).replacen(
        "metadata:",
        &format!("metadata:\n  annotations: {{large: \"{}\"}}", "x".repeat(2 * 1024 * 1024)),
        1,
    );
    world.write("large.yaml", documents(&[large, http_route("small", &GOOD.replace("/good", "/small"))]))?;
    let finished = check(&world).await?;
    finished.expect_code(1)?.expect_output(&["large.yaml:1", "default/large"])?;
    ensure!(finished.output().len() < 100_000, "the message repeats the object");
    let _holdfast = world.run().await?;
    get(port, "/small").comes_to_reach("echo").await?;
    Ok(())
}

async fn ten_thousand_matches(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let matches = |count: usize| -> String {
        (0..count).map(|number| format!("  - path: {{type: Exact, value: /m{number}}}\n")).collect()
    };
    let spec = format!("rules:\n- matches:\n{}  backendRefs: [{{name: echo, port: 8080}}]", matches(10_000));
    world.write("many.yaml", documents(&[http_route("many", &spec), http_route("good", GOOD)]))?;
    let finished = check(&world).await?;
    finished.expect_code(1)?.expect_output(&["many.yaml:1", "default/many", "spec.rules[0].matches"])?;
    let _holdfast = world.run().await?;
    get(port, "/good").comes_to_reach("echo").await?;
    let reply = get(port, "/m9999").send().await.context("after the good route is served")?;
    ensure!(reply.status.as_u16() >= 400, "{reply:?}");
    Ok(())
}
