//! Tests of the plan as a function: which objects go back, which are closed, and for which causes. Kinds are made up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cost;
mod must_not;
mod oracle;
mod properties;
mod stories;
mod travel;
mod world;
