//! The Gateways, one line each.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_engine::health::service::GatewayService;
use holdfast_engine::health::timeline::Timeline;
use holdfast_engine::health::view::{GatewayHealth, Health};
use maud::{Markup, html};

use super::filter::OverviewFilter;
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
    pub(super) fn list(&self, filter: &OverviewFilter) -> Markup {
        let is_shown = |name: &str| filter.has_gateway(name, self.health);
        let served: Vec<&GatewayHealth> = self.health.gateways.iter().filter(|one| is_shown(&one.name)).collect();
        let not_served: Vec<String> = self.not_served().into_iter().filter(|name| is_shown(name)).collect();
        html! {
            section aria-labelledby="gateways" {
                h2 #gateways { "Gateways" }
                @if served.is_empty() && not_served.is_empty() {
                    p { "There is no Gateway" @if !filter.is_all() { " with this filter" } "." }
                } @else {
                    div class="wide" tabindex="0" role="group" aria-label="Table of the Gateways" {
                        table {
                            thead { tr { th scope="col" { (kinds::GATEWAY) } th scope="col" { "State" } th scope="col" { "Since" } th scope="col" { "Envoys in step" } th scope="col" { "Hosts" } } }
                            tbody {
                                @for gateway in served { (self.line(gateway)) }
                                @for name in not_served {
                                    tr class="error" {
                                        th scope="row" { (plain(&name)) }
                                        td { span class="state error" { "not served" } }
                                        td { "" } td { "" } td { "" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Gateways that should be served and are not, such as one without a class.
    fn not_served(&self) -> BTreeSet<String> {
        let objects = self.health.outages.iter().flat_map(|finding| &finding.objects);
        let gateways = objects.filter(|subject| &*subject.object.kind == kinds::GATEWAY);
        let names = gateways.map(|subject| subject.object.key().namespaced_name());
        names.filter(|name| self.health.gateways.iter().all(|gateway| *gateway.name != **name)).collect()
    }

    fn line(&self, gateway: &GatewayHealth) -> Markup {
        let state = GatewayService::of(gateway, self.health);
        let (errors, earlier) = self.hosts_of(&gateway.name);
        let class = match (state, errors) {
            (GatewayService::NoEnvoy | GatewayService::Outage, _) | (_, 1..) => "error",
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
