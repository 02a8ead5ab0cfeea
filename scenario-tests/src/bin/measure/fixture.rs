//! The objects of a measurement: one Gateway with one plain listener, routes with one host each, a Service for every ten
//! routes, and the versions of the routes that are edited.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use holdfast_scenario_tests::manifests::{NAMESPACE, SERVICE_PORT, documents, service};
use holdfast_scenario_tests::{HoldfastOptions, World};

use crate::report::VirtualHosts;

/// Number of routes in a file, and of routes with the same Service.
const ROUTES_OF_FILE: usize = 10;
/// The end of every host.
pub(crate) const DOMAIN: &str = ".measure.example";
/// The header that every route adds to requests.
pub(crate) const HEADER: &str = "x-measure";
/// The path of every request; every version of a route matches it.
pub(crate) const PATH: &str = "/a-b";
/// A match that is larger than the limit of RE2 programs in Envoy, and smaller than the one in the bootstrap of Holdfast.
const LARGE: &str = "{type: RegularExpression, value: '/([a-z0-9]{1,40}-[a-z0-9]{1,40})'}";

/// The objects of a measurement, in the folder of manifests of a world.
#[derive(Debug)]
pub(crate) struct Fixture<'a> {
    pub(crate) world: &'a World,
    /// Number of routes.
    pub(crate) routes: usize,
    /// The endpoint of every Service.
    pub(crate) endpoint: SocketAddr,
    /// The form in which virtual hosts are sent.
    pub(crate) virtual_hosts: VirtualHosts,
    /// The port of the Gateway.
    pub(crate) port: u16,
}

impl<'a> Fixture<'a> {
    /// Writes all objects.
    pub(crate) fn write(
        world: &'a World,
        routes: usize,
        endpoint: SocketAddr,
        virtual_hosts: VirtualHosts,
    ) -> Result<Self> {
        let fixture = Self { world, routes, endpoint, virtual_hosts, port: world.gateway()? };
        for file in 0..routes.div_ceil(ROUTES_OF_FILE) {
            world.write(&format!("service-{file:05}.yaml"), service(NAMESPACE, &backend(file), None, &[endpoint]))?;
            world.write(&file_name(file), fixture.file(file, |_| Edited::default()))?;
        }
        Ok(fixture)
    }

    /// Options of Holdfast with this value of `--probe`.
    pub(crate) fn options(&self, probe: &str) -> Result<HoldfastOptions> {
        let options = HoldfastOptions::new(self.world)?.args(&["--probe", probe]);
        // Earlier versions of Holdfast do not have the flag.
        Ok(match self.virtual_hosts {
            VirtualHosts::Whole => options,
            VirtualHosts::Separate => options.args(&["--xds-virtual-hosts", "separate"]),
        })
    }

    /// Number of files with at least two routes.
    pub(crate) fn pairs(&self) -> usize {
        (self.routes + ROUTES_OF_FILE - 2) / ROUTES_OF_FILE
    }

    /// The hosts of the first two routes of a file.
    pub(crate) fn hosts_of_pair(&self, file: usize) -> [String; 2] {
        [0, 1].map(|index| host(file * ROUTES_OF_FILE + index))
    }

    /// Replaces a file, with these versions of its first two routes; returns when the rename began.
    pub(crate) fn edit_pair(&self, file: usize, versions: [&Edited; 2]) -> Result<Instant> {
        let first = file * ROUTES_OF_FILE;
        let version = |number: usize| versions.get(number - first).copied().copied().unwrap_or_default();
        self.replace(file, &self.file(file, version))
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
        let route = self.edited_route();
        let version = |number| if number == route { *edited } else { Edited::default() };
        let file = self.edited_file();
        self.replace(file, &self.file(file, version))
    }

    fn replace(&self, file: usize, text: &str) -> Result<Instant> {
        let draft = self.world.folder().join("drafts").join("edit");
        fs::write(&draft, text)?;
        let began = Instant::now();
        fs::rename(&draft, self.path(file)).context("cannot rename a file of routes")?;
        Ok(began)
    }

    fn path(&self, file: usize) -> PathBuf {
        self.world.manifests().join(file_name(file))
    }

    /// The file of the edited route.
    pub(crate) fn edited_path(&self) -> PathBuf {
        self.path(self.edited_file())
    }

    /// The files of all objects.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        fs::read_dir(self.world.manifests())?.map(|entry| Ok(entry?.path())).collect()
    }

    fn file(&self, file: usize, version: impl Fn(usize) -> Edited) -> String {
        let first = file * ROUTES_OF_FILE;
        let numbers = first..self.routes.min(first + ROUTES_OF_FILE);
        documents(&numbers.map(|number| route(number, &version(number))).collect::<Vec<_>>())
    }
}

/// A version of an edited route.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edited {
    /// Number of the value of its header, which clients receive.
    pub(crate) value: usize,
    /// Number of the value of its annotation, which clients do not receive.
    pub(crate) annotation: usize,
    /// Whether an Envoy with a small limit of RE2 programs refuses it.
    pub(crate) is_refused: bool,
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
    let path = if edited.is_refused { LARGE } else { "{type: PathPrefix, value: /}" };
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
    - path: {path}
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
        let fixture = Fixture::write(&world, 25, ENDPOINT, VirtualHosts::Whole)?;
        assert_eq!(fixture.files()?.len(), 1 + 3 + 3);
        let read = || fs::read_to_string(fixture.edited_path());
        let before = read()?;
        assert_eq!(before.matches("kind: HTTPRoute").count(), 10);
        let edited = Edited { value: 7, ..Edited::default() };
        fixture.edit(&edited)?;
        let after = read()?;
        assert_eq!(after.len(), before.len());
        assert_eq!(after.matches(&edited.header()).count(), 1);
        assert_eq!(after.replace(&edited.header(), &Edited::default().header()), before);
        Ok(())
    }

    #[test]
    fn a_pair_is_the_first_two_routes_of_one_file() -> Result<()> {
        let world = World::new()?;
        for (routes, pairs) in [(1, 0), (2, 1), (11, 1), (12, 2), (20, 2)] {
            let fixture =
                Fixture { world: &world, routes, endpoint: ENDPOINT, virtual_hosts: VirtualHosts::Whole, port: 80 };
            assert_eq!(fixture.pairs(), pairs, "{routes} routes");
        }
        let fixture = Fixture::write(&world, 25, ENDPOINT, VirtualHosts::Whole)?;
        let good = Edited { value: 7, ..Edited::default() };
        fixture.edit_pair(1, [&Edited { is_refused: true, ..good }, &good])?;
        let text = fs::read_to_string(fixture.path(1))?;
        let of_header = |header: String| text.matches(&header).count();
        assert_eq!((of_header(good.header()), of_header(Edited::default().header())), (2, 8));
        let [refused, other] = fixture.hosts_of_pair(1);
        let place = |host: &str| text.find(host).context("no such host");
        let (first, second) = (place(&refused)?, place(&other)?);
        assert_eq!(text.match_indices(LARGE).map(|(at, _)| first < at && at < second).collect::<Vec<_>>(), [true]);
        Ok(())
    }
}
