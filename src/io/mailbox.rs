//! The ends of the mesh: bounded mailboxes between cores, and from the control thread to a core.
//!
//! A mailbox has many senders and one receiving core. Senders never wait: a full mailbox gives the
//! message back, and the sender keeps it until there is room (`shard::mesh` bounds how many).

use std::future::Future;

pub trait Inbox<M>: 'static {
    /// Returns the next message; waits while there is none.
    fn receive(&self) -> impl Future<Output = M>;

    fn try_receive(&self) -> Option<M>;
}

pub trait Outbox<M>: 'static {
    /// Puts `message` into the mailbox and wakes its owner, or gives the message back if there is
    /// no room.
    fn try_send(&self, message: M) -> Result<(), M>;
}
