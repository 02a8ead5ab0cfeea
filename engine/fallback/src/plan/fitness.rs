//! Whether an earlier version of an object may be served now, with the current objects and verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::core::secret::Secret;
use holdfast_api::fault::Class;
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_translate::outcome::policy::PolicyPlan;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::{Replaced, RoutePlan};

use super::why_not::Unfit;
use super::world::World;
use crate::eligibility::annotation::may_stand_in;
use crate::eligibility::protection;
use crate::eligibility::served_now::EarlierUnit;
use crate::evidence::shares::share;

/// The message for a version that translation does not accept at all.
const UNTRANSLATED: &str = "it cannot be translated";

/// A last valid version of an object, as it would be served now.
pub(super) struct EarlierVersion<'a> {
    /// The version as it was proven.
    pub(super) proven: &'a Object,
    /// The version with today's claims, and with the desired rules that it takes.
    pub(super) served: &'a Arc<Object>,
    /// The desired version; unset if it cannot be read.
    pub(super) desired: Option<&'a Object>,
    /// What policies and hosts require of the version.
    pub(super) context: &'a protection::Context,
    pub(super) world: &'a World<'a>,
}

impl EarlierUnit for EarlierVersion<'_> {
    type Why = Unfit;

    // Its claims are today's: `hybrid.rs` has replaced them.
    fn lacks_claim(&self) -> Option<Unfit> {
        match () {
            () if !may_stand_in(self.proven) => Some(Unfit::Annotation),
            () if !has_content(self.proven) => Some(Unfit::Empty),
            () => None,
        }
    }

    fn lacks_protection(&self) -> Option<Unfit> {
        protection::lost(self.desired?, &self.proven.body, self.context).map(Unfit::Protects)
    }

    fn lacks_reference(&self) -> Option<Unfit> {
        unfit(self.served, self.world)
    }
}

/// Checks whether a version has content to serve: an HTTPProxy without routes has none.
fn has_content(object: &Object) -> bool {
    !matches!(&object.body, Body::HttpProxy(proxy) if proxy.routes.is_empty())
}

/// Returns why this version cannot be served with today's objects, as far as is known.
fn unfit(object: &Arc<Object>, world: &World<'_>) -> Option<Unfit> {
    match &object.body {
        Body::HttpRoute(_) | Body::GrpcRoute(_) | Body::StreamRoute(_) => route(object, world),
        Body::HttpProxy(_) => proxy(object, world),
        Body::Secret(secret) => certificate(secret, world),
        Body::Service(_) => None,
        Body::TrafficPolicy(_) | Body::ListenerPolicy(_) => match world.translator.try_policy(object, world.objects) {
            Some(plan) => unenforced(&plan, world),
            None => Some(Unfit::Fault(UNTRANSLATED.to_owned())),
        },
        Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_) | Body::Backend(_) => {
            match world.translator.try_backend(object, world.objects) {
                None => Some(Unfit::Fault(UNTRANSLATED.to_owned())),
                Some(plan) => match plan.unenforceable.as_deref() {
                    Some(why) => Some(Unfit::Fault(why.to_owned())),
                    None => makes_refused_clusters(object, world).then_some(Unfit::Refused),
                },
            }
        }
        Body::DirectResponse(response) => unread(response.unread.is_empty()),
        Body::GatewayExtension(extension) => {
            unread(extension.unread.is_empty()).or_else(|| extension_in_use(object, world))
        }
        Body::GatewayClass(_)
        | Body::Gateway(_)
        | Body::ListenerSet(_)
        | Body::ReferenceGrant(_)
        | Body::CertificateDelegation(_)
        | Body::ExtensionService(_)
        | Body::EndpointSlice(_)
        | Body::ConfigMap(_)
        | Body::Namespace => Some(Unfit::Kind),
    }
}

fn unread(is_read: bool) -> Option<Unfit> {
    (!is_read).then(|| Unfit::Fault("a part of it cannot be read".to_owned()))
}

/// Returns the overlay with one version of one object.
pub(crate) fn alone(object: &Arc<Object>) -> Overlay {
    Overlay { objects: BTreeMap::from([(object.key.clone(), object.clone())]), ..Overlay::default() }
}

fn fault(replaced: &Replaced) -> Unfit {
    Unfit::Fault(format!("{}: {}", replaced.section, replaced.message))
}

fn route(object: &Arc<Object>, world: &World<'_>) -> Option<Unfit> {
    let Some(plan) = world.translator.try_route(&object.key, &alone(object), world.objects) else {
        return Some(Unfit::Fault(UNTRANSLATED.to_owned()));
    };
    let plan = world.together(object, &plan).unwrap_or(plan);
    // A policy above that closes the route below one HTTPRoute closes any version there, and none below another one.
    let is_own = |replaced: &Replaced| replaced.policy.is_none() || plan.whole_below.is_empty();
    let invalid = plan.replaced.iter().find(|replaced| replaced.class == Class::Invalid && is_own(replaced)).map(fault);
    let refused = || world.is_refused(&plan, None).then_some(Unfit::Refused);
    invalid.or_else(refused).or_else(|| uses_what_is_closed(&plan, world))
}

fn proxy(object: &Arc<Object>, world: &World<'_>) -> Option<Unfit> {
    let Some(plan) = world.translator.try_route(&object.key, &alone(object), world.objects) else {
        return Some(Unfit::Fault(UNTRANSLATED.to_owned()));
    };
    // Its includes are the current ones in any case.
    let is_supplied = |section: &str| !matches!(ObjectSection::parse(section), ObjectSection::Include(_));
    let invalid = |replaced: &&Replaced| replaced.class == Class::Invalid && is_supplied(&replaced.section);
    let contents = world.translator.contents_under_any_levels(world.fleet, &plan);
    let refused = |(content, node): &(Content, Node)| is_supplied(&node.section) && world.refuses(content);
    let invalid = plan.replaced.iter().find(invalid).map(fault);
    let refused = || contents.iter().any(refused).then_some(Unfit::Refused);
    invalid.or_else(refused).or_else(|| uses_what_is_closed(&plan, world))
}

fn certificate(secret: &Secret, world: &World<'_>) -> Option<Unfit> {
    let (Some(chain), Some(key)) = (secret.data.get("tls.crt"), secret.data.get("tls.key")) else {
        return Some(Unfit::Fault("it has no certificate with a private key".to_owned()));
    };
    match holdfast_check::certificate::check_pair(chain, key) {
        Err(why) => Some(Unfit::Fault(why.to_string())),
        // Clients refuse a certificate outside of its validity.
        Ok(pair) => (!pair.validity.contains(world.now())).then_some(Unfit::Outdated),
    }
}

fn extension_in_use(object: &Arc<Object>, world: &World<'_>) -> Option<Unfit> {
    if makes_refused_clusters(object, world) {
        return Some(Unfit::Refused);
    }
    let over = alone(object);
    let users = world.translator.policies_reading(&object.key);
    let mut users = users.iter().filter_map(|user| world.translator.try_policy_under(user, &over, world.objects));
    // Other faults of a policy are handled at the policy.
    users.find_map(|plan| match plan.blamed.get(&object.key) {
        Some((_, message)) => Some(Unfit::Fault(message.to_string())),
        None => requires_refused_filter(&plan, world).then_some(Unfit::Refused),
    })
}

/// Returns a refused object without an earlier version that a route uses by a filter or a cluster. An earlier version of
/// the route with the same use is refused like the desired one.
fn uses_what_is_closed(plan: &RoutePlan, world: &World<'_>) -> Option<Unfit> {
    let of_others = |key: &&ObjectKey| world.translator.route(key).is_none();
    let owners: BTreeSet<&ObjectKey> =
        world.quarantine.iter().map(|(_, verdict)| &verdict.node.key).filter(of_others).collect();
    if owners.is_empty() {
        return None;
    }
    let filters = world.translator.filters_of(plan);
    let is_filter_of = |owner: &ObjectKey, content: &Content| {
        world.refuses(content) && world.quarantine.get(content).is_some_and(|verdict| verdict.node.key == *owner)
    };
    let makes_refused = |owner: &ObjectKey| {
        let clusters = world.translator.clusters_of(world.gateway, plan, owner);
        filters.iter().any(|content| is_filter_of(owner, content))
            || clusters.into_iter().any(|cluster| world.refuses(&share(cluster, owner)))
    };
    let settings = &world.settings.fallback;
    let goes_back = |owner: &ObjectKey| settings.isolate && settings.use_last_valid && world.candidate(owner).is_some();
    let owner = owners.into_iter().find(|owner| makes_refused(owner) && !goes_back(owner));
    owner.map(|owner| Unfit::Uses(owner.clone()))
}

/// Returns why not all settings of a policy can be enforced, as far as is known.
fn unenforced(plan: &PolicyPlan, world: &World<'_>) -> Option<Unfit> {
    if let Some(why) = &plan.unenforceable {
        return Some(Unfit::Fault(why.message.to_string()));
    }
    let refused = plan.contents().any(|(_, content)| world.refuses(&content)) || requires_refused_filter(plan, world);
    refused.then_some(Unfit::Refused)
}

/// Checks whether a filter that a policy requires is refused.
fn requires_refused_filter(plan: &PolicyPlan, world: &World<'_>) -> bool {
    plan.filters().iter().any(|content| world.refuses(content))
}

/// Checks whether a cluster that this version of an object makes is refused.
fn makes_refused_clusters(object: &Arc<Object>, world: &World<'_>) -> bool {
    let made = world.translator.clusters_made_under(world.gateway, &object.key, &alone(object), world.objects);
    made.iter().any(|(cluster, _)| world.refuses(&share(*cluster, &object.key)))
}
