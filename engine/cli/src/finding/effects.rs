//! What clients get instead of the desired version, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_engine::health::Severity;
use holdfast_engine::health::view::{Gets, ServedInstead};

use super::{ShownLimits, listed, name, plain};

/// What clients receive of objects, with the names of the objects if there are several. An object that several listeners
/// do not serve is described once.
pub(crate) fn described(all: &[&ServedInstead], several: bool, limits: ShownLimits) -> Vec<String> {
    let mut at: BTreeMap<(ServedInstead, bool), Vec<&str>> = BTreeMap::new();
    for served in all {
        let everywhere = ServedInstead { listener: None, ..(*served).clone() };
        at.entry((everywhere, served.listener.is_some())).or_default().extend(served.listener.as_deref());
    }
    let described = at.iter().map(|((served, _), listeners)| {
        let of = if several { format!("{}: ", name(&served.object)) } else { String::new() };
        let gets =
            if listeners.is_empty() { gets(served, limits) } else { at_some_listeners(served, listeners, limits) };
        format!("{of}{gets}")
    });
    described.collect()
}

/// What clients receive, with the affected requests.
fn gets(served: &ServedInstead, limits: ShownLimits) -> String {
    let section = section(served);
    let what = match &served.gets {
        Gets::Status { status } => format!("{section} answers {status}"),
        Gets::Share { status } => format!("a share of the requests to {section} gets status {status}"),
        Gets::Refused if is_of_datagrams(served) => format!("datagrams to {section} are dropped"),
        Gets::RefusedShare if is_of_datagrams(served) => format!("a share of the datagrams to {section} is dropped"),
        Gets::Refused => format!("connections to {section} are refused"),
        Gets::RefusedShare => format!("a share of the connections to {section} is closed"),
        Gets::Untrusted | Gets::UntrustedWithoutEcdsa => untrusted(&served.gets, &section),
        Gets::NoResponse => format!("requests to {section} get no response"),
        Gets::PortInUse => format!("connections to {section} reach the process or Gateway that uses its port"),
        Gets::AnotherListener => answered_elsewhere(&section),
        Gets::Nothing if served.section.is_empty() => "left out".to_owned(),
        Gets::LeftOut if served.section.starts_with("metadata.") => format!("{section} has no effect"),
        Gets::Nothing | Gets::LeftOut => format!("{section} left out"),
        Gets::LastValid { generation, since, except } if served.section.is_empty() => {
            let except: Vec<String> = except.iter().map(|section| plain(section)).collect();
            let except = match except.is_empty() {
                true => String::new(),
                false => format!(", except for the desired {}", except.join(", ")),
            };
            format!("generation {generation} is served, last valid since {since}{except}")
        }
        Gets::LastValid { generation, since, .. } => {
            format!("{section} of generation {generation} is served, last valid since {since}")
        }
        Gets::LastValidOf { of, generation, since, expires } => {
            let of = name(of);
            let expires = expires.map(|at| format!("; its certificate expires at {at}")).unwrap_or_default();
            format!("{section} is served with generation {generation} of {of}, last valid since {since}{expires}")
        }
        Gets::AsBefore => "the last acknowledged configuration stays".to_owned(),
        Gets::ReadLast => "the version that was read last is served".to_owned(),
    };
    // A part that is served completely needs no list of requests.
    if served.gets.severity() != Severity::Outage || served.hosts.is_empty() {
        return what;
    }
    let hosts = hosts(&served.hosts, limits);
    let paths = listed(served.paths.iter().map(|path| &**path), limits);
    if paths.is_empty() { format!("{what}: {hosts}") } else { format!("{what}: {hosts} {paths}") }
}

/// Whether the object forwards datagrams.
fn is_of_datagrams(served: &ServedInstead) -> bool {
    *served.object.kind == *kinds::UDP_ROUTE
}

/// The part of an object.
fn section(served: &ServedInstead) -> String {
    match (&*served.section, served.generation) {
        ("", _) => "it".to_owned(),
        (section, Some(generation)) => format!("{} of generation {generation}", plain(section)),
        (section, None) => plain(section),
    }
}

/// What clients receive at the listeners that do not serve an object, while others do; with the hosts of the listeners.
fn at_some_listeners(served: &ServedInstead, listeners: &[&str], limits: ShownLimits) -> String {
    let section = section(served);
    let what = match served.gets {
        Gets::Untrusted | Gets::UntrustedWithoutEcdsa => untrusted(&served.gets, &section),
        Gets::Status { status } => format!("{section} answers {status}"),
        Gets::AnotherListener => answered_elsewhere(&section),
        _ if served.section.is_empty() => "not served".to_owned(),
        _ => format!("{section} is not served"),
    };
    let hosts = match served.hosts.is_empty() {
        true => String::new(),
        false => format!(" ({})", hosts(&served.hosts, limits)),
    };
    let several = if listeners.len() > 1 { "s" } else { "" };
    let listeners = listed(listeners.iter().copied(), limits);
    format!("{what} at listener{several} {listeners}{hosts}; other listeners serve it")
}

/// Which clients refuse a certificate.
fn untrusted(gets: &Gets, section: &str) -> String {
    let which = if *gets == Gets::Untrusted { "" } else { " and support no ECDSA" };
    format!("clients that verify certificates{which} refuse connections to {section}")
}

fn answered_elsewhere(section: &str) -> String {
    format!("another listener of the port answers the requests to {section}")
}

fn hosts(hosts: &BTreeSet<Arc<str>>, limits: ShownLimits) -> String {
    listed(hosts.iter().map(|host| if &**host == "*" { "any host" } else { host }), limits)
}
