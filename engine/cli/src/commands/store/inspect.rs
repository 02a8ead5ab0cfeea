//! `holdfast store inspect`: the contents of a store, as tables or JSON. Payloads are never shown, whether of Secrets
//! or not.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use holdfast_store::sled::{Survey, SurveyedScope};
use serde_json::{Value, json};

use super::WhichStore;
use crate::cli::{DataFormat, TableFormat};
use crate::failure::Failure;
use crate::output::{self, age};

/// `holdfast store inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The store.
    #[command(flatten)]
    pub which: WhichStore,
    /// Form of the output
    #[arg(long, short, env = "CONTROLLER_OUTPUT", value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
}

/// Prints the contents of a store. Damage is printed to standard error.
///
/// # Errors
/// Returns an error if there is no store, or a running Holdfast uses it.
pub fn run(args: &InspectArgs) -> Result<ExitCode, Failure> {
    let (folder, survey) = super::look(&args.which)?;
    for line in &survey.damage {
        eprintln!("{}: {line}", folder.display());
    }
    let text = match args.output {
        TableFormat::Text => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            text(&survey, i64::try_from(now).unwrap_or(i64::MAX))
        }
        TableFormat::Json => output::format(&value(&survey), DataFormat::Json)?,
    };
    output::print(&text)
}

/// The contents as lines.
pub(super) fn text(survey: &Survey, now: i64) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(survey, now, &mut text);
    text
}

fn write(survey: &Survey, now: i64, text: &mut String) -> std::fmt::Result {
    let statistics = &survey.statistics;
    writeln!(
        text,
        "store of {:?}: generation {}, {} bytes on the disk",
        survey.identity, statistics.generation, statistics.bytes_on_disk
    )?;
    if survey.scopes.is_empty() {
        writeln!(text, "nothing is stored")?;
    }
    for SurveyedScope { scope, objects, resources, verdicts } in &survey.scopes {
        writeln!(text, "\nGateway {}, Envoy {}", scope.gateway, scope.build)?;
        let bytes: u64 = resources.iter().map(|resource| resource.bytes).sum();
        writeln!(text, "  acknowledged configuration: {} resources, {bytes} bytes", resources.len())?;
        if !objects.is_empty() {
            let width = objects.iter().map(|object| object.key.to_string().chars().count()).max().unwrap_or(0);
            writeln!(text, "  {:width$}  {:>10}  {:>8}  {:>9}", "last valid", "generation", "age", "bytes")?;
            for object in objects {
                let (key, age) = (object.key.to_string(), age(now, object.since));
                let note = match (object.sealed, object.readable) {
                    (false, _) => "",
                    (true, true) => "  sealed",
                    (true, false) => "  sealed, cannot be read with this key",
                };
                writeln!(text, "  {key:width$}  {:>10}  {age:>8}  {:>9}{note}", object.generation, object.bytes)?;
            }
        }
        for verdict in verdicts {
            let (key, section, field) = (&verdict.key, &verdict.section, &verdict.field);
            let (by, age) = (&verdict.detected_by, age(now, verdict.since));
            writeln!(text, "  refused ({by}, {age} ago): {key} {section}: {field}: {}", verdict.message)?;
        }
    }
    Ok(())
}

/// The contents as one value, for programs and for the page of a running Holdfast.
pub fn value(survey: &Survey) -> Value {
    let statistics = &survey.statistics;
    let scopes: Vec<Value> = survey.scopes.iter().map(scope).collect();
    json!({
        "identity": survey.identity,
        "generation": statistics.generation,
        "bytesOnDisk": statistics.bytes_on_disk,
        "unreadable": statistics.unreadable,
        "damage": survey.damage,
        "scopes": scopes,
    })
}

fn scope(scope: &SurveyedScope) -> Value {
    let objects: Vec<Value> = scope
        .objects
        .iter()
        .map(|object| {
            json!({
                "object": object.key.to_string(), "uid": object.uid, "generation": object.generation,
                "since": object.since, "bytes": object.bytes, "sealed": object.sealed, "readable": object.readable,
            })
        })
        .collect();
    let resources: Vec<Value> = scope
        .resources
        .iter()
        .map(|resource| {
            json!({
                "type": resource.type_url, "name": resource.name, "version": hexadecimal(&resource.version),
                "bytes": resource.bytes, "sealed": resource.sealed,
            })
        })
        .collect();
    let verdicts: Vec<Value> = scope
        .verdicts
        .iter()
        .map(|verdict| {
            json!({
                "content": hexadecimal(&verdict.content), "object": verdict.key.to_string(),
                "section": verdict.section, "generation": verdict.generation, "detectedBy": verdict.detected_by,
                "field": verdict.field, "message": verdict.message, "since": verdict.since,
                "witnesses": verdict.witnesses.iter().map(|it| hexadecimal(it)).collect::<Vec<_>>(),
            })
        })
        .collect();
    let (gateway, build) = (&scope.scope.gateway, &scope.scope.build);
    json!({ "gateway": gateway, "build": build, "objects": objects, "resources": resources, "verdicts": verdicts })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
