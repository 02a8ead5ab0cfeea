//! The page `/debug/envoys`: every connected Envoy with its state, Envoys that fell silent, and managed Envoys.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use holdfast_check::time::Moment;
use holdfast_engine::report::inspection::OutlierMessages;
use holdfast_xds::connection::Protocol;
use holdfast_xds::{EnvoyView, Fleets, LastRefusal, SilentEnvoy, TypeView};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::State;
use crate::envoy::ManagedEnvoy;

/// A connected Envoy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvoyRow {
    /// `namespace/name` of its Gateway.
    pub(crate) fleet: Arc<str>,
    /// The `node.id`.
    pub(crate) node: Arc<str>,
    /// The build.
    pub(crate) build: Arc<str>,
    /// The variant of the protocol.
    pub(crate) protocol: Protocol,
    /// The number of the stream.
    pub(crate) stream: u64,
    /// The address; unset on a unix socket.
    pub(crate) address: Option<IpAddr>,
    /// Whether the Envoy proved its Gateway by a certificate or a token.
    pub(crate) is_proven: bool,
    /// Since when it is connected.
    pub(crate) connected_since: Moment,
    /// When it last acknowledged a response.
    pub(crate) acknowledged_at: Option<Moment>,
    /// Since when it has not acknowledged everything; unset if it has.
    pub(crate) behind_since: Option<Moment>,
    /// The last refusal on this stream.
    pub(crate) last_refusal: Option<RefusalRow>,
    /// The message of the last refusal, if others of its build accepted what it refuses: it has a configuration of its
    /// own.
    pub(crate) differs: Option<String>,
    /// The time without a byte from it, in seconds, if it does not answer.
    pub(crate) silent_seconds: Option<u64>,
    /// Its resources by type.
    pub(crate) types: BTreeMap<String, TypeView>,
}

/// The last refusal of an Envoy.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefusalRow {
    /// When it was received.
    pub(crate) at: Moment,
    /// The type, such as `RDS`.
    pub(crate) r#type: String,
    /// The first of the refused resources.
    pub(crate) resources: Vec<Arc<str>>,
    /// The message of Envoy.
    pub(crate) message: Arc<str>,
}

impl EnvoyRow {
    fn new(view: EnvoyView, outliers: &OutlierMessages, silent: &[SilentEnvoy]) -> Self {
        let EnvoyView { fleet, node, build, protocol, stream, address, is_proven, history, types } = view;
        let quiet = silent.iter().find(|silent| silent.envoy.fleet == fleet && silent.envoy.node == node);
        let differs = outliers.get(&(fleet.clone(), node.clone())).cloned();
        let last_refusal = history.refused.map(|LastRefusal { at, r#type, resources, message }| RefusalRow {
            at: Moment(at),
            r#type: r#type.to_owned(),
            resources,
            message,
        });
        Self {
            fleet,
            node,
            build,
            protocol,
            stream,
            address,
            is_proven,
            connected_since: Moment(history.connected),
            acknowledged_at: history.acknowledged.map(Moment),
            behind_since: history.behind.map(Moment),
            last_refusal,
            differs,
            silent_seconds: quiet.map(|silent| silent.quiet).as_ref().map(Duration::as_secs),
            types: types.into_iter().map(|(kind, view)| (kind.to_owned(), view)).collect(),
        }
    }

    /// Returns whether it has acknowledged everything that it should have, and answers.
    pub(crate) fn is_in_step(&self) -> bool {
        self.behind_since.is_none() && self.differs.is_none() && self.silent_seconds.is_none() && !self.types.is_empty()
    }
}

/// The connected Envoys.
pub(crate) fn connected(fleets: &Fleets, outliers: &OutlierMessages) -> Vec<EnvoyRow> {
    let silent = fleets.silent();
    fleets.envoys().into_iter().map(|view| EnvoyRow::new(view, outliers, &silent)).collect()
}

/// Reads the parameters of the page: the Gateway, or none for all.
pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Option<String>, String> {
    let mut gateway = None;
    for (name, value) in parameters {
        match (&*name, &gateway) {
            ("gateway", None) => gateway = Some(value),
            ("gateway", Some(_)) => return Err("gateway is given twice".into()),
            _ => return Err(format!("unknown parameter {name}: the parameter is gateway")),
        }
    }
    Ok(gateway)
}

/// The contents of the page, of one Gateway or of all.
pub(super) fn page(state: &State, outliers: &OutlierMessages, gateway: Option<&str>) -> Value {
    let is_meant = |name: &str| gateway.is_none_or(|wanted| wanted == name);
    let managed: Vec<ManagedEnvoy> = state.envoys.as_ref().map_or_else(Vec::new, |views| {
        let views = views.lock().unwrap_or_else(PoisonError::into_inner);
        views.values().filter(|envoy| is_meant(&envoy.gateway)).cloned().collect()
    });
    let lost = state.fleets.silent().into_iter().filter(|silent| !silent.connected && is_meant(&silent.envoy.fleet));
    let lost = lost.map(|SilentEnvoy { envoy, quiet, .. }| {
        json!({ "fleet": envoy.fleet, "node": envoy.node, "build": envoy.build, "silentSeconds": quiet.as_secs() })
    });
    let mut connected = connected(&state.fleets, outliers);
    connected.retain(|envoy| is_meant(&envoy.fleet));
    json!({ "connected": connected, "lost": lost.collect::<Vec<_>>(), "managed": managed })
}
