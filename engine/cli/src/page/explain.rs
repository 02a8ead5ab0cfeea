//! `/explain`: a form, and what happens to the request.

use axum::http::StatusCode;
use maud::{Markup, html};

use super::text::text;
use crate::explain::{ExplainReport, RequestOutcome, format};
use crate::finding::plain;

/// Maximum length of a value of the form, in bytes.
const FORM_BYTES_MAX: usize = 8_192;

/// The values of the form, as they were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct ExplainForm {
    method: String,
    url: String,
    /// One `NAME: VALUE` on a line.
    headers: String,
    gateway: String,
}

impl ExplainForm {
    /// Reads the parameters of the page.
    ///
    /// # Errors
    /// Returns an error if a parameter is unknown, or too long.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        let mut form = Self::default();
        for (name, value) in parameters {
            if value.len() > FORM_BYTES_MAX {
                return Err(format!("{}: longer than {FORM_BYTES_MAX} bytes", plain(&name)));
            }
            match &*name {
                "method" => form.method = value,
                "url" => form.url = value.trim().to_owned(),
                "headers" => form.headers = value,
                "gateway" => form.gateway = value,
                _ => {
                    return Err(format!(
                        "unknown parameter {}: the parameters are method, url, headers and gateway",
                        plain(&name)
                    ));
                }
            }
        }
        Ok(form)
    }

    /// Returns the parameters of `/debug/explain`; `None` if the form is empty.
    pub(super) fn query(&self) -> Option<Vec<(String, String)>> {
        if self.url.is_empty() {
            return None;
        }
        let method = if self.method.is_empty() { "GET" } else { &self.method };
        let mut query = vec![("method".to_owned(), method.to_owned()), ("url".to_owned(), self.url.clone())];
        let headers = self.headers.lines().map(str::trim).filter(|line| !line.is_empty());
        query.extend(headers.map(|line| ("header".to_owned(), line.to_owned())));
        if !self.gateway.is_empty() {
            query.push(("gateway".to_owned(), self.gateway.clone()));
        }
        Some(query)
    }

    /// Returns the content of the page; `answer` is unset if the form is empty.
    pub(super) fn content(&self, answer: Option<&Result<ExplainReport, String>>, gateways: &[String]) -> Markup {
        let method = if self.method.is_empty() { "GET" } else { &self.method };
        html! {
            h1 { "Explain a request" }
            form method="get" action="/explain" class="explain" {
                label { "Method " input name="method" value=(method) size="8" required; }
                label { "URL " input name="url" value=(self.url) size="50" required placeholder="https://shop.example.com/cart"; }
                label { "Gateway "
                    select name="gateway" {
                        option value="" { "By the port of the URL" }
                        @for name in gateways { option value=(name) selected[*name == self.gateway] { (plain(name)) } }
                    }
                }
                label { "Headers, one NAME: VALUE on a line " textarea name="headers" rows="3" cols="50" { (self.headers) } }
                button type="submit" { "Explain" }
            }
            @match answer {
                None => { p { "The answer is computed from the configuration that is published to Envoys. No request is sent." } }
                Some(Err(why)) => { p #verdict class="verdict error" { (text(why)) } }
                Some(Ok(report)) => { (outcome(report)) }
            }
        }
    }
}

/// Returns the status of the page.
pub(super) fn status(answer: Option<&Result<ExplainReport, String>>) -> StatusCode {
    if answer.is_some_and(Result::is_err) { StatusCode::BAD_REQUEST } else { StatusCode::OK }
}

fn outcome(report: &ExplainReport) -> Markup {
    let (words, class) = match report.outcome {
        RequestOutcome::Served => ("served as desired", "served"),
        RequestOutcome::NotServed => ("not served as desired", "error"),
        RequestOutcome::Unknown => ("not known: something that is not served as desired may concern it", "earlier"),
    };
    html! {
        section aria-labelledby="answer" {
            h2 #answer { "What happens to it" }
            p #verdict class={ "verdict " (class) } { (words) }
            pre class="way" tabindex="0" role="group" aria-label="The way of the request" { @for line in format(report).lines() { (text(line)) "\n" } }
        }
    }
}
