//! What an Envoy needs for an edit without Holdfast: it reads a RouteConfiguration with one route from a file.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::process::Process;
use tokio::time::sleep;

use crate::answers::Answers;
use crate::objects::HEADER;

/// Pause after each edit.
const PAUSE: Duration = Duration::from_millis(100);
/// The host of the requests; the route is for all hosts.
const HOST: &str = "floor.example";

/// Returns the times from the rename of the file until the first answer with the changed value.
pub(crate) async fn edits(world: &World, envoy: &Path, endpoint: SocketAddr, count: usize) -> Result<Vec<Duration>> {
    let files = Files::new(world)?;
    files.edit(&value(0))?;
    let port = world.port()?;
    fs::write(&files.bootstrap, bootstrap(port, &files.routes, endpoint))?;
    let config = files.bootstrap.display().to_string();
    let args = ["-c", &config, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"];
    let process = Process::start(envoy, args, &[], &world.log("file-envoy"))?;
    let mut answers = Answers::of(port, HOST);
    answers.until(&value(0)).await?;
    let mut times = Vec::new();
    for number in 1..=count {
        let began = files.edit(&value(number))?;
        times.push(answers.until(&value(number)).await? - began);
        sleep(PAUSE).await;
    }
    process.terminate().await?;
    Ok(times)
}

fn value(number: usize) -> String {
    format!("value-{number:08}")
}

/// The files of this Envoy.
struct Files {
    bootstrap: PathBuf,
    routes: PathBuf,
    draft: PathBuf,
}

impl Files {
    fn new(world: &World) -> Result<Self> {
        let folder = world.folder().join("file-envoy");
        fs::create_dir(&folder)?;
        let file = |name: &str| folder.join(name);
        // Envoy watches the folder of the routes, so the draft is elsewhere.
        let draft = world.folder().join("drafts").join("file-envoy");
        Ok(Self { bootstrap: file("bootstrap.yaml"), routes: file("routes.yaml"), draft })
    }

    /// Replaces the file of the routes; returns when the rename began.
    fn edit(&self, value: &str) -> Result<Instant> {
        fs::write(&self.draft, routes(value))?;
        let began = Instant::now();
        fs::rename(&self.draft, &self.routes).context("cannot rename the file of the RouteConfiguration")?;
        Ok(began)
    }
}

fn routes(value: &str) -> String {
    format!(
        r#"resources:
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: routes
  virtual_hosts:
  - name: all
    domains: ["*"]
    routes:
    - match: {{prefix: /}}
      route: {{cluster: echo}}
      request_headers_to_add:
      - header: {{key: {HEADER}, value: {value}}}
        append_action: OVERWRITE_IF_EXISTS_OR_ADD
"#
    )
}

fn bootstrap(port: u16, routes: &Path, endpoint: SocketAddr) -> String {
    let (routes, address, endpoint_port) = (routes.display(), endpoint.ip(), endpoint.port());
    let filters = "type.googleapis.com/envoy.extensions.filters";
    format!(
        r#"node: {{id: file-envoy, cluster: file-envoy}}
static_resources:
  listeners:
  - name: listener
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": {filters}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: file
          rds:
            route_config_name: routes
            config_source: {{resource_api_version: V3, path_config_source: {{path: "{routes}"}}}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": {filters}.http.router.v3.Router}}
  clusters:
  - name: echo
    type: STATIC
    load_assignment:
      cluster_name: echo
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: {address}, port_value: {endpoint_port}}}}}}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_differ_in_the_value_only() {
        let (one, two) = (routes(&value(1)), routes(&value(2)));
        assert_eq!(one.matches(&value(1)).count(), 1);
        assert_eq!(one.replace(&value(1), &value(2)), two);
    }
}
