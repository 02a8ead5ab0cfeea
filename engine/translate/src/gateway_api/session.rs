//! Session persistence of the rules of HTTPRoutes and GRPCRoutes.
//!
//! A value that cannot be served is a flaw of the rule. What Envoy does not have is left out and reported, and the rule
//! is served: a session is no protection.
//!
//! <https://gateway-api.sigs.k8s.io/geps/gep-1619/>

use std::sync::Arc;

use holdfast_api::apis::gateway::session::{CookieLifetime, SessionPersistence, SessionType};
use holdfast_check::header;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::session::{PersistentSession, SessionCarrier};
use holdfast_envoy::model::{EndpointSource, WeightedBackend};

/// Longest name of a session (bytes), as in the CRD.
const SESSION_NAME_BYTES_MAX: usize = 128;

/// Headers with a meaning of their own, which a session would overwrite.
const RESERVED: [&str; 7] =
    ["authorization", "content-encoding", "content-type", "cookie", "host", "location", "set-cookie"];
/// Prefixes of cookie names with requirements on the path and the scheme, without which clients drop the cookie (RFC 6265
/// bis §4.1.3).
const PREFIXES: [&str; 2] = ["__host-", "__secure-"];

const FIELD: &str = "sessionPersistence";

/// A session as it was read from a rule.
pub(crate) struct ReadSession {
    /// The name, if the rule sets one.
    name: Option<Arc<str>>,
    carrier: SessionCarrier,
}

/// Reads the session of a rule. `ignored` gets the fields that are not served.
pub(super) fn read(written: &SessionPersistence, flaws: &mut Vec<Flaw>, ignored: &mut Vec<Flaw>) -> ReadSession {
    let SessionPersistence { session_name, absolute_timeout, idle_timeout, r#type, cookie_config } = written;
    let in_header = r#type.unwrap_or_default() == SessionType::Header;
    if let Some(name) = session_name {
        flaws.extend(name_fault(name, in_header).map(|message| Flaw::new(below("sessionName"), message)));
    }
    let lifetime = cookie_config.as_ref().map(|config| config.lifetime_type.unwrap_or_default());
    if in_header && lifetime.is_some() {
        flaws.push(Flaw::new(below("cookieConfig"), "cookieConfig can only be set with type Cookie"));
    }
    if idle_timeout.is_some() {
        seconds("idleTimeout", idle_timeout.as_deref(), flaws);
        let message = "Envoy does not end sessions that are idle: the rule is served without idleTimeout, and its \
                       sessions go on. Remove the field, or limit sessions with absoluteTimeout";
        ignored.push(Flaw::new(below("idleTimeout"), message));
    }
    let seconds = seconds("absoluteTimeout", absolute_timeout.as_deref(), flaws);
    let carrier = if in_header {
        if seconds.is_some() {
            let message = "Envoy does not end sessions in a header: the rule is served without absoluteTimeout, and its \
                           sessions go on. Remove the field, or use type Cookie";
            ignored.push(Flaw::new(below("absoluteTimeout"), message));
        }
        SessionCarrier::Header
    } else {
        match lifetime.unwrap_or_default() {
            CookieLifetime::Permanent if absolute_timeout.is_none() => {
                let message = "must be set, because cookieConfig.lifetimeType is Permanent";
                flaws.push(Flaw::new(below("absoluteTimeout"), message));
            }
            CookieLifetime::Session if seconds.is_some() => {
                let message = "Envoy has no cookie that ends with the client and also after a time: sessions end after \
                               absoluteTimeout, and clients keep the cookie for this time even if they end before. Set \
                               cookieConfig.lifetimeType to Permanent, or remove absoluteTimeout";
                ignored.push(Flaw::new(below("cookieConfig.lifetimeType"), message));
            }
            _ => {}
        }
        SessionCarrier::Cookie { seconds }
    };
    ReadSession { name: session_name.clone(), carrier }
}

/// Returns the session of a rule with these backends; `None` where a session must not select the endpoint. `default`
/// is the name of a session without a name.
pub(super) fn of_rule(
    read: ReadSession,
    backends: &[WeightedBackend],
    default: impl FnOnce() -> String,
    ignored: &mut Vec<Flaw>,
) -> Option<PersistentSession> {
    let has_any_place = |backend: &WeightedBackend| {
        backend.backend.as_ref().is_some_and(|cluster| matches!(cluster.place, EndpointSource::Anywhere(_)))
    };
    if backends.iter().any(has_any_place) {
        // Envoy would let clients select the address of another host of the proxy.
        let message = "each request selects the host of a Backend with dynamicForwardProxy: the rule is served without \
                       sessions. Remove sessionPersistence, or use another backend";
        ignored.push(Flaw::new(FIELD, message));
        return None;
    }
    if backends.len() > 1 {
        let message = format!(
            "Envoy selects one of the {} backends of the rule by weight for each request, and a session only selects \
             the endpoint in this backend: clients change between backends, and get a new session with each change. \
             Use one backendRef",
            backends.len(),
        );
        ignored.push(Flaw::new(FIELD, message));
    }
    Some(PersistentSession { name: read.name.unwrap_or_else(|| default().into()), carrier: read.carrier })
}

fn below(field: &str) -> String {
    format!("{FIELD}.{field}")
}

/// Returns why a name cannot be used.
fn name_fault(name: &str, in_header: bool) -> Option<String> {
    if name.len() > SESSION_NAME_BYTES_MAX {
        return Some(format!("has {} bytes; at most {SESSION_NAME_BYTES_MAX} are allowed", name.len()));
    }
    if !in_header {
        let lower = name.to_ascii_lowercase();
        if let Some(prefix) = PREFIXES.into_iter().find(|prefix| lower.starts_with(prefix)) {
            return Some(format!(
                "begins with {prefix:?}: clients drop such a cookie for many routes; use another name"
            ));
        }
        return header::cookie_name(name).err().map(|fault| fault.to_string());
    }
    if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        return Some(format!("header {name:?} cannot carry a session; use a name that no other header has"));
    }
    header::modifiable_name(name).err().map(|fault| fault.to_string())
}

/// Reads a time in whole seconds, which is what a cookie can have.
fn seconds(field: &str, written: Option<&str>, flaws: &mut Vec<Flaw>) -> Option<u32> {
    let time = match holdfast_check::duration::duration(written?) {
        Ok(time) => time,
        Err(fault) => {
            flaws.push(Flaw::new(below(field), fault));
            return None;
        }
    };
    // The longest duration of Gateway API has 1,439,985,600 seconds.
    let whole = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    if whole == 0 {
        flaws.push(Flaw::new(below(field), "must be at least 1s"));
    }
    Some(whole)
}
