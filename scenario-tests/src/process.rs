//! Processes of a story: started with their output in files, ended by their own id and no other.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::wait::until;

/// How long a process may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How much of an output is shown when a story fails.
const TAIL_BYTES: usize = 12_000;

/// A running process. Dropping it ends it: first SIGTERM, then SIGKILL.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    ended: bool,
}

/// How a process ended, and what it said.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Finished {
    /// Both outputs together.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Fails unless the exit code is `code`; the failure shows what was said.
    pub fn expect_code(&self, code: i32) -> Result<&Self> {
        if self.code != Some(code) {
            bail!("exit code {:?} instead of {code}; it said:\n{}", self.code, self.said());
        }
        Ok(self)
    }

    /// Fails unless all of the words stand in its output.
    pub fn expect_said(&self, words: &[&str]) -> Result<&Self> {
        let said = self.said();
        for word in words {
            if !said.contains(word) {
                bail!("{word:?} is missing in what it said:\n{said}");
            }
        }
        Ok(self)
    }
}

impl Process {
    /// Starts `program`; its output goes to `<log>.out` and `<log>.err`.
    pub fn start<S: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = S>,
        env: &[(String, String)],
        log: &Path,
    ) -> Result<Self> {
        let (stdout, stderr) = (log.with_extension("out"), log.with_extension("err"));
        let child = Command::new(program)
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, stdout, stderr, ended: false })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it said so far, both outputs.
    pub fn said(&self) -> String {
        format!("{}{}", read(&self.stdout), read(&self.stderr))
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Its exit status, where it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.ended |= status.is_some();
        Ok(status)
    }

    /// Waits, however long, until it has ended; how, and what it said.
    pub async fn comes_to_end(&mut self) -> String {
        loop {
            match self.ended() {
                Ok(None) => tokio::time::sleep(Duration::from_millis(50)).await,
                Ok(Some(status)) => return format!("{status}; it said:\n{}", tail(&self.said())),
                Err(error) => return error.to_string(),
            }
        }
    }

    /// Waits for its own end.
    pub async fn finish(mut self) -> Result<Finished> {
        for _ in 0..4 {
            let waited = until("the process ends by itself", || {
                let status = self.ended();
                async move { status?.context("it still runs") }
            });
            if let Ok(status) = waited.await {
                return Ok(Finished { code: status.code(), stdout: self.stdout(), stderr: read(&self.stderr) });
            }
        }
        bail!("the process does not end by itself; it said:\n{}", tail(&self.said()))
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub async fn terminate(self) -> Result<Finished> {
        signal(self.id(), "TERM");
        self.finish().await
    }

    /// Ends it without asking (SIGKILL), as a crash would.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended || matches!(self.ended(), Ok(Some(_))) {
            return;
        }
        signal(self.id(), "TERM");
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if !matches!(self.ended(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to one process by its id. Without `unsafe`, the shell's `kill` has to do it.
pub fn signal(id: u32, name: &str) {
    let command = format!("kill -{name} {id}");
    let _ = Command::new("sh").args(["-c", &command]).stderr(Stdio::null()).status();
}

/// Whether a process of this id runs; one that has ended and waits to be collected does not.
pub fn runs(id: u32) -> bool {
    match fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'),
        Err(_) => false,
    }
}

/// Ids of the processes whose command line names `path`: a story's folder is in no other command line than those of
/// processes that it, or what it started, has started.
pub fn naming(path: &Path) -> Vec<u32> {
    let wanted = path.to_string_lossy().into_owned();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let id = |entry: fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
    let names = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&wanted)
    };
    let own = std::process::id();
    let mut ids: Vec<u32> = processes.flatten().filter_map(id).filter(|id| *id != own).filter(names).collect();
    ids.sort_unstable();
    ids
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The end of a long text.
pub fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(TAIL_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}
