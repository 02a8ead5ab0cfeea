//! Cookie rewriting: parsing and validation of the rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::contour::route::CookieRewritePolicy;
use holdfast_check::host;
use holdfast_envoy::features::cookies::{CookieRewrite, RULES_MAX};

use super::action::{Context, RouteFailure};

/// Maximum length of a cookie's name, and of a path, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Characters that a cookie's name must not contain, besides blanks and control characters.
const SEPARATORS: &str = "()<>@,;:\\\"/[]?={}";

/// Reads the rules of a route (`on` is `route`) or of one of its Services (`service`).
pub(super) fn read(
    context: &mut Context<'_, '_>,
    policies: Option<&[CookieRewritePolicy]>,
    field: &str,
    on: &str,
) -> Result<Vec<CookieRewrite>, RouteFailure> {
    let policies = policies.unwrap_or_default();
    rules(policies).map_err(|why| {
        let message = format!("{why} on {on} cookie rewrite rules");
        let (kind, reason) = ("RouteError", "CookieRewritePoliciesInvalid");
        // If the rules make cookies safer, the route is not served without them.
        match policies.iter().any(|policy| policy.secure == Some(true) || policy.same_site.is_some()) {
            true => context.guarded(field, kind, reason, &message),
            false => context.invalid(field, kind, reason, message),
        }
    })
}

fn rules(policies: &[CookieRewritePolicy]) -> Result<Vec<CookieRewrite>, String> {
    if policies.len() > RULES_MAX {
        return Err(format!("more than {RULES_MAX} cookie rewrite rules"));
    }
    let mut names = BTreeSet::new();
    policies
        .iter()
        .map(|policy| {
            let name = &policy.name;
            if !names.insert(name) {
                return Err(format!("duplicate cookie rewrite rule for cookie {name:?}"));
            }
            rule(policy)
        })
        .collect()
}

fn rule(policy: &CookieRewritePolicy) -> Result<CookieRewrite, String> {
    let name = &policy.name;
    let is_name = |c: char| c.is_ascii_graphic() && !SEPARATORS.contains(c);
    if name.is_empty() || name.len() > TEXT_BYTES_MAX || !name.chars().all(is_name) {
        return Err(format!("invalid name of cookie {name:?}"));
    }
    let path = policy.path_rewrite.as_ref().map(|path| path.value.clone());
    let is_path = |path: &Arc<str>| {
        let legal = |b: u8| (b' '..=b'~').contains(&b) && b != b';';
        !path.is_empty() && path.len() <= TEXT_BYTES_MAX && path.bytes().all(legal)
    };
    if let Some(wrong) = path.as_ref().filter(|path| !is_path(path)) {
        return Err(format!("invalid path {wrong:?} for cookie {name:?}"));
    }
    let domain = policy.domain_rewrite.as_ref().map(|domain| domain.value.clone());
    if let Some(wrong) = domain.as_ref().filter(|domain| host::precise_hostname(domain).is_err()) {
        return Err(format!("invalid domain {wrong:?} for cookie {name:?}"));
    }
    let same_site = policy.same_site.clone();
    if let Some(wrong) = same_site.as_deref().filter(|same| !matches!(*same, "Strict" | "Lax" | "None")) {
        return Err(format!("sameSite {wrong:?} of cookie {name:?} is none of Strict, Lax and None"));
    }
    if path.is_none() && domain.is_none() && policy.secure.is_none() && same_site.is_none() {
        return Err(format!("no attributes rewritten for cookie {name:?}"));
    }
    Ok(CookieRewrite { name: name.clone(), path, domain, secure: policy.secure, same_site })
}
