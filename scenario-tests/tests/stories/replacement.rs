//! Invalid routes are replaced at their own match, so that no broader route receives their requests.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories, until};

/// The default body of the response of a replaced route.
const BODY: &str = "Holdfast has invalid configuration. Administrators should check the HTTPRoute resource to find and fix config errors.";
/// Number of edits of the broken route.
const EDITS: usize = 100;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "replacement",
        true,
        [
            invalid_expression_answers_the_replacement,
            invalid_filter_answers_the_replacement,
            switched_off_the_broader_route_answers,
            code_and_body_from_flags,
            code_and_body_from_the_environment,
            broken_route_never_reaches_the_broader_one,
        ]
    )
}

/// Writes the broader route, for `/path`.
fn broader(world: &World) -> Result<()> {
    world.route(
        "broad",
        "rules:\n- matches: [{path: {type: PathPrefix, value: /path}}]\n  backendRefs: [{name: broad, port: 8080}]",
    )
}

fn expression(expression: &str) -> String {
    format!(
        r"rules:
- matches: [{{path: {{type: RegularExpression, value: '{expression}'}}}}]
  backendRefs: [{{name: narrow, port: 8080}}]
- matches: [{{path: {{type: PathPrefix, value: /path/sibling}}}}]
  backendRefs: [{{name: narrow, port: 8080}}]"
    )
}

async fn is_replaced(request: HttpRequest, status: u16, body: &str) -> Result<()> {
    let reply = request.comes_to("is replaced", |reply| reply.status.as_u16() == status && reply.body == body).await?;
    ensure!(reply.echo().is_err());
    Ok(())
}

async fn invalid_expression_answers_the_replacement(world: World) -> Result<()> {
    let broad = world.backend("broad").await?;
    let _narrow = world.backend("narrow").await?;
    let port = world.gateway()?;
    broader(&world)?;
    world.route("narrow", &expression("/path/bad/[0-9"))?;
    let holdfast = world.run().await?;
    is_replaced(get(port, "/path/bad/1"), 404, BODY).await?;
    get(port, "/path/sibling").comes_to_reach("narrow").await?;
    get(port, "/path/else").comes_to_reach("broad").await?;
    ensure!(broad.count(|seen| seen.request.path.starts_with("/path/bad")) == 0);
    let replaced = holdfast.metric("holdfast_route_replacements", &[]).await?;
    ensure!(replaced >= 1.0, "no replacement is counted:\n{}", holdfast.metrics().await?);
    holdfast.comes_to_print(&["narrow", "spec.rules[0].matches[0].path"]).await?;

    // Corrected, the route is served at once, and the gauge returns to 0.
    world.route("narrow", &expression("/path/bad/[0-9]+"))?;
    get(port, "/path/bad/1").comes_to_reach("narrow").await?;
    until("nothing is replaced any more", || async {
        let left = holdfast.metric("holdfast_route_replacements", &[]).await?;
        ensure!(left == 0.0, "{left}");
        Ok(())
    })
    .await
}

/// An unsupported filter closes its rule and no other.
async fn invalid_filter_answers_the_replacement(world: World) -> Result<()> {
    let broad = world.backend("broad").await?;
    let _narrow = world.backend("narrow").await?;
    let port = world.gateway()?;
    broader(&world)?;
    world.route(
        "narrow",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /path/bad}}]
  filters:
  - type: ExtensionRef
    extensionRef: {group: example.com, kind: Unknown, name: nobody}
  backendRefs: [{name: narrow, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /path/sibling}}]
  backendRefs: [{name: narrow, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    get(port, "/path/sibling").comes_to_reach("narrow").await?;
    let reply = get(port, "/path/bad/x").send().await?;
    ensure!(reply.status.as_u16() >= 400 && reply.echo().is_err(), "{reply:?}");
    ensure!(broad.count(|seen| seen.request.path.starts_with("/path/bad")) == 0);
    Ok(())
}

/// With the gate off, the rule is excluded, and the request reaches the broader route, which the gate otherwise
/// prevents.
async fn switched_off_the_broader_route_answers(world: World) -> Result<()> {
    let _backends = (world.backend("broad").await?, world.backend("narrow").await?);
    let port = world.gateway()?;
    broader(&world)?;
    world.route("narrow", &expression("/path/bad/[0-9"))?;
    let off = HoldfastOptions::new(&world)?.args(&["--feature-gates", "InvalidRouteReplacement=false"]);
    let holdfast = world.run_with(off).await?;
    get(port, "/path/bad/1").comes_to_reach("broad").await?;
    get(port, "/path/sibling").comes_to_reach("narrow").await?;
    holdfast.comes_to_print(&["narrow", "spec.rules[0].matches[0].path"]).await
}

async fn code_and_body_from_flags(world: World) -> Result<()> {
    let _backends = (world.backend("broad").await?, world.backend("narrow").await?);
    let port = world.gateway()?;
    broader(&world)?;
    world.route("narrow", &expression("/path/bad/[0-9"))?;
    let flags = ["--invalid-route-response-code", "503", "--invalid-route-response-body", "closed for 100% repair"];
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    is_replaced(get(port, "/path/bad/1"), 503, "closed for 100% repair").await?;
    let options = holdfast.kill()?;

    // Other settings take effect after a restart of Holdfast, without a restart of Envoy.
    let flags = ["--invalid-route-response-code", "410"];
    let _holdfast = world.run_with(HoldfastOptions { args: Vec::new(), ..options }.args(&flags)).await?;
    is_replaced(get(port, "/path/bad/1"), 410, BODY).await
}

async fn code_and_body_from_the_environment(world: World) -> Result<()> {
    let _backends = (world.backend("broad").await?, world.backend("narrow").await?);
    let port = world.gateway()?;
    broader(&world)?;
    world.route("narrow", &expression("/path/bad/[0-9"))?;
    let options = HoldfastOptions::new(&world)?
        .env("CONTROLLER_INVALID_ROUTE_RESPONSE_CODE", "500")
        .env("CONTROLLER_INVALID_ROUTE_RESPONSE_BODY", "from the environment");
    let _holdfast = world.run_with(options.args(&["--invalid-route-response-code", "418"])).await?;
    is_replaced(get(port, "/path/bad/1"), 418, "from the environment").await
}

/// Scenario 1 of EP-10625: `/path/bad` is broken beside `/path`. While it is edited repeatedly under load, no request
/// for `/path/bad/x` reaches the backend of `/path`, and `/path` is not affected.
async fn broken_route_never_reaches_the_broader_one(world: World) -> Result<()> {
    let broad = world.backend("broad").await?;
    let narrow = world.backend("narrow").await?;
    let port = world.gateway()?;
    broader(&world)?;
    let good = "rules:\n- matches: [{path: {type: PathPrefix, value: /path/bad}}]\n  backendRefs: [{name: narrow, port: 8080}]";
    let broken = [
        // A missing destination, an unsupported filter, an invalid expression of a header, an invalid expression of a
        // path.
        good.replace("name: narrow", "name: nowhere"),
        good.replace(
            "  backendRefs",
            "  filters: [{type: ExtensionRef, extensionRef: {group: a.example, kind: B, name: c}}]\n  backendRefs",
        ),
        good.replace("{path:", "{headers: [{name: x-any, type: RegularExpression, value: '[a'}], path:"),
        good.replace("type: PathPrefix, value: /path/bad", "type: RegularExpression, value: '/path/bad/[0-9'"),
    ];
    world.route("narrow", good)?;
    let holdfast = world.run().await?;
    get(port, "/path/bad/x").comes_to_reach("narrow").await?;
    get(port, "/path/x").comes_to_reach("broad").await?;

    let ours = Hammer::start([get(port, "/path/x"), get(port, "/path")]);
    let theirs = Hammer::start([
        get(port, "/path/bad/x").header("x-any", "1"),
        get(port, "/path/bad/x/y?z").header("x-any", "1"),
    ]);
    for edit in 0..EDITS {
        let spec = if edit % 2 == 1 { good } else { broken[edit / 2 % broken.len()].as_str() };
        world.route("narrow", spec)?;
        // Some edits are awaited, the others overtake each other.
        if edit % 10 == 9 {
            get(port, "/path/bad/x").header("x-any", "1").comes_to_reach("narrow").await?;
        } else if edit % 10 == 4 {
            theirs.goes_on(10).await?;
            let answer = get(port, "/path/bad/x").header("x-any", "1");
            answer.comes_to("no backend answers", |reply| reply.echo().is_err()).await?;
        } else {
            theirs.goes_on(3).await?;
        }
    }
    theirs.goes_on(50).await?;
    let of_route = |shot: &Shot| match shot {
        Shot::Answer { status: 200, pod, .. } => pod == "narrow",
        Shot::Answer { status, body, .. } => (*status == 404 && body.starts_with("Holdfast")) || *status == 500,
        Shot::Broken(_) => false,
    };
    ours.stop_expecting(|shot| matches!(shot, Shot::Answer { status: 200, pod, .. } if pod == "broad")).await?;
    theirs.stop_expecting(of_route).await?;
    let misrouted = broad.count(|seen| seen.request.path.starts_with("/path/bad"));
    ensure!(misrouted == 0, "{misrouted} requests for /path/bad reached the backend of /path");
    ensure!(narrow.count(|seen| !seen.request.path.starts_with("/path/bad")) == 0);
    ensure!(holdfast.envoys().len() == 1, "{:?}", holdfast.envoys());
    Ok(())
}
