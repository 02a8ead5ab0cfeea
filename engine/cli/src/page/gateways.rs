//! The Gateways, one line each.

use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_engine::health::service::GatewayService;
use holdfast_engine::health::timeline::Timeline;
use holdfast_engine::health::view::{GatewayHealth, Health};
use maud::{Markup, html};

use super::hosts::{HostRow, HostService};
use crate::admin::EnvoyRow;
use crate::finding::{plain, when};

/// The facts about Gateways.
pub(super) struct GatewayTable<'a> {
    pub(super) health: &'a Health,
    pub(super) timeline: &'a Timeline,
    pub(super) envoys: &'a [EnvoyRow],
    pub(super) hosts: &'a [HostRow],
    /// Seconds of Unix time.
    pub(super) now: i64,
}

impl GatewayTable<'_> {
    /// Returns the table.
    pub(super) fn list(&self) -> Markup {
        html! {
            section aria-labelledby="gateways" {
                h2 #gateways { "Gateways" }
                @if self.health.gateways.is_empty() { p { "There is no Gateway." } } @else {
                    div class="wide" tabindex="0" role="group" aria-label="Table of the Gateways" {
                        table {
                            thead { tr { th scope="col" { (kinds::GATEWAY) } th scope="col" { "State" } th scope="col" { "Since" } th scope="col" { "Envoys in step" } th scope="col" { "Hosts" } } }
                            tbody { @for gateway in &self.health.gateways { (self.line(gateway)) } }
                        }
                    }
                }
            }
        }
    }

    fn line(&self, gateway: &GatewayHealth) -> Markup {
        let state = GatewayService::of(gateway, self.health);
        let (errors, earlier) = self.hosts_of(&gateway.name);
        let class = match (state, errors) {
            (GatewayService::NoEnvoy, _) | (_, 1..) => "error",
            (GatewayService::Served, _) => "served",
            (GatewayService::Degraded | GatewayService::Held, _) => "earlier",
        };
        let here = || self.envoys.iter().filter(|envoy| envoy.fleet == gateway.name);
        let in_step = here().filter(|envoy| envoy.is_in_step()).count();
        let since = self.timeline.gateway_since(&gateway.name, state);
        html! {
            tr class=(class) {
                th scope="row" { (plain(&gateway.name)) }
                td {
                    span class={ "state " (class) } { (state.name()) }
                    " (" (gateway.state.name()) ")"
                }
                td { @if let Some(since) = since { (when(since, self.now)) } @else { "now" } }
                td {
                    (in_step) " of " (here().count()) " connected here"
                    @let all = gateway.envoys.acknowledged + gateway.envoys.refused + gateway.envoys.pending;
                    @if all != here().count() {
                        "; of all replicas: " (gateway.envoys.acknowledged) " acknowledged, "
                        (gateway.envoys.refused) " refused, " (gateway.envoys.pending) " pending"
                    }
                }
                td { (errors) " with errors, " (earlier) " with an earlier version" }
            }
        }
    }

    /// The number of hosts with errors, and of hosts with an earlier version.
    fn hosts_of(&self, gateway: &Arc<str>) -> (usize, usize) {
        let count = |state| self.hosts.iter().filter(|row| row.gateway == *gateway && row.state == state).count();
        (count(HostService::Error), count(HostService::Earlier))
    }
}
