//! `holdfast migrate`: the report about manifests of other gateways, its exit codes, and input that cannot be used.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::process::{Finished, Process};
use holdfast_scenario_tests::{Story, World, binary, stories};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "migrate",
        false,
        [
            reports_are_complete_and_deterministic,
            the_page_shows_what_the_program_prints,
            nothing_to_change_is_success,
            bad_input_is_reported,
            standard_input_is_read,
        ]
    )
}

const SOURCES: [&str; 3] = ["contour", "kgateway", "kong"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fixture(source: &str) -> Result<String> {
    Ok(fs::read_to_string(top().join(format!("tests/migrate/{source}.yaml")))?)
}

/// Runs the command on the manifests of the world.
async fn migrate(world: &World, source: &str, flags: &[&str]) -> Result<Finished> {
    let folder = world.manifests().display().to_string();
    let args: Vec<&str> = ["migrate", source, &folder].into_iter().chain(flags.iter().copied()).collect();
    world.command(&args).await
}

async fn reports_are_complete_and_deterministic(world: World) -> Result<()> {
    let expected: [&[&str]; 3] = [
        &[
            "projectcontour.io/HTTPProxy:shop/shop",
            "not served: spec.ingressClassName: ",
            "differs: spec.virtualhost.tls.clientValidation: ",
            "not valid: spec.virtualhost.tls.clientValidation.caSecret: ",
            "data.contour.yaml.tls.fallback-certificate: ",
            "instead: the flag --httpproxy-fallback-certificate NAMESPACE/NAME",
            "contour.heptio.com/IngressRoute:shop/ancient",
            "metadata.annotations[projectcontour.io/max-connections]: ",
        ],
        &[
            "not served: spec.controllerName: ",
            "spec.kube.podTemplate.nodeSelector: ",
            "instead: pod.nodeSelector",
            "differs: spec.rbac.action: ",
            "not valid: spec.transformation.request.body: ",
            "networking.istio.io/ServiceEntry:shop/external",
            "not served: spec.rules[1].backendRefs[0].kind: ",
        ],
        &[
            "configuration.konghq.com/KongPlugin:shop/limit",
            "plugin: rate-limiting: Holdfast does not read plugins of Kong",
            "rateLimit: {local: {tokenBucket: ",
            "metadata.annotations[konghq.com/strip-path]: ",
            "incubator.ingress-controller.konghq.com/KongServiceFacade:shop/facade",
            "differs: spec.template.spec.containers[0].env[0]: ",
        ],
    ];
    for (source, words) in SOURCES.into_iter().zip(expected) {
        let name = format!("{source}.yaml");
        world.write(&name, fixture(source)?)?;
        let first = migrate(&world, source, &[]).await?;
        first.expect_code(1)?.expect_output(words)?;
        ensure!(!first.stdout.contains("Deployment:shop/shop"), "{}", first.stdout);
        for _ in 0..2 {
            ensure!(migrate(&world, source, &[]).await?.stdout == first.stdout, "two reports differ");
        }
        let json = migrate(&world, source, &["-o", "json"]).await?;
        let report: Value = serde_json::from_str(&json.expect_code(1)?.stdout)?;
        let objects = report["entries"].as_array().context("no entries")?;
        let entries: Vec<&Value> = objects.iter().filter_map(|it| it["entries"].as_array()).flatten().collect();
        let count = |name: &str| report["summary"][name].as_u64().unwrap_or_default();
        let all = count("differs") + count("notServed") + count("notValid") + count("unreadable");
        ensure!(report["source"] == source && usize::try_from(all)? == entries.len(), "{report}");
        let has_place = |entry: &&Value| entry["line"].as_u64().is_some_and(|line| line > 0);
        ensure!(entries.iter().all(has_place), "{report}");
        ensure!(objects.iter().all(|it| it["file"].as_str().is_some_and(|file| file.ends_with(&name))), "{report}");
        world.delete(&name)?;
    }
    Ok(())
}

/// Each example of the page: the manifests, and what the program prints about them.
async fn the_page_shows_what_the_program_prints(world: World) -> Result<()> {
    let page = fs::read_to_string(top().join("docs/operating/migrate.md"))?;
    let mut compared = 0;
    for source in SOURCES {
        let name = format!("# {source}.yaml\n");
        let yaml = page.split("```yaml\n").filter_map(|rest| rest.split("```").next());
        let yaml = yaml.into_iter().find(|text| text.starts_with(&name)).context("no example")?;
        fs::write(world.folder().join(format!("{source}.yaml")), yaml)?;
        let call = format!("$ holdfast migrate {source} {source}.yaml\n");
        let expected = page.split(&call).nth(1).and_then(|rest| rest.split("```").next()).context("no output")?;
        let printed = shell(&world, &format!("migrate {source} {source}.yaml"), "").await?;
        printed.expect_code(1)?;
        ensure!(printed.stdout == expected, "{source}:\n{}", printed.stdout);
        compared += 1;
    }
    ensure!(compared == SOURCES.len());
    Ok(())
}

/// Runs the program in the folder of the world, with a command before it in the pipe.
async fn shell(world: &World, arguments: &str, input: &str) -> Result<Finished> {
    let holdfast = binary::holdfast()?.display().to_string();
    let line = format!("cd '{}' && {input} '{holdfast}' {arguments}", world.folder().display());
    Process::start(Path::new("/bin/bash"), ["-c", &line], &[], &world.log("shell"))?.finish().await
}

async fn nothing_to_change_is_success(world: World) -> Result<()> {
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: shop}, spec: {ports: [{port: 80}]}}\n";
    world.write("service.yaml", service)?;
    for source in SOURCES {
        migrate(&world, source, &[]).await?.expect_code(0)?.expect_output(&["1 objects", "0 to change"])?;
    }
    // A difference without an alternative is reported, and is no reason to change anything.
    let proxy = "{apiVersion: projectcontour.io/v1, kind: HTTPProxy, metadata: {name: child, namespace: shop}, spec: \
                 {routes: [{conditions: [{prefix: /}], services: [{name: shop, port: 80}]}]}}\n";
    world.write("proxy.yaml", proxy)?;
    let differs = ["differs: spec.routes[0].conditions[0].prefix: ", "1 differ", "0 to change"];
    migrate(&world, "contour", &[]).await?.expect_code(0)?.expect_output(&differs)?;
    Ok(())
}

async fn bad_input_is_reported(world: World) -> Result<()> {
    migrate(&world, "kong", &[]).await?.expect_code(2)?.expect_output(&["no manifest"])?;
    world
        .command(&["migrate", "kong", "/does/not/exist"])
        .await?
        .expect_code(2)?
        .expect_output(&["/does/not/exist"])?;
    world.command(&["migrate", "nginx", "."]).await?.expect_code(2)?.expect_output(&["contour, kgateway, kong"])?;
    world.command(&["migrate", "kong"]).await?.expect_code(2)?;
    world.write("broken.yaml", "a: [1\n---\nkind: Thing\n")?;
    migrate(&world, "kong", &[]).await?.expect_code(1)?.expect_output(&[
        "broken.yaml:",
        "unreadable: ",
        "2 unreadable",
    ])?;
    world.write("broken.yaml", "# nothing\n")?;
    migrate(&world, "kong", &[]).await?.expect_code(1)?.expect_output(&["the path contains no objects"])?;
    world.write("broken.yaml", "{apiVersion: x.konghq.com/v9, kind: KongThing, metadata: {name: a}}\n")?;
    migrate(&world, "kong", &[]).await?.expect_code(1)?.expect_output(&["does not read the kind KongThing"])?;
    // An object over the limit of an API server, of a kind that Holdfast reads and of one that it does not read.
    let long = "x".repeat(2_000_000);
    let object = |version: &str, kind: &str| {
        format!(
            "{{apiVersion: {version}, kind: {kind}, metadata: {{name: a, namespace: shop}}, plugin: cors, data: {{a: {long}}}}}\n"
        )
    };
    world.write(
        "broken.yaml",
        object("v1", "ConfigMap") + "---\n" + &object("configuration.konghq.com/v1", "KongPlugin"),
    )?;
    let large = migrate(&world, "kong", &[]).await?;
    large.expect_code(1)?.expect_output(&["objects of more than", "plugin: cors: "])?;
    ensure!(large.stdout.len() < 4_000, "the content is in the report");
    // More settings than are listed.
    let settings: String = (0..3_000).map(|number| format!("    setting-{number}: 1\n")).collect();
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: contour}\ndata:\n  contour.yaml: |\n";
    world.write("broken.yaml", format!("{head}{settings}"))?;
    migrate(&world, "contour", &[]).await?.expect_code(1)?.expect_output(&["2000 more settings"])?;
    world.write("broken.yaml", format!("{head}    a: [1\n"))?;
    migrate(&world, "contour", &[]).await?.expect_code(1)?.expect_output(&["of the text cannot be read"])?;
    Ok(())
}

async fn standard_input_is_read(world: World) -> Result<()> {
    let path = top().join("tests/migrate/kong.yaml").canonicalize()?;
    let read = shell(&world, "migrate kong -", &format!("cat '{}' |", path.display())).await?;
    read.expect_code(1)?.expect_output(&["  -:", "KongPlugin:shop/limit"])?;
    Ok(())
}
