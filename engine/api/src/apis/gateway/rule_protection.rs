//! Protection of the rules of routes, field by field.

use gateway_api::httproutes::{
    HttpRouteRulesFiltersRequestHeaderModifier as RequestHeaders, HttpRouteRulesFiltersRequestRedirect as Redirect,
    HttpRouteRulesFiltersRequestRedirectScheme as Scheme,
    HttpRouteRulesFiltersResponseHeaderModifier as ResponseHeaders, HttpRouteRulesFiltersUrlRewrite as Rewrite,
};
use holdfast_check::header;

use super::filter::{FilterType, RouteFilter};
use super::grpc_route::GrpcRule;
use super::http_route::HttpRule;
use super::references::BackendRef;
use super::stream_route::StreamRule;
use crate::apis::protection::{self, Declare, HOST, Names, Rule, Sheet, Way};

const MATCHES: &str = "selects the requests; if requests move between rules, the audit compares these rules";
const BACKENDS: &str = "where requests go; each is checked against today's Services, Backends and grants";
const SESSION: &str = "which endpoint of a backend a client gets; it never adds a backend";
const STREAM_BACKENDS: &str =
    "where connections go; each is checked against the Services, Backends and grants of today";

impl Declare for HttpRule {
    fn declare(&self, sheet: &mut Sheet) {
        let HttpRule { name, matches, filters, backend_refs, timeouts, retry, session_persistence } = self;
        sheet.free("name", "the name by which rules of two versions are compared", name);
        sheet.free("matches", MATCHES, matches);
        filters_of(filters.as_deref().unwrap_or_default(), sheet);
        backends_of(backend_refs.as_deref().unwrap_or_default(), sheet);
        sheet.free("timeouts", "how long requests may take", timeouts);
        sheet.free("retry", "how often a backend is tried", retry);
        sheet.free("sessionPersistence", SESSION, session_persistence);
    }
}

impl Declare for GrpcRule {
    fn declare(&self, sheet: &mut Sheet) {
        let GrpcRule { name, matches, filters, backend_refs, session_persistence } = self;
        sheet.free("name", "the name by which rules of two versions are compared", name);
        sheet.free("matches", MATCHES, matches);
        filters_of(filters.as_deref().unwrap_or_default(), sheet);
        backends_of(backend_refs.as_deref().unwrap_or_default(), sheet);
        sheet.free("sessionPersistence", SESSION, session_persistence);
    }
}

impl Declare for StreamRule {
    fn declare(&self, sheet: &mut Sheet) {
        let StreamRule { name, backend_refs } = self;
        sheet.free("name", "the name by which rules of two versions are compared", name);
        sheet.free("backendRefs", STREAM_BACKENDS, backend_refs);
    }
}

/// The settings of all filters of a rule together.
#[derive(Default)]
struct Together {
    cors: Option<String>,
    /// The settings of external authorization in written form.
    auth: Option<String>,
    extensions: Names,
    removed: Names,
    withheld: Names,
    set_in_responses: Names,
    https: bool,
    host: bool,
}

impl Together {
    fn of(filters: &[RouteFilter]) -> Self {
        let mut all = Self::default();
        for filter in filters {
            let RouteFilter {
                cors,
                extension_ref,
                external_auth,
                request_header_modifier,
                request_mirror: _,
                request_redirect,
                response_header_modifier,
                r#type,
                url_rewrite,
            } = filter;
            if let Some(cors) = cors {
                all.cors = Some(format!("{cors:?}"));
            }
            if external_auth.is_some() || *r#type == FilterType::ExternalAuth {
                all.auth = Some(format!("{external_auth:?}"));
            }
            if let Some(reference) = extension_ref {
                all.extensions.insert(format!("{}/{}/{}", reference.group, reference.kind, reference.name));
            } else if *r#type == FilterType::ExtensionRef {
                all.extensions.insert(String::new());
            }
            if let Some(RequestHeaders { add: _, remove, set }) = request_header_modifier.as_deref() {
                all.removed.extend(names(remove.iter().flatten().map(String::as_str)));
                all.removed.extend(names(set.iter().flatten().map(|header| header.name.as_str())));
            }
            if let Some(ResponseHeaders { add: _, remove, set }) = response_header_modifier.as_deref() {
                all.withheld.extend(names(remove.iter().flatten().map(String::as_str)));
                all.set_in_responses.extend(names(set.iter().flatten().map(|header| header.name.as_str())));
            }
            if let Some(Redirect { scheme, hostname: _, path: _, port: _, status_code: _ }) =
                request_redirect.as_deref()
            {
                all.https |= *scheme == Some(Scheme::Https);
            }
            if let Some(Rewrite { hostname, path: _ }) = url_rewrite.as_deref() {
                all.host |= hostname.is_some();
            }
        }
        all
    }
}

/// Returns the names of headers that a filter can change. Translation drops every other name, so it protects nothing.
fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> Names {
    protection::names(names.into_iter().map(str::trim).filter(|name| header::modifiable_name(name).is_ok()))
}

fn filters_of(filters: &[RouteFilter], sheet: &mut Sheet) {
    let Together { cors, auth, extensions, mut removed, withheld, set_in_responses, https, host } =
        Together::of(filters);
    sheet.equal("filters[].cors", "a list of the origins that may read responses", &cors);
    let because = "an earlier version calls the same server with the same settings";
    sheet.guard("filters[].externalAuth", because, auth.is_some().then_some(true), &auth);
    let because = "a policy or a response that the rule references: both versions reference the same one";
    sheet.demands("filters[].extensionRef", Rule::Equal, because, extensions);
    if host {
        removed.insert(HOST.to_owned());
    }
    let because = "removing or overwriting (`set`) keeps the client's own value from backends; `add` does not";
    sheet.headers("filters[].requestHeaderModifier", because, Way::Request, removed, Names::new());
    let because = "`remove` hides the header from clients; `set` in the earlier version is sufficient, and `set` \
                   today demands nothing";
    sheet.headers("filters[].responseHeaderModifier", because, Way::Response, withheld, set_in_responses);
    let because = "a redirect to `https` excludes requests without TLS; other redirects do not protect";
    let https = https.then(|| "https".to_owned());
    sheet.demands("filters[].requestRedirect", Rule::Guard, because, https.into_iter().collect());
    sheet.free("filters[].requestMirror", "copies of requests; the client gets nothing from them", &());
    let because = "overwrites the host that the client sent, as other headers are overwritten";
    sheet.headers("filters[].urlRewrite.hostname", because, Way::Request, Names::new(), Names::new());
    sheet.free("filters[].urlRewrite.path", "the path that backends see", &());
}

/// Declares the headers of clients that do not reach any backend of the rule: removed for each backend, if not by the
/// rule. Declares the other filters of single backends, each with the backends that have it and those that do not.
fn backends_of(backends: &[BackendRef], sheet: &mut Sheet) {
    let mut of_all: Option<Names> = None;
    let mut all: Vec<(String, Together)> = Vec::new();
    for backend in backends {
        let BackendRef { group, kind, namespace, name, port, weight: _, filters } = backend;
        let mut own = Together::of(filters.as_deref().unwrap_or_default());
        if own.host {
            own.removed.insert(HOST.to_owned());
        }
        of_all = Some(match of_all {
            Some(known) => known.intersection(&own.removed).cloned().collect(),
            None => own.removed.clone(),
        });
        all.push((format!("{group:?} {kind:?} {namespace:?} {name} {port:?}"), own));
    }
    let each = |of: &dyn Fn(&Together) -> Option<String>| -> Names {
        let each: Vec<_> = all.iter().map(|(backend, own)| (backend, of(own))).collect();
        let is_any = each.iter().any(|(_, filter)| filter.is_some());
        is_any.then(|| format!("{each:?}")).into_iter().collect()
    };
    let because = "a header that is removed for every backend is removed in the earlier version, too";
    let by_rule = sheet.hidden(Way::Request);
    let gone = of_all.unwrap_or_default();
    sheet.headers("backendRefs[].filters", because, Way::BeforeBackends, gone, by_rule);
    let because = "the same backends have the same policies or responses: their requests have no other protection";
    let extensions = each(&|own| (!own.extensions.is_empty()).then(|| format!("{:?}", own.extensions)));
    sheet.equal("backendRefs[].filters[].extensionRef", because, &extensions.into_iter().next());
    let because = "the same backends have the same authorization: the share of another backend would pass without it";
    sheet.demands("backendRefs[].filters[].externalAuth", Rule::Equal, because, each(&|own| own.auth.clone()));
    let because = "a list of the origins that may read responses of this backend";
    let cors = each(&|own| own.cors.clone());
    sheet.equal("backendRefs[].filters[].cors", because, &cors.into_iter().next());
    let because = "the shares of the same backends are redirected to `https`; other redirects do not protect";
    let https = each(&|own| own.https.then(|| "https".to_owned()));
    sheet.demands("backendRefs[].filters[].requestRedirect", Rule::Equal, because, https);
    sheet.free("backendRefs", BACKENDS, &());
}
