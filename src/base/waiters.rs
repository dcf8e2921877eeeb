//! A list of tasks of one core that wait for something. All are woken together, and each checks for
//! itself whether what it waits for has come.
//!
//! A waiter knows its own place in the list, so that polling it again costs a step and not a
//! search: with a thousand waiting tasks, each of which is polled for other reasons too, the search
//! took half of a core's time. A waiter that is dropped leaves the list.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

#[derive(Default)]
pub struct Waiters {
    /// The wakers, in the order in which the waiters came.
    waiting: RefCell<BTreeMap<u64, Waker>>,
    come_count: Cell<u64>,
}

/// A waiter's place in the list; it is freed when the waiter is dropped.
struct Place<'w> {
    waiters: &'w Waiters,
    number: u64,
}

impl Waiters {
    /// Resolves once `ready` returns a value. `ready` is called at every poll, and
    /// [`Waiters::wake_all`] causes one.
    pub async fn wait<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        let mut place: Option<Place<'_>> = None;
        poll_fn(|context| {
            if let Some(value) = ready() {
                return Poll::Ready(value);
            }
            place.get_or_insert_with(|| self.place()).take(context.waker());
            Poll::Pending
        })
        .await
    }

    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_values().for_each(Waker::wake);
    }

    fn place(&self) -> Place<'_> {
        self.come_count.set(self.come_count.get() + 1);
        Place { waiters: self, number: self.come_count.get() }
    }
}

impl Place<'_> {
    fn take(&self, waker: &Waker) {
        let mut waiting = self.waiters.waiting.borrow_mut();
        waiting.entry(self.number).or_insert_with(|| waker.clone()).clone_from(waker);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.waiters.waiting.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types)] // a waker that counts must be shared
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Wake};

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Counter(AtomicU64);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(waiting: &mut Pin<Box<impl Future<Output = ()>>>, by: &Arc<Counter>) -> bool {
        let waker = Waker::from(by.clone());
        waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
    }

    #[test]
    fn a_waiter_stands_in_the_list_once_however_often_and_by_whomever_it_is_polled() {
        let (waiters, is_ready) = (Waiters::default(), Cell::new(false));
        let counters: Vec<Arc<Counter>> = (0..100).map(|_| Arc::default()).collect();
        let mut waiting: Vec<_> =
            (0..10).map(|_| Box::pin(waiters.wait(|| is_ready.get().then_some(())))).collect();
        for counter in &counters {
            assert!(waiting.iter_mut().all(|waiting| !poll(waiting, counter)));
            assert_eq!(waiters.waiting.borrow().len(), 10);
        }
        waiters.wake_all();
        let woken = counters.iter().map(|counter| counter.0.load(Ordering::Relaxed));
        assert_eq!(woken.collect::<Vec<_>>(), [vec![0; 99], vec![10]].concat(), "the last waker");
        is_ready.set(true);
        assert!(waiting.iter_mut().all(|waiting| poll(waiting, &counters[0])));
    }

    #[test]
    fn a_waiter_that_goes_leaves_nothing() {
        let waiters = Waiters::default();
        for _ in 0..100 {
            let mut waiting = Box::pin(waiters.wait(|| None));
            assert!(!poll(&mut waiting, &Arc::default()));
        }
        assert!(waiters.waiting.borrow().is_empty());
    }
}
