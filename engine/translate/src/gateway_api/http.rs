//! HTTPRoute rules.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#httprouterule>

use std::sync::Arc;

use gateway_api::httproutes::{
    HttpRouteRulesMatches, HttpRouteRulesMatchesHeadersType as HeaderType, HttpRouteRulesMatchesPathType as PathType,
    HttpRouteRulesMatchesQueryParamsType as QueryType,
};
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::typed;
use holdfast_api::fault::at;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::timeout::RouteTimeouts;
use holdfast_envoy::model::{Match, PathMatch, PathRank};
use serde_json::Value;

use super::conditions::{self, Of, Written};
use super::filters::{self, Allowed, ReadFor};
use super::rule::{ReadRule, rank};
use super::{retry, session};
use crate::narrowing::{self, Ranked};

/// Reads a rule.
pub(crate) fn read<'a>(index: usize, rule: &'a HttpRule, regexes: &Regexes) -> ReadRule<'a> {
    let mut flaws = Vec::new();
    let written = rule.matches.as_deref().unwrap_or_default();
    let mut matches: Vec<Ranked> = written
        .iter()
        .enumerate()
        .map(|(index, written)| read_match(written, &at("matches", index), regexes, &mut flaws))
        .collect();
    if matches.is_empty() {
        let any = Match::any();
        matches.push(Ranked { rank: rank(&any.path), matches: any, narrowed: false, is_path_lost: false, left: None });
    }
    let backends = rule.backend_refs.as_deref().unwrap_or_default();
    let paths: Vec<&PathMatch> = matches.iter().map(|ranked| &ranked.matches.path).collect();
    let allowed = Allowed::Http;
    let context = ReadFor { allowed, paths: &paths };
    let filters = rule.filters.as_deref().unwrap_or_default();
    let filters = filters::of_rule(filters, context, !backends.is_empty(), &mut flaws);
    let timeouts = timeouts(rule, &mut flaws);
    let retry = rule.retry.as_ref().map(|written| retry::read(written, &timeouts, &mut flaws));
    let mut ignored = Vec::new();
    let session = rule.session_persistence.as_ref();
    let session = session.map(|written| session::read(written, &mut flaws, &mut ignored));
    let name = rule.name.as_deref();
    ReadRule { index, name, matches, allowed, filters, backends, timeouts, retry, session, flaws, ignored }
}

fn timeouts(rule: &HttpRule, flaws: &mut Vec<Flaw>) -> RouteTimeouts {
    let Some(written) = &rule.timeouts else { return RouteTimeouts::default() };
    let mut read = |field: &str, text: Option<&str>| {
        let checked = text.map(holdfast_check::duration::duration).transpose();
        checked.map_err(|fault| flaws.push(Flaw::new(format!("timeouts.{field}"), fault))).unwrap_or_default()
    };
    let timeouts = RouteTimeouts {
        request: read("request", written.request.as_deref()),
        backend_request: read("backendRequest", written.backend_request.as_deref()),
        idle: None,
    };
    if timeouts.contradict() {
        flaws.push(Flaw::new("timeouts.backendRequest", "backendRequest cannot be longer than request"));
    }
    timeouts
}

fn read_match(written: &HttpRouteRulesMatches, field: &str, regexes: &Regexes, flaws: &mut Vec<Flaw>) -> Ranked {
    let mut narrowed = false;
    let mut flaw = |below: String, message: String| {
        flaws.push(Flaw::new(format!("{field}.{below}"), message));
        narrowed = true;
    };
    let (path, path_rank, is_path_lost) = match read_path(written, regexes, &mut flaw) {
        Ok(path) => (path.clone(), rank(&path), false),
        Err((path, rank)) => (path, rank, true),
    };
    let headers = written.headers.iter().flatten().map(|header| Written {
        name: &header.name,
        value: &header.value,
        regex: header.r#type == Some(HeaderType::RegularExpression),
    });
    let headers = conditions::read(Of::Headers, headers, regexes, &mut flaw);
    let query = written.query_params.iter().flatten().map(|parameter| Written {
        name: &parameter.name,
        value: &parameter.value,
        regex: parameter.r#type == Some(QueryType::RegularExpression),
    });
    let query = conditions::read(Of::QueryParams, query, regexes, &mut flaw);
    let method = written.method.as_ref().and_then(|method| serde_json::to_value(method).ok());
    let method = method.as_ref().and_then(Value::as_str).map(Arc::from);
    let matches = Match { path, method, headers, query, grpc: false };
    narrowing::placed(Ranked { matches, rank: path_rank, narrowed, is_path_lost, left: None })
}

/// Returns the path of a match; the error is the narrowed path with its rank.
fn read_path(
    written: &HttpRouteRulesMatches,
    regexes: &Regexes,
    flaw: &mut impl FnMut(String, String),
) -> Result<PathMatch, (PathMatch, PathRank)> {
    let default = (None, "/");
    let (kind, value) =
        written.path.as_ref().map_or(default, |path| (path.r#type.as_ref(), path.value.as_deref().unwrap_or("/")));
    let path = match kind {
        None | Some(PathType::PathPrefix) => PathMatch::Prefix(value.into()),
        Some(PathType::Exact) => PathMatch::Exact(value.into()),
        Some(PathType::RegularExpression) => match regexes.check(value) {
            Ok(_) => PathMatch::Regex(value.into()),
            Err(fault) => {
                flaw("path.value".into(), fault.to_string());
                return Err(narrowing::regex_path(value, regexes));
            }
        },
    };
    if let PathMatch::Prefix(text) | PathMatch::Exact(text) = &path
        && let Err(fault) = holdfast_check::path::matched(text)
    {
        flaw("path.value".into(), fault.to_string());
        return Err(narrowing::path(&narrowing::absolute(text)));
    }
    Ok(path)
}

/// Reads the readable parts of the matches of a rule that did not decode.
pub(crate) fn salvage(matches: &[Value], regexes: &Regexes) -> Vec<Ranked> {
    if matches.is_empty() { vec![Ranked::last()] } else { matches.iter().map(|value| raw(value, regexes)).collect() }
}

/// Reads the readable parts of one match. A word that is not a known method still identifies the intended requests.
fn raw(value: &Value, regexes: &Regexes) -> Ranked {
    let whole = typed::read::<HttpRouteRulesMatches>(value);
    if let Ok(written) = &whole.result
        && whole.unknown.is_empty()
    {
        // The fault is elsewhere in the rule, and its match is known.
        return read_match(written, "", regexes, &mut Vec::new());
    }
    let decodes = |name: &str, field: &Value| {
        let alone = Value::Object([(name.to_owned(), field.clone())].into_iter().collect());
        let read = typed::read::<HttpRouteRulesMatches>(&alone);
        read.result.is_ok() && read.unknown.is_empty()
    };
    let kept = narrowing::decodable(value, decodes);
    let Ok(written) = typed::read::<HttpRouteRulesMatches>(&kept).result else { return Ranked::last() };
    if written == HttpRouteRulesMatches::default() && value.as_object().is_none_or(|fields| !fields.is_empty()) {
        return Ranked::last();
    }
    let mut ranked = Ranked { narrowed: true, ..read_match(&written, "", regexes, &mut Vec::new()) };
    if written.path.is_none() && narrowing::has_others(value, &["headers", "method", "queryParams"]) {
        // The intended path is unknown, so other routes come first.
        ranked.rank = PathRank::Last;
    }
    let method = value.get("method").and_then(Value::as_str);
    if let Some(method) = method.filter(|method| holdfast_check::header::name(method).is_ok()) {
        ranked.matches.method = Some(method.into());
    }
    narrowing::placed(ranked)
}
