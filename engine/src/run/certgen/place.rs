//! Where all of it stands: in a folder, or in Secrets of an API server.

use std::path::{Path, PathBuf};

use anyhow::Result;
use holdfast_graph::ObjectKey;

use super::secrets::{Secrets, TLS};
use super::shelf::{Folder, Shelf};
use crate::run::failure::Failure;

/// What the Secret of the authority has after the name of the server's.
const AUTHORITY: &str = "-authority";
/// What the Secret of a Gateway's certificate has after the name of the Gateway.
const GATEWAY: &str = "-holdfast-xds";
/// Where an Envoy sees what is in its Secret, where nothing else is said.
const MOUNT_PATH: &str = "/etc/holdfast/xds";
/// Bytes of a Secret's name.
const NAME_BYTES_MAX: usize = 253;

/// See the module.
pub(super) enum Place {
    /// Below this folder.
    Folder(PathBuf),
    /// In Secrets; the server's is named.
    Secrets { secrets: Box<Secrets>, server: ObjectKey },
}

impl Place {
    /// The authorities with their keys.
    pub(super) fn authority(&self) -> Box<dyn Shelf + '_> {
        match self {
            Place::Folder(folder) => Box::new(Folder(folder.join("authority"))),
            Place::Secrets { secrets, server } => {
                Box::new(secrets.shelf(namespace(server), &format!("{}{AUTHORITY}", server.name), "Opaque"))
            }
        }
    }

    /// The server's certificate.
    pub(super) fn server(&self) -> Box<dyn Shelf + '_> {
        match self {
            Place::Folder(folder) => Box::new(Folder(folder.join("server"))),
            Place::Secrets { secrets, server } => Box::new(secrets.shelf(namespace(server), &server.name, TLS)),
        }
    }

    /// The certificate of a Gateway's Envoys.
    pub(super) fn gateway(&self, namespace: &str, name: &str) -> Box<dyn Shelf + '_> {
        match self {
            Place::Folder(folder) => Box::new(Folder(gateway_folder(folder, namespace, name))),
            Place::Secrets { secrets, .. } => Box::new(secrets.shelf(namespace, &gateway_secret(name), TLS)),
        }
    }

    /// Where an Envoy sees it, where nothing else is said.
    pub(super) fn seen_at(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        match self {
            Place::Folder(folder) => Ok(std::path::absolute(gateway_folder(folder, namespace, name))?),
            Place::Secrets { .. } => Ok(MOUNT_PATH.into()),
        }
    }
}

/// Can Secrets be named so?
///
/// # Errors
/// Where one cannot.
pub(super) fn check_names(server: &ObjectKey, gateways: &[String]) -> Result<(), Failure> {
    let too_long = |flag: &str, name: &str| {
        Failure::usage(format!(
            "{flag} {name}: the names of its Secrets would have more than {NAME_BYTES_MAX} characters"
        ))
    };
    if server.name.len() + AUTHORITY.len() > NAME_BYTES_MAX {
        return Err(too_long("--secret", &server.name));
    }
    let mut names = gateways.iter().filter_map(|gateway| gateway.split_once('/')).map(|(_, name)| name);
    match names.find(|name| gateway_secret(name).len() > NAME_BYTES_MAX) {
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
    // No name has an underscore.
    folder.join(format!("gateways/{namespace}_{name}"))
}
