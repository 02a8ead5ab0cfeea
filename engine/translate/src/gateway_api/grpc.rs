//! GRPCRoute rules: a gRPC call is a POST to `/service/method`.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#grpcrouterule>

use std::cmp::Reverse;

use gateway_api::grpcroutes::{
    GrpcRouteRulesMatches, GrpcRouteRulesMatchesHeadersType as HeaderType,
    GrpcRouteRulesMatchesMethodType as MethodType,
};
use holdfast_api::apis::gateway::grpc_route::GrpcRule;
use holdfast_api::apis::typed;
use holdfast_api::fault::at;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::timeout::RouteTimeouts;
use holdfast_envoy::model::{Match, PathMatch, PathRank};
use serde_json::Value;

use super::conditions::{self, Of, Written};
use super::filters::{self, Allowed, ReadFor};
use super::rule::ReadRule;
use super::session;
use crate::narrowing::calls::{self, Part};
use crate::narrowing::{self, Ranked};

/// Longest name of a service or method (bytes), as in the CRD.
const NAME_BYTES_MAX: usize = 1024;

/// Reads a rule.
pub(crate) fn read<'a>(index: usize, rule: &'a GrpcRule, regexes: &Regexes) -> ReadRule<'a> {
    let mut flaws = Vec::new();
    let written = rule.matches.as_deref().unwrap_or_default();
    let mut matches: Vec<Ranked> = written
        .iter()
        .enumerate()
        .map(|(index, written)| read_match(written, &at("matches", index), regexes, &mut flaws))
        .collect();
    if matches.is_empty() {
        matches.push(any_call());
    }
    let backends = rule.backend_refs.as_deref().unwrap_or_default();
    let allowed = Allowed::Grpc;
    let filters = rule.filters.as_deref().unwrap_or_default();
    let filters = filters::of_rule(filters, ReadFor { allowed, paths: &[] }, !backends.is_empty(), &mut flaws);
    let mut ignored = Vec::new();
    let session = rule.session_persistence.as_ref();
    let session = session.map(|written| session::read(written, &mut flaws, &mut ignored));
    ReadRule {
        index,
        name: rule.name.as_deref(),
        matches,
        allowed,
        filters,
        backends,
        timeouts: RouteTimeouts::default(),
        retry: None,
        session,
        flaws,
        ignored,
    }
}

fn any_call() -> Ranked {
    let matches = Match { grpc: true, ..Match::any() };
    Ranked { matches, rank: PathRank::Grpc(Reverse(0), Reverse(0)), narrowed: false, is_path_lost: false, left: None }
}

fn read_match(written: &GrpcRouteRulesMatches, field: &str, regexes: &Regexes, flaws: &mut Vec<Flaw>) -> Ranked {
    let (mut narrowed, mut is_path_lost) = (false, false);
    let mut flaw = |below: String, message: String| {
        is_path_lost |= below.starts_with("method");
        flaws.push(Flaw::new(format!("{field}.{below}"), message));
        narrowed = true;
    };
    let (path, rank, left) = read_method(written, regexes, &mut flaw);
    let headers = written.headers.iter().flatten().map(|header| Written {
        name: &header.name,
        value: &header.value,
        regex: header.r#type == Some(HeaderType::RegularExpression),
    });
    let headers = conditions::read(Of::Headers, headers, regexes, &mut flaw);
    let matches = Match { path, method: None, headers, query: vec![], grpc: true };
    narrowing::placed(Ranked { matches, rank, narrowed, is_path_lost, left })
}

/// Returns the path of a call, its rank, and the narrowed path to use if Envoy refuses the regular expression of the
/// path.
fn read_method(
    written: &GrpcRouteRulesMatches,
    regexes: &Regexes,
    flaw: &mut impl FnMut(String, String),
) -> (PathMatch, PathRank, Option<(PathMatch, PathRank)>) {
    let Some(method) = &written.method else {
        let any = any_call();
        return (any.matches.path, any.rank, None);
    };
    let text = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let (service, call) = (text(&method.service), text(&method.method));
    let length = |text: &Option<String>| Reverse(text.as_ref().map_or(0, |text| text.chars().count()));
    let rank = PathRank::Grpc(length(&service), length(&call));
    if service.is_none() && call.is_none() {
        flaw("method".into(), "one of service and method must be set".into());
        return (PathMatch::Prefix("/".into()), PathRank::Last, None);
    }
    let regex = method.r#type == Some(MethodType::RegularExpression);
    let mut usable = |field: &str, text: &Option<String>, legal: fn(char) -> bool| {
        let Some(text) = text else { return true };
        let wrong = if regex {
            regexes.check(text).err().map(|fault| fault.to_string())
        } else if text.len() > NAME_BYTES_MAX || !text.chars().all(legal) {
            Some("must consist of letters, digits and '_' (a service also of '.'), with at most 1024 characters".into())
        } else {
            None
        };
        let usable = wrong.is_none();
        wrong.into_iter().for_each(|message| flaw(field.into(), message));
        usable
    };
    let of_service = Part { text: service.as_deref(), usable: usable("method.service", &service, calls::in_service) };
    let of_call = Part { text: call.as_deref(), usable: usable("method.method", &call, calls::in_method) };
    if !of_service.usable || !of_call.usable {
        let (path, rank) = calls::left(of_service, of_call, regex, regexes);
        return (path, rank, None);
    }
    if regex {
        // Each part may match only within its own segment.
        let part =
            |text: &Option<String>| text.as_ref().map_or_else(|| "[^/]+".to_owned(), |text| format!("(?:{text})"));
        let pattern = format!("/{}/{}", part(&service), part(&call));
        let left = calls::nothing_but_text(of_service, of_call, true);
        if let Err(fault) = regexes.check(&pattern) {
            flaw("method".into(), fault.to_string());
            return (left.0, left.1, None);
        }
        return (PathMatch::Regex(pattern.into()), rank, Some(left));
    }
    match (&service, &call) {
        (Some(service), Some(call)) => (PathMatch::Exact(format!("/{service}/{call}").into()), rank, None),
        (Some(service), None) => (PathMatch::Text(format!("/{service}/").into()), rank, None),
        (None, call) => {
            let left = calls::nothing_but_text(of_service, of_call, false);
            let call = call.as_deref().unwrap_or_default();
            (PathMatch::Regex(format!("/[^/]+/{call}").into()), rank, Some(left))
        }
    }
}

/// Reads the readable parts of the matches of a rule that did not decode.
pub(crate) fn salvage(matches: &[Value], regexes: &Regexes) -> Vec<Ranked> {
    if matches.is_empty() { vec![last_call()] } else { matches.iter().map(|value| raw(value, regexes)).collect() }
}

/// Returns a match for every call of the host, ranked after all other routes.
fn last_call() -> Ranked {
    Ranked { matches: Match { grpc: true, ..Match::any() }, ..Ranked::last() }
}

fn raw(value: &Value, regexes: &Regexes) -> Ranked {
    let whole = typed::read::<GrpcRouteRulesMatches>(value);
    if let Ok(written) = &whole.result
        && whole.unknown.is_empty()
    {
        // The fault is elsewhere in the rule, and its match is known.
        return read_match(written, "", regexes, &mut Vec::new());
    }
    let decodes = |name: &str, field: &Value| {
        let alone = Value::Object([(name.to_owned(), field.clone())].into_iter().collect());
        let read = typed::read::<GrpcRouteRulesMatches>(&alone);
        read.result.is_ok() && read.unknown.is_empty()
    };
    let kept = narrowing::decodable(value, decodes);
    let Ok(written) = typed::read::<GrpcRouteRulesMatches>(&kept).result else { return last_call() };
    if written == GrpcRouteRulesMatches::default() && value.as_object().is_none_or(|fields| !fields.is_empty()) {
        return last_call();
    }
    let mut ranked = Ranked { narrowed: true, ..read_match(&written, "", regexes, &mut Vec::new()) };
    if written.method.is_none() && narrowing::has_others(value, &["headers"]) {
        ranked.rank = PathRank::Last;
    }
    narrowing::placed(ranked)
}
