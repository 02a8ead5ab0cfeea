//! Positions of fields at fault, for the health page. A running Holdfast keeps only the line of each object: the files of
//! the objects at fault are read again. An object that is no longer at its line keeps the position of that line.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use holdfast_engine::health::locate_fields;
use holdfast_engine::health::view::{HealthFinding, ObjectAtFault};

use super::entry::{KeptOfManifest, ManifestEntry, contents};

/// Maximum number of files that are read again for one page.
const REREAD_FILES_MAX: usize = 20;
/// Maximum size of a file that is read again, in bytes.
const REREAD_BYTES_MAX: u64 = 256 * 1024;

/// The objects of the files that were read again.
#[derive(Default)]
struct RereadFiles(BTreeMap<Arc<str>, Vec<Arc<ManifestEntry>>>);

impl RereadFiles {
    /// Returns the position of the field at fault of an object, as line and column.
    fn find(&mut self, object: &ObjectAtFault) -> Option<(u32, u32)> {
        let place = object.place.as_ref().filter(|_| !object.field.is_empty())?;
        if !self.0.contains_key(&place.file) && self.0.len() >= REREAD_FILES_MAX {
            return None;
        }
        let entries = self.0.entry(place.file.clone()).or_insert_with(|| read(&place.file));
        let is_same = |entry: &&Arc<ManifestEntry>| entry.source.line == place.line && object.object.is(&entry.key);
        let marks = entries.iter().find(is_same)?.marks.as_ref()?;
        Some(marks.find(&object.field))
    }
}

/// Replaces the lines of objects at fault by the positions of their fields. Reads files: it blocks.
pub fn locate<'a>(findings: impl IntoIterator<Item = &'a mut HealthFinding>) {
    let mut files = RereadFiles::default();
    for finding in findings {
        locate_fields(finding, |object| files.find(object));
    }
}

/// Returns the objects of a regular file within the limit; of any other file, none.
fn read(file: &Arc<str>) -> Vec<Arc<ManifestEntry>> {
    let path = Path::new(&**file);
    let is_small = fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= REREAD_BYTES_MAX);
    let mut bytes = Vec::new();
    let read = is_small.then(|| File::open(path).and_then(|file| file.take(REREAD_BYTES_MAX).read_to_end(&mut bytes)));
    match read {
        Some(Ok(_)) => contents(file, &bytes, KeptOfManifest::Marks).entries,
        Some(Err(_)) | None => Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_engine::health::Health;
    use serde_json::json;

    use super::*;

    const ROUTE: &str = "# routes\n\
        apiVersion: gateway.networking.k8s.io/v1\n\
        kind: HTTPRoute\n\
        metadata: {name: cart, namespace: shop}\n\
        spec:\n  rules:\n  - matches:\n    - path: {type: RegularExpression, value: '['}\n";

    /// Returns line, column and next step of a finding about a field of an HTTPRoute at line 2.
    fn located(file: &str, name: &str, field: &str) -> (u32, Option<u32>, String) {
        let mut health = Health::default();
        let finding = json!({
            "reason": "InvalidRegex", "message": "", "detectedBy": "translation", "served": [], "gateways": [],
            "since": null, "next": format!("edit {file} at line 2, then: holdfast check {file}"),
            "objects": [{
                "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "version": "v1", "namespace": "shop",
                "name": name, "id": "1", "generation": 1, "field": field, "since": null,
                "place": {"file": file, "line": 2},
            }],
        });
        health.outages.push(serde_json::from_value(finding).unwrap());
        locate(health.findings_mut());
        let finding = health.outages.remove(0);
        let place = finding.objects[0].place.clone().unwrap();
        (place.line, place.column, finding.next)
    }

    #[test]
    fn the_position_is_the_one_of_the_field_as_long_as_the_object_is_at_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("route.yaml").display().to_string();
        fs::write(&file, ROUTE).unwrap();
        let next = |line: u32| format!("edit {file} at line {line}, then: holdfast check {file}");
        assert_eq!(located(&file, "cart", "spec.rules[0].matches[0].path.value"), (8, Some(39), next(8)));
        assert_eq!(located(&file, "cart", "spec.rules[0].backendRefs[0].name"), (7, Some(5), next(7)));
        for (name, field) in [("cart", ""), ("pay", "spec")] {
            assert_eq!(located(&file, name, field), (2, None, next(2)), "{name} {field}");
        }
        fs::write(&file, format!("# more\n{ROUTE}")).unwrap();
        assert_eq!(located(&file, "cart", "spec"), (2, None, next(2)), "the file has changed");
        fs::write(&file, format!("{ROUTE}# {}\n", "x".repeat(300_000))).unwrap();
        assert_eq!(located(&file, "cart", "spec"), (2, None, next(2)), "the file is too large");
        fs::remove_file(&file).unwrap();
        assert_eq!(located(&file, "cart", "spec"), (2, None, next(2)), "the file is gone");
        assert_eq!(located("/dev/zero", "cart", "spec").1, None);
    }
}
