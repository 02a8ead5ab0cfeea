//! Story runner: runs several stories concurrently, each with its own world and a deadline, and shows the logs of a
//! story that fails.
//!
//! Where no Envoy is available, the stories that need one are listed as skipped, each by its name, and counted as
//! ignored in the summary: no story passes silently. Under `CI=true` a missing tool fails the stories that need it.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::{binary, envoy, world::World};

/// Maximum duration of one story: a multiple of what the longest needs beside others on two busy cores.
const STORY_MAX: Duration = Duration::from_secs(600);
/// Maximum duration of one story that measures (`HOLDFAST_FIGURES`): a figure of many samples takes longer.
const MEASUREMENT_MAX: Duration = Duration::from_secs(1800);
/// Default number of concurrent stories where `--test-threads` is not set: stories mostly wait, so it exceeds the
/// number of cores.
const AT_ONCE: usize = 5;

type StoryFuture = Pin<Box<dyn Future<Output = Result<()>> + Send>>;
type StoryFn = fn(World) -> StoryFuture;

/// A story: its name, whether it needs an Envoy, and its function.
#[derive(Clone, Copy)]
pub struct Story {
    /// `theme::name`, as shown and as used by filters.
    pub name: &'static str,
    /// Whether the story needs an Envoy.
    pub needs_envoy: bool,
    /// Runs the story; returns its future, boxed.
    pub run: StoryFn,
}

/// A tool that a story needs and that is not there.
#[derive(Clone, Debug)]
pub struct MissingTool {
    /// The reason, with the remedy.
    pub why: String,
    /// Whether the story fails under `CI=true` instead of being skipped.
    pub fails_in_ci: bool,
}

impl From<String> for MissingTool {
    /// A tool that this repository builds or fetches.
    fn from(why: String) -> Self {
        Self { why, fails_in_ci: true }
    }
}

/// Lists the stories of a theme by their functions: `stories!("matching", true, [exact, prefix])`; the flag is
/// [`Story::needs_envoy`].
#[macro_export]
macro_rules! stories {
    ($theme:literal, $needs_envoy:literal, [$($story:ident),* $(,)?]) => {
        vec![$($crate::Story {
            name: concat!($theme, "::", stringify!($story)),
            needs_envoy: $needs_envoy,
            run: |world| Box::pin($story(world)),
        }),*]
    };
}

/// Runs the stories that the command line selects.
pub fn run(stories: &[Story]) -> ExitCode {
    run_at_once(stories, AT_ONCE)
}

/// A tool that the stories of a theme need: the beginning of their names, and the search for the tool.
pub type ThemeTool = (&'static str, fn() -> Result<(), MissingTool>);

/// Runs the stories that the command line selects. Those of these themes need a tool besides Envoy.
pub fn run_with_theme_tools(stories: &[Story], tools: &[ThemeTool]) -> ExitCode {
    let mut missing_tools = Vec::new();
    for (theme, search) in tools {
        if is_needed(stories, |story| story.name.starts_with(theme)) {
            missing_tools.extend(search().err().map(|missing| (*theme, missing)));
        }
    }
    let no_envoy = no_envoy(stories);
    let missing = |story: &Story| {
        let of_theme = missing_tools.iter().find(|(theme, _)| story.name.starts_with(theme));
        let of_theme = of_theme.map(|(_, missing)| missing.clone());
        of_theme.or_else(|| no_envoy.clone().filter(|_| story.needs_envoy))
    };
    run_with_tools(stories.iter().map(|story| (*story, missing(story))).collect(), AT_ONCE)
}

/// Runs the stories that the command line selects, with the given concurrency where the command line does not specify
/// it.
pub fn run_at_once(stories: &[Story], at_once: usize) -> ExitCode {
    let no_envoy = no_envoy(stories);
    let missing = |story: &Story| no_envoy.clone().filter(|_| story.needs_envoy);
    run_with_tools(stories.iter().map(|story| (*story, missing(story))).collect(), at_once)
}

/// Runs long stories that the command line selects, one after the other, with the given maximum duration of each.
pub fn run_within(stories: &[Story], limit: Duration) -> ExitCode {
    let no_envoy = no_envoy(stories);
    let missing = |story: &Story| no_envoy.clone().filter(|_| story.needs_envoy);
    run_limited(stories.iter().map(|story| (*story, missing(story))).collect(), 1, limit)
}

/// Returns why there is no Envoy; `None` if no selected story needs one.
fn no_envoy(stories: &[Story]) -> Option<MissingTool> {
    let needed = is_needed(stories, |story| story.needs_envoy);
    if needed { envoy::find().err().map(MissingTool::from) } else { None }
}

/// Returns whether one of the stories that the command line runs needs a tool.
fn is_needed(stories: &[Story], needs: impl Fn(&Story) -> bool) -> bool {
    let arguments = Arguments::from_args();
    let is_selected = |story: &Story| arguments.filter.as_deref().is_none_or(|filter| story.name.contains(filter));
    !arguments.list && stories.iter().any(|story| needs(story) && is_selected(story))
}

/// Lists all stories that the command line selects as skipped, each by its name, with the reason.
pub fn skip(stories: &[Story], why: &str) -> ExitCode {
    let none = stories.iter().map(|story| (*story, Some(MissingTool { why: why.to_owned(), fails_in_ci: false })));
    run_with_tools(none.collect(), 1)
}

/// Skips all stories because a tool that this repository builds is missing; fails them under `CI=true`.
pub fn without_tools(stories: &[Story], why: &str) -> ExitCode {
    run_with_tools(stories.iter().map(|story| (*story, Some(why.to_owned().into()))).collect(), 1)
}

/// Runs the stories with the given concurrency; a story with a missing tool is skipped by name, or fails under `CI=true`.
pub fn run_with_tools(stories: Vec<(Story, Option<MissingTool>)>, at_once: usize) -> ExitCode {
    run_limited(stories, at_once, story_max())
}

fn run_limited(stories: Vec<(Story, Option<MissingTool>)>, at_once: usize, limit: Duration) -> ExitCode {
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(at_once);
    let is_selected = |story: &Story| arguments.filter.as_deref().is_none_or(|filter| story.name.contains(filter));
    for (story, missing) in stories.iter().filter(|(story, _)| is_selected(story) && !arguments.list) {
        if let Some(why) = missing {
            let _ = writeln!(std::io::stderr(), "SKIPPED {}: {}", story.name, why.why);
        }
    }
    let trial = move |(story, missing): (Story, Option<MissingTool>)| match missing {
        None => Trial::test(story.name, move || run_story(story, limit).map_err(Failed::from)),
        Some(MissingTool { why, fails_in_ci: true }) if in_ci => {
            Trial::test(story.name, move || Err(Failed::from(format!("skipped under CI=true: {why}"))))
        }
        Some(_) => Trial::test(story.name, || Ok(())).with_ignored_flag(true),
    };
    libtest_mimic::run(&arguments, stories.into_iter().map(trial).collect()).exit_code()
}

/// Runs one story to its end; on failure returns the error and the logs of its processes.
fn run_story(story: Story, limit: Duration) -> Result<(), String> {
    let failure = |error: anyhow::Error| format!("{} fails: {error:#}", story.name);
    let (outcome, logs) = in_a_world(story, limit).map_err(failure)?;
    outcome.map_err(failure).map_err(|failure| format!("{failure}\n{logs}--- the error again\n{failure}"))
}

/// Maximum duration of one story. `HOLDFAST_ADVERSARY_SECONDS` makes one story longer by this number of seconds.
fn story_max() -> Duration {
    let limit = std::env::var_os("HOLDFAST_FIGURES").map_or(STORY_MAX, |_| MEASUREMENT_MAX);
    let longer = std::env::var("HOLDFAST_ADVERSARY_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    limit + Duration::from_secs(longer.unwrap_or(0))
}

fn in_a_world(story: Story, limit: Duration) -> Result<(Result<()>, String)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let world = World::new()?;
    // The first story builds the program, which is no part of its time. An error is that of the story that runs it.
    let _ = binary::holdfast();
    let outcome = runtime.block_on(async {
        tokio::time::timeout(limit, (story.run)(world.clone()))
            .await
            .unwrap_or_else(|_| anyhow::bail!("the story did not end within {} s", limit.as_secs()))
    });
    let logs = if outcome.is_err() { world.logs() } else { String::new() };
    runtime.shutdown_timeout(Duration::from_secs(5));
    world.end();
    Ok((outcome, logs))
}
