//! The edits of the crowd: each version of an object differs from the one before in one way, and Envoy refuses a share
//! of the versions because of a regular expression. Each refused version has another expression, so that a replacement
//! at its match is new as well.

use std::time::Duration;

use anyhow::Result;
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::manifests::documents;

use super::super::LARGE;
use super::row::{BACKENDS, Row, route_of};

/// What the edits of the crowd change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrowdEdit {
    /// The backend.
    Backends,
    /// The value of a request header that is added.
    AddedHeaders,
    /// A TrafficPolicy on the route.
    Policies,
    /// The hostname.
    Hostnames,
}

impl Row {
    fn crowd_namespace(&self, number: usize) -> String {
        format!("crowd{}", number % self.namespaces)
    }

    /// Returns the namespaces of the crowd.
    pub(super) fn crowd_namespaces(&self) -> impl Iterator<Item = String> {
        (0..self.namespaces).map(|number| self.crowd_namespace(number))
    }

    /// Returns the manifest of an object of the crowd in a version.
    fn crowd_object(&self, number: usize, version: usize, is_refused: bool) -> String {
        let namespace = self.crowd_namespace(number);
        let (name, path) = (format!("r{number}"), format!("/crowd{number}"));
        let is_own = is_refused && self.edit != CrowdEdit::Policies;
        let matched = match is_own {
            true => format!("{{type: RegularExpression, value: '{path}/{LARGE}-{version}'}}"),
            false => format!("{{type: PathPrefix, value: {path}}}"),
        };
        let of_edit = |edit: CrowdEdit| if self.edit == edit { version } else { 0 };
        let hosts = format!("hostnames: [c{number}-{}.example]\n", of_edit(CrowdEdit::Hostnames));
        let header = format!("{{name: x-crowd, value: '{}'}}", of_edit(CrowdEdit::AddedHeaders));
        let backend = BACKENDS[of_edit(CrowdEdit::Backends) % BACKENDS.len()];
        let rule = format!(
            "rules:\n- matches: [{{path: {matched}}}]\n  filters: [{{type: RequestHeaderModifier, requestHeaderModifier: \
             {{add: [{header}]}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]\n"
        );
        let hosts = if self.edit == CrowdEdit::Hostnames { hosts } else { String::new() };
        let route = route_of(&namespace, &name, &format!("{hosts}{rule}"));
        if self.edit != CrowdEdit::Policies {
            return route;
        }
        let origin = match is_refused {
            true => format!("{{safeRegex: '{LARGE}-{version}'}}"),
            false => format!("{{suffix: .v{version}.example}}"),
        };
        let policy = super::row::policy(&namespace, &name, &format!("csrf: {{additionalOrigins: [{origin}]}}"));
        documents(&[route, policy])
    }

    /// Writes an object of the crowd in a version.
    pub(super) fn write_crowd_object(&self, world: &World, number: usize, version: usize) -> Result<()> {
        let is_refused = version > 0 && (version % self.objects + version / self.objects) % 3 < self.refused_of_three;
        world.write(&format!("crowd-{number}.yaml"), self.crowd_object(number, version, is_refused))
    }

    /// Edits the objects of the crowd in turn, until the task is stopped.
    pub(super) async fn flap(&'static self, world: World) -> Result<()> {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / self.per_second);
        for version in 1_usize.. {
            ticks.tick().await;
            self.write_crowd_object(&world, version % self.objects, version)?;
        }
        Ok(())
    }
}
