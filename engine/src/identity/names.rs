//! Names of a Gateway in certificates and tokens.

use std::sync::Arc;

/// Default trust domain of certificates.
pub const TRUST_DOMAIN: &str = "holdfast.dev";
/// Suffix of the names of Gateways' ServiceAccounts.
const ACCOUNT_SUFFIX: &str = "-holdfast";
/// Maximum length of a name or namespace, in bytes; the limit of Kubernetes.
const IDENTITY_NAME_BYTES_MAX: usize = 253;

/// Returns the URI in the certificates of a Gateway's Envoys.
pub fn gateway_uri(trust_domain: &str, namespace: &str, name: &str) -> String {
    format!("spiffe://{trust_domain}/gateway/{namespace}/{name}")
}

/// Returns `namespace/name` of the Gateway with this URI.
pub(super) fn gateway_of_uri(uri: &str, trust_domain: &str) -> Option<Arc<str>> {
    let path = uri.strip_prefix("spiffe://")?.strip_prefix(trust_domain)?.strip_prefix("/gateway/")?;
    let (namespace, name) = path.split_once('/')?;
    gateway(namespace, name)
}

/// Returns the name of the ServiceAccount of a Gateway's Envoys, in the Gateway's namespace.
///
/// Names of ServiceAccounts may be long and may contain dots, so this name contains the Gateway's name unchanged.
/// `None` if the name would be too long: a shortened or changed name does not identify a Gateway.
pub fn service_account(gateway: &str) -> Option<String> {
    let name = format!("{gateway}{ACCOUNT_SUFFIX}");
    (!gateway.is_empty() && is_name(&name)).then_some(name)
}

/// Returns `namespace/name` of the Gateway with this ServiceAccount.
pub(super) fn gateway_of_service_account(namespace: &str, account: &str) -> Option<Arc<str>> {
    let name = account.strip_suffix(ACCOUNT_SUFFIX)?;
    if service_account(name)? == account { gateway(namespace, name) } else { None }
}

fn gateway(namespace: &str, name: &str) -> Option<Arc<str>> {
    (is_name(namespace) && is_name(name)).then(|| format!("{namespace}/{name}").into())
}

/// Checks that a name has the form of a Kubernetes name, so that it contains no separator.
fn is_name(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    (1..=IDENTITY_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_legal)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use holdfast_graph::ObjectKey;

    use super::*;

    #[test]
    fn the_service_account_is_the_one_of_the_data_plane() {
        let account =
            |name: &str| holdfast_translate::provision::names::account(&ObjectKey::new("g", "Gateway", "infra", name));
        for name in ["1.st", "public", "public.web", "a-holdfast", &"a".repeat(244)] {
            assert_eq!(service_account(name), Some(account(name)), "{name}");
        }
        assert_eq!((account("1.st"), account("public")), ("1.st-holdfast".into(), "public-holdfast".into()));
    }

    #[test]
    fn a_gateway_is_found_by_the_names_that_are_made_of_it() {
        let uri = gateway_uri(TRUST_DOMAIN, "infra", "public.web");
        assert_eq!(uri, "spiffe://holdfast.dev/gateway/infra/public.web");
        assert_eq!(gateway_of_uri(&uri, TRUST_DOMAIN).as_deref(), Some("infra/public.web"));
        let account = service_account("public").unwrap();
        assert_eq!(account, "public-holdfast");
        assert_eq!(gateway_of_service_account("infra", &account).as_deref(), Some("infra/public"));
        for name in ["public.web", "1st", "a-holdfast", &"x".repeat(244)] {
            let account = service_account(name).unwrap();
            let found = gateway_of_service_account("infra", &account);
            assert_eq!(found.as_deref(), Some(&*format!("infra/{name}")), "{account}");
        }
        for odd in [&"x".repeat(245), "", "Public", "a/b", "a_b"] {
            assert_eq!(service_account(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_is_almost_a_gateway_is_none() {
        for uri in [
            "",
            "spiffe://holdfast.dev/gateway/infra",
            "spiffe://holdfast.dev/gateway/infra/",
            "spiffe://holdfast.dev/gateway//public",
            "spiffe://holdfast.dev/gateway/infra/public/more",
            "spiffe://holdfast.dev/gateway/infra/public?x",
            "spiffe://holdfast.dev/gateway/infra/%70ublic",
            "spiffe://holdfast.dev/gateway/infra/Public",
            "spiffe://holdfast.dev.evil/gateway/infra/public",
            "spiffe://evil/holdfast.dev/gateway/infra/public",
            "SPIFFE://holdfast.dev/gateway/infra/public",
            "https://holdfast.dev/gateway/infra/public",
            "spiffe://holdfast.dev/ns/infra/sa/public",
        ] {
            assert_eq!(gateway_of_uri(uri, TRUST_DOMAIN), None, "{uri}");
        }
        for (namespace, account) in
            [("infra", "public"), ("infra", "-holdfast"), ("", "public-holdfast"), ("a/b", "public-holdfast")]
        {
            assert_eq!(gateway_of_service_account(namespace, account), None, "{namespace}/{account}");
        }
    }
}
