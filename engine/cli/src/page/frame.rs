//! The frame of every page: head, navigation, search, and the headers of the response.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_check::time::Moment;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::filter::OverviewFilter;
use crate::finding::plain;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// How often a browser without scripts loads the page again, in seconds.
const RELOAD_SECONDS: u32 = 30;

/// A page without its frame.
pub(super) struct HtmlPage {
    /// The title.
    pub(super) title: String,
    /// The filter, for the form of the search.
    pub(super) filter: OverviewFilter,
    /// Known namespaces and Gateways, for the form.
    pub(super) known: KnownNames,
    /// The content, which the script replaces when health changes.
    pub(super) content: Markup,
    /// When the content was true, in seconds of Unix time.
    pub(super) now: i64,
    /// The number of changes of health until then.
    pub(super) changes: u64,
    /// The status of the response.
    pub(super) status: StatusCode,
}

/// Names for the form of the search.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    /// Namespaces.
    pub(super) namespaces: Vec<String>,
    /// Gateways, as `namespace/name`.
    pub(super) gateways: Vec<String>,
}

impl HtmlPage {
    /// Returns the page as a response.
    pub(super) fn response(self) -> Response {
        let Ok(nonce) = nonce() else {
            return (StatusCode::INTERNAL_SERVER_ERROR, "no random numbers for the Content-Security-Policy\n")
                .into_response();
        };
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
             img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        let Ok(policy) = HeaderValue::from_str(&policy) else {
            return (StatusCode::INTERNAL_SERVER_ERROR, "no Content-Security-Policy\n").into_response();
        };
        let fixed = [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
            (header::CONTENT_SECURITY_POLICY, policy),
        ];
        (self.status, fixed, self.html(&nonce).into_string()).into_response()
    }

    fn html(&self, nonce: &str) -> Markup {
        let Self { title, filter, known, content, now, changes, .. } = self;
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (plain(title)) " – Holdfast" }
                    // Without it, browsers request an icon.
                    link rel="icon" href="data:,";
                    noscript { meta http-equiv="refresh" content=(RELOAD_SECONDS); }
                    style nonce=(nonce) { (PreEscaped(STYLE)) }
                }
                body {
                    a class="skip" href="#live" { "Skip to the content" }
                    header {
                        nav aria-label="Pages" {
                            a class="home" href="/" { "Holdfast" }
                            a href="/" { "Overview" }
                            a href="/explain" { "Explain a request" }
                            a href="/debug" { "JSON pages" }
                        }
                        (filter.form(known))
                    }
                    p #connection role="status" { "As of " time { (Moment(*now)) } span #stale {} }
                    main #live data-changes=(changes) tabindex="-1" { (content) }
                    script nonce=(nonce) { (PreEscaped(SCRIPT)) }
                }
            }
        }
    }
}

/// Returns a value that no text from outside can know.
fn nonce() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(STANDARD.encode(bytes))
}
