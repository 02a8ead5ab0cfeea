//! Figures of the sources that may only fall: `tests/ratchets.yaml` has one section for each, by file or by name.
//!
//! `HOLDFAST_GOLDEN=write cargo test -p holdfast-tests ratchets` records figures that fell. It records a section only
//! if the sum of its figures does not grow, so that a file can be moved and no sum can get worse.

mod structure;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use super::{code, files, shown, top};

/// A section: a figure for each file or name.
type Figures = BTreeMap<String, usize>;

/// Sources of the product.
const PRODUCT: [&str; 4] = ["graph", "store", "xds", "engine"];
/// Sources of the product and of all tests.
const SOURCES: [&str; 7] = ["graph", "store", "xds", "engine", "tests", "scenario-tests", "fuzz"];

fn sources(rooms: &[&str]) -> Vec<PathBuf> {
    let all = rooms.iter().flat_map(|room| files(room, &[".rs"]));
    // The list of private words, and its test, contain these words.
    all.filter(|path| !shown(path).ends_with("ratchets/vocabulary.rs")).collect()
}

/// Returns the figure of each file; files with the figure 0 are left out.
fn by_file(paths: Vec<PathBuf>, figure: impl Fn(&PathBuf) -> usize) -> Figures {
    paths.iter().map(|path| (shown(path), figure(path))).filter(|(_, count)| *count > 0).collect()
}

fn private<'a>(lines: impl IntoIterator<Item = &'a str>) -> usize {
    lines.into_iter().filter(|line| vocabulary::is_private(line)).count()
}

fn path() -> PathBuf {
    top().join("tests/ratchets.yaml")
}

fn recorded() -> BTreeMap<String, Figures> {
    serde_saphyr::from_str(&fs::read_to_string(path()).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the text of the file with all sections.
fn text(sections: &BTreeMap<String, Figures>) -> String {
    let mut text = String::from("# Figures of the sources that may only fall; see tests/tests/all/house/ratchets.\n");
    for (section, figures) in sections {
        let _ = writeln!(text, "{section}:{}", if figures.is_empty() { " {}" } else { "" });
        for (name, figure) in figures {
            let _ = writeln!(text, "  {name:?}: {figure}");
        }
    }
    text
}

/// Compares figures with the recorded ones.
fn ratchet(sections: BTreeMap<String, Figures>, advice: &str) {
    let mut all = recorded();
    let mut offences = Vec::new();
    for (section, now) in sections {
        // A section that is not recorded is new.
        let before = all.entry(section.clone()).or_insert_with(|| now.clone());
        let (sum, limit) = (now.values().sum::<usize>(), before.values().sum::<usize>());
        if sum <= limit {
            *before = now;
            continue;
        }
        offences.push(format!("{section}: {sum} in all, at most {limit} are allowed"));
        for name in now.keys().chain(before.keys()).collect::<BTreeSet<_>>() {
            let [figure, limit] = [&now, &*before].map(|figures| figures.get(name).copied().unwrap_or_default());
            offences.extend((figure != limit).then(|| format!("{section}: {name}: {figure}, recorded {limit}")));
        }
    }
    // A section that grew keeps its recorded figures: all others are compared or written.
    let difference = holdfast_golden::difference(path(), &text(&all));
    assert!(offences.is_empty(), "figures that may only fall:\n  {}\n{advice}", offences.join("\n  "));
    if let Some(lines) = difference {
        panic!("figures that are not recorded:\n{lines}{}", holdfast_golden::advice());
    }
}

/// One test for all ratchets, since they share one file.
#[test]
fn figures_only_fall() {
    let mut sections = BTreeMap::new();
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let comments = by_file(sources(&SOURCES), |path| private(vocabulary::comments(&read(path))));
    let documents = ["docs", "charts"].into_iter().flat_map(|room| files(room, &[".md", ".txt"]));
    let documents = documents.chain(["README.md", "SECURITY.md"].map(|name| top().join(name))).collect();
    let documents = by_file(documents, |path| private(vocabulary::prose(&read(path))));
    let texts = by_file(sources(&PRODUCT), |path| {
        let mut literals = Vec::new();
        vocabulary::literals(code(path).parse().unwrap_or_default(), &mut literals);
        private(literals.iter().map(String::as_str))
    });
    let names = by_file(sources(&SOURCES), |path| {
        let mut names = Vec::new();
        vocabulary::names(read(path).parse().unwrap(), &mut names);
        names.iter().filter(|name| vocabulary::is_private_name(name)).count()
    });
    sections.insert("privateWordsInComments".to_owned(), comments);
    sections.insert("privateWordsInNames".to_owned(), names);
    sections.insert("privateWordsInDocuments".to_owned(), documents);
    sections.insert("privateWordsInTexts".to_owned(), texts);
    let paths = sources(&PRODUCT);
    let parsed: Vec<structure::ParsedSource> = paths.iter().map(|path| structure::ParsedSource::read(path)).collect();
    sections.insert("envoyTypesOutsideTheirRooms".to_owned(), structure::envoy_types(&parsed));
    sections.insert("filesWithMethodsOfOneType".to_owned(), structure::scattered(&parsed));
    sections.insert("kindsAsStrings".to_owned(), structure::kinds(&parsed));
    sections.insert("linesOfLongFunctions".to_owned(), structure::long_functions(&parsed));
    sections.insert("typesThatShareAName".to_owned(), structure::shared_names(&parsed));
    ratchet(sections, &format!("Instead of private words:{}", vocabulary::replacements()));
}
