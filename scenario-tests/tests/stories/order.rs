//! A typo in the path expression of a guarded rule, beside routes of another owner that match some of its requests: no
//! request of the rule reaches the backend of the other owner, before, during and after the edit.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests::{NAMESPACE, http_route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!("order", true, [a_typo_with_default_gates, a_typo_that_is_isolated, a_typo_without_a_probe])
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
    for (name, backend) in [("guarded", guarded), ("other", open)] {
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
