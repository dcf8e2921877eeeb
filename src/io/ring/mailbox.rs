//! Mailboxes between cores: a bounded lock-free queue and the receiver's eventfd.
//!
//! Senders touch two shared words for each batch of messages, and make a system call only when the
//! receiver sleeps.

use super::{Core, RingWorld};
use crate::io::{Inbox, Outbox};
use crate::sys::process::EventFd;
use crossbeam::queue::ArrayQueue;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Wakes a core from other threads.
pub struct Wake {
    event: EventFd,
    pending: AtomicBool,
    sleeping: AtomicBool,
}

impl Wake {
    pub fn new() -> Result<Arc<Wake>, super::RingError> {
        let event = EventFd::new().map_err(super::RingError::NoMemory)?;
        let (pending, sleeping) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Arc::new(Wake { event, pending, sleeping }))
    }

    fn notify(&self) {
        self.pending.store(true, Ordering::SeqCst);
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.event.signal();
        }
    }

    pub(super) fn take_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) && self.pending.swap(false, Ordering::SeqCst)
    }

    /// Announces sleep; returns false if a message came in the meantime.
    pub(super) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        if self.pending.load(Ordering::SeqCst) {
            self.sleeping.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    pub(super) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// Consumes the signals that made the eventfd readable.
    pub(super) fn drain(&self) {
        self.event.drain();
    }
}

impl AsRawFd for Wake {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

/// The sending end of a mailbox, which any thread may use.
pub struct RingOutbox<M> {
    queue: Arc<ArrayQueue<M>>,
    wake: Arc<Wake>,
}

impl<M> Clone for RingOutbox<M> {
    fn clone(&self) -> Self {
        RingOutbox { queue: self.queue.clone(), wake: self.wake.clone() }
    }
}

/// The owner's end before it is tied to the owner's world.
pub struct Unbound<M>(Arc<ArrayQueue<M>>);

pub struct RingInbox<M> {
    queue: Arc<ArrayQueue<M>>,
    core: Rc<Core>,
}

/// Makes a mailbox of `capacity` messages for the core that `wake` wakes.
pub fn mailbox<M>(capacity: usize, wake: &Arc<Wake>) -> (RingOutbox<M>, Unbound<M>) {
    let queue = Arc::new(ArrayQueue::new(capacity));
    (RingOutbox { queue: queue.clone(), wake: wake.clone() }, Unbound(queue))
}

impl<M> Unbound<M> {
    /// Ties the mailbox to `world`. It must be called on the core that owns the mailbox, with the
    /// world that its `Wake` belongs to.
    pub fn bind(self, world: &RingWorld) -> RingInbox<M> {
        RingInbox { queue: self.0, core: world.0.clone() }
    }
}

impl<M: 'static> Outbox<M> for RingOutbox<M> {
    fn try_send(&self, message: M) -> Result<(), M> {
        self.queue.push(message)?;
        self.wake.notify();
        Ok(())
    }
}

impl<M: 'static> Inbox<M> for RingInbox<M> {
    async fn receive(&self) -> M {
        std::future::poll_fn(|context| {
            if let Some(message) = self.queue.pop() {
                return Poll::Ready(message);
            }
            self.core.inbox_wakers.borrow_mut().push(context.waker().clone());
            // A message that came between the pop and the registration has set `pending`, and the
            // driver sees that before it sleeps.
            Poll::Pending
        })
        .await
    }

    fn try_receive(&self) -> Option<M> {
        self.queue.pop()
    }
}

/// The sending end of a mailbox of a plain thread, which waits on the channel's other end.
pub struct ThreadOutbox<M>(pub crossbeam::channel::Sender<M>);

impl<M: 'static> Outbox<M> for ThreadOutbox<M> {
    fn try_send(&self, message: M) -> Result<(), M> {
        self.0.try_send(message).map_err(crossbeam::channel::TrySendError::into_inner)
    }
}
