//! Headings of flags in the help of commands.
//!
//! `run` has so many flags that each is under a heading. Flags that other commands share have the same heading there.
//!
//! `next_help_heading` of flattened flags also applies to the flags after them: these have a `help_heading`.

/// Objects from files.
pub(crate) const STANDALONE: &str = "Standalone mode";
/// Objects from an API server.
pub(crate) const KUBERNETES: &str = "Kubernetes";
/// Leader election, and what replicas share.
pub(crate) const REPLICAS: &str = "Replicas";
/// Envoys that Holdfast deploys.
pub(crate) const PROVISION: &str = "Envoys in the cluster";
/// Envoys that Holdfast starts as processes.
pub(crate) const MANAGED: &str = "Managed Envoys";
/// The Envoy that tries changed configuration first.
pub(crate) const PROBE: &str = "Probe";
/// Addresses of listeners and of backends.
pub(crate) const ADDRESSES: &str = "Listeners and backends";
/// Feature gates, and what is served instead of broken objects.
pub(crate) const FALLBACK: &str = "Feature gates and fallback";
/// HTTPProxies.
pub(crate) const PROXIES: &str = "HTTPProxies";
/// The global rate limits of HTTPProxies.
pub(crate) const RATE_LIMITS: &str = "Global rate limits";
/// The server to which Envoys connect.
pub(crate) const XDS: &str = "xDS server";
/// Data on disk.
pub(crate) const STORE: &str = "Data and store";
/// Pages and metrics.
pub(crate) const DIAGNOSTICS: &str = "Diagnostics and metrics";
/// Answers to `kubectl apply`.
pub(crate) const WEBHOOK: &str = "Admission webhook";
/// The log.
pub(crate) const LOG: &str = "Log";
