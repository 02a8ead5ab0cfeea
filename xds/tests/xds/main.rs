//! Tests of the protocol from the outside: message by message against the state machine, and over loopback with a real
//! client.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod audiences;
mod authentication;
mod client;
mod delta;
mod hosts;
mod listening;
mod loopback;
mod met;
mod model;
mod notices;
mod order;
mod refusal;
mod script;
mod secure;
mod seeded;
mod sotw;
mod vocabulary;
