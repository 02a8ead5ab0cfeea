//! Rewriting of encoded contents for a trial: changes name and slot by appending fields to the bytes.
//!
//! Of a repeated scalar field the last one counts, and repeated messages are merged. So nothing has to be decoded: a
//! large table is copied once, and bytes that are no valid message stay unchanged.
//!
//! <https://protobuf.dev/programming-guides/encoding/#last-one-wins>

use bytes::Bytes;
use prost::encoding::{DecodeContext, WireType, decode_key, encode_key, encode_varint, skip_field};

/// `name` of `RouteConfiguration`, `Listener`, `Cluster` and `Secret`.
const NAME: u32 = 1;
/// `Listener.bind_to_port`.
const BIND_TO_PORT: u32 = 26;
/// `Listener.udp_listener_config`, which only a UDP listener has.
const UDP_LISTENER_CONFIG: u32 = 18;
/// `Listener.address`, `Address.socket_address`, and its `address` and `port_value`.
const ADDRESS: u32 = 2;
const SOCKET_ADDRESS: u32 = 1;
const SOCKET_IP: u32 = 2;
const SOCKET_PORT: u32 = 3;
/// `Cluster.eds_cluster_config`, and `service_name` in it.
const EDS_CLUSTER_CONFIG: u32 = 3;
const SERVICE_NAME: u32 = 2;
/// `Cluster.wait_for_warm_on_init`.
const WAIT_FOR_WARM_ON_INIT: u32 = 54;
/// `Secret.tls_certificate`, `.session_ticket_keys`, `.validation_context` and `.generic_secret`.
const SECRET_TYPES: std::ops::RangeInclusive<u32> = 2..=5;
/// `Secret.tls_certificate`.
const TLS_CERTIFICATE: u32 = 2;
/// `Secret.validation_context`.
const VALIDATION_CONTEXT: u32 = 4;

/// A `BoolValue` with an explicit false: without a field, merging would keep the existing value.
const FALSE: &[u8] = &[0x08, 0x00];

/// A route configuration or a Secret under another name.
pub(crate) fn renamed(body: &Bytes, name: &str) -> Bytes {
    let mut bytes = copied(body);
    put(&mut bytes, NAME, name.as_bytes());
    bytes.into()
}

/// A listener under another name that does not bind its address. Envoy binds each UDP listener: it gets a free port of
/// loopback.
pub(crate) fn unbound(body: &Bytes, name: &str) -> Bytes {
    let mut bytes = copied(body);
    put(&mut bytes, NAME, name.as_bytes());
    match fields(body).any(|field| field == UDP_LISTENER_CONFIG) {
        true => put(&mut bytes, ADDRESS, &of_loopback()),
        false => put(&mut bytes, BIND_TO_PORT, FALSE),
    }
    bytes.into()
}

/// An `Address` with a free port of loopback, which keeps the protocol of the address that it is merged into.
fn of_loopback() -> Vec<u8> {
    let (mut socket, mut address) = (Vec::new(), Vec::new());
    put(&mut socket, SOCKET_IP, b"127.0.0.1");
    encode_key(SOCKET_PORT, WireType::Varint, &mut socket);
    encode_varint(0, &mut socket);
    put(&mut address, SOCKET_ADDRESS, &socket);
    address
}

/// A cluster under another name, with separate endpoints, for which initialization does not wait.
pub(crate) fn alone(body: &Bytes, name: &str) -> Bytes {
    let mut bytes = copied(body);
    put(&mut bytes, NAME, name.as_bytes());
    if fields(body).any(|field| field == EDS_CLUSTER_CONFIG) {
        // Under its own name, so that Envoy subscribes to its endpoints whether or not another cluster uses the
        // service.
        let mut config = Vec::new();
        put(&mut config, SERVICE_NAME, name.as_bytes());
        put(&mut bytes, EDS_CLUSTER_CONFIG, &config);
    }
    put(&mut bytes, WAIT_FOR_WARM_ON_INIT, FALSE);
    bytes.into()
}

/// The sort of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretSort {
    Certificate,
    Authorities,
    /// A Secret for which there is no slot.
    Other,
}

/// Reads the sort of a Secret. Bytes that are no Secret count as a certificate, and are refused as one.
pub(crate) fn secret_sort(body: &Bytes) -> SecretSort {
    match fields(body).filter(|field| SECRET_TYPES.contains(field)).last() {
        None | Some(TLS_CERTIFICATE) => SecretSort::Certificate,
        Some(VALIDATION_CONTEXT) => SecretSort::Authorities,
        Some(_) => SecretSort::Other,
    }
}

/// The field numbers of a message, up to the first unreadable field.
fn fields(body: &Bytes) -> impl Iterator<Item = u32> + '_ {
    let mut rest: &[u8] = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (field, wire_type) = decode_key(&mut rest).ok()?;
        skip_field(wire_type, field, &mut rest, DecodeContext::default()).ok()?;
        Some(field)
    })
}

fn copied(body: &Bytes) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 64);
    bytes.extend_from_slice(body);
    bytes
}

fn put(bytes: &mut Vec<u8>, field: u32, content: &[u8]) {
    encode_key(field, WireType::LengthDelimited, bytes);
    encode_varint(content.len() as u64, bytes);
    bytes.extend_from_slice(content);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use envoy_types::pb::envoy::config::cluster::v3::cluster::EdsClusterConfig;
    use envoy_types::pb::envoy::config::core::v3::address::Address;
    use envoy_types::pb::envoy::config::core::v3::socket_address::Protocol;
    use envoy_types::pb::envoy::config::listener::v3::Listener;
    use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
    use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
    use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret::Type;
    use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};
    use holdfast_envoy::encode::listener::{GatewayPort, encode};
    use holdfast_envoy::encode::{endpoints, slots};
    use holdfast_envoy::model::port::Transport;
    use prost::Message;

    use super::*;

    #[test]
    fn a_table_has_the_new_name_and_all_else_as_before() {
        let hosts = vec![VirtualHost { name: "h".into(), ..Default::default() }; 3];
        let table = RouteConfiguration { name: "http/80".into(), virtual_hosts: hosts, ..Default::default() };
        let renamed = renamed(&table.encode_to_vec().into(), "slot");
        let expected = RouteConfiguration { name: "slot".into(), ..table };
        assert_eq!(RouteConfiguration::decode(renamed).unwrap(), expected);
    }

    #[test]
    fn a_listener_binds_nothing() {
        for bind_to_port in [None, Some(BoolValue { value: true }), Some(BoolValue { value: false })] {
            let listener = Listener { name: "listener/80".into(), bind_to_port, ..Default::default() };
            let unbound = Listener::decode(unbound(&listener.encode_to_vec().into(), "slot")).unwrap();
            assert_eq!((&*unbound.name, unbound.bind_to_port), ("slot", Some(BoolValue { value: false })));
        }
    }

    #[test]
    fn a_listener_of_datagrams_binds_a_free_port_of_loopback() {
        let address = ([10, 0, 0, 1], 53).into();
        let port = GatewayPort { address, transport: Transport::Udp, chains: Vec::new(), socket: Arc::default() };
        let unbound = Listener::decode(unbound(&encode(&port), "slot")).unwrap();
        let mut wanted = endpoints::address(([127, 0, 0, 1], 0).into());
        if let Some(Address::SocketAddress(socket)) = &mut wanted.address {
            socket.set_protocol(Protocol::Udp);
        }
        assert_eq!((&*unbound.name, unbound.bind_to_port, unbound.address), ("slot", None, Some(wanted)));
    }

    #[test]
    fn only_eds_clusters_get_their_slot_as_service_name() {
        let config = EdsClusterConfig { service_name: "service/a".into(), ..Default::default() };
        let limit = Some(UInt32Value { value: 7 });
        for config in [None, Some(config)] {
            let cluster = Cluster {
                name: "c".into(),
                eds_cluster_config: config.clone(),
                per_connection_buffer_limit_bytes: limit,
                wait_for_warm_on_init: Some(BoolValue { value: true }),
                ..Default::default()
            };
            let alone = Cluster::decode(alone(&cluster.encode_to_vec().into(), "slot")).unwrap();
            let config = config.map(|config| EdsClusterConfig { service_name: "slot".into(), ..config });
            let warm = Some(BoolValue { value: false });
            let expected =
                Cluster { name: "slot".into(), eds_cluster_config: config, wait_for_warm_on_init: warm, ..cluster };
            assert_eq!(alone, expected);
        }
    }

    #[test]
    fn the_sort_of_a_secret_is_read_off() {
        let generic = Secret { name: "s".into(), r#type: Some(Type::GenericSecret(Default::default())) };
        assert_eq!(secret_sort(&slots::placeholder("s", false, 1)), SecretSort::Certificate);
        assert_eq!(secret_sort(&slots::placeholder("s", true, 1)), SecretSort::Authorities);
        assert_eq!(secret_sort(&generic.encode_to_vec().into()), SecretSort::Other);
        assert_eq!(secret_sort(&Bytes::from_static(b"\xff\xff")), SecretSort::Certificate);
    }

    #[test]
    fn what_is_no_message_stays_none() {
        let broken = Bytes::from_static(&[0x0a, 0xff, 0xff]);
        assert!(RouteConfiguration::decode(renamed(&broken, "slot")).is_err());
        assert!(Cluster::decode(alone(&broken, "slot")).is_err());
    }
}
