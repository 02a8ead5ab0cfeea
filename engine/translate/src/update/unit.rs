//! The units of translation of all APIs, in the order of their stages.

use holdfast_envoy::model::ServicePort;
use holdfast_graph::ObjectKey;

use crate::assembly::fleet::FleetId;

/// Unit of translation, translated as a whole; the order of the enum is that of the stages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Unit {
    /// A TrafficPolicy or ListenerPolicy, independent of its targets.
    Policy(ObjectKey),
    /// The claim of a root HTTPProxy.
    Host(ObjectKey),
    /// The claim of a ListenerSet.
    Set(ObjectKey),
    Gateway(ObjectKey),
    /// The policy settings of a Gateway and its listeners.
    Levels(ObjectKey),
    /// The policy settings of a Gateway for one fleet, where they differ from the desired ones.
    LevelsVariant(FleetId),
    /// A Gateway for one fleet, where it differs from the desired one.
    GatewayVariant(FleetId),
    Claims(ObjectKey),
    Route(ObjectKey),
    /// A route for one fleet, where it differs from the desired one.
    RouteVariant(FleetId, ObjectKey),
    Endpoints(ServicePort),
    Secret(ObjectKey),
    /// The findings about an ExtensionService.
    Extension(ObjectKey),
    /// The report on a backend policy or Backend.
    Backend(ObjectKey),
    /// The data plane parameters of a GatewayClass.
    Class(ObjectKey),
}

impl Unit {
    /// Returns the object that the unit translates.
    #[cfg(test)]
    pub(crate) fn subject(&self) -> &ObjectKey {
        match self {
            Unit::Policy(key)
            | Unit::Levels(key)
            | Unit::Host(key)
            | Unit::Set(key)
            | Unit::Gateway(key)
            | Unit::Claims(key)
            | Unit::Route(key)
            | Unit::Secret(key) => key,
            Unit::Extension(key) | Unit::Backend(key) | Unit::Class(key) => key,
            Unit::RouteVariant(_, key) => key,
            Unit::GatewayVariant(fleet) | Unit::LevelsVariant(fleet) => &fleet.gateway,
            Unit::Endpoints(service) => &service.key,
        }
    }
}
