//! Header and query parameter conditions of a match, common to all kinds of routes.
use holdfast_api::fault::at;
use holdfast_check::header::HeaderFault;
use holdfast_check::re2::Regexes;
use holdfast_envoy::model::{NamedMatch, ValueMatch};

/// Headers or query parameters of one match; same limit as in the CRD.
pub(crate) const CONDITIONS_MAX: usize = 16;

/// The part of a request that conditions apply to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Headers; names are case-insensitive.
    Headers,
    /// Query parameters.
    QueryParams,
}

impl Of {
    fn field(self) -> &'static str {
        match self {
            Of::Headers => "headers",
            Of::QueryParams => "queryParams",
        }
    }

    fn name(self, name: &str) -> Result<String, HeaderFault> {
        match self {
            Of::Headers => holdfast_check::header::name(name),
            Of::QueryParams => holdfast_check::header::query_name(name).map(|()| name.to_owned()),
        }
    }

    fn plain_value(self, value: &str) -> Result<(), HeaderFault> {
        match self {
            Of::Headers => holdfast_check::header::value(value),
            Of::QueryParams => holdfast_check::header::query_value(value),
        }
    }
}

/// A condition as written.
pub(crate) struct Written<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
    pub(crate) regex: bool,
}

/// Reads the conditions of a match. Reports each unusable condition to `flaw` with its field.
pub(crate) fn read<'a>(
    of: Of,
    written: impl Iterator<Item = Written<'a>>,
    regexes: &Regexes,
    flaw: &mut impl FnMut(String, String),
) -> Vec<NamedMatch> {
    let mut conditions: Vec<NamedMatch> = Vec::new();
    for (index, condition) in written.enumerate() {
        if index >= CONDITIONS_MAX {
            flaw(of.field().into(), format!("must have at most {CONDITIONS_MAX} entries"));
            break;
        }
        let below = at(of.field(), index);
        let name = match of.name(condition.name) {
            Ok(name) => name,
            Err(fault) => {
                flaw(format!("{below}.name"), fault.to_string());
                continue;
            }
        };
        // Of several entries with equal names, only the first is used.
        if conditions.iter().any(|known| *known.name == *name) {
            continue;
        }
        let value = value(of, &condition, regexes, |message| flaw(format!("{below}.value"), message));
        conditions.push(NamedMatch::new(name, value));
    }
    conditions
}

/// Reads a value; an unusable value is narrowed to a check for presence.
fn value(of: Of, written: &Written<'_>, regexes: &Regexes, flaw: impl FnOnce(String)) -> ValueMatch {
    let checked = match written.regex {
        true => regexes.check(written.value).err().map(|fault| fault.to_string()),
        false => of.plain_value(written.value).err().map(|fault| fault.to_string()),
    };
    match checked {
        Some(message) => {
            flaw(message);
            ValueMatch::Present
        }
        None if written.regex => ValueMatch::Regex(written.value.into()),
        None => ValueMatch::Exact(written.value.into()),
    }
}
