//! Storage of certificates: a folder, or Secrets of an API server.

use std::path::{Path, PathBuf};

use anyhow::Result;
use holdfast_graph::ObjectKey;

use super::secrets::{Secrets, TLS};
use super::shelf::{Folder, Shelf};
use super::webhook;
use crate::failure::Failure;

/// Suffix of the Secret of the authority, after the name of the server's Secret.
const AUTHORITY: &str = "-authority";
/// Suffix of the Secret of a Gateway's certificate, after the name of the Gateway.
const GATEWAY: &str = "-holdfast-xds";
/// Default path at which an Envoy mounts its Secret.
const MOUNT_PATH: &str = "/etc/holdfast/xds";
/// Maximum length of a Secret's name, in bytes.
const SECRET_NAME_BYTES_MAX: usize = 253;

/// Storage of certificates.
pub(super) enum CertificateStorage {
    /// Folders below this folder.
    Folder(PathBuf),
    /// Secrets; `server` is the Secret of the xDS server.
    Secrets { secrets: Box<Secrets>, server: ObjectKey },
}

impl CertificateStorage {
    /// The authorities with their keys.
    pub(super) fn authority(&self) -> Box<dyn Shelf + '_> {
        match self {
            CertificateStorage::Folder(folder) => Box::new(Folder(folder.join("authority"))),
            CertificateStorage::Secrets { secrets, server } => {
                Box::new(secrets.shelf(namespace(server), &format!("{}{AUTHORITY}", server.name), "Opaque"))
            }
        }
    }

    /// The certificate of the server.
    pub(super) fn server(&self) -> Box<dyn Shelf + '_> {
        match self {
            CertificateStorage::Folder(folder) => Box::new(Folder(folder.join("server"))),
            CertificateStorage::Secrets { secrets, server } => {
                Box::new(secrets.shelf(namespace(server), &server.name, TLS))
            }
        }
    }

    /// The certificate of a Gateway's Envoys.
    pub(super) fn gateway(&self, namespace: &str, name: &str) -> Box<dyn Shelf + '_> {
        match self {
            CertificateStorage::Folder(folder) => Box::new(Folder(gateway_folder(folder, namespace, name))),
            CertificateStorage::Secrets { secrets, .. } => {
                Box::new(secrets.shelf(namespace, &gateway_secret(name), TLS))
            }
        }
    }

    /// Sets the authorities in a ValidatingWebhookConfiguration of the API server that has the Secrets. Returns a line
    /// for the report if it was changed.
    pub(super) fn trust(&self, configuration: &str, bundle: &str) -> Result<Option<String>> {
        match self {
            CertificateStorage::Folder(_) => Ok(None),
            CertificateStorage::Secrets { secrets, .. } => webhook::trust(secrets, configuration, bundle),
        }
    }

    /// The default path at which an Envoy sees its certificate.
    pub(super) fn seen_at(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        match self {
            CertificateStorage::Folder(folder) => Ok(std::path::absolute(gateway_folder(folder, namespace, name))?),
            CertificateStorage::Secrets { .. } => Ok(MOUNT_PATH.into()),
        }
    }
}

/// Checks that the names of all Secrets have a valid length.
///
/// # Errors
/// Returns an error if a name is too long.
pub(super) fn check_names(server: &ObjectKey, gateways: &[String]) -> Result<(), Failure> {
    let too_long = |flag: &str, name: &str| {
        Failure::usage(format!(
            "{flag} {name}: the names of its Secrets would have more than {SECRET_NAME_BYTES_MAX} characters"
        ))
    };
    if server.name.len() + AUTHORITY.len() > SECRET_NAME_BYTES_MAX {
        return Err(too_long("--secret", &server.name));
    }
    let mut names = gateways.iter().filter_map(|gateway| gateway.split_once('/')).map(|(_, name)| name);
    match names.find(|name| gateway_secret(name).len() > SECRET_NAME_BYTES_MAX) {
        Some(name) => Err(too_long("--gateway", name)),
        None => Ok(()),
    }
}

fn namespace(key: &ObjectKey) -> &str {
    &key.namespace
}

fn gateway_secret(name: &str) -> String {
    format!("{name}{GATEWAY}")
}

fn gateway_folder(folder: &Path, namespace: &str, name: &str) -> PathBuf {
    // No Kubernetes name contains an underscore.
    folder.join(format!("gateways/{namespace}_{name}"))
}
