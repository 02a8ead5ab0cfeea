//! The part of the desired protection that an earlier version of an object lacks, as a sentence.

use std::fmt;

/// What an earlier version lacks. The form in messages has the earlier version as its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The desired version removes or overwrites a header, and the earlier version does not.
    Header {
        /// `request header` or `response header`, with a restriction.
        what: &'static str,
        /// The name in lower case.
        name: String,
    },
    /// The earlier version does not protect by this field as the desired version does.
    Field(&'static str),
    /// The earlier version allows more by this field.
    Allows(&'static str),
    /// A field of the desired version cannot be read, and may be one that protects.
    Unread,
    /// The desired version has a rule that protects requests, or that a policy guards.
    Rule,
    /// The desired version has a route that protects requests.
    Route,
}

impl Lack {
    /// Returns the lack of an effect, by its token on a sheet and its field.
    pub(super) fn of(token: &str, field: &'static str) -> Self {
        let headers = [
            ("Request ", "request header"),
            ("Response ", "response header"),
            ("BeforeBackends ", "request header, before every backend,"),
        ];
        let header = headers.into_iter().find_map(|(way, what)| Some((what, token.strip_prefix(way)?)));
        header.map_or(Self::Field(field), |(what, name)| Self::Header { what, name: name.to_owned() })
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Header { what, name } => {
                write!(f, "it does not set or remove {what} {name}, which the desired version sets or removes")
            }
            Lack::Field(field) => write!(f, "it does not protect by {field} as the desired version does"),
            Lack::Allows(field) => write!(f, "it allows more by {field} than the desired version"),
            Lack::Unread => f.write_str("a field of the desired version cannot be read, and may be one that protects"),
            Lack::Rule => f.write_str("it lacks a rule of the desired version that protects requests or has a policy"),
            Lack::Route => f.write_str("it lacks a route of the desired version that protects requests"),
        }
    }
}
