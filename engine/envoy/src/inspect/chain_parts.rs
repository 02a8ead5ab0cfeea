//! Parts of the filter chains of a listener that can be proven, refused and left out separately.
//!
//! A connection manager is read as the sequence of its fields and never encoded from a message again: the order of map
//! entries, which is not defined in Envoy's messages, would be lost.

use std::collections::BTreeSet;

use bytes::Bytes;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType as FilterConfig;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener, ListenerFilter};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::UdpProxyConfig;
use holdfast_graph::Content;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{Message, Name};

use super::content;
use crate::encode::listener::{http_filter, own_filter};
use crate::features::chain::ChainFilter;
use crate::features::connection::{ListenerSettings, health_check};
use crate::features::datagrams;

/// `HttpConnectionManager.http_filters`.
const FILTERS_FIELD: u32 = 5;
/// Fields that only Envoy can validate: `HttpConnectionManager.tracing`, `.access_log`, `.local_reply_config` and
/// `.early_header_mutation_extensions`.
const TEXT_FIELDS: [u32; 4] = [7, 13, 38, 52];

/// A filter chain, split into its own content and its filters and texts; each content is proven or refused separately.
///
/// A refusal concerns the chain at this address; filters and texts are independent of their chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainParts {
    /// Name of the chain.
    pub name: String,
    /// Content of the chain without its filters and texts, at any address.
    pub own: Content,
    /// Content of the chain without its filters and texts, at this address.
    pub placed: Content,
    /// Contents of its filters and texts.
    pub filters: Vec<Content>,
    /// Content of a chain that forwards connections, for any server name at this address; unset for other chains.
    pub forwarding: Option<Content>,
}

/// Returns the parts of the chains of an encoded listener.
pub fn parts(body: &[u8]) -> Vec<ChainParts> {
    let Ok(mut listener) = Listener::decode(body) else { return Vec::new() };
    let chains = std::mem::take(&mut listener.filter_chains);
    let (datagrams, others): (Vec<ListenerFilter>, Vec<ListenerFilter>) =
        std::mem::take(&mut listener.listener_filters)
            .into_iter()
            .partition(|filter| datagrams::config(filter).is_some());
    listener.listener_filters = others;
    let place = listener.encode_to_vec();
    let part = |mut chain: FilterChain| {
        let filters = take(&mut chain, &|_| false);
        let own = chain.encode_to_vec();
        let placed = [place.as_slice(), &own].concat();
        let forwarding = forwarding(&chain).map(|own| content(&[place.as_slice(), &own].concat()));
        ChainParts { name: chain.name, own: content(&own), placed: content(&placed), filters, forwarding }
    };
    chains.into_iter().map(part).chain(datagrams.into_iter().map(|filter| of_datagrams(filter, &place))).collect()
}

/// Returns the parts of the filter of a UDP port, which is its only chain.
fn of_datagrams(filter: ListenerFilter, place: &[u8]) -> ChainParts {
    let own = filter.encode_to_vec();
    let placed = |own: &[u8]| content(&[place, own].concat());
    let forwarding = datagrams::config(&filter).filter(|proxy| !datagrams::is_refusal(proxy)).map(|proxy| {
        // The name of the statistics contains the name of the listener.
        let proxy = UdpProxyConfig { stat_prefix: String::new(), ..proxy };
        placed(&datagrams::encoded(String::new(), &proxy).encode_to_vec())
    });
    ChainParts { name: filter.name, own: content(&own), placed: placed(&own), filters: Vec::new(), forwarding }
}

/// Returns a listener without the named chains, and without some filters and texts of the other chains.
pub fn without(body: &Bytes, chains: &BTreeSet<String>, left_out: &dyn Fn(&Content) -> bool) -> Bytes {
    let Ok(mut listener) = Listener::decode(&**body) else { return body.clone() };
    listener.filter_chains.retain(|chain| !chains.contains(&chain.name));
    listener.listener_filters.retain(|filter| !chains.contains(&filter.name));
    for chain in &mut listener.filter_chains {
        take(chain, &|content| !left_out(content));
    }
    listener.encode_to_vec().into()
}

/// Returns the content of a filter that routes use.
pub fn filter_content(filter: &ChainFilter) -> Content {
    content(&own_filter(filter).encode_to_vec())
}

/// Returns the contents of the settings of a listener that only Envoy can validate, with their fields.
pub fn texts(settings: &ListenerSettings) -> Vec<(&'static str, Content)> {
    let check = settings.health_check();
    let check = check.map(|(field, check)| (field, http_filter(health_check::FILTER, &check.encode()).encode_to_vec()));
    settings.texts().chain(check).map(|(field, bytes)| (field, content(&bytes))).collect()
}

/// Returns a chain that forwards connections without its server name, which no Envoy refuses; `None` for other chains.
fn forwarding(chain: &FilterChain) -> Option<Vec<u8>> {
    let mut chain = chain.clone();
    let mut is_stream = false;
    for filter in &mut chain.filters {
        let Some(FilterConfig::TypedConfig(config)) = &mut filter.config_type else { continue };
        if config.type_url == TcpProxy::type_url() {
            let mut proxy = TcpProxy::decode(&*config.value).ok()?;
            // The name of the statistics contains the server name.
            proxy.stat_prefix.clear();
            config.value = proxy.encode_to_vec();
            is_stream = true;
        }
    }
    chain.name.clear();
    chain.filter_chain_match.iter_mut().for_each(|wanted| wanted.server_names.clear());
    is_stream.then(|| chain.encode_to_vec())
}

/// Removes filters and texts from the connection managers of a chain, except those that stay, and returns the contents
/// of all.
fn take(chain: &mut FilterChain, stays: &dyn Fn(&Content) -> bool) -> Vec<Content> {
    let mut all = Vec::new();
    for filter in &mut chain.filters {
        let Some(FilterConfig::TypedConfig(config)) = &mut filter.config_type else { continue };
        if config.type_url == HttpConnectionManager::type_url()
            && let Some(value) = only(&config.value, stays, &mut all)
        {
            config.value = value;
        }
    }
    all
}

/// A field of a message: its number, its content if it is length-delimited, and all of its bytes.
struct Record<'b> {
    field: u32,
    content: &'b [u8],
    whole: &'b [u8],
}

/// Returns the fields of a message; `None` if the bytes are not a message.
fn records(bytes: &[u8]) -> Option<Vec<Record<'_>>> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let start = rest;
        let (field, wire_type) = decode_key(&mut rest).ok()?;
        let mut content: &[u8] = &[];
        if wire_type == WireType::LengthDelimited {
            let mut behind = rest;
            let length = usize::try_from(decode_varint(&mut behind).ok()?).ok()?;
            content = behind.get(..length)?;
        }
        skip_field(wire_type, field, &mut rest, DecodeContext::default()).ok()?;
        let whole = start.get(..start.len().checked_sub(rest.len())?)?;
        records.push(Record { field, content, whole });
    }
    Some(records)
}

/// Returns a connection manager with only some of its filters and texts, and records the contents of all.
fn only(manager: &[u8], stays: &dyn Fn(&Content) -> bool, all: &mut Vec<Content>) -> Option<Vec<u8>> {
    let records = records(manager)?;
    let text = |field: u32| {
        let of_field = records.iter().filter(|record| record.field == field);
        let bytes: Vec<u8> = of_field.flat_map(|record| record.whole).copied().collect();
        (!bytes.is_empty()).then(|| content(&bytes))
    };
    let texts: Vec<(u32, Content)> = TEXT_FIELDS.iter().filter_map(|field| Some((*field, text(*field)?))).collect();
    all.extend(texts.iter().map(|(_, content)| *content));
    let mut left = Vec::with_capacity(manager.len());
    for record in records {
        let content = match record.field {
            FILTERS_FIELD => {
                let content = content(record.content);
                all.push(content);
                Some(content)
            }
            field => texts.iter().find(|(text, _)| *text == field).map(|(_, content)| *content),
        };
        if content.is_none_or(|content| stays(&content)) {
            left.extend_from_slice(record.whole);
        }
    }
    Some(left)
}
