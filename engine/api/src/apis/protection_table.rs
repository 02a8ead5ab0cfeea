//! Text of `docs/reference/protection.md`, generated from the declarations of kinds and fields.

use std::fmt::Write;

use super::contour::route::ProxyRoute;
use super::contour::route_protection::protection;
use super::gateway::backend_tls::BackendTlsSpec;
use super::gateway::grpc_route::GrpcRule;
use super::gateway::http_route::HttpRule;
use super::gateway::stream_route::StreamRule;
use super::gateway::tls_options::TlsOption;
use super::kgateway::backend::Backend;
use super::kgateway::backend_config::BackendConfigSpec;
use super::kgateway::direct_response::DirectResponse;
use super::kgateway::extension::GatewayExtension;
use super::kgateway::listener_policy::ListenerSpec;
use super::kgateway::traffic_policy::TrafficSpec;
use super::protection::{Row, Sheet};
use super::{Backfill, KINDS};

const HEAD: &str = "\
# What protects

May an earlier version of an object be served where the desired one cannot?
This page is generated from the declarations that this decision uses; a test compares both.
The page about [fallback](../concepts/fallback.md) describes when Holdfast looks for an earlier version.

An earlier version is served only where no row of its kind forbids it.
A version is compared with the desired one rule by rule (route by route, port by port); rules with a name are compared by name.
A policy that is valid today also applies to an earlier version of a route: it does not prevent the fallback, unless it protects a rule by its name and the earlier version has no rule of that name.
A field of the desired version that cannot be decoded counts as protecting.

The annotation `holdfast.dev/fallback: never` keeps an object in its desired version; `holdfast.dev/fallback: last-valid` on a policy or extension allows earlier access lists.

## Kinds
";

const LISTENERS: &str = "
## TLS options of a listener

A listener of a Gateway or ListenerSet with a value in `tls.options` that cannot be used may have the value of the last valid version for this key.
All other keys are those of today. Without such a value, the listener is closed.

| Key | The listener has of the earlier value | Because |
| --- | --- | --- |
";

/// Returns the whole page.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(page, "{text}").unwrap_or_default();
    line(format_args!("\n| Kind | Earlier versions | Parts that are served, or why none is |\n| --- | --- | --- |"));
    for kind in KINDS {
        let (may, because) = match kind.backfill {
            Backfill::Yes(because) => ("yes", because),
            Backfill::No(because) => ("no", because),
        };
        line(format_args!("| {} | {may} | {because} |", kind.kind));
    }
    for (title, rows) in sheets() {
        line(format_args!(
            "\n## {title}\n\n| Field | An earlier version is served with | Because |\n| --- | --- | --- |"
        ));
        for Row { field, rule, because } in rows {
            line(format_args!("| `{}` | {} | {because} |", field.replace(", ", "`, `"), rule.sentence()));
        }
    }
    page.push_str(LISTENERS);
    for option in TlsOption::ALL {
        let (lent, because) = option.lent();
        let row = format_args!("| `{}` | {} | {because} |", option.key(), lent.condition());
        writeln!(page, "{row}").unwrap_or_default();
    }
    page
}

/// Returns the rows of each kind with fields that are compared.
fn sheets() -> [(&'static str, Vec<Row>); 11] {
    let proxy = protection(&ProxyRoute::default(), false);
    let proxy = proxy.entering.rows.into_iter().chain(proxy.forwarding.rows).collect();
    [
        ("Rules of an HTTPRoute", Sheet::of(&HttpRule::default(), false).rows),
        ("Rules of a GRPCRoute", Sheet::of(&GrpcRule::default(), false).rows),
        ("Rule of a TCPRoute, TLSRoute or UDPRoute", Sheet::of(&StreamRule::default(), false).rows),
        ("Routes of an HTTPProxy", proxy),
        ("TrafficPolicy", Sheet::of(&TrafficSpec::default(), false).rows),
        ("ListenerPolicy", ListenerSpec::default().at(None, false).rows),
        ("BackendConfigPolicy", Sheet::of(&BackendConfigSpec::default(), false).rows),
        ("BackendTLSPolicy", Sheet::of(&BackendTlsSpec::default(), false).rows),
        ("Backend", Sheet::of(&Backend::default(), false).rows),
        ("GatewayExtension", Sheet::of(&GatewayExtension::default(), false).rows),
        ("DirectResponse", Sheet::of(&DirectResponse::default(), false).rows),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_protection_is_what_fallback_decides_by() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/protection.md");
        holdfast_golden::check(path, &reference());
    }

    #[test]
    fn every_field_has_a_reason() {
        for (title, rows) in sheets() {
            assert!(!rows.is_empty(), "{title}");
            assert!(rows.iter().all(|row| !row.because.is_empty() && !row.field.is_empty()), "{title}");
        }
    }
}
