//! All limits on what an Envoy may send or hold.

use std::time::Duration;

/// Longest `node.id`, in bytes.
pub const NODE_ID_BYTES_MAX: usize = 512;

/// Longest `node.cluster` (the fleet), in bytes: two Kubernetes names and a slash fit.
pub const FLEET_BYTES_MAX: usize = 512;

/// Longest text with the flags of an Envoy's bootstrap, in bytes; a longer text is ignored.
pub const FLAGS_BYTES_MAX: usize = 64;

/// Maximum number of builds of one fleet with an offer of their own; of more, the first in the order of their names
/// have one.
pub const OFFERED_BUILDS_MAX: usize = 64;

/// Maximum number of nodes of one fleet with an offer of their own; of more, the first in the order of their names have
/// one.
pub const OFFERED_NODES_MAX: usize = 256;

/// Longest resource name in a request, in bytes.
pub const NAME_BYTES_MAX: usize = 2048;

/// Maximum number of resource names to which one stream may subscribe, all types together.
pub const NAMES_MAX: usize = 200_000;

/// Largest request, in bytes. An Envoy that reconnects names every resource that it has, with its version.
pub const REQUEST_BYTES_MAX: usize = 32 << 20;

/// Maximum number of concurrent ADS streams, all clients together.
pub const STREAMS_MAX: usize = 20_000;

/// Maximum number of concurrent HTTP/2 streams on one connection; an Envoy uses one.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 32;

/// Maximum number of connections that wait to be accepted: a whole fleet may reconnect at the same moment.
pub const BACKLOG: u32 = 4096;

/// Interval of checks for the file of a unix socket, which is created again when it is missing.
pub const SOCKET_LOOKED_AT: Duration = Duration::from_millis(500);

/// Maximum size of the resources in one response with several resources, in bytes; a single larger resource is sent by
/// itself.
pub const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of unanswered delta responses of one type; resources that change meanwhile are sent in their newest
/// form.
pub const UNANSWERED_MAX: usize = 128;

/// Maximum number of refused contents that are remembered for each stream and type; the oldest are forgotten first.
pub const REFUSED_MAX: usize = 4096;

/// Longest message of a refusal that is passed on, in characters.
pub const REFUSAL_CHARS_MAX: usize = 1024;

/// Interval of HTTP/2 pings on an idle connection.
pub const KEEPALIVE: Duration = Duration::from_secs(3);

/// Time limit for the answer to such a ping, after which the connection is closed. An Envoy that is busy for a moment
/// keeps its connection.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(45);

/// Longest time without bytes of an Envoy with an open connection before the Envoy counts as silent: the interval of
/// pings, and five seconds for the answer.
pub const SILENCE_MAX: Duration = Duration::from_secs(8);

/// Longest time for which an Envoy is reported as silent after its connection was closed, unless it connects again.
pub const LOST_TIME_MAX: Duration = Duration::from_secs(600);

/// Maximum number of Envoys that are reported as silent after their connection was closed.
pub const LOST_ENVOYS_MAX: usize = 1024;

/// Time limit for a TLS handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit from the handshake of a connection to its first admitted RPC.
pub const ADMISSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of the headers of an RPC, in bytes as HTTP/2 counts them; only headers are read before authentication.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Maximum size of the messages of an RPC that wait in its flow control window to be read, in bytes.
pub const WINDOW_BYTES_MAX: u32 = 1 << 20;

/// Maximum number of concurrent connections over TCP.
pub const CONNECTIONS_MAX: usize = 20_000;

/// Maximum number of concurrent connections over TCP from one address (of IPv6: from one network of 64 bits).
pub const CONNECTIONS_PER_PEER_MAX: usize = 1024;

/// Maximum number of concurrent connections of unauthenticated peers.
pub const UNAUTHENTICATED_MAX: usize = 1024;

/// Maximum number of concurrent connections of unauthenticated peers from one address, so that one peer cannot block
/// all others.
pub const UNAUTHENTICATED_PER_PEER_MAX: usize = 64;

/// The same limit without TLS, where nothing is proven and a whole fleet may connect from one address.
pub const PLAIN_UNAUTHENTICATED_PER_PEER_MAX: usize = 512;

/// Lifetime of a stream before its Envoy must authenticate again; each stream is ended a little earlier, by up to a
/// tenth, so that the Envoys of a fleet do not all reconnect at once.
pub const STREAM_AGE_MAX: Duration = Duration::from_secs(3600);

/// Time for which a connection that is about to close stays open, so that its last data is transmitted.
pub const CLOSING_TIMEOUT: Duration = Duration::from_millis(100);

/// Time limit for a new stream to send its first message, which identifies the Envoy.
pub const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
