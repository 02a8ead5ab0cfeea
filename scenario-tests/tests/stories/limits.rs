//! Costly input affects only its owner: regular expressions, connections, signals, names with terminal escape
//! sequences.

use anyhow::{Result, ensure};
use holdfast_check::re2::{self, OBJECT_STEPS_MAX};
use holdfast_scenario_tests::manifests::{documents, http_route};
use holdfast_scenario_tests::process::{self, Finished};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories, until};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

pub(crate) fn stories() -> Vec<Story> {
    let plain = stories!("limits", false, [names_that_act_on_terminals]);
    let served = stories!("limits", true, [costly_expressions, half_open_requests, signals]);
    plain.into_iter().chain(served).collect()
}

fn prefix(path: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]"
    )
}

/// Maximum number of check steps of two objects, initial steps included.
const STEPS_MAX: f64 = 2.0 * (OBJECT_STEPS_MAX + 2 * re2::STEPS_MAX) as f64;
const STEPS: &str = "holdfast_regex_check_steps_total";

/// An HTTPRoute with the maximum number of costly regular expressions, and an HTTPProxy with one of 300 kB: edits of
/// other objects are served, the first one and later ones, and the number of steps stays below the limit of two
/// objects.
async fn costly_expressions(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("good", &prefix("/good"))?;
    let holdfast = world.run().await?;
    get(port, "/good").comes_to_reach("echo").await?;
    let rule = |rule: usize| {
        let matches = (0..8).map(|number| {
            let pattern = format!(r"/c(?:\pL{{900}}|\pN{{900}}|\pL{{900}})N{rule}x{number}");
            format!("  - path: {{type: RegularExpression, value: '{pattern}'}}\n")
        });
        format!("- matches:\n{}  backendRefs: [{{name: echo, port: 8080}}]\n", matches.collect::<String>())
    };
    let route = http_route("costly", &format!("rules:\n{}", (0..16).map(rule).collect::<String>()));
    let proxy = |regex: &str| {
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: costly, namespace: other}}\n\
             spec:\n  virtualhost: {{fqdn: costly.example.com}}\n  routes:\n  - conditions: [{{regex: '{regex}'}}]\n    \
             services: [{{name: none, port: 80}}]\n"
        )
    };
    for (number, regex) in
        [format!("/{}", "a?".repeat(150_000)), format!("/{}", "[[:".repeat(100_000))].iter().enumerate()
    {
        let before = holdfast.metric(STEPS, &[]).await?;
        world.write("costly.yaml", documents(&[route.clone(), proxy(regex)]))?;
        for edit in 0..3 {
            let path = format!("/edit-{number}-{edit}");
            world.route("good", &prefix(&path))?;
            get(port, &path).comes_to_reach("echo").await?;
        }
        let steps = holdfast.metric(STEPS, &[]).await? - before;
        ensure!(steps > 0.0 && steps <= STEPS_MAX, "{steps} steps");
    }
    Ok(())
}

/// Limit of open files of Holdfast.
const DESCRIPTORS: u32 = 1024;
/// Number of incomplete requests.
const HALF_OPEN: usize = 1100;

/// Requests with incomplete headers, more than Holdfast may have files open: health is answered, an edit is served, and
/// an Envoy that died is started again.
async fn half_open_requests(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("good", &prefix("/good"))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.descriptors(DESCRIPTORS)).await?;
    get(port, "/good").comes_to_reach("echo").await?;
    let (metrics, diagnostics) = (holdfast.options.metrics, holdfast.options.diagnostics);
    let mut held = Vec::new();
    for listener in [metrics, diagnostics] {
        for _ in 0..HALF_OPEN {
            let mut stream = TcpStream::connect(("127.0.0.1", listener)).await?;
            // The write fails on a connection that was closed in favour of another one.
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n").await;
            held.push(stream);
        }
    }
    for _ in 0..10 {
        let reply = get(metrics, "/healthz").host("localhost").send().await?;
        ensure!(reply.status == 200, "{reply:?}");
        holdfast.diagnostics("/debug/envoys").await?;
    }
    world.route("good", &prefix("/edited"))?;
    get(port, "/edited").comes_to_reach("echo").await?;
    let envoys = holdfast.envoys();
    ensure!(envoys.len() == 1, "{envoys:?}");
    envoys.iter().for_each(|envoy| process::signal(*envoy, "KILL"));
    until("another Envoy is there", || async {
        let now = holdfast.envoys();
        ensure!(now.len() == 1 && now != envoys, "{now:?}");
        Ok(())
    })
    .await?;
    get(port, "/edited").comes_to_reach("echo").await?;
    drop(held);
    Ok(())
}

/// Signals that have a meaning for other servers: a log entry reports that they are ignored, and Holdfast continues.
async fn signals(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("good", &prefix("/good"))?;
    let holdfast = world.run().await?;
    get(port, "/good").comes_to_reach("echo").await?;
    for (signal, answer) in [("HUP", "reads the manifests again"), ("USR1", "ignored"), ("USR2", "ignored")] {
        process::signal(holdfast.id(), signal);
        holdfast.comes_to_print(&[&format!("SIG{signal}"), answer]).await?;
    }
    world.route("good", &prefix("/edited"))?;
    get(port, "/edited").comes_to_reach("echo").await?;
    holdfast.terminate().await?.expect_code(0)?;
    Ok(())
}

/// Characters that control a terminal.
const ACTS: &str = r"\e[2J\r\nerror: forged\u202e";

/// Names, kinds, fields and files with escape sequences are shown escaped: they do not control the terminal, and do not
/// forge a line.
async fn names_that_act_on_terminals(world: World) -> Result<()> {
    world.gateway()?;
    let route = http_route(
        "good",
        &format!("rules:\n- backendRefs: [{{name: \"echo{ACTS}\", port: 8080}}]\n  \"field{ACTS}\": 1\n"),
    );
    let kind = format!("apiVersion: gateway.networking.k8s.io/v1\nkind: \"HTTPRoute{ACTS}\"\nmetadata: {{name: k}}\n");
    let name = http_route("x", &prefix("/x")).replacen("name: x", &format!("name: \"x{ACTS}\""), 1);
    world.write("a.yaml", documents(&[route, kind, name]))?;
    world.write("b\u{1b}[2Jb\u{202e}.yaml", "kind: [unclosed\n")?;
    let folder = world.manifests().display().to_string();
    for command in ["check", "translate"] {
        let finished = world.command(&[command, &folder]).await?;
        shows_only_text(&finished)?;
    }
    Ok(())
}

fn shows_only_text(finished: &Finished) -> Result<()> {
    let output = finished.output();
    let acts = |character: char| character != '\n' && character.is_control() || character == '\u{202e}';
    ensure!(!output.contains(acts), "{output:?}");
    ensure!(!output.lines().any(|line| line.starts_with("error: forged")), "{output}");
    ensure!(output.contains("u{1b}") || output.contains("u{1B}") || !output.contains("forged"), "{output}");
    Ok(())
}
