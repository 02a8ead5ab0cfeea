//! Tests of the store on the disk: what is kept, what survives damage, kills and full disks, and what is never
//! revealed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod basics;
mod common;
mod damage;
mod fixtures;
mod foreign;
mod full;
mod generations;
mod kills;
mod sealing;
mod shards;
