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
        let (mut method, mut url, mut gateway, mut headers) = (None, None, None, Vec::new());
        for (name, value) in parameters {
            let place = match &*name {
                "method" => &mut method,
                "url" => &mut url,
                "gateway" => &mut gateway,
                "header" => {
                    headers.push(header(&value).map_err(|why| format!("header: {why}"))?);
                    continue;
                }
                _ => {
                    return Err(format!(
                        "unknown parameter {name}: the parameters are method, url, header and gateway"
                    ));
                }
            };
            if place.replace(value).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        let method = method.unwrap_or_else(|| "GET".to_owned());
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
