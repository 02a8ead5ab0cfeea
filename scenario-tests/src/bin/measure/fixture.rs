//! The objects of a measurement: one Gateway with one plain listener, routes with one host each, a Service for every ten
//! routes, and the versions of the one route that is edited.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::manifests::{NAMESPACE, SERVICE_PORT, documents, service};

/// Number of routes in a file, and of routes with the same Service.
const ROUTES_OF_FILE: usize = 10;
/// The end of every host.
pub(crate) const DOMAIN: &str = ".measure.example";
/// The header that every route adds to requests.
pub(crate) const HEADER: &str = "x-measure";
/// The path of every request.
pub(crate) const PATH: &str = "/a-b";

/// The objects of a measurement, in the folder of manifests of a world.
#[derive(Debug)]
pub(crate) struct Fixture<'a> {
    pub(crate) world: &'a World,
    /// Number of routes.
    pub(crate) routes: usize,
    /// The endpoint of every Service.
    pub(crate) endpoint: SocketAddr,
    /// The port of the Gateway.
    pub(crate) port: u16,
}

impl<'a> Fixture<'a> {
    /// Writes all objects.
    pub(crate) fn write(world: &'a World, routes: usize, endpoint: SocketAddr) -> Result<Self> {
        let fixture = Self { world, routes, endpoint, port: world.gateway()? };
        for file in 0..routes.div_ceil(ROUTES_OF_FILE) {
            world.write(&format!("service-{file:05}.yaml"), service(NAMESPACE, &backend(file), None, &[endpoint]))?;
            world.write(&file_name(file), fixture.file(file, &Edited::default()))?;
        }
        Ok(fixture)
    }

    /// The host of the edited route.
    pub(crate) fn edited_host(&self) -> String {
        host(self.edited_route())
    }

    /// The edited route is the one in the middle.
    fn edited_route(&self) -> usize {
        self.routes / 2
    }

    fn edited_file(&self) -> usize {
        self.edited_route() / ROUTES_OF_FILE
    }

    /// Replaces the file of the edited route; returns when the rename began.
    pub(crate) fn edit(&self, edited: &Edited) -> Result<Instant> {
        let draft = self.world.folder().join("drafts").join("edit");
        fs::write(&draft, self.file(self.edited_file(), edited))?;
        let began = Instant::now();
        fs::rename(&draft, self.edited_path()).context("cannot rename the file of the edited route")?;
        Ok(began)
    }

    /// The file of the edited route.
    pub(crate) fn edited_path(&self) -> PathBuf {
        self.world.manifests().join(file_name(self.edited_file()))
    }

    /// The files of all objects.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        fs::read_dir(self.world.manifests())?.map(|entry| Ok(entry?.path())).collect()
    }

    fn file(&self, file: usize, edited: &Edited) -> String {
        let first = file * ROUTES_OF_FILE;
        let numbers = first..self.routes.min(first + ROUTES_OF_FILE);
        let unedited = Edited::default();
        let version = |number| if number == self.edited_route() { edited } else { &unedited };
        documents(&numbers.map(|number| route(number, version(number))).collect::<Vec<_>>())
    }
}

/// A version of the edited route.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edited {
    /// Number of the value of its header, which clients receive.
    pub(crate) value: usize,
    /// Number of the value of its annotation, which clients do not receive.
    pub(crate) annotation: usize,
}

impl Edited {
    /// The value of the header. All values have the same length, so that all responses do.
    pub(crate) fn header(&self) -> String {
        format!("value-{:08}", self.value)
    }
}

fn file_name(file: usize) -> String {
    format!("routes-{file:05}.yaml")
}

fn backend(file: usize) -> String {
    format!("s{file:05}")
}

fn host(number: usize) -> String {
    format!("r{number:06}{DOMAIN}")
}

fn route(number: usize, edited: &Edited) -> String {
    let (backend, header, annotation) = (backend(number / ROUTES_OF_FILE), edited.header(), edited.annotation);
    let host = host(number);
    format!(
        r#"apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: r{number:06}
  namespace: {NAMESPACE}
  annotations:
    measure.example/number: "{annotation}"
spec:
  parentRefs:
  - name: public
  hostnames: ["{host}"]
  rules:
  - matches:
    - path: {{type: PathPrefix, value: /}}
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {{set: [{{name: {HEADER}, value: {header}}}]}}
    backendRefs: [{{name: {backend}, port: {SERVICE_PORT}}}]
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    #[test]
    fn an_edit_changes_one_route_of_one_file() -> Result<()> {
        let world = World::new()?;
        let fixture = Fixture::write(&world, 25, ENDPOINT)?;
        assert_eq!(fixture.files()?.len(), 1 + 3 + 3);
        let read = || fs::read_to_string(fixture.edited_path());
        let before = read()?;
        assert_eq!(before.matches("kind: HTTPRoute").count(), 10);
        let edited = Edited { value: 7, annotation: 0 };
        fixture.edit(&edited)?;
        let after = read()?;
        assert_eq!(after.len(), before.len());
        assert_eq!(after.matches(&edited.header()).count(), 1);
        assert_eq!(after.replace(&edited.header(), &Edited::default().header()), before);
        Ok(())
    }
}
