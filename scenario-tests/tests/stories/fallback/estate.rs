//! Many routes of many owners; each response contains the version of its route, so that the versions of all routes can
//! be checked.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::connect::ClientConnection;
use holdfast_scenario_tests::manifests::{documents, http_route};
use holdfast_scenario_tests::request::{HttpRequest, get};

use super::{LARGE, SAMPLE};

/// Number of routes of one owner, in one file.
pub(super) const ROUTES_OF_ONE: usize = 10;
/// Number of unexpected responses after which [`Estate::answer`] ends.
const WRONG_MAX: usize = 20;
/// Number of virtual hosts of these routes.
const HOSTS: usize = 20;

/// A fault of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteFault {
    /// A regular expression that is too large for the Envoys.
    Large,
    /// A mistake that is inserted after validation.
    Mistake(&'static str),
}

/// The expected or actual response of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RouteResponse {
    /// A version, by its number.
    Version(u32),
    /// The direct response that is served instead.
    Replaced,
}

/// The routes.
#[derive(Debug)]
pub(super) struct Estate {
    world: World,
    port: u16,
    count: usize,
}

impl Estate {
    /// Creates this number of routes at this port, without writing them.
    pub(super) fn new(world: &World, port: u16, count: usize) -> Self {
        Self { world: world.clone(), port, count }
    }

    /// Writes all routes in this version, one file for each owner; some of them have a flaw.
    pub(super) fn write(&self, version: u32, flaws: &BTreeMap<usize, RouteFault>) -> Result<()> {
        for owner in 0..self.count.div_ceil(ROUTES_OF_ONE) {
            self.write_of(owner, version, flaws)?;
        }
        Ok(())
    }

    /// Writes the routes of one owner.
    pub(super) fn write_of(&self, owner: usize, version: u32, flaws: &BTreeMap<usize, RouteFault>) -> Result<()> {
        let own = owner * ROUTES_OF_ONE..((owner + 1) * ROUTES_OF_ONE).min(self.count);
        let routes: Vec<String> =
            own.map(|route| http_route(&format!("r{route}"), &spec(route, version, flaws.get(&route)))).collect();
        self.world.write(&format!("owner-{owner}.yaml"), documents(&routes))
    }

    /// Returns a request that every version of a route answers.
    pub(super) fn request(&self, route: usize) -> HttpRequest {
        get(self.port, &format!("/r{route}/{SAMPLE}")).host(&host(route))
    }

    /// Sends a request to each route; fails after [`WRONG_MAX`] unexpected responses, with a list of them: this is polled,
    /// and requests to all routes for each poll would take the processor time that the program under test needs.
    pub(super) async fn answer(&self, expected: impl Fn(usize) -> RouteResponse) -> Result<()> {
        let mut wrong = Vec::new();
        self.visit(|route, response| {
            if response != expected(route) {
                wrong.push(format!("r{route}: {response:?} instead of {:?}", expected(route)));
            }
            wrong.len() < WRONG_MAX
        })
        .await?;
        ensure!(wrong.is_empty(), "not all of {} are served as they should be: {}", self.count, wrong.join("; "));
        Ok(())
    }

    /// Returns the actual response of each route.
    pub(super) async fn served(&self) -> Result<Vec<RouteResponse>> {
        let mut served = Vec::with_capacity(self.count);
        self.visit(|_, response| {
            served.push(response);
            true
        })
        .await?;
        Ok(served)
    }

    /// Sends a request to each route, in order, until the visitor returns `false`; all requests use one connection.
    async fn visit(&self, mut visitor: impl FnMut(usize, RouteResponse) -> bool) -> Result<()> {
        let mut connection: Option<ClientConnection> = None;
        for route in 0..self.count {
            let request = self.request(route);
            let open = match &mut connection {
                Some(open) => open,
                none => none.insert(request.connect().await?),
            };
            let reply = request.send_on(open).await?;
            if reply.header("connection") == "close" {
                connection = None;
            }
            let response = match (reply.status.as_u16(), reply.header("x-version").parse()) {
                (200, Ok(version)) => RouteResponse::Version(version),
                (404, _) if reply.body.starts_with("Holdfast has invalid") => RouteResponse::Replaced,
                _ => anyhow::bail!("{}: {reply:?}", request.line()),
            };
            if !visitor(route, response) {
                break;
            }
        }
        Ok(())
    }
}

/// The host of a route.
pub(super) fn host(route: usize) -> String {
    format!("h{}.example", route % HOSTS)
}

fn spec(route: usize, version: u32, flaw: Option<&RouteFault>) -> String {
    let matching = match flaw {
        Some(RouteFault::Large) => format!("{{type: RegularExpression, value: '/r{route}/{LARGE}'}}"),
        _ => format!("{{type: PathPrefix, value: /r{route}}}"),
    };
    let mistake = match flaw {
        Some(RouteFault::Mistake(name)) => {
            format!(", {{name: {}, value: {name}}}", holdfast_scenario_tests::mistakes::HEADER)
        }
        _ => String::new(),
    };
    format!(
        "hostnames: [{}]\nrules:\n- matches: [{{path: {matching}}}]\n  filters:\n  - type: ResponseHeaderModifier\n    \
         responseHeaderModifier: {{set: [{{name: x-version, value: '{version}'}}{mistake}]}}\n  backendRefs: [{{name: \
         echo, port: 8080}}]\n",
        host(route)
    )
}
