//! `sessionPersistence` of the rules of HTTPRoutes and GRPCRoutes, a field of the experimental channel.
//!
//! <https://gateway-api.sigs.k8s.io/geps/gep-1619/>

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Persistence of the sessions of a rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// The name of the cookie or header.
    pub session_name: Option<Arc<str>>,
    /// The time after which a session ends, as a duration of Gateway API.
    pub absolute_timeout: Option<Arc<str>>,
    /// The time without requests after which a session ends. CRDs before Gateway API 1.6 have this field.
    pub idle_timeout: Option<Arc<str>>,
    /// Where the session is in a request; a cookie by default.
    pub r#type: Option<SessionType>,
    /// Settings of a cookie.
    pub cookie_config: Option<CookieConfig>,
}

/// Where the session is in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum SessionType {
    /// In a cookie.
    #[default]
    Cookie,
    /// In a header.
    Header,
}

/// Settings of the cookie of a session.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieConfig {
    /// How long a client keeps the cookie.
    pub lifetime_type: Option<CookieLifetime>,
}

/// How long a client keeps a cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum CookieLifetime {
    /// Until the client ends.
    #[default]
    Session,
    /// Until the session ends.
    Permanent,
}
