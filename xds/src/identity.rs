//! Identity of the Envoy of a stream, determined by its first message.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::google::protobuf::value::Kind;

use crate::admission::Belonging;
use crate::limits::{FLAGS_BYTES_MAX, FLEET_BYTES_MAX, NODE_ID_BYTES_MAX};
use crate::managed::{UNMANAGED_BUILD, managed_node_id};

/// The field of `node.metadata` with the bootstrap flags that change what an Envoy accepts and refuses.
pub const FLAGS_FIELD: &str = "holdfast.dev/flags";

/// The first version of Envoy, major and minor, that takes virtual hosts one by one.
const SEPARATE_HOSTS_SINCE: (u32, u32) = (1, 40);

/// The Envoy of a stream; constant for the lifetime of the stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvoyId {
    /// The fleet of the Envoy, `namespace/name` of its Gateway.
    pub fleet: Arc<str>,
    /// The `node.id` of the Envoy.
    pub node: Arc<str>,
    /// The build of the Envoy: the version as in `node.user_agent_build_version`, empty where the Envoy did not report
    /// one, and after a `+` the flags of its bootstrap, if it reported any. For example `1.40.0+re2=10000`.
    ///
    /// Two Envoys of one build accept and refuse the same resources.
    pub build: Arc<str>,
}

/// Returns the fleet of an Envoy from the node in the first message of a stream.
///
/// Proven credentials determine the fleet, and the claim of the node must not contradict it: an Envoy with the
/// credentials of another Gateway gets an error instead of unexpected resources.
fn fleet(node: &Node, belonging: &Belonging) -> Result<Arc<str>, IdentityError> {
    match belonging {
        Belonging::Proven(admitted) if node.cluster.is_empty() || node.cluster == *admitted.fleet => {
            Ok(admitted.fleet.clone())
        }
        Belonging::Proven(_) => Err(IdentityError::NotProven),
        Belonging::Claimed | Belonging::Unmanaged => match node.cluster.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Arc::from(node.cluster.as_str()))
            }
            _ => Err(IdentityError::NotAFleet),
        },
    }
}

/// Reason for ending a stream because of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The first message has no node.
    #[error("the first message of a stream must carry `node`")]
    NoNode,
    /// `node.cluster` is not `namespace/name`.
    #[error("`node.cluster` must be the Gateway as `namespace/name`")]
    NotAFleet,
    /// `node.cluster` differs from the Gateway of the credentials. The error does not depend on the existence of such a
    /// Gateway.
    #[error("`node.cluster` is not the Gateway that the credentials are for")]
    NotProven,
    /// `node.id` or `node.cluster` is too long.
    #[error("`node.id` may have at most {NODE_ID_BYTES_MAX} bytes, and `node.cluster` at most {FLEET_BYTES_MAX}")]
    TooLong,
    /// `node.id` or `node.cluster` has control characters, which could forge log lines.
    #[error("`node.id` and `node.cluster` must not contain control characters")]
    NotPrintable,
    /// `node.id` is that of a managed Envoy, which has another socket.
    #[error(
        "`node.id` is reserved for the Envoy that Holdfast manages, which connects over a unix socket: set another one \
         (`holdfast bootstrap --node-id`)"
    )]
    Managed,
    /// A later message claims to be from another Envoy.
    #[error("`node.id` and `node.cluster` must not change within a stream")]
    Changed,
}

impl EnvoyId {
    /// Returns the Envoy that the first message of a stream describes.
    pub(crate) fn of(node: Option<&Node>, belonging: &Belonging) -> Result<Self, IdentityError> {
        let node = node.ok_or(IdentityError::NoNode)?;
        if node.id.len() > NODE_ID_BYTES_MAX || node.cluster.len() > FLEET_BYTES_MAX {
            return Err(IdentityError::TooLong);
        }
        if node.id.contains(char::is_control) || node.cluster.contains(char::is_control) {
            return Err(IdentityError::NotPrintable);
        }
        let fleet = fleet(node, belonging)?;
        let build = match belonging {
            Belonging::Unmanaged if node.id == managed_node_id(&fleet) => return Err(IdentityError::Managed),
            Belonging::Unmanaged => UNMANAGED_BUILD.into(),
            Belonging::Claimed | Belonging::Proven(_) => build(node),
        };
        Ok(Self { fleet, node: Arc::from(node.id.as_str()), build })
    }

    /// Returns whether this Envoy can take virtual hosts one by one: Envoys before 1.40 apply hosts to route
    /// configurations without them, or refuse them over ADS, and an Envoy without a version may be any.
    pub(crate) fn takes_separate_hosts(&self) -> bool {
        let mut numbers = self.build.split(['.', '+']).map(str::parse::<u32>);
        let (major, minor) = (numbers.next().and_then(Result::ok), numbers.next().and_then(Result::ok));
        (major, minor) >= (Some(SEPARATE_HOSTS_SINCE.0), Some(SEPARATE_HOSTS_SINCE.1))
    }

    /// Checks that a later message describes the same Envoy; most messages have no node at all.
    pub(crate) fn check(&self, node: Option<&Node>, belonging: &Belonging) -> Result<(), IdentityError> {
        match node {
            None => Ok(()),
            Some(node) if *node.id == *self.node && fleet(node, belonging)? == self.fleet => Ok(()),
            Some(_) => Err(IdentityError::Changed),
        }
    }
}

fn build(node: &Node) -> Arc<str> {
    let version = match &node.user_agent_version_type {
        Some(UserAgentVersionType::UserAgentBuildVersion(build)) => build.version.as_ref(),
        _ => None,
    };
    let version = version.map(|v| format!("{}.{}.{}", v.major_number, v.minor_number, v.patch)).unwrap_or_default();
    match flags(node) {
        Some(flags) => Arc::from(format!("{version}+{flags}")),
        None => Arc::from(version),
    }
}

/// Returns the flags that the bootstrap reports. Invalid flags are ignored, since flags appear in logs and pages.
fn flags(node: &Node) -> Option<&str> {
    let Some(Kind::StringValue(flags)) = &node.metadata.as_ref()?.fields.get(FLAGS_FIELD)?.kind else { return None };
    let is_short = (1..=FLAGS_BYTES_MAX).contains(&flags.len());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._=,-".contains(&byte);
    (is_short && flags.bytes().all(is_plain)).then_some(flags)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::BuildVersion;
    use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
    use envoy_types::pb::google::protobuf::{Struct, Value};

    use super::*;
    use crate::admission::Admitted;

    fn node(id: &str, cluster: &str) -> Node {
        Node { id: id.to_owned(), cluster: cluster.to_owned(), ..Default::default() }
    }

    #[test]
    fn the_fleet_is_the_cluster_of_the_first_message() {
        let mut claimed = node("e1", "infra/public");
        let version = SemanticVersion { major_number: 1, minor_number: 40, patch: 0 };
        let build = BuildVersion { version: Some(version), ..Default::default() };
        claimed.user_agent_version_type = Some(UserAgentVersionType::UserAgentBuildVersion(build));
        let envoy = EnvoyId::of(Some(&claimed), &Belonging::Claimed).unwrap();
        assert_eq!((&*envoy.fleet, &*envoy.node, &*envoy.build), ("infra/public", "e1", "1.40.0"));
        assert_eq!(envoy.check(None, &Belonging::Claimed), Ok(()));
        assert_eq!(envoy.check(Some(&claimed), &Belonging::Claimed), Ok(()));
        assert_eq!(envoy.check(Some(&node("e1", "infra/other")), &Belonging::Claimed), Err(IdentityError::Changed));
        assert_eq!(envoy.check(Some(&node("e2", "infra/public")), &Belonging::Claimed), Err(IdentityError::Changed));
    }

    #[test]
    fn the_proven_fleet_is_selected_and_claims_must_not_contradict_it() {
        let proven = Belonging::Proven(Admitted { fleet: "infra/public".into(), until: 0 });
        for claim in ["infra/public", ""] {
            let envoy = EnvoyId::of(Some(&node("e1", claim)), &proven).unwrap();
            assert_eq!(&*envoy.fleet, "infra/public");
            assert_eq!(envoy.check(Some(&node("e1", "infra/other")), &proven), Err(IdentityError::NotProven));
            assert_eq!(envoy.check(Some(&node("e2", claim)), &proven), Err(IdentityError::Changed));
        }
        for claim in ["infra/other", "no/such", "public", "infra/public/"] {
            assert_eq!(EnvoyId::of(Some(&node("e1", claim)), &proven), Err(IdentityError::NotProven), "{claim}");
        }
    }

    #[test]
    fn beside_a_managed_envoy_no_client_has_its_id_or_its_build() {
        let managed = node("infra-public-managed", "infra/public");
        assert_eq!(EnvoyId::of(Some(&managed), &Belonging::Unmanaged), Err(IdentityError::Managed));
        assert!(EnvoyId::of(Some(&managed), &Belonging::Claimed).is_ok());
        for (id, cluster) in [("e1", "infra/public"), ("infra-public-managed", "infra/other")] {
            let mut other = node(id, cluster);
            let flags = Value { kind: Some(Kind::StringValue("re2=10000".to_owned())) };
            other.metadata = Some(Struct { fields: [(FLAGS_FIELD.to_owned(), flags)].into() });
            let envoy = EnvoyId::of(Some(&other), &Belonging::Unmanaged).unwrap();
            assert_eq!((&*envoy.fleet, &*envoy.node, &*envoy.build), (cluster, id, UNMANAGED_BUILD));
        }
        let other = node("e1", "infra/public");
        let envoy = EnvoyId::of(Some(&other), &Belonging::Unmanaged).unwrap();
        assert_eq!(envoy.check(Some(&managed), &Belonging::Unmanaged), Err(IdentityError::Changed));
    }

    #[test]
    fn flags_of_the_bootstrap_are_part_of_the_build() {
        let build_with = |kind: Kind| {
            let mut claimed = node("e1", "infra/public");
            let fields = [(FLAGS_FIELD.to_owned(), Value { kind: Some(kind) })].into();
            claimed.metadata = Some(Struct { fields });
            EnvoyId::of(Some(&claimed), &Belonging::Claimed).unwrap().build
        };
        let text = |text: &str| build_with(Kind::StringValue(text.to_owned()));
        assert_eq!(&*text("re2=10000,x_y.z-1"), "+re2=10000,x_y.z-1");
        assert_eq!(text(&"f".repeat(FLAGS_BYTES_MAX)).len(), FLAGS_BYTES_MAX + 1);
        for unusable in ["", "a b", "a+b", "a\n", "ä", &"f".repeat(FLAGS_BYTES_MAX + 1)] {
            assert_eq!(&*text(unusable), "", "{unusable:?}");
        }
        assert_eq!(&*build_with(Kind::NumberValue(1.0)), "");
    }

    #[test]
    fn anything_but_namespace_and_name_is_refused() {
        for cluster in ["", "public", "/public", "infra/", "a/b/c"] {
            assert_eq!(EnvoyId::of(Some(&node("e", cluster)), &Belonging::Claimed), Err(IdentityError::NotAFleet));
        }
        assert_eq!(EnvoyId::of(None, &Belonging::Claimed), Err(IdentityError::NoNode));
        assert_eq!(EnvoyId::of(Some(&node("e\n2", "a/b")), &Belonging::Claimed), Err(IdentityError::NotPrintable));
        let long = node(&"e".repeat(NODE_ID_BYTES_MAX + 1), "a/b");
        assert_eq!(EnvoyId::of(Some(&long), &Belonging::Claimed), Err(IdentityError::TooLong));
    }

    #[test]
    fn only_envoys_that_report_a_late_version_take_hosts_one_by_one() {
        let takes = |build: &str| EnvoyId { fleet: "a/b".into(), node: "n".into(), build: build.into() };
        for build in ["1.40.0", "1.40.1+re2=10000", "1.41.0", "2.0.0"] {
            assert!(takes(build).takes_separate_hosts(), "{build}");
        }
        for build in ["1.39.9", "1.39.3+re2=10000", "0.99.0", "", "+re2=1", UNMANAGED_BUILD] {
            assert!(!takes(build).takes_separate_hosts(), "{build}");
        }
    }
}
