//! Edits through a real Envoy: the time from an edit of a file to the first changed answer.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, envoy};
use tokio::time::sleep;

use crate::answers::Answers;
use crate::edits::PAUSE;
use crate::fixture::Fixture;
use crate::objects::Edited;
use crate::percentiles::Percentiles;
use crate::report::{EnvoySection, ThroughEnvoy};
use crate::{file_envoy, isolation, start};

/// Measures edits through an Envoy, if one is available.
pub(crate) async fn measure(fixture: &Fixture<'_>, edited: &mut Edited, count: usize) -> Result<EnvoySection> {
    let envoy = match envoy::find() {
        Ok(envoy) => envoy,
        Err(reason) => return Ok(EnvoySection::Skipped(reason)),
    };
    let edit_milliseconds = Percentiles::of(&edits(fixture, &envoy, edited, count).await?);
    let floor = file_envoy::edits(fixture.world, &envoy, fixture.endpoint, count).await?;
    let file_milliseconds = Percentiles::of(&floor);
    let isolation = isolation::measure(fixture, edited, count.div_ceil(2)).await?;
    Ok(EnvoySection::Measured(ThroughEnvoy { edit_milliseconds, file_milliseconds, isolation }))
}

/// Returns the time of each edit of the edited route.
async fn edits(fixture: &Fixture<'_>, envoy: &Path, edited: &mut Edited, count: usize) -> Result<Vec<Duration>> {
    let options = options(fixture, "edits", envoy, "off")?;
    let holdfast = started(fixture, options, edited).await?;
    let mut answers = Answers::of(fixture.port, &fixture.edited_host());
    let mut times = Vec::new();
    for _ in 0..count {
        edited.value += 1;
        let began = fixture.edit_file(edited)?;
        times.push(answers.until(&edited.header()).await? - began);
        sleep(PAUSE).await;
    }
    holdfast.terminate().await?.expect_code(0)?;
    Ok(times)
}

/// Returns options with a data folder of this name, a managed Envoy of this program, and a value of `--probe`.
pub(crate) fn options(fixture: &Fixture<'_>, name: &str, envoy: &Path, probe: &str) -> Result<HoldfastOptions> {
    let mut options = fixture.options(probe)?;
    options.data = fixture.world.folder().join(format!("data-{name}"));
    Ok(options.env("ENVOY_BIN", &envoy.display().to_string()))
}

/// Starts Holdfast and waits until the Envoy answers for the edited route, and Holdfast is idle.
pub(crate) async fn started(fixture: &Fixture<'_>, options: HoldfastOptions, edited: &Edited) -> Result<Holdfast> {
    fixture.edit_file(edited)?;
    let holdfast = Holdfast::start(fixture.world, options)?;
    Answers::of(fixture.port, &fixture.edited_host()).until(&edited.header()).await?;
    start::idle(holdfast.id()).await?;
    Ok(holdfast)
}
