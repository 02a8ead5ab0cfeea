//! Test support: engines that have processed YAML texts, simulated Envoys, and scopes with random changes.
//!
//! No product crate depends on this one, except its tests. The unit tests of `holdfast-fallback` and `holdfast-engine`
//! compile the folder of their crate as a module of their own, so that it uses the crate under test.

extern crate self as holdfast_test_support;

pub mod engine;
pub mod expressions;
pub mod fallback;
pub mod matches;
pub mod texts;

pub use engine::{SAMPLE, engine, facts, played, scopes, served, unreported};
pub use fallback::{event, events, plans, present};
pub use holdfast_test_objects::{documents, mutate};
