//! Where there is no I/O, no clock, no randomness and no `async`; and who never names a Kubernetes kind.

use regex::Regex;

use super::{code, files, none, shown};

/// Files outside of `engine/src/run/` that do I/O, with the reason.
const ALLOWED: [(&str, &str); 10] = [
    ("xds/src/server.rs", "tonic around the state machine"),
    ("xds/src/ads.rs", "the RPCs of the aggregated stream"),
    ("xds/src/csds.rs", "the RPCs of the client status service"),
    ("xds/src/stream.rs", "one stream's task"),
    ("xds/src/teller.rs", "a channel that may be full"),
    ("xds/src/listen.rs", "sockets"),
    ("xds/src/door.rs", "connections and their handshakes"),
    ("xds/src/peer.rs", "one connection"),
    ("xds/src/fleets.rs", "wakes the streams' tasks"),
    ("store/src/sled/folder.rs", "the store's files"),
];

#[test]
fn deciding_code_does_no_io_and_reads_no_clock() {
    let forbidden = Regex::new(
        r"std::(fs|thread|env|process)\b|\b(Tcp|Udp|Unix)(Listener|Stream|Socket)\b|\bInstant\b|\bSystemTime\b|\btokio(_\w+)?::|\basync\b|\brand::|\bRandomState\b",
    )
    .unwrap();
    let sources =
        ["graph/src", "store/src", "xds/src", "engine/src"].into_iter().flat_map(|room| files(room, &[".rs"]));
    let offences = sources
        .filter(|path| !shown(path).starts_with("engine/src/run/") && !shown(path).ends_with("main.rs"))
        .filter(|path| !shown(path).contains("/tests"))
        .filter(|path| !ALLOWED.iter().any(|(allowed, _)| *allowed == shown(path)))
        .flat_map(|path| {
            let code = code(&path);
            let found: Vec<String> =
                forbidden.find_iter(&code).map(|hit| format!("{}: {}", shown(&path), hit.as_str())).collect();
            found
        })
        .collect();
    none("I/O, clocks, randomness and async stand in run/ and a few named files only", offences);
}

#[test]
fn only_the_engine_names_kinds_of_kubernetes() {
    let kinds: Vec<&str> = holdfast_engine::apis::KINDS.iter().map(|kind| kind.kind).collect();
    // Gateway is also the word for what a fleet belongs to, Secret also a type of xDS.
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
