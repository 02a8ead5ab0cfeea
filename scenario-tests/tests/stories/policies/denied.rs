//! Responses of access lists to denied clients: at every level, with the name of the rule, and without allowing any
//! client.

use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Hammer;
use holdfast_scenario_tests::request::{HttpRequest, Reply, request};
use holdfast_scenario_tests::{Story, World, stories};
use hyper::Method;

use super::enforced::{LEVELS, ROUTE, policy, set};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::denied",
        true,
        [
            responses_at_every_level,
            named_by_the_narrowest_rule,
            the_response_of_the_list_in_force,
            other_denials_keep_their_response,
            answers_without_a_body
        ]
    )
}

/// An allowed address and a denied one.
const WELCOME: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const KEPT_OUT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const RULES: &str = "defaultAction: deny, rules: [{cidrs: [127.0.0.2], action: allow}]";

fn list(response: &str) -> String {
    format!("acl: {{{RULES}, denyResponse: {{{response}}}}}")
}

fn replied_with(reply: &Reply, status: u16, header: &str, value: &str) -> bool {
    reply.status.as_u16() == status && reply.header(header) == value
}

async fn responses_at_every_level(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let (welcome, kept_out) = (request(port).coming_from(WELCOME), request(port).coming_from(KEPT_OUT));
    set(&world, LEVELS[0].0, &list("statusCode: 404"))?;
    let _holdfast = world.run().await?;
    welcome.comes_to_reach("echo").await?;
    kept_out.comes_to_answer(404).await?;
    let hammers = [Hammer::start([kept_out.clone()]), Hammer::start_kept([kept_out.clone()])];
    for (target, closed) in LEVELS {
        let whole = "statusCode: 429, headers: [{name: x-why, value: \"100%\"}, {name: X-Why, value: b}, \
                     {name: Content-Type, value: text/html}], blockedByHeaderName: x-blocked-by";
        set(&world, target, &list(whole))?;
        let reply = kept_out
            .comes_to("it is told who keeps it out", |reply| replied_with(reply, 429, "x-blocked-by", "default"));
        let reply = reply.await?;
        ensure!(reply.header_values("x-why") == ["100%", "b"], "{reply:?}");
        ensure!(reply.header_values("content-type") == ["text/html"], "{reply:?}");
        kept_out.clone().http2().answers(429).await?;
        let call = kept_out.clone().http2().method(Method::POST).header("content-type", "application/grpc");
        let reply = call.answers(200).await?;
        ensure!(reply.header("grpc-status") == "7" && reply.header("x-blocked-by") == "default", "{reply:?}");
        let reply = welcome.comes_to_reach("echo").await?;
        ensure!(reply.header("x-blocked-by").is_empty() && reply.header("x-why").is_empty(), "{reply:?}");
        // An invalid response denies every client.
        for broken in
            ["statusCode: 103", "headers: [{name: content-length, value: \"0\"}]", "blockedByHeaderName: 'a b'"]
        {
            set(&world, target, &list(broken))?;
            welcome.comes_to_answer(closed).await?;
            kept_out.comes_to_answer(closed).await?;
            set(&world, target, &list("statusCode: 404"))?;
            welcome.comes_to_reach("echo").await?;
            kept_out.comes_to_answer(404).await?;
        }
    }
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    }
    Ok(())
}

async fn named_by_the_narrowest_rule(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let spec = "acl: {defaultAction: allow, denyResponse: {blockedByHeaderName: x-by}, rules: [\
                {name: wide, cidrs: [127.0.0.0/16, 127.0.4.4], action: deny}, \
                {name: friends, cidrs: [127.0.1.0/24], action: allow}, \
                {name: foes, cidrs: [127.0.1.128/25, 127.0.2.0/24], action: deny}, \
                {cidrs: [127.0.3.0/24], action: deny}]}";
    set(&world, LEVELS[0].0, spec)?;
    let _holdfast = world.run().await?;
    let from = |address: [u8; 4]| request(port).coming_from(Ipv4Addr::from(address));
    from([127, 0, 0, 1]).comes_to_answer(403).await?;
    let rows: [([u8; 4], &str); 6] = [
        ([127, 0, 0, 1], "wide"),
        ([127, 0, 1, 129], "foes"),
        ([127, 0, 2, 1], "foes"),
        ([127, 0, 3, 1], "rule"),
        ([127, 0, 4, 4], "wide"),
        ([127, 0, 4, 5], "wide"),
    ];
    for (address, name) in rows {
        let reply = from(address).answers(403).await?;
        ensure!(reply.header("x-by") == name, "{address:?} by {name}: {reply:?}");
    }
    from([127, 0, 1, 1]).reaches("echo").await?;
    from([127, 1, 0, 1]).reaches("echo").await?;
    Ok(())
}

/// The list of a route overrides that of the Gateway, its response included; two lists of a route are merged.
async fn the_response_of_the_list_in_force(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    world.write("of-gateway.yaml", policy("of-gateway", LEVELS[3].0, &list("statusCode: 429")))?;
    let _holdfast = world.run().await?;
    let kept_out = request(port).coming_from(KEPT_OUT);
    kept_out.comes_to_answer(429).await?;
    set(&world, LEVELS[1].0, &format!("acl: {{{RULES}}}"))?;
    kept_out.comes_to_answer(403).await?;
    let of_rule = policy("of-rule", LEVELS[0].0, "acl: {denyResponse: {statusCode: 418}, defaultAction: deny}");
    world.write("of-rule.yaml", of_rule)?;
    kept_out.comes_to_answer(418).await?;
    request(port).coming_from(WELCOME).reaches("echo").await?;
    Ok(())
}

/// Denials by other sources keep their response: by a condition, by a password, by a backend.
async fn other_denials_keep_their_response(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let (welcome, kept_out) = (request(port).coming_from(WELCOME), request(port).coming_from(KEPT_OUT));
    let answer = list("statusCode: 429, blockedByHeaderName: x-by");
    let untouched = |wanted: u16| move |reply: &Reply| replied_with(reply, wanted, "x-by", "");
    let condition = "rbac: {policy: {matchExpressions: [\"request.headers['role'] == 'admin'\"]}}";
    set(&world, LEVELS[0].0, &format!("{answer}\n  {condition}"))?;
    let _holdfast = world.run().await?;
    kept_out.comes_to_answer(429).await?;
    welcome.comes_to("the condition answers", untouched(403)).await?;
    welcome.clone().header("role", "admin").reaches("echo").await?;
    let users = "basicAuth: {users: ['alice:{SHA}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=']}";
    set(&world, LEVELS[0].0, &format!("{answer}\n  {users}"))?;
    welcome.comes_to("the password is asked for", untouched(401)).await?;
    kept_out.answers(429).await?;
    Ok(())
}

async fn answers_without_a_body(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    set(&world, LEVELS[0].0, &list("statusCode: 204"))?;
    let _holdfast = world.run().await?;
    for status in [204, 205, 304] {
        set(&world, LEVELS[0].0, &list(&format!("statusCode: {status}")))?;
        let kept_out = request(port).coming_from(KEPT_OUT);
        kept_out.comes_to_answer(status).await?;
        let requests: [HttpRequest; 3] =
            [kept_out.clone(), kept_out.clone().method(Method::HEAD), kept_out.clone().http2()];
        for request in requests {
            // The next response on the connection begins where this one ends.
            let mut connection = request.connect().await?;
            for _ in 0..2 {
                let reply = request.send_on(&mut connection).await?;
                ensure!(reply.status.as_u16() == status && reply.body.is_empty(), "{reply:?}");
                ensure!(status == 205 || reply.header("content-length").is_empty(), "{reply:?}");
            }
        }
    }
    Ok(())
}
