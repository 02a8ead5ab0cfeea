//! Data planes: what is wanted for each Gateway, and what of it is told in the Gateway's status.

use std::sync::Arc;

use holdfast_graph::ObjectKey;

use crate::apis::Body;
use crate::engine::Engine;
use crate::provision::DataPlane;
use crate::provision::addresses::Address;
use crate::status::Condition;
use crate::translate::gateway::{GatewayPlan, class_key};

impl Engine {
    /// What is wanted for each Gateway of ours, in order. The listeners that HTTPProxies have of their own belong to no
    /// object that could own it.
    pub fn data_planes(&self) -> Vec<DataPlane> {
        let plans = self.translator.plans().into_iter();
        let plane = |(key, plan): (&ObjectKey, &GatewayPlan)| {
            let object = self.objects().get(key)?;
            Some(DataPlane {
                gateway: key.clone(),
                uid: object.metadata.uid.clone(),
                labels: plan.infrastructure.labels.clone(),
                annotations: plan.infrastructure.annotations.clone(),
                ports: self.translator.ports(key),
                parameters: plan.infrastructure.parameters.clone(),
            })
        };
        plans.filter_map(plane).collect()
    }

    /// The UIDs of Gateways that are another controller's: what was made for them is not wanted any more.
    pub fn others_gateways(&self) -> Vec<Arc<str>> {
        let is_anothers = |class: &str| match self.objects().get(&class_key(class)).map(|object| &object.body) {
            Some(Body::GatewayClass(class)) => class.controller_name != self.settings().controller_name,
            _ => false,
        };
        let gateways = self.objects().iter().filter_map(|object| match &object.body {
            Body::Gateway(gateway) if is_anothers(&gateway.class) => Some(object.metadata.uid.clone()),
            _ => None,
        });
        let mut all: Vec<_> = gateways.collect();
        all.sort_unstable();
        all
    }

    /// The addresses in the status of a Gateway.
    pub(super) fn addresses(&self, key: &ObjectKey, plan: &GatewayPlan) -> Vec<Address> {
        if self.settings().provision {
            return self.provisioned.get(key).map(|standing| standing.addresses.clone()).unwrap_or_default();
        }
        // All addresses of a machine or Pod are none that a client could be told.
        let bound = (!plan.address.is_unspecified()).then(|| Address::of(&plan.address.to_string()));
        let told = self.settings().addresses.iter().map(|address| Address::of(address));
        if self.settings().addresses.is_empty() { bound.into_iter().collect() } else { told.collect() }
    }

    /// `Programmed` of a Gateway: a Gateway whose data plane is missing, or that nobody can reach, is not.
    pub(super) fn provisioned_or(&self, key: &ObjectKey, plan: &GatewayPlan, programmed: Condition) -> Condition {
        if !self.settings().provision || programmed.reason == "Invalid" || self.objects().get(key).is_none() {
            return programmed;
        }
        let standing = self.provisioned.get(key);
        if let Some(trouble) = standing.and_then(|standing| standing.trouble.as_deref()) {
            return Condition::new("Programmed", false, "NoResources", trouble);
        }
        if plan.infrastructure.parameters.is_none() && standing.is_none_or(|standing| standing.addresses.is_empty()) {
            let message = "the parameters of its class or its own cannot be used, so that nothing is made for it";
            return Condition::new("Programmed", false, "NoResources", message);
        }
        match standing {
            None => Condition::unknown("Programmed", "Pending", "its Envoys are not made yet"),
            Some(standing) if standing.addresses.is_empty() => {
                let message = "its Service has no address yet; one of type LoadBalancer gets it from outside";
                Condition::new("Programmed", false, "AddressNotAssigned", message)
            }
            Some(_) => programmed,
        }
    }
}
