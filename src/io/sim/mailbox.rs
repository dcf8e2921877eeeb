//! Bounded mailboxes between simulated shards. A message arrives as soon as it is sent; when the
//! receiver handles it is the executor's seeded choice.

use super::wake::Waiters;
use crate::io::mailbox::{Inbox, Outbox};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

pub struct SimOutbox<M>(Rc<RefCell<Mailbox<M>>>);

pub struct SimInbox<M>(Rc<RefCell<Mailbox<M>>>);

pub(super) fn mailbox<M>(capacity: usize) -> (SimOutbox<M>, SimInbox<M>) {
    assert!(capacity > 0, "a mailbox needs room for a message");
    let mailbox = Mailbox { messages: VecDeque::new(), capacity, readers: Waiters::default() };
    let mailbox = Rc::new(RefCell::new(mailbox));
    (SimOutbox(mailbox.clone()), SimInbox(mailbox))
}

impl<M> Clone for SimOutbox<M> {
    fn clone(&self) -> SimOutbox<M> {
        SimOutbox(self.0.clone())
    }
}

impl<M: 'static> Outbox<M> for SimOutbox<M> {
    fn try_send(&self, message: M) -> Result<(), M> {
        let mut mailbox = self.0.borrow_mut();
        if mailbox.messages.len() >= mailbox.capacity {
            return Err(message);
        }
        mailbox.messages.push_back(message);
        mailbox.readers.wake_all();
        Ok(())
    }
}

impl<M: 'static> Inbox<M> for SimInbox<M> {
    async fn receive(&self) -> M {
        poll_fn(|context| {
            let mut mailbox = self.0.borrow_mut();
            match mailbox.messages.pop_front() {
                Some(message) => Poll::Ready(message),
                None => {
                    mailbox.readers.add(context.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn try_receive(&self) -> Option<M> {
        self.0.borrow_mut().messages.pop_front()
    }
}

struct Mailbox<M> {
    messages: VecDeque<M>,
    capacity: usize,
    readers: Waiters,
}
