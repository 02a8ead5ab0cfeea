//! What Holdfast reads in a measurement: one Gateway with one plain listener, the routes and the Services, in a folder of
//! manifests or in an API server.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::{HoldfastOptions, World};

use crate::api_server::{ApiServer, ENDPOINT};
use crate::objects::{Edited, ROUTES_OF_FILE, host, route, service_of};
use crate::report::{Input, VirtualHosts};
use crate::requests::Requests;

/// Where the objects are.
#[derive(Debug)]
pub(crate) enum Source {
    /// In the folder of manifests of the world.
    Folder,
    ApiServer(Box<ApiServer>),
}

/// The times of an edit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Beginning of the rename of the file, or of the request to the API server.
    pub(crate) began: Instant,
    /// Arrival of the answer of the API server.
    pub(crate) acknowledged: Option<Instant>,
}

/// The objects of a measurement.
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
    pub(crate) source: Source,
}

impl<'a> Fixture<'a> {
    /// Creates all objects.
    pub(crate) async fn create(
        input: Input,
        world: &'a World,
        routes: usize,
        endpoint: SocketAddr,
        virtual_hosts: VirtualHosts,
    ) -> Result<Self> {
        match input {
            Input::Folder => Self::write(world, routes, endpoint, virtual_hosts),
            Input::Kubernetes => {
                let port = world.port()?;
                let source = Source::ApiServer(Box::new(ApiServer::start(world, port, routes).await?));
                let endpoint = ENDPOINT;
                Ok(Self { world, routes, endpoint, virtual_hosts, port, source })
            }
        }
    }

    /// Writes all objects into the folder of manifests.
    pub(crate) fn write(
        world: &'a World,
        routes: usize,
        endpoint: SocketAddr,
        virtual_hosts: VirtualHosts,
    ) -> Result<Self> {
        let source = Source::Folder;
        let fixture = Self { world, routes, endpoint, virtual_hosts, port: world.gateway()?, source };
        for file in 0..routes.div_ceil(ROUTES_OF_FILE) {
            world.write(&format!("service-{file:05}.yaml"), service_of(file, endpoint))?;
            world.write(&file_name(file), fixture.file(file, |_| Edited::default()))?;
        }
        Ok(fixture)
    }

    /// Options of Holdfast with this value of `--probe`.
    pub(crate) fn options(&self, probe: &str) -> Result<HoldfastOptions> {
        let mut options = HoldfastOptions::new(self.world)?.args(&["--probe", probe]);
        if let Source::ApiServer(server) = &self.source {
            options.manifests.clear();
            options = options.args(&["--kubeconfig", &server.kubeconfig()]);
        }
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

    /// Edits the edited route where Holdfast reads it.
    pub(crate) async fn edit(&self, edited: &Edited) -> Result<Written> {
        match &self.source {
            Source::Folder => Ok(Written { began: self.edit_file(edited)?, acknowledged: None }),
            Source::ApiServer(server) => server.replace(self.edited_route(), edited).await,
        }
    }

    /// Requests for statuses and Events so far; none with a folder.
    pub(crate) async fn requests(&self) -> Result<Requests> {
        match &self.source {
            Source::Folder => Ok(Requests::default()),
            Source::ApiServer(server) => server.requests().await,
        }
    }

    /// Replaces the file of the edited route; returns when the rename began.
    pub(crate) fn edit_file(&self, edited: &Edited) -> Result<Instant> {
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

fn file_name(file: usize) -> String {
    format!("routes-{file:05}.yaml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::LARGE;

    #[test]
    fn an_edit_changes_one_route_of_one_file() -> Result<()> {
        let world = World::new()?;
        let fixture = Fixture::write(&world, 25, ENDPOINT, VirtualHosts::Whole)?;
        assert_eq!(fixture.files()?.len(), 1 + 3 + 3);
        let read = || fs::read_to_string(fixture.edited_path());
        let before = read()?;
        assert_eq!(before.matches("kind: HTTPRoute").count(), 10);
        let edited = Edited { value: 7, ..Edited::default() };
        fixture.edit_file(&edited)?;
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
            let (world, virtual_hosts, source) = (&world, VirtualHosts::Whole, Source::Folder);
            let fixture = Fixture { world, routes, endpoint: ENDPOINT, virtual_hosts, port: 80, source };
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
