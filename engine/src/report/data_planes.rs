//! Data planes: the desired data plane of each Gateway, and its part of the Gateway's status.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::status::Condition;
use holdfast_graph::ObjectKey;
use holdfast_translate::gateway::{GatewayPlan, class_key};
use holdfast_translate::provision::addresses::Address;
use holdfast_translate::provision::parameters::ServiceType;
use holdfast_translate::provision::{DataPlane, names};

use crate::engine::Engine;

impl Engine {
    /// Returns the desired data plane of each managed Gateway, in order. The separate listeners of HTTPProxies have
    /// none, since no object could own it.
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
                address: plan.balanced,
                parameters: plan.infrastructure.parameters.clone(),
            })
        };
        plans.filter_map(plane).collect()
    }

    /// Returns the UIDs of Gateways of other controllers: objects that were created for them are no longer desired.
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

    /// Returns the addresses in the status of a Gateway.
    pub(super) fn addresses(&self, key: &ObjectKey, plan: &GatewayPlan) -> Vec<Address> {
        if self.settings().provision {
            return self.provisioned.get(key).map(|provisioned| provisioned.addresses.clone()).unwrap_or_default();
        }
        // An unspecified address (`0.0.0.0`) is not an address for clients.
        let bound = (!plan.address.is_unspecified()).then(|| Address::of(&plan.address.to_string()));
        let configured = self.settings().addresses.iter().map(|address| Address::of(address));
        if self.settings().addresses.is_empty() { bound.into_iter().collect() } else { configured.collect() }
    }

    /// Checks whether an Envoy of a Gateway is connected.
    fn has_envoys(&self, gateway: &str) -> bool {
        self.scopes.of(gateway).iter().any(|scope| !scope.members.is_empty())
    }

    /// Returns `Programmed` of a Gateway: a Gateway without data plane or without address is not programmed.
    pub(super) fn provisioned_or(&self, key: &ObjectKey, plan: &GatewayPlan, programmed: Condition) -> Condition {
        if !self.settings().provision || programmed.reason == "Invalid" || self.objects().get(key).is_none() {
            return programmed;
        }
        let provisioned = self.provisioned.get(key);
        if let Some(problem) = provisioned.and_then(|provisioned| provisioned.problem.as_deref()) {
            return Condition::new("Programmed", false, "NoResources", problem);
        }
        if plan.infrastructure.parameters.is_none()
            && provisioned.is_none_or(|provisioned| provisioned.addresses.is_empty())
        {
            let message = "the parameters of the Gateway or of its GatewayClass cannot be used, so that no Envoys are \
                           deployed for it";
            return Condition::new("Programmed", false, "NoResources", message);
        }
        match provisioned {
            None => Condition::unknown("Programmed", "Pending", "the Deployment of its Envoys is not created yet"),
            Some(provisioned) if let Some(message) = without_requested(plan, &provisioned.addresses) => {
                Condition::new("Programmed", false, "AddressNotUsable", message)
            }
            Some(provisioned) if provisioned.addresses.is_empty() => {
                let message = "its Service has no address yet; the load balancer controller of the cluster assigns \
                               the address of a Service of type LoadBalancer";
                Condition::new("Programmed", false, "AddressNotAssigned", message)
            }
            Some(_) if programmed.reason == "Pending" && !self.has_envoys(&plan.name) => {
                let (namespace, name) = (&key.namespace, names::name(key));
                let message = format!(
                    "its Deployment exists, and no Envoy of it has connected to Holdfast: when its Pods run, see `kubectl logs -n {namespace} deployment/{name} -c envoy`"
                );
                Condition::unknown("Programmed", "Pending", message)
            }
            Some(_) => programmed,
        }
    }
}

/// Returns a message if the load balancer has not assigned the address that the Gateway requests.
fn without_requested(plan: &GatewayPlan, assigned: &[Address]) -> Option<String> {
    let requested = plan.balanced?;
    if assigned.iter().any(|address| address.value.parse() == Ok(requested)) {
        return None;
    }
    let kind = plan.infrastructure.parameters.as_ref().map(|parameters| parameters.service.kind.unwrap_or_default());
    if kind.is_some_and(|kind| kind != ServiceType::LoadBalancer) {
        return Some(format!(
            "the address {requested} of spec.addresses is not requested: only a Service of type LoadBalancer can have a \
             requested address, and the parameters of the Gateway select another type; clients reach the Gateway at the \
             addresses in its status"
        ));
    }
    let assigned: Vec<&str> = assigned.iter().map(|address| address.value.as_str()).collect();
    let instead = match &assigned[..] {
        [] => "no client can reach the Gateway".to_owned(),
        assigned => format!("clients reach the Gateway at {}", assigned.join(", ")),
    };
    Some(format!(
        "the load balancer of the cluster has not assigned the address {requested} of spec.addresses: {instead}; see \
         the events of the Service, and request an address that the load balancer has, or none"
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_api::settings::Settings;
    use holdfast_translate::provision::Provisioned;
    use serde_json::Value;

    use super::*;
    use crate::engine::Event;
    use crate::testing;

    const OBJECTS: &str = "{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: c}, spec: \
        {controllerName: holdfast.dev/gateway-controller}}\n---\n\
        {apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: g, namespace: infra}, spec: \
        {gatewayClassName: c, listeners: [{name: http, port: 80, protocol: HTTP}]}}\n";

    /// Returns the reason of `Programmed`, and the addresses.
    fn reason_and_addresses(engine: &Engine) -> (String, Vec<String>) {
        let statuses = engine.statuses();
        let status = &statuses.iter().find(|status| &*status.object.kind == "Gateway").unwrap().status;
        let text = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
        let programmed = status["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Programmed");
        let addresses = status["addresses"].as_array().unwrap().iter().map(|address| text(address, "value"));
        (text(programmed.unwrap(), "reason"), addresses.collect())
    }

    #[test]
    fn a_gateway_is_programmed_when_it_can_be_reached() {
        let mut engine = testing::engine(OBJECTS, Settings { provision: true, ..Settings::default() });
        let key = engine.data_planes().first().unwrap().gateway.clone();
        let mut programmed = |addresses: &[&str], problem: Option<&str>| {
            let addresses = addresses.iter().map(|address| Address::of(address)).collect();
            let provisioned = Provisioned { addresses, problem: problem.map(str::to_owned) };
            engine.handle(vec![Event::Provisioned(key.clone(), Some(provisioned))]);
            reason_and_addresses(&engine)
        };
        assert_eq!(programmed(&[], None), ("AddressNotAssigned".into(), vec![]));
        assert_eq!(programmed(&["192.0.2.1"], Some("a stranger")), ("NoResources".into(), vec!["192.0.2.1".into()]));
        // The remaining reason depends on Envoys, and no Envoy is connected here.
        assert_eq!(programmed(&["192.0.2.1"], None), ("Pending".into(), vec!["192.0.2.1".into()]));
        let status = engine.statuses().into_iter().find(|status| &*status.object.kind == "Gateway").unwrap().status;
        assert!(status.to_string().contains("`kubectl logs -n infra deployment/g-holdfast -c envoy`"), "{status}");
        engine.handle(vec![Event::Provisioned(key, None)]);
        assert_eq!(reason_and_addresses(&engine), ("Pending".into(), vec![]));
    }

    #[test]
    fn a_gateway_is_programmed_at_the_address_that_it_requests() {
        let objects = OBJECTS.replace("listeners:", "addresses: [{value: '2001:db8::1'}], listeners:");
        let mut engine = testing::engine(&objects, Settings { provision: true, ..Settings::default() });
        let plane = engine.data_planes().swap_remove(0);
        assert_eq!(plane.address, "2001:db8::1".parse().ok());
        let mut programmed = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| Address::of(address)).collect();
            engine.handle(vec![Event::Provisioned(
                plane.gateway.clone(),
                Some(Provisioned { addresses, problem: None }),
            )]);
            reason_and_addresses(&engine).0
        };
        assert_eq!(programmed(&[]), "AddressNotUsable");
        assert_eq!(programmed(&["192.0.2.1"]), "AddressNotUsable");
        assert_eq!(programmed(&["192.0.2.1", "2001:DB8:0::1"]), "Pending");
    }

    #[test]
    fn where_nothing_is_made_addresses_are_those_of_a_flag() {
        let settings = Settings { addresses: vec!["192.0.2.1".into(), "a.example".into()], ..Settings::default() };
        let engine = testing::engine(OBJECTS, settings);
        assert_eq!(reason_and_addresses(&engine).1, ["192.0.2.1", "a.example"]);
    }

    #[test]
    fn gateways_of_others_are_known_by_their_class() {
        let mut engine = testing::engine(OBJECTS, Settings { provision: true, ..Settings::default() });
        assert_eq!(engine.others_gateways(), Vec::<Arc<str>>::new());
        engine.handle(testing::events(&OBJECTS.replace("holdfast.dev/", "example.com/")));
        assert_eq!((engine.others_gateways().len(), engine.data_planes().len()), (1, 0));
        engine.handle(vec![Event::Deleted(class_key("c"))]);
        assert_eq!(engine.others_gateways(), Vec::<Arc<str>>::new());
    }
}
