//! Context: the identity of a scope, the inputs of one step, and trials as data.
//!
//! The room holds data that every other room receives. It decides nothing.

pub mod next;
pub mod scope_id;
pub mod step_inputs;
pub mod trial;
