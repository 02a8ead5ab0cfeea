//! Random matches of gRPC calls: service and method, each absent, a text, an expression, or a broken expression.

use std::fmt::Write;

use super::{HEADER, MatchRequest, WrittenCondition, WrittenMatch, WrittenPath, whole};

/// The condition of a service or of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Any,
    Text(&'static str),
    Regex(&'static str),
    /// A text followed by something that does not compile.
    Broken(&'static str, &'static str),
}

const SERVICES: [&str; 4] = ["s", "s1", "sx", "t"];
const METHODS: [&str; 2] = ["M", "Mx"];
const SERVICE_EXPRESSIONS: [&str; 4] = ["s.*", "[a-z]+", "s[0-9]", ".+[0-9]"];
const METHOD_EXPRESSIONS: [&str; 3] = ["M.*", "[A-Z].*", ".*x"];
/// Endings of an expression that do not compile.
const BROKEN: [&str; 5] = ["[0-9", "(a", "[0-9+", ".*(a", "[0-9x]M("];
/// Readable beginnings of broken expressions.
const BEGINNINGS: [&str; 4] = ["s", "s1", "t", ""];
const PATHS: [&str; 14] = [
    "/s/M", "/s/Mx", "/s/x", "/s1/M", "/s1/x", "/sx/M", "/sx/My", "/t/M", "/t/Mx", "/t1/x", "/t1/M", "/tx/Mx",
    "/s1M/M", "/txM/MxM",
];

impl Part {
    fn covers(self, text: &str) -> bool {
        match self {
            Self::Any => !text.is_empty(),
            Self::Text(own) => text == own,
            Self::Regex(pattern) => whole(pattern, text),
            Self::Broken(beginning, "[0-9x]M(") => whole(&format!("{beginning}[0-9x]M.*"), text),
            Self::Broken(beginning, _) => text.starts_with(beginning),
        }
    }

    fn written(self) -> Option<String> {
        match self {
            Self::Any => None,
            Self::Text(text) | Self::Regex(text) => Some(text.to_owned()),
            Self::Broken(beginning, end) => Some(format!("{beginning}{end}")),
        }
    }
}

pub(super) fn random(choose: &mut impl FnMut(usize) -> usize, is_broken: bool) -> WrittenMatch {
    let mut header = [WrittenCondition::Absent, WrittenCondition::Value("1"), WrittenCondition::Value("2")][choose(3)];
    let is_regex = choose(2) == 0;
    let mut part = |texts: &[&'static str], expressions: &[&'static str]| match (choose(3), is_regex) {
        (0, _) => Part::Any,
        (_, true) => Part::Regex(expressions[choose(expressions.len())]),
        (_, false) => Part::Text(texts[choose(texts.len())]),
    };
    let (mut service, mut method) = (part(&SERVICES, &SERVICE_EXPRESSIONS), part(&METHODS, &METHOD_EXPRESSIONS));
    // A match needs one of them.
    if service == Part::Any && method == Part::Any {
        service = Part::Text("s");
    }
    if is_broken {
        let (end, alone) = (BROKEN[choose(BROKEN.len())], ["[0-9", "[0-9+"][choose(2)]);
        // Without a text before them, groups are readable in part.
        let broken = |beginning: &'static str| Part::Broken(beginning, if beginning.is_empty() { alone } else { end });
        let literal = |part: Part| if let Part::Text(text) = part { Part::Regex(text) } else { part };
        match choose(3) {
            0 => header = WrittenCondition::Broken,
            1 => (service, method) = (broken(BEGINNINGS[choose(BEGINNINGS.len())]), literal(method)),
            _ => (service, method) = (literal(service), broken(["M", ""][choose(2)])),
        }
    }
    WrittenMatch { path: WrittenPath::Call(service, method), method: None, header, query: WrittenCondition::Absent }
}

pub(super) fn covers(service: Part, method: Part, path: &str) -> bool {
    let call = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    call.is_some_and(|(first, second)| service.covers(first) && method.covers(second))
}

/// Returns the kind and the length of the rank; the length of an expression that cannot be read means nothing.
pub(super) fn rank(service: Part, method: Part) -> (u8, usize) {
    let length = |part: Part| part.written().map_or(0, |text| text.len());
    match (service, method) {
        (Part::Broken("", _), Part::Any | Part::Broken("", _)) | (Part::Any, Part::Broken("", _)) => (3, 0),
        (Part::Broken(..), _) | (_, Part::Broken(..)) => (1, usize::MAX),
        _ => (1, length(service) * 1000 + length(method)),
    }
}

pub(super) fn grpc_route(written: &WrittenMatch) -> String {
    let WrittenPath::Call(service, method) = written.path else { return String::new() };
    let is_regex = [service, method].iter().any(|part| matches!(part, Part::Regex(_) | Part::Broken(..)));
    let mut text = format!("method: {{type: {}", if is_regex { "RegularExpression" } else { "Exact" });
    for (field, part) in [("service", service), ("method", method)] {
        if let Some(written) = part.written() {
            let _ = write!(text, ", {field}: '{written}'");
        }
    }
    text.push('}');
    let (kind, value) = match written.header {
        WrittenCondition::Absent => return text,
        WrittenCondition::Value(value) => ("Exact", value),
        WrittenCondition::Broken => ("RegularExpression", "["),
    };
    let _ = write!(text, ", headers: [{{name: {HEADER}, type: {kind}, value: '{value}'}}]");
    text
}

/// Returns all calls with these headers.
pub(super) fn universe(headers: &[Vec<(String, String)>]) -> Vec<MatchRequest> {
    let grpc = ("content-type".to_owned(), "application/grpc".to_owned());
    let call = |path: &str, headers: &Vec<(String, String)>| MatchRequest {
        method: "POST".to_owned(),
        path: path.to_owned(),
        query: Vec::new(),
        headers: headers.iter().cloned().chain([grpc.clone()]).collect(),
    };
    PATHS.iter().flat_map(|path| headers.iter().map(|headers| call(path, headers))).collect()
}
