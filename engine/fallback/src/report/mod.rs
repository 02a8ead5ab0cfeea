//! Reports: the state of a scope as plain data.
//!
//! The room reads a scope and changes nothing; reports of all scopes are made in `report/` of the engine.

pub mod served_state;
pub mod view;
