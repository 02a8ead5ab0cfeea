//! The validating admission webhook: answers `kubectl apply` with what `holdfast check` would report about the object.
//!
//! A listener of `holdfast run`, on every replica. The main loop returns a basis of the review, which costs a walk
//! over the dependencies of one object; the review itself runs on another thread ([`reviewer`]). A webhook that cannot
//! answer in time allows the object with a warning: it must never be the reason why a cluster cannot be changed.
//!
//! The module decides nothing about objects: [`holdfast_engine::review`] does.

mod admission;
pub mod arguments;
mod reviewer;
mod verdict;
mod wording;

use std::time::Duration;

use anyhow::Context;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::arguments::WebhookArgs;
use self::reviewer::Reviewer;
use crate::admin::webhook_metrics::WebhookMetrics;
use crate::admin::{self, ConnectionLimits};
use crate::failure::Failure;
use crate::serve::core::CoreHandle;
use crate::xds::material::{self, ServerFlags, TlsFiles};

/// Maximum size of a request in bytes: an API server accepts objects of up to 3 MiB, and sends the object before and
/// after the change.
const REVIEW_BYTES_MAX: usize = 8 << 20;
/// Maximum time for reading a request.
const REVIEW_READ_TIME_MAX: Duration = Duration::from_secs(5);
/// The path of the webhook.
const PATH: &str = "/review";

/// The flags of the files, for messages.
const FLAGS: ServerFlags = ServerFlags {
    certificate: "--webhook-tls-cert",
    key: "--webhook-tls-key",
    server: "webhook",
    protocol: b"http/1.1",
};

/// The listener, bound but not serving yet.
pub(crate) struct WebhookListener {
    listener: TcpListener,
    tls: holdfast_xds::TlsSource,
    args: WebhookArgs,
    metrics: WebhookMetrics,
}

impl WebhookListener {
    /// Binds the address of the flag, and follows the files of the certificate; `None` without the flag.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or the certificate cannot be used.
    pub(crate) async fn bind(args: &WebhookArgs, metrics: &WebhookMetrics) -> Result<Option<Self>, Failure> {
        let Some((address, certificate, key)) = args.listen()? else { return Ok(None) };
        let files = TlsFiles { flags: FLAGS, certificate, key, client_ca: None, others_have_tokens: false };
        let (tls, _) = material::follow(files)?;
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("--webhook-listen {address}: cannot listen on this address (choose another address)")
        })?;
        tracing::info!(%address, mode = args.webhook_mode.name(), "serving the admission webhook");
        Ok(Some(Self { listener, tls, args: args.clone(), metrics: metrics.clone() }))
    }

    /// Serves until the product ends.
    pub(crate) async fn serve(self, handle: CoreHandle, places: ConnectionLimits, ending: watch::Receiver<bool>) {
        let reviewer = Reviewer::new(handle, self.args.webhook_mode, self.metrics);
        admin::serve_tls(self.listener, self.tls, pages(reviewer), places, ending).await;
    }
}

fn pages(reviewer: Reviewer) -> Router {
    Router::new().route(PATH, post(review)).layer(DefaultBodyLimit::max(REVIEW_BYTES_MAX)).with_state(reviewer)
}

async fn review(State(reviewer): State<Reviewer>, request: Request) -> Response {
    let body = match tokio::time::timeout(REVIEW_READ_TIME_MAX, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) => return refused.into_response(),
        Err(_) => return (StatusCode::REQUEST_TIMEOUT, "the request was not complete in time\n").into_response(),
    };
    let answer = match admission::head(&body) {
        Ok(head) => reviewer.answer(&head, body).await.map(|answer| admission::response(&head.uid, &answer)),
        Err(why) => Err(why),
    };
    match answer {
        Ok(answer) => Json(answer).into_response(),
        Err(why) => (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests;
