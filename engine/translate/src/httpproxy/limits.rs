//! Global rate limits: descriptors of requests, and the rate limit service.

use std::sync::Arc;

use holdfast_api::apis::contour::guard::{GlobalRateLimitPolicy, RateLimitEntry};
use holdfast_api::fault::Class;
use holdfast_api::settings::Settings;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::call_options::CallOptions;
use holdfast_envoy::features::rate_limit::{CounterDescriptor, CounterEntry, GlobalLimit, RateLimitService};
use holdfast_envoy::features::remote::Remote;
use holdfast_graph::{ObjectKey, Role};

use super::extension;
use super::timeouts::Limit;
use crate::httpproxy::conditions;
use crate::reader::Reader;

/// Name of the filter.
const FILTER: &str = "rate_limit";

/// Why a global rate limit cannot be enforced.
pub(super) struct LimitFault {
    pub(super) class: Class,
    pub(super) message: String,
    /// The ExtensionService at fault, if it is not the HTTPProxy.
    pub(super) cause: Option<ObjectKey>,
}

/// Reads the descriptors of requests; `None` if rate limiting is disabled.
pub(super) fn read(
    owner: &ObjectKey,
    section: &str,
    written: &GlobalRateLimitPolicy,
    regexes: &Regexes,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Result<Option<GlobalLimit>, LimitFault> {
    let invalid = |message: String| LimitFault { class: Class::Invalid, message, cause: None };
    let descriptors = written.descriptors.as_deref().unwrap_or_default();
    if written.disabled == Some(true) && descriptors.is_empty() {
        return Ok(None);
    }
    let descriptor =
        |descriptor: &holdfast_api::apis::contour::guard::RateLimitDescriptor| -> Result<CounterDescriptor, String> {
            descriptor.entries.as_deref().unwrap_or_default().iter().map(|written| entry(written, regexes)).collect()
        };
    let descriptors = descriptors.iter().map(descriptor).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    if descriptors.is_empty() {
        return Err(invalid("descriptors is empty, so that no request would be counted".into()));
    }
    let service = service(owner, section, settings, reader)?;
    let limit = GlobalLimit { service, descriptors };
    match limit.check().into_iter().next() {
        Some(flaw) => Err(invalid(format!("{}: {}", flaw.field, flaw.message))),
        None => Ok(Some(limit)),
    }
}

fn entry(written: &RateLimitEntry, regexes: &Regexes) -> Result<CounterEntry, String> {
    let RateLimitEntry { generic_key, request_header, request_header_value_match, remote_address } = written;
    let text = |text: &Option<Arc<str>>| text.clone().unwrap_or_else(|| "".into());
    match (generic_key, request_header, request_header_value_match, remote_address) {
        (Some(generic), None, None, None) => {
            let key = generic.key.clone().filter(|key| !key.is_empty());
            Ok(CounterEntry::Generic { key, value: text(&generic.value) })
        }
        (None, Some(header), None, None) => {
            Ok(CounterEntry::Header { name: text(&header.header_name), key: text(&header.descriptor_key) })
        }
        (None, None, Some(matched), None) => {
            let headers = matched.headers.as_deref().unwrap_or_default();
            let headers = conditions::read_headers(headers, regexes)?;
            let expect = matched.expect_match.unwrap_or(true);
            Ok(CounterEntry::HeaderMatch { headers, expect, value: text(&matched.value) })
        }
        (None, None, None, Some(_)) => Ok(CounterEntry::RemoteAddress),
        _ => Err("rate limit descriptor entry must have exactly one field set".into()),
    }
}

/// Returns the rate limit service from the settings of the operator. Without the service, no limit would be enforced.
fn service(
    owner: &ObjectKey,
    section: &str,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Result<Arc<RateLimitService>, LimitFault> {
    let Some(set) = &settings.proxies.rate_limit else {
        let message = "there is no rate limit service: set --rate-limit-service";
        return Err(LimitFault { class: Class::Referential, message: message.into(), cause: None });
    };
    reader.edge(owner, section, &set.service, Role::Requires);
    let (group, response) = extension::resolve(&set.service, reader).map_err(|why| {
        let message = format!("rate limit service: extension service {:?} {why}", set.service.namespaced_name());
        LimitFault { class: Class::Referential, message, cause: Some(set.service.clone()) }
    })?;
    let timeout = match response {
        Limit::After(limit) => limit,
        Limit::Default | Limit::Off => set.timeout,
    };
    Ok(Arc::new(RateLimitService {
        name: FILTER.into(),
        owners: vec![set.service.clone()],
        remote: Remote::Group(group),
        call_options: CallOptions::default(),
        domain: set.domain.clone(),
        timeout,
        fail_open: set.fail_open,
        quota_headers: set.quota_headers,
        resource_exhausted: set.resource_exhausted,
    }))
}
