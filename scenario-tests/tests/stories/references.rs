//! References to other objects: granted, revoked, missing, and restored.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "references",
        true,
        [
            grant_given_and_revoked,
            missing_backend_answers_500_beside_its_siblings,
            backend_that_comes_later_is_served,
            unknown_kind_of_backend_answers_500,
            rule_without_backends_answers_500,
        ]
    )
}

async fn grant_given_and_revoked(world: World) -> Result<()> {
    let far = world.backend_in("far", "far", None).await?;
    let _near = world.backend("near").await?;
    let port = world.gateway()?;
    world.route(
        "across",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /far}}]
  backendRefs: [{name: far, namespace: far, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /near}}]
  backendRefs: [{name: near, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let (request, near) = (get(port, "/far"), get(port, "/near"));
    near.comes_to_reach("near").await?;
    request.comes_to_answer(500).await?;
    ensure!(far.received() == 0, "a backend without a grant was reached");

    world.write("grant.yaml", manifests::grant("far", "routes", "HTTPRoute", "default", "Service"))?;
    request.comes_to_reach("far").await?;

    // From the first 500 after the revocation on, the backend is not reached again.
    let siblings = Hammer::start([near.clone()]);
    world.delete("grant.yaml")?;
    request.comes_to_answer(500).await?;
    let reached = far.received();
    for _ in 0..20 {
        request.answers(500).await?;
    }
    ensure!(far.received() == reached, "a revoked backend was reached");
    siblings.stop_expecting(holdfast_scenario_tests::hammer::Shot::is_ok).await?;

    // A grant for another namespace or another kind does not apply.
    world.write(
        "grant.yaml",
        manifests::documents(&[
            manifests::grant("far", "other", "HTTPRoute", "other", "Service"),
            manifests::grant("far", "kind", "GRPCRoute", "default", "Service"),
            manifests::grant("default", "place", "HTTPRoute", "default", "Service"),
        ]),
    )?;
    near.comes_to_reach("near").await?;
    for _ in 0..20 {
        request.answers(500).await?;
    }
    ensure!(far.received() == reached, "a backend was reached by the grant of somebody else");
    Ok(())
}

async fn missing_backend_answers_500_beside_its_siblings(world: World) -> Result<()> {
    let _there = world.backend("there").await?;
    let port = world.gateway()?;
    world.route(
        "half",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /missing}}]
  backendRefs: [{name: missing, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /wrong-port}}]
  backendRefs: [{name: there, port: 9999}]
- backendRefs: [{name: there, port: 8080}]",
    )?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("there").await?;
    get(port, "/missing").answers(500).await?;
    get(port, "/wrong-port").answers(500).await?;
    get(port, "/other").reaches("there").await?;
    let output = holdfast.output();
    ensure!(
        output.contains("missing") && output.contains("half"),
        "the log does not name route and backend:\n{output}"
    );
    Ok(())
}

async fn backend_that_comes_later_is_served(world: World) -> Result<()> {
    let port = world.gateway()?;
    world.route("late", "rules:\n- backendRefs: [{name: late, port: 8080}]")?;
    let _holdfast = world.run().await?;
    get(port, "/").comes_to_answer(500).await?;
    let _late = world.backend("late").await?;
    get(port, "/").comes_to_reach("late").await?;
    world.delete("service-default-late.yaml")?;
    get(port, "/").comes_to_answer(500).await?;
    Ok(())
}

async fn unknown_kind_of_backend_answers_500(world: World) -> Result<()> {
    let _there = world.backend("there").await?;
    let port = world.gateway()?;
    world.route(
        "odd",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /odd}}]
  backendRefs: [{group: example.com, kind: Bucket, name: there, port: 8080}]
- backendRefs: [{name: there, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    get(port, "/").comes_to_reach("there").await?;
    get(port, "/odd").answers(500).await?;
    Ok(())
}

async fn rule_without_backends_answers_500(world: World) -> Result<()> {
    let port = world.gateway()?;
    world.route("empty", "rules:\n- matches: [{path: {type: PathPrefix, value: /none}}]")?;
    let _holdfast = world.run().await?;
    get(port, "/none").comes_to_answer(500).await?;
    get(port, "/other").answers(404).await?;
    Ok(())
}
