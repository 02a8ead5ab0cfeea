//! A host with a guard that is edited repeatedly, valid and broken, under continuous unauthorized requests.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::{Hammer, HttpRequest, World, until};

use super::auth::{REFUSED_CONNECTION, comes_to_be_refused, did_not_pass, secure};
use super::{ServedProxies, proxy, serve};

/// The routes of the host, and of another host.
pub(super) const ROUTES: &str = "- services: [{name: echo, port: 8080}]";

/// A route that adds a header to its answers.
const NEW_ROUTE: &str = "- conditions: [{prefix: /new}]
  responseHeadersPolicy: {set: [{name: x-route, value: new}]}
  services: [{name: echo, port: 8080}]";

/// The valid host, and its clients.
pub(super) struct Edited<A> {
    world: World,
    whole: String,
    /// Makes an authorized request to a path.
    known: A,
    unauthorized: [Hammer; 2],
    others: Hammer,
}

/// Serves a host with this guard, and another one without any.
pub(super) async fn served(world: &World, guard: &str) -> Result<(ServedProxies, String)> {
    let whole = secure(guard, ROUTES);
    world.write("proxy.yaml", &whole)?;
    let other = format!("virtualhost: {{fqdn: other.example.com}}\nroutes:\n{ROUTES}");
    world.write("other.yaml", proxy("shop", "other", &other))?;
    Ok((serve(world).await?, whole))
}

impl<A: Fn(&str) -> HttpRequest> Edited<A> {
    /// Starts the load once authorized requests pass; `unknown` makes an unauthorized request.
    pub(super) async fn start(
        world: &World,
        (served, whole): (&ServedProxies, String),
        known: A,
        unknown: impl Fn(&str) -> HttpRequest,
    ) -> Result<Self> {
        known("/").comes_to_reach("echo").await?;
        let other = served.get("other.example.com", "/");
        other.comes_to_reach("echo").await?;
        let unknown = [unknown("/"), unknown("/new"), unknown("/").http2()];
        let unauthorized = [Hammer::start(unknown.clone()), Hammer::start_kept(unknown)];
        Ok(Self { world: world.clone(), whole, known, unauthorized, others: Hammer::start([other]) })
    }

    /// Edits the guard, and adds a route; waits until authorized requests to the route have this status; then reverts
    /// the edit. The route adds a header to its answers, which those of the versions before and after do not have.
    pub(super) async fn edit(&self, guard: &str, status: u16) -> Result<()> {
        self.world.write("proxy.yaml", secure(guard, &format!("{ROUTES}\n{NEW_ROUTE}")))?;
        let new = (self.known)("/new");
        match status {
            200 => comes_from_the_new_route(&new, true).await?,
            REFUSED_CONNECTION => comes_to_be_refused(&(self.known)("/")).await?,
            status => drop(new.comes_to_answer(status).await?),
        }
        self.world.write("proxy.yaml", &self.whole)?;
        comes_from_the_new_route(&new, false).await
    }

    /// Checks that no unauthorized request passed, and that the other host was served all the time.
    pub(super) async fn end(self) -> Result<()> {
        for hammer in self.unauthorized {
            hammer.goes_on(20).await?;
            hammer.stop_expecting(did_not_pass).await?;
        }
        self.others.stop_expecting(Shot::is_ok).await.map(drop)
    }
}

/// Repeats a request until a backend answers it, over the added route or not.
async fn comes_from_the_new_route(request: &HttpRequest, is_new: bool) -> Result<()> {
    until("the edit is served, or the version after it", || async {
        let reply = request.reaches("echo").await?;
        ensure!(reply.header("x-route").is_empty() != is_new, "{reply:?}");
        Ok(())
    })
    .await
}
