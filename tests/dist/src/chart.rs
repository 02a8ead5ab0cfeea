//! The chart as a package, with the images of this run in its values: by digest, so that a tag cannot change them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::files::Files;
use crate::source::Source;

const CHART: &str = "charts/holdfast";
/// Name of the chart, which is the folder in its package.
const NAME: &str = "holdfast";

/// The images that a packaged chart names.
#[derive(Clone, Debug)]
pub(crate) struct ChartImages {
    pub(crate) repository: String,
    pub(crate) digest: String,
    /// Whether the image has an Envoy: deployed Envoys use it as well. Otherwise there is no probe.
    pub(crate) has_envoy: bool,
}

/// Returns the files of the package.
pub(crate) fn files(source: &Source, images: &ChartImages) -> Result<Files> {
    let mut files = Files::default();
    let folder = source.root.join(CHART);
    add(&mut files, &folder, NAME)?;
    let values =
        String::from_utf8(source.read(&format!("{CHART}/values.yaml"))?).context("values.yaml is not UTF-8")?;
    files.add(&format!("{NAME}/values.yaml"), pinned(&values, images)?);
    Ok(files)
}

/// Adds the files of a folder and of those in it.
fn add(files: &mut Files, folder: &Path, name: &str) -> Result<()> {
    let cannot_read = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot_read)? {
        let entry = entry.with_context(cannot_read)?;
        let (path, name) = (entry.path(), format!("{name}/{}", entry.file_name().to_string_lossy()));
        // The CRDs are links to one copy of them.
        if path.is_dir() {
            add(files, &path, &name)?;
        } else {
            files.add(&name, fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
        }
    }
    Ok(())
}

/// Returns the values with the images of this run; all other lines, and the comments, stay as they are.
fn pinned(values: &str, images: &ChartImages) -> Result<String> {
    let mut values = with(values, "image", "repository", &images.repository)?;
    values = with(&values, "image", "digest", &images.digest)?;
    if images.has_envoy {
        let image = format!("{}@{}", images.repository, images.digest);
        with(&values, "provision", "image", &image)
    } else {
        // The container of the probe would end at once.
        with(&values, "probe", "mode", "off")
    }
}

/// Returns the values with another text for a key of a top-level key.
fn with(values: &str, section: &str, key: &str, text: &str) -> Result<String> {
    let (begin, prefix) = (format!("{section}:"), format!("  {key}:"));
    let (mut is_inside, mut is_done) = (false, false);
    let mut lines = String::new();
    for line in values.lines() {
        if !line.starts_with([' ', '#']) && !line.is_empty() {
            is_inside = line == begin;
        }
        if is_inside && !is_done && line.starts_with(&prefix) {
            lines.push_str(&format!("{prefix} {}\n", serde_json::to_string(text)?));
            is_done = true;
        } else {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    is_done.then_some(lines).with_context(|| format!("the values of the chart have no {section}.{key}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::with;

    #[test]
    fn only_the_named_value_changes() {
        let values = "# a: comment\na:\n  # about b\n  b: 1\n  c: 2\nd:\n  b: 3\n";
        assert_eq!(with(values, "d", "b", "x").unwrap(), values.replace("b: 3", "b: \"x\""));
        assert_eq!(with(values, "a", "b", "x").unwrap(), values.replace("b: 1", "b: \"x\""));
        assert!(with(values, "d", "c", "x").is_err());
    }
}
