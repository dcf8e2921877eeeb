//! The bytes of one simulated file: what readers see, and what a power cut leaves of it.
//!
//! Readers see the page cache. The platter holds the cache up to `synced_len`, followed by what a
//! truncation took from readers and no sync has taken from the platter. Everything else may be on
//! the platter or not, one sector at a time and in any order, because the kernel writes dirty pages
//! back when it likes.
//!
//! The invariant: what a successful sync covered is on the platter, whatever is cut.

use super::chance::Chance;
use super::fault::strikes;
use std::ops::Range;

/// What disks write as a whole or not at all, if they keep their promise.
pub(super) const SECTOR_BYTES: usize = 512;

/// What a power cut does to bytes and names that were not synced. The first four fields are
/// weights: one of these effects is drawn for each file that has unsynced bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// Everything had been written back by chance.
    pub kept: u64,
    /// Nothing had been written back.
    pub lost: u64,
    /// The bytes had been written back in order, up to some byte.
    pub prefix: u64,
    /// Any sectors had been written back, some of them torn at a byte; the size is the old one, the
    /// new one or one between.
    pub patchwork: u64,
    /// Creations, renames and removals that are lost, each as a whole.
    pub name_lost_per_mille: u64,
    /// Files in which one bit flips, synced or not: the disk breaks its promise.
    pub flip_per_mille: u64,
}

impl Default for PowerCut {
    fn default() -> PowerCut {
        PowerCut {
            kept: 1,
            lost: 1,
            prefix: 1,
            patchwork: 1,
            name_lost_per_mille: 500,
            flip_per_mille: 0,
        }
    }
}

impl PowerCut {
    pub(super) fn check(&self) {
        assert!(self.kept + self.lost + self.prefix + self.patchwork > 0, "all weights are zero");
        assert!(self.name_lost_per_mille <= 1_000, "a rate is above a thousand");
        assert!(self.flip_per_mille <= 1_000, "a rate is above a thousand");
    }
}

#[derive(Default)]
pub(super) struct Content {
    pub bytes: Vec<u8>,
    /// This many bytes are on the platter as readers see them, except for the abandoned ones.
    synced_len: usize,
    /// What else is on the platter from `synced_len` on: bytes cut off by a truncation that no sync
    /// has followed.
    old_tail: Vec<u8>,
    /// Ranges that a failed sync marked as clean: readers see them, but no later sync writes them.
    abandoned: Vec<Range<usize>>,
    /// Counts truncations. A sync that began before a truncation does not know what it synced, and
    /// makes nothing durable.
    truncate_count: u64,
}

/// What a sync that begins now will cover.
#[derive(Clone, Copy)]
pub(super) struct Covered {
    pub len: usize,
    truncate_count: u64,
}

impl Content {
    pub fn durable(bytes: Vec<u8>) -> Content {
        Content { synced_len: bytes.len(), bytes, ..Content::default() }
    }

    pub fn truncate(&mut self, size: usize) {
        if size < self.synced_len {
            let mut old_tail = self.bytes[size..self.synced_len].to_vec();
            old_tail.append(&mut self.old_tail);
            self.old_tail = old_tail;
            self.synced_len = size;
        }
        self.bytes.resize(size, 0);
        for range in &mut self.abandoned {
            *range = range.start.min(size)..range.end.min(size);
        }
        self.abandoned.retain(|range| !range.is_empty());
        self.truncate_count += 1;
    }

    pub fn cover(&self) -> Covered {
        Covered { len: self.bytes.len(), truncate_count: self.truncate_count }
    }

    pub fn note_synced(&mut self, covered: Covered) {
        // A later sync of the same file may have ended before this one.
        if covered.truncate_count == self.truncate_count && covered.len >= self.synced_len {
            self.synced_len = covered.len;
            self.old_tail.clear();
        }
    }

    /// Does what Linux does after a failed sync: the dirty pages count as clean. Some were written,
    /// and the others never will be; readers may still see those, or the old bytes.
    pub fn note_sync_failed(&mut self, chance: &Chance) {
        let stays_readable = chance.index(2) == 0;
        let abandoned: Vec<_> =
            self.dirty_sectors(self.bytes.len()).filter(|_| chance.index(2) == 0).collect();
        for range in abandoned {
            if !stays_readable {
                let old = self.platter(range.clone());
                self.bytes[range.clone()].copy_from_slice(&old);
            }
            self.abandoned.push(range);
        }
    }

    /// Leaves what a power cut would leave; returns the number of bytes that changed or were lost.
    pub fn lose_unsynced(&mut self, cut: &PowerCut, chance: &Chance) -> u64 {
        let before = std::mem::take(&mut self.bytes);
        self.bytes = before.clone();
        for range in self.abandoned.clone() {
            let old = self.platter(range.clone());
            self.bytes[range].copy_from_slice(&old);
        }
        let platter_len = self.synced_len + self.old_tail.len();
        if self.bytes.len() > self.synced_len || !self.old_tail.is_empty() {
            self.write_back_some(platter_len, cut, chance);
        }
        if strikes(chance, cut.flip_per_mille) {
            self.flip_bit(chance);
        }
        let kept = before.iter().zip(&self.bytes).filter(|(old, new)| old == new).count();
        let bytes = std::mem::take(&mut self.bytes);
        *self = Content::durable(bytes);
        (before.len() - kept) as u64
    }

    /// Flips one bit and returns the position of its byte; `None` if the file is empty.
    pub fn flip_bit(&mut self, chance: &Chance) -> Option<u64> {
        if self.bytes.is_empty() {
            return None;
        }
        let (at, bit) = (chance.index(self.bytes.len()), chance.index(8));
        self.bytes[at] ^= 1 << bit;
        Some(at as u64)
    }

    fn write_back_some(&mut self, platter_len: usize, cut: &PowerCut, chance: &Chance) {
        let len = self.bytes.len();
        let mut roll = chance.between(1, cut.kept + cut.lost + cut.prefix + cut.patchwork);
        let kind = [cut.kept, cut.lost, cut.prefix].into_iter().position(|weight| {
            let hit = roll <= weight;
            roll = roll.saturating_sub(weight);
            hit
        });
        match kind {
            Some(0) => {}
            Some(1) => {
                self.bytes.truncate(self.synced_len);
                self.bytes.extend_from_slice(&self.old_tail);
            }
            Some(_) => {
                let end = chance.between(self.synced_len as u64, len as u64) as usize;
                self.bytes.truncate(end);
                let rest = self.old_tail.get(end - self.synced_len..).unwrap_or_default();
                self.bytes.extend_from_slice(rest);
            }
            None => {
                let between =
                    chance.between(len.min(platter_len) as u64, len.max(platter_len) as u64);
                let size = [len, platter_len, between as usize][chance.index(3)];
                self.patch(size, chance);
            }
        }
    }

    fn patch(&mut self, size: usize, chance: &Chance) {
        let new = std::mem::take(&mut self.bytes);
        self.bytes = new.clone();
        self.bytes.resize(size, 0);
        for range in self.dirty_sectors(size).collect::<Vec<_>>() {
            // Half of the sectors are lost, and an eighth are torn: their first bytes are new.
            let new_len = match chance.index(8) {
                0..4 => 0,
                4 => chance.index(range.len()),
                _ => range.len(),
            };
            let old_from = range.start + new_len.min(new.len().saturating_sub(range.start));
            let old = self.platter(old_from..range.end);
            self.bytes[old_from..range.end].copy_from_slice(&old);
        }
    }

    /// Returns the ranges up to `end` that no sync covered, divided at the ends of sectors.
    fn dirty_sectors(&self, end: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let mut at = self.synced_len;
        std::iter::from_fn(move || {
            let start = at;
            at = (start / SECTOR_BYTES + 1) * SECTOR_BYTES;
            (start < end).then(|| start..at.min(end))
        })
    }

    /// Returns what the platter holds in a range beyond `synced_len`, with zeros where it holds
    /// nothing.
    fn platter(&self, range: Range<usize>) -> Vec<u8> {
        let old = |at: usize| at.checked_sub(self.synced_len).and_then(|at| self.old_tail.get(at));
        range.map(|at| old(at).copied().unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: PowerCut = PowerCut {
        kept: 0,
        lost: 0,
        prefix: 0,
        patchwork: 0,
        name_lost_per_mille: 0,
        flip_per_mille: 0,
    };

    /// Makes a file of 1,000 synced bytes of value 1, followed by 3,000 unsynced bytes of value 2.
    fn written() -> Content {
        let mut content = Content { bytes: vec![1; 1_000], ..Content::default() };
        content.note_synced(content.cover());
        content.bytes.resize(4_000, 2);
        content
    }

    fn after(content: Content, cut: PowerCut, seed: u64) -> Vec<u8> {
        let mut content = content;
        content.lose_unsynced(&cut, &Chance::new(seed, 1));
        content.bytes
    }

    #[test]
    fn synced_bytes_survive_every_kind_of_cut() {
        for seed in 0..500 {
            let kept = after(written(), PowerCut::default(), seed);
            assert!(kept.len() >= 1_000 && kept[..1_000] == [1; 1_000], "seed {seed}");
            assert!(kept[1_000..].iter().all(|byte| [0, 2].contains(byte)), "seed {seed}");
        }
    }

    #[test]
    fn each_kind_of_cut_does_what_it_says() {
        assert_eq!(after(written(), PowerCut { kept: 1, ..WHOLE }, 1).len(), 4_000);
        assert_eq!(after(written(), PowerCut { lost: 1, ..WHOLE }, 1), [1; 1_000]);
        let prefix = PowerCut { prefix: 1, ..WHOLE };
        let lengths: std::collections::BTreeSet<_> =
            (0..50).map(|seed| after(written(), prefix, seed).len()).collect();
        assert!(lengths.len() > 40, "too few places of the cut: {lengths:?}");
        let patchwork = PowerCut { patchwork: 1, ..WHOLE };
        let patched: Vec<_> = (0..50).map(|seed| after(written(), patchwork, seed)).collect();
        let is_reordered = |bytes: &Vec<u8>| {
            let hole = bytes.iter().position(|byte| *byte == 0);
            hole.is_some_and(|at| bytes[at..].contains(&2))
        };
        assert!(patched.iter().any(is_reordered), "no earlier sector was lost before a kept one");
        let is_torn = |bytes: &Vec<u8>| {
            let edges = (1_001..bytes.len()).filter(|at| bytes[*at] < bytes[at - 1]);
            edges.into_iter().any(|at| at % SECTOR_BYTES != 0)
        };
        assert!(patched.iter().any(is_torn), "no sector was torn");
    }

    #[test]
    fn a_truncation_that_was_not_synced_may_bring_the_old_tail_back() {
        let cut_short = || {
            let mut content = written();
            content.note_synced(content.cover());
            content.truncate(500);
            content.bytes.resize(1_500, 3);
            content
        };
        let lost = after(cut_short(), PowerCut { lost: 1, ..WHOLE }, 1);
        assert_eq!(lost, after(written(), PowerCut { kept: 1, ..WHOLE }, 1));
        let kept = after(cut_short(), PowerCut { kept: 1, ..WHOLE }, 1);
        assert_eq!((kept.len(), kept[499], kept[500]), (1_500, 1, 3));
        let mut synced = cut_short();
        synced.note_synced(synced.cover());
        assert_eq!(after(synced, PowerCut { lost: 1, ..WHOLE }, 1), kept);
    }

    #[test]
    fn a_sync_after_a_failed_one_saves_nothing_that_was_abandoned() {
        let (mut lost_count, mut unread_count) = (0, 0);
        for seed in 0..50 {
            let mut content = written();
            content.note_sync_failed(&Chance::new(seed, 2));
            unread_count += u32::from(content.bytes[1_000..].contains(&0));
            content.note_synced(content.cover());
            let kept = after(content, PowerCut::default(), seed);
            assert_eq!((kept.len(), &kept[..1_000]), (4_000, &[1; 1_000][..]));
            lost_count += u32::from(kept[1_000..].contains(&0));
        }
        assert!(lost_count > 40, "{lost_count}");
        assert!((10..40).contains(&unread_count), "old bytes were readable {unread_count} times");
    }

    #[test]
    fn a_flipped_bit_is_one_bit() {
        let flips = PowerCut { kept: 1, flip_per_mille: 1_000, ..WHOLE };
        let kept = after(Content::durable(vec![0; 1_000]), flips, 1);
        assert_eq!(kept.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }
}
