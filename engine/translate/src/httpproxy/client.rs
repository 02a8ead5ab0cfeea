//! The client certificate that is presented to services of HTTPProxies over TLS, as the settings name it.
//!
//! It is the operator's, so that no delegation is needed. Without it, no connection is made: a service may serve clients
//! without a certificate as other clients.

use holdfast_api::fault::Class;
use holdfast_graph::{ObjectKey, Role};

use super::validation::NoValidation;
use crate::listeners::certificate;
use crate::reader::Reader;

/// The type of the sub-condition about a certificate that cannot be used.
pub(super) const KIND: &str = "TLSError";
/// The reason of a certificate that cannot be used.
const REASON: &str = "SecretNotValid";

/// Returns the Secret with the client certificate for connections of an object; `None` where the settings name none.
pub(super) fn read(
    owner: &ObjectKey,
    section: &str,
    reader: &mut Reader<'_>,
) -> Result<Option<ObjectKey>, NoValidation> {
    let Some(secret) = reader.settings.proxies.client_certificate.clone() else { return Ok(None) };
    reader.edge(owner, section, &secret, Role::Requires);
    match certificate(&secret, reader) {
        Ok(_) => Ok(Some(secret)),
        Err((class, why)) => {
            let why = if class == Class::Referential { format!("Secret {}", reader.unfound(&secret)) } else { why };
            let name = secret.namespaced_name();
            let message = format!("the client certificate {name:?} (--httpproxy-client-certificate) is invalid: {why}");
            Err(NoValidation { reason: REASON, class, message, cause: Some(Box::new(secret)) })
        }
    }
}
