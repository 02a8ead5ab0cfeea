//! The dates of the certificates that listeners serve and that Gateways present to backends, by Gateway and by the
//! namespace of the Secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_fallback::served_state::speaking;
use holdfast_translate::gateway::GatewayPlan;

use crate::engine::Engine;

/// Dates of the served certificates of one namespace at one Gateway, in seconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarliestDates {
    /// The earliest end of a validity.
    pub expiry: i64,
    /// The earliest time from which an end is reported in advance.
    pub notice: i64,
}

impl EarliestDates {
    /// Returns the earlier dates of both.
    pub fn earlier(self, other: Self) -> Self {
        Self { expiry: self.expiry.min(other.expiry), notice: self.notice.min(other.notice) }
    }
}

/// Returns the earliest dates of the certificates that Envoys have, by Gateway (`namespace/name`) and namespace. For a
/// certificate in its last valid version, these are the dates of that version.
pub fn earliest_dates<'a>(engine: &'a Engine) -> BTreeMap<(Arc<str>, Arc<str>), EarliestDates> {
    let mut all: BTreeMap<(Arc<str>, Arc<str>), EarliestDates> = BTreeMap::new();
    for (_, plan) in engine.translator.plans() {
        let scopes = speaking(engine.scopes.of(&plan.name));
        let served = scopes.filter_map(|scope| engine.translator.served_gateway(&scope.id.fleet));
        let of_plan = |plan: &'a GatewayPlan| {
            let client = plan.client.iter().filter_map(|client| client.identity.secret().zip(client.dates.as_ref()));
            plan.all().flat_map(|listener| &listener.certificate_dates).chain(client)
        };
        for (secret, dates) in served.flat_map(of_plan) {
            let dates = EarliestDates { expiry: dates.validity.not_after, notice: dates.validity.notice() };
            let at = (plan.name.clone(), secret.namespace.clone());
            all.entry(at).and_modify(|earliest| *earliest = earliest.earlier(dates)).or_insert(dates);
        }
    }
    all
}
