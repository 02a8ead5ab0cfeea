//! Answers of a route through an Envoy: requests on one connection, until one has the expected value.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::HttpRequest;
use holdfast_scenario_tests::connect::ClientConnection;
use holdfast_scenario_tests::request::get;
use tokio::time::sleep;

use crate::objects::{HEADER, PATH};

/// Pause between two requests: short beside every measured time, and long enough to leave the processors to others.
const PAUSE: Duration = Duration::from_millis(1);
/// Time for a value to be in an answer, also after a start with many routes.
const LIMIT: Duration = Duration::from_secs(300);

/// The requests to one host.
#[derive(Debug)]
pub(crate) struct Answers {
    request: HttpRequest,
    connection: Option<ClientConnection>,
}

impl Answers {
    /// Requests to a host at a loopback port.
    pub(crate) fn of(port: u16, host: &str) -> Self {
        Self { request: get(port, PATH).host(host), connection: None }
    }

    /// Sends a request; returns the value of the header that the route adds.
    pub(crate) async fn value(&mut self) -> Result<String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.request.connect().await?,
        };
        let reply = self.request.send_on(&mut connection).await?;
        self.connection = Some(connection);
        let echo = reply.echo()?;
        echo.header(HEADER).first().cloned().with_context(|| format!("no {HEADER} in {}", reply.body))
    }

    /// Sends requests until an answer has this value; returns the time of that answer.
    pub(crate) async fn until(&mut self, value: &str) -> Result<Instant> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let error = match self.value().await {
                Ok(answered) if answered == value => return Ok(Instant::now()),
                Ok(answered) => anyhow::anyhow!("the last value was {answered}"),
                Err(error) => error,
            };
            let what = || format!("{}: no answer with {value} within {} s", self.request.line(), LIMIT.as_secs());
            ensure!(Instant::now() < deadline, error.context(what()));
            sleep(PAUSE).await;
        }
    }
}
