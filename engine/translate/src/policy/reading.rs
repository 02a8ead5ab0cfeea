//! Results while a policy is read: settings and faults.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::core::secret::Secret;
use holdfast_api::apis::scheme;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::settings::Settings;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::Flaw;
use holdfast_graph::{ObjectKey, Role};

use crate::narrowing;
use crate::outcome::policy::{Blamed, PolicyPlan, Unenforceable};
use crate::outcome::setting::PolicySettings;
use crate::precedence::attachment::Target;
use crate::precedence::rank::Rank;
use crate::precedence::settings::{Field, Piece, Settings as Pieces};
use crate::reader::Reader;

/// Suffix of messages about invalid parts that protect no request.
const LEFT_OUT: &str = "; this setting is left out, and all other settings of the object are enforced";

/// A policy while it is read.
pub(super) struct Reading<'r, 'a> {
    pub(super) key: &'r ObjectKey,
    pub(super) settings: &'r Settings,
    pub(super) reader: &'r mut Reader<'a>,
    pieces: Pieces,
    /// Regex budgets of the policy and of each extension that it references: an extension has a separate budget of
    /// steps for each policy, so that one owner cannot use up the budget of another.
    regexes: BTreeMap<ObjectKey, Regexes>,
    faults: Vec<Fault>,
    /// Faults that decoding has reported already.
    reported: Vec<(String, String)>,
    secrets: Vec<ObjectKey>,
    /// Extensions at fault, with the reasons.
    blamed: Blamed,
    /// Number of faults that are faults of extensions.
    of_others: usize,
    /// The faults of extensions in the form of faults of the extensions themselves.
    of_extensions: Vec<Fault>,
}

impl<'r, 'a> Reading<'r, 'a> {
    pub(super) fn new(key: &'r ObjectKey, settings: &'r Settings, reader: &'r mut Reader<'a>) -> Self {
        let (pieces, faults, reported, secrets) = (Pieces::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            key,
            settings,
            reader,
            pieces,
            regexes: BTreeMap::new(),
            faults,
            reported,
            secrets,
            blamed: Blamed::new(),
            of_others: 0,
            of_extensions: Vec::new(),
        }
    }

    /// Returns the regex budget of the policy.
    pub(super) fn regexes(&mut self) -> &Regexes {
        self.regexes_of(self.key)
    }

    /// Returns the regex budget of the policy, or of an extension that it references.
    pub(super) fn regexes_of(&mut self, object: &ObjectKey) -> &Regexes {
        let settings = self.settings;
        let regexes = self.regexes.entry(object.clone());
        regexes.or_insert_with(|| Regexes::of_object(narrowing::limits(settings)))
    }

    /// Sets the value of a field.
    pub(super) fn piece(&mut self, field: Field, piece: Piece) {
        self.pieces.insert(field, piece);
    }

    /// Reports that the content of a field is invalid.
    pub(super) fn invalid(&mut self, field: impl Into<String>, message: impl ToString) {
        self.fault(Class::Invalid, field, "Invalid", message, None);
    }

    /// Reports flaws below a field (`basicAuth.users` below `spec`).
    pub(super) fn flaws(&mut self, field: &str, flaws: impl IntoIterator<Item = Flaw>) {
        for flaw in flaws {
            let dot = if flaw.field.is_empty() || flaw.field.starts_with('[') { "" } else { "." };
            self.invalid(format!("spec.{field}{dot}{}", flaw.field), flaw.message);
        }
    }

    /// Reports a field below `spec` that is not supported. The targets of the policy are closed.
    pub(super) fn unsupported(&mut self, field: impl std::fmt::Display) {
        let message = format!(
            "{field} is not supported by this version of Holdfast; requests that the policy applies to are refused"
        );
        self.fault(Class::Invalid, format!("spec.{field}"), "Unsupported", message, None);
    }

    /// Records a fault that decoding has reported already.
    pub(super) fn unreadable(&mut self, field: &str, message: &str) {
        self.reported.push((field.to_owned(), message.to_owned()));
    }

    /// Reports that a referenced object is missing or may not be used.
    pub(super) fn missing(&mut self, field: impl Into<String>, reason: &'static str, message: impl ToString) {
        self.fault(Class::Referential, field, reason, message, None);
    }

    /// Reports that a referenced object does not exist, or cannot be read.
    pub(super) fn lacks(&mut self, field: impl Into<String>, reason: &'static str, key: &ObjectKey) {
        let message = format!("{} {} {}", key.kind, key.namespaced_name(), self.reader.lacking(key));
        self.fault(Class::Referential, field, reason, message, Some(key));
    }

    /// Reports that the content of a referenced extension is invalid; `message` begins with the field of the extension.
    pub(super) fn wrong_extension(&mut self, field: impl Into<String>, extension: &ObjectKey, message: impl Display) {
        self.blame(extension, Class::Invalid, "Invalid", &message.to_string(), None);
        self.follows(Class::Invalid, field, "Invalid", extension, &message.to_string());
    }

    /// Reports that an object that an extension references is missing or may not be used; `message` begins with the
    /// field of the extension, and `cause` is the object, unless only a grant or an entry is missing.
    pub(super) fn extension_misses(
        &mut self,
        field: impl Into<String>,
        extension: &ObjectKey,
        reason: &'static str,
        message: impl Display,
        cause: Option<&ObjectKey>,
    ) {
        self.blame(extension, Class::Referential, reason, &message.to_string(), cause);
        self.follows(Class::Referential, field, reason, extension, &message.to_string());
    }

    fn blame(
        &mut self,
        extension: &ObjectKey,
        class: Class,
        reason: &'static str,
        message: &str,
        cause: Option<&ObjectKey>,
    ) {
        let (field, text) = message.split_once(": ").unwrap_or(("spec", message));
        self.of_extensions.push(Fault::new(extension, class, field, reason, text).caused_by(cause.cloned()));
        self.note_blame(extension, class, message);
    }

    /// Records an unreadable field of a referenced extension; decoding has reported it.
    pub(super) fn unread_extension(&mut self, field: impl Into<String>, extension: &ObjectKey, message: &str) {
        self.note_blame(extension, Class::Invalid, message);
        self.follows(Class::Invalid, field, "Invalid", extension, message);
    }

    fn note_blame(&mut self, extension: &ObjectKey, class: Class, message: &str) {
        let (known, messages) = self.blamed.entry(extension.clone()).or_insert((class, String::new()));
        *known = if class == Class::Invalid { class } else { *known };
        let separator = if messages.is_empty() { "" } else { "; " };
        messages.push_str(&format!("{separator}{message}"));
        self.of_others += 1;
    }

    /// Reports that a part of the policy has no effect; its targets are still served.
    pub(super) fn ignored(&mut self, field: impl Into<String>, reason: &'static str, message: impl ToString) {
        self.fault(Class::Ignored, field, reason, message, None);
    }

    /// Reads a part that only observes requests: if it is invalid, it is left out as a whole and reported, and the rest
    /// of the policy is enforced.
    pub(super) fn observing<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = self.faults.len();
        let outcome = read(self);
        let mut wrong = false;
        for fault in self.faults.iter_mut().skip(before).filter(|fault| fault.is_error()) {
            wrong = true;
            fault.class = Class::Ignored;
            fault.message.push_str(LEFT_OUT);
        }
        outcome.filter(|_| !wrong)
    }

    /// Reports that a part of an extension has no effect; the targets of the policy are still served.
    pub(super) fn extension_ignored(&mut self, extension: &ObjectKey, field: &str, message: &str) {
        let message = format!("{message}{LEFT_OUT}");
        self.of_extensions.push(Fault::new(extension, Class::Ignored, format!("spec.{field}"), "Invalid", message));
    }

    /// Adds a fault of the policy that follows from a fault of an extension.
    fn follows(
        &mut self,
        class: Class,
        field: impl Into<String>,
        reason: &'static str,
        extension: &ObjectKey,
        message: &str,
    ) {
        let message = format!("GatewayExtension {}: {message}", extension.namespaced_name());
        self.fault(class, field, reason, message, Some(extension));
    }

    fn fault(
        &mut self,
        class: Class,
        field: impl Into<String>,
        reason: &'static str,
        message: impl ToString,
        cause: Option<&ObjectKey>,
    ) {
        self.faults.push(Fault::new(self.key, class, field, reason, message.to_string()).caused_by(cause.cloned()));
    }

    /// Returns a Secret that the policy references, or reports why it cannot be used.
    pub(super) fn secret(&mut self, field: &str, namespace: Option<&str>, name: &str) -> Option<&'a Secret> {
        let key = scheme::secret_key(namespace.unwrap_or(&self.key.namespace), name);
        self.reader.edge(self.key, "", &key, Role::Requires);
        if !self.reader.granted((&self.key.group, &self.key.kind, &self.key.namespace), &key) {
            let message = format!(
                "Secret {} is in another namespace, and no ReferenceGrant there allows {} of {} to use it",
                key.namespaced_name(),
                self.key.kind,
                self.key.namespace
            );
            self.missing(field, "RefNotPermitted", message);
            return None;
        }
        let secret = self.reader.object(&key).and_then(|object| match &object.body {
            Body::Secret(secret) => Some(secret),
            _ => None,
        });
        match secret {
            Some(secret) => {
                self.secrets.push(key);
                Some(secret)
            }
            None => {
                self.lacks(field, "SecretNotFound", &key);
                None
            }
        }
    }

    /// Records that the policy was read from this object as well.
    pub(super) fn read_from(&mut self, key: &ObjectKey) {
        self.secrets.push(key.clone());
    }

    /// Returns all Secrets of the policy's namespace with these labels.
    pub(super) fn secrets_by(
        &mut self,
        labels: &std::collections::BTreeMap<String, String>,
    ) -> Vec<(&'a ObjectKey, &'a Secret)> {
        let found = self.reader.secrets_of(&self.key.namespace);
        let found: Vec<_> = found
            .into_iter()
            .filter(|object| labels.iter().all(|(name, value)| object.metadata.labels.get(name) == Some(value)))
            .filter_map(|object| match &object.body {
                Body::Secret(secret) => Some((&object.key, secret)),
                _ => None,
            })
            .collect();
        for (key, _) in &found {
            self.reader.edge(self.key, "", key, Role::Requires);
            self.secrets.push((*key).clone());
        }
        found
    }

    /// Returns the result.
    pub(super) fn finish(mut self, rank: Rank, targets: Vec<Target>) -> PolicyPlan {
        let errors = self.faults.iter().filter(|fault| fault.is_error());
        let own: Vec<(Class, String)> =
            errors.map(|fault| (fault.class, format!("{}: {}", fault.field, fault.message))).collect();
        let reported = self.reported.iter().map(|(field, message)| (Class::Invalid, format!("{field}: {message}")));
        let all: Vec<(Class, String)> = reported.chain(own).collect();
        let has_faults_of_its_own = all.len() > self.of_others;
        let invalid = all.iter().any(|(class, _)| *class == Class::Invalid);
        let class = if invalid { Class::Invalid } else { Class::Referential };
        let message = all.iter().map(|(_, message)| &**message).collect::<Vec<_>>().join("; ");
        let extension = self.blamed.keys().next().filter(|_| !has_faults_of_its_own);
        let kind = extension.unwrap_or(self.key).kind.clone();
        let unenforceable = (!all.is_empty()).then(|| Unenforceable { class, message: message.into(), kind });
        self.faults.append(&mut self.of_extensions);
        self.faults.sort_unstable();
        self.secrets.sort_unstable();
        self.secrets.dedup();
        PolicyPlan {
            rank,
            settings: Arc::new(PolicySettings::new(self.key.clone(), self.pieces)),
            ports: BTreeMap::new(),
            unenforceable,
            faults: self.faults,
            blamed: self.blamed,
            has_faults_of_its_own,
            targets,
            secrets: self.secrets,
            edges: Vec::new(),
        }
    }
}
