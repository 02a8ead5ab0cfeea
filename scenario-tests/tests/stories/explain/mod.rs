//! `holdfast explain` against a real Envoy: the explained answers of random requests at random routes are those that
//! Envoy gives.
//!
//! Each configuration is one file, which Holdfast serves while it is also translated offline.

mod random;
mod running;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use futures::future::try_join_all;
use holdfast_cli::cli::{Cli, Command};
use holdfast_cli::offline;
use holdfast_engine::engine::Action;
use holdfast_envoy::explain::answer::ExplainedAnswer;
use holdfast_envoy::explain::explain;
use holdfast_envoy::explain::request::ExplainRequest;
use holdfast_scenario_tests::request::{HttpRequest, Reply, get};
use holdfast_scenario_tests::story::dice::Dice;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories};
use holdfast_xds::Snapshot;
use hyper::Method;

use self::random::{BACKENDS, RandomRequest};

pub(crate) fn stories() -> Vec<Story> {
    let mut all = stories!("explain", true, [random_requests]);
    all.extend(running::stories());
    all
}

/// Configurations, and the requests of each.
const CONFIGURATIONS: u64 = 5;
const REQUESTS: usize = 1_200;
/// Connections that send at the same time.
const CONNECTIONS: usize = 8;
/// Differences that a failure shows.
const SHOWN: usize = 20;
/// Every kind of answer that must be among the explained ones, with the minimum number.
const KINDS: [(&str, usize); 5] =
    [("backend", 1_000), ("404", 1_000), ("redirect", 300), ("replacement", 300), ("rejected", 20)];

async fn random_requests(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in BACKENDS {
        backends.push(world.backend(name).await?);
    }
    let (port, proxies, secure) = (world.gateway()?, world.port()?, world.port()?);
    let ports = [proxies.to_string(), secure.to_string()];
    let flags = ["--httpproxy-http", &ports[0], "--httpproxy-https", &ports[1]];
    world.write("routes.yaml", random::routes(&mut Dice::new(0), 0))?;
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    let (mut kinds, mut wrong, mut sent) = (BTreeMap::new(), Vec::new(), 0);
    for number in 0..CONFIGURATIONS {
        let mut dice = Dice::new(number);
        world.write("routes.yaml", random::routes(&mut dice, number))?;
        for port in [port, proxies] {
            get(port, &format!("/configuration/{number}")).host(random::MARKER).comes_to_reach(BACKENDS[0]).await?;
        }
        let published = published(&world, &flags)?;
        let mut shares: Vec<Vec<(RandomRequest, u16, ExplainedAnswer)>> = vec![Vec::new(); CONNECTIONS];
        for index in 0..REQUESTS {
            let request = RandomRequest::new(&mut dice);
            let (gateway, port) =
                [("default/public", port), ("holdfast/httpproxy", proxies)][usize::from(index % 4 == 0)];
            let snapshot = published.get(gateway).with_context(|| format!("{gateway} is not published"))?;
            let url = format!("http://127.0.0.1:{port}{}", request.path);
            let read =
                ExplainRequest::read(request.method, &url, &request.headers(port)).map_err(anyhow::Error::msg)?;
            let answer = explain(snapshot, &read).answer;
            *kinds.entry(kind(&answer)).or_insert(0) += 1;
            shares[index % CONNECTIONS].push((request, port, answer));
        }
        let found = try_join_all(shares.iter().map(|share| differences(share))).await?;
        wrong.extend(found.into_iter().flatten().map(|found| format!("configuration {number}: {found}")));
        sent += REQUESTS;
    }
    let shown: Vec<&String> = wrong.iter().take(SHOWN).collect();
    ensure!(wrong.is_empty(), "{} of {sent} requests: {shown:#?}", wrong.len());
    for (kind, least) in KINDS {
        ensure!(kinds.get(kind).is_some_and(|count| *count >= least), "few answers are {kind}: {kinds:?}");
    }
    Ok(())
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

/// Sends requests on one connection, and returns those with another answer than the explained one.
async fn differences(share: &[(RandomRequest, u16, ExplainedAnswer)]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for port in share.iter().map(|(_, port, _)| *port).collect::<BTreeSet<_>>() {
        let mut connection = get(port, "/").connect().await?;
        for (request, _, answer) in share.iter().filter(|(_, own, _)| *own == port) {
            let sent = sent(request, port)?;
            let reply = sent.send_on(&mut connection).await?;
            if let Err(why) = agree(answer, &reply) {
                wrong.push(format!("{request:?} at port {port}: {why}"));
            }
            if reply.header("connection").eq_ignore_ascii_case("close") {
                connection = get(port, "/").connect().await?;
            }
        }
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
        ExplainedAnswer::Response { .. } => "replacement",
        ExplainedAnswer::Redirect { .. } => "redirect",
        ExplainedAnswer::NotFound { .. } => "404",
        ExplainedAnswer::Rejected { .. } => "rejected",
        ExplainedAnswer::Stream { .. } | ExplainedAnswer::NoConnection { .. } | ExplainedAnswer::Unknown { .. } => {
            "other"
        }
    }
}

/// Fails where Envoy's answer is none of the explained ones.
fn agree(answer: &ExplainedAnswer, reply: &Reply) -> Result<()> {
    let status = reply.status.as_u16();
    let agrees = match answer {
        ExplainedAnswer::Backends { backends } => {
            let pod = reply.pod().ok();
            backends.iter().filter(|backend| backend.weight > 0).any(|backend| match backend.error {
                Some(error) => error == status,
                None => pod.is_some() && pod.as_deref() == backend.object.as_ref().map(|object| &*object.name),
            })
        }
        ExplainedAnswer::Response { status: own, body } => {
            *own == status && body.as_ref().is_none_or(|body| *body == reply.body)
        }
        ExplainedAnswer::Redirect { status: own, location } => *own == status && *location == reply.header("location"),
        ExplainedAnswer::NotFound { .. } => status == 404 && reply.body.is_empty(),
        ExplainedAnswer::Rejected { status: own, .. } => *own == status,
        ExplainedAnswer::Stream { .. } | ExplainedAnswer::NoConnection { .. } | ExplainedAnswer::Unknown { .. } => {
            false
        }
    };
    let location = reply.header("location");
    ensure!(agrees, "explained {answer:?}, and Envoy answers {status} {location} {}", reply.body);
    Ok(())
}
