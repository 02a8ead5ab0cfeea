//! Stories: manifests in, real requests through a real Envoy, and checks of the responses.

mod adversity;
mod bad_input;
mod canary;
mod changes;
mod client_certificate;
mod commands;
mod dates;
mod delegation;
mod diff;
mod dist;
mod echo;
mod endpoints;
mod envoys;
mod examples;
mod explain;
mod expressions;
mod external_auth;
mod fallback;
mod files;
mod filters;
mod frontend;
mod gateways;
mod grpc;
mod harness;
mod health;
mod in_ci;
mod limits;
mod matching;
mod metrics;
mod migrate;
mod misspelt;
mod narrowed;
mod odd_values;
mod operating;
mod order;
mod page;
mod places;
mod policies;
mod probe;
mod proxies;
mod quickstart;
mod references;
mod replacement;
mod reporting;
mod restarts;
mod rewrites;
mod seeing;
mod sessions;
mod sets;
mod shares;
mod silence;
mod tls;
mod tls_routes;
mod udp_routes;
mod virtual_hosts;
mod webhook;
mod weights;
mod xds_access;

use std::process::ExitCode;

use holdfast_scenario_tests::runner::{self, ThemeTool};
use holdfast_scenario_tests::{browser, image_root};

fn main() -> ExitCode {
    let themes = [
        adversity::stories(),
        bad_input::stories(),
        canary::stories(),
        changes::stories(),
        client_certificate::stories(),
        commands::stories(),
        dates::stories(),
        delegation::stories(),
        diff::stories(),
        dist::stories(),
        echo::stories(),
        endpoints::stories(),
        envoys::stories(),
        examples::stories(),
        explain::stories(),
        expressions::stories(),
        external_auth::stories(),
        fallback::stories(),
        files::stories(),
        filters::stories(),
        frontend::stories(),
        tls_routes::stories(),
        udp_routes::stories(),
        gateways::stories(),
        grpc::stories(),
        harness::stories(),
        health::stories(),
        in_ci::stories(),
        limits::stories(),
        matching::stories(),
        metrics::stories(),
        migrate::stories(),
        misspelt::stories(),
        narrowed::stories(),
        odd_values::stories(),
        operating::stories(),
        order::stories(),
        page::stories(),
        places::stories(),
        policies::stories(),
        probe::stories(),
        proxies::stories(),
        quickstart::stories(),
        references::stories(),
        replacement::stories(),
        reporting::stories(),
        restarts::stories(),
        rewrites::stories(),
        seeing::stories(),
        sessions::stories(),
        sets::stories(),
        shares::stories(),
        silence::stories(),
        tls::stories(),
        virtual_hosts::stories(),
        webhook::stories(),
        weights::stories(),
        xds_access::stories(),
    ];
    let tools: [ThemeTool; 2] = [("page::", || browser::find().map(drop)), ("dist::", image_root::can_be_run)];
    runner::run_with_theme_tools(&themes.concat(), &tools)
}
