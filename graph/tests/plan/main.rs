//! The plan as a function: who goes back, who is closed, and because of whom. Kinds are made up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cost;
mod must_not;
mod oracle;
mod properties;
mod stories;
mod travel;
mod world;
