//! The digest desk: computes the payload digests of several pages at once, because two side by side
//! take little longer than one ([`crate::sys::sha1`]).
//!
//! Owns the responses that wait for their digest; each is returned with it. The first response
//! waits for others as long as other visits are under way, up to [`limits::DIGEST_GATHER_US`], and
//! then the digests of all are computed. If a response makes them [`limits::DIGEST_BATCH_COUNT`] or
//! [`limits::DIGEST_BATCH_BYTES`] together, they are computed at once, while they are in the cache.
//! No host waits for this, because a page's host has been released by then. A site that is crawled
//! without a delay has one page at a time, and its payloads are still gathered. Touched by one
//! core.

use crate::base::limits;
use crate::base::oneshot;
use crate::base::race::{First, race};
use crate::io::Clock;
use crate::proto::warc::{PayloadDigest, Sha1};
use std::cell::{Cell, RefCell};
use std::time::Duration;

#[derive(Default)]
pub(super) struct DigestDesk(RefCell<Desk>);

#[derive(Default)]
struct Desk {
    waiting: Vec<Waiting>,
    size_bytes: usize,
}

struct Waiting {
    response: Vec<u8>,
    head_len: usize,
    done: oneshot::Sender<(Vec<u8>, Sha1)>,
}

impl DigestDesk {
    /// Returns the digest of the part of a response after its head. `work_off` calls
    /// [`DigestDesk::work_off`]; `visit_count` is the number of visits under way.
    pub(super) async fn digest(
        &self,
        clock: &impl Clock,
        visit_count: &Cell<usize>,
        work_off: impl FnOnce(),
        response: &mut Vec<u8>,
        head_len: usize,
    ) -> Sha1 {
        let (done, mut result) = oneshot::channel();
        let is_first = self.0.borrow().waiting.is_empty();
        let waiting = Waiting { response: std::mem::take(response), head_len, done };
        self.0.borrow_mut().put(waiting);
        let is_full = self.0.borrow().is_full();
        let early = if is_first && !is_full {
            race(&mut result, self.company(clock, visit_count)).await
        } else {
            First::Right(())
        };
        let done = match early {
            First::Left(done) => done,
            First::Right(()) => {
                if is_first || is_full {
                    work_off();
                }
                result.await
            }
        };
        let (whole, digest) = done.expect("each response on the desk gets its digest");
        *response = whole;
        digest
    }

    /// Resolves when no other visit that is under way may bring a payload, or when
    /// [`limits::DIGEST_GATHER_US`] have passed.
    async fn company(&self, clock: &impl Clock, visit_count: &Cell<usize>) {
        // First the other visits that are ready bring their payloads, and new visits are begun.
        clock.yield_now().await;
        if self.0.borrow().waiting.len() < visit_count.get() {
            let span = Duration::from_micros(limits::DIGEST_GATHER_US);
            clock.sleep_until(clock.now() + span).await;
        }
    }

    /// Computes the digests of all responses that wait.
    pub(super) fn work_off(&self) {
        self.0.borrow_mut().work_off();
    }
}

impl Desk {
    fn is_full(&self) -> bool {
        self.waiting.len() >= limits::DIGEST_BATCH_COUNT
            || self.size_bytes >= limits::DIGEST_BATCH_BYTES
    }

    fn put(&mut self, waiting: Waiting) {
        self.size_bytes += waiting.response.len();
        self.waiting.push(waiting);
    }

    fn work_off(&mut self) {
        let payloads: Vec<&[u8]> =
            self.waiting.iter().map(|waiting| &waiting.response[waiting.head_len..]).collect();
        let digests = PayloadDigest::of_all(&payloads);
        for (waiting, digest) in self.waiting.drain(..).zip(digests) {
            waiting.done.send((waiting.response, digest));
        }
        self.size_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_response_comes_back_with_the_digest_of_its_own_payload() {
        let mut desk = Desk::default();
        let mut results = Vec::new();
        while !desk.is_full() {
            let (done, result) = oneshot::channel();
            let number = results.len();
            let response = vec![number as u8; 1_000 * (number % 3) + 20];
            desk.put(Waiting { response, head_len: number, done });
            results.push(result);
        }
        assert_eq!(results.len(), limits::DIGEST_BATCH_COUNT);
        desk.work_off();
        assert!(!desk.is_full() && desk.waiting.is_empty());
        for (number, result) in results.into_iter().enumerate() {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let std::task::Poll::Ready(Some((response, digest))) =
                Future::poll(std::pin::pin!(result), &mut context)
            else {
                panic!("a response has no digest");
            };
            assert_eq!(response, vec![number as u8; 1_000 * (number % 3) + 20]);
            assert_eq!(digest, PayloadDigest::of(&response[number..]));
        }
    }

    #[test]
    fn large_responses_are_worked_off_before_they_leave_the_cache() {
        let mut desk = Desk::default();
        let (done, _result) = oneshot::channel();
        let response = vec![0; limits::DIGEST_BATCH_BYTES];
        desk.put(Waiting { response, head_len: 0, done });
        assert!(desk.is_full());
    }
}
