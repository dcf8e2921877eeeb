//! The tasks that wait for durability: URLs leave the frontier once their ends are durable, and
//! links of other shards are acknowledged once they are. Touched by one core.

use super::Shard;
use crate::crawl::flow::Message;
use crate::io::World;
use std::rc::Rc;

impl<W: World> Shard<W> {
    /// Takes URLs out of the frontier as their ends become durable.
    pub(super) async fn keep_ends(self: Rc<Self>) {
        if !self.archive.has_journal() {
            return;
        }
        loop {
            let end = self.archive.next_completed().await;
            let fingerprint = end.queued.url.fingerprint(&self.kit.plan.hash_key);
            self.frontier_mut().complete(end.host, fingerprint);
            if self.archive.has_no_ends() {
                self.kit.wake.poke();
            }
        }
    }

    /// Acknowledges the links of other shards, as they become durable.
    pub(super) async fn keep_owed(self: Rc<Self>) {
        if !self.archive.has_journal() {
            return;
        }
        loop {
            for (to, through_count) in self.archive.next_owed().await {
                let kept = Message::LinksKept { by: self.kit.index, through_count };
                self.mesh.borrow_mut().post(to, kept);
            }
            self.kit.wake.poke();
        }
    }
}
