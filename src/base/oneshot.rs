//! A channel for one value from one task to another on the same core.
//!
//! The stages use it to wait for an answer that arrives as a message (dedup) or from the lookup of
//! another task (DNS). It needs no atomics, because both ends stay on the core that made them.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Shared<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
}

pub struct Sender<T>(Rc<RefCell<Shared<T>>>);

/// Resolves to the value, or to `None` when the sender was dropped without sending.
pub struct Receiver<T>(Rc<RefCell<Shared<T>>>);

pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Rc::new(RefCell::new(Shared { value: None, waker: None, sender_gone: false }));
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    pub fn send(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut shared = self.0.borrow_mut();
            shared.sender_gone = true;
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut shared = self.0.borrow_mut();
        if let Some(value) = shared.value.take() {
            return Poll::Ready(Some(value));
        }
        if shared.sender_gone {
            return Poll::Ready(None);
        }
        shared.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_value_arrives_once() {
        let (sender, receiver) = channel();
        let mut receiver = pin!(receiver);
        assert_eq!(poll(receiver.as_mut()), Poll::Pending);
        sender.send(7);
        assert_eq!(poll(receiver.as_mut()), Poll::Ready(Some(7)));
    }

    #[test]
    fn a_dropped_sender_is_noticed() {
        let (sender, receiver) = channel::<u8>();
        drop(sender);
        assert_eq!(poll(pin!(receiver)), Poll::Ready(None));
    }
}
