//! Context: the inputs of one step of a scope, and trials as data.
//!
//! The room holds data that every other room receives. It decides nothing.

pub mod step_inputs;
pub mod trial;
