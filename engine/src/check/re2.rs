//! Interim shim.
/// Limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Size.
    pub program_size: u32,
}
impl Default for Limits {
    fn default() -> Self {
        Self { program_size: 10_000 }
    }
}
/// Check.
pub fn check(pattern: &str, _limits: Limits) -> Result<u32, String> {
    regex_syntax::parse(pattern)
        .map(|_| 0)
        .map_err(|e| format!("invalid regex: {}", e.to_string().lines().last().unwrap_or_default()))
}
/// Prefix.
pub fn literal_prefix(pattern: &str) -> String {
    pattern
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '/' || c == '-' || c == '_'))
        .next()
        .unwrap_or_default()
        .to_owned()
}
