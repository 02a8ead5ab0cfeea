//! Generated regexes and conditions in CEL: the check and a real Envoy agree. Envoy validates configurations of
//! hundreds of routes, with the bootstrap that Holdfast generates.
//!
//! Whatever the check accepts, Envoy must accept. What the check refuses and Envoy accepts is counted and printed by
//! reason. With `HOLDFAST_FIGURES` there are 20,000 texts instead of 1,500.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, anyhow, ensure};
use envoy_types::pb::envoy::config::bootstrap::v3::{Bootstrap as EnvoyBootstrap, bootstrap::StaticResources};
use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::{Address, SocketAddress, socket_address::PortSpecifier};
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType as FilterConfig;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteConfiguration, RouteMatch, VirtualHost,
};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_connection_manager::RouteSpecifier, http_filter::ConfigType,
};
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatcher;
use envoy_types::pb::google::api::expr::v1alpha1::constant::ConstantKind;
use envoy_types::pb::google::api::expr::v1alpha1::expr::ExprKind;
use envoy_types::pb::google::protobuf::Any;
use holdfast_check::re2::{Limits, Regexes};
use holdfast_envoy::bootstrap::{Bootstrap, MAX_CONNECTIONS, MAX_HEAP_BYTES, ServerAddress};
use holdfast_envoy::features::rbac::Conditions;
use holdfast_scenario_tests::{Story, World, envoy, stories};
use holdfast_test_support::expressions;
use holdfast_test_support::matches::choices;
use holdfast_xds::connection::Protocol;
use prost::{Message, Name};

/// Name of the RBAC filter.
const RBAC: &str = "envoy.filters.http.rbac";
/// Number of routes in one configuration.
const BATCH: usize = 400;

pub(crate) fn stories() -> Vec<Story> {
    stories!("expressions", true, [regexes_of_routes, regexes_of_conditions, conditions])
}

/// Number of texts of one story, and the number of refused ones of each reason that Envoy judges.
fn counts() -> (u64, usize) {
    if measures() { (20_000 / 3 + 1, 60) } else { (500, 4) }
}

fn measures() -> bool {
    std::env::var_os("HOLDFAST_FIGURES").is_some()
}

async fn regexes_of_routes(world: World) -> Result<()> {
    compare(&world, |seed| {
        let pattern = expressions::regex(&mut choices(seed));
        let verdict = Regexes::of_object(Limits::default()).check(&pattern);
        let matcher = RegexMatcher { regex: pattern.clone(), ..Default::default() };
        let route = route(PathSpecifier::SafeRegex(matcher), None);
        Case { text: pattern, fault: verdict.err().map(|fault| fault.to_string()), route: Some(route) }
    })
    .await
}

async fn regexes_of_conditions(world: World) -> Result<()> {
    compare(&world, |seed| {
        let pattern = expressions::regex(&mut choices(seed));
        let text = format!("request.path.matches({})", expressions::text(&pattern));
        let verdict = conditions_of(&text);
        // A refused regex has no form for Envoy, so it takes the place of another one.
        let mut encoded = conditions_of("request.path.matches('x')").unwrap_or_default();
        put_regex(&mut encoded, &pattern);
        Case { text, fault: verdict.err(), route: Some(guarded(&encoded)) }
    })
    .await
}

async fn conditions(world: World) -> Result<()> {
    compare(&world, |seed| {
        let text = expressions::condition(3, &mut choices(seed));
        match conditions_of(&text) {
            Ok(encoded) => Case { text, fault: None, route: Some(guarded(&encoded)) },
            Err(fault) => Case { text, fault: Some(fault), route: None },
        }
    })
    .await
}

/// A generated text, the fault that the check finds, and a route with the text, if it has a form for Envoy.
struct Case {
    text: String,
    fault: Option<String>,
    route: Option<Route>,
}

fn conditions_of(text: &str) -> Result<RbacPerRoute, String> {
    let regexes = Regexes::of_object(Limits::default());
    let flaws = |flaws: Vec<holdfast_envoy::features::Flaw>| {
        flaws.first().map_or_else(String::new, |flaw| flaw.message.clone())
    };
    Conditions::read(false, [text], &regexes).map(|conditions| conditions.encode()).map_err(flaws)
}

fn put_regex(encoded: &mut RbacPerRoute, pattern: &str) {
    let rules = encoded.rbac.as_mut().and_then(|rbac| rbac.rules.as_mut());
    let policy = rules.and_then(|rules| rules.policies.values_mut().next());
    let call = match policy.and_then(|policy| policy.condition.as_mut()).and_then(|expr| expr.expr_kind.as_mut()) {
        Some(ExprKind::CallExpr(call)) => call,
        _ => return,
    };
    if let Some(ExprKind::ConstExpr(constant)) = call.args.first_mut().and_then(|expr| expr.expr_kind.as_mut()) {
        constant.constant_kind = Some(ConstantKind::StringValue(pattern.to_owned()));
    }
}

/// Compares the verdicts about the texts of all seeds.
async fn compare(world: &World, case: impl Fn(u64) -> Case) -> Result<()> {
    let (seeds, samples_of_each) = counts();
    let envoy = Validator::new(world)?;
    let (mut accepted, mut refused) = (Vec::new(), BTreeMap::<String, Vec<Case>>::new());
    for seed in 1..=seeds {
        let case = case(seed);
        match &case.fault {
            None => accepted.push(case),
            Some(fault) => refused.entry(reason(fault)).or_default().push(case),
        }
    }
    ensure!(accepted.len() as u64 > seeds / 5, "only {} of {seeds} texts are accepted", accepted.len());
    let mut wrong = Vec::new();
    for batch in accepted.chunks(BATCH) {
        envoy.culprits(batch, &mut wrong).await?;
    }
    for (reason, cases) in &refused {
        let samples: Vec<&Case> = cases.iter().filter(|case| case.route.is_some()).take(samples_of_each).collect();
        let mut taken = Vec::new();
        for case in &samples {
            if envoy.refusal(&[*case]).await?.is_none() {
                taken.push(&case.text);
            }
        }
        let (all, some) = (cases.len(), samples.len());
        if measures() || !taken.is_empty() {
            println!("{all} refused: {reason}: Envoy accepts {} of {some}: {:?}", taken.len(), taken.first());
        }
    }
    if measures() {
        println!("{} accepted by the check, {} of them refused by Envoy", accepted.len(), wrong.len());
    }
    ensure!(wrong.is_empty(), "Envoy refuses what the check accepts:\n{}", wrong.join("\n"));
    Ok(())
}

/// Returns a fault without the parts that depend on the text.
fn reason(fault: &str) -> String {
    let without_place =
        fault.strip_prefix("column ").and_then(|rest| rest.split_once(": ")).map_or(fault, |(_, rest)| rest);
    let parts = without_place.split('"').step_by(2).collect::<Vec<_>>().join("…");
    parts.chars().map(|character| if character.is_ascii_digit() { '#' } else { character }).take(90).collect()
}

/// An Envoy that validates configurations.
struct Validator {
    binary: PathBuf,
    folder: PathBuf,
    /// The bootstrap of Holdfast.
    bootstrap: String,
}

impl Validator {
    fn new(world: &World) -> Result<Self> {
        let bootstrap = Bootstrap {
            gateway: "default/public".into(),
            node_id: "one".into(),
            xds: ServerAddress::Unix(world.folder().join("xds.sock")),
            credentials: None,
            admin: None,
            mode: Protocol::Delta,
            max_heap_bytes: MAX_HEAP_BYTES,
            max_connections: MAX_CONNECTIONS,
        };
        let binary = envoy::find().map_err(|error| anyhow!(error))?;
        Ok(Self { binary, folder: world.folder().to_owned(), bootstrap: bootstrap.to_json().to_string() })
    }

    /// Adds the cases that Envoy refuses, each with its message.
    async fn culprits(&self, cases: &[Case], found: &mut Vec<String>) -> Result<()> {
        let mut left = vec![cases];
        while let Some(cases) = left.pop() {
            let all: Vec<&Case> = cases.iter().collect();
            let Some(message) = self.refusal(&all).await? else { continue };
            match cases {
                [only] => found.push(format!("{:?}: {message}", only.text)),
                _ => {
                    let (first, second) = cases.split_at(cases.len() / 2);
                    left.extend([second, first]);
                }
            }
        }
        Ok(())
    }

    /// Returns the message of Envoy if it refuses the cases together.
    async fn refusal(&self, cases: &[&Case]) -> Result<Option<String>> {
        let path = self.folder.join("routes.pb");
        let routes = cases.iter().filter_map(|case| case.route.clone()).collect();
        std::fs::write(&path, listeners(routes).encode_to_vec())?;
        let mut command = tokio::process::Command::new(&self.binary);
        command.args(["--mode", "validate", "-l", "error", "--config-yaml", &self.bootstrap, "-c"]).arg(&path);
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("Envoy cannot be run")?;
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.rsplit("error initializing configuration").next().unwrap_or_default().trim();
        Ok((!output.status.success()).then(|| message.to_owned()))
    }
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

fn route(path: PathSpecifier, guard: Option<&RbacPerRoute>) -> Route {
    Route {
        r#match: Some(RouteMatch { path_specifier: Some(path), ..Default::default() }),
        action: Some(Action::DirectResponse(DirectResponseAction { status: 200, body: None, ..Default::default() })),
        typed_per_filter_config: guard.map(|guard| (RBAC.to_owned(), any(guard))).into_iter().collect(),
        ..Default::default()
    }
}

fn guarded(guard: &RbacPerRoute) -> Route {
    route(PathSpecifier::Prefix("/".to_owned()), Some(guard))
}

fn listeners(routes: Vec<Route>) -> EnvoyBootstrap {
    let filter = |name: &str, config: Any| HttpFilter {
        name: name.to_owned(),
        config_type: Some(ConfigType::TypedConfig(config)),
        ..Default::default()
    };
    let host = VirtualHost { name: "all".to_owned(), domains: vec!["*".to_owned()], routes, ..Default::default() };
    let table = RouteConfiguration { virtual_hosts: vec![host], ..Default::default() };
    let manager = HttpConnectionManager {
        stat_prefix: "all".to_owned(),
        http_filters: vec![
            filter(RBAC, any(&Rbac::default())),
            filter("envoy.filters.http.router", any(&Router::default())),
        ],
        route_specifier: Some(RouteSpecifier::RouteConfig(table)),
        ..Default::default()
    };
    let filter = Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(FilterConfig::TypedConfig(any(&manager))),
    };
    let socket = SocketAddress {
        address: "127.0.0.1".to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(0)),
        ..Default::default()
    };
    let listener = Listener {
        name: "all".to_owned(),
        address: Some(Address { address: Some(AddressKind::SocketAddress(socket)) }),
        filter_chains: vec![FilterChain { filters: vec![filter], ..Default::default() }],
        ..Default::default()
    };
    let resources = StaticResources { listeners: vec![listener], ..Default::default() };
    EnvoyBootstrap { static_resources: Some(resources), ..Default::default() }
}
