//! Client certificates that a Gateway requires (`spec.tls.frontend`): the clients that are served, and that no
//! mistake, no last valid version and no restart opens a listener to others.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, https_listener, listener};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::{Certificate, StoryAuthority};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};
use serde_json::Value;

use crate::fallback::BACKFILL;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "frontend",
        true,
        [
            clients_show_certificates,
            every_client_for_a_time,
            a_listener_of_a_set,
            two_validations,
            nothing_earlier_opens_a_listener,
            authorities_that_only_envoy_refuses,
            authorities_that_the_probe_refuses,
            authorities_of_a_policy_that_only_envoy_refuses,
            one_of_two_authorities_is_refused,
        ]
    )
}

const HOST: &str = "shop.example.com";

/// A Gateway with two TLS ports and one without TLS, and the certificate authorities of its clients.
struct Shop {
    certificate: Certificate,
    ours: StoryAuthority,
    others: StoryAuthority,
    strict: u16,
    free: u16,
    plain: u16,
}

impl Shop {
    /// Writes everything except the Gateway: certificate, authorities, backend and route.
    fn new(world: &World) -> Result<Self> {
        let shop = Self {
            certificate: Certificate::of(&[HOST])?,
            ours: StoryAuthority::new("ours")?,
            others: StoryAuthority::new("others")?,
            strict: world.port()?,
            free: world.port()?,
            plain: world.port()?,
        };
        world.write("certificate.yaml", shop.certificate.secret("default", "certificate"))?;
        world.write("ours.yaml", authorities("ConfigMap", "default", "ours", &shop.ours))?;
        world.write("others.yaml", authorities("Secret", "default", "others", &shop.others))?;
        world.route("r", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
        Ok(shop)
    }

    /// Writes the Gateway. `tls` has the fields below `spec.tls`.
    fn gateway(&self, world: &World, tls: &str) -> Result<()> {
        let listeners = format!(
            "{}{}{}",
            https_listener("strict", self.strict, "", &["certificate"]),
            https_listener("free", self.free, "", &["certificate"]),
            listener("plain", self.plain, "protocol: HTTP"),
        );
        let gateway = manifests::gateway("public", &listeners).replace(
            "  listeners:\n",
            &format!("  allowedListeners: {{namespaces: {{from: All}}}}\n  tls: {{{tls}}}\n  listeners:\n"),
        );
        world.write("gateway.yaml", documents(&[manifests::class(), gateway]))
    }

    /// Fields of `spec.tls`: a validation at all TLS ports except one.
    fn validated(&self, validation: &str) -> String {
        format!(
            "frontend: {{default: {{validation: {{{validation}}}}}, perPort: [{{port: {}, tls: {{}}}}]}}",
            self.free
        )
    }

    fn request(&self, port: u16, shown: Option<&Certificate>) -> HttpRequest {
        let trust = self.certificate.trust(HOST);
        get(port, "/").host(HOST).tls(if let Some(shown) = shown { trust.showing(shown) } else { trust })
    }

    async fn comes_to_refuse(&self, shown: Option<&Certificate>) -> Result<()> {
        until("connections are refused", || async {
            let answer = self.request(self.strict, shown).send().await;
            ensure!(answer.is_err(), "it is answered: {answer:?}");
            Ok(())
        })
        .await
    }
}

fn authorities(kind: &str, namespace: &str, name: &str, authority: &StoryAuthority) -> String {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    let text = Value::from(&*authority.pem);
    format!(
        "apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n{field}: {{ca.crt: {text}}}\n"
    )
}

fn named(kind: &str, name: &str) -> String {
    format!("caCertificateRefs: [{{group: \"\", kind: {kind}, name: {name}}}]")
}

async fn status(world: &World, holdfast: &Holdfast) -> Result<String> {
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    Ok(world.command(&["status", "--diagnostics", &diagnostics]).await?.stdout)
}

async fn comes_to_report(world: &World, holdfast: &Holdfast, words: &[&str]) -> Result<()> {
    until(&format!("the status contains {words:?}"), || async {
        let text = status(world, holdfast).await?;
        let missing: Vec<_> = words.iter().filter(|words| !text.contains(**words)).collect();
        ensure!(missing.is_empty(), "{missing:?} is not in {text}");
        Ok(())
    })
    .await
}

/// Each mistake closes the port with the validation; a reference that cannot be used closes no other port. The correction
/// opens it.
async fn clients_show_certificates(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let shop = Shop::new(&world)?;
    let (known, untrusted) = (shop.ours.client("known", 1)?, shop.others.client("untrusted", 1)?);
    let right = shop.validated(&named("ConfigMap", "ours"));
    shop.gateway(&world, &right)?;
    let holdfast = world.run().await?;
    shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;
    shop.request(shop.strict, Some(&known)).http2().reaches("echo").await?;
    shop.request(shop.free, None).comes_to_reach("echo").await?;
    tokio::time::sleep(std::time::Duration::from_secs(14)).await;
    for (port, requires) in [(shop.strict, true), (shop.free, false)] {
        let (diagnostics, url) = (holdfast.options.diagnostics, format!("https://{HOST}:{port}/"));
        let args = ["explain", "--diagnostics", &format!("127.0.0.1:{diagnostics}"), "GET", &url];
        let text = world.command(&args).await?.stdout;
        ensure!(text.contains("must show a certificate") == requires, "{text}");
    }
    let neighbour = Hammer::start([get(shop.plain, "/").host(HOST)]);
    let free = Hammer::start([shop.request(shop.free, None)]);
    let intruders = Hammer::start([shop.request(shop.strict, None), shop.request(shop.strict, Some(&untrusted))]);
    world.write("vault.yaml", authorities("ConfigMap", "vault", "ours", &shop.ours))?;
    let elsewhere = "caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ours, namespace: vault}]";
    let entry = format!("{{port: {}, tls: {{}}}}", shop.strict);
    let of_references = [
        (shop.validated(&named("ConfigMap", "gone")), "ConfigMap default/gone does not exist"),
        (shop.validated(&named("Service", "echo")), "must reference ConfigMaps or Secrets, not core/Service"),
        (shop.validated(elsewhere), "no ReferenceGrant there allows Gateways of default to use it"),
        (shop.validated("caCertificateRefs: []"), "must have from 1 to 8 entries"),
    ];
    // What cannot be read could have been meant for any port.
    let unreadable = [
        (
            shop.validated(&format!("{}, mode: Perhaps", named("ConfigMap", "ours"))),
            "spec.tls.frontend.default.validation.mode",
        ),
        (right.replace("caCertificateRefs", "caCertificates"), "spec.tls.frontend.default.validation"),
        (right.replace("validation", "validatoin"), "validatoin"),
        (right.replace("frontend", "frontent"), "frontent"),
        (format!("frontend: {{default: {{}}, perPort: [{entry}, {entry}]}}"), "has an entry already"),
    ];
    let closes = async |mistakes: &[(String, &str)]| -> Result<()> {
        for (mistake, why) in mistakes {
            shop.gateway(&world, mistake)?;
            shop.comes_to_refuse(Some(&known)).await?;
            comes_to_report(&world, &holdfast, &["1 outage,", "Gateway default/public", why]).await?;
            shop.gateway(&world, &right)?;
            shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;
        }
        Ok(())
    };
    closes(&of_references).await?;
    free.stop_expecting(Shot::is_ok).await?;
    closes(&unreadable).await?;
    intruders.goes_on(20).await?;
    intruders.stop_expecting(|shot| !shot.is_ok()).await?;
    neighbour.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// `AllowInsecureFallback` accepts every client; afterwards, connections of that time are not served either.
async fn every_client_for_a_time(world: World) -> Result<()> {
    let echo = world.backend("echo").await?;
    let shop = Shop::new(&world)?;
    let (known, untrusted) = (shop.ours.client("known", 1)?, shop.others.client("untrusted", 1)?);
    let right = named("ConfigMap", "ours");
    shop.gateway(&world, &shop.validated(&format!("{right}, mode: AllowInsecureFallback")))?;
    let holdfast = world.run().await?;
    for shown in [None, Some(&untrusted), Some(&known)] {
        shop.request(shop.strict, shown).comes_to_reach("echo").await?;
    }
    let condition = |statuses: &serde_json::Value| {
        let objects = statuses["objects"].as_array().into_iter().flatten();
        let mut gateways = objects.filter(|entry| entry["object"]["kind"] == "Gateway");
        let conditions = gateways.next().map(|entry| entry["status"]["conditions"].clone()).unwrap_or_default();
        conditions.to_string().contains("InsecureFrontendValidationMode")
    };
    ensure!(condition(&holdfast.diagnostics("/debug/statuses").await?), "the Gateway has no condition");
    let mut older = shop.request(shop.strict, None).connect().await?;
    shop.request(shop.strict, None).send_on(&mut older).await?.from_pod("echo")?;
    shop.gateway(&world, &shop.validated(&right))?;
    shop.comes_to_refuse(None).await?;
    shop.comes_to_refuse(Some(&untrusted)).await?;
    shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;
    let before = echo.received();
    // Envoy may close a connection of the filter chain from before.
    let answer = shop.request(shop.strict, None).send_on(&mut older).await;
    let is_refused = answer.as_ref().map_or(true, |answer| answer.status == 403);
    ensure!(is_refused && echo.received() == before, "{answer:?}");
    ensure!(!condition(&holdfast.diagnostics("/debug/statuses").await?), "the condition stays");
    // A listener that is closed refuses the requests of connections from before as well.
    let mut older = shop.request(shop.strict, Some(&known)).http2().connect().await?;
    shop.request(shop.strict, Some(&known)).send_on(&mut older).await?.from_pod("echo")?;
    shop.gateway(&world, &shop.validated(&named("ConfigMap", "gone")))?;
    shop.comes_to_refuse(Some(&known)).await?;
    loop {
        // The route configuration is sent after the listener, and usually before Envoy closes the connection.
        let Ok(answer) = shop.request(shop.strict, Some(&known)).send_on(&mut older).await else { break };
        if answer.status == 500 {
            break;
        }
        answer.from_pod("echo")?;
    }
    // Clients of another authority, instead of those before.
    shop.gateway(&world, &shop.validated(&named("Secret", "others")))?;
    shop.request(shop.strict, Some(&untrusted)).comes_to_reach("echo").await?;
    shop.comes_to_refuse(Some(&known)).await?;
    // Of one usable and one unusable authority, the usable one is in force.
    let both =
        "caCertificateRefs: [{group: \"\", kind: Secret, name: others}, {group: \"\", kind: Secret, name: gone}]";
    shop.gateway(&world, &shop.validated(both))?;
    comes_to_report(&world, &holdfast, &["Secret default/gone does not exist"]).await?;
    shop.request(shop.strict, Some(&untrusted)).reaches("echo").await?;
    shop.comes_to_refuse(Some(&known)).await?;
    shop.comes_to_refuse(None).await
}

/// The validation of a Gateway applies to a TLS listener that a ListenerSet of another team adds.
async fn a_listener_of_a_set(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let shop = Shop::new(&world)?;
    let known = shop.ours.client("known", 1)?;
    let port = world.port()?;
    shop.gateway(&world, &shop.validated(&named("ConfigMap", "ours")))?;
    world.write(
        "set.yaml",
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: team, namespace: default}}\n\
             spec:\n  parentRef: {{name: public}}\n  listeners:\n{}",
            manifests::indent(&https_listener("own", port, "", &["certificate"]), 2)
        ),
    )?;
    let parent = "- {name: team, kind: ListenerSet, group: gateway.networking.k8s.io}\n";
    let spec = "rules:\n- backendRefs: [{name: echo, port: 8080}]";
    world.write("of-set.yaml", manifests::route("HTTPRoute", "default", "of-set", parent, spec))?;
    let holdfast = world.run().await?;
    shop.request(port, Some(&known)).comes_to_reach("echo").await?;
    ensure!(shop.request(port, None).send().await.is_err(), "a client without a certificate is answered");
    world.write("ours.yaml", authorities("ConfigMap", "default", "ours", &shop.others))?;
    until("the earlier authority is refused", || async {
        ensure!(shop.request(port, Some(&known)).send().await.is_err(), "it is answered");
        Ok(())
    })
    .await?;
    world.delete("ours.yaml")?;
    let affected = ["ConfigMap default/ours does not exist", "ListenerSet default/team", "connections to listeners[0]"];
    comes_to_report(&world, &holdfast, &[&affected[..], &["1 outage,"]].concat()).await?;
    ensure!(shop.request(port, Some(&shop.others.client("other", 1)?)).send().await.is_err(), "a client is answered");
    Ok(())
}

/// A Gateway and a ListenerPolicy that both validate close the listener: it can have only one validation.
async fn two_validations(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let shop = Shop::new(&world)?;
    let known = shop.ours.client("known", 1)?;
    shop.gateway(&world, &shop.validated(&named("ConfigMap", "ours")))?;
    let policy = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: ListenerPolicy\nmetadata: {{name: p, namespace: default}}\nspec:\n  \
         targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: strict}}]\n  \
         default: {{clientCertificateValidation: {{mode: Optional, {}}}}}\n",
        named("ConfigMap", "ours")
    );
    let holdfast = world.run().await?;
    shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;
    world.write("policy.yaml", policy)?;
    shop.request(shop.strict, Some(&known)).comes_to_answer(500).await?;
    ensure!(shop.request(shop.strict, None).send().await.is_err(), "a client without a certificate is answered");
    comes_to_report(&world, &holdfast, &["ListenerPolicy default/p", "the Gateway validates the client certificates"])
        .await?;
    shop.request(shop.free, None).reaches("echo").await?;
    world.delete("policy.yaml")?;
    shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;
    Ok(())
}

/// With last valid versions: a broken certificate and a broken Gateway are served in earlier versions, and the validation
/// and the certificate authorities in today's, also after a kill.
async fn nothing_earlier_opens_a_listener(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let shop = Shop::new(&world)?;
    let (known, untrusted) = (shop.ours.client("known", 1)?, shop.others.client("untrusted", 1)?);
    let key = world.folder().join("store.key");
    std::fs::write(&key, "0123456789abcdef".repeat(4))?;
    // An earlier version of the Gateway accepts every client, and one before that all clients of the other authority.
    shop.gateway(&world, &shop.validated(&named("Secret", "others")))?;
    let options = HoldfastOptions::new(&world)?.args(&BACKFILL).args(&["--store-key-file", &key.display().to_string()]);
    let holdfast = world.run_with(options).await?;
    shop.request(shop.strict, Some(&untrusted)).comes_to_reach("echo").await?;
    shop.gateway(&world, "")?;
    shop.request(shop.strict, None).comes_to_reach("echo").await?;
    shop.gateway(&world, &shop.validated(&named("ConfigMap", "ours")))?;
    shop.comes_to_refuse(None).await?;
    shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;
    let intruders = Hammer::start([shop.request(shop.strict, None), shop.request(shop.strict, Some(&untrusted))]);

    // Two owners, two mistakes: the certificate of the listener, then the authorities.
    world
        .write("certificate.yaml", shop.certificate.secret("default", "certificate").replace("tls.crt", "tls.cert"))?;
    comes_to_report(&world, &holdfast, &["Secret default/certificate", "last valid since"]).await?;
    shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;
    world.write("ours.yaml", authorities("ConfigMap", "default", "ours", &shop.ours).replace("BEGIN", "BEGAN"))?;
    shop.comes_to_refuse(Some(&known)).await?;
    comes_to_report(&world, &holdfast, &["ConfigMap default/ours", "OUTAGES"]).await?;
    shop.request(shop.free, None).reaches("echo").await?;

    // After a kill, the same.
    holdfast.comes_to_store("core/Secret:default/certificate", 1).await?;
    holdfast.comes_to_store("gateway.networking.k8s.io/Gateway:default/public", 3).await?;
    let holdfast = world.run_with(holdfast.kill()?).await?;
    shop.request(shop.free, None).comes_to_reach("echo").await?;
    tokio::time::sleep(std::time::Duration::from_secs(14)).await;
    shop.comes_to_refuse(Some(&known)).await?;
    world.write("ours.yaml", authorities("ConfigMap", "default", "ours", &shop.ours))?;
    shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;

    // A Gateway that cannot be read stays as it was, with its validation.
    world.write("gateway.yaml", "kind: [")?;
    comes_to_report(&world, &holdfast, &["gateway.yaml"]).await?;
    let _holdfast = world.run_with(holdfast.kill()?).await?;
    shop.request(shop.strict, Some(&known)).comes_to_reach("echo").await?;
    intruders.goes_on(20).await?;
    intruders.stop_expecting(|shot| !shot.is_ok()).await?;
    Ok(())
}

/// Returns a certificate of an authority with a name that is not valid UTF-8, which only Envoy refuses.
fn misnamed(authority: &StoryAuthority, name: &str) -> Result<String> {
    let body: String = authority.pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let mut der = STANDARD.decode(body)?;
    let places: Vec<usize> = (0..der.len()).filter(|at| der[*at..].starts_with(name.as_bytes())).collect();
    ensure!(!places.is_empty(), "the certificate does not contain {name}");
    for at in places {
        der[at + name.len() - 1] = 0xff;
    }
    Ok(format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der)))
}

async fn authorities_that_only_envoy_refuses(world: World) -> Result<()> {
    refused_authorities(&world, "off", false).await
}

async fn authorities_that_the_probe_refuses(world: World) -> Result<()> {
    refused_authorities(&world, "on", false).await
}

async fn authorities_of_a_policy_that_only_envoy_refuses(world: World) -> Result<()> {
    refused_authorities(&world, "off", true).await
}

/// The authorities are at fault, although Envoy refuses a TLS context that also has the certificate: their port closes,
/// and the other port with the same certificate is served, before and after a restart and the repair.
async fn refused_authorities(world: &World, probe: &str, by_policy: bool) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let shop = Shop::new(world)?;
    let mut odd = StoryAuthority::new("ours")?;
    odd.pem = misnamed(&odd, "ours")?;
    world.write("ours.yaml", authorities("ConfigMap", "default", "ours", &odd))?;
    if by_policy {
        shop.gateway(world, "")?;
        let spec = format!("clientCertificateValidation: {{mode: Require, {}}}", named("ConfigMap", "ours"));
        world.write("policy.yaml", validating_policy(&spec))?;
    } else {
        shop.gateway(world, &shop.validated(&named("ConfigMap", "ours")))?;
    }
    let options = HoldfastOptions::new(world)?.args(&BACKFILL).args(&["--probe", probe]);
    let mut holdfast = world.run_with(options).await?;
    let client = shop.ours.client("client", 1)?;
    for is_restarted in [false, true] {
        if is_restarted {
            holdfast = world.run_with(holdfast.kill()?).await?;
        }
        let words = [
            "ConfigMap default/ours",
            "Failed to load trusted CA certificates",
            "Gateway default/public: connections to listeners[0] are refused",
            "1 acknowledged, 0 refused, 0 pending",
        ];
        comes_to_report(world, &holdfast, &words).await?;
        shop.request(shop.free, None).comes_to_reach("echo").await?;
        get(shop.plain, "/").host(HOST).comes_to_reach("echo").await?;
        shop.comes_to_refuse(Some(&client)).await?;
        let text = status(world, &holdfast).await?;
        ensure!(!text.contains("Secret default/certificate") && !text.contains("listeners[1]"), "{text}");
        let programmed = programmed(&holdfast).await?;
        ensure!(programmed == [("strict", "False"), ("free", "True"), ("plain", "True")].map(owned), "{programmed:?}");
    }

    world.write("ours.yaml", authorities("ConfigMap", "default", "ours", &shop.ours))?;
    shop.request(shop.strict, Some(&client)).comes_to_reach("echo").await?;
    until("nothing is at fault", || async {
        let text = status(world, &holdfast).await?;
        ensure!(!text.contains("default/ours") && !text.contains("default/certificate"), "{text}");
        let programmed = programmed(&holdfast).await?;
        ensure!(programmed.iter().all(|(_, status)| status == "True"), "{programmed:?}");
        Ok(())
    })
    .await?;
    shop.comes_to_refuse(None).await
}

/// If Envoy refuses the authorities of two objects together, any of them can be at fault: only the listener that uses both
/// is closed.
async fn one_of_two_authorities_is_refused(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let shop = Shop::new(&world)?;
    let mut odd = StoryAuthority::new("ours")?;
    odd.pem = misnamed(&odd, "ours")?;
    world.write("ours.yaml", authorities("ConfigMap", "default", "ours", &odd))?;
    let (ours, others) = ("{group: \"\", kind: ConfigMap, name: ours}", "{group: \"\", kind: Secret, name: others}");
    shop.gateway(
        &world,
        &format!(
            "frontend: {{default: {{validation: {{caCertificateRefs: [{ours}, {others}]}}}}, \
             perPort: [{{port: {}, tls: {{validation: {{caCertificateRefs: [{others}]}}}}}}]}}",
            shop.free
        ),
    )?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let client = shop.others.client("client", 1)?;
    let words = [
        "Gateway default/public",
        "in core/ConfigMap:default/ours or core/Secret:default/others",
        "listeners[0] are refused",
        "1 acknowledged, 0 refused, 0 pending",
    ];
    comes_to_report(&world, &holdfast, &words).await?;
    shop.request(shop.free, Some(&client)).comes_to_reach("echo").await?;
    get(shop.plain, "/").host(HOST).comes_to_reach("echo").await?;
    shop.comes_to_refuse(Some(&client)).await?;
    let conditions = programmed(&holdfast).await?;
    ensure!(conditions == [("strict", "False"), ("free", "True"), ("plain", "True")].map(owned), "{conditions:?}");

    world.write("ours.yaml", authorities("ConfigMap", "default", "ours", &shop.ours))?;
    shop.request(shop.strict, Some(&client)).comes_to_reach("echo").await?;
    shop.comes_to_refuse(None).await
}

/// Returns a ListenerPolicy for the listener `strict`.
fn validating_policy(spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: ListenerPolicy\nmetadata: {{name: clients, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: strict}}]\n\
         \x20 default: {{{spec}}}\n"
    )
}

fn owned((name, status): (&str, &str)) -> (String, String) {
    (name.to_owned(), status.to_owned())
}

/// Returns the status of the condition `Programmed` of each listener.
async fn programmed(holdfast: &Holdfast) -> Result<Vec<(String, String)>> {
    let statuses = holdfast.diagnostics("/debug/statuses").await?;
    let objects = statuses["objects"].as_array().context("no objects")?;
    let gateway = objects.iter().find(|object| object["object"]["kind"] == "Gateway").context("no Gateway")?;
    let listeners = gateway["status"]["listeners"].as_array().context("no listeners")?;
    let programmed = |listener: &Value| {
        let mut conditions = listener["conditions"].as_array().into_iter().flatten();
        let programmed = conditions.find(|condition| condition["type"] == "Programmed")?;
        Some((listener["name"].as_str()?.to_owned(), programmed["status"].as_str()?.to_owned()))
    };
    listeners.iter().map(|listener| programmed(listener).context("no condition")).collect()
}
