//! The program `envoy-with-mistakes`: starts a relay beside an Envoy, and becomes that Envoy, so that its parent process
//! sees one process with Envoy's process id, output and exit code.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::relay;

/// First argument of the process that is the relay.
const RELAY: &str = "--relay";
/// How long the relay may take to start.
const START_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);
/// The path of the xDS server's address in a bootstrap of Holdfast.
const ADDRESS: &str = "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address";

/// Runs the program: `ENVOY ARGUMENT…` as an Envoy, or `--relay SOCKET SERVER PID`.
///
/// # Errors
/// If the arguments or the bootstrap are not as expected, or a process cannot be started.
pub fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [RELAY, socket, server, envoy] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(relay::run(Path::new(socket), (*server).to_owned(), envoy.parse()?))
        }
        [envoy, arguments @ ..] => become_envoy(envoy, arguments),
        [] => bail!("usage: envoy-with-mistakes ENVOY [ARGUMENT]..."),
    }
}

fn become_envoy(envoy: &str, arguments: &[&str]) -> Result<()> {
    let mut arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let flag = arguments.iter().position(|argument| argument == "--config-path" || argument == "-c");
    if let Some(file) = flag.and_then(|flag| arguments.get_mut(flag + 1)) {
        *file = relayed(Path::new(file))?.display().to_string();
    }
    let error = Command::new(envoy).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {envoy}"))
}

/// Starts a relay for a bootstrap; returns the file of a bootstrap that connects to the relay.
fn relayed(file: &Path) -> Result<PathBuf> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut bootstrap: Value = serde_saphyr::from_str(&text).context("the bootstrap is no YAML")?;
    let address = bootstrap.pointer_mut(ADDRESS).context("the bootstrap has another form")?;
    let socket = relay::socket();
    let server = server(address).context("the address of the xDS server has another form")?;
    *address = json!({"pipe": {"path": socket}});
    // A relay that was killed, of an earlier process with this number, may have left its socket.
    if socket.exists() {
        fs::remove_file(&socket).with_context(|| format!("cannot remove {}", socket.display()))?;
    }
    let mut relay = Command::new(env::current_exe()?);
    relay.arg(RELAY).arg(&socket).arg(server).arg(process::id().to_string());
    relay.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cannot start the relay")?;
    let start = Instant::now();
    while !socket.exists() {
        ensure!(start.elapsed() < START_MAX, "the relay does not start");
        sleep(POLL);
    }
    let changed = file.with_extension("relayed.json");
    fs::write(&changed, bootstrap.to_string())?;
    Ok(changed)
}

fn server(address: &Value) -> Option<String> {
    if let Some(path) = address.pointer("/pipe/path") {
        return Some(format!("unix:{}", path.as_str()?));
    }
    let socket = address.get("socket_address")?;
    Some(format!("http://{}:{}", socket.get("address")?.as_str()?, socket.get("port_value")?.as_u64()?))
}
