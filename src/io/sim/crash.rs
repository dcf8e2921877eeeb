//! What a test does to a simulated machine: kill its shards, cut its power, damage its disk.
//!
//! A crash leaves the disk, the network and the other shards as they are. To restart, run the
//! crashed shards anew on [`Sim::world`]: the directory is the same, with what is left in it.

use super::{DiskFaults, DiskModel, PowerCut, Sim, SimError, Trouble, Turn};
use crate::base::Time;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Sim {
    /// Sets how long disk operations take from now on.
    pub fn set_disk(&self, model: DiskModel) {
        model.check();
        self.shared.disk_model.set(model);
    }

    /// Sets how often the disk fails from now on.
    pub fn set_disk_faults(&self, faults: DiskFaults) {
        faults.check();
        self.shared.ailments.borrow_mut().faults = faults;
    }

    /// Gives all files together room for `bytes` at most. What does not fit of an append is not
    /// written, and the append fails. With `None` there is room for everything again.
    pub fn set_disk_capacity(&self, bytes: Option<u64>) {
        self.shared.ailments.borrow_mut().capacity = bytes.map(|bytes| (bytes, Time::NEVER));
    }

    /// Does the same as [`Sim::set_disk_capacity`] until the time `until`.
    pub fn fill_disk_until(&self, bytes: u64, until: Time) {
        self.shared.ailments.borrow_mut().capacity = Some((bytes, until));
    }

    /// Makes some operations to come fail, in addition to those that the rates make fail.
    pub fn trouble_disk(&self, trouble: Trouble) {
        self.shared.ailments.borrow_mut().add(trouble);
    }

    /// Sets what a power cut does from now on to what was not synced.
    pub fn set_power_cut(&self, cut: PowerCut) {
        cut.check();
        self.shared.power_cut.set(cut);
    }

    /// Runs up to the poll with number `step`, counted as [`Sim::step_count`] does; returns false
    /// if all was idle before. With [`Sim::crash`] a test can crash at any event of a history.
    pub fn run_until_step(&self, step: u64) -> Result<bool, SimError> {
        let _drive = self.drive();
        while self.step_count() < step {
            if matches!(self.shared.executor.turn(Time::NEVER)?, Turn::Idle) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends all tasks of one shard where they are. What they own goes with them: connections close,
    /// listeners and sockets vanish. Files keep what was written, synced or not.
    pub fn kill(&self, shard: u16) {
        self.shared.record(shard, "killed", format_args!(""));
        self.shared.executor.kill(Some(shard));
    }

    /// Cuts the power of the machine of these shards: they are killed, and the disk loses what was
    /// not synced.
    pub fn crash(&self, shards: impl IntoIterator<Item = u16>) {
        shards.into_iter().for_each(|shard| self.kill(shard));
        self.lose_unsynced();
    }

    /// Does to the disk what a power cut does, according to [`PowerCut`] and the seed. Kill the
    /// shards first, or use [`Sim::crash`].
    pub fn lose_unsynced(&self) {
        let (cut, chance) = (self.shared.power_cut.get(), &self.shared.disk_fault_chance);
        let lost = self.shared.tree.lose_unsynced(&cut, chance);
        let detail = format_args!("{} bytes, {} names", lost.byte_count, lost.change_count);
        self.shared.record(u16::MAX, "power lost", detail);
    }

    /// Flips a bit, chosen by the seed, of a file at rest; returns the position of its byte, or
    /// `None` if the file is empty.
    ///
    /// # Panics
    /// Panics if there is no such file.
    pub fn flip_bit(&self, path: &Path) -> Option<u64> {
        let tree = &self.shared.tree;
        let file = tree.open(&tree.root, path).expect("a file on the disk");
        let at = file.borrow_mut().flip_bit(&self.shared.disk_fault_chance);
        self.shared.record(u16::MAX, "bit flipped", format_args!("{} {at:?}", path.display()));
        at
    }

    /// Returns every file on the disk with its bytes, synced or not.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.shared.tree.files()
    }

    /// Puts a durable file on the disk, in place of any other of that name: a fixture.
    ///
    /// # Panics
    /// Panics if `path` is not the relative path of a file.
    pub fn put_file(&self, path: &Path, bytes: Vec<u8>) {
        self.shared.tree.put_file(path, bytes).expect("a relative path of a file");
    }
}
