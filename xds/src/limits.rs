//! Every limit on what an Envoy may send or hold, in one place.

use std::time::Duration;

/// Longest `node.id`, in bytes.
pub const NODE_ID_BYTES_MAX: usize = 512;

/// Longest `node.cluster` (the fleet), in bytes: two Kubernetes names and a slash fit.
pub const FLEET_BYTES_MAX: usize = 512;

/// Longest text about the flags of an Envoy's bootstrap, in bytes; a longer one is passed over.
pub const FLAGS_BYTES_MAX: usize = 64;

/// Most builds of one fleet that are offered something of their own; the first in the order of their names are.
pub const OFFERED_BUILDS_MAX: usize = 64;

/// Most nodes of one fleet that are offered something of their own; the first in the order of their names are.
pub const OFFERED_NODES_MAX: usize = 256;

/// Longest resource name in a request, in bytes.
pub const NAME_BYTES_MAX: usize = 2048;

/// Most resource names one stream may be subscribed to, all types together.
pub const NAMES_MAX: usize = 200_000;

/// Largest request, in bytes. An Envoy that reconnects names every resource it has with its version.
pub const REQUEST_BYTES_MAX: usize = 32 << 20;

/// Most ADS streams at a time, all clients together.
pub const STREAMS_MAX: usize = 20_000;

/// Most HTTP/2 streams at a time on one connection; an Envoy uses one.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 32;

/// Connections that may wait to be accepted: a whole fleet reconnects at the same moment.
pub const BACKLOG: u32 = 4096;

/// How often the file of a unix socket is looked at, which is made again where it is gone.
pub const SOCKET_LOOKED_AT: Duration = Duration::from_millis(500);

/// Resource bytes in one response of several resources; a single larger resource still goes, alone.
pub const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Delta responses of one type that may be unanswered at a time; what changes meanwhile is sent as it is then.
pub const UNANSWERED_MAX: usize = 128;

/// Refused contents remembered per stream and type; the oldest are forgotten first.
pub const REFUSED_MAX: usize = 4096;

/// Longest message of a refusal that is passed on, in characters.
pub const MESSAGE_CHARS_MAX: usize = 1024;

/// How often an idle connection is probed with an HTTP/2 ping.
pub const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long the answer to such a ping may take before the connection is given up.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a TLS handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may take from its handshake to its first RPC that is let in.
pub const ADMISSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of the headers of an RPC, as HTTP/2 counts them; they are all that is read before it is known whose it is.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Bytes of messages of an RPC that wait in its flow control window until somebody reads them.
pub const WINDOW_BYTES_MAX: u32 = 1 << 20;

/// Most connections at a time over TCP.
pub const CONNECTIONS_MAX: usize = 20_000;

/// Most connections at a time over TCP from one address (of IPv6, from one network of 64 bits).
pub const CONNECTIONS_PER_PEER_MAX: usize = 1024;

/// Most connections at a time of which nobody knows yet whose they are.
pub const STRANGERS_MAX: usize = 1024;

/// The same from one address: so that one stranger cannot keep all others out.
pub const STRANGERS_PER_PEER_MAX: usize = 64;

/// The same without TLS, where nothing is proven and a whole fleet may come from one address.
pub const PLAIN_STRANGERS_PER_PEER_MAX: usize = 512;

/// How long a stream lasts before its Envoy has to prove anew who it is; each is ended a little earlier, by up to a
/// tenth, so that not all of a fleet come back at once.
pub const STREAM_AGE_MAX: Duration = Duration::from_secs(3600);

/// How long a connection that is to end stays for what was said last to get through.
pub const CLOSING_TIMEOUT: Duration = Duration::from_millis(100);

/// How long a new stream may take to say who it is.
pub const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
