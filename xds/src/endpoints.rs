//! Name of the Endpoints resource of a cluster, read from its encoded bytes.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// `Cluster.name`.
const NAME: u32 = 1;
/// `Cluster.eds_cluster_config`.
const EDS_CLUSTER_CONFIG: u32 = 3;
/// `Cluster.EdsClusterConfig.service_name`.
const SERVICE_NAME: u32 = 2;

/// Returns the name of the Endpoints resource of an encoded `Cluster`: its `service_name`, or else its own name.
/// Returns `None` for a cluster without EDS, and for bytes that are not a cluster.
///
/// The function reads two fields instead of decoding the message, because it runs each time a cluster is sent.
pub(crate) fn endpoints_name(cluster: &[u8]) -> Option<String> {
    let config = field(cluster, EDS_CLUSTER_CONFIG)?;
    let name = field(config, SERVICE_NAME).filter(|name| !name.is_empty()).or_else(|| field(cluster, NAME))?;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

/// Returns the content of the last field with this number.
fn field(mut message: &[u8], number: u32) -> Option<&[u8]> {
    let mut found = None;
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message).ok()?;
        if tag == number && wire_type == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut message).ok()?).ok()?;
            let (content, rest) = message.split_at_checked(length)?;
            found = Some(content);
            message = rest;
        } else {
            skip_field(wire_type, tag, &mut message, DecodeContext::default()).ok()?;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use envoy_types::pb::envoy::config::cluster::v3::cluster::EdsClusterConfig;
    use prost::Message;

    use super::*;

    fn cluster(config: Option<&str>) -> Vec<u8> {
        let config = config.map(|name| EdsClusterConfig { service_name: name.to_owned(), ..Default::default() });
        let cluster = Cluster {
            name: "c".to_owned(),
            alt_stat_name: "stat".to_owned(),
            connect_timeout: Some(Default::default()),
            eds_cluster_config: config,
            ..Default::default()
        };
        cluster.encode_to_vec()
    }

    #[test]
    fn the_service_name_or_else_the_name() {
        assert_eq!(endpoints_name(&cluster(Some("service"))).as_deref(), Some("service"));
        assert_eq!(endpoints_name(&cluster(Some(""))).as_deref(), Some("c"));
        assert_eq!(endpoints_name(&cluster(None)), None);
    }

    #[test]
    fn bytes_that_are_no_cluster_name_nothing() {
        assert_eq!(endpoints_name(&[0x1a, 0xff, 0xff]), None);
        assert_eq!(endpoints_name(b"anything"), None);
    }
}
