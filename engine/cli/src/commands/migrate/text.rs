//! Text form of the report.

use super::report::{MigratedObject, MigrationEntry, MigrationReport};
use super::rules::MigrationAspect;
use crate::lines::Lines;

/// The report as lines: a part for each object, and a summary.
pub(super) fn format(report: &MigrationReport) -> String {
    let mut text = Lines::default();
    for object in &report.entries {
        write_object(object, &mut text);
        text.part();
    }
    let summary = &report.summary;
    text.add(format_args!(
        "from {}: {} files, {} objects: {} differ, {} not served, {} not valid, {} unreadable; {} to change",
        report.source.name(),
        report.files,
        report.objects,
        summary.differs,
        summary.not_served,
        summary.not_valid,
        summary.unreadable,
        summary.to_change,
    ));
    text.text()
}

fn write_object(object: &MigratedObject, text: &mut Lines) {
    if !object.object.is_empty() {
        text.add(format_args!("{}", object.object));
    }
    for entry in &object.entries {
        text.add(format_args!("  {}: {}", place(&object.file, entry), sentence(entry)));
        let Some(instead) = &entry.instead else { continue };
        text.add(format_args!("    instead: {}", instead.text));
        if !instead.yaml.is_empty() {
            text.add(format_args!("      {}", instead.yaml));
        }
    }
}

/// `file:line:column`, as far as they are known.
fn place(file: &str, entry: &MigrationEntry) -> String {
    let numbers = [entry.line, entry.column].into_iter().filter(|number| *number > 0);
    numbers.fold(file.to_owned(), |place, number| format!("{place}:{number}"))
}

/// `not served: field: message`.
fn sentence(entry: &MigrationEntry) -> String {
    let aspect = match entry.aspect {
        MigrationAspect::Differs => "differs",
        MigrationAspect::NotServed => "not served",
        MigrationAspect::NotValid => "not valid",
        MigrationAspect::Unreadable => "unreadable",
    };
    let field = if entry.field.is_empty() { String::new() } else { format!("{}: ", entry.field) };
    format!("{aspect}: {field}{}", entry.message)
}
