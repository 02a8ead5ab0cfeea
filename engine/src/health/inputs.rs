//! Health of inputs: whether all of them were read, and are live.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::watch_problem::{WatchProblem, Why};
use holdfast_check::time::Moment;

use super::view::{InputProblem, Inputs, SourceView};

/// API groups of which at least one must be installed with all of these kinds; otherwise nothing can be served.
const NEEDED: [&[&str]; 2] = [
    &[
        "gateway.networking.k8s.io/GatewayClass",
        "gateway.networking.k8s.io/Gateway",
        "gateway.networking.k8s.io/HTTPRoute",
    ],
    &["projectcontour.io/HTTPProxy"],
];

/// The observed state of the source of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    /// Whether the source is an API server; otherwise it is folders of manifests.
    pub kubernetes: bool,
    /// The folders, or the address of the API server.
    pub name: Arc<str>,
    /// Whether everything was read once, and translated.
    pub read: bool,
    /// The number of objects.
    pub objects: usize,
    /// Seconds since the source was last read, or last answered.
    pub seen_seconds_ago: Option<u64>,
    /// Why the source does not answer; unset while it does.
    pub failing: Option<String>,
    /// Files that could not be read or parsed.
    pub files: Vec<FileProblem>,
    /// Kinds that could not be read.
    pub kinds: Vec<WatchProblem>,
    /// Since when each of these problems exists, by the name of the input.
    pub since: BTreeMap<Arc<str>, Moment>,
}

/// A problem of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The file, with the line and the column where it does not parse.
    pub of: Arc<str>,
    /// Whether the content was read, and does not parse; otherwise there is no content, as of a file that is missing.
    pub is_read: bool,
    /// A sentence.
    pub message: String,
}

/// Returns the names of inputs with a problem, without duplicates.
pub fn problems(input: &SourceState) -> BTreeSet<Arc<str>> {
    inputs(input).problems.into_iter().map(|problem| problem.of).collect()
}

/// Returns the health of the inputs.
pub(super) fn inputs(input: &SourceState) -> Inputs {
    let name: Arc<str> = match (input.kubernetes, &*input.name) {
        (true, _) => "the API server".into(),
        (false, "") => "the manifests".into(),
        (false, _) => input.name.clone(),
    };
    let source = SourceView {
        name: name.clone(),
        live: input.failing.is_none() && input.read,
        seen_seconds_ago: input.seen_seconds_ago,
        objects: input.objects,
    };
    let mut problems = Vec::new();
    let mut problem = |of: &Arc<str>, reason: &str, message: String, next: String| {
        let since = input.since.get(of).copied();
        problems.push(InputProblem { of: of.clone(), reason: reason.to_owned(), message, since, next });
    };
    if let Some(why) = &input.failing {
        let seen = match input.seen_seconds_ago {
            Some(seconds) => {
                format!("its last answer was {seconds} s ago; the objects that were read until then are served")
            }
            None => "it has never answered; the configuration that an earlier run stored is served".to_owned(),
        };
        let next = if input.kubernetes { "kubectl get --raw /readyz?verbose" } else { "ls -l" };
        problem(&name, "Unreachable", format!("{why}; {seen}"), next.to_owned());
    } else if !input.read {
        let message =
            "not all objects have been read yet; the configuration that an earlier run stored is served".to_owned();
        problem(&name, "NotRead", message, "/debug/health".to_owned());
    }
    for FileProblem { of, is_read, message } in &input.files {
        let file = super::next::quoted(of.split(':').next().unwrap_or(of));
        let (reason, next) = if *is_read { ("Unparsable", "holdfast check") } else { ("Unreadable", "ls -l") };
        problem(of, reason, message.clone(), format!("{next} {file}"));
    }
    let absent: Vec<Arc<str>> =
        input.kinds.iter().filter(|kind| kind.why == Why::NotServed).map(|kind| kind.of.clone()).collect();
    let is_absent = |kind: &&&str| absent.iter().any(|of| of.split(' ').next() == Some(**kind));
    let complete = NEEDED.iter().any(|group| !group.iter().any(|kind| is_absent(&kind)));
    let missing: Vec<&str> = NEEDED.iter().copied().flatten().filter(is_absent).copied().collect();
    if !complete {
        let message = "neither the CRDs of Gateway API nor the CRD of HTTPProxy are installed: nothing can be served";
        problem(&missing.join(", ").into(), "NotServed", message.to_owned(), "kubectl get crds".to_owned());
    }
    for kind in &input.kinds {
        match kind.why {
            Why::NotServed => {}
            // While the API server does not answer, that problem covers kinds that cannot be listed or watched.
            Why::Unlisted | Why::Failing if input.failing.is_some() => {}
            why => problem(&kind.of, why.name(), kind.message.clone(), next_of(kind)),
        }
    }
    problems.sort();
    problems.dedup();
    let not_installed = if complete { absent } else { Vec::new() };
    Inputs { sources: vec![source], problems, not_installed }
}

fn next_of(kind: &WatchProblem) -> String {
    let name = kind.of.split(' ').next().unwrap_or_default();
    let resource = match name.split_once('/') {
        Some((group, kind)) => format!("{}.{group}", kind.to_lowercase()),
        None => name.to_lowercase(),
    };
    match kind.why {
        Why::Denied => format!("kubectl auth can-i list {resource} --as system:serviceaccount:NAMESPACE:NAME"),
        _ => format!("kubectl get {resource} --all-namespaces"),
    }
}
