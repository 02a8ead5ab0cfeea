//! Processes of a story: started with their output in files, ended only by their process id.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::wait::until;

/// Time that a process has to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// Number of bytes of an output that are shown when a story fails.
const TAIL_BYTES: usize = 12_000;

/// A running process. Dropping it ends the process: first SIGTERM, then SIGKILL.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    ended: bool,
}

/// Exit code and output of a process that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code; none where a signal ended the process.
    pub code: Option<i32>,
    /// The complete standard output.
    pub stdout: String,
    /// The complete standard error.
    pub stderr: String,
}

impl Finished {
    /// Standard output and standard error together.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Fails unless the exit code is `code`; the error contains the output.
    pub fn expect_code(&self, code: i32) -> Result<&Self> {
        if self.code != Some(code) {
            bail!("exit code {:?} instead of {code}; output:\n{}", self.code, self.output());
        }
        Ok(self)
    }

    /// Fails unless the output contains all of these texts.
    pub fn expect_output(&self, words: &[&str]) -> Result<&Self> {
        let output = self.output();
        for word in words {
            if !output.contains(word) {
                bail!("{word:?} is missing in the output:\n{output}");
            }
        }
        Ok(self)
    }
}

impl Process {
    /// Starts `program`; its output is written to `<log>.out` and `<log>.err`. Variables of the tests are not passed on:
    /// Holdfast refuses variables with its name that it does not know.
    pub fn start<S: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = S>,
        env: &[(String, String)],
        log: &Path,
    ) -> Result<Self> {
        let (stdout, stderr) = (log.with_extension("out"), log.with_extension("err"));
        let mut command = Command::new(program);
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("HOLDFAST_")) {
            command.env_remove(name);
        }
        let child = command
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, stdout, stderr, ended: false })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Standard output and standard error so far.
    pub fn output(&self) -> String {
        format!("{}{}", read(&self.stdout), read(&self.stderr))
    }

    /// The file with the standard output.
    pub fn stdout_file(&self) -> &Path {
        &self.stdout
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.ended |= status.is_some();
        Ok(status)
    }

    /// Waits without a limit until the process has ended; returns the exit status and the end of the output.
    pub async fn comes_to_end(&mut self) -> String {
        loop {
            match self.ended() {
                Ok(None) => tokio::time::sleep(Duration::from_millis(50)).await,
                Ok(Some(status)) => return format!("{status}; output:\n{}", tail(&self.output())),
                Err(error) => return error.to_string(),
            }
        }
    }

    /// Waits until the process ends by itself.
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
        bail!("the process does not end by itself; output:\n{}", tail(&self.output()))
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub async fn terminate(self) -> Result<Finished> {
        signal(self.id(), "TERM");
        self.finish().await
    }

    /// Kills the process (SIGKILL), as a crash would.
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

/// Sends a signal to one process by its id. Uses the shell's `kill`, because a system call needs `unsafe`.
pub fn signal(id: u32, name: &str) {
    let command = format!("kill -{name} {id}");
    let _ = Command::new("sh").args(["-c", &command]).stderr(Stdio::null()).status();
}

/// Returns whether a process with this id runs; a zombie does not count.
pub fn runs(id: u32) -> bool {
    match fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'),
        Err(_) => false,
    }
}

/// Ids of the processes with `path` in their command line: only processes that the story started, directly or
/// indirectly, have the story's folder there.
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
