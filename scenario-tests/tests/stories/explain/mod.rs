//! `holdfast explain` against a real Envoy: the explained answers of random requests, with and without TLS, at random
//! listeners and routes are those that Envoy gives.
//!
//! Each configuration is one file, which Holdfast serves while it is also translated offline.

mod agreement;
mod random;
mod running;
mod secure;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use futures::future::try_join_all;
use holdfast_cli::cli::{Cli, Command};
use holdfast_cli::offline;
use holdfast_engine::engine::Action;
use holdfast_envoy::explain::answer::ExplainedAnswer;
use holdfast_envoy::explain::explain;
use holdfast_envoy::explain::request::ExplainRequest;
use holdfast_scenario_tests::manifests::http_listener;
use holdfast_scenario_tests::request::{HttpRequest, Reply, get};
use holdfast_scenario_tests::story::dice::Dice;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories};
use holdfast_xds::Snapshot;
use hyper::Method;

use self::agreement::agree;
use self::random::{BACKENDS, RandomRequest};
use self::secure::{Ports, RandomConnection};

pub(crate) fn stories() -> Vec<Story> {
    let mut all = stories!("explain", true, [random_requests]);
    all.extend(running::stories());
    all
}

/// Configurations, and the requests of each.
const CONFIGURATIONS: u64 = 5;
const REQUESTS: usize = 1_300;
/// Differences that a failure shows.
const SHOWN: usize = 20;
/// The kinds of requests and of explained answers, with the minimum number of each.
const KINDS: [(&str, usize); 13] = [
    ("backend", 700),
    ("404", 500),
    ("redirect", 300),
    ("replacement", 300),
    ("rejected", 20),
    ("denied", 100),
    ("no connection", 300),
    ("misdirected", 100),
    ("over TLS", 2_500),
    ("served over TLS", 600),
    ("unknown method", 3),
    ("call", 500),
    ("served call", 50),
];

/// A request with its explained answer.
struct Sample {
    connection: RandomConnection,
    request: RandomRequest,
    answer: ExplainedAnswer,
}

async fn random_requests(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in BACKENDS {
        backends.push(world.backend(name).await?);
    }
    let certificate = secure::certificate()?;
    world.write("secret.yaml", certificate.secret("default", "all"))?;
    let gateway = Ports { plain: world.port()?, secure: world.port()? };
    let proxies = Ports { plain: world.port()?, secure: world.port()? };
    let ports = [proxies.plain.to_string(), proxies.secure.to_string()];
    let flags = ["--httpproxy-http", &ports[0], "--httpproxy-https", &ports[1]];
    world.gateway_with(&http_listener(gateway.plain))?;
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    let (mut kinds, mut wrong, mut sent) = (BTreeMap::new(), Vec::new(), 0);
    for number in 0..CONFIGURATIONS {
        let mut dice = Dice::new(number);
        world.gateway_with(&secure::listeners(&mut dice, number, gateway))?;
        world.write("routes.yaml", random::routes(&mut dice, number, true))?;
        for ports in [gateway, proxies] {
            comes_to_be_served(number, ports, &certificate).await?;
        }
        let published = published(&world, &flags)?;
        let mut connections: BTreeMap<RandomConnection, Vec<Sample>> = BTreeMap::new();
        for sample in samples(&mut dice, &published, [gateway, proxies])? {
            for kind in sample.kinds() {
                *kinds.entry(kind).or_insert(0) += 1;
            }
            connections.entry(sample.connection.clone()).or_default().push(sample);
        }
        let found = connections.iter().map(|(kind, samples)| differences(kind, samples, &certificate));
        let found = try_join_all(found).await?;
        wrong.extend(found.into_iter().flatten().map(|found| format!("configuration {number}: {found}")));
        sent += REQUESTS;
    }
    let shown: Vec<&String> = wrong.iter().take(SHOWN).collect();
    ensure!(wrong.is_empty(), "{} of {sent} requests: {shown:#?}", wrong.len());
    for (kind, least) in KINDS {
        ensure!(kinds.get(kind).is_some_and(|count| *count >= least), "few requests are {kind}: {kinds:?}");
    }
    Ok(())
}

/// Waits until a configuration is served at both ports of a Gateway.
async fn comes_to_be_served(number: u64, ports: Ports, certificate: &Certificate) -> Result<()> {
    let (path, host) = (format!("/configuration/{number}"), secure::marker(number));
    get(ports.plain, &path).host(random::MARKER).comes_to_reach(BACKENDS[0]).await?;
    get(ports.secure, &path).host(&host).tls(certificate.trust(&host)).comes_to_reach(BACKENDS[0]).await?;
    Ok(())
}

/// Returns the requests of a configuration: a quarter of them to the Gateway of the HTTPProxies.
fn samples(dice: &mut Dice, published: &BTreeMap<String, Snapshot>, ports: [Ports; 2]) -> Result<Vec<Sample>> {
    let resources = |name: &str| published.get(name).with_context(|| format!("{name} is not published"));
    let (gateway, proxies) = (resources("default/public")?, resources("holdfast/httpproxy")?);
    let one = |index| match index % 4 {
        0 => Sample::new(dice, ports[1], proxies),
        _ => Sample::new(dice, ports[0], gateway),
    };
    (0..REQUESTS).map(one).collect()
}

impl Sample {
    fn new(dice: &mut Dice, ports: Ports, resources: &Snapshot) -> Result<Self> {
        let request = RandomRequest::new(dice);
        let connection = RandomConnection::new(dice, ports, request.host);
        let (url, headers) = (connection.url(&request.path), request.headers(connection.port));
        let read = ExplainRequest::read(request.method, &url, &headers).map_err(anyhow::Error::msg)?;
        let answer = explain(resources, &read).answer;
        Ok(Self { connection, request, answer })
    }

    /// Returns the kinds of the request and of its answer, for the figures.
    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = vec![kind(&self.answer)];
        if self.request.is_call() {
            kinds.push("call");
            kinds.extend(self.answer.is_served().then_some("served call"));
        }
        if self.connection.tls {
            kinds.push("over TLS");
            kinds.extend(self.answer.is_served().then_some("served over TLS"));
        }
        kinds
    }
}

/// Returns the resources of each Gateway, translated offline from the manifests that Holdfast serves.
fn published(world: &World, flags: &[&str]) -> Result<BTreeMap<String, Snapshot>> {
    let line = [&["holdfast", "translate", "-"], flags].concat();
    let Command::Translate(args) = Cli::try_parse_from(line)?.command else { bail!("another command") };
    let offline = offline::translate(&[world.manifests()], args.translation.settings()?)?;
    let snapshot = |action| match action {
        Action::Publish { gateway, offers } => Some((String::from(&*gateway), offers.everyone)),
        _ => None,
    };
    Ok(offline.actions.into_iter().filter_map(snapshot).collect())
}

/// Sends requests one after the other, on one connection as long as it is open, and returns those with another answer
/// than the explained one.
async fn differences(kind: &RandomConnection, samples: &[Sample], certificate: &Certificate) -> Result<Vec<String>> {
    let (mut wrong, mut open) = (Vec::new(), None);
    for Sample { request, answer, .. } in samples {
        let sent = kind.on(sent(request, kind.port)?, certificate);
        if open.is_none() {
            open = sent.connect().await.ok();
        }
        let reply = match &mut open {
            Some(connection) => sent.send_on(connection).await.ok(),
            None => None,
        };
        if let Err(why) = agree(answer, reply.as_ref(), kind.http2) {
            wrong.push(format!("{request:?} on {kind:?}: {why}"));
        }
        let stays = |reply: &Reply| !reply.header("connection").eq_ignore_ascii_case("close");
        open = open.filter(|_| reply.as_ref().is_some_and(stays));
    }
    Ok(wrong)
}

fn sent(request: &RandomRequest, port: u16) -> Result<HttpRequest> {
    let mut sent = get(port, &request.path).method(Method::from_bytes(request.method.as_bytes())?);
    for (name, value) in request.headers(port) {
        sent = if name == "Host" { sent.host(&value) } else { sent.header(&name, &value) };
    }
    Ok(sent)
}

/// Returns the kind of an explained answer, for the figures.
fn kind(answer: &ExplainedAnswer) -> &'static str {
    match answer {
        ExplainedAnswer::Backends { .. } if answer.is_served() => "backend",
        ExplainedAnswer::Backends { .. } => "partly missing backend",
        ExplainedAnswer::Shares { .. } => "shares",
        ExplainedAnswer::Response { status: 421, .. } => "misdirected",
        ExplainedAnswer::Response { .. } => "replacement",
        ExplainedAnswer::Redirect { .. } => "redirect",
        ExplainedAnswer::NotFound { .. } => "404",
        ExplainedAnswer::Rejected { why, .. } if why.contains("(rbac)") => "denied",
        ExplainedAnswer::Rejected { .. } => "rejected",
        ExplainedAnswer::NoConnection { .. } => "no connection",
        ExplainedAnswer::Unknown { .. } => "unknown method",
        ExplainedAnswer::Stream { .. } => "other",
    }
}
