//! Semantics of HTTPProxies: include trees, merged conditions, duplicates, prefix rewriting, order of routes, and
//! status.
//!
//! Pure functions over decoded HTTPProxies. `translate/proxy/` looks up objects, resolves Services and makes routes of
//! the results; this module does not know Envoy.

pub(crate) mod budgets;
pub(crate) mod conditions;
pub(crate) mod duplicates;
pub(crate) mod finding;
pub(crate) mod order;
pub(crate) mod path;
pub(crate) mod rewrite;
pub(crate) mod status;
pub(crate) mod tree;
