//! HTTPProxies through a real Envoy: includes, rewriting, duplicates, TLS, and faults beside valid objects.

mod auth;
mod clients;
mod conditions;
mod cookies;
mod edited;
mod faults;
mod gateway;
mod includes;
mod limits;
mod matching;
mod nameless;
mod policies;
mod requests;
mod rewrites;
mod streams;
mod tls;
mod tokens;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::holdfast::{Holdfast, HoldfastOptions};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Story, World, until};

pub(crate) fn stories() -> Vec<Story> {
    [
        auth::stories(),
        clients::stories(),
        conditions::stories(),
        cookies::stories(),
        faults::stories(),
        gateway::stories(),
        includes::stories(),
        matching::stories(),
        nameless::stories(),
        policies::stories(),
        requests::stories(),
        rewrites::stories(),
        limits::stories(),
        tokens::stories(),
        streams::stories(),
        tls::stories(),
    ]
    .concat()
}

/// The ports of the listeners, and Holdfast.
struct ServedProxies {
    http: u16,
    https: u16,
    holdfast: Holdfast,
}

async fn serve(world: &World) -> Result<ServedProxies> {
    serve_with(world, &[]).await
}

/// Starts Holdfast with further flags.
async fn serve_with(world: &World, flags: &[&str]) -> Result<ServedProxies> {
    let (http, https) = (world.port()?, world.port()?);
    let (first, second) = (http.to_string(), https.to_string());
    let ports = ["--httpproxy-http", &first, "--httpproxy-https", &second];
    let options = HoldfastOptions::new(world)?.args(&[&ports, flags].concat());
    Ok(ServedProxies { http, https, holdfast: world.run_with(options).await? })
}

fn proxy(namespace: &str, name: &str, spec: &str) -> String {
    let spec: String = spec.trim().lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n{spec}"
    )
}

impl ServedProxies {
    fn get(&self, host: &str, path: &str) -> HttpRequest {
        get(self.http, path).host(host)
    }

    /// Returns the status of a proxy.
    async fn status(&self, namespace: &str, name: &str) -> Result<serde_json::Value> {
        let statuses = self.holdfast.diagnostics("/debug/statuses").await?;
        let text = statuses.to_string();
        let all = statuses.get("objects").and_then(|all| all.as_array()).cloned().unwrap_or_default();
        let is_it = |status: &serde_json::Value| {
            let object = &status["object"];
            object["kind"] == "HTTPProxy" && object["namespace"] == namespace && object["name"] == name
        };
        all.into_iter().find(is_it).map(|mut status| status["status"].take()).ok_or_else(|| anyhow::anyhow!("{text}"))
    }

    async fn comes_to_be(&self, namespace: &str, name: &str, current: &str) -> Result<()> {
        until("the status says so", || async {
            let status = self.status(namespace, name).await?;
            ensure!(status["currentStatus"] == current, "{status}");
            Ok(())
        })
        .await
    }
}
