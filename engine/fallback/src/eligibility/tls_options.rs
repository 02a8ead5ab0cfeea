//! Values of TLS options that the last valid version of a listener lends to its desired version.
//!
//! A lent value never allows more than today's value: what cannot be read of it may be as strict as possible.

use std::collections::BTreeMap;

use holdfast_api::apis::gateway::tls_options::{LentOption, TlsOption};
use holdfast_check::tls::{self, TlsFault, TlsVersion};

/// Returns the lent values of unusable options. `desired` and `earlier` are the options of both versions.
pub(crate) fn lent(
    unusable: impl Iterator<Item = TlsOption>,
    desired: &BTreeMap<String, String>,
    earlier: &BTreeMap<String, String>,
) -> BTreeMap<TlsOption, String> {
    let value = |option: TlsOption| {
        let (desired, earlier) = (desired.get(option.key())?, earlier.get(option.key())?);
        Some((option, may_have(option, desired, earlier)?))
    };
    unusable.filter_map(value).collect()
}

/// Returns what a listener may use of an earlier value.
fn may_have(option: TlsOption, desired: &str, earlier: &str) -> Option<String> {
    match option.lent().0 {
        LentOption::Any => Some(earlier.to_owned()),
        LentOption::Strictest => (tls::version(earlier) == Ok(TlsVersion::V13)).then(|| earlier.to_owned()),
        LentOption::Common => common(desired, earlier, name_of(option)?),
        LentOption::Never => None,
    }
}

type ReadName = fn(&str) -> Result<&'static str, TlsFault>;

/// Returns the reader of one entry of a list.
fn name_of(option: TlsOption) -> Option<ReadName> {
    match option {
        TlsOption::CipherSuites => Some(tls::suite),
        TlsOption::Curves => Some(tls::curve),
        TlsOption::SignatureAlgorithms => Some(tls::signature),
        TlsOption::MinVersion
        | TlsOption::MaxVersion
        | TlsOption::AlpnProtocols
        | TlsOption::ClientNames
        | TlsOption::ClientHashes => None,
    }
}

/// Returns the entries that both lists have, in today's order; `None` where there is none.
fn common(desired: &str, earlier: &str, read: ReadName) -> Option<String> {
    let earlier = tls::list(earlier, read).ok()?;
    let names = tls::usable_entries(desired, read).into_iter().filter(|name| earlier.contains(name));
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_allows_more_than_todays() {
        let suites = TlsOption::CipherSuites;
        let a_and_b = "AES128-SHA,AES256-SHA";
        assert_eq!(may_have(suites, "AES256-SHA,AES128-SHAH", a_and_b).as_deref(), Some("AES256-SHA"));
        assert_eq!(may_have(suites, "TLS_RSA_WITH_AES_256_CBC_SHA,X", a_and_b).as_deref(), Some("AES256-SHA"));
        assert_eq!(may_have(suites, "AES128-GCM-SHA256,X", a_and_b), None);
        assert_eq!(may_have(suites, "", a_and_b), None);
        assert_eq!(may_have(TlsOption::MinVersion, "1.4", "1.2"), None);
        assert_eq!(may_have(TlsOption::MinVersion, "1.4", "1.3").as_deref(), Some("1.3"));
        assert_eq!(may_have(TlsOption::MaxVersion, "1.4", "1.2").as_deref(), Some("1.2"));
        assert_eq!(may_have(TlsOption::AlpnProtocols, "h2,,", "h2").as_deref(), Some("h2"));
        assert_eq!(may_have(TlsOption::ClientNames, "a.example", "a.example"), None);
    }

    #[test]
    fn only_unusable_options_that_both_versions_have() {
        let options = |pairs: &[(TlsOption, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(option, value)| (option.key().to_owned(), (*value).to_owned())).collect()
        };
        let desired = options(&[(TlsOption::MinVersion, "x"), (TlsOption::Curves, "x,P-256")]);
        let earlier = options(&[(TlsOption::MinVersion, "1.3"), (TlsOption::AlpnProtocols, "h2")]);
        let found = lent([TlsOption::MinVersion, TlsOption::Curves].into_iter(), &desired, &earlier);
        assert_eq!(found, BTreeMap::from([(TlsOption::MinVersion, "1.3".to_owned())]));
    }
}
