//! The manifest with which krew, the package manager of kubectl's plugins, installs the program as `kubectl holdfast`.
//!
//! The archives are those of the binaries: the plugin is the same program under another name. Source of the form:
//! <https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>.

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::platform::Platform;

/// The name of the file: krew requires that of the plugin.
pub(crate) const FILE: &str = "holdfast.yaml";

/// An archive of a binary.
#[derive(Clone, Debug)]
pub(crate) struct PluginArchive {
    pub(crate) platform: Platform,
    /// The folder in the archive, which is also the beginning of its name.
    pub(crate) folder: String,
    pub(crate) sha256: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Plugin {
    api_version: &'static str,
    kind: &'static str,
    metadata: PluginMeta,
    spec: PluginSpec,
}

#[derive(Serialize)]
struct PluginMeta {
    name: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PluginSpec {
    version: String,
    short_description: &'static str,
    description: &'static str,
    platforms: Vec<PluginPlatform>,
}

#[derive(Serialize)]
struct PluginPlatform {
    selector: PluginSelector,
    uri: String,
    sha256: String,
    files: [PluginFile; 2],
    bin: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PluginSelector {
    match_labels: PluginLabels,
}

#[derive(Serialize)]
struct PluginLabels {
    os: &'static str,
    arch: &'static str,
}

#[derive(Serialize)]
struct PluginFile {
    from: String,
    to: &'static str,
}

/// Returns the manifest for the archives in the folder of this URL.
///
/// # Errors
/// Returns an error if the URL is not one.
pub(crate) fn manifest(version: &str, url: &str, archives: &[PluginArchive]) -> Result<String> {
    let url = url.trim_end_matches('/');
    let is_url =
        url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace));
    ensure!(
        is_url,
        "--download-url {url}: not the URL of a folder, as in https://downloads.example.com/holdfast/v0.1.0"
    );
    let platforms = archives.iter().map(|archive| platform(url, archive)).collect();
    let plugin = Plugin {
        api_version: "krew.googlecontainertools.github.com/v1alpha2",
        kind: "Plugin",
        metadata: PluginMeta { name: "holdfast" },
        spec: PluginSpec {
            version: format!("v{version}"),
            short_description: "Query the Holdfast of a cluster",
            description: "Shows what a Holdfast serves instead of broken objects, why, and since when; explains what \
                          happens to a request; and checks manifests. The plugin opens a port to Holdfast's Pod with \
                          kubectl port-forward.",
            platforms,
        },
    };
    serde_saphyr::to_string(&plugin).context("cannot write the manifest of the plugin")
}

fn platform(url: &str, archive: &PluginArchive) -> PluginPlatform {
    let PluginArchive { platform, folder, sha256 } = archive;
    let file = |name: &str, to| PluginFile { from: format!("{folder}/{name}"), to };
    PluginPlatform {
        selector: PluginSelector { match_labels: PluginLabels { os: "linux", arch: platform.name() } },
        uri: format!("{url}/{folder}.tar.gz"),
        sha256: sha256.clone(),
        files: [file("holdfast", "kubectl-holdfast"), file("LICENSE", ".")],
        bin: "kubectl-holdfast",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_archive_is_a_platform() -> Result<()> {
        let archive = |platform: Platform| {
            let folder = format!("holdfast-1.2.3-linux-{}", platform.name());
            PluginArchive { platform, folder, sha256: "ab".repeat(32) }
        };
        let archives = Platform::ALL.map(archive);
        let manifest = manifest("1.2.3", "https://example.com/v1.2.3/", &archives)?;
        let read: serde_json::Value = serde_saphyr::from_str(&manifest)?;
        assert_eq!((&read["metadata"]["name"], &read["spec"]["version"]), (&"holdfast".into(), &"v1.2.3".into()));
        let arm = &read["spec"]["platforms"][1];
        assert_eq!(arm["selector"]["matchLabels"], serde_json::json!({"os": "linux", "arch": "arm64"}));
        assert_eq!(arm["uri"], "https://example.com/v1.2.3/holdfast-1.2.3-linux-arm64.tar.gz");
        assert_eq!(arm["files"][0]["from"], "holdfast-1.2.3-linux-arm64/holdfast");
        Ok(())
    }

    #[test]
    fn only_urls_are_accepted() {
        for wrong in ["", "https://", "http://example.com", "example.com", "https://a b"] {
            assert!(manifest("1.2.3", wrong, &[]).is_err(), "{wrong}");
        }
    }
}
