//! Guards: policies that require credentials, valid or broken in different ways.

use holdfast_scenario_tests::HttpRequest;
use holdfast_scenario_tests::manifests::indent;
use holdfast_scenario_tests::story::dice::Dice;

use super::super::LARGE;

/// What a guard requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// A header with a value that a condition names.
    Role,
    /// A key of a Secret.
    Key,
}

/// The form of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardForm {
    /// Valid.
    Good,
    /// The condition or the source of keys has a mistake.
    Faulty,
    /// A Secret does not exist.
    Missing,
    /// The field has a name that does not exist.
    Misspelt,
    /// Another field cannot be read.
    Unreadable,
    /// Another field has a regular expression that Envoys refuse.
    Refused,
}

impl GuardForm {
    /// The forms that cannot be enforced as written.
    const BROKEN: [Self; 5] = [Self::Faulty, Self::Missing, Self::Misspelt, Self::Unreadable, Self::Refused];
}

/// A guard of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    /// The number of the credentials.
    pub(super) number: u64,
    /// What it requires.
    requirement: Requirement,
    /// Its form.
    pub(super) form: GuardForm,
}

impl Guard {
    /// Returns a valid guard with these credentials.
    pub(super) fn new(number: u64, dice: &mut Dice) -> Self {
        let requirement = if dice.one_in(2) { Requirement::Role } else { Requirement::Key };
        Self { number, requirement, form: GuardForm::Good }
    }

    /// Returns the guard in its valid form.
    pub(super) fn repaired(self) -> Self {
        Self { form: GuardForm::Good, ..self }
    }

    /// Returns the guard in a broken form.
    pub(super) fn broken(self, dice: &mut Dice) -> Self {
        Self { form: GuardForm::BROKEN[dice.index(GuardForm::BROKEN.len())], ..self }
    }

    fn credential(&self) -> String {
        format!("c{}", self.number)
    }

    /// Returns the request with the credentials of this guard.
    pub(super) fn authorized(&self, request: HttpRequest) -> HttpRequest {
        match self.requirement {
            Requirement::Role => request.header("role", &self.credential()),
            Requirement::Key => request.header("api-key", &self.credential()),
        }
    }

    fn spec(&self, name: &str) -> String {
        let (field, valid, faulty) = match self.requirement {
            Requirement::Role => {
                let policy = |condition: &str| format!("{{policy: {{matchExpressions: [\"{condition}\"]}}}}");
                let valid = policy(&format!("request.headers['role'] == '{}'", self.credential()));
                ("rbac", valid, policy("request.headers['role'] =="))
            }
            Requirement::Key => {
                let secret = format!("secretRef: {{name: {name}-keys}}");
                ("apiKeyAuth", format!("{{{secret}}}"), format!("{{{secret}, keySources: [{{}}]}}"))
            }
        };
        let number = self.number;
        match self.form {
            GuardForm::Good => format!("{field}: {valid}\n"),
            GuardForm::Faulty => format!("{field}: {faulty}\n"),
            GuardForm::Missing => "apiKeyAuth: {secretRef: {name: no-such-keys}}\n".to_owned(),
            GuardForm::Misspelt => format!("{field}s: {valid}\n"),
            GuardForm::Unreadable => format!("{field}: {valid}\ntimeouts: soon\n"),
            GuardForm::Refused => {
                format!("{field}: {valid}\ncsrf: {{additionalOrigins: [{{safeRegex: '{LARGE}-{number}'}}]}}\n")
            }
        }
    }

    /// The Secret and the policy for a route.
    pub(super) fn manifests(&self, namespace: &str, name: &str) -> [String; 2] {
        let secret = format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: {name}-keys, namespace: {namespace}}}, \
             stringData: {{client: {}}}}}",
            self.credential()
        );
        let policy = format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\n\
             metadata: {{name: {name}-guard, namespace: {namespace}}}\nspec:\n  \
             targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}]\n{}",
            indent(&self.spec(name), 2)
        );
        [secret, policy]
    }
}
