//! The page `/debug/explain`: its query and its answer.

use holdfast_envoy::explain::request::ExplainRequest;
use serde_json::{Value, json};

use crate::explain::{ExplainFacts, ExplainReport, format as formatted, header};
use crate::failure::Failure;

/// The query of the page.
#[derive(Debug)]
pub(super) struct ExplainQuery {
    request: ExplainRequest,
    url: String,
    gateway: Option<String>,
}

impl ExplainQuery {
    /// Reads the parameters of the page.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        let (mut method, mut url, mut gateway, mut headers) = ("GET".to_owned(), None, None, Vec::new());
        for (name, value) in parameters {
            match &*name {
                "method" => method = value,
                "url" => url = Some(value),
                "gateway" => gateway = Some(value),
                "header" => headers.push(header(&value).map_err(|why| format!("header: {why}"))?),
                _ => {
                    return Err(format!(
                        "unknown parameter {name}: the parameters are method, url, header and gateway"
                    ));
                }
            }
        }
        let url = url.ok_or("url is missing: ?method=GET&url=http://HOST/PATH")?;
        let request = ExplainRequest::read(&method, &url, &headers)?;
        Ok(Self { request, url, gateway })
    }

    /// Returns the explanation.
    pub(super) fn answer(self, facts: &ExplainFacts) -> Result<ExplainReport, Failure> {
        ExplainReport::new(facts, self.request, &self.url, self.gateway.as_deref())
    }
}

/// Returns an explanation for programs and for people.
pub(super) fn document(report: &ExplainReport) -> Value {
    json!({ "report": report, "text": formatted(report) })
}
