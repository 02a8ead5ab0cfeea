//! A network namespace for the whole test program: backends need addresses that EndpointSlices accept, and loopback
//! addresses are not accepted.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

/// Environment variable that is set inside the namespace.
const INSIDE: &str = "HOLDFAST_STORIES_IN_NAMESPACE";
/// Setup before the program starts again: any address of the range may be bound.
const SET_UP: &str = "ip link set lo up && ip route add local 10.244.0.0/16 dev lo";

/// Returns whether this process runs inside the namespace.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this program again, with its arguments, in a network namespace without a connection to the outside.
///
/// # Errors
/// If this machine does not allow network namespaces.
pub fn enter() -> Result<ExitCode> {
    let ways: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    let usable = ways.into_iter().find(|way| {
        let mut trial = unshare(way);
        trial.args(["sh", "-c", SET_UP]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        trial.status().is_ok_and(|status| status.success())
    });
    let way = usable.context("no network namespace can be made here (unshare --net, ip route add local)")?;
    let program = std::env::current_exe()?;
    let begin = format!("{SET_UP} && exec \"$0\" \"$@\"");
    let status = unshare(way)
        .args(["sh", "-c", &begin])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .status()
        .context("cannot run unshare")?;
    ensure!(status.code().is_some(), "the stories were ended by a signal");
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Checks that a process may have a separate mount namespace.
///
/// # Errors
/// If it may not.
pub fn has_mounts() -> Result<()> {
    let trial = "mount -t tmpfs trial /mnt";
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    let possible = ways.into_iter().any(|way| {
        let mut trying = unshare(way);
        trying.args(["sh", "-c", trial]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        trying.status().is_ok_and(|status| status.success())
    });
    ensure!(possible, "no mounts of its own for a process (unshare --mount)");
    Ok(())
}

fn unshare(way: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).arg("--");
    command
}
