//! Invalid policies of Gateways and listeners: the closed targets, the unaffected ones, and the reports. With real
//! requests over HTTP and HTTPS.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::manifests::{self, NAMESPACE, class, documents, gateway, https_listener, listener};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Holdfast, Story, World, stories, until};

use super::enforced::policy;
use super::guards;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::higher",
        true,
        [of_a_gateway, of_listeners_on_one_port, of_listeners_with_tls, several_targets, what_is_not_there_yet]
    )
}

/// The listeners of the Gateway `public`: two hosts and a wildcard on a plain port, and the same with TLS.
struct PublicListeners {
    plain: u16,
    tls: u16,
    /// The port of the Gateway `other`.
    other: u16,
    certificate: Certificate,
}

/// Hosts, each with a listener on both ports; `any` is the wildcard for all hosts below `example`.
const HOSTS: [&str; 3] = ["one", "two", "any"];

impl PublicListeners {
    fn write(world: &World) -> Result<Self> {
        let (plain, tls, other) = (world.port()?, world.port()?, world.port()?);
        let certificate = Certificate::of(&HOSTS.map(|host| format!("{host}.example")).each_ref().map(String::as_str))?;
        let host = |name: &str| if name == "any" { "\"*.example\"".to_owned() } else { format!("{name}.example") };
        let mut listeners = String::new();
        for name in HOSTS {
            listeners += &listener(name, plain, &format!("protocol: HTTP\nhostname: {}", host(name)));
            listeners += &https_listener(&format!("{name}-tls"), tls, host(name).trim_matches('"'), &["certificate"]);
        }
        let parents = "- {name: public}\n- {name: other}\n";
        world.write(
            "estate.yaml",
            documents(&[
                class(),
                gateway("public", &listeners),
                gateway("other", &listener("http", other, "protocol: HTTP")),
                certificate.secret(NAMESPACE, "certificate"),
                manifests::route(
                    "HTTPRoute",
                    NAMESPACE,
                    "all",
                    parents,
                    "rules:\n- name: all\n  backendRefs: [{name: echo, port: 8080}]",
                ),
                manifests::route(
                    "HTTPRoute",
                    NAMESPACE,
                    "more",
                    parents,
                    "rules:\n- matches: [{path: {value: /more}}]\n  backendRefs: [{name: echo, port: 8080}]",
                ),
            ]),
        )?;
        Ok(Self { plain, tls, other, certificate })
    }

    fn plain(&self, host: &str) -> HttpRequest {
        get(self.plain, "/").host(&format!("{host}.example"))
    }

    fn tls(&self, host: &str) -> HttpRequest {
        let host = format!("{host}.example");
        get(self.tls, "/").host(&host).tls(self.certificate.trust(&host))
    }

    fn other(&self) -> HttpRequest {
        get(self.other, "/")
    }

    /// Requests to every host on both ports.
    fn all(&self) -> Vec<HttpRequest> {
        HOSTS.iter().flat_map(|host| [self.plain(host), self.tls(host)]).collect()
    }
}

fn target(section: &str) -> String {
    let section = if section.is_empty() { String::new() } else { format!(", sectionName: {section}") };
    format!("{{group: gateway.networking.k8s.io, kind: Gateway, name: public{section}}}")
}

/// Requests to both routes of a host.
fn both(request: &HttpRequest) -> [HttpRequest; 2] {
    [request.clone(), request.clone().path("/more/x")]
}

async fn are_served(requests: &[HttpRequest]) -> Result<()> {
    for request in requests.iter().flat_map(both) {
        request.comes_to_reach("echo").await?;
    }
    Ok(())
}

async fn are_closed(requests: &[HttpRequest]) -> Result<()> {
    for request in requests.iter().flat_map(both) {
        request.comes_to_answer(500).await?;
    }
    Ok(())
}

/// Waits until the status of an object contains all of these texts.
async fn status_contains(holdfast: &Holdfast, kind: &str, name: &str, words: &[&str]) -> Result<()> {
    until(&format!("the status of {kind} {name} says {words:?}"), || async {
        let statuses = holdfast.diagnostics("/debug/statuses").await?;
        let all = statuses["objects"].as_array().context("no objects")?;
        let is_it = |status: &&serde_json::Value| status["object"]["kind"] == kind && status["object"]["name"] == name;
        let status = all.iter().find(is_it).context("it has none")?.to_string();
        ensure!(words.iter().all(|word| status.contains(word)), "{status}");
        Ok(())
    })
    .await
}

/// A Gateway's policy closes all of its listeners, and no other Gateway.
async fn of_a_gateway(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let estate = PublicListeners::write(&world)?;
    let holdfast = world.run().await?;
    let guard = guards::basic_auth();
    are_served(&estate.all()).await?;
    estate.other().comes_to_reach("echo").await?;
    let others = Hammer::start([estate.other()]);
    let valid = policy("wide", &target(""), guard.spec);
    world.write("wide.yaml", &valid)?;
    for request in estate.all() {
        request.comes_to_answer(guard.status).await?;
        (guard.passing)(request).reaches("echo").await?;
    }
    let unknown = [Hammer::start(estate.all().into_iter().take(2)), Hammer::start_kept_in_turn(estate.all())];
    for broken in guard.broken {
        world.write("wide.yaml", policy("wide", &target(""), broken))?;
        are_closed(&estate.all().into_iter().map(guard.passing).collect::<Vec<_>>()).await?;
        status_contains(&holdfast, "TrafficPolicy", "wide", &["Accepted", "False", "Invalid"]).await?;
        status_contains(&holdfast, "Gateway", "public", &["GatewayReplaced", "default/wide"]).await?;
        for route in ["all", "more"] {
            status_contains(&holdfast, "HTTPRoute", route, &["holdfast.dev/Fallback", "default/wide"]).await?;
        }
        let closed = holdfast.metric("holdfast_route_replacements", &["scope=\"routeConfiguration\""]).await?;
        ensure!(closed > 0.0, "nothing is counted");
        world.write("wide.yaml", &valid)?;
        are_served(&estate.all().into_iter().map(guard.passing).collect::<Vec<_>>()).await?;
    }
    for hammer in unknown {
        hammer.stop_expecting(|shot| !shot.passed()).await?;
    }
    world.delete("wide.yaml")?;
    are_served(&estate.all()).await?;
    others.stop_expecting(|shot| shot.is_ok()).await.map(drop)
}

/// A listener's policy closes its own hosts: no broader listener of the port answers for them, and no other hosts are
/// closed.
async fn of_listeners_on_one_port(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let estate = PublicListeners::write(&world)?;
    let holdfast = world.run().await?;
    are_served(&estate.all()).await?;
    for broken in guards::basic_auth().broken {
        for name in HOSTS {
            let others: Vec<HttpRequest> =
                HOSTS.into_iter().filter(|other| *other != name).map(|host| estate.plain(host)).collect();
            let others: Vec<HttpRequest> = others.into_iter().chain(HOSTS.map(|host| estate.tls(host))).collect();
            let hammer = Hammer::start_kept_in_turn(others.clone());
            world.write("narrow.yaml", policy("narrow", &target(name), broken))?;
            are_closed(&[estate.plain(name)]).await?;
            are_served(&others).await?;
            status_contains(&holdfast, "Gateway", "public", &["ListenerReplaced", "default/narrow"]).await?;
            world.delete("narrow.yaml")?;
            are_served(&[estate.plain(name)]).await?;
            hammer.stop_expecting(|shot| shot.is_ok()).await?;
        }
    }
    Ok(())
}

/// Listeners with TLS: a closed host still presents its certificate, and no wildcard answers for it.
async fn of_listeners_with_tls(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let estate = PublicListeners::write(&world)?;
    let holdfast = world.run().await?;
    are_served(&estate.all()).await?;
    let guard = guards::basic_auth();
    for name in HOSTS {
        let section = target(&format!("{name}-tls"));
        let others: Vec<HttpRequest> =
            HOSTS.into_iter().filter(|other| *other != name).map(|host| estate.tls(host)).collect();
        let others: Vec<HttpRequest> = others.into_iter().chain(HOSTS.map(|host| estate.plain(host))).collect();
        let hammer = Hammer::start_kept_in_turn(others.clone());
        world.write("narrow.yaml", policy("narrow", &section, guard.spec))?;
        for request in [estate.tls(name), estate.tls(name).http2()] {
            request.comes_to_answer(guard.status).await?;
            (guard.passing)(request).reaches("echo").await?;
        }
        let unknown = [estate.tls(name), estate.tls(name).http2()];
        let unknown = [Hammer::start(unknown.clone()), Hammer::start_kept(unknown)];
        for broken in guard.broken {
            world.write("narrow.yaml", policy("narrow", &section, broken))?;
            are_closed(&[(guard.passing)(estate.tls(name))]).await?;
            are_served(&others).await?;
        }
        status_contains(&holdfast, "Gateway", "public", &["ListenerReplaced", "default/narrow"]).await?;
        world.write("narrow.yaml", policy("narrow", &section, guard.spec))?;
        are_served(&[(guard.passing)(estate.tls(name))]).await?;
        for hammer in unknown {
            hammer.stop_expecting(|shot| !shot.passed()).await?;
        }
        world.delete("narrow.yaml")?;
        are_served(&[estate.tls(name)]).await?;
        hammer.stop_expecting(|shot| shot.is_ok()).await?;
    }
    Ok(())
}

/// One policy for a plain listener, one with TLS, a rule, and a missing object.
async fn several_targets(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let estate = PublicListeners::write(&world)?;
    let holdfast = world.run().await?;
    are_served(&estate.all()).await?;
    let guard = guards::basic_auth();
    let rule = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: more}";
    let missing = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: nobody}";
    let targets = [&target("one"), &target("two-tls"), rule, missing].join(", ");
    let valid = policy("several", &targets, guard.spec);
    world.write("several.yaml", &valid)?;
    let guarded =
        [estate.plain("one"), estate.tls("two"), estate.plain("any").path("/more"), estate.other().path("/more")];
    let free = [estate.tls("one"), estate.plain("two"), estate.plain("any"), estate.tls("any"), estate.other()];
    for request in &guarded {
        request.comes_to_answer(guard.status).await?;
        (guard.passing)(request.clone()).reaches("echo").await?;
    }
    status_contains(&holdfast, "TrafficPolicy", "several", &["TargetNotFound", "nobody"]).await?;
    let hammers = [Hammer::start(guarded.clone()), Hammer::start_kept(guarded.clone())];
    let open = Hammer::start_kept_in_turn(free);
    for broken in guard.broken {
        world.write("several.yaml", policy("several", &targets, broken))?;
        // At the listeners everything is closed; at the route only its own rules are replaced.
        for (request, closed) in guarded.iter().zip([500, 500, 404, 404]) {
            (guard.passing)(request.clone()).comes_to_answer(closed).await?;
        }
        world.write("several.yaml", &valid)?;
        for request in &guarded {
            (guard.passing)(request.clone()).comes_to_reach("echo").await?;
        }
    }
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.passed()).await?;
    }
    open.stop_expecting(|shot| shot.is_ok()).await.map(drop)
}

/// An object that a policy refers to is created later: until then the target is closed, afterwards it is served
/// normally.
async fn what_is_not_there_yet(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let estate = PublicListeners::write(&world)?;
    let holdfast = world.run().await?;
    are_served(&estate.all()).await?;
    let guard = guards::api_key();
    for section in ["", "one", "one-tls"] {
        let request = if section == "one-tls" { estate.tls("one") } else { estate.plain("one") };
        world.write("early.yaml", policy("early", &target(section), guard.spec))?;
        are_closed(&[(guard.passing)(request.clone())]).await?;
        let unknown = Hammer::start([request.clone()]);
        world.write("late.yaml", guard.besides)?;
        (guard.passing)(request.clone()).comes_to_reach("echo").await?;
        request.comes_to_answer(guard.status).await?;
        until("nothing is told any more", || async {
            let report = holdfast.diagnostics("/debug/config/fallback").await?;
            ensure!(report["status"] == "not-triggered", "{report}");
            let left = holdfast.metric("holdfast_route_replacements", &[]).await?;
            ensure!(left == 0.0, "{left} replacements");
            Ok(())
        })
        .await?;
        unknown.stop_expecting(|shot| !shot.passed()).await?;
        world.delete("early.yaml")?;
        world.delete("late.yaml")?;
        request.comes_to_reach("echo").await?;
    }
    Ok(())
}
