//! The CA certificates of the images: Mozilla's, from a crate, so that no file of the machine is needed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// Length of a line of PEM.
const LINE: usize = 64;

/// Returns the certificates as PEM.
pub(crate) fn pem() -> String {
    let mut text = String::new();
    for certificate in TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        for (index, character) in encoded.chars().enumerate() {
            if index > 0 && index % LINE == 0 {
                text.push('\n');
            }
            text.push(character);
        }
        text.push_str("\n-----END CERTIFICATE-----\n");
    }
    text
}
