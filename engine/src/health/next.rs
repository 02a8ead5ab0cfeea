//! The next command to type for a finding.

use holdfast_api::apis::core::endpoint_slice::SERVICE_LABEL;

use super::facts::{NO_ENDPOINTS, ObjectProblem};
use super::view::{DetectedBy, HealthFinding, ManifestPosition, ObjectAtFault};

/// Returns the next step for a finding: an edit in standalone mode, a command that shows the object in Kubernetes.
pub(super) fn next(found: &ObjectProblem, place: Option<&ManifestPosition>, kubernetes: bool) -> String {
    match found.detected {
        DetectedBy::Nack | DetectedBy::Probe | DetectedBy::Suspected => return "/debug/config/raw-error".to_owned(),
        DetectedBy::Envoys => return "/debug/envoys".to_owned(),
        DetectedBy::Translation => {}
    }
    if kubernetes && found.reason == NO_ENDPOINTS {
        let (namespace, name) = (&found.object.namespace, &found.object.name);
        return format!("kubectl --namespace {namespace} get endpointslices --selector {SERVICE_LABEL}={name}");
    }
    if let Some(place) = place {
        return edit(place);
    }
    if !kubernetes {
        return "/debug/faults".to_owned();
    }
    let object = &found.object;
    let kind = object.kind.to_lowercase();
    let resource = if object.group.is_empty() { kind } else { format!("{kind}.{}", object.group) };
    match object.namespace.is_empty() {
        true => format!("kubectl edit {resource} {}", object.name),
        false => format!("kubectl --namespace {} edit {resource} {}", object.namespace, object.name),
    }
}

/// Returns the edit of a manifest at this position as the next step.
fn edit(ManifestPosition { file, line, .. }: &ManifestPosition) -> String {
    let file = quoted(file);
    format!("edit {file} at line {line}, then: holdfast check {file}")
}

/// Replaces the positions of objects at fault by the positions of their fields, as line and column, where `find` returns
/// them. The next step of a finding follows its first object.
pub fn locate_fields(finding: &mut HealthFinding, mut find: impl FnMut(&ObjectAtFault) -> Option<(u32, u32)>) {
    let first = |finding: &HealthFinding| finding.objects.first().and_then(|object| object.place.as_ref()).map(edit);
    let is_edit = first(finding).as_ref() == Some(&finding.next);
    for object in &mut finding.objects {
        let found = find(object);
        if let (Some(place), Some((line, column))) = (&mut object.place, found) {
            (place.line, place.column) = (line, Some(column));
        }
    }
    if let Some(next) = first(finding).filter(|_| is_edit) {
        finding.next = next;
    }
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%=:,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_of_files_are_one_word_for_a_shell() {
        assert_eq!(quoted("/srv/a.yaml"), "/srv/a.yaml");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's; rm"), "'it'\\''s; rm'");
        assert_eq!(quoted(""), "''");
    }
}
