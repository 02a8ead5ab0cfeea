//! The planner against its checker, and plans that were spoilt on purpose.

mod planner;
