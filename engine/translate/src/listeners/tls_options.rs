//! TLS options of a listener: versions, algorithms and ALPN protocols in the keys of kgateway.
//!
//! A value that cannot be used closes the listener: without it, the listener would accept connections that the author
//! excluded. Whether a value of the last valid version is used instead is decided by the fallback.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::gateway::tls_options::TlsOption;
use holdfast_api::fault::{Class, Fault};
use holdfast_check::tls::{self, TlsFault, TlsVersion};
use holdfast_envoy::features::server_tls::{LEAST, ServerTls};
use holdfast_graph::ObjectKey;

use crate::outcome::listener::{ListenerPlan, ListenerState, Traffic};

/// The value of the ALPN protocols that offers none.
const NO_ALPN: &str = "allow-empty";
/// The reason of an unusable value.
const UNSUPPORTED: &str = "UnsupportedValue";

/// Sets the TLS options of a listener, or closes the listener where a value cannot be used. `lent` has the values of the
/// last valid version that replace unusable ones.
pub(super) fn read(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    written: &BTreeMap<String, String>,
    lent: Option<&BTreeMap<TlsOption, String>>,
    faults: &mut Vec<Fault>,
) {
    let field = |key: &str| format!("{}.tls.options[{key}]", plan.field);
    let mut ignored = |key: &str, message: String| {
        faults.push(Fault::new(owner, Class::Ignored, field(key), "NotServed", message));
    };
    for key in written.keys().filter(|key| TlsOption::of(key).is_none()) {
        ignored(key, format!("the TLS option {key:?} has no effect: this version of Holdfast does not know it"));
    }
    let options = TlsOption::ALL.into_iter().filter_map(|option| Some((option, written.get(option.key())?.as_str())));
    if plan.traffic == Traffic::Passthrough {
        for (option, _) in options {
            let key = option.key();
            ignored(key, format!("{key} has no effect in mode Passthrough: the backend terminates TLS"));
        }
        return;
    }
    let mut settings = ServerTls::default();
    let mut unusable = unusable(&mut settings, options);
    if unusable.is_empty() {
        plan.tls = settings;
        return;
    }
    let repaired = repaired(settings, &unusable, lent);
    let now = match &repaired {
        _ if plan.state == ListenerState::Out => "the listener is not served for another reason",
        Some(_) => "until it is repaired, the listener has the value of its last valid version",
        None => "until it is repaired, connections to the listener are refused",
    };
    for (option, why) in &mut unusable {
        *why = format!("{why}; {now}");
        faults.push(Fault::new(owner, Class::Invalid, field(option.key()), UNSUPPORTED, why.clone()));
    }
    if let Some((option, why)) = unusable.first() {
        let state = if repaired.is_some() { plan.state } else { ListenerState::Closed };
        plan.reject_tls(state, UNSUPPORTED, &format!("{}: {why}", option.key()));
    }
    plan.tls = repaired.unwrap_or_default();
    plan.option_faults = unusable;
}

/// Sets all usable options. Returns the unusable ones, each with the reason.
fn unusable<'a>(
    settings: &mut ServerTls,
    options: impl Iterator<Item = (TlsOption, &'a str)>,
) -> Vec<(TlsOption, String)> {
    let mut wrong = Vec::new();
    for (option, value) in options {
        if let Err(why) = set(settings, option, value) {
            wrong.push((option, why));
        }
    }
    if wrong.is_empty()
        && let Some(why) = crossed(settings)
    {
        wrong.push((TlsOption::MaxVersion, why));
    }
    wrong
}

/// Returns the settings with the lent values of unusable options; `None` where one of them has none.
fn repaired(
    mut settings: ServerTls,
    unusable: &[(TlsOption, String)],
    lent: Option<&BTreeMap<TlsOption, String>>,
) -> Option<ServerTls> {
    for (option, _) in unusable {
        set(&mut settings, *option, lent?.get(option)?).ok()?;
    }
    crossed(&settings).is_none().then_some(settings)
}

fn set(settings: &mut ServerTls, option: TlsOption, value: &str) -> Result<(), String> {
    let text = |fault: TlsFault| fault.to_string();
    match option {
        TlsOption::MinVersion => settings.least = Some(tls::version(value).map_err(text)?),
        TlsOption::MaxVersion => settings.most = Some(tls::version(value).map_err(text)?),
        TlsOption::CipherSuites => settings.suites = tls::list(value, tls::suite).map_err(text)?,
        TlsOption::Curves => settings.curves = tls::list(value, tls::curve).map_err(text)?,
        TlsOption::SignatureAlgorithms => settings.signatures = tls::list(value, tls::signature).map_err(text)?,
        TlsOption::AlpnProtocols if value == NO_ALPN => settings.alpn = Some(Vec::new()),
        TlsOption::AlpnProtocols => {
            settings.alpn = Some(tls::alpn(value).map_err(text)?.into_iter().map(Arc::from).collect());
        }
        TlsOption::ClientNames | TlsOption::ClientHashes => {
            let instead =
                "limit clients by the certificate authorities of spec.tls.frontend of the Gateway, and remove it";
            return Err(format!("clients cannot be selected by {}: {instead}", option.key()));
        }
    }
    Ok(())
}

/// Returns why no version is allowed.
fn crossed(settings: &ServerTls) -> Option<String> {
    let least = settings.least.unwrap_or(LEAST);
    let most = settings.most.filter(|most| *most < least)?;
    let (least, most) = (number(least), number(most));
    let key = TlsOption::MinVersion.key();
    Some(format!("the highest version {most} is below the lowest, which is {least} ({key}, 1.2 where it is unset)"))
}

fn number(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::V10 => "1.0",
        TlsVersion::V11 => "1.1",
        TlsVersion::V12 => "1.2",
        TlsVersion::V13 => "1.3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(options: &[(TlsOption, &str)]) -> (ServerTls, Vec<TlsOption>) {
        let mut settings = ServerTls::default();
        let wrong = unusable(&mut settings, options.iter().copied());
        (settings, wrong.into_iter().map(|(option, _)| option).collect())
    }

    #[test]
    fn versions_that_cross() {
        let found = |least, most| wrong(&[(TlsOption::MinVersion, least), (TlsOption::MaxVersion, most)]).1;
        assert_eq!(found("1.2", "1.2"), []);
        assert_eq!(found("1.3", "1.2"), [TlsOption::MaxVersion]);
        assert_eq!(found("TLSv1.3", "1.2"), [TlsOption::MinVersion]);
        assert_eq!(wrong(&[(TlsOption::MaxVersion, "1.1")]).1, [TlsOption::MaxVersion]);
    }

    #[test]
    fn lent_values_replace_unusable_ones_only() {
        let (settings, faults) = wrong(&[(TlsOption::MinVersion, "1.3"), (TlsOption::Curves, "P-224")]);
        let faults: Vec<_> = faults.into_iter().map(|option| (option, String::new())).collect();
        assert_eq!(repaired(settings.clone(), &faults, None), None);
        let lent = BTreeMap::from([(TlsOption::MinVersion, "1.0".to_owned())]);
        assert_eq!(repaired(settings.clone(), &faults, Some(&lent)), None);
        let lent = BTreeMap::from([(TlsOption::MinVersion, "1.0".to_owned()), (TlsOption::Curves, "P-256".to_owned())]);
        let expected = ServerTls { curves: vec!["P-256"], ..ServerTls::versions(Some(TlsVersion::V13), None) };
        assert_eq!(repaired(settings, &faults, Some(&lent)), Some(expected));
    }

    #[test]
    fn lent_versions_that_cross_todays() {
        let (settings, _) = wrong(&[(TlsOption::MinVersion, "1.3"), (TlsOption::MaxVersion, "2")]);
        let faults = [(TlsOption::MaxVersion, String::new())];
        let lent = BTreeMap::from([(TlsOption::MaxVersion, "1.2".to_owned())]);
        assert_eq!(repaired(settings, &faults, Some(&lent)), None);
    }
}
