//! Lists of components in CycloneDX 1.5 (JSON). A list that its own validation refuses is not written.

use anyhow::{Context, Result, ensure};
use cyclonedx_bom::external_models::date_time::DateTime;
use cyclonedx_bom::external_models::normalized_string::NormalizedString;
use cyclonedx_bom::external_models::spdx::SpdxExpression;
use cyclonedx_bom::external_models::uri::Purl;
use cyclonedx_bom::models::bom::{Bom, SpecVersion};
use cyclonedx_bom::models::component::{Classification, Component, Components};
use cyclonedx_bom::models::dependency::{Dependencies, Dependency};
use cyclonedx_bom::models::hash::{Hash, HashAlgorithm, HashValue, Hashes};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata;
use cyclonedx_bom::validation::Validate;

use crate::components::{ComponentEntry, ComponentKind};
use crate::source::Source;

/// The artefact that a list describes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_image: bool,
    /// Hash of the binary, or of the image's manifest.
    pub(crate) sha256: &'a str,
}

/// Returns the list of an artefact. It has neither a random serial number nor the time of this run.
pub(crate) fn list(source: &Source, subject: Subject<'_>, entries: &[ComponentEntry]) -> Result<Vec<u8>> {
    let kind = if subject.is_image { Classification::Container } else { Classification::Application };
    let id = format!("{}@{}", subject.name, source.version);
    let mut artefact = Component::new(kind, subject.name, source.version, Some(format!("artefact:{id}")));
    artefact.hashes = Some(hashes(subject.sha256));
    artefact.licenses = Some(licenses("Apache-2.0")?);
    let components = entries.iter().map(component).collect::<Result<Vec<_>>>()?;
    let mut dependencies = vec![Dependency {
        dependency_ref: format!("artefact:{id}"),
        dependencies: entries.iter().map(ComponentEntry::id).collect(),
    }];
    dependencies.extend(
        entries.iter().map(|entry| Dependency { dependency_ref: entry.id(), dependencies: entry.uses.clone() }),
    );
    let bom = Bom {
        version: 1,
        serial_number: None,
        metadata: Some(Metadata {
            timestamp: Some(DateTime::try_from(source.time()?)?),
            component: Some(artefact),
            ..Metadata::default()
        }),
        components: Some(Components(components)),
        services: None,
        external_references: None,
        dependencies: Some(Dependencies(dependencies)),
        compositions: None,
        properties: None,
        vulnerabilities: None,
        signature: None,
        annotations: None,
        formulation: None,
        spec_version: SpecVersion::V1_5,
    };
    let result = bom.validate_version(SpecVersion::V1_5);
    ensure!(result.passed(), "the list of components of {id} is not valid: {result:?}");
    let mut json = Vec::new();
    bom.output_as_json_v1_5(&mut json).with_context(|| format!("cannot write the list of components of {id}"))?;
    json.push(b'\n');
    Ok(json)
}

fn component(entry: &ComponentEntry) -> Result<Component> {
    let kind = match entry.kind {
        ComponentKind::Application => Classification::Application,
        ComponentKind::Library => Classification::Library,
        ComponentKind::File => Classification::File,
    };
    let mut component = Component::new(kind, &entry.name, "", Some(entry.id()));
    component.version = entry.version.as_deref().map(NormalizedString::new);
    component.hashes = entry.sha256.as_deref().map(hashes);
    component.licenses = entry.license.as_deref().map(licenses).transpose()?;
    if let (true, Some(version)) = (entry.is_package, &entry.version) {
        component.purl = Some(Purl::new("cargo", &entry.name, version)?);
    }
    Ok(component)
}

fn hashes(sha256: &str) -> Hashes {
    Hashes(vec![Hash { alg: HashAlgorithm::SHA_256, content: HashValue(sha256.to_owned()) }])
}

/// Returns a licence. Old packages separate alternatives with a slash.
fn licenses(license: &str) -> Result<Licenses> {
    let expression = SpdxExpression::parse_lax(license.to_owned())
        .with_context(|| format!("{license:?} is no licence expression of SPDX"))?;
    Ok(Licenses(vec![LicenseChoice::Expression(expression)]))
}
