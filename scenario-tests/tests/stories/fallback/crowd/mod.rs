//! Fairness beside a crowd: objects of other namespaces change all the time, and Envoy refuses a share of the changes.
//! One innocent namespace makes edits of every sort in turn; the duration of each is measured from the write of the file
//! to the first correct response.
//!
//! The default run is one small row with a generous limit. `HOLDFAST_FIGURES=1` runs the [table](rows::ROWS), and
//! `HOLDFAST_FIGURES=NAME` the row of that name.

mod durations;
mod edits;
mod innocent;
mod refusals;
mod row;
mod rows;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::{Story, World, stories};

use row::Row;
use rows::{ROWS, SMALL};

pub(crate) fn stories() -> Vec<Story> {
    stories!("fallback::fair", true, [crowd])
}

/// Returns the rows of this run: the named one, all, or the small one.
fn selected() -> Vec<&'static Row> {
    let Ok(wanted) = std::env::var("HOLDFAST_FIGURES") else { return vec![&SMALL] };
    let named: Vec<&Row> = ROWS.iter().chain([&SMALL]).filter(|row| row.name == wanted).collect();
    if named.is_empty() { ROWS.iter().collect() } else { named }
}

async fn crowd(_: World) -> Result<()> {
    for row in selected() {
        let durations = row.run(&World::new()?).await?;
        eprint!("{durations}");
        if row.name == SMALL.name {
            ensure!(durations.all_served(), "an edit is not served within {:?}", row.edit_max);
        }
    }
    Ok(())
}
