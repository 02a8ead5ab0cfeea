//! Steps of the page: commands and expected output.

use anyhow::{Result, ensure};

/// Commands and their expected output.
#[derive(Debug)]
pub(crate) struct PageStep {
    /// Lines for the shell.
    pub(crate) commands: String,
    /// Expected lines, each split into parts that one line of the output contains in this order; empty where the output
    /// is not checked.
    pub(crate) shown: Vec<Vec<String>>,
}

/// Returns every `sh` block, with the `text` block after it.
pub(crate) fn steps(page: &str) -> Result<Vec<PageStep>> {
    let mut steps: Vec<PageStep> = Vec::new();
    let mut block: Option<(&str, Vec<&str>)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), block.take()) {
            (Some(language), None) => block = Some((language, Vec::new())),
            (Some(_), Some(("sh", lines))) => steps.push(PageStep { commands: lines.join("\n"), shown: Vec::new() }),
            (Some(_), Some((language, lines))) => {
                ensure!(language == "text", "a block of {language:?}: only sh and text are understood");
                let parts = |line: &&str| line.split('…').map(|part| part.trim().to_owned()).collect();
                let step = steps.last_mut().filter(|step| step.shown.is_empty());
                ensure!(step.is_some(), "a text without commands: {lines:?}");
                step.into_iter().for_each(|step| step.shown = lines.iter().map(parts).collect());
            }
            (None, Some((language, mut lines))) => {
                lines.push(line);
                block = Some((language, lines));
            }
            (None, None) => {}
        }
    }
    ensure!(block.is_none() && steps.len() > 10, "the page is cut off");
    Ok(steps)
}

impl PageStep {
    /// Returns the first expected line that is missing in the output.
    pub(crate) fn missing(&self, output: &str) -> Option<String> {
        let in_order = |line: &str, parts: &[String]| {
            parts.iter().try_fold(line, |rest, part| rest.split_once(part.as_str()).map(|(_, rest)| rest)).is_some()
        };
        let absent = |parts: &&Vec<String>| !output.lines().any(|line| in_order(line, parts));
        self.shown.iter().find(absent).map(|parts| parts.join(" … "))
    }
}
