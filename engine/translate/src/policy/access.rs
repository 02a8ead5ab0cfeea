//! Fields that restrict access.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::kgateway::access::{
    Acl as WrittenAcl, ApiKeyAuth as WrittenKeys, BasicAuth as WrittenUsers, Rbac,
};
use holdfast_api::apis::kgateway::traffic_policy::TrafficSpec;
use holdfast_api::apis::kinds;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::acl::{AccessList, AccessListEntry, RANGES_MAX};
use holdfast_envoy::features::api_key_auth::{ApiKeySource, ApiKeys, KEYS_MAX, SOURCES_MAX};
use holdfast_envoy::features::basic_auth::BasicAuthUsers;
use holdfast_envoy::features::deny_response::DenyResponse;
use holdfast_envoy::features::filters::{Filter, Setting};
use holdfast_envoy::features::ip_filter::IpRange;
use holdfast_envoy::features::rbac::Conditions;

use super::reading::Reading;
use crate::precedence::settings::{ACL, Piece};

/// Default entry of a Secret that contains users.
const USERS_KEY: &str = ".htpasswd";
/// Default header that contains an API key.
const KEY_HEADER: &str = "api-key";
/// Default name of a rule.
const NAMELESS: &str = "rule";

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    if let Some(written) = &spec.acl
        && let Some(acl) = acl(written, reading)
    {
        reading.piece(ACL, Piece::Acl(acl));
    }
    if let Some(written) = &spec.basic_auth
        && let Some(setting) = basic_auth(written, reading)
    {
        reading.piece("basicAuth", Piece::Filters(vec![(Filter::BasicAuth, Arc::new(setting))]));
    }
    if let Some(written) = &spec.api_key_auth
        && let Some(setting) = api_key_auth(written, reading)
    {
        reading.piece("apiKeyAuth", Piece::Filters(vec![(Filter::ApiKeyAuth, Arc::new(setting))]));
    }
    if let Some(written) = &spec.rbac
        && let Some(setting) = rbac(written, reading)
    {
        reading.piece("rbac", Piece::Filters(vec![(Filter::Rbac, Arc::new(setting))]));
    }
}

fn acl(written: &WrittenAcl, reading: &mut Reading<'_, '_>) -> Option<AccessList> {
    let mut flaws = Vec::new();
    let mut acl = AccessList::default();
    if written.default_action.is_none() {
        flaws.push(Flaw::new("defaultAction", "must be set to allow or deny"));
    }
    let mut action = |field: String, text: &str| match text {
        "allow" => Some(true),
        "deny" => Some(false),
        other => {
            flaws.push(Flaw::new(field, format!("{other:?} is neither allow nor deny")));
            None
        }
    };
    acl.default_allow = written.default_action.as_deref().and_then(|text| action("defaultAction".into(), text));
    let mut ranges = Vec::new();
    for (index, rule) in written.rules.iter().flatten().enumerate() {
        let Some(allow) = action(format!("rules[{index}].action"), &rule.action) else { continue };
        let name = rule.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| NAMELESS.into());
        ranges.push((index, name, allow, &rule.cidrs));
    }
    for (index, name, allow, cidrs) in ranges {
        // A response header contains the name.
        let checked = holdfast_check::header::value(&name).err();
        flaws.extend(checked.map(|fault| Flaw::new(format!("rules[{index}].name"), fault)));
        if cidrs.is_empty() {
            flaws.push(Flaw::new(format!("rules[{index}].cidrs"), "must have at least one address range"));
        }
        for (place, text) in cidrs.iter().enumerate() {
            let field = format!("rules[{index}].cidrs[{place}]");
            let Some(range) = IpRange::read(false, text).filter(has_no_host_bits) else {
                flaws.push(Flaw::new(
                    field,
                    format!("{text:?} is neither an IP address nor a CIDR range without host bits"),
                ));
                continue;
            };
            let same = |known: &&AccessListEntry| (known.address, known.length) == (range.address, range.length);
            match acl.entries.iter().find(same) {
                Some(known) if known.allow == allow => {}
                Some(_) => flaws.push(Flaw::new(field, format!("{text} is allowed and denied"))),
                None => {
                    let (address, length) = (range.address, range.length);
                    acl.entries.push(AccessListEntry { name: name.clone(), address, length, allow });
                }
            }
        }
    }
    if acl.entries.len() > RANGES_MAX {
        flaws.push(Flaw::new("rules", format!("must have at most {RANGES_MAX} ranges")));
    }
    if let Some(response) = &written.deny_response {
        let headers = response.headers.as_ref();
        let headers = headers.map(|headers| headers.iter().map(|header| (&*header.name, &*header.value)));
        match DenyResponse::read(response.status_code, headers, response.blocked_by_header_name.as_deref()) {
            Ok(read) => acl.response = Some(read),
            Err(found) => flaws.extend(found.into_iter().map(|flaw| {
                let field = format!("denyResponse.{}", flaw.field);
                Flaw::new(field.trim_end_matches('.'), flaw.message)
            })),
        }
    }
    let usable = flaws.is_empty();
    reading.flaws(ACL, flaws);
    usable.then_some(acl)
}

/// Checks that the address is the first of its range. Otherwise the range is probably a mistake.
fn has_no_host_bits(range: &IpRange) -> bool {
    match range.address {
        std::net::IpAddr::V4(address) => u32::from(address).checked_shl(range.length.into()).unwrap_or(0) == 0,
        std::net::IpAddr::V6(address) => u128::from(address).checked_shl(range.length.into()).unwrap_or(0) == 0,
    }
}

fn basic_auth(written: &WrittenUsers, reading: &mut Reading<'_, '_>) -> Option<Setting> {
    let read = match (&written.users, &written.secret_ref, &written.disable) {
        (None, None, Some(_)) => return Some(Setting::Off),
        (Some(users), None, None) => {
            BasicAuthUsers::read(users.iter().map(|line| &**line)).map_err(|flaw| ("basicAuth.users", flaw))
        }
        (None, Some(reference), None) => {
            let field = "spec.basicAuth.secretRef";
            let secret = reading.secret(field, reference.namespace.as_deref(), &reference.name)?;
            let name = reference.key.as_deref().unwrap_or(USERS_KEY);
            let Some(content) = secret.data.get(name) else {
                let message = format!("Secret {} has no entry {name}", reference.name);
                reading.missing(field, "SecretEntryNotFound", message);
                return None;
            };
            let read = std::str::from_utf8(content).map_err(|_| Flaw::new("", "the content is not text"));
            let read = read.and_then(|text| BasicAuthUsers::read(text.lines()));
            read.map_err(|flaw| {
                let line = flaw.field.trim_matches(['[', ']']).parse::<usize>().ok();
                let line = line.map(|index| format!("line {}: ", index + 1)).unwrap_or_default();
                ("basicAuth.secretRef", Flaw::new("", format!("entry {name}: {line}{}", flaw.message)))
            })
        }
        _ => {
            reading.invalid("spec.basicAuth", "exactly one of users, secretRef and disable must be set");
            return None;
        }
    };
    match read {
        Ok(users) => Some(Setting::BasicAuth(users)),
        Err((field, flaw)) => {
            reading.flaws(field, [flaw]);
            None
        }
    }
}

fn rbac(written: &Rbac, reading: &mut Reading<'_, '_>) -> Option<Setting> {
    let deny = match written.action.as_deref() {
        None | Some("Allow") => Some(false),
        Some("Deny") => Some(true),
        Some(other) => {
            reading.invalid("spec.rbac.action", format!("{other:?} is neither Allow nor Deny"));
            None
        }
    };
    let texts = written.policy.match_expressions.iter().map(|text| &**text);
    match Conditions::read(deny.unwrap_or(false), texts, reading.regexes()) {
        Ok(conditions) => deny.map(|_| Setting::Rbac(conditions)),
        Err(flaws) => {
            reading.flaws("rbac.policy.matchExpressions", flaws);
            None
        }
    }
}

fn api_key_auth(written: &WrittenKeys, reading: &mut Reading<'_, '_>) -> Option<Setting> {
    let mut clients = BTreeMap::new();
    let mut usable = true;
    match (&written.secret_ref, &written.secret_selector, &written.disable) {
        (None, None, Some(_)) => return Some(Setting::Off),
        (Some(reference), None, None) => {
            let field = "spec.apiKeyAuth.secretRef";
            let core = reference.group.as_deref().unwrap_or_default().is_empty()
                && reference.kind.as_deref().unwrap_or(kinds::SECRET) == kinds::SECRET;
            if !core {
                reading.invalid(field, "must reference a Secret");
                return None;
            }
            let secret = reading.secret(field, reference.namespace.as_deref(), &reference.name)?;
            usable = keys(field, &secret.data, &mut clients, reading);
        }
        (None, Some(selector), None) => {
            let field = "spec.apiKeyAuth.secretSelector";
            if selector.match_labels.is_empty() {
                reading.invalid(field, "matchLabels must not be empty: it would select every Secret of the namespace");
                return None;
            }
            for (_, secret) in reading.secrets_by(&selector.match_labels) {
                usable &= keys(field, &secret.data, &mut clients, reading);
            }
        }
        _ => {
            reading.invalid("spec.apiKeyAuth", "exactly one of secretRef, secretSelector and disable must be set");
            return None;
        }
    }
    if !usable {
        return None;
    }
    if clients.is_empty() {
        reading.missing("spec.apiKeyAuth", "NoKeys", "there is no key, so that no request would be allowed");
        return None;
    }
    let sources = sources(written, reading)?;
    let client_header =
        match written.client_id_header.as_deref().map(holdfast_check::header::modifiable_name).transpose() {
            Ok(name) => name.map(Arc::from),
            Err(fault) => {
                reading.invalid("spec.apiKeyAuth.clientIdHeader", fault);
                return None;
            }
        };
    let hide = !written.forward_credential.unwrap_or(false);
    Some(Setting::ApiKeyAuth(ApiKeys { clients, sources, client_header, hide }))
}

/// Reads the keys of a Secret. Messages contain no part of a key.
fn keys(
    field: &str,
    data: &BTreeMap<String, bytes::Bytes>,
    clients: &mut BTreeMap<Arc<str>, Arc<str>>,
    reading: &mut Reading<'_, '_>,
) -> bool {
    let mut usable = true;
    for (client, content) in data {
        let key = std::str::from_utf8(content).ok().filter(|key| !key.is_empty() && !key.contains(char::is_control));
        let Some(key) = key else {
            reading.invalid(field, format!("entry {client}: a key must be one line of text, without a line break"));
            usable = false;
            continue;
        };
        if clients.insert(key.into(), client.as_str().into()).is_some() {
            reading.invalid(field, format!("entry {client}: another client has the same key"));
            usable = false;
        }
    }
    if clients.len() > KEYS_MAX {
        reading.invalid(field, format!("must have at most {KEYS_MAX} keys"));
        usable = false;
    }
    usable
}

fn sources(written: &WrittenKeys, reading: &mut Reading<'_, '_>) -> Option<Vec<ApiKeySource>> {
    let mut flaws = Vec::new();
    let written = written.key_sources.as_deref().unwrap_or_default();
    if written.is_empty() {
        return Some(vec![ApiKeySource { header: KEY_HEADER.into(), ..ApiKeySource::default() }]);
    }
    if written.len() > SOURCES_MAX {
        flaws.push(Flaw::new("", format!("must have at most {SOURCES_MAX} entries")));
    }
    let mut sources = Vec::new();
    for (index, source) in written.iter().enumerate().take(SOURCES_MAX) {
        let field = format!("[{index}]");
        let header = source.header.as_deref().map(holdfast_check::header::name).transpose();
        let header =
            header.map_err(|fault| flaws.push(Flaw::new(format!("{field}.header"), fault))).unwrap_or_default();
        for (below, text) in [("query", &source.query), ("cookie", &source.cookie)] {
            let checked = text.as_deref().map(holdfast_check::header::query_name).transpose();
            flaws.extend(checked.err().map(|fault| Flaw::new(format!("{field}.{below}"), fault)));
        }
        if source.header.is_none() && source.query.is_none() && source.cookie.is_none() {
            flaws.push(Flaw::new(field, "must name a header, a query parameter or a cookie"));
        }
        sources.push(ApiKeySource {
            header: header.as_deref().unwrap_or_default().into(),
            query: source.query.clone().unwrap_or_default(),
            cookie: source.cookie.clone().unwrap_or_default(),
        });
    }
    let usable = flaws.is_empty();
    reading.flaws("apiKeyAuth.keySources", flaws);
    usable.then_some(sources)
}
