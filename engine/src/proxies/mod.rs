//! What HTTPProxies mean, apart from everything around them: trees of includes, merged conditions, duplicates, prefix
//! rewriting, the order of routes, and the status that each proxy gets.
//!
//! Pure functions over proxies as they were decoded. Who reads objects, resolves Services and makes routes of all this
//! is `translate/proxy/`; nothing here knows Envoy.

pub(crate) mod budgets;
pub(crate) mod conditions;
pub(crate) mod duplicates;
pub(crate) mod finding;
pub(crate) mod order;
pub(crate) mod path;
pub(crate) mod rewrite;
pub(crate) mod status;
pub(crate) mod tree;
