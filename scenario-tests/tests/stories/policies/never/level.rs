//! Attachment of policies: for every level a separate route, with a broader route that must not answer for it.

use anyhow::Result;
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::manifests::{self, NAMESPACE, class, documents, gateway, https_listener, listener};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;

use super::tls::PolicyKind;

/// A level of attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AttachmentLevel {
    /// A rule of an HTTPRoute, by its name.
    Rule,
    /// An HTTPRoute.
    Route,
    /// A rule that refers to the policy.
    Named,
    /// A listener without TLS.
    Plain,
    /// A listener with TLS.
    Secure,
    /// A Gateway.
    Gateway,
    /// A Gateway with TLS listeners.
    Doors,
    /// Services with a backend policy.
    Backend,
}

/// Services of the backend level: the trusted one and the untrusted one.
pub(super) const TRUSTED: &str = "trusted";
pub(super) const IMPOSTOR: &str = "impostor";

impl AttachmentLevel {
    /// All levels; the first is broken until its policy exists.
    pub(super) const ALL: [Self; 8] =
        [Self::Named, Self::Rule, Self::Route, Self::Plain, Self::Secure, Self::Gateway, Self::Doors, Self::Backend];
    /// Levels of TrafficPolicies.
    pub(super) const OF_TRAFFIC: [Self; 6] =
        [Self::Named, Self::Rule, Self::Route, Self::Plain, Self::Secure, Self::Gateway];
    /// Levels of routes.
    pub(super) const OF_ROUTES: [Self; 3] = [Self::Rule, Self::Route, Self::Named];

    /// The name of its objects.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Route => "route",
            Self::Named => "named",
            Self::Plain => "plain",
            Self::Secure => "secure",
            Self::Gateway => "whole",
            Self::Doors => "doors",
            Self::Backend => "back",
        }
    }

    fn host(self) -> String {
        format!("{}.example", self.name())
    }

    /// The name of its policy.
    pub(super) fn policy(self) -> String {
        format!("guard-{}", self.name())
    }

    /// The status where a policy cannot be enforced.
    pub(super) fn closed(self) -> u16 {
        if Self::OF_ROUTES.contains(&self) { 404 } else { 500 }
    }

    /// Returns the target reference of the policy; none where the rule refers to the policy.
    fn target(self) -> Option<String> {
        let target = |kind: &str, name: &str, section: &str| {
            let section = if section.is_empty() { String::new() } else { format!(", sectionName: {section}") };
            Some(format!("{{group: gateway.networking.k8s.io, kind: {kind}, name: {name}{section}}}"))
        };
        match self {
            Self::Rule => target("HTTPRoute", "rule", "one"),
            Self::Route => target("HTTPRoute", "route", ""),
            Self::Named => None,
            Self::Plain => target("Gateway", "public", "plain"),
            Self::Secure => target("Gateway", "public", "secure"),
            Self::Gateway => target("Gateway", "whole", ""),
            Self::Doors => target("Gateway", "doors", ""),
            Self::Backend => {
                let service = |name: &str| format!("{{group: '', kind: Service, name: {name}}}");
                Some(format!("{}, {}", service(TRUSTED), service(IMPOSTOR)))
            }
        }
    }
}

/// Gateways and routes, one for each level.
pub(super) struct RoutesByLevel {
    world: World,
    plain: u16,
    tls: u16,
    whole: u16,
    doors: u16,
    certificate: Certificate,
}

impl RoutesByLevel {
    /// The Gateways that need Envoys.
    pub(super) const GATEWAYS: [&str; 3] = ["default/public", "default/whole", "default/doors"];

    /// Writes everything except policies.
    pub(super) fn write(world: &World) -> Result<Self> {
        let (plain, tls, whole, doors) = (world.port()?, world.port()?, world.port()?, world.port()?);
        let certificate = Certificate::of(&["secure.example", "doors.example"])?;
        let listeners = [
            listener("broad", plain, "protocol: HTTP"),
            listener("plain", plain, "protocol: HTTP\nhostname: plain.example"),
            https_listener("broad-tls", tls, "*.example", &["certificate"]),
            https_listener("secure", tls, "secure.example", &["certificate"]),
        ];
        world.write(
            "estate.yaml",
            documents(&[
                class(),
                gateway("public", &listeners.concat()),
                gateway("whole", &listener("whole", whole, "protocol: HTTP")),
                gateway("doors", &https_listener("door", doors, "doors.example", &["certificate"])),
                certificate.secret(NAMESPACE, "certificate"),
                // All requests that no guarded route answers.
                route(
                    "broad",
                    "- {name: public, sectionName: broad}\n- {name: public, sectionName: broad-tls}\n",
                    "[]",
                    "/",
                    "",
                    "broad",
                ),
            ]),
        )?;
        for level in AttachmentLevel::ALL {
            let parent = match level {
                AttachmentLevel::Plain => "- {name: public, sectionName: plain}\n",
                AttachmentLevel::Secure => "- {name: public, sectionName: secure}\n",
                AttachmentLevel::Gateway => "- {name: whole}\n",
                AttachmentLevel::Doors => "- {name: doors}\n",
                _ => "- {name: public, sectionName: broad}\n",
            };
            let filters = if level == AttachmentLevel::Named {
                let policy = level.policy();
                format!(
                    "filters: [{{type: ExtensionRef, extensionRef: {{group: gateway.kgateway.dev, kind: TrafficPolicy, name: {policy}}}}}]"
                )
            } else {
                String::new()
            };
            let hosts = format!("[{}]", level.host());
            let to = if level == AttachmentLevel::Backend { TRUSTED } else { "echo" };
            let mut text = route(level.name(), parent, &hosts, "/guarded", &filters, to);
            if level == AttachmentLevel::Backend {
                text = documents(&[text, route(IMPOSTOR, parent, &hosts, "/impostor", "", IMPOSTOR)]);
            }
            world.write(&format!("route-{}.yaml", level.name()), text)?;
        }
        let estate = Self { world: world.clone(), plain, tls, whole, doors, certificate };
        // Their endpoints are written with a guard.
        let services = [TRUSTED, IMPOSTOR].map(|name| manifests::service(NAMESPACE, name, None, &[]));
        estate.write_fixtures(AttachmentLevel::Backend, &documents(&services))?;
        Ok(estate)
    }

    /// Returns a request to the route of a level.
    pub(super) fn request(&self, level: AttachmentLevel) -> HttpRequest {
        let port = match level {
            AttachmentLevel::Secure => self.tls,
            AttachmentLevel::Gateway => self.whole,
            AttachmentLevel::Doors => self.doors,
            _ => self.plain,
        };
        let host = level.host();
        let request = get(port, "/guarded").host(&host);
        if matches!(level, AttachmentLevel::Secure | AttachmentLevel::Doors) {
            request.tls(self.certificate.trust(&host))
        } else {
            request
        }
    }

    /// Writes the TrafficPolicy of a level.
    pub(super) fn policy(&self, level: AttachmentLevel, spec: &str) -> Result<()> {
        self.policy_of(PolicyKind::Traffic, level, spec)
    }

    /// Writes the policy of a level.
    pub(super) fn policy_of(&self, kind: PolicyKind, level: AttachmentLevel, spec: &str) -> Result<()> {
        let (kind, version) = (kind.name(), kind.version());
        let targets = level.target().map(|target| format!("targetRefs: [{target}]\n")).unwrap_or_default();
        let spec = manifests::indent(&format!("{targets}{spec}"), 2);
        let name = level.policy();
        self.world.write(
            &format!("{name}.yaml"),
            format!(
                "apiVersion: {version}\nkind: {kind}\n\
                 metadata: {{name: {name}, namespace: {NAMESPACE}}}\nspec:\n{spec}"
            ),
        )
    }

    /// Deletes the policy of a level.
    pub(super) fn without_policy(&self, level: AttachmentLevel) -> Result<()> {
        self.world.delete(&format!("{}.yaml", level.policy()))
    }

    /// Writes the objects that exist during the whole story.
    pub(super) fn write_fixtures(&self, level: AttachmentLevel, objects: &str) -> Result<()> {
        self.world.write(&format!("fixtures-{}.yaml", level.name()), objects)
    }

    /// Writes the objects that the guard of a level refers to.
    pub(super) fn besides(&self, level: AttachmentLevel, objects: &str) -> Result<()> {
        self.world.write(&besides(level), objects)
    }

    /// Deletes the objects that the guard of a level refers to.
    pub(super) fn without_besides(&self, level: AttachmentLevel) -> Result<()> {
        self.world.delete(&besides(level))
    }
}

fn besides(level: AttachmentLevel) -> String {
    format!("besides-{}.yaml", level.name())
}

fn route(name: &str, parents: &str, hosts: &str, path: &str, filters: &str, to: &str) -> String {
    let spec = format!(
        "hostnames: {hosts}\nrules:\n- name: one\n  matches: [{{path: {{value: {path}}}}}]\n  {filters}\n  \
         backendRefs: [{{name: {to}, port: 8080}}]\n"
    );
    manifests::route("HTTPRoute", NAMESPACE, name, parents, &spec)
}
