//! A signal for one waiting task of a core to look again. Other tasks poke it. Several pokes before
//! the task looks count as one, and none is lost.

use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};

#[derive(Default)]
pub struct Notify {
    poked: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Notify {
    pub fn poke(&self) {
        self.poked.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Returns at once if there was a poke since the last wait ended.
    pub async fn wait(&self) {
        std::future::poll_fn(|context| {
            if self.poked.replace(false) {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
