//! AWS Lambda functions of Backends, and the keys that sign their calls.

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::backend::{Aws, AwsAuth, Lambda, StaticHost};
use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme;
use holdfast_envoy::features::function::{CallKey, Function};
use holdfast_envoy::features::hosts::{Hosts, NamedHost};
use holdfast_graph::ObjectKey;

use super::notes::Notes;
use super::{Behalf, hosts};
use crate::reader::Reader;

/// The region where none is set.
const REGION: &str = "us-east-1";
/// The version of a function where none is set.
const NEWEST: &str = "$LATEST";
/// Limits in bytes: the name of a function, a version, a region, and an entry of the Secret.
const NAME_BYTES_MAX: usize = 140;
const VERSION_BYTES_MAX: usize = 128;
const REGION_BYTES_MAX: usize = 63;
const ENTRY_BYTES_MAX: usize = 4096;
/// Digits of an account number.
const ACCOUNT_DIGITS: usize = 12;
/// Why the proxy's own identity is never used.
const OWN_IDENTITY: &str = "without a Secret, functions would be called with the identity of the proxy, which serves \
                            other teams as well; set secretRef";
/// Why the proxy assumes no role.
const OWN_ROLES: &str = "the role would be assumed with the identity of the proxy, which serves other teams as well; \
                         set secretRef to a Secret with an access key";

/// Reads a function, and whether it is called over TLS.
pub(super) fn read(
    key: &ObjectKey,
    aws: &Aws,
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> Option<(Function, bool)> {
    let lambda = match (&aws.lambda, &aws.ec2) {
        (Some(lambda), None) => lambda,
        (None, Some(_)) => {
            let why = "instances are found with an API of AWS, which Holdfast does not query";
            notes.unsupported("spec.aws.ec2", why);
            return None;
        }
        _ => {
            notes.invalid("spec.aws", "exactly one of lambda and ec2 must be set");
            return None;
        }
    };
    let region = aws.region.as_deref().unwrap_or(REGION);
    let is_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text(region, REGION_BYTES_MAX, is_region, "spec.aws.region", notes);
    let arn = arn(aws, lambda, region, notes);
    let as_it_is = match lambda.payload_transform_mode.as_deref() {
        None | Some("Envoy") => false,
        Some("None") => true,
        Some(other) => {
            let message = format!("{other:?} is none of Envoy and None");
            notes.invalid("spec.aws.lambda.payloadTransformMode", message);
            false
        }
    };
    let asynchronous = match lambda.invocation_mode.as_deref() {
        None | Some("Sync") => false,
        Some("Async") => true,
        Some(other) => {
            notes.invalid("spec.aws.lambda.invocationMode", format!("{other:?} is none of Sync and Async"));
            false
        }
    };
    let loopback = reader.settings.allow_loopback_backends;
    let place = endpoint(lambda, region, loopback, notes);
    let signed = call_key(key, aws.auth.as_ref(), behalf, reader, notes);
    let ((host, authority, tls), (secret, call_key)) = (place?, signed?);
    let hosts = Hosts { owner: key.clone(), members: Vec::new(), groups: vec![vec![host]], loopback };
    let (authority, arn) = (authority.into(), arn.into());
    Some((Function { hosts, authority, arn, as_it_is, asynchronous, secret, key: call_key }, tls))
}

fn text(text: &str, max: usize, allowed: impl Fn(u8) -> bool, field: &str, notes: &mut Notes) {
    if text.is_empty() || text.len() > max || !text.bytes().all(allowed) {
        let message = format!(
            "{} is empty, longer than {max} bytes or has characters that are not allowed here",
            holdfast_check::Excerpt::new(text)
        );
        notes.invalid(field, message);
    }
}

fn arn(aws: &Aws, lambda: &Lambda, region: &str, notes: &mut Notes) -> String {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let name = &*lambda.function_name;
    text(name, NAME_BYTES_MAX, is_name, "spec.aws.lambda.functionName", notes);
    let version = lambda.qualifier.as_deref().unwrap_or(NEWEST);
    if version != NEWEST {
        text(version, VERSION_BYTES_MAX, is_name, "spec.aws.lambda.qualifier", notes);
    }
    let (field, account) = match (&lambda.account_id, &aws.account_id) {
        (Some(account), _) => ("spec.aws.lambda.accountId", &**account),
        (None, account) => ("spec.aws.accountId", account.as_deref().unwrap_or_default()),
    };
    if account.len() != ACCOUNT_DIGITS || !account.bytes().all(|byte| byte.is_ascii_digit()) {
        notes.invalid(field, format!("must be an AWS account ID of {ACCOUNT_DIGITS} digits"));
    }
    format!("arn:{}:lambda:{region}:{account}:function:{name}:{version}", partition(region).0)
}

/// Returns the AWS partition of a region, and the domain of its hosts.
fn partition(region: &str) -> (&'static str, &'static str) {
    match region {
        region if region.starts_with("cn-") => ("aws-cn", "amazonaws.com.cn"),
        region if region.starts_with("us-gov-") => ("aws-us-gov", "amazonaws.com"),
        _ => ("aws", "amazonaws.com"),
    }
}

/// Returns the endpoint of the function, the authority of its requests, and whether TLS is used.
fn endpoint(
    lambda: &Lambda,
    region: &str,
    loopback: bool,
    notes: &mut Notes,
) -> Option<((NamedHost, u16), String, bool)> {
    let field = "spec.aws.lambda.endpointURL";
    let Some(url) = &lambda.endpoint_url else {
        let host = format!("lambda.{region}.{}", partition(region).1);
        let written = StaticHost { host: host.as_str().into(), port: 443 };
        return Some((hosts::host("spec.aws.region", &written, loopback, notes)?, host, true));
    };
    let parts = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => Some((rest, true)),
        (None, Some(rest)) => Some((rest, false)),
        (None, None) => None,
    };
    let Some((rest, tls)) = parts else {
        notes.invalid(field, "must begin with https:// or http://");
        return None;
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<i64>().ok()),
        None => (authority, Some(if tls { 443 } else { 80 })),
    };
    let (Some(port), false) = (port, authority.contains(['/', '?', '#', '@'])) else {
        notes.invalid(field, "must be a URL with a host and an optional port, without a path");
        return None;
    };
    let host = hosts::host(field, &StaticHost { host: host.into(), port }, loopback, notes)?;
    Some((host, authority.to_owned(), tls))
}

/// Returns the key that signs calls of the function.
fn call_key(
    key: &ObjectKey,
    auth: Option<&AwsAuth>,
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> Option<(ObjectKey, CallKey)> {
    let Some(auth) = auth else {
        notes.unsupported("spec.aws.auth", OWN_IDENTITY);
        return None;
    };
    if auth.assume_role.is_some() || auth.kind.as_deref() == Some("AssumeRole") {
        notes.unsupported("spec.aws.auth.assumeRole", OWN_ROLES);
        return None;
    }
    let (Some(kinds::SECRET), Some(reference)) = (auth.kind.as_deref(), &auth.secret_ref) else {
        notes.invalid("spec.aws.auth", "type must be Secret, and secretRef must be set");
        return None;
    };
    let field = "spec.aws.auth.secretRef";
    let secret = scheme::secret_key(&key.namespace, &reference.name);
    reader.edge(behalf.key, behalf.section, &secret, behalf.role);
    // Keys are never read from an earlier version.
    let Some(Body::Secret(found)) = reader.current(&secret).map(|object| &object.body) else {
        let message = format!("Secret {} {}", secret.namespaced_name(), reader.lacking(&secret));
        notes.lacks(field, "SecretNotFound", &secret, message);
        return None;
    };
    let data = &found.data;
    let mut entry = |name: &str, needed: bool| {
        let text = match data.get(name).map(|bytes| std::str::from_utf8(bytes)) {
            None if !needed => return Some(""),
            None => None,
            Some(text) => text.ok(),
        };
        // Whitespace at the ends comes from editors.
        let text = text.map(str::trim_ascii);
        let usable = |text: &&str| {
            !text.is_empty() && text.len() <= ENTRY_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let text = text.filter(usable);
        if text.is_none() {
            let message = format!(
                "Secret {} has no usable entry {name}: its value must be visible ASCII characters without spaces",
                secret.namespaced_name()
            );
            notes.missing(field, "SecretEntryNotFound", message);
        }
        text
    };
    let parts = (entry("accessKey", true), entry("secretKey", true), entry("sessionToken", false));
    let call_key = CallKey { id: parts.0?.into(), secret: parts.1?.into(), token: parts.2?.into() };
    Some((secret, call_key))
}
