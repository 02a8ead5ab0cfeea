//! Conditions in CEL: their evaluation in Envoy, and the treatment of evaluation errors.

use anyhow::Result;
use holdfast_scenario_tests::hammer::{Hammer, Shot};
use holdfast_scenario_tests::request::{HttpRequest, request};
use holdfast_scenario_tests::services::tokens::TokenMaker;
use holdfast_scenario_tests::{Story, World, stories};

use super::enforced::{LEVELS, ROUTE, policy, set};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies",
        true,
        [
            what_is_judged,
            an_unknown_result_denies_the_request,
            the_closest_counts,
            only_envoy_refuses_it,
            as_deep_as_may_be,
            claims_of_tokens
        ]
    )
}

fn rbac(action: &str, conditions: &[&str]) -> String {
    let conditions: Vec<String> = conditions.iter().map(|text| format!("'{}'", text.replace('\'', "''"))).collect();
    format!("rbac: {{action: {action}, policy: {{matchExpressions: [{}]}}}}", conditions.join(", "))
}

/// Sets conditions, after a policy with the opposite outcome, so that the change is visible.
async fn comes_to(world: &World, request: &HttpRequest, spec: &str, passes: bool) -> Result<()> {
    let other = if passes { "Deny" } else { "Allow" };
    set(world, LEVELS[0].0, &rbac(other, &["true"]))?;
    request.comes_to("the other outcome", |reply| reply.status == if passes { 403 } else { 200 }).await?;
    let hammer = Hammer::start([request.clone()]);
    set(world, LEVELS[0].0, spec)?;
    request.comes_to(spec, |reply| reply.status == if passes { 200 } else { 403 }).await?;
    hammer.stop_expecting(|shot| matches!(shot, Shot::Answer { status: 200 | 403, .. })).await.map(drop)
}

async fn what_is_judged(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    set(&world, LEVELS[0].0, &rbac("Allow", &["false"]))?;
    let _holdfast = world.run().await?;
    let request = request(port).path("/a/1?q=x").header("role", "admin");
    let address = format!("destination.port == {port}");
    let rows = [
        ("request.headers['role'] == 'admin'", true),
        ("request.headers['Role'].startsWith('ad') && !(request.method in ['POST', 'PUT'])", true),
        ("has(request.headers.role) ? request.url_path.matches('^/a/[0-9]+$') : false", true),
        ("request.path == '/a/1'", false),
        ("request.query == 'q=x' && size(request.path) == 8", true),
        ("source.address.startsWith('127.0.0.1:') || source.address.startsWith('[::1]:')", true),
        (&*address, true),
        ("connection.mtls", false),
        ("request.time > timestamp('2020-01-01T00:00:00Z') && request.time.getFullYear() >= 2020", true),
        ("{'admin': 1, 'root': 2}[request.headers['role']] + 1 == 2", true),
        ("metadata.filter_metadata['nobody']['x'] == 'y'", false),
        (r"re.extract(request.path, '^/([a-z])/.*', r'\1') == 'a'", true),
        ("xds.route_name.contains('two')", false),
        ("type(request.headers['role']) == string && b'a' == bytes('a') && 0x10 == 16 && 2u == uint(2)", true),
    ];
    for (condition, passes) in rows {
        comes_to(&world, &request, &rbac("Allow", &[condition]), passes).await?;
    }
    comes_to(&world, &request, &rbac("Allow", &["false", "request.path == ''", "true"]), true).await?;
    comes_to(&world, &request, &rbac("Deny", &["false", "request.headers['role'] == 'admin'"]), false).await?;
    comes_to(&world, &request, &rbac("Deny", &["false", "request.headers['role'] == 'guest'"]), true).await
}

/// A missing header cannot be compared: the result of the condition is unknown.
async fn an_unknown_result_denies_the_request(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let deny = rbac("Deny", &["request.headers['role'] == 'banned'"]);
    set(&world, LEVELS[0].0, &deny)?;
    let _holdfast = world.run().await?;
    let (plain, guest, banned) =
        (request(port), request(port).header("role", "guest"), request(port).header("role", "banned"));
    guest.comes_to_reach("echo").await?;
    plain.answers(403).await?;
    banned.answers(403).await?;
    let hammer = Hammer::start([plain.clone(), banned.clone()]);
    for (target, _) in LEVELS {
        set(&world, target, &deny)?;
        guest.comes_to_reach("echo").await?;
        plain.answers(403).await?;
    }
    set(&world, LEVELS[3].0, &rbac("Allow", &["request.headers['role'] == 'guest'", "'a' < request.headers['b']"]))?;
    plain.comes_to_answer(403).await?;
    guest.comes_to_reach("echo").await?;
    hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    // A condition that first checks the presence of the header has a result.
    set(&world, LEVELS[3].0, &rbac("Deny", &["'role' in request.headers && request.headers['role'] == 'banned'"]))?;
    plain.comes_to_reach("echo").await?;
    guest.reaches("echo").await?;
    banned.answers(403).await?;
    Ok(())
}

/// Conditions of a Gateway apply where no more specific policy has conditions.
async fn the_closest_counts(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let role = |role: &str| rbac("Allow", &[&format!("request.headers['role'] == '{role}'")]);
    for (index, (target, _)) in LEVELS.iter().enumerate() {
        world.write(
            &format!("policy-{index}.yaml"),
            policy(&format!("p{index}"), target, &role(&format!("r{index}"))),
        )?;
    }
    let _holdfast = world.run().await?;
    for index in 0..LEVELS.len() {
        request(port).header("role", &format!("r{index}")).comes_to_reach("echo").await?;
        for other in (0..LEVELS.len()).filter(|other| *other != index) {
            request(port).header("role", &format!("r{other}")).answers(403).await?;
        }
        world.delete(&format!("policy-{index}.yaml"))?;
    }
    request(port).comes_to_reach("echo").await?;
    Ok(())
}

/// Envoy compiles regular expressions of conditions as UTF-8, where a dot is a large program; translation counts bytes.
async fn only_envoy_refuses_it(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route(
        "r",
        "rules:\n- name: one\n  matches: [{path: {value: /one}}]\n  backendRefs: [{name: echo, port: 8080}]\n\
                     - name: two\n  matches: [{path: {value: /two}}]\n  backendRefs: [{name: echo, port: 8080}]",
    )?;
    let fine = rbac("Allow", &["request.headers['role'] == 'admin'"]);
    set(&world, LEVELS[0].0, &fine)?;
    let _holdfast = world.run().await?;
    let admin = request(port).path("/one").header("role", "admin");
    admin.comes_to_reach("echo").await?;
    let hammer = Hammer::start([request(port).path("/one")]);
    set(
        &world,
        LEVELS[0].0,
        &rbac("Allow", &["request.headers['role'] == 'admin' && !request.path.matches('.{20}')"]),
    )?;
    admin.comes_to("the rule is closed", |reply| reply.status != 200).await?;
    request(port).path("/two").reaches("echo").await?;
    set(&world, LEVELS[0].0, &fine)?;
    admin.comes_to_reach("echo").await?;
    hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    Ok(())
}

/// The maximum number of conditions, each with the maximum depth: Envoy accepts them.
async fn as_deep_as_may_be(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let deep = format!("{}false", "!".repeat(30));
    let mut conditions = vec![&*deep; 255];
    conditions.push("request.headers['role'] == 'admin'");
    set(&world, LEVELS[0].0, &rbac("Allow", &conditions))?;
    let _holdfast = world.run().await?;
    request(port).header("role", "admin").comes_to_reach("echo").await?;
    request(port).header("role", "guest").answers(403).await?;
    set(&world, LEVELS[0].0, &rbac("Deny", &conditions))?;
    request(port).header("role", "guest").comes_to_reach("echo").await?;
    request(port).header("role", "admin").comes_to_answer(403).await?;
    Ok(())
}

/// Conditions can use the claims of a token; without a token their evaluation fails.
async fn claims_of_tokens(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let maker = TokenMaker::start("maker").await?;
    world.write(
        "tokens.yaml",
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
             metadata: {{name: tokens, namespace: default}}\n\
             spec: {{jwt: {{providers: [{{name: own, issuer: maker, jwks: {{local: {{inline: '{}'}}}}}}]}}}}",
            maker.keys()?
        ),
    )?;
    let claim = "metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['aud'] == 'shop'";
    let tokens = "jwtAuth: {extensionRef: {name: tokens}}";
    set(&world, LEVELS[0].0, &format!("{tokens}\n  {}", rbac("Allow", &[claim])))?;
    let _holdfast = world.run().await?;
    let bearing =
        |audience: &str| Ok::<_, anyhow::Error>(request(port).header("authorization", &maker.bearer(audience)?));
    let (shop, other) = (bearing("shop")?, bearing("other")?);
    shop.comes_to_reach("echo").await?;
    other.answers(403).await?;
    request(port).answers(401).await?;
    set(&world, LEVELS[0].0, &format!("{tokens}\n  {}", rbac("Deny", &[claim])))?;
    other.comes_to_reach("echo").await?;
    shop.answers(403).await?;
    set(&world, LEVELS[0].0, &rbac("Deny", &[claim]))?;
    other.comes_to_answer(403).await?;
    Ok(())
}
