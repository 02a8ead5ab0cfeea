//! Invalid routes and policies of routes, as requests see them: the policy or the destination of a valid route becomes
//! invalid, is answered with a direct response, and recovers. Sibling rules and broader routes are not affected.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};

use super::enforced::policy;
use super::guards::{self, ProtectingPolicy};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::replaced",
        true,
        [
            a_policy_that_becomes_invalid,
            a_policy_that_becomes_invalid_without_replacement,
            a_destination_that_becomes_invalid,
            other_settings_give_another_answer,
        ]
    )
}

/// The default body of the response of a route that a policy replaces.
const BODY: &str = "Holdfast has invalid configuration. Administrators should check the TrafficPolicy resource to find and fix config errors.";
const TARGET: &str = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop, sectionName: guarded}";

/// Writes a guarded rule with a sibling in its route, beside a broader route of another owner.
fn routes(world: &World, destination: &str) -> Result<()> {
    world.route(
        "shop",
        &format!(
            "rules:\n- name: guarded\n  matches: [{{path: {{value: /shop/guarded}}}}]\n  backendRefs: [{{{destination}}}]\n\
             - name: open\n  matches: [{{path: {{value: /shop/open}}}}]\n  backendRefs: [{{name: shop, port: 8080}}]"
        ),
    )?;
    world.route("broad", "rules:\n- backendRefs: [{name: broad, port: 8080}]")
}

const DESTINATION: &str = "name: shop, port: 8080";

fn set(world: &World, spec: &str) -> Result<()> {
    world.write("policy.yaml", policy("p", TARGET, spec))
}

async fn is_replaced(request: &HttpRequest, status: u16, body: &str) -> Result<()> {
    request.comes_to("it is replaced", |reply| reply.status.as_u16() == status && reply.body == body).await.map(drop)
}

/// Load on routes beside the guarded one, which must not be affected.
fn beside(port: u16) -> (Hammer, Hammer) {
    (Hammer::start([get(port, "/shop/open")]), Hammer::start([get(port, "/shop"), get(port, "/")]))
}

async fn undisturbed((siblings, others): (Hammer, Hammer)) -> Result<()> {
    siblings.stop_expecting(|shot| matches!(shot, Shot::Answer { pod, .. } if pod == "shop")).await?;
    others.stop_expecting(|shot| matches!(shot, Shot::Answer { pod, .. } if pod == "broad")).await?;
    Ok(())
}

async fn replacements(holdfast: &Holdfast, wanted: f64) -> Result<()> {
    until("replacements are counted", || async {
        let counted = holdfast.metric("holdfast_route_replacements", &["scope=\"rule\""]).await?;
        ensure!(counted == wanted, "{counted} instead of {wanted}");
        Ok(())
    })
    .await
}

async fn invalid_policies(world: World, flags: &[&str]) -> Result<()> {
    let (_shop, broad) = (world.backend("shop").await?, world.backend("broad").await?);
    let port = world.gateway()?;
    routes(&world, DESTINATION)?;
    let first = guards::basic_auth();
    set(&world, first.spec)?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(flags)).await?;
    (first.passing)(get(port, "/shop/guarded")).comes_to_reach("shop").await?;
    for path in ["/shop", "/shop/open"] {
        get(port, path).comes_to("a backend answers", |reply| reply.pod().is_ok()).await?;
    }
    let besides = beside(port);
    for guard in [first, guards::api_key(), guards::csrf(), guards::buffer()] {
        let ProtectingPolicy { spec, passing, failing, status, broken, .. } = &guard;
        if !guard.besides.is_empty() {
            world.write("besides.yaml", guard.besides)?;
        }
        let requests = [passing(get(port, "/shop/guarded")), failing(get(port, "/shop/guarded/more"))];
        // During edits, no unauthorized request reaches a backend.
        set(&world, spec)?;
        requests[0].comes_to_reach("shop").await?;
        requests[1].comes_to_answer(*status).await?;
        let hammer = Hammer::start([requests[1].clone()]);
        for broken in *broken {
            set(&world, broken)?;
            for request in &requests {
                is_replaced(request, 404, BODY).await?;
            }
            replacements(&holdfast, 1.0).await?;
            set(&world, spec)?;
            requests[0].comes_to_reach("shop").await?;
            requests[1].comes_to_answer(*status).await?;
            replacements(&holdfast, 0.0).await?;
        }
        hammer.stop_expecting(|shot| !shot.passed()).await?;
    }
    undisturbed(besides).await?;
    let misrouted = broad.count(|seen| seen.request.path.starts_with("/shop/guarded"));
    ensure!(misrouted == 0, "{misrouted} requests reached the backend of the broader route");
    Ok(())
}

async fn a_policy_that_becomes_invalid(world: World) -> Result<()> {
    invalid_policies(world, &[]).await
}

/// A rule with a policy that protects is replaced even with the gate off.
async fn a_policy_that_becomes_invalid_without_replacement(world: World) -> Result<()> {
    invalid_policies(world, &["--feature-gates", "InvalidRouteReplacement=false"]).await
}

/// Missing destinations, destinations without a grant, and destinations of an unknown kind: 500, as Gateway API
/// requires.
async fn a_destination_that_becomes_invalid(world: World) -> Result<()> {
    let (_shop, broad) = (world.backend("shop").await?, world.backend("broad").await?);
    let _elsewhere = world.backend_in("elsewhere", "shop", None).await?;
    let port = world.gateway()?;
    routes(&world, DESTINATION)?;
    let _holdfast = world.run().await?;
    let request = get(port, "/shop/guarded");
    request.comes_to_reach("shop").await?;
    get(port, "/").comes_to_reach("broad").await?;
    let besides = beside(port);
    let hammer = Hammer::start([request.clone(), get(port, "/shop/guarded/more")]);
    let invalid = [
        "name: nobody, port: 8080",
        "name: shop, port: 9",
        "name: shop, namespace: elsewhere, port: 8080",
        "group: a.example, kind: Strange, name: shop",
        "group: gateway.kgateway.dev, kind: Backend, name: nobody",
    ];
    for destination in invalid {
        routes(&world, destination)?;
        request.comes_to_answer(500).await?;
        routes(&world, DESTINATION)?;
        request.comes_to_reach("shop").await?;
    }
    // A destination that is created later.
    routes(&world, "name: late, port: 8080")?;
    request.comes_to_answer(500).await?;
    let _late = world.backend("late").await?;
    request.comes_to_reach("late").await?;
    undisturbed(besides).await?;
    hammer
        .stop_expecting(|shot| match shot {
            Shot::Answer { status: 200, pod, .. } => pod == "shop" || pod == "late",
            Shot::Answer { status, .. } => *status == 500,
            Shot::Broken(_) => false,
        })
        .await?;
    ensure!(broad.count(|seen| seen.request.path.starts_with("/shop/guarded")) == 0, "the broader route answered");
    Ok(())
}

/// Other codes and another body take effect without a restart of Envoy, for replaced rules and closed hosts.
async fn other_settings_give_another_answer(world: World) -> Result<()> {
    let _backends = (world.backend("shop").await?, world.backend("broad").await?);
    let port = world.port()?;
    let listener = |name: &str| {
        let host = format!("protocol: HTTP\nhostname: {name}.example");
        holdfast_scenario_tests::manifests::listener(name, port, &host)
    };
    world.gateway_with(&[listener("one"), listener("two")].concat())?;
    routes(&world, DESTINATION)?;
    let broken = guards::basic_auth().broken[0];
    set(&world, broken)?;
    let closing = "{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: two}";
    world.write("closing.yaml", policy("closing", closing, broken))?;
    let holdfast = world.run().await?;
    let (replaced, closed) = (get(port, "/shop/guarded").host("one.example"), get(port, "/").host("two.example"));
    is_replaced(&replaced, 404, BODY).await?;
    closed.comes_to_answer(500).await?;
    let envoys = holdfast.envoys();
    let load = Hammer::start_kept([get(port, "/shop/open").host("one.example"), get(port, "/").host("one.example")]);
    let mut options = holdfast.kill()?;
    let settings = ["--invalid-route-response-code", "--invalid-route-response-body", "--invalid-policy-response-code"];
    for (code, body, policy_code) in [("503", "closed for repair", "599"), ("410", "gone", "403")] {
        let flags: Vec<&str> =
            settings.into_iter().zip([code, body, policy_code]).flat_map(<[&str; 2]>::from).collect();
        let holdfast = world.run_with(HoldfastOptions { args: Vec::new(), ..options }.args(&flags)).await?;
        is_replaced(&replaced, code.parse()?, body).await?;
        closed.comes_to_answer(policy_code.parse()?).await?;
        ensure!(holdfast.envoys() == envoys, "another Envoy: {:?} after {envoys:?}", holdfast.envoys());
        options = holdfast.kill()?;
    }
    load.stop_expecting(Shot::is_ok).await?;
    // Corrected, both are open to authorized requests.
    set(&world, guards::basic_auth().spec)?;
    world.write("closing.yaml", policy("closing", closing, guards::basic_auth().spec))?;
    let _holdfast = world.run_with(options).await?;
    (guards::basic_auth().passing)(replaced).comes_to_reach("shop").await?;
    (guards::basic_auth().passing)(closed).comes_to_reach("broad").await.map(drop)
}
