//! A revoked password while the route of another owner is refused: with every combination of gates it is invalid from
//! then on, at every level and on every connection.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::manifests::{NAMESPACE, route};
use holdfast_scenario_tests::request::HttpRequest;
use holdfast_scenario_tests::{Hammer, HoldfastOptions, World, until};

use super::gates::GateCombination;
use super::guard::LARGE;
use super::level::{AttachmentLevel, RoutesByLevel};

const ALICE: (&str, &str) = ("alice:{SHA}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=", "Basic YWxpY2U6c2VzYW1l");
/// Another user with the same password.
const BOB: (&str, &str) = ("bob:{SHA}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=", "Basic Ym9iOnNlc2FtZQ==");

pub(super) async fn run(world: World, gates: GateCombination) -> Result<()> {
    let _backends = (world.backend("echo").await?, world.backend("broad").await?);
    let estate = RoutesByLevel::write(&world)?;
    let write_user = |(user, _): (&str, &str)| {
        AttachmentLevel::OF_TRAFFIC
            .into_iter()
            .try_for_each(|level| estate.policy(level, &format!("basicAuth: {{users: ['{user}']}}")))
    };
    let of = |(_, credentials): (&str, &str)| -> Vec<HttpRequest> {
        AttachmentLevel::OF_TRAFFIC
            .into_iter()
            .map(|level| estate.request(level).header("authorization", credentials))
            .collect()
    };
    write_user(ALICE)?;
    let flags = gates.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let options = HoldfastOptions::new(&world)?.without_envoy().args(&flags);
    let holdfast = world.run_with(options.clone()).await?;
    let mut envoys = Vec::new();
    for gateway in RoutesByLevel::GATEWAYS {
        let envoy = FleetEnvoy { gateway, ..FleetEnvoy::secretly_small(&gateway.replace('/', "-")) };
        envoys.push(envoy.start(&world, &options).await?);
    }
    for request in of(ALICE) {
        request.comes_to_reach("echo").await?;
    }
    let refused = |name: &str| {
        let path = format!("{{type: RegularExpression, value: '/refused/{LARGE}'}}");
        let spec = format!("rules:\n- matches: [{{path: {path}}}]\n  backendRefs: [{{name: echo, port: 8080}}]");
        route("HTTPRoute", NAMESPACE, &format!("refused-{name}"), &format!("- {{name: {name}}}\n"), &spec)
    };
    let names = ["public", "whole"];
    for name in names {
        world.write(&format!("refused-{name}.yaml"), refused(name))?;
    }
    until("both are in trouble", || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        let gateways = report["gateways"].as_array().context("no Gateways")?;
        let concerned =
            gateways.iter().filter(|gateway| names.iter().any(|name| gateway["name"] == format!("default/{name}")));
        let troubled = concerned.filter(|gateway| gateway["state"] == "held" || gateway["state"] == "fallback");
        ensure!(troubled.count() == names.len(), "{report}");
        Ok(())
    })
    .await?;
    // Connections of the user from before the revocation.
    let mut old = Vec::new();
    for request in of(ALICE) {
        let mut connection = request.connect().await?;
        request.send_on(&mut connection).await?.from_pod("echo")?;
        old.push((request, connection));
    }
    write_user(BOB)?;
    for request in of(ALICE) {
        request.comes_to("no backend answers", |reply| reply.pod().is_err()).await?;
    }
    for (request, mut connection) in old {
        if let Ok(reply) = request.send_on(&mut connection).await {
            ensure!(reply.pod().is_err(), "on an old connection {} passes: {reply:?}", request.line());
        }
    }
    let hammers = [Hammer::start(of(ALICE).into_iter().take(2)), Hammer::start_kept_in_turn(of(ALICE))];
    for hammer in &hammers {
        hammer.goes_on(60).await?;
    }
    for name in names {
        world.delete(&format!("refused-{name}.yaml"))?;
    }
    for request in of(BOB) {
        request.comes_to_reach("echo").await?;
    }
    for request in of(ALICE) {
        request.answers(401).await?;
    }
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.passed()).await?;
    }
    Ok(())
}
