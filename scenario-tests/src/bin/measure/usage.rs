//! CPU time and memory of a process, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Milliseconds of one clock tick of `/proc/PID/stat`: Linux shows 100 ticks per second on every architecture that
/// Holdfast is built for.
const TICK_MILLISECONDS: u64 = 10;

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// Resident pages.
    pub(crate) resident: u64,
    /// Those of them that no file backs: the heap and the stacks.
    pub(crate) anonymous: u64,
    /// The most that was resident since the start.
    pub(crate) peak: u64,
}

/// Returns the CPU time that a process has used, in user and kernel mode, with all of its threads.
pub(crate) fn cpu(id: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).context("the process has ended")?;
    let ticks = ticks(&stat).with_context(|| format!("no CPU times in {stat:?}"))?;
    Ok(Duration::from_millis(ticks * TICK_MILLISECONDS))
}

/// Returns the memory of a process. `smaps_rollup` counts pages; the sums in `status` lag behind by some per thread.
pub(crate) fn memory(id: u32) -> Result<Memory> {
    let read = |file: &str| {
        fs::read_to_string(format!("/proc/{id}/{file}")).with_context(|| format!("cannot read {file} of the process"))
    };
    let (pages, status) = (read("smaps_rollup")?, read("status")?);
    let of = |text: &str, field: &str| kib(text, field).with_context(|| format!("no {field} in {text:?}"));
    Ok(Memory { resident: of(&pages, "Rss")?, anonymous: of(&pages, "Anonymous")?, peak: of(&status, "VmHWM")? })
}

/// Returns `utime` and `stime` of a line of `/proc/PID/stat`, together. The second field is the name of the program in
/// parentheses, which may contain spaces and parentheses itself.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The first of these fields is the third of the line, and the times are the 14th and the 15th.
    let mut times = fields.split_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let kernel: u64 = times.next()?.parse().ok()?;
    Some(user + kernel)
}

/// Returns the value of a line `FIELD: VALUE kB`.
fn kib(text: &str, field: &str) -> Option<u64> {
    let of_field = |line: &str| line.strip_prefix(field)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok();
    text.lines().find_map(of_field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_user_and_kernel_time() {
        let stat = "4242 (holdfast) S 1 4242 4242 0 -1 4194560 9551 0 12 0 731 69 5 6 20 0 9 0 512 1048576 2048";
        assert_eq!(ticks(stat), Some(800));
    }

    #[test]
    fn the_name_of_a_program_may_look_like_fields() {
        let stat = "7 (a) S 1 (b c) R 1 7 7 0 -1 0 0 0 0 0 3 4 100 100 20 0 1 0 5 0 0";
        assert_eq!(ticks(stat), Some(7));
        assert_eq!(ticks("7 (a) S 1 2"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn memory_is_found_by_the_whole_name_of_a_field() {
        let text =
            "Rss:               40960 kB\nPss:  1 kB\nPss_Anon: 2 kB\nAnonymous:     30720 kB\nVmHWM:\t  50000 kB\n";
        assert_eq!(kib(text, "Rss"), Some(40960));
        assert_eq!(kib(text, "Anonymous"), Some(30720));
        assert_eq!(kib(text, "VmHWM"), Some(50000));
        assert_eq!(kib(text, "Pss_"), None);
    }

    #[test]
    fn this_process_uses_cpu_time_and_memory() -> Result<()> {
        let id = std::process::id();
        let memory = memory(id)?;
        assert!(memory.anonymous > 0 && memory.anonymous <= memory.resident, "{memory:?}");
        cpu(id)?;
        Ok(())
    }
}
