//! Ports with their transport protocol. TCP and UDP number their ports independently: one number may have both.

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

impl Transport {
    /// Returns the name, as Kubernetes writes it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
        }
    }
}

/// A port that Envoys of a Gateway bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundPort {
    /// The port number.
    pub number: u16,
    /// The transport protocol.
    pub transport: Transport,
}

impl BoundPort {
    /// Returns the port of connections with this number.
    pub fn tcp(number: u16) -> Self {
        Self { number, transport: Transport::Tcp }
    }
}
