//! Line difference of two texts, in the form of `diff -u`.

/// Lines of context before and after a difference.
const CONTEXT: usize = 4;

/// Returns the lines that differ, with lines of context.
pub fn lines(old: &str, new: &str) -> String {
    let [old, new] = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let rows = rows(&old, &new);
    let near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        rows.iter().take(at + CONTEXT + 1).skip(from).any(|(mark, _)| *mark != ' ')
    };
    let mut text = String::new();
    let mut gap = false;
    for (at, (mark, line)) in rows.iter().enumerate() {
        if near(at) {
            let end = if line.ends_with('\n') { "" } else { "\n\\ no newline at the end\n" };
            text.push_str(&format!("{mark} {line}{end}"));
            gap = false;
        } else if !gap {
            text.push_str("  …\n");
            gap = true;
        }
    }
    text
}

/// Returns every line with its mark, ` `, `-` or `+`, from the longest common subsequence.
fn rows<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let mut longest = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] =
                if old[i] == new[j] { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut rows) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            rows.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            rows.push(('-', old[i]));
            i += 1;
        } else {
            rows.push(('+', new[j]));
            j += 1;
        }
    }
    rows
}
