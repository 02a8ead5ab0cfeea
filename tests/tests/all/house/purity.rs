//! Limits of the deciding code: no I/O, no clock, no randomness and no `async`. Only the named files and crates use
//! kinds of Kubernetes, clusters with DNS, and regex budgets.

use regex::Regex;

use super::{code, files, none, shown};

/// The crates of the program's shell, which perform I/O.
const SHELL: [&str; 3] = ["engine/cli/", "engine/kubernetes/", "engine/probe/"];

/// Files of these crates that decide something all the same, and perform no I/O.
const PURE: [&str; 11] = [
    "engine/kubernetes/src/leadership.rs",
    "engine/kubernetes/src/rights.rs",
    "engine/kubernetes/src/series.rs",
    "engine/kubernetes/src/watching/",
    "engine/kubernetes/src/written.rs",
    "engine/probe/src/batch.rs",
    "engine/probe/src/course.rs",
    "engine/probe/src/push.rs",
    "engine/probe/src/rewrite.rs",
    "engine/probe/src/setup.rs",
    "engine/probe/src/view.rs",
];

/// Files outside of these crates that perform I/O, with the reason.
const ALLOWED: [(&str, &str); 13] = [
    ("xds/src/server.rs", "tonic around the state machine"),
    ("xds/src/ads.rs", "the RPCs of the aggregated stream"),
    ("xds/src/csds.rs", "the RPCs of the client status service"),
    ("xds/src/stream.rs", "one stream's task"),
    ("xds/src/event_sender.rs", "a channel that may be full"),
    ("xds/src/listen.rs", "sockets"),
    ("xds/src/lost.rs", "a socket whose file is removed"),
    ("xds/src/door.rs", "connections and their handshakes"),
    ("xds/src/peer.rs", "one connection"),
    ("xds/src/fleets.rs", "wakes the streams' tasks"),
    ("xds/src/silence.rs", "when bytes of a connection were last read"),
    ("store/src/sled/folder.rs", "the store's files"),
    ("store/src/sled/rollback.rs", "a copy of the store's files"),
];

#[test]
fn deciding_code_does_no_io_and_reads_no_clock() {
    let forbidden = Regex::new(
        r"std::(fs|thread|env|process)\b|\b(Tcp|Udp|Unix)(Listener|Stream|Socket)\b|\bInstant\b|\bSystemTime\b|\btokio(_\w+)?::|\basync\b|\brand::|\bRandomState\b",
    )
    .unwrap();
    let sources = ["graph/src", "store/src", "xds/src", "engine"].into_iter().flat_map(|room| files(room, &[".rs"]));
    let offences = sources
        .filter(|path| !shown(path).contains("/benches/"))
        .filter(|path| {
            let is_in_shell = SHELL.iter().any(|folder| shown(path).starts_with(folder));
            !is_in_shell || PURE.iter().any(|pure| shown(path).starts_with(pure))
        })
        .filter(|path| !shown(path).contains("/tests"))
        .filter(|path| !ALLOWED.iter().any(|(allowed, _)| *allowed == shown(path)))
        .flat_map(|path| {
            let code = code(&path);
            let found: Vec<String> =
                forbidden.find_iter(&code).map(|hit| format!("{}: {}", shown(&path), hit.as_str())).collect();
            found
        })
        .collect();
    none("only the crates of the shell and a few named files use I/O, clocks, randomness and async", offences);
}

/// The files that create clusters with hosts that Envoy looks up; each of these clusters needs a wall: an address
/// filter (decision 21).
const LOOKED_UP: [&str; 2] = ["engine/envoy/src/features/wall.rs", "engine/envoy/src/features/forward_proxy.rs"];

#[test]
fn names_are_looked_up_behind_a_wall_only() {
    let looked_up =
        Regex::new(r"\b(StrictDns|LogicalDns|DnsCluster|OriginalDst)\b|clusters::(dns|redis|dynamic_forward_proxy)")
            .unwrap();
    let offences = files("engine", &[".rs"])
        .into_iter()
        .filter(|path| !LOOKED_UP.contains(&shown(path).as_str()))
        .flat_map(|path| {
            let code = code(&path);
            let found: Vec<String> =
                looked_up.find_iter(&code).map(|hit| format!("{}: {}", shown(&path), hit.as_str())).collect();
            found
        })
        .collect();
    none("only features/wall.rs and features/forward_proxy.rs make clusters with hosts that Envoy looks up", offences);
    let users = files("engine", &[".rs"]).into_iter().filter(|path| code(path).contains("wall::look_up("));
    let without = users.filter(|path| !code(path).contains("wall::special(")).map(|path| shown(&path)).collect();
    none("a file that calls wall::look_up also calls wall::special", without);
}

#[test]
fn only_the_engine_names_kinds_of_kubernetes() {
    let kinds: Vec<&str> = holdfast_api::apis::KINDS.iter().map(|kind| kind.kind).collect();
    // Some kinds have another meaning in these crates: a fleet belongs to a Gateway, and Secret is also a type of xDS.
    let kinds = kinds.into_iter().filter(|kind| !["Gateway", "Secret", "Namespace", "Service"].contains(kind));
    let named = Regex::new(&format!(r"\b({})\b", kinds.collect::<Vec<_>>().join("|"))).unwrap();
    let sources = ["graph/src", "store/src", "xds/src"].into_iter().flat_map(|room| files(room, &[".rs"]));
    let offences = sources
        .filter(|path| !shown(path).contains("/tests"))
        .flat_map(|path| {
            let code = code(&path);
            let found: Vec<String> =
                named.find_iter(&code).map(|hit| format!("{}: {}", shown(&path), hit.as_str())).collect();
            found
        })
        .collect();
    none("xds, store and graph name no Kubernetes kind", offences);
}

#[test]
fn golden_files_are_compared_and_written_in_one_file() {
    let rooms = ["graph", "store", "xds", "engine", "tests", "scenario-tests"];
    let sources = rooms.into_iter().flat_map(|room| files(room, &[".rs"]));
    let reads = Regex::new(r#"var(_os)?\("HOLDFAST_GOLDEN"\)"#).unwrap();
    let readers = sources.filter(|path| reads.is_match(&std::fs::read_to_string(path).unwrap()));
    let readers: Vec<String> = readers.map(|path| shown(&path)).collect();
    assert_eq!(readers, ["tests/golden-driver/src/lib.rs"]);
}

/// The manifests of libraries have `doctest = false`: an example would never be run.
#[test]
fn documentation_comments_have_no_example_that_looks_tested() {
    let rooms = ["graph/src", "store/src", "xds/src", "engine", "tests", "scenario-tests/src"];
    let sources = rooms.into_iter().flat_map(|room| files(room, &[".rs"]));
    let example = Regex::new(r"(?m)^\s*//[/!] ?```(rust)?$").unwrap();
    let with = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let fences = example.find_iter(&text).count();
        // A block ends with the same line, unless its beginning has the name of another language.
        let others = text.lines().filter(|line| line.trim_start().starts_with("//") && line.contains("```")).count();
        fences > others - fences
    };
    let offences = sources.filter(with).map(|path| shown(&path)).collect();
    none("an example in a documentation comment begins with ```text or another language", offences);
}

/// The files that create the step budget for the regular expressions of an object, with the object.
const BUDGETS: [(&str, &str); 6] = [
    ("engine/translate/src/gateway_api/route.rs", "an HTTPRoute or GRPCRoute"),
    ("engine/translate/src/gateway_api/delegation/mod.rs", "an HTTPRoute that another one reads"),
    ("engine/translate/src/gateway_api/today.rs", "the desired version of one of which another is read"),
    ("engine/translate/src/policy/reading.rs", "a policy, or an extension that it names"),
    ("engine/translate/src/httpproxy/budgets.rs", "an HTTPProxy, for each that includes it"),
    ("engine/fallback/src/eligibility/proxy_protection.rs", "an HTTPProxy of which two versions are compared"),
];

#[test]
fn regexes_of_an_object_have_one_budget() {
    let made = Regex::new(r"\bof_object\(").unwrap();
    let sources = files("engine", &[".rs"]).into_iter().filter(|path| !shown(path).contains("/tests"));
    let mut found: Vec<String> = sources.filter(|path| made.is_match(&code(path))).map(|path| shown(&path)).collect();
    found.retain(|path| path != "engine/check/src/re2/regexes.rs");
    let mut known: Vec<&str> = BUDGETS.iter().map(|(path, _)| *path).collect();
    known.sort_unstable();
    assert_eq!(found, known, "a field with a budget of its own is not limited together with the others of its object");
}
