//! An Envoy with other system files, for example CA certificates or DNS servers. The files are replaced in a mount
//! namespace, which other processes do not see.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Error, Result};

use crate::envoy;
use crate::world::World;

/// The CA certificates of the system.
pub const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The DNS configuration of the system.
pub const NAME_SERVERS: &str = "/etc/resolv.conf";

/// Returns a program that runs Envoy with these texts instead of these files.
///
/// # Errors
/// If this machine does not allow mount namespaces.
pub fn binary(world: &World, files: &[(&str, &str)]) -> Result<PathBuf> {
    let envoy = envoy::find().map_err(Error::msg)?;
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let usable = ways.into_iter().find(|way| {
        let mut trial = Command::new("unshare");
        trial.args(*way).args(["--", "mount", "--bind", "/etc/hosts", "/etc/hosts"]);
        trial.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        trial.status().is_ok_and(|status| status.success())
    });
    let way = usable.context("no mount namespace can be made here (unshare --mount)")?.join(" ");
    let mut mounts = String::new();
    for (index, (file, text)) in files.iter().enumerate() {
        let own = world.folder().join(format!("instead-{index}"));
        fs::write(&own, text)?;
        mounts += &format!("mount --bind {} {file} && ", own.display());
    }
    let script =
        format!("#!/bin/sh\nexec unshare {way} -- sh -c '{mounts}exec {} \"$@\"' envoy \"$@\"\n", envoy.display());
    let file = world.folder().join("surrounded-envoy");
    fs::write(&file, script)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(file)
}
