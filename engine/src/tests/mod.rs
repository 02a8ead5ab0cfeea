//! Tests of translation that drive an engine.

mod policies;
mod translation;
mod visits;
