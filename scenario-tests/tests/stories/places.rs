//! Position of the route that replaces an invalid match: requests for the invalid match do not fall through to the
//! broader route of another team, and all other requests reach the broader route or the narrower route of a third team.
//! Some expressions are invalid; others are refused only by Envoy.

use anyhow::{Context, Result, bail, ensure};
use holdfast_scenario_tests::fleet::small_binary;
use holdfast_scenario_tests::grpc::call;
use holdfast_scenario_tests::manifests::{NAMESPACE, documents, route};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories, until};
use hyper::Method;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "places",
        true,
        [
            of_requests,
            of_requests_that_envoy_refuses,
            of_calls,
            of_calls_that_envoy_refuses,
            of_proxies,
            of_proxies_that_envoy_refuses,
        ]
    )
}

/// An invalid regular expression with a readable prefix.
const INVALID: &str = "[0-9";
/// A regular expression that only Envoy refuses: larger than its default limit, and smaller than Holdfast's.
const REFUSED: &str = "([0-9]{1,400})";

/// The teams: one has the mistake, one has a broader route, one has a narrower one.
const TEAMS: [&str; 3] = ["mistaken", "broad", "third"];

/// The match of the mistaken team, where `$` is the expression; the narrower match of the third team; and the team that
/// answers each request, `-` for none.
struct PlacesCase {
    name: &'static str,
    mistaken: &'static str,
    third: &'static str,
    /// Whether the case applies only to invalid expressions, which have a readable prefix.
    readable_only: bool,
    requests: &'static [(&'static str, &'static str)],
}

const CASES: [PlacesCase; 10] = [
    PlacesCase {
        name: "path",
        mistaken: "path: {type: RegularExpression, value: '/shop/$'}",
        third: "path: {value: /shop/open}",
        readable_only: false,
        requests: &[
            ("GET /shop/1", "-"),
            ("GET /shop/x", "-"),
            ("GET /shop/open/1", "third"),
            ("GET /shop", "broad"),
            ("GET /shopping/1", "broad"),
            ("GET /1", "broad"),
        ],
    },
    PlacesCase {
        name: "groups",
        mistaken: "path: {type: RegularExpression, value: '/(shop|cart)/$'}",
        third: "path: {value: /shop/open}",
        readable_only: true,
        requests: &[
            ("GET /shop/1", "-"),
            ("GET /cart/1", "-"),
            ("GET /shop/open/1", "third"),
            ("GET /shop", "broad"),
            ("GET /else/1", "broad"),
            ("GET /", "broad"),
        ],
    },
    PlacesCase {
        name: "anywhere",
        mistaken: "path: {type: RegularExpression, value: '.*/admin/$'}",
        third: "path: {type: Exact, value: /a/admin/open}",
        readable_only: true,
        requests: &[
            ("GET /admin/1", "-"),
            ("GET /a/b/admin/1", "-"),
            ("GET /a/admin/open", "third"),
            ("GET /admin", "broad"),
            ("GET /a/b", "broad"),
        ],
    },
    PlacesCase {
        name: "path-with-header",
        mistaken: "path: {type: RegularExpression, value: '($)'}, headers: [{name: x-b, value: b}]",
        third: "path: {value: /third}",
        readable_only: false,
        requests: &[
            ("GET /1 x-b=b", "-"),
            ("GET / x-b=b", "-"),
            ("GET /third x-b=b", "third"),
            ("GET /1", "broad"),
            ("GET /third", "third"),
        ],
    },
    PlacesCase {
        name: "path-with-query",
        mistaken: "path: {type: RegularExpression, value: '($)'}, queryParams: [{name: q, value: one}]",
        third: "path: {value: /third}",
        readable_only: false,
        requests: &[
            ("GET /1?q=one", "-"),
            ("GET /third?q=one", "third"),
            ("GET /1?p=one", "broad"),
            ("GET /1", "broad"),
        ],
    },
    PlacesCase {
        name: "path-with-method",
        mistaken: "path: {type: RegularExpression, value: '($)'}, method: DELETE",
        third: "path: {value: /third}",
        readable_only: false,
        requests: &[
            ("DELETE /1", "-"),
            ("DELETE /third", "third"),
            ("GET /1", "broad"),
            ("POST /1", "broad"),
            ("GET /third", "third"),
        ],
    },
    PlacesCase {
        name: "header",
        mistaken: "headers: [{name: x-a, type: RegularExpression, value: '$'}]",
        third: "path: {value: /third}",
        readable_only: false,
        requests: &[
            ("GET / x-a=1", "-"),
            ("GET /any x-a=other", "-"),
            ("GET /third x-a=1", "third"),
            ("GET /", "broad"),
            ("GET /any x-c=1", "broad"),
        ],
    },
    PlacesCase {
        name: "query",
        mistaken: "queryParams: [{name: a, type: RegularExpression, value: '$'}]",
        third: "path: {value: /third}",
        readable_only: false,
        requests: &[
            ("GET /?a=1", "-"),
            ("GET /any?c=1&a=other", "-"),
            ("GET /third?a=1", "third"),
            ("GET /any", "broad"),
            ("GET /any?c=1", "broad"),
        ],
    },
    PlacesCase {
        name: "two-headers",
        mistaken: "headers: [{name: x-a, type: RegularExpression, value: '$'}, {name: x-b, value: b}]",
        third: "headers: [{name: x-a, value: open}, {name: x-b, value: b}]",
        readable_only: true,
        requests: &[
            ("GET / x-a=1 x-b=b", "-"),
            ("GET / x-a=open x-b=b", "third"),
            ("GET / x-a=1", "broad"),
            ("GET / x-a=1 x-b=c", "broad"),
            ("GET / x-b=b", "broad"),
        ],
    },
    // No prefix is readable, and the broader route has another host.
    PlacesCase {
        name: "host",
        mistaken: "path: {type: RegularExpression, value: '($)'}",
        third: "path: {value: /third}",
        readable_only: false,
        requests: &[("GET /1", "-"), ("GET /", "-"), ("GET /third", "third"), ("GET elsewhere /1", "broad")],
    },
];

const CALLS: [PlacesCase; 3] = [
    PlacesCase {
        name: "service",
        mistaken: "method: {type: RegularExpression, service: '(shop|cart)\\.v$'}",
        third: "method: {service: shop.v1.Open}",
        readable_only: true,
        requests: &[
            ("CALL /shop.v1/Get", "-"),
            ("CALL /cart.v2/Get", "-"),
            ("CALL /shop.v1.Open/Get", "third"),
            ("CALL /shop/Get", "broad"),
            ("CALL /else.v1/Get", "broad"),
        ],
    },
    PlacesCase {
        name: "service-with-header",
        mistaken: "method: {type: RegularExpression, service: '($)'}, headers: [{name: x-b, value: b}]",
        third: "method: {service: shop.Open}",
        readable_only: false,
        requests: &[
            ("CALL /shop.Cart/Get x-b=b", "-"),
            ("CALL /shop.Open/Get x-b=b", "third"),
            ("CALL /shop.Cart/Get", "broad"),
            ("CALL /shop.Open/Get", "third"),
        ],
    },
    PlacesCase {
        name: "metadata",
        mistaken: "headers: [{name: x-a, type: RegularExpression, value: '$'}]",
        third: "method: {service: shop.Open}",
        readable_only: false,
        requests: &[
            ("CALL /shop.Cart/Get x-a=1", "-"),
            ("CALL /shop.Open/Get x-a=1", "third"),
            ("CALL /shop.Cart/Get", "broad"),
        ],
    },
];

/// Conditions of HTTPProxies: each team has a child of one root.
const PROXIES: [PlacesCase; 6] = [
    PlacesCase {
        name: "path",
        mistaken: "{regex: '/shop/$'}",
        third: "{prefix: /shop/open}",
        readable_only: false,
        requests: &[("GET /shop/1", "-"), ("GET /shop/open/1", "third"), ("GET /shop", "broad"), ("GET /1", "broad")],
    },
    PlacesCase {
        name: "groups",
        mistaken: "{regex: '/(shop|cart)/$'}",
        third: "{prefix: /shop/open}",
        readable_only: true,
        requests: &[
            ("GET /shop/1", "-"),
            ("GET /cart/1", "-"),
            ("GET /shop/open/1", "third"),
            ("GET /shop", "broad"),
            ("GET /else/1", "broad"),
        ],
    },
    PlacesCase {
        name: "path-with-header",
        mistaken: "{regex: '/($)'}, {header: {name: x-b, exact: b}}",
        third: "{prefix: /third}",
        readable_only: false,
        requests: &[("GET /1 x-b=b", "-"), ("GET /third x-b=b", "third"), ("GET /1", "broad")],
    },
    PlacesCase {
        name: "header",
        mistaken: "{header: {name: x-a, regex: '$'}}",
        third: "{prefix: /third}",
        readable_only: false,
        requests: &[
            ("GET / x-a=1", "-"),
            ("GET /third x-a=1", "third"),
            ("GET /", "broad"),
            ("GET /any x-c=1", "broad"),
        ],
    },
    PlacesCase {
        name: "query",
        mistaken: "{queryParameter: {name: a, regex: '$'}}",
        third: "{prefix: /third}",
        readable_only: false,
        requests: &[("GET /?a=1", "-"), ("GET /third?a=1", "third"), ("GET /any", "broad"), ("GET /any?c=1", "broad")],
    },
    PlacesCase {
        name: "two-headers",
        mistaken: "{header: {name: x-a, regex: '$'}}, {header: {name: x-b, exact: b}}",
        third: "{header: {name: x-a, exact: open}}, {header: {name: x-b, exact: b}}",
        readable_only: true,
        requests: &[
            ("GET / x-a=1 x-b=b", "-"),
            ("GET / x-a=open x-b=b", "third"),
            ("GET / x-a=1 x-b=c", "broad"),
            ("GET / x-b=b", "broad"),
        ],
    },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    Requests,
    Calls,
    Proxies,
}

/// Writes the routes of all teams for a case.
fn write(world: &World, kind: PlaceKind, case: &PlacesCase, expression: &str) -> Result<()> {
    let host = format!("{}.example", case.name);
    let mistaken = case.mistaken.replace('$', expression);
    let matches = [mistaken.as_str(), "", case.third];
    let mut parts = Vec::new();
    for (team, matches) in TEAMS.into_iter().zip(matches) {
        let name = format!("{}-{team}", case.name);
        if kind == PlaceKind::Proxies {
            let route = format!("- conditions: [{matches}]\n    services: [{{name: {team}, port: 8080}}]");
            parts.push(format!(
                "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: {team}}}\nspec:\n  routes:\n  {route}\n"
            ));
            continue;
        }
        let kind = if kind == PlaceKind::Calls { "GRPCRoute" } else { "HTTPRoute" };
        // If a match has no readable part, other routes with the same hosts take precedence, so the broader route has
        // another host.
        let host = match team {
            "broad" if case.name == "host" => "'*.example'",
            _ => &host,
        };
        let matches = if matches.is_empty() { String::new() } else { format!("matches: [{{{matches}}}], ") };
        let spec = format!("hostnames: [{host}]\nrules:\n- {{{matches}backendRefs: [{{name: {team}, port: 8080}}]}}");
        let parent = format!("- {{name: public, namespace: {NAMESPACE}}}\n");
        parts.push(route(kind, team, &name, &parent, &spec));
    }
    if kind == PlaceKind::Proxies {
        let includes: String =
            TEAMS.iter().map(|team| format!("  - {{name: {}-{team}, namespace: {team}}}\n", case.name)).collect();
        parts.push(format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {}, namespace: {NAMESPACE}}}\nspec:\n  virtualhost: {{fqdn: {host}}}\n  includes:\n{includes}",
            case.name
        ));
    }
    world.write(&format!("{}.yaml", case.name), documents(&parts))
}

/// Returns the team that answers a request in the notation of [`PlacesCase`]; `-` for none.
async fn answered(port: u16, case: &PlacesCase, request: &str) -> Result<String> {
    let mut words = request.split(' ').peekable();
    let method = words.next().context("no method")?;
    let host = words.next_if(|word| !word.starts_with('/')).unwrap_or(case.name);
    let host = format!("{host}.example");
    let path = words.next().context("no path")?;
    let headers: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
    if method == "CALL" {
        let called =
            headers.iter().fold(call(port, &path[1..]).host(&host), |call, (name, value)| call.header(name, value));
        let called = called.make().await?;
        return Ok(called.pod().unwrap_or_else(|_| "-".to_owned()));
    }
    let sent = get(port, path).host(&host).method(Method::from_bytes(method.as_bytes())?);
    let reply = headers.iter().fold(sent, |request, (name, value)| request.header(name, value)).send().await?;
    match reply.status.as_u16() {
        200 => reply.pod(),
        404 => Ok("-".to_owned()),
        _ => bail!("{reply:?}"),
    }
}

async fn each_case(world: World, kind: PlaceKind, expression: &str) -> Result<()> {
    let is_read = expression == INVALID;
    let cases: &[PlacesCase] = match kind {
        PlaceKind::Requests => &CASES,
        PlaceKind::Calls => &CALLS,
        PlaceKind::Proxies => &PROXIES,
    };
    let cases: Vec<&PlacesCase> = cases.iter().filter(|case| is_read || !case.readable_only).collect();
    let protocol = (kind == PlaceKind::Calls).then_some("kubernetes.io/h2c");
    let mut backends = Vec::new();
    for team in TEAMS {
        backends.push(world.backend_in(team, team, protocol).await?);
    }
    let port = if kind == PlaceKind::Proxies { world.port()? } else { world.gateway()? };
    for case in &cases {
        write(&world, kind, case, expression)?;
    }
    let number = port.to_string();
    let ports = ["--httpproxy-http", &number];
    let flags = ["--feature-gates", "FallbackConfiguration=true"];
    let mut options = HoldfastOptions::new(&world)?.args(&flags);
    if kind == PlaceKind::Proxies {
        options = options.args(&ports);
    }
    if !is_read {
        options = options.env("ENVOY_BIN", &small_binary(&world)?.display().to_string());
    }
    let _holdfast = world.run_with(options).await?;
    for case in &cases {
        for (request, expected) in case.requests {
            until(&format!("{}: {request} comes to be answered by {expected}", case.name), || async {
                let answered = answered(port, case, request).await?;
                ensure!(answered == *expected, "{answered}");
                Ok(())
            })
            .await?;
        }
    }
    // Repeated in the final state: nothing changes any more.
    for case in &cases {
        for (request, expected) in case.requests {
            let answered = answered(port, case, request).await?;
            ensure!(answered == *expected, "{}: {request}: {answered} instead of {expected}", case.name);
        }
    }
    Ok(())
}

async fn of_requests(world: World) -> Result<()> {
    each_case(world, PlaceKind::Requests, INVALID).await
}

async fn of_requests_that_envoy_refuses(world: World) -> Result<()> {
    each_case(world, PlaceKind::Requests, REFUSED).await
}

async fn of_calls(world: World) -> Result<()> {
    each_case(world, PlaceKind::Calls, INVALID).await
}

async fn of_calls_that_envoy_refuses(world: World) -> Result<()> {
    each_case(world, PlaceKind::Calls, REFUSED).await
}

async fn of_proxies(world: World) -> Result<()> {
    each_case(world, PlaceKind::Proxies, INVALID).await
}

async fn of_proxies_that_envoy_refuses(world: World) -> Result<()> {
    each_case(world, PlaceKind::Proxies, REFUSED).await
}
