//! Replication: a scope at a follower, and reports of the answers of its Envoys for the leader.
//!
//! A follower convicts and promotes nothing. The leader election is implemented elsewhere.

pub(crate) mod following;
pub(crate) mod observation;
