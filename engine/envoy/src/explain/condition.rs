//! Conditions in CEL on requests, evaluated as Envoy does where all inputs are known: attributes of the request, texts,
//! lists and the logical operators. Everything else is unknown, and an operator with an unknown argument has an unknown
//! result unless the other arguments decide it.

use envoy_types::pb::google::api::expr::v1alpha1::Expr;
use envoy_types::pb::google::api::expr::v1alpha1::constant::ConstantKind;
use envoy_types::pb::google::api::expr::v1alpha1::expr::{Call, ExprKind, Select};

use super::matching::ReceivedRequest;

/// What is known of a request when its conditions are evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownRequest<'a> {
    /// The request as it was routed.
    pub(super) request: &'a ReceivedRequest,
    /// Whether no filter before the conditions may have changed its headers.
    pub(super) has_its_headers: bool,
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConditionValue {
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<ConditionValue>),
    /// `request`
    Request,
    /// `request.headers`
    Headers,
    /// The evaluation fails: a header is absent.
    Error,
    /// The value depends on what is not known, or is not evaluated here.
    Unknown,
}

/// Returns the value of an expression. The depth of expressions is limited by decoding.
pub(super) fn value(expr: &Expr, request: KnownRequest<'_>) -> ConditionValue {
    match &expr.expr_kind {
        Some(ExprKind::ConstExpr(constant)) => match &constant.constant_kind {
            Some(ConstantKind::BoolValue(value)) => ConditionValue::Bool(*value),
            Some(ConstantKind::Int64Value(value)) => ConditionValue::Int(*value),
            Some(ConstantKind::StringValue(value)) => ConditionValue::Text(value.clone()),
            _ => ConditionValue::Unknown,
        },
        Some(ExprKind::IdentExpr(name)) if name.name == "request" => ConditionValue::Request,
        Some(ExprKind::SelectExpr(select)) => selected(select, request),
        Some(ExprKind::ListExpr(list)) => {
            ConditionValue::List(list.elements.iter().map(|element| value(element, request)).collect())
        }
        Some(ExprKind::CallExpr(call)) => called(call, request),
        _ => ConditionValue::Unknown,
    }
}

fn selected(select: &Select, request: KnownRequest<'_>) -> ConditionValue {
    let operand = select.operand.as_ref().map_or(ConditionValue::Unknown, |operand| value(operand, request));
    match (operand, select.test_only) {
        (ConditionValue::Request, false) => attribute(&select.field, request),
        (ConditionValue::Headers, false) => header(&select.field, request),
        (ConditionValue::Headers, true) => has(&select.field, request),
        (ConditionValue::Error, _) => ConditionValue::Error,
        _ => ConditionValue::Unknown,
    }
}

/// Returns an attribute of the request.
fn attribute(name: &str, KnownRequest { request, .. }: KnownRequest<'_>) -> ConditionValue {
    match name {
        "method" => ConditionValue::Text(request.method.clone()),
        "host" => ConditionValue::Text(request.host.clone()),
        "scheme" => ConditionValue::Text(request.scheme().to_owned()),
        "url_path" => ConditionValue::Text(request.path.clone()),
        "query" => ConditionValue::Text(request.query.clone().unwrap_or_default()),
        "path" => ConditionValue::Text(match &request.query {
            Some(query) => format!("{}?{query}", request.path),
            None => request.path.clone(),
        }),
        "headers" => ConditionValue::Headers,
        _ => ConditionValue::Unknown,
    }
}

/// Headers of which Envoy sets or changes the value.
fn is_of_envoy(name: &str) -> bool {
    const OTHERS: [&str; 8] =
        ["host", "via", "connection", "transfer-encoding", "content-length", "te", "upgrade", "traceparent"];
    const BEGIN: [&str; 5] = [":", "x-envoy-", "x-forwarded-", "x-request-id", "x-client-trace-id"];
    BEGIN.iter().any(|begin| name.starts_with(begin)) || OTHERS.contains(&name)
}

fn header(name: &str, request: KnownRequest<'_>) -> ConditionValue {
    let name = name.to_ascii_lowercase();
    if is_of_envoy(&name) || !request.has_its_headers {
        return ConditionValue::Unknown;
    }
    let values: Vec<&str> =
        request.request.headers.iter().filter(|(own, _)| *own == name).map(|(_, value)| &**value).collect();
    if values.is_empty() { ConditionValue::Error } else { ConditionValue::Text(values.join(",")) }
}

fn has(name: &str, request: KnownRequest<'_>) -> ConditionValue {
    match header(name, request) {
        ConditionValue::Text(_) => ConditionValue::Bool(true),
        ConditionValue::Error => ConditionValue::Bool(false),
        other => other,
    }
}

fn called(call: &Call, request: KnownRequest<'_>) -> ConditionValue {
    let all = call.target.iter().map(|target| &**target).chain(&call.args);
    let arguments: Vec<ConditionValue> = all.map(|argument| value(argument, request)).collect();
    match (&*call.function, arguments.as_slice()) {
        ("_&&_", [one, other]) => both(one, other, false),
        ("_||_", [one, other]) => both(one, other, true),
        ("_?_:_", [ConditionValue::Bool(which), yes, no]) => if *which { yes } else { no }.clone(),
        (_, all) if all.contains(&ConditionValue::Unknown) => ConditionValue::Unknown,
        (_, all) if all.contains(&ConditionValue::Error) => ConditionValue::Error,
        ("!_", [ConditionValue::Bool(value)]) => ConditionValue::Bool(!value),
        ("_==_", [one, other]) => equal(one, other).map_or(ConditionValue::Unknown, ConditionValue::Bool),
        ("_!=_", [one, other]) => {
            equal(one, other).map_or(ConditionValue::Unknown, |is_equal| ConditionValue::Bool(!is_equal))
        }
        ("_[_]", [ConditionValue::Headers, ConditionValue::Text(name)]) => header(name, request),
        ("@in" | "_in_" | "in", [ConditionValue::Text(name), ConditionValue::Headers]) => has(name, request),
        ("@in" | "_in_" | "in", [one, ConditionValue::List(all)]) => {
            let found: Option<Vec<bool>> = all.iter().map(|other| equal(one, other)).collect();
            found.map_or(ConditionValue::Unknown, |found| ConditionValue::Bool(found.contains(&true)))
        }
        (function, [ConditionValue::Text(text), ConditionValue::Text(part)]) => of_texts(function, text, part),
        _ => ConditionValue::Unknown,
    }
}

/// Returns the result of a logical operator of which one argument with the value `decisive` decides.
fn both(one: &ConditionValue, other: &ConditionValue, decisive: bool) -> ConditionValue {
    let all = [one, other];
    match () {
        () if all.contains(&&ConditionValue::Bool(decisive)) => ConditionValue::Bool(decisive),
        () if all.iter().all(|one| matches!(one, ConditionValue::Bool(_))) => ConditionValue::Bool(!decisive),
        () if all.iter().all(|one| matches!(one, ConditionValue::Bool(_) | ConditionValue::Error)) => {
            ConditionValue::Error
        }
        () => ConditionValue::Unknown,
    }
}

/// Returns whether two values of one type are equal.
fn equal(one: &ConditionValue, other: &ConditionValue) -> Option<bool> {
    match (one, other) {
        (ConditionValue::Bool(one), ConditionValue::Bool(other)) => Some(one == other),
        (ConditionValue::Int(one), ConditionValue::Int(other)) => Some(one == other),
        (ConditionValue::Text(one), ConditionValue::Text(other)) => Some(one == other),
        _ => None,
    }
}

fn of_texts(function: &str, text: &str, part: &str) -> ConditionValue {
    match function {
        "startsWith" => ConditionValue::Bool(text.starts_with(part)),
        "endsWith" => ConditionValue::Bool(text.ends_with(part)),
        "contains" => ConditionValue::Bool(text.contains(part)),
        "matches" => {
            regex::Regex::new(part).map_or(ConditionValue::Unknown, |regex| ConditionValue::Bool(regex.is_match(text)))
        }
        _ => ConditionValue::Unknown,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::RbacPerRoute;
    use holdfast_check::re2::{Limits, Regexes};

    use super::*;
    use crate::features::rbac::Conditions;

    /// Returns the value of a condition for a request with a header, or none where the condition is not accepted.
    fn of(text: &str) -> Option<ConditionValue> {
        let conditions = Conditions::read(false, [text], &Regexes::of_object(Limits::default())).ok()?;
        let RbacPerRoute { rbac } = conditions.encode();
        let policy = rbac?.rules?.policies.into_values().next()?;
        let request = ReceivedRequest {
            method: "GET".into(),
            tls: false,
            host: "shop.test".into(),
            path: "/one/two".into(),
            query: Some("a=b".into()),
            headers: vec![("x-env".into(), "test".into()), ("x-env".into(), "more".into())],
        };
        Some(value(&policy.condition?, KnownRequest { request: &request, has_its_headers: true }))
    }

    #[test]
    fn conditions_have_the_values_of_envoy() {
        let yes = [
            "request.path.startsWith('/one/')",
            "request.path == '/one/two?a=b' && request.url_path == '/one/two' && request.query == 'a=b'",
            "request.method in ['POST', 'GET']",
            "request.headers['X-Env'] == 'test,more'",
            "'x-env' in request.headers && !('x-none' in request.headers)",
            "has(request.headers.via2) || request.host == 'shop.test'",
            "request.headers['x-none'] == 'a' || request.scheme == 'http'",
            "request.url_path.matches('two$') ? request.host.contains('op.') : false",
            "source.address == '10.0.0.1' || request.method == 'GET'",
        ];
        let no = [
            "request.path.endsWith('/two')",
            "request.headers['x-none'] == 'a' && request.scheme == 'https'",
            "source.address == '10.0.0.1' && request.method != 'GET'",
        ];
        let unknown = [
            "source.address == '10.0.0.1'",
            "connection.mtls",
            "request.headers['x-forwarded-for'] == '10.0.0.1'",
            "request.headers['x-none'] == 'a' || source.port == 80",
        ];
        for (texts, wanted) in [
            (&yes[..], ConditionValue::Bool(true)),
            (&no, ConditionValue::Bool(false)),
            (&unknown, ConditionValue::Unknown),
        ] {
            for text in texts {
                assert_eq!(of(text).as_ref(), Some(&wanted), "{text}");
            }
        }
        assert_eq!(of("request.headers['x-none'] == 'a'"), Some(ConditionValue::Error));
        assert_eq!(of("!(request.headers['x-none'] == 'a')"), Some(ConditionValue::Error));
    }
}
