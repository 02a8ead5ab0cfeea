//! The next command to type for a finding.

use holdfast_api::apis::core::endpoint_slice::SERVICE_LABEL;

use super::facts::{NO_ENDPOINTS, ObjectProblem};
use super::view::{DetectedBy, ManifestPosition};

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
    if let Some(ManifestPosition { file, line }) = place {
        let file = quoted(file);
        return format!("edit {file} at line {line}, then: holdfast check {file}");
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

/// Quotes a word for a shell.
pub(super) fn quoted(word: &str) -> String {
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
