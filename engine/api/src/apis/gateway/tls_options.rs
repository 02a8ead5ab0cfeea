//! TLS options of listeners (`tls.options`): the keys of kgateway that are known, and which values of an earlier
//! version a listener may use where today's value of a key cannot be used.

/// A TLS option of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsOption {
    /// The lowest version.
    MinVersion,
    /// The highest version.
    MaxVersion,
    /// Cipher suites up to TLS 1.2.
    CipherSuites,
    /// Curves.
    Curves,
    /// Signature algorithms.
    SignatureAlgorithms,
    /// ALPN protocols.
    AlpnProtocols,
    /// Names that certificates of clients must have; not served.
    ClientNames,
    /// Hashes that certificates of clients must have; not served.
    ClientHashes,
}

/// What a listener with an unusable value may use of the value of the last valid version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LentOption {
    /// The value.
    Any,
    /// A value that no other value is stricter than.
    Strictest,
    /// The entries that today's value has as well.
    Common,
    /// Nothing.
    Never,
}

impl TlsOption {
    /// All options, in the order of the reference.
    pub const ALL: [Self; 8] = [
        Self::MinVersion,
        Self::MaxVersion,
        Self::CipherSuites,
        Self::Curves,
        Self::SignatureAlgorithms,
        Self::AlpnProtocols,
        Self::ClientNames,
        Self::ClientHashes,
    ];

    /// Returns the key in `tls.options`.
    pub fn key(self) -> &'static str {
        match self {
            Self::MinVersion => "kgateway.dev/min-tls-version",
            Self::MaxVersion => "kgateway.dev/max-tls-version",
            Self::CipherSuites => "kgateway.dev/cipher-suites",
            Self::Curves => "kgateway.dev/ecdh-curves",
            Self::SignatureAlgorithms => "kgateway.dev/signature-algorithms",
            Self::AlpnProtocols => "kgateway.dev/alpn-protocols",
            Self::ClientNames => "kgateway.dev/verify-subject-alt-names",
            Self::ClientHashes => "kgateway.dev/verify-certificate-hash",
        }
    }

    /// Returns the option with a key.
    pub fn of(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|option| option.key() == key)
    }

    /// Returns what the listener may use of an earlier value, with the reason.
    pub fn lent(self) -> (LentOption, &'static str) {
        match self {
            Self::MinVersion => (LentOption::Strictest, "excludes old versions of TLS: what was meant may be 1.3"),
            Self::MaxVersion => (LentOption::Any, "a value below the lowest version of today closes the listener"),
            Self::CipherSuites => (LentOption::Common, "excludes weak algorithms"),
            Self::Curves => (LentOption::Common, "excludes weak algorithms"),
            Self::SignatureAlgorithms => (LentOption::Common, "excludes weak algorithms"),
            Self::AlpnProtocols => (LentOption::Any, "the protocol that is agreed on"),
            Self::ClientNames => (LentOption::Never, "decides which clients are allowed; not served, in any version"),
            Self::ClientHashes => (LentOption::Never, "decides which clients are allowed; not served, in any version"),
        }
    }
}

impl LentOption {
    /// Returns the condition, as the reference has it.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Any => "any value",
            Self::Strictest => "only 1.3",
            Self::Common => "only the entries that today's value has as well",
            Self::Never => "no value",
        }
    }
}
