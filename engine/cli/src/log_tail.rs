//! The last lines of the log, for the page `/debug/log`.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Number of lines that are kept.
pub(crate) const LOG_LINES_KEPT: usize = 1000;
/// Maximum number of bytes of one kept line; the rest is cut off.
pub(crate) const LOG_LINE_BYTES_MAX: usize = 4096;

/// The log is one for the process, as its writer is.
static TAIL: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Keeps a line.
pub(crate) fn keep(line: &str) {
    let mut tail = TAIL.lock().unwrap_or_else(PoisonError::into_inner);
    if tail.len() == LOG_LINES_KEPT {
        tail.pop_front();
    }
    tail.push_back(line[..line.floor_char_boundary(LOG_LINE_BYTES_MAX)].to_owned());
}

/// The kept lines, the oldest first.
pub(crate) fn text() -> String {
    let tail = TAIL.lock().unwrap_or_else(PoisonError::into_inner);
    tail.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        for number in 0..LOG_LINES_KEPT + 5 {
            keep(&format!("tail {number}"));
        }
        keep(&"é".repeat(LOG_LINE_BYTES_MAX));
        let text = text();
        assert!(!text.contains("tail 1\n") && text.contains(&format!("tail {}\n", LOG_LINES_KEPT + 4)));
        assert!(text.lines().all(|line| line.len() <= LOG_LINE_BYTES_MAX), "a line is too long");
    }
}
