//! Replacement texts of regex rewrites.

use super::SubstitutionFault;

/// Checks a substitution (`\1` to `\9` are groups, `\0` is the whole match, `\\` a backslash) against the number of
/// groups of its regex.
///
/// Envoy acknowledges a reference to a group that does not exist, and then silently skips the rewrite.
pub fn check_substitution(substitution: &str, captures: u32) -> Result<(), SubstitutionFault> {
    let mut characters = substitution.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            continue;
        }
        match characters.next() {
            Some('\\') => {}
            Some(digit) => {
                let group = digit.to_digit(10).ok_or(SubstitutionFault::Backslash)?;
                if group > captures {
                    return Err(SubstitutionFault::Group { group, captures });
                }
            }
            None => return Err(SubstitutionFault::Backslash),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_must_exist() {
        assert_eq!(check_substitution(r"/a/\0/\1\\n", 1), Ok(()));
        assert_eq!(check_substitution("", 0), Ok(()));
        assert_eq!(check_substitution(r"\3", 1), Err(SubstitutionFault::Group { group: 3, captures: 1 }));
        assert_eq!(check_substitution(r"\1", 0), Err(SubstitutionFault::Group { group: 1, captures: 0 }));
    }

    #[test]
    fn a_backslash_must_precede_a_digit_or_a_backslash() {
        for text in [r"\", r"\n", r"a\", r"\x41", "\\é"] {
            assert_eq!(check_substitution(text, 9), Err(SubstitutionFault::Backslash), "{text}");
        }
    }
}
