//! No request passes without the protection of a policy: every field, at every level, certificates of clients and
//! backends included, broken in every way, under every combination of gates, while Holdfast is killed and terminated,
//! under continuous unauthorized requests.
//!
//! The story starts its own Envoys, which continue without Holdfast; their RE2 program size limit is lower than
//! Holdfast expects, so that they refuse configuration that translation accepts.

mod gates;
mod guard;
mod level;
mod plan;
mod revoked;
mod round;
mod tls;

use std::io::Write;

use anyhow::Result;
use holdfast_scenario_tests::{Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    let mut all = stories!("policies::never", false, [every_pair_is_tried]);
    all.extend(stories!(
        "policies::never",
        true,
        [
            through_held,
            through_held_without_replacement,
            through_isolated,
            through_isolated_without_replacement,
            through_last_valid,
            through_last_valid_without_replacement,
            through_last_valid_alone,
            through_last_valid_alone_without_replacement,
            through_unresolved,
            through_unresolved_without_replacement,
            through_unresolved_alone,
            through_unresolved_alone_without_replacement,
            revoked_while_held,
            revoked_while_isolated,
            revoked_with_last_valid_versions,
        ]
    ));
    all
}

async fn every_pair_is_tried(_world: World) -> Result<()> {
    let cells = plan::check()?;
    let fields = guard::FIELDS.len();
    writeln!(
        std::io::stderr(),
        "policies::never: {cells} cells of {fields} fields, {} levels and {} combinations of gates, each broken in {} ways",
        level::AttachmentLevel::ALL.len(),
        gates::ALL.len(),
        round::WAYS.len()
    )?;
    Ok(())
}

/// A story for each combination of gates.
async fn through(world: World, number: usize) -> Result<()> {
    round::run(&world, gates::ALL[number], &plan::rounds(number)).await
}

async fn through_held(world: World) -> Result<()> {
    through(world, 0).await
}

async fn through_held_without_replacement(world: World) -> Result<()> {
    through(world, 1).await
}

async fn through_isolated(world: World) -> Result<()> {
    through(world, 2).await
}

async fn through_isolated_without_replacement(world: World) -> Result<()> {
    through(world, 3).await
}

async fn through_last_valid(world: World) -> Result<()> {
    through(world, 4).await
}

async fn through_last_valid_without_replacement(world: World) -> Result<()> {
    through(world, 5).await
}

async fn through_last_valid_alone(world: World) -> Result<()> {
    through(world, 6).await
}

async fn through_last_valid_alone_without_replacement(world: World) -> Result<()> {
    through(world, 7).await
}

async fn through_unresolved(world: World) -> Result<()> {
    through(world, 8).await
}

async fn through_unresolved_without_replacement(world: World) -> Result<()> {
    through(world, 9).await
}

async fn through_unresolved_alone(world: World) -> Result<()> {
    through(world, 10).await
}

async fn through_unresolved_alone_without_replacement(world: World) -> Result<()> {
    through(world, 11).await
}

async fn revoked_while_held(world: World) -> Result<()> {
    revoked::run(world, gates::ALL[0]).await
}

async fn revoked_while_isolated(world: World) -> Result<()> {
    revoked::run(world, gates::ALL[3]).await
}

async fn revoked_with_last_valid_versions(world: World) -> Result<()> {
    revoked::run(world, gates::ALL[4]).await
}
