//! Resources as JSON, for operators: proto JSON with `Any` expanded, keys in order, secrets left out.
//!
//! For diagnostics only. Served resources never pass through this module.

use std::sync::OnceLock;

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::ResourceType;
use crate::credentials::{is_credential, is_credential_header, may_hold};

/// The descriptors of the Envoy API; `types.bin.md` describes their source.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("types.bin");

/// The filter with headers with secret values as settings, which are not shown.
pub const SECRET_SETTINGS: &str = "holdfast.dev/secret-headers";

/// Replacement for a secret.
const REDACTED: &str = "[redacted]";

/// Fields with secrets that the API does not mark as sensitive.
const ALSO_SENSITIVE: [&str; 6] =
    ["privateKey", "privateKeyProvider", "password", "pkcs12", "secretAccessKey", "sessionToken"];

/// The end of an encoded `Any` of a `FilterConfig` with an empty `config`.
const TAKES_PART: &[u8] = b"envoy.config.route.v3.FilterConfig\x12\x02\x0a\x00";
/// The tag of `FilterConfig.is_optional`.
const IS_OPTIONAL_TAG: u8 = 0x10;

/// Returns a resource as JSON: equal bytes give equal text.
///
/// All fields that the API marks as sensitive, private keys, passwords, the values of headers that carry credentials
/// and, in a Secret, every inline value become `[redacted]`. Bytes that do not decode become `{"undecodable":
/// "<why>"}`.
pub fn to_json(kind: ResourceType, body: &[u8]) -> Value {
    decode(kind, body).unwrap_or_else(|error| {
        let mut object = Map::new();
        object.insert("undecodable".to_owned(), Value::String(error));
        Value::Object(object)
    })
}

/// Returns whether a resource has anything that [`to_json`] leaves out. A resource that does not decode counts as
/// sensitive.
pub(crate) fn is_sensitive_resource(kind: ResourceType, body: &[u8]) -> bool {
    if !may_hold(body) {
        return false;
    }
    let Ok((descriptor, mut shown)) = message_of(kind, body) else { return true };
    hide_placeholders(&mut shown);
    let mut redacted = shown.clone();
    redact(&descriptor, &mut redacted, kind == ResourceType::Secret);
    redacted != shown
}

fn decode(kind: ResourceType, body: &[u8]) -> Result<Value, String> {
    let (descriptor, mut value) = message_of(kind, body)?;
    redact(&descriptor, &mut value, kind == ResourceType::Secret);
    redact_conditions(&mut value);
    Ok(value)
}

/// Redacts what requests are compared with and may be a credential: the value of a query parameter with such a name, and
/// the other texts of an expression that names a header with a credential. A resource with them is no secret itself.
fn redact_conditions(value: &mut Value) {
    match value {
        Value::Object(fields) if fields.contains_key("callExpr") && texts(fields).any(is_credential_header) => {
            fields.values_mut().for_each(redact_texts);
        }
        Value::Object(fields) => {
            let is_named = fields.get("name").and_then(Value::as_str).is_some_and(is_credential_header);
            if let Some(value) = fields.get_mut("stringMatch").filter(|_| is_named) {
                redact_whole(value);
            }
            fields.values_mut().for_each(redact_conditions);
        }
        Value::Array(values) => values.iter_mut().for_each(redact_conditions),
        _ => {}
    }
}

/// Returns the texts of an expression.
fn texts(fields: &Map<String, Value>) -> Box<dyn Iterator<Item = &str> + '_> {
    Box::new(fields.iter().flat_map(|(name, value)| -> Box<dyn Iterator<Item = &str> + '_> {
        match value {
            Value::String(text) if name == "stringValue" => Box::new(std::iter::once(&**text)),
            Value::Object(fields) => texts(fields),
            Value::Array(values) => Box::new(values.iter().filter_map(Value::as_object).flat_map(texts)),
            _ => Box::new(std::iter::empty()),
        }
    }))
}

/// Redacts the texts of an expression, except for names of headers with a credential.
fn redact_texts(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "stringValue" => {
                        if !is_credential_header(text) {
                            REDACTED.clone_into(text);
                        }
                    }
                    value => redact_texts(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact_texts),
        _ => {}
    }
}

/// Hides placeholder values, which are not secret themselves: a basic auth filter without users has a comment instead.
fn hide_placeholders(value: &mut Value) {
    match value {
        Value::Object(object) => object.values_mut().for_each(hide_placeholders),
        Value::Array(values) => values.iter_mut().for_each(hide_placeholders),
        Value::String(text) if text.is_empty() || text == "#" => REDACTED.clone_into(text),
        _ => {}
    }
}

/// Returns a resource without redaction, with its descriptor.
fn message_of(kind: ResourceType, body: &[u8]) -> Result<(MessageDescriptor, Value), String> {
    let descriptor = message(kind.url()).ok_or("the descriptors of the Envoy API lack this type")?;
    let body = without_empty_any(body);
    let message = DynamicMessage::decode(descriptor.clone(), &*body).map_err(|error| error.to_string())?;
    let value = serde_json::to_value(&message).map_err(|error| error.to_string())?;
    Ok((descriptor, value))
}

/// Replaces an `Any` without a type, which JSON cannot represent and which Envoy takes for "this filter is enabled", by
/// a field of the same length without a meaning.
fn without_empty_any(body: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let mut patched = std::borrow::Cow::Borrowed(body);
    let mut from = 0;
    while let Some(at) =
        body.get(from..).and_then(|rest| rest.windows(TAKES_PART.len()).position(|at| at == TAKES_PART))
    {
        let end = from + at + TAKES_PART.len();
        if let Some(field) = patched.to_mut().get_mut(end - 2) {
            *field = IS_OPTIONAL_TAG;
        }
        from = end;
    }
    patched
}

fn pool() -> Option<&'static DescriptorPool> {
    static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();
    POOL.get_or_init(|| DescriptorPool::decode(DESCRIPTORS).ok()).as_ref()
}

fn message(url: &str) -> Option<MessageDescriptor> {
    pool()?.get_message_by_name(url.rsplit('/').next()?)
}

/// Walks a message with its descriptor and redacts its secrets.
fn redact(descriptor: &MessageDescriptor, value: &mut Value, inline: bool) {
    let Value::Object(object) = value else { return };
    // An `Any` has its type beside its fields.
    let expanded = object.get("@type").and_then(Value::as_str).and_then(message);
    let descriptor = expanded.as_ref().unwrap_or(descriptor);
    redact_header(descriptor, object);
    for (key, value) in object.iter_mut() {
        let Some(field) = descriptor.get_field_by_json_name(key) else { continue };
        if (inline && matches!(key.as_str(), "inlineBytes" | "inlineString")) || is_sensitive(&field) {
            redact_whole(value);
        } else {
            redact_field(&field, value, inline);
        }
    }
}

/// Redacts the value of a header that carries a credential, in a header to set or a header to compare.
fn redact_header(descriptor: &MessageDescriptor, header: &mut Map<String, Value>) {
    let text = |header: &Map<String, Value>, field: &str| header.get(field).and_then(Value::as_str).map(str::to_owned);
    match descriptor.full_name() {
        "envoy.config.core.v3.HeaderValue" => {
            let name = text(header, "key").unwrap_or_default();
            let carries = text(header, "value").is_some_and(|value| is_credential(&name, &value));
            if carries && let Some(value) = header.get_mut("value") {
                redact_whole(value);
            }
            if is_credential_header(&name)
                && let Some(value) = header.get_mut("rawValue")
            {
                redact_whole(value);
            }
        }
        "envoy.config.route.v3.HeaderMatcher"
            if text(header, "name").is_some_and(|name| is_credential_header(&name)) =>
        {
            if let Some(value) = header.get_mut("stringMatch") {
                redact_whole(value);
            }
        }
        _ => {}
    }
}

fn redact_field(field: &FieldDescriptor, value: &mut Value, inline: bool) {
    let mut kind = field.kind();
    if field.is_map()
        && let Kind::Message(entry) = &kind
    {
        kind = entry.map_entry_value_field().kind();
    }
    let Kind::Message(inner) = kind else { return };
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| redact(&inner, value, inline)),
        Value::Object(values) if field.is_map() => {
            for (key, value) in values {
                redact(&inner, value, inline);
                if key == SECRET_SETTINGS {
                    redact_values(value);
                }
            }
        }
        value => redact(&inner, value, inline),
    }
}

/// Redacts the values of headers, and keeps their names.
fn redact_values(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value {
                    Value::String(text) if matches!(key.as_str(), "value" | "rawValue") => {
                        *text = REDACTED.to_owned();
                    }
                    value => redact_values(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact_values),
        _ => {}
    }
}

/// Replaces every value inside, and keeps names of files and environment variables, which show the source of a secret.
fn redact_whole(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                if !matches!(key.as_str(), "filename" | "environmentVariable" | "watchedDirectory") {
                    redact_whole(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact_whole),
        Value::Null => {}
        value => *value = Value::String(REDACTED.to_owned()),
    }
}

fn is_sensitive(field: &FieldDescriptor) -> bool {
    let marked = || {
        let extension = pool()?.get_extension_by_name("udpa.annotations.sensitive")?;
        field.options().get_extension(&extension).as_bool()
    };
    ALSO_SENSITIVE.contains(&field.json_name()) || marked().unwrap_or(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use envoy_types::pb::envoy::config::core::v3::{DataSource, TransportSocket, data_source, transport_socket};
    use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
        CommonTlsContext, GenericSecret, Secret, TlsCertificate, UpstreamTlsContext, secret,
    };
    use envoy_types::pb::google::protobuf::{Any, Duration};
    use prost::{Message, Name};

    use super::*;

    const CANARY: &str = "MIIcanaryMII";

    fn inline(text: &str) -> Option<DataSource> {
        let specifier = data_source::Specifier::InlineString(text.to_owned());
        Some(DataSource { specifier: Some(specifier), ..Default::default() })
    }

    fn certificate() -> TlsCertificate {
        TlsCertificate { private_key: inline(CANARY), certificate_chain: inline("chain"), ..Default::default() }
    }

    #[test]
    fn a_cluster_is_proto_json_with_any_expanded_and_private_keys_left_out() {
        let context = UpstreamTlsContext {
            sni: "a.example".to_owned(),
            common_tls_context: Some(CommonTlsContext { tls_certificates: vec![certificate()], ..Default::default() }),
            ..Default::default()
        };
        let config = Any { type_url: UpstreamTlsContext::type_url(), value: context.encode_to_vec() };
        let cluster = Cluster {
            name: "c".to_owned(),
            connect_timeout: Some(Duration { seconds: 5, nanos: 0 }),
            transport_socket: Some(TransportSocket {
                name: "tls".to_owned(),
                config_type: Some(transport_socket::ConfigType::TypedConfig(config)),
            }),
            ..Default::default()
        };
        let json = to_json(ResourceType::Cluster, &cluster.encode_to_vec());
        assert_eq!(json["connectTimeout"], "5s");
        let certificate = &json["transportSocket"]["typedConfig"]["commonTlsContext"]["tlsCertificates"][0];
        assert_eq!(json["transportSocket"]["typedConfig"]["sni"], "a.example");
        assert_eq!(certificate["certificateChain"]["inlineString"], "chain");
        assert_eq!(certificate["privateKey"]["inlineString"], REDACTED);
        assert!(!json.to_string().contains(CANARY));
    }

    #[test]
    fn a_secret_shows_no_inline_value_at_all() {
        for kind in [
            secret::Type::TlsCertificate(certificate()),
            secret::Type::GenericSecret(GenericSecret { secret: inline(CANARY), ..Default::default() }),
        ] {
            let secret = Secret { name: "s".to_owned(), r#type: Some(kind) };
            let json = to_json(ResourceType::Secret, &secret.encode_to_vec());
            assert_eq!(json["name"], "s");
            let text = json.to_string();
            assert!(!text.contains(CANARY) && !text.contains("chain\""), "{text}");
        }
    }

    #[test]
    fn headers_that_carry_credentials_are_shown_without_them() {
        use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
        use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
        use envoy_types::pb::envoy::config::route::v3::{HeaderMatcher, RouteConfiguration, RouteMatch, VirtualHost};
        use envoy_types::pb::envoy::config::route::v3::{Route, route_match::PathSpecifier};
        use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
        let body = |name: &str, value: &str, compared: &str| {
            let header = HeaderValue { key: name.to_owned(), value: value.to_owned(), ..Default::default() };
            let pattern = Some(MatchPattern::Exact(compared.to_owned()));
            let matcher = HeaderMatcher {
                name: "authorization".to_owned(),
                header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
                    match_pattern: pattern,
                    ..Default::default()
                })),
                ..Default::default()
            };
            let matched = RouteMatch {
                path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
                headers: if compared.is_empty() { Vec::new() } else { vec![matcher] },
                ..Default::default()
            };
            let route = Route {
                r#match: Some(matched),
                request_headers_to_add: vec![HeaderValueOption { header: Some(header), ..Default::default() }],
                ..Default::default()
            };
            let host = VirtualHost { routes: vec![route], ..Default::default() };
            RouteConfiguration { virtual_hosts: vec![host], ..Default::default() }.encode_to_vec()
        };
        for (name, value, compared) in
            [("authorization", CANARY, ""), ("x-upstream", "Bearer MIIcanaryMII", ""), ("x-plain", "good", CANARY)]
        {
            let bytes = body(name, value, compared);
            let json = to_json(ResourceType::Route, &bytes).to_string();
            assert!(!json.contains(CANARY) && json.contains(REDACTED) && json.contains(name), "{json}");
            assert!(is_sensitive_resource(ResourceType::Route, &bytes), "{name}");
        }
        let plain = body("x-plain", "good", "");
        assert!(to_json(ResourceType::Route, &plain).to_string().contains("good"));
        assert!(!is_sensitive_resource(ResourceType::Route, &plain));
        assert!(is_sensitive_resource(ResourceType::Route, b"\x0a\xfftoken"), "what does not decode may hold anything");
    }

    #[test]
    fn headers_with_secret_values_are_shown_without_them() {
        use envoy_types::pb::envoy::config::common::mutation_rules::v3::{HeaderMutation, header_mutation::Action};
        use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
        use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
        use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::{
            HeaderMutationPerRoute, Mutations,
        };
        let header = HeaderValue { key: "x-key".to_owned(), value: CANARY.to_owned(), ..Default::default() };
        let append = HeaderValueOption { header: Some(header), ..Default::default() };
        let mutation = HeaderMutation { action: Some(Action::Append(append)) };
        let mutations = Some(Mutations { request_mutations: vec![mutation], ..Default::default() });
        let config = HeaderMutationPerRoute { mutations };
        let config = Any { type_url: HeaderMutationPerRoute::type_url(), value: config.encode_to_vec() };
        let shown = |name: &str| {
            let filters = || [(name.to_owned(), config.clone())].into();
            let route = Route { typed_per_filter_config: filters(), ..Default::default() };
            let host = VirtualHost { routes: vec![route], typed_per_filter_config: filters(), ..Default::default() };
            let routes = RouteConfiguration {
                virtual_hosts: vec![host],
                typed_per_filter_config: filters(),
                ..Default::default()
            };
            to_json(ResourceType::Route, &routes.encode_to_vec()).to_string()
        };
        assert_eq!(shown("other").matches(CANARY).count(), 3);
        let text = shown(SECRET_SETTINGS);
        assert!(!text.contains(CANARY) && text.contains("x-key") && text.contains(REDACTED), "{text}");
    }

    #[test]
    fn undecodable_bytes_are_shown_as_such() {
        assert!(to_json(ResourceType::Route, &[0xff]).get("undecodable").is_some());
    }

    #[test]
    fn a_filter_that_only_takes_part_has_a_form() {
        use envoy_types::pb::envoy::config::route::v3::{FilterConfig, RouteConfiguration};
        let config = FilterConfig { config: Some(Any::default()), ..Default::default() };
        let config = Any { type_url: FilterConfig::type_url(), value: config.encode_to_vec() };
        let routes =
            RouteConfiguration { typed_per_filter_config: [("f".to_owned(), config)].into(), ..Default::default() };
        let json = to_json(ResourceType::Route, &routes.encode_to_vec());
        let shown = json.pointer("/typedPerFilterConfig/f/@type").and_then(Value::as_str);
        assert_eq!(shown, Some("type.googleapis.com/envoy.config.route.v3.FilterConfig"), "{json}");
    }

    #[test]
    fn conditions_with_credentials_are_redacted_and_others_stay() {
        let call = |header: &str| {
            serde_json::json!({"callExpr": {"function": "_==_", "args": [
                {"callExpr": {"args": [{"constExpr": {"stringValue": header}}]}},
                {"constExpr": {"stringValue": CANARY}},
            ]}})
        };
        let parameter = |name: &str| serde_json::json!({"name": name, "stringMatch": {"exact": CANARY}});
        for mut hidden in [call("authorization"), parameter("access_token")] {
            redact_conditions(&mut hidden);
            assert!(!hidden.to_string().contains(CANARY), "{hidden}");
        }
        let mut shown = serde_json::json!([call("x-env"), parameter("page")]);
        let before = shown.clone();
        redact_conditions(&mut shown);
        assert_eq!(shown, before);
    }
}
