//! Kubernetes quantities: `500m`, `1.5`, `256Mi`.

/// Factor of each suffix.
const SUFFIXES: [(&str, f64); 14] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
];

/// Returns the number that a quantity denotes; `None` if the text is not a quantity or is negative.
pub(super) fn read(text: &str) -> Option<f64> {
    let found = SUFFIXES.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)));
    let (digits, unit) = found.unwrap_or((text, 1.0));
    let legal = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let is_number = !digits.is_empty() && digits.bytes().all(legal) && digits.bytes().any(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse::<f64>().ok()).flatten().map(|number| number * unit)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn quantities_are_read() {
        for (text, number) in [
            ("2", 2.0),
            ("0.5", 0.5),
            ("500m", 0.5),
            ("1Ki", 1024.0),
            ("3G", 3e9),
            ("1.5Gi", 1.5 * 1024.0 * 1024.0 * 1024.0),
        ] {
            assert!(read(text).is_some_and(|read| (read - number).abs() < 1e-9), "{text}");
        }
        for text in ["", "Mi", "1 Gi", "1GB", "-1", "one", "1.2.3", ".", "inf", "NaN", "1e"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
