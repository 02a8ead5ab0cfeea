//! A host with a guard that is edited repeatedly, valid and broken, under continuous unauthorized requests.

use anyhow::Result;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::{Hammer, HttpRequest, World};

use super::auth::{REFUSED_CONNECTION, comes_to_be_refused, did_not_pass, secure};
use super::{ServedProxies, proxy, serve};

/// The routes of the host, and of another host.
pub(super) const ROUTES: &str = "- services: [{name: echo, port: 8080}]";

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

    /// Edits the guard, and a route with it; waits until authorized requests have this status; then reverts the edit.
    pub(super) async fn edit(&self, guard: &str, status: u16) -> Result<()> {
        let more = format!("{ROUTES}\n- conditions: [{{prefix: /new}}]\n  services: [{{name: echo, port: 8080}}]");
        self.world.write("proxy.yaml", secure(guard, &more))?;
        match status {
            200 => drop((self.known)("/new").comes_to_reach("echo").await?),
            REFUSED_CONNECTION => comes_to_be_refused(&(self.known)("/")).await?,
            status => drop((self.known)("/new").comes_to_answer(status).await?),
        }
        self.world.write("proxy.yaml", &self.whole)?;
        (self.known)("/").comes_to_reach("echo").await.map(drop)
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
