//! The shard's counters and spans, shared by its services. Each call borrows them for one
//! statement.

use crate::crawl::flow::Outcome;
use crate::crawl::metrics::{Count, Metrics, Span};
use std::cell::RefCell;
use std::time::Duration;

pub(super) struct Probe(RefCell<Metrics>);

impl Probe {
    pub(super) fn new() -> Probe {
        Probe(RefCell::new(Metrics::new()))
    }

    pub(super) fn add(&self, count: Count, amount: u64) {
        self.0.borrow_mut().add(count, amount);
    }

    pub(super) fn record(&self, span: Span, took: Duration) {
        self.0.borrow_mut().record(span, took);
    }

    pub(super) fn outcome(&self, outcome: Outcome) {
        self.0.borrow_mut().outcome(outcome);
    }

    pub(super) fn count(&self, count: Count) -> u64 {
        self.0.borrow().count(count)
    }

    /// Copies all that was counted so far.
    pub(super) fn snapshot(&self) -> Metrics {
        self.0.borrow().clone()
    }
}
