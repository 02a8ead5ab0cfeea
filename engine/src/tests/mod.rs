//! Tests of translation that drive an engine.

mod default_gateways;
mod policies;
mod translated;
mod translation;
mod visits;
