//! A typo in the path expression of a guarded rule, beside routes of another owner that match some of its requests: no
//! request of the rule reaches the backend of the other owner, before, during and after the edit.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::grpc::call;
use holdfast_scenario_tests::manifests::{NAMESPACE, http_route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories, until};
use holdfast_test_support::matches::{MatchApi, MatchPlace, MatchRequest, MatchTrio, universe};
use hyper::Method;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "order",
        true,
        [
            a_typo_with_default_gates,
            a_typo_that_is_isolated,
            a_typo_without_a_probe,
            a_typo_in_a_proxy_with_default_gates,
            a_typo_in_a_proxy_that_is_backfilled,
            random_matches,
        ]
    )
}

/// The response status of a denied request.
const DENIED: u16 = 403;
/// The response status of a placeholder.
const CLOSED: u16 = 404;
/// The header with the name of the case, on requests of the guarded rule.
const MARK: &str = "x-case";

/// A guarded rule beside a rule of another owner, in a host of its own.
struct Case {
    name: &'static str,
    good: &'static str,
    bad: &'static str,
    /// Further conditions of the guarded match.
    conditions: &'static str,
    /// The match of the other owner.
    other: &'static str,
    /// The path of a request that the guarded rule matches.
    guarded: &'static str,
    /// The path of a request of the other owner, without the header of the guarded match.
    open: &'static str,
    /// Whether the match of the other owner is no narrower than the readable part of the broken one.
    is_equal: bool,
}

const CASES: [Case; 6] = [
    Case {
        name: "prefix",
        good: "/admin/[0-9]+",
        bad: "/admin/[0-9+",
        conditions: "",
        other: "path: {value: /admin}",
        guarded: "/admin/5",
        open: "/admin",
        is_equal: false,
    },
    Case {
        name: "root",
        good: "/admin/.*",
        bad: "/admin/.*(",
        conditions: "",
        other: "path: {value: /}",
        guarded: "/admin/5",
        open: "/adm",
        is_equal: false,
    },
    Case {
        name: "equal",
        good: "/path[/0-9]+",
        bad: "/path[/0-9+",
        conditions: "",
        other: "path: {value: /path}",
        guarded: "/path/5",
        open: "/path",
        is_equal: true,
    },
    Case {
        name: "expression",
        good: "/admin/[0-9a-z.]+",
        bad: "/admin/[0-9a-z.+",
        conditions: "",
        other: "path: {type: RegularExpression, value: '/.*[.]php'}",
        guarded: "/admin/5.php",
        open: "/x/5.php",
        is_equal: false,
    },
    Case {
        name: "header",
        good: "/head/.*",
        bad: "/head/.*(",
        conditions: ", headers: [{name: x-a, value: '1'}]",
        other: "path: {value: /head/sub}",
        guarded: "/head/sub/5",
        open: "/head/sub/5",
        is_equal: false,
    },
    Case {
        name: "alternatives",
        good: "/(shop|cart)/[0-9]+",
        bad: "/(shop|cart)/[0-9+",
        conditions: "",
        other: "path: {value: /shop}",
        guarded: "/shop/5",
        open: "/shop",
        is_equal: false,
    },
];

impl Case {
    fn host(&self) -> String {
        format!("{}.example", self.name)
    }

    fn request(&self, port: u16) -> HttpRequest {
        get(port, self.guarded).host(&self.host()).header("x-a", "1").header(MARK, self.name)
    }

    fn open(&self, port: u16) -> HttpRequest {
        get(port, self.open).host(&self.host())
    }

    fn write_guarded(&self, world: &World, expression: &str) -> Result<()> {
        let (name, host, conditions) = (format!("{}-guarded", self.name), self.host(), self.conditions);
        let spec = format!(
            "hostnames: [{host}]\nrules:\n- matches: [{{path: {{type: RegularExpression, value: '{expression}'}}\
             {conditions}}}]\n  backendRefs: [{{name: guarded, port: 8080}}]"
        );
        world.write(&format!("{name}.yaml"), http_route(&name, &spec))
    }

    fn write_others(&self, world: &World) -> Result<()> {
        let (name, host, other) = (self.name, self.host(), self.other);
        let spec = format!(
            "hostnames: [{host}]\nrules:\n- matches: [{{{other}}}]\n  backendRefs: [{{name: open, port: 8080}}]"
        );
        world.write(&format!("{name}-open.yaml"), http_route(&format!("{name}-open"), &spec))?;
        let policy = format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: \
             {NAMESPACE}}}\nspec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: \
             {name}-guarded}}]\n  rbac: {{action: Deny, policy: {{matchExpressions: ['true']}}}}\n"
        );
        world.write(&format!("{name}-policy.yaml"), policy)
    }
}

async fn typos(world: World, flags: &[&str]) -> Result<()> {
    let (guarded, open) = (world.backend("guarded").await?, world.backend("open").await?);
    let port = world.gateway()?;
    for case in &CASES {
        case.write_guarded(&world, case.good)?;
        case.write_others(&world)?;
    }
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.args(flags)).await?;
    for case in &CASES {
        case.request(port).comes_to_answer(DENIED).await?;
        case.open(port).comes_to_reach("open").await?;
    }
    let hammer = Hammer::start_kept_in_turn(CASES.iter().map(|case| case.request(port)));
    for _ in 0..2 {
        for case in &CASES {
            case.write_guarded(&world, case.bad)?;
        }
        for case in &CASES {
            case.request(port).comes_to_answer(CLOSED).await?;
            match case.is_equal {
                true => case.open(port).comes_to_answer(CLOSED).await?,
                false => case.open(port).comes_to_reach("open").await?,
            };
        }
        hammer.goes_on(10).await?;
        for case in &CASES {
            case.write_guarded(&world, case.good)?;
        }
        for case in &CASES {
            case.request(port).comes_to_answer(DENIED).await?;
        }
    }
    hammer.stop().await;
    reached_none(&[("guarded", guarded), ("other", open)])
}

/// Checks that no marked request reached one of the backends.
fn reached_none(backends: &[(&str, Echo)]) -> Result<()> {
    for (name, backend) in backends {
        let reached = backend.count(|seen| !seen.request.header(MARK).is_empty());
        ensure!(reached == 0, "{reached} requests of guarded rules reached the {name} backend");
    }
    Ok(())
}

async fn a_typo_with_default_gates(world: World) -> Result<()> {
    typos(world, &[]).await
}

async fn a_typo_that_is_isolated(world: World) -> Result<()> {
    typos(world, &["--feature-gates", "FallbackConfiguration=true"]).await
}

async fn a_typo_without_a_probe(world: World) -> Result<()> {
    typos(world, &["--feature-gates", "FallbackConfiguration=true", "--probe", "off"]).await
}

/// A guarded route of an HTTPProxy beside a route of another HTTPProxy with the readable part of its broken expression
/// as prefix. `broken`: the status of requests of the guarded route while its expression is broken.
async fn equal_routes(world: World, flags: &[&str], broken: u16) -> Result<()> {
    const HOST: &str = "proxy.example";
    let (guarded, open) = (world.backend("guarded").await?, world.backend("open").await?);
    let (port, secure) = (world.port()?, world.port()?.to_string());
    let proxy = |name: &str, spec: String| {
        let metadata = format!("{{name: {name}, namespace: {NAMESPACE}}}");
        world.write(
            &format!("{name}.yaml"),
            format!("apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {metadata}\nspec: {spec}\n"),
        )
    };
    let write_guarded = |expression: &str| {
        let route = format!(
            "{{conditions: [{{regex: '{expression}'}}], services: [{{name: guarded, port: 8080}}], ipAllowPolicy: \
             [{{source: Peer, cidr: 10.0.0.0/8}}]}}"
        );
        proxy("guarded", format!("{{routes: [{route}]}}"))
    };
    proxy("root", format!("{{virtualhost: {{fqdn: {HOST}}}, includes: [{{name: open}}, {{name: guarded}}]}}"))?;
    let prefixes = ["/admin/", "/open"]
        .map(|prefix| format!("{{conditions: [{{prefix: {prefix}}}], services: [{{name: open, port: 8080}}]}}"));
    proxy("open", format!("{{routes: [{}]}}", prefixes.join(", ")))?;
    write_guarded("/admin/[0-9]+")?;
    let http = port.to_string();
    let proxies = ["--httpproxy-http", &http, "--httpproxy-https", &secure];
    let flags: Vec<&str> = flags.iter().chain(&proxies).copied().collect();
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    let page = async |status: &str| {
        until("the page has the status", || async {
            let page = holdfast.diagnostics("/debug/config/fallback").await?;
            ensure!(page["status"] == status, "{page}");
            Ok(())
        })
        .await
    };
    let request = || get(port, "/admin/5").host(HOST).header(MARK, "proxy");
    request().comes_to_answer(DENIED).await?;
    get(port, "/admin/list").host(HOST).comes_to_reach("open").await?;
    let hammer = Hammer::start_kept_in_turn(std::iter::once(request()));
    for _ in 0..2 {
        write_guarded("/admin/[0-9+")?;
        page("triggered").await?;
        request().comes_to_answer(broken).await?;
        get(port, "/open").host(HOST).comes_to_reach("open").await?;
        hammer.goes_on(10).await?;
        write_guarded("/admin/[0-9]+")?;
        page("not-triggered").await?;
        request().comes_to_answer(DENIED).await?;
        get(port, "/admin/list").host(HOST).comes_to_reach("open").await?;
    }
    hammer.stop().await;
    reached_none(&[("guarded", guarded), ("other", open)])
}

async fn a_typo_in_a_proxy_with_default_gates(world: World) -> Result<()> {
    equal_routes(world, &[], CLOSED).await
}

async fn a_typo_in_a_proxy_that_is_backfilled(world: World) -> Result<()> {
    let flags = ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback"];
    equal_routes(world, &flags, DENIED).await
}

/// Hosts of random matches, for each API.
const HOSTS: u64 = 60;
/// The namespace of the GRPCRoutes and of their backends, which speak HTTP/2.
const CALLS: &str = "calls";

/// Random matches of one API, and where they are served.
struct Sample {
    api: MatchApi,
    namespace: &'static str,
    port: u16,
    /// Number of the first host.
    first: u64,
    /// Every one of so many requests is sent.
    step: usize,
}

impl Sample {
    /// Writes the matches, each trio in a file of its own.
    fn write(&self, world: &World) -> Result<Vec<(u64, MatchTrio)>> {
        let place = MatchPlace { namespace: self.namespace, gateway: (NAMESPACE, "public"), port: 8080 };
        let mut trios = Vec::new();
        for host in self.first..self.first + HOSTS {
            let trio = MatchTrio::random(host, self.api);
            let text = trio.documents(host, self.api, &place);
            world.write(&format!("h{host}.yaml"), text.trim_start().trim_start_matches("---"))?;
            trios.push((host, trio));
        }
        Ok(trios)
    }

    /// Sends the requests. Returns their number, and what is wrong with the answers.
    async fn send(&self, trios: &[(u64, MatchTrio)]) -> Result<(usize, Vec<String>)> {
        let (universe, mut sent, mut wrong) = (universe(self.api), 0, Vec::new());
        for (number, (host, trio)) in trios.iter().enumerate() {
            // Without a virtual host of its own, a host gets a 404 that no rule accounts for.
            let known = universe.iter().find(|request| trio.judge(None, request, &universe, self.api).is_some());
            if let Some(request) = known {
                until("the routes of the host are served", || async {
                    ensure!(self.answer(*host, request).await?.is_some(), "{request:?}");
                    Ok(())
                })
                .await?;
            }
            for request in universe.iter().skip(number % self.step).step_by(self.step) {
                let by = self.answer(*host, request).await?;
                sent += 1;
                if let Some(why) = trio.judge(by.as_deref(), request, &universe, self.api) {
                    wrong.push(format!("host {host} {trio:?}: {request:?} → {by:?}: {why}"));
                }
            }
        }
        Ok((sent, wrong))
    }

    /// Returns the backend that answers a request.
    async fn answer(&self, host: u64, request: &MatchRequest) -> Result<Option<String>> {
        let host = holdfast_test_support::matches::host(host);
        if self.api == MatchApi::GrpcRoute {
            let call = call(self.port, request.path.trim_start_matches('/')).host(&host);
            let is_own = |(name, _): &&(String, String)| name != "content-type";
            let own = request.headers.iter().filter(is_own);
            let called = own.fold(call, |call, (name, value)| call.header(name, value)).make().await?;
            return if called.echo.is_some() { called.pod().map(Some) } else { Ok(None) };
        }
        let query: Vec<String> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let path =
            if query.is_empty() { request.path.clone() } else { format!("{}?{}", request.path, query.join("&")) };
        let mut sent = get(self.port, &path).method(Method::from_bytes(request.method.as_bytes())?).host(&host);
        for (name, value) in &request.headers {
            sent = sent.header(name, value);
        }
        let reply = sent.send().await?;
        Ok(if reply.status.is_success() { Some(reply.pod()?) } else { None })
    }
}

/// The requests that the golden test `order` computes the answers of, as a sample, through a real Envoy.
async fn random_matches(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["a", "b", "c"] {
        backends.push(world.backend(name).await?);
        backends.push(world.backend_in(CALLS, name, Some("kubernetes.io/h2c")).await?);
    }
    let (port, proxies, secure) = (world.gateway()?, world.port()?, world.port()?);
    let samples = [
        Sample { api: MatchApi::HttpRoute, namespace: NAMESPACE, port, first: 0, step: 11 },
        Sample { api: MatchApi::HttpProxy, namespace: NAMESPACE, port: proxies, first: 1000, step: 11 },
        Sample { api: MatchApi::GrpcRoute, namespace: CALLS, port, first: 5000, step: 2 },
    ];
    let mut written = Vec::new();
    for sample in &samples {
        written.push((sample, sample.write(&world)?));
    }
    let (proxies, secure) = (proxies.to_string(), secure.to_string());
    let flags = ["--httpproxy-http", &proxies, "--httpproxy-https", &secure];
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    for (sample, trios) in written {
        let (sent, wrong) = sample.send(&trios).await?;
        ensure!(wrong.is_empty(), "{} of {sent} requests:\n{}", wrong.len(), wrong.join("\n"));
        ensure!(sent > 500, "{:?}: {sent} requests", sample.api);
        println!("{:?}: {sent} requests", sample.api);
    }
    Ok(())
}
