//! Protection of TrafficPolicies, field by field.

use super::headers::{Header, HeaderFilter, HeaderModifiers, Transform, Transformation};
use super::traffic_policy::{GlobalRateLimit, LocalRateLimit, RateLimit, TrafficSpec};
use crate::apis::protection::{Declare, HOST, Names, Sheet, Way, is_possible, names};

impl Declare for TrafficSpec {
    fn declare(&self, sheet: &mut Sheet) {
        let TrafficSpec {
            transformation,
            ext_proc,
            ext_auth,
            rate_limit,
            cors,
            csrf,
            header_modifiers,
            request_mirror,
            auto_host_rewrite,
            buffer,
            timeouts,
            retry,
            internal_redirect,
            rbac,
            jwt_auth,
            url_rewrite,
            compression,
            basic_auth,
            api_key_auth,
            oauth2,
            tracing,
            fault_injection,
            acl,
            stat_prefix,
        } = self;
        let enabled = |is_set: bool, is_off: bool| is_set && !is_off;
        transformation.clone().unwrap_or_default().declare(sheet);
        let on = ext_proc.as_ref().map(|proc| proc.disable.is_none());
        sheet.guard(
            "extProc",
            "the service may refuse requests, by the parts of a request that it receives",
            on,
            ext_proc,
        );
        let on = ext_auth.as_ref().map(|auth| auth.disable.is_none());
        let because = "the service authorizes clients; another service or another context authorizes other clients";
        sheet.guard("extAuth", because, on, ext_auth);
        rate_limit.clone().unwrap_or_default().declare(sheet);
        let on = enabled(cors.is_some(), cors.as_ref().is_some_and(|cors| cors.disable.is_some()));
        sheet.access("cors", "a list of the origins that may read responses", cors, on);
        sheet.access("csrf", "a list of the origins that may send requests", csrf, csrf.is_some());
        header_modifiers.clone().unwrap_or_default().declare(sheet);
        sheet.free("requestMirror", "copies of requests; the client gets nothing from them", request_mirror);
        let because = "overwrites the host that the client sent, as other headers are overwritten";
        let host = (*auto_host_rewrite == Some(true)).then(|| HOST.to_owned());
        let host: Names = host.into_iter().collect();
        sheet.headers("autoHostRewrite", because, Way::Request, host.clone(), host);
        let on = buffer.as_ref().map(|buffer| buffer.disable.is_none());
        sheet.guard("buffer", "limits the size of requests; any size is a limit", on, &());
        sheet.free("timeouts", "limits the duration of requests; it does not authorize clients", timeouts);
        sheet.free("retry", "how often a backend is tried", retry);
        sheet.free("internalRedirect", "redirects of backends; filters see the new request again", internal_redirect);
        sheet.access("rbac", "conditions under which requests are allowed", rbac, rbac.is_some());
        let on = enabled(jwt_auth.is_some(), jwt_auth.as_ref().is_some_and(|auth| auth.disable.is_some()));
        sheet.access("jwtAuth", "the providers of tokens that authorize requests", jwt_auth, on);
        sheet.free("urlRewrite", "the path that backends receive; clients are authorized before", url_rewrite);
        sheet.free("compression", "the encoding of bodies", compression);
        let on = enabled(basic_auth.is_some(), basic_auth.as_ref().is_some_and(|auth| auth.disable.is_some()));
        sheet.access("basicAuth", "credentials that authorize requests", basic_auth, on);
        let on = enabled(api_key_auth.is_some(), api_key_auth.as_ref().is_some_and(|auth| auth.disable.is_some()));
        sheet.access("apiKeyAuth", "credentials that authorize requests", api_key_auth, on);
        let on = enabled(oauth2.is_some(), oauth2.as_ref().is_some_and(|auth| auth.disable.is_some()));
        sheet.access("oauth2", "the provider that users log in at", oauth2, on);
        sheet.free("tracing", "spans; they protect no request", tracing);
        sheet.free("faultInjection", "faults for tests; they protect no request", fault_injection);
        sheet.access("acl", "the client addresses that are allowed", acl, acl.is_some());
        sheet.free("statPrefix", "names of statistics", stat_prefix);
    }
}

impl Declare for RateLimit {
    fn declare(&self, sheet: &mut Sheet) {
        let RateLimit { local, global } = self;
        let on = local.as_ref().map(|LocalRateLimit { token_bucket, percent_enabled: _, percent_enforced: _ }| {
            // Without a bucket, the field switches off the limits of less specific policies.
            token_bucket.is_some()
        });
        sheet.guard("rateLimit.local", "limits the number of requests; any figure is a limit", on, &());
        let on = global.as_ref().map(|GlobalRateLimit { descriptors: _, extension_ref: _ }| true);
        sheet.guard("rateLimit.global", "limits the number of requests; any descriptor is a limit", on, &());
    }
}

const REQUEST: &str = "removing or overwriting (`set`) keeps the client's own value from backends; `add` does not";
const RESPONSE: &str = "`remove` hides the header from clients; `set` in the earlier version is sufficient, and `set` \
                        today demands nothing";

impl Declare for HeaderModifiers {
    fn declare(&self, sheet: &mut Sheet) {
        let HeaderModifiers { request, response } = self;
        let (removed, set) = changed(request.as_ref());
        let gone: Names = removed.union(&set).cloned().collect();
        sheet.headers("headerModifiers.request", REQUEST, Way::Request, gone, Names::new());
        let (removed, set) = changed(response.as_ref());
        sheet.headers("headerModifiers.response", RESPONSE, Way::Response, removed, set);
    }
}

/// Returns the names of headers that are removed, and of those that are overwritten.
pub(super) fn changed(filter: Option<&HeaderFilter>) -> (Names, Names) {
    let Some(HeaderFilter { set, add: _, remove }) = filter else { return Default::default() };
    let name = |header: &Header| {
        let Header { name, value: _, secret_ref } = header;
        let of_secret = || secret_ref.as_ref().and_then(|reference| reference.key.clone());
        name.clone().or_else(of_secret).unwrap_or_default().trim().to_ascii_lowercase()
    };
    let removed = names(remove.iter().flatten().map(|name| &**name));
    // Without a name, every entry of the Secret may be a header.
    let set = set.iter().flatten().map(name).filter(|name| name.is_empty() || is_possible(name));
    (removed, set.collect())
}

impl Declare for Transformation {
    fn declare(&self, sheet: &mut Sheet) {
        let Transformation { request, response } = self;
        let (request, response) = (request.clone().unwrap_or_default(), response.clone().unwrap_or_default());
        let (removed, set) = rewritten(&request);
        let gone: Names = removed.union(&set).cloned().collect();
        sheet.headers("transformation.request", REQUEST, Way::Request, gone, Names::new());
        let (removed, set) = rewritten(&response);
        sheet.headers("transformation.response", RESPONSE, Way::Response, removed, set);
        let bodies = (&request.body, &response.body);
        sheet.free("transformation.*.body", "not served, in any version", &bodies);
        let metadata = (request.dynamic_metadata, response.dynamic_metadata);
        let metadata = Some(metadata).filter(|(request, response)| request.is_some() || response.is_some());
        sheet.equal("transformation.*.dynamicMetadata", "later filters decide by this metadata", &metadata);
    }
}

/// Returns the names of headers that are removed, and of those that are overwritten.
fn rewritten(transform: &Transform) -> (Names, Names) {
    let Transform { set, add: _, remove, body: _, dynamic_metadata: _ } = transform;
    let removed = names(remove.iter().flatten().map(|name| &**name));
    (removed, names(set.iter().flatten().map(|template| &*template.name)))
}
