//! Filters of HTTPRoute and GRPCRoute rules and of their backends: conversion from Gateway API types to features.
//!
//! An unusable filter is a flaw of its rule and is never skipped: requests must not pass without the filter.

use std::sync::Arc;

use gateway_api::httproutes::{
    HttpRouteRulesFiltersCors, HttpRouteRulesFiltersRequestMirror, HttpRouteRulesFiltersRequestRedirect,
    HttpRouteRulesFiltersRequestRedirectPathType as RedirectPathType,
    HttpRouteRulesFiltersRequestRedirectScheme as RedirectScheme, HttpRouteRulesFiltersUrlRewrite,
    HttpRouteRulesFiltersUrlRewritePathType as RewritePathType,
};
use holdfast_api::apis::gateway::filter::{FilterType as Type, RouteFilter as Filter};
use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::kgateway;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Fault, at};
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::cors::{CorsSettings, MAX_AGE_DEFAULT, MAX_AGE_MIN};
use holdfast_envoy::features::ext_auth::RouteExtAuth;
use holdfast_envoy::features::headers::HeaderEdits;
use holdfast_envoy::features::mirror::{Mirror, RequestShare};
use holdfast_envoy::features::redirect::{Redirect, Scheme};
use holdfast_envoy::features::rewrite::{PathRewrite, Rewrite};
use holdfast_envoy::model::PathMatch;
use holdfast_graph::{ObjectKey, Role};

use super::external_auth::{self, AuthFilter};
use crate::backend_policy::backend::{self, Reference, Referrer, Refused, Sent};
use crate::policy::route::FilterExtension;
use crate::reader::Reader;

/// kgateway kinds that filters may name.
const EXTENSIONS: [&str; 2] = [kinds::TRAFFIC_POLICY, kinds::DIRECT_RESPONSE];
/// Filters of one rule or backend; same limit as in the CRD.
const FILTERS_MAX: usize = 16;

/// The filters of a rule or backend. Mirrors and the authorization server are resolved later: a mirror with a missing backend does
/// not break its rule, and a missing server is a missing reference.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filters {
    pub(crate) request_headers: HeaderEdits,
    pub(crate) response_headers: HeaderEdits,
    pub(crate) redirect: Option<Redirect>,
    pub(crate) rewrite: Rewrite,
    pub(crate) cors: Option<CorsSettings>,
    /// External authorization: fields and settings.
    auth: Vec<(Arc<str>, AuthFilter)>,
    /// Mirrors with their fields.
    mirrors: Vec<(Arc<str>, HttpRouteRulesFiltersRequestMirror, RequestShare)>,
    /// Policies and direct responses that the rule names.
    pub(crate) extensions: Vec<FilterExtension>,
}

impl Filters {
    /// Returns whether there are filters besides header changes. Of a backend, these need an Envoy route of its own.
    pub(crate) fn has_more_than_headers(&self) -> bool {
        let Self { request_headers: _, response_headers: _, redirect, rewrite, cors, auth, mirrors, extensions } = self;
        let is_routed_alike = redirect.is_none() && *rewrite == Rewrite::default() && mirrors.is_empty();
        !is_routed_alike || cors.is_some() || !auth.is_empty() || !extensions.is_empty()
    }

    /// Returns the filters of the share of requests of a backend, given those of the backend beside those of its rule.
    /// Header changes of the backend are not included.
    pub(crate) fn with_backend(self, own: Filters) -> Self {
        let Filters { request_headers: _, response_headers: _, redirect, rewrite, cors, auth, mirrors, extensions } =
            own;
        Self {
            redirect: redirect.or(self.redirect),
            rewrite: Rewrite {
                host: rewrite.host.or(self.rewrite.host),
                path: rewrite.path.or(self.rewrite.path),
                ..self.rewrite
            },
            cors: cors.or(self.cors),
            auth: self.auth.into_iter().chain(auth).collect(),
            mirrors: self.mirrors.into_iter().chain(mirrors).collect(),
            // Of policies, the one that is named first applies.
            extensions: extensions.into_iter().chain(self.extensions).collect(),
            ..self
        }
    }

    /// Returns the external authorization of requests; an error if a server cannot be used, which closes the requests.
    pub(crate) fn auth(
        &self,
        route: &ObjectKey,
        section: &str,
        reader: &mut Reader<'_>,
    ) -> Result<Vec<RouteExtAuth>, Box<Refused>> {
        let mut all: Vec<RouteExtAuth> = Vec::new();
        for (filter, auth) in &self.auth {
            let field = format!("spec.{section}.{filter}.externalAuth.backendRef");
            let auth = auth.resolve(route, section, &field, reader)?;
            // Equal settings are one filter in Envoy.
            if !all.contains(&auth) {
                all.push(auth);
            }
        }
        Ok(all)
    }

    /// Resolves the mirrors. A mirror with a missing backend is dropped and reported, as Gateway API requires.
    pub(crate) fn mirrors(
        &self,
        route: &ObjectKey,
        section: &str,
        reader: &mut Reader<'_>,
        faults: &mut Vec<Fault>,
    ) -> Vec<Mirror> {
        let mut mirrors = Vec::new();
        for (filter, mirror, share) in &self.mirrors {
            let field = format!("spec.{section}.{filter}.requestMirror.backendRef");
            let referrer = Referrer { route, section, field: &field, role: Role::Mentions, sent: Sent::Others };
            let written = &mirror.backend_ref;
            let reference = Reference {
                group: written.group.as_deref(),
                kind: written.kind.as_deref(),
                namespace: written.namespace.as_deref(),
                name: &written.name,
                port: written.port,
            };
            match backend::resolve(&referrer, &reference, reader) {
                Ok(backend) => mirrors.push(Mirror { backend, share: *share, sent: None }),
                Err(refused) => faults.push(refused.fault),
            }
        }
        mirrors
    }
}

/// Filters that a kind of route supports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// All filters of HTTPRoute.
    Http,
    /// The filters of GRPCRoute.
    Grpc,
}

/// What filters are read for: the kind of route, and the path matches of the rule.
#[derive(Clone, Copy)]
pub(crate) struct ReadFor<'a> {
    pub(crate) allowed: Allowed,
    pub(crate) paths: &'a [&'a PathMatch],
}

/// Reads the filters of a rule. `has_backends` is whether it has backendRefs.
pub(crate) fn of_rule(written: &[Filter], context: ReadFor<'_>, has_backends: bool, flaws: &mut Vec<Flaw>) -> Filters {
    let filters = of_list(written, context, "filters", flaws);
    if filters.redirect.is_some() && has_backends {
        flaws.push(Flaw::new(
            "filters",
            "a rule with RequestRedirect can have no backendRefs: no request would reach them",
        ));
    }
    filters
}

/// Reads a list of filters; `list` is its field in the rule.
fn of_list(written: &[Filter], context: ReadFor<'_>, list: &str, flaws: &mut Vec<Flaw>) -> Filters {
    let ReadFor { allowed, paths } = context;
    let mut filters = Filters::default();
    let mut seen: Vec<&Type> = Vec::new();
    if written.len() > FILTERS_MAX {
        flaws.push(Flaw::new(list, format!("must have at most {FILTERS_MAX} entries")));
    }
    for (index, filter) in written.iter().enumerate().take(FILTERS_MAX) {
        let field = at(list, index);
        let repeats =
            seen.contains(&&filter.r#type) && !matches!(filter.r#type, Type::RequestMirror | Type::ExtensionRef);
        if repeats {
            flaws.push(Flaw::new(
                format!("{field}.type"),
                format!("only one filter of type {} is allowed", type_name(&filter.r#type)),
            ));
            continue;
        }
        seen.push(&filter.r#type);
        let only_http = [Type::RequestRedirect, Type::UrlRewrite, Type::Cors, Type::ExternalAuth];
        if allowed == Allowed::Grpc && only_http.contains(&filter.r#type) {
            flaws.push(Flaw::new(
                format!("{field}.type"),
                format!("a GRPCRoute does not support filters of type {}", type_name(&filter.r#type)),
            ));
            continue;
        }
        let mut found = foreign_fields(filter);
        read(&field, filter, paths, &mut filters, &mut found);
        flaws.extend(found.into_iter().map(|flaw| below(&field, flaw)));
    }
    if filters.redirect.is_some() && filters.rewrite != Rewrite::default() {
        flaws.push(Flaw::new(list, "RequestRedirect and URLRewrite cannot be in one list of filters"));
    }
    filters
}

/// Returns a flaw for each field that belongs to another type of filter than the named type: the intent is unclear.
fn foreign_fields(filter: &Filter) -> Vec<Flaw> {
    let fields = [
        ("requestHeaderModifier", Type::RequestHeaderModifier, filter.request_header_modifier.is_some()),
        ("responseHeaderModifier", Type::ResponseHeaderModifier, filter.response_header_modifier.is_some()),
        ("requestMirror", Type::RequestMirror, filter.request_mirror.is_some()),
        ("requestRedirect", Type::RequestRedirect, filter.request_redirect.is_some()),
        ("urlRewrite", Type::UrlRewrite, filter.url_rewrite.is_some()),
        ("cors", Type::Cors, filter.cors.is_some()),
        ("externalAuth", Type::ExternalAuth, filter.external_auth.is_some()),
        ("extensionRef", Type::ExtensionRef, filter.extension_ref.is_some()),
    ];
    let strange = fields.into_iter().filter(|(_, kind, is_set)| *is_set && *kind != filter.r#type);
    strange.map(|(name, _, _)| Flaw::new(name, format!("{name} cannot be set in a filter of another type"))).collect()
}

fn read(field: &str, filter: &Filter, paths: &[&PathMatch], filters: &mut Filters, flaws: &mut Vec<Flaw>) {
    match filter.r#type {
        Type::RequestHeaderModifier => match &filter.request_header_modifier {
            Some(_) => filters.request_headers = request_headers(filter, flaws),
            None => flaws.push(missing("requestHeaderModifier")),
        },
        Type::ResponseHeaderModifier => match &filter.response_header_modifier {
            Some(_) => filters.response_headers = response_headers(filter, flaws),
            None => flaws.push(missing("responseHeaderModifier")),
        },
        Type::RequestMirror => match &filter.request_mirror {
            Some(mirror) => {
                let fraction = mirror.fraction.as_ref().map(|fraction| (fraction.numerator, fraction.denominator));
                match RequestShare::read(mirror.percent, fraction) {
                    Ok(share) => filters.mirrors.push((field.into(), (**mirror).clone(), share)),
                    Err(flaw) => flaws.push(below("requestMirror", flaw)),
                }
            }
            None => flaws.push(missing("requestMirror")),
        },
        Type::RequestRedirect => match &filter.request_redirect {
            Some(written) => filters.redirect = redirect(written, paths, flaws),
            None => flaws.push(missing("requestRedirect")),
        },
        Type::UrlRewrite => match &filter.url_rewrite {
            Some(written) => filters.rewrite = rewrite(written, paths, flaws),
            None => flaws.push(missing("urlRewrite")),
        },
        Type::Cors => match &filter.cors {
            Some(written) => {
                let cors = cors(written, flaws);
                flaws.extend(cors.check().into_iter().map(|flaw| below("cors", flaw)));
                filters.cors = Some(cors);
            }
            None => flaws.push(missing("cors")),
        },
        Type::ExternalAuth => match &filter.external_auth {
            Some(written) => {
                let mut found = Vec::new();
                filters.auth.extend(external_auth::read(written, &mut found).map(|auth| (field.into(), auth)));
                flaws.extend(found.into_iter().map(|flaw| below("externalAuth", flaw)));
            }
            None => flaws.push(missing("externalAuth")),
        },
        Type::ExtensionRef => {
            let served = |group: &str, kind: &str| group == kgateway::GROUP && EXTENSIONS.contains(&kind);
            match &filter.extension_ref {
                Some(named) if served(&named.group, &named.kind) => {
                    filters.extensions.push(FilterExtension {
                        field: field.into(),
                        group: named.group.clone(),
                        kind: named.kind.clone(),
                        name: named.name.clone(),
                    });
                }
                named => {
                    let name = named.as_ref().map(|r| format!("{}/{} {:?}", r.group, r.kind, r.name));
                    let name = name.as_deref().unwrap_or("without extensionRef");
                    flaws.push(Flaw::new("extensionRef", format!("filter {name} is not supported: use a TrafficPolicy or a DirectResponse of gateway.kgateway.dev")));
                }
            }
        }
    }
}

fn below(field: &str, flaw: Flaw) -> Flaw {
    let field = if flaw.field.is_empty() { field.to_owned() } else { format!("{field}.{}", flaw.field) };
    Flaw { field, ..flaw }
}

fn request_headers(filter: &Filter, flaws: &mut Vec<Flaw>) -> HeaderEdits {
    let Some(written) = &filter.request_header_modifier else { return HeaderEdits::default() };
    let mut found = Vec::new();
    let edits = HeaderEdits::read(
        written.set.iter().flatten().map(|header| (&*header.name, &*header.value)),
        written.add.iter().flatten().map(|header| (&*header.name, &*header.value)),
        written.remove.iter().flatten().map(String::as_str),
        &mut found,
    );
    flaws.extend(found.into_iter().map(|flaw| below("requestHeaderModifier", flaw)));
    edits
}

fn response_headers(filter: &Filter, flaws: &mut Vec<Flaw>) -> HeaderEdits {
    let Some(written) = &filter.response_header_modifier else { return HeaderEdits::default() };
    let mut found = Vec::new();
    let edits = HeaderEdits::read(
        written.set.iter().flatten().map(|header| (&*header.name, &*header.value)),
        written.add.iter().flatten().map(|header| (&*header.name, &*header.value)),
        written.remove.iter().flatten().map(String::as_str),
        &mut found,
    );
    flaws.extend(found.into_iter().map(|flaw| below("responseHeaderModifier", flaw)));
    edits
}

fn redirect(
    written: &HttpRouteRulesFiltersRequestRedirect,
    paths: &[&PathMatch],
    flaws: &mut Vec<Flaw>,
) -> Option<Redirect> {
    let mut found = Vec::new();
    let port = written.port.map(|port| holdfast_check::number::port(port.into())).transpose();
    let status = holdfast_check::number::redirect_status(written.status_code.unwrap_or(302));
    let path = written.path.as_ref().and_then(|path| {
        let full = path.r#type == RedirectPathType::ReplaceFullPath;
        path_rewrite(full, path.replace_full_path.as_deref(), path.replace_prefix_match.as_deref(), &mut found)
    });
    if let Some(hostname) = &written.hostname {
        found.extend(holdfast_check::host::precise_hostname(hostname).err().map(|fault| Flaw::new("hostname", fault)));
    }
    found.extend(path.as_ref().and_then(|path| path.check(paths).err()));
    let port = port.map_err(|fault| found.push(Flaw::new("port", fault))).unwrap_or_default();
    let status = status.map_err(|fault| found.push(Flaw::new("statusCode", fault))).ok();
    let usable = found.is_empty();
    flaws.extend(found.into_iter().map(|flaw| below("requestRedirect", flaw)));
    let scheme = written.scheme.as_ref().map(|scheme| match scheme {
        RedirectScheme::Http => Scheme::Http,
        RedirectScheme::Https => Scheme::Https,
    });
    let host = written.hostname.as_deref().map(Arc::from);
    status.filter(|_| usable).map(|status| Redirect { scheme, host, port, path, status })
}

/// Reads the change of a path. Of the two fields, exactly the one that the type names must be set.
fn path_rewrite(is_full: bool, full: Option<&str>, prefix: Option<&str>, flaws: &mut Vec<Flaw>) -> Option<PathRewrite> {
    match (is_full, full, prefix) {
        (true, Some(full), None) => Some(PathRewrite::Full(full.into())),
        (false, None, Some(prefix)) => Some(PathRewrite::Prefix(prefix.into())),
        _ => {
            let name = if is_full { "replaceFullPath" } else { "replacePrefixMatch" };
            flaws.push(Flaw::new("path", format!("{name} must be set, as type requires, and nothing else")));
            None
        }
    }
}

fn rewrite(written: &HttpRouteRulesFiltersUrlRewrite, paths: &[&PathMatch], flaws: &mut Vec<Flaw>) -> Rewrite {
    let mut found = Vec::new();
    let path = written.path.as_ref().and_then(|path| {
        let full = path.r#type == RewritePathType::ReplaceFullPath;
        path_rewrite(full, path.replace_full_path.as_deref(), path.replace_prefix_match.as_deref(), &mut found)
    });
    if let Some(hostname) = &written.hostname {
        found.extend(holdfast_check::host::precise_hostname(hostname).err().map(|fault| Flaw::new("hostname", fault)));
    }
    found.extend(path.as_ref().and_then(|path| path.check(paths).err()));
    flaws.extend(found.into_iter().map(|flaw| below("urlRewrite", flaw)));
    Rewrite { host: written.hostname.as_deref().map(Arc::from), path, ..Rewrite::default() }
}

fn cors(written: &HttpRouteRulesFiltersCors, flaws: &mut Vec<Flaw>) -> CorsSettings {
    let max_age = written.max_age.map_or(MAX_AGE_DEFAULT, |age| {
        u32::try_from(age).ok().filter(|_| i64::from(age) >= MAX_AGE_MIN).unwrap_or_else(|| {
            flaws.push(Flaw::new("cors.maxAge", format!("maxAge is {age}; it must be at least {MAX_AGE_MIN}")));
            MAX_AGE_DEFAULT
        })
    });
    CorsSettings {
        origins: written.allow_origins.clone().unwrap_or_default(),
        methods: written.allow_methods.clone().unwrap_or_default(),
        headers: written.allow_headers.clone().unwrap_or_default(),
        expose: written.expose_headers.clone().unwrap_or_default(),
        max_age: Some(max_age),
        credentials: written.allow_credentials.unwrap_or(false),
        ..CorsSettings::default()
    }
}

/// Reads the filters of a backend reference; `field` is that of the reference.
pub(crate) fn of_backend(reference: &BackendRef, context: ReadFor<'_>, field: &str, flaws: &mut Vec<Flaw>) -> Filters {
    let field = format!("{field}.filters");
    of_list(reference.filters.as_deref().unwrap_or_default(), context, &field, flaws)
}

/// Returns the filter type as written in a manifest.
fn type_name(kind: &Type) -> &'static str {
    match kind {
        Type::RequestHeaderModifier => "RequestHeaderModifier",
        Type::ResponseHeaderModifier => "ResponseHeaderModifier",
        Type::RequestMirror => "RequestMirror",
        Type::RequestRedirect => "RequestRedirect",
        Type::UrlRewrite => "URLRewrite",
        Type::ExtensionRef => "ExtensionRef",
        Type::Cors => "CORS",
        Type::ExternalAuth => "ExternalAuth",
    }
}

fn missing(name: &str) -> Flaw {
    Flaw::new(name, format!("{name} must be set, as type requires"))
}
