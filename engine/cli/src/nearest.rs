//! The known name that is most similar to an unknown one, for messages about misspelt names.

/// The similarity from which a name is shown: below it, names have little in common.
const SIMILAR_MIN: f64 = 0.8;

/// The most similar of the known names; `None` if none is similar. Of equally similar names, the first.
pub(crate) fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(f64, &str)> = None;
    for name in known {
        let similarity = strsim::jaro_winkler(unknown, name);
        if similarity >= SIMILAR_MIN && best.is_none_or(|(before, _)| similarity > before) {
            best = Some((similarity, name));
        }
    }
    best.map(|(_, name)| name)
}
