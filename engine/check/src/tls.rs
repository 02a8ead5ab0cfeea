//! Values of TLS settings of a server: versions, cipher suites, curves, signature algorithms, ALPN protocols.
//!
//! The names are those that BoringSSL of Envoy accepts. Its own lists of suites allow patterns such as `HIGH`; here each
//! suite is named, so that two lists can be compared.

use super::Excerpt;

/// Entries of one list.
pub const ENTRIES_MAX: usize = 64;
/// Bytes of the name of an ALPN protocol (RFC 7301 §3.1).
pub const ALPN_BYTES_MAX: usize = 255;

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.0.
    V10,
    /// TLS 1.1.
    V11,
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// Reason why a value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// No known version.
    #[error("{text} is no version of TLS: use 1.0, 1.1, 1.2 or 1.3")]
    Version {
        /// The text.
        text: Excerpt,
    },
    /// A list with an empty entry.
    #[error("the list has an empty entry: separate the names with single commas")]
    Empty,
    /// A list with too many entries.
    #[error("the list has {entries} entries; at most {ENTRIES_MAX} are allowed")]
    Long {
        /// Number of entries.
        entries: usize,
    },
    /// A suite of TLS 1.3, which Envoy does not select.
    #[error("the cipher suite {text} is one of TLS 1.3, which cannot be selected: Envoy allows all of them; remove it")]
    Suite13 {
        /// The name.
        text: Excerpt,
    },
    /// A suite that Envoy does not know.
    #[error("Envoy knows no cipher suite {text}: use names such as ECDHE-RSA-AES128-GCM-SHA256")]
    Suite {
        /// The name.
        text: Excerpt,
    },
    /// A curve that Envoy does not know.
    #[error("Envoy knows no curve {text}: use X25519MLKEM768, MLKEM1024, X25519, P-256, P-384 or P-521")]
    Curve {
        /// The name.
        text: Excerpt,
    },
    /// A signature algorithm that Envoy does not know.
    #[error("Envoy knows no signature algorithm {text}: use names such as ecdsa_secp256r1_sha256")]
    Signature {
        /// The name.
        text: Excerpt,
    },
    /// An entry that occurs twice.
    #[error("{text} occurs twice")]
    Twice {
        /// The name.
        text: Excerpt,
    },
    /// The name of a protocol that is no ALPN protocol.
    #[error("{text} is no name of a protocol for ALPN: use h2 and http/1.1")]
    Alpn {
        /// The name.
        text: Excerpt,
    },
}

/// Suites up to TLS 1.2: the name in OpenSSL, and the name of the standard. Suites with pre-shared keys are left out,
/// because Envoy has no such keys.
const SUITES: [(&str, &str); 17] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-ECDSA-AES256-SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    ("ECDHE-RSA-AES256-SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    ("ECDHE-ECDSA-AES128-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    ("AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    ("AES256-GCM-SHA384", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA"),
    ("AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA"),
    ("DES-CBC3-SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
];
const SUITES_13: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
/// Curves: the usual name, and an alias.
const CURVES: [(&str, &str); 6] = [
    ("X25519MLKEM768", "X25519MLKEM768"),
    ("MLKEM1024", "MLKEM1024"),
    ("X25519", "x25519"),
    ("P-256", "prime256v1"),
    ("P-384", "secp384r1"),
    ("P-521", "secp521r1"),
];
const SIGNATURES: [&str; 12] = [
    "ecdsa_secp256r1_sha256",
    "ecdsa_secp384r1_sha384",
    "ecdsa_secp521r1_sha512",
    "ecdsa_sha1",
    "ed25519",
    "rsa_pkcs1_sha1",
    "rsa_pkcs1_sha256",
    "rsa_pkcs1_sha384",
    "rsa_pkcs1_sha512",
    "rsa_pss_rsae_sha256",
    "rsa_pss_rsae_sha384",
    "rsa_pss_rsae_sha512",
];

/// Reads a version.
pub fn version(text: &str) -> Result<TlsVersion, TlsFault> {
    match text {
        "1.0" => Ok(TlsVersion::V10),
        "1.1" => Ok(TlsVersion::V11),
        "1.2" => Ok(TlsVersion::V12),
        "1.3" => Ok(TlsVersion::V13),
        _ => Err(TlsFault::Version { text: Excerpt::new(text) }),
    }
}

/// Returns the name of a cipher suite in OpenSSL.
pub fn suite(text: &str) -> Result<&'static str, TlsFault> {
    match SUITES.iter().find(|(name, standard)| text == *name || text == *standard) {
        Some((name, _)) => Ok(name),
        None if SUITES_13.contains(&text) => Err(TlsFault::Suite13 { text: Excerpt::new(text) }),
        None => Err(TlsFault::Suite { text: Excerpt::new(text) }),
    }
}

/// Returns the usual name of a curve.
pub fn curve(text: &str) -> Result<&'static str, TlsFault> {
    let known = CURVES.iter().find(|(name, alias)| text == *name || text == *alias);
    known.map(|(name, _)| *name).ok_or_else(|| TlsFault::Curve { text: Excerpt::new(text) })
}

/// Returns the name of a signature algorithm.
pub fn signature(text: &str) -> Result<&'static str, TlsFault> {
    let known = SIGNATURES.iter().find(|name| text == **name);
    known.copied().ok_or_else(|| TlsFault::Signature { text: Excerpt::new(text) })
}

/// Reads a list of names that are separated by commas.
pub fn list(text: &str, read: impl Fn(&str) -> Result<&'static str, TlsFault>) -> Result<Vec<&'static str>, TlsFault> {
    let mut names = Vec::new();
    for entry in entries(text)? {
        let name = read(entry)?;
        // Envoy refuses a list with a repeated curve or signature algorithm.
        if names.contains(&name) {
            return Err(TlsFault::Twice { text: Excerpt::new(entry) });
        }
        names.push(name);
    }
    Ok(names)
}

/// Returns the usable entries of a list of which others may be unusable.
pub fn usable_entries(text: &str, read: impl Fn(&str) -> Result<&'static str, TlsFault>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for name in text.split(',').take(ENTRIES_MAX).filter_map(|entry| read(entry.trim()).ok()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Reads a list of ALPN protocols.
pub fn alpn(text: &str) -> Result<Vec<&str>, TlsFault> {
    let names = entries(text)?;
    let is_name = |name: &str| name.len() <= ALPN_BYTES_MAX && name.bytes().all(|byte| byte.is_ascii_graphic());
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(TlsFault::Alpn { text: Excerpt::new(name) }),
        None => Ok(names),
    }
}

fn entries(text: &str) -> Result<Vec<&str>, TlsFault> {
    let entries: Vec<&str> = text.split(',').take(ENTRIES_MAX + 1).map(str::trim).collect();
    if entries.len() > ENTRIES_MAX {
        return Err(TlsFault::Long { entries: text.split(',').count() });
    }
    if entries.iter().any(|entry| entry.is_empty()) {
        return Err(TlsFault::Empty);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why<T>(found: Result<T, TlsFault>) -> String {
        found.err().map(|fault| fault.to_string()).unwrap_or_default()
    }

    #[test]
    fn names_of_both_kinds_are_one_suite() {
        let names = list("ECDHE-RSA-AES128-GCM-SHA256, TLS_RSA_WITH_AES_128_CBC_SHA", suite);
        assert_eq!(names, Ok(vec!["ECDHE-RSA-AES128-GCM-SHA256", "AES128-SHA"]));
        assert!(why(list("AES128-SHA,TLS_RSA_WITH_AES_128_CBC_SHA", suite)).contains("occurs twice"));
    }

    #[test]
    fn names_that_envoy_refuses() {
        for text in ["AES128-SHA256", "HIGH", "aes128-sha", "[AES128-SHA|AES256-SHA]", "!AES128-SHA"] {
            assert!(why(list(text, suite)).contains("knows no cipher suite"), "{text}");
        }
        assert!(why(suite("TLS_AES_128_GCM_SHA256")).contains("TLS 1.3"));
        for text in ["P-224", "secp256r1", "P-256:P-384"] {
            assert!(why(list(text, curve)).contains("knows no curve"), "{text}");
        }
        assert!(why(list("P-256,prime256v1", curve)).contains("occurs twice"));
        assert!(why(list("ed25519,ed448", signature)).contains("\"ed448\""));
        assert!(why(version("TLSv1.2")).contains("use 1.0, 1.1, 1.2 or 1.3"));
    }

    #[test]
    fn malformed_lists() {
        assert_eq!(list("", suite), Err(TlsFault::Empty));
        assert_eq!(list("AES128-SHA,,AES256-SHA", suite), Err(TlsFault::Empty));
        assert_eq!(alpn(&"h2,".repeat(ENTRIES_MAX)), Err(TlsFault::Long { entries: ENTRIES_MAX + 1 }));
        assert!(why(alpn(&"x".repeat(ALPN_BYTES_MAX + 1))).contains("no name of a protocol"));
        assert!(why(alpn("h2, http 1")).contains("\"http 1\""));
        assert_eq!(alpn("h2, http/1.1"), Ok(vec!["h2", "http/1.1"]));
    }

    #[test]
    fn usable_entries_of_an_unusable_list() {
        assert_eq!(usable_entries("AES128-SHA, X, AES128-SHA,,AES256-SHA", suite), ["AES128-SHA", "AES256-SHA"]);
    }
}
