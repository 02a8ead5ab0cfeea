//! A host whose guard is edited again and again, broken and not, while clients without a right to come in never stop asking.

use anyhow::Result;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::{Ask, Hammer, World};

use super::auth::{REFUSED_CONNECTION, comes_to_be_refused, did_not_pass, secure};
use super::{Served, proxy, serve};

/// Its routes, and those of a host beside it.
pub(super) const ROUTES: &str = "- services: [{name: echo, port: 8080}]";

/// The host as it is whole, and who asks.
pub(super) struct Edited<A> {
    world: World,
    whole: String,
    /// A request of somebody who may come in, to a path.
    known: A,
    strangers: [Hammer; 2],
    others: Hammer,
}

/// Serves a host with this guard, and another one without any.
pub(super) async fn served(world: &World, guard: &str) -> Result<(Served, String)> {
    let whole = secure(guard, ROUTES);
    world.write("proxy.yaml", &whole)?;
    let other = format!("virtualhost: {{fqdn: other.example.com}}\nroutes:\n{ROUTES}");
    world.write("other.yaml", proxy("shop", "other", &other))?;
    Ok((serve(world).await?, whole))
}

impl<A: Fn(&str) -> Ask> Edited<A> {
    /// Begins to hammer, when those who may come in do; `unknown` is a request of somebody who may not.
    pub(super) async fn start(
        world: &World,
        (served, whole): (&Served, String),
        known: A,
        unknown: impl Fn(&str) -> Ask,
    ) -> Result<Self> {
        known("/").comes_to_reach("echo").await?;
        let other = served.get("other.example.com", "/");
        other.comes_to_reach("echo").await?;
        let unknown = [unknown("/"), unknown("/new"), unknown("/").http2()];
        let strangers = [Hammer::start(unknown.clone()), Hammer::start_kept(unknown)];
        Ok(Self { world: world.clone(), whole, known, strangers, others: Hammer::start([other]) })
    }

    /// Edits the guard, and a route with it; what those who may come in are answered then; and back.
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

    /// Nobody came in who may not, and the other host was served all the while.
    pub(super) async fn end(self) -> Result<()> {
        for hammer in self.strangers {
            hammer.goes_on(20).await?;
            hammer.stop_expecting(did_not_pass).await?;
        }
        self.others.stop_expecting(Shot::is_ok).await.map(drop)
    }
}
