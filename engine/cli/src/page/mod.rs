//! The page for operators: `/`, `/object/KIND/NAMESPACE/NAME`, `/explain` and `/live` on the listener of diagnostics.
//!
//! HTML from the server, complete without scripts; one inline script replaces the content when health changes. All facts
//! are those of `health`, `diff` and `explain`. This room must not change anything, and requests only read: no cookies,
//! no forms but GET. Text from outside is escaped twice, for HTML and with [`plain`](crate::finding::plain).

mod answer;
mod article;
mod diagram;
mod explain;
mod filter;

mod frame;
mod gateways;
mod hosts;
mod live;
mod object;
mod overview;
mod paging;
mod text;
mod timeline;

use axum::Router;
use axum::routing::get;

use crate::admin::State;

/// Maximum number of rows of one list on one page.
const PAGE_ROWS_MAX: usize = 100;

/// The pages.
pub(crate) fn pages(state: State) -> Router {
    Router::new()
        .route("/", get(answer::overview))
        .route("/object/{*object}", get(answer::object))
        .route("/explain", get(answer::explain))
        .route("/live", get(live::live))
        .with_state(state)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
