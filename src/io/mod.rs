//! The interface between the crawler and the outside world: traits for streams, datagrams, files,
//! clock, randomness, tasks and mailboxes.
//!
//! Stages and shards are written against these traits and never see glommio, a socket or a clock.
//! Two implementations, called worlds, stand behind them: [`ring`] for production and [`sim`] for
//! tests and `nephila sim`. The choice is made at compile time, so that the interface costs
//! nothing.
//!
//! Every future here belongs to the core that made it: none is `Send`. Every wait takes a deadline;
//! a wait that has none takes [`Time::NEVER`].

pub mod clock;
pub mod disk;
pub mod mailbox;
pub mod net;
pub mod ring;
#[cfg(any(test, feature = "lab"))]
pub mod sim;

pub use clock::{Clock, Effort, Random, Spawn};
pub use disk::{Disk, DiskError, File, make_dir};
pub use mailbox::{Inbox, Outbox};
pub use net::{Datagram, Listener, Net, NetError, Stream};

use crate::base::Time;

/// Everything outside the crawler that one core uses. Cloning is cheap, and clones are the same
/// world.
pub trait World: Clock + Random + Spawn + Net + Disk + Clone + 'static {}

impl<W: Clock + Random + Spawn + Net + Disk + Clone + 'static> World for W {}

/// Returns the deadline that is `span_ms` from now.
pub fn deadline_in_ms(clock: &impl Clock, span_ms: u64) -> Time {
    clock.now() + std::time::Duration::from_millis(span_ms)
}
