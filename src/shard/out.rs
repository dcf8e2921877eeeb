//! How a service passes on what others must know: journal entries, and letters (messages) and links
//! for other shards. An [`Out`] only appends. It calls no service back, so a service may stay
//! borrowed while it is used.

use super::Shard;
use crate::crawl::flow::{Candidate, Message, ShardIndex};
use crate::io::World;
use crate::proto::url::UrlId;

pub trait Out {
    /// Appends an entry to the journal, if there is one.
    fn entry(&mut self, push: impl FnOnce(&mut Vec<u8>));

    /// Posts a message to another shard.
    fn letter(&mut self, to: ShardIndex, message: Message);

    /// Sends a link to the shard that owns its host.
    fn link(&mut self, to: ShardIndex, id: UrlId, found: &Candidate<&str>);
}

/// The [`Out`] of a running shard: its journal and its mesh.
pub(super) struct Outlets<'s, W: World>(&'s Shard<W>);

impl<W: World> Shard<W> {
    pub(super) fn out(&self) -> Outlets<'_, W> {
        Outlets(self)
    }
}

impl<W: World> Out for Outlets<'_, W> {
    fn entry(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
        self.0.archive.entry(push);
    }

    fn letter(&mut self, to: ShardIndex, message: Message) {
        self.0.mesh.borrow_mut().post(to, message);
    }

    fn link(&mut self, to: ShardIndex, id: UrlId, found: &Candidate<&str>) {
        self.0.archive.link_sent(to);
        self.0.mesh.borrow_mut().post_link(to, id, found);
    }
}

/// An [`Out`] that keeps what was appended, for a test to examine.
#[cfg(test)]
#[derive(Debug, Default)]
pub struct Kept {
    /// The bytes of each entry.
    pub entries: Vec<Vec<u8>>,
    pub letters: Vec<(ShardIndex, Message)>,
    pub links: Vec<(ShardIndex, UrlId, Candidate)>,
}

#[cfg(test)]
impl Out for Kept {
    fn entry(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
        let mut entry = Vec::new();
        push(&mut entry);
        self.entries.push(entry);
    }

    fn letter(&mut self, to: ShardIndex, message: Message) {
        self.letters.push((to, message));
    }

    fn link(&mut self, to: ShardIndex, id: UrlId, found: &Candidate<&str>) {
        self.links.push((to, id, found.owned()));
    }
}
