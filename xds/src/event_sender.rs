//! Notices of one stream, reported in order and without loss.

use std::collections::VecDeque;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tracing::debug;

use crate::{Answer, EnvoyId, Notice};

/// Reports the notices of one stream. They wait while the channel is full; none is lost, not even where the task of the
/// stream is dropped meanwhile, as long as the runtime lives.
pub(crate) struct EventSender {
    notices: mpsc::Sender<Notice>,
    envoy: EnvoyId,
    waiting: VecDeque<Notice>,
}

impl EventSender {
    /// Reports that a stream began; the end of the stream is reported when the value is dropped.
    pub(crate) async fn begin(notices: mpsc::Sender<Notice>, envoy: EnvoyId, resumes: bool) -> Self {
        // A future that is dropped while it waits here has reported nothing, and will report nothing.
        if notices.send(Notice::Connected(envoy.clone(), resumes)).await.is_err() {
            debug!("the receiver of notices has ended");
        }
        Self { notices, envoy, waiting: VecDeque::new() }
    }

    /// Adds an answer to report next.
    pub(crate) fn add(&mut self, answer: Answer) {
        self.waiting.push_back(Notice::Answered(answer));
    }

    /// Waits until all notices are reported, or the receiver is dropped.
    pub(crate) async fn flush(&mut self) {
        while !self.waiting.is_empty() {
            let Ok(place) = self.notices.reserve().await else { return self.waiting.clear() };
            if let Some(notice) = self.waiting.pop_front() {
                place.send(notice);
            }
        }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.push_back(Notice::Disconnected(self.envoy.clone()));
        while let Some(notice) = waiting.pop_front() {
            match self.notices.try_send(notice) {
                Ok(()) => {}
                Err(TrySendError::Closed(_)) => return,
                Err(TrySendError::Full(notice)) => {
                    waiting.push_front(notice);
                    return send_in_background(self.notices.clone(), waiting);
                }
            }
        }
    }
}

/// Reports the remaining notices in the background. Their number is limited: each stream waits for a slot when it
/// begins.
fn send_in_background(notices: mpsc::Sender<Notice>, waiting: VecDeque<Notice>) {
    // Without a runtime there is no receiver any more.
    let Ok(runtime) = Handle::try_current() else { return };
    runtime.spawn(async move {
        for notice in waiting {
            if notices.send(notice).await.is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::testing::envoy;
    use crate::{Outcome, ResourceType};

    fn answer(message: &str) -> Answer {
        let EnvoyId { fleet, node, build } = envoy("a/b e");
        let outcome = Outcome::Refused { message: message.to_owned() };
        Answer { fleet, node, build, kind: ResourceType::Route, outcome, resources: Vec::new() }
    }

    #[tokio::test]
    async fn pending_notices_are_sent_in_order_also_after_the_stream_is_dropped() {
        let (notices, mut received) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let mut sender = EventSender::begin(notices, envoy("a/b e"), true).await;
            sender.add(answer("1"));
            sender.add(answer("2"));
            sender.flush().await;
        });
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let mut delivered = Vec::new();
        while let Some(notice) = received.recv().await {
            delivered.push(notice);
        }
        let expected = [
            Notice::Connected(envoy("a/b e"), true),
            Notice::Answered(answer("1")),
            Notice::Answered(answer("2")),
            Notice::Disconnected(envoy("a/b e")),
        ];
        assert_eq!(delivered, expected);
    }

    #[tokio::test]
    async fn no_disconnection_is_reported_for_an_unreported_connection() {
        let (notices, mut received) = mpsc::channel(1);
        notices.send(Notice::Answered(answer("before"))).await.unwrap();
        let task = tokio::spawn(async move { drop(EventSender::begin(notices, envoy("a/b e"), false).await) });
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(received.recv().await, Some(Notice::Answered(answer("before"))));
        assert_eq!(received.recv().await, None);
    }

    #[tokio::test]
    async fn without_a_receiver_no_notice_waits() {
        let (notices, received) = mpsc::channel(1);
        drop(received);
        let mut sender = EventSender::begin(notices, envoy("a/b e"), false).await;
        sender.add(answer("1"));
        sender.flush().await;
        assert!(sender.waiting.is_empty());
    }
}
