//! What a test does to a simulated machine: kill its shards, cut its power, spoil its disk.
//!
//! A crash leaves the disk, the network and the other shards as they are. To restart, run the
//! crashed shards anew on [`Sim::world`]: the same directory, with what is left in it.

use super::{DiskFaults, DiskModel, PowerCut, Sim, SimError, Trouble, Turn};
use crate::base::Time;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Sim {
    /// From now on the disk takes so long.
    pub fn set_disk(&self, model: DiskModel) {
        model.check();
        self.shared.disk_model.set(model);
    }

    /// From now on the disk fails so often.
    pub fn set_disk_faults(&self, faults: DiskFaults) {
        faults.check();
        self.shared.ailments.borrow_mut().faults = faults;
    }

    /// All files together have at most so many bytes; what does not fit an append is not written,
    /// and the append fails. Without a number there is room for everything again.
    pub fn set_disk_capacity(&self, bytes: Option<u64>) {
        self.shared.ailments.borrow_mut().capacity = bytes.map(|bytes| (bytes, Time::NEVER));
    }

    /// As [`Sim::set_disk_capacity`], until someone makes room.
    pub fn fill_disk_until(&self, bytes: u64, until: Time) {
        self.shared.ailments.borrow_mut().capacity = Some((bytes, until));
    }

    /// Some operations to come fail, besides those that the rates strike.
    pub fn trouble_disk(&self, trouble: Trouble) {
        self.shared.ailments.borrow_mut().add(trouble);
    }

    /// From now on a power cut does this to what was not synced.
    pub fn set_power_cut(&self, cut: PowerCut) {
        cut.check();
        self.shared.power_cut.set(cut);
    }

    /// Does what happens up to the poll with number `step`, counted as [`Sim::step_count`] does;
    /// false if all was idle before. With [`Sim::crash`]: a crash at any event of a history.
    pub fn run_until_step(&self, step: u64) -> Result<bool, SimError> {
        let _drive = self.drive();
        while self.step_count() < step {
            if matches!(self.shared.executor.turn(Time::NEVER)?, Turn::Idle) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends all tasks of one shard where they stand. What they own goes with them: connections
    /// close, listeners and sockets vanish. Files keep what was written, synced or not.
    pub fn kill(&self, shard: u16) {
        self.shared.record(shard, "killed", format_args!(""));
        self.shared.executor.kill(Some(shard));
    }

    /// The machine of these shards loses power: they are killed, and the disk loses what was not
    /// synced.
    pub fn crash(&self, shards: impl IntoIterator<Item = u16>) {
        shards.into_iter().for_each(|shard| self.kill(shard));
        self.lose_unsynced();
    }

    /// What a power cut does to the disk, by [`PowerCut`] and the seed. Kill the shards first, or
    /// [`Sim::crash`] them.
    pub fn lose_unsynced(&self) {
        let (cut, chance) = (self.shared.power_cut.get(), &self.shared.disk_fault_chance);
        let lost = self.shared.tree.lose_unsynced(&cut, chance);
        let detail = format_args!("{} bytes, {} names", lost.byte_count, lost.change_count);
        self.shared.record(u16::MAX, "power lost", detail);
    }

    /// Flips a seeded bit of a file at rest; gives its byte, or `None` if the file is empty.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn flip_bit(&self, path: &Path) -> Option<u64> {
        let tree = &self.shared.tree;
        let file = tree.open(&tree.root, path).expect("a file on the disk");
        let at = file.borrow_mut().flip_bit(&self.shared.disk_fault_chance);
        self.shared.record(u16::MAX, "bit flipped", format_args!("{} {at:?}", path.display()));
        at
    }

    /// Every file on the disk with its bytes, synced or not.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.shared.tree.files()
    }

    /// Puts a file on the disk, durable, in place of any other: a fixture.
    ///
    /// # Panics
    /// If `path` is not the relative path of a file.
    pub fn put_file(&self, path: &Path, bytes: Vec<u8>) {
        self.shared.tree.put_file(path, bytes).expect("a relative path of a file");
    }
}
