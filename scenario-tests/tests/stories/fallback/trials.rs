//! Without a probe: the search for a culprit on serving Envoys always ends, and keeps every listener open.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, connected};
use holdfast_scenario_tests::manifests::{documents, http_listener, http_route, https_listener, service};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Story, World, stories};

use super::{BACKFILL, REPLACE, comes_to_blame, comes_to_serve, good, rule, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::trials",
        true,
        [
            a_rule_with_a_policy_keeps_no_other_team_waiting,
            a_rule_with_a_policy_keeps_nothing_from_being_edited,
            a_refused_key_at_a_first_start_closes_its_own_route,
            a_refused_key_at_a_first_start_keeps_tls_hosts_open,
        ]
    )
}

/// A key that translation accepts and Envoy refuses: it is too short.
pub(super) const SHORT_KEY: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"k","x":"MDEyMzQ1Njc4OQ"}]}"#;
/// A key that both accept.
const GOOD_KEY: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

pub(super) fn extension(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  {spec}\n"
    )
}

fn policy(route: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: guard, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {route}}}]\n  {spec}\n"
    )
}

/// A route of two rules, one of which is refused, and its policy.
fn attack() -> [String; 2] {
    let rules = [rule("PathPrefix", "/ok", "1"), rule("RegularExpression", &format!("/bad/{}", super::LARGE), "1")];
    let spec = format!("rules:\n{}", rules.concat());
    [http_route("attack", &spec), policy("attack", "extAuth: {extensionRef: {name: auth}}")]
}

/// The backend that the policy calls, and its extension.
fn auth() -> String {
    let own = service("default", "auth", Some("kubernetes.io/h2c"), &[]);
    documents(&[own, extension("auth", "extAuth: {grpcService: {backendRef: {name: auth, port: 8080}}}")])
}

async fn a_rule_with_a_policy_keeps_no_other_team_waiting(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.write("auth.yaml", auth())?;
    world.route("first", &good("/first", "1"))?;
    let options = unprobed(&world, &REPLACE)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    comes_to_serve(port, "/first", "1").await?;
    let [route, policy] = attack();
    world.write("batch.yaml", documents(&[route, policy, http_route("victim", &good("/victim", "1"))]))?;
    comes_to_serve(port, "/victim", "1").await?;
    comes_to_blame(&holdfast, "nack", ["attack"]).await?;
    // This remains so after a crash.
    let holdfast = world.run_with(holdfast.kill()?).await?;
    connected(&holdfast, 1).await?;
    comes_to_serve(port, "/victim", "1").await?;
    comes_to_blame(&holdfast, "nack", ["attack"]).await
}

async fn a_rule_with_a_policy_keeps_nothing_from_being_edited(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.write("auth.yaml", auth())?;
    world.write("batch.yaml", http_route("victim", &good("/victim", "1")))?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    comes_to_serve(port, "/victim", "1").await?;
    let [route, policy] = attack();
    world.write("batch.yaml", documents(&[route, policy, http_route("victim", &good("/victim", "2"))]))?;
    comes_to_serve(port, "/victim", "2").await?;
    comes_to_blame(&holdfast, "nack", ["attack"]).await
}

/// Returns a policy that checks tokens with this key, and its extension.
fn keyed(key: &str) -> String {
    let spec = format!("jwt: {{providers: [{{name: own, issuer: maker, jwks: {{local: {{inline: '{key}'}}}}}}]}}");
    documents(&[extension("tokens", &spec), policy("keyed", "jwtAuth: {extensionRef: {name: tokens}}")])
}

async fn a_refused_key_at_a_first_start_closes_its_own_route(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("victim", &good("/victim", "1"))?;
    world.route("keyed", &good("/keyed", "1"))?;
    world.write("key.yaml", keyed(SHORT_KEY))?;
    let options = unprobed(&world, &REPLACE)?;
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    comes_to_serve(port, "/victim", "1").await?;
    comes_to_blame(&holdfast, "nack", ["tokens"]).await?;
    get(port, "/keyed").comes_to_answer(404).await?;
    ensure!(envoy.refusals().await? <= 2, "more refusals than the first and that of the trial");
    world.write("key.yaml", keyed(GOOD_KEY))?;
    get(port, "/keyed").comes_to_answer(401).await?;
    comes_to_blame(&holdfast, "nack", []).await?;
    world.write("key.yaml", keyed(SHORT_KEY))?;
    comes_to_blame(&holdfast, "nack", ["tokens"]).await?;
    comes_to_serve(port, "/victim", "1").await?;
    world.delete("key.yaml")?;
    comes_to_serve(port, "/keyed", "1").await?;
    comes_to_blame(&holdfast, "nack", []).await
}

async fn a_refused_key_at_a_first_start_keeps_tls_hosts_open(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (plain, tls) = (world.port()?, world.port()?);
    let certificate = Certificate::of(&["victim.example", "keyed.example"])?;
    world.write("certificate.yaml", certificate.secret("default", "cert"))?;
    let hosts = ["victim", "keyed"].map(|name| https_listener(name, tls, &format!("{name}.example"), &["cert"]));
    world.gateway_with(&[http_listener(plain), hosts.concat()].concat())?;
    for name in ["victim", "keyed"] {
        let spec = format!("hostnames: [{name}.example]\n{}", good("/", "1"));
        world.route(name, &spec)?;
    }
    world.write("key.yaml", keyed(SHORT_KEY))?;
    let options = unprobed(&world, &REPLACE)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    let request = |name: &str| -> HttpRequest {
        let host = format!("{name}.example");
        get(tls, "/x").host(&host).tls(certificate.trust(&host))
    };
    request("victim").comes_to_answer(200).await?;
    get(plain, "/x").host("victim.example").comes_to_answer(200).await?;
    request("keyed").comes_to_answer(404).await?;
    comes_to_blame(&holdfast, "nack", ["tokens"]).await?;
    world.write("key.yaml", keyed(GOOD_KEY))?;
    request("keyed").comes_to_answer(401).await?;
    request("victim").answers(200).await?;
    Ok(())
}
