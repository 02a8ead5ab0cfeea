//! Notes: findings about a backend policy, and readers of the values in such policies.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::kgateway::policy::Unread;
use holdfast_api::fault::{Class, Fault};
use holdfast_graph::ObjectKey;

/// The shortest meaningful duration.
const SHORTEST: Duration = Duration::from_millis(1);

/// A finding about a policy.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    pub(super) class: Class,
    pub(super) field: String,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// The object at fault, if it is not the policy.
    cause: Option<ObjectKey>,
    /// Whether decoding has already reported the finding.
    reported: bool,
}

/// All findings about a policy.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Wrong>);

impl Notes {
    /// Returns whether there are no errors.
    pub(super) fn is_empty(&self) -> bool {
        self.errors().next().is_none()
    }

    fn errors(&self) -> impl Iterator<Item = &Wrong> {
        self.0.iter().filter(|wrong| wrong.class != Class::Ignored)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Wrong> {
        self.0.iter()
    }

    /// Returns all errors in one sentence.
    pub(super) fn sentence(&self) -> String {
        let all = self.errors().map(|wrong| match wrong.field.is_empty() {
            true => wrong.message.clone(),
            false => format!("{}: {}", wrong.field, wrong.message),
        });
        all.collect::<Vec<_>>().join("; ")
    }

    /// Returns the findings as faults, except those that decoding has reported.
    pub(super) fn faults(&self, key: &ObjectKey) -> Vec<Fault> {
        let own = self.0.iter().filter(|wrong| !wrong.reported);
        let fault = |wrong: &Wrong| Fault::new(key, wrong.class, &wrong.field, wrong.reason, &wrong.message);
        own.map(|wrong| fault(wrong).caused_by(wrong.cause.clone())).collect()
    }

    fn note(&mut self, class: Class, field: impl Into<String>, reason: &'static str, message: impl Display) {
        let (field, message) = (field.into(), message.to_string());
        self.0.push(Wrong { class, field, reason, message, reported: false, cause: None });
    }

    /// Adds the fields that decoding could not read.
    pub(super) fn unread(&mut self, unread: &[Unread]) {
        self.0.extend(unread.iter().map(|unread| Wrong {
            class: Class::Invalid,
            field: unread.field.clone(),
            reason: "Invalid",
            message: unread.message.clone(),
            reported: true,
            cause: None,
        }));
    }

    /// Adds a finding: the content of a field is unusable.
    pub(super) fn invalid(&mut self, field: impl Into<String>, message: impl Display) {
        self.note(Class::Invalid, field, "Invalid", message);
    }

    /// Adds a finding: a field is not supported.
    pub(super) fn unsupported(&mut self, field: impl Into<String>, why: impl Display) {
        self.note(Class::Invalid, field, "Unsupported", format!("this is not supported: {why}"));
    }

    /// Adds a finding: a referenced object is missing or unusable.
    pub(super) fn missing(&mut self, field: impl Into<String>, reason: &'static str, message: impl Display) {
        self.note(Class::Referential, field, reason, message);
    }

    /// Adds a finding: this object is missing, cannot be read, or does not have what is necessary.
    pub(super) fn lacks(
        &mut self,
        field: impl Into<String>,
        reason: &'static str,
        object: &ObjectKey,
        message: impl Display,
    ) {
        self.note(Class::Referential, field, reason, message);
        self.0.iter_mut().last().into_iter().for_each(|wrong| wrong.cause = Some(object.clone()));
    }

    /// Adds a warning about the dates of certificates of this object; the object with the field is served.
    pub(super) fn dated(
        &mut self,
        field: impl Into<String>,
        reason: &'static str,
        object: Option<&ObjectKey>,
        message: impl Display,
    ) {
        self.note(Class::Ignored, field, reason, message);
        self.0.iter_mut().last().into_iter().for_each(|wrong| wrong.cause = object.cloned());
    }

    pub(super) fn duration(&mut self, field: &str, text: Option<&str>) -> Option<Duration> {
        match holdfast_check::duration::duration(text?) {
            Ok(duration) => Some(duration),
            Err(fault) => {
                self.invalid(field, fault);
                None
            }
        }
    }

    /// Reads a duration that must not be zero.
    pub(super) fn positive(&mut self, field: &str, text: Option<&str>) -> Option<Duration> {
        let duration = self.duration(field, text)?;
        if duration < SHORTEST {
            self.invalid(field, "must be 1ms or longer");
        }
        Some(duration)
    }

    /// Reads a duration as whole seconds, at least one.
    pub(super) fn seconds(&mut self, field: &str, text: Option<&str>) -> Option<u32> {
        let seconds = self.duration(field, text)?.as_secs();
        if seconds == 0 {
            self.invalid(field, "must be 1s or longer");
        }
        Some(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    pub(super) fn number(&mut self, field: &str, value: Option<i64>, from: u32, to: u32) -> Option<u32> {
        let value = value?;
        let number = u32::try_from(value).ok().filter(|number| (from..=to).contains(number));
        if number.is_none() {
            self.invalid(field, format!("{value} is out of range: it must be between {from} and {to}"));
        }
        number
    }

    /// Reads text that is usable as a header value.
    pub(super) fn text(&mut self, field: &str, text: Option<&Arc<str>>) -> Arc<str> {
        let Some(text) = text else { return "".into() };
        if let Err(fault) = holdfast_check::header::value(text) {
            self.invalid(field, fault);
        }
        text.clone()
    }
}
