//! Semantics of HTTPProxies: include trees, merged conditions, duplicates, prefix rewriting, order of routes, and
//! status.
//!
//! Pure functions over decoded HTTPProxies. `translate/proxy/` looks up objects, resolves Services and makes routes of
//! the results; this module does not know Envoy.

pub mod budgets;
pub mod conditions;
pub mod duplicates;
pub mod finding;
pub mod order;
pub mod path;
pub mod rewrite;
pub mod status;
pub mod tree;
