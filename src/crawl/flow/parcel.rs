//! Candidates on their way to another core, packed.
//!
//! A candidate in a box of its own costs an allocation, which another core then has to free. A
//! parcel holds all texts one behind the other, and for each candidate the id that its finder has
//! computed. Most links are already known to the receiver, and it reads no text of those. The
//! finder's core fills a parcel, and the receiver's core reads it. Invariant: [`Parcel::candidate`]
//! returns a candidate equal to the one that was pushed.

use super::{Candidate, Class, Via};
use crate::base::limits::{LINK_BATCH_COUNT, PARCEL_BYTES_MAX};
use crate::proto::url::{Parts, Url, UrlId};
use crate::sys::memory;
use std::ops::Range;

/// Candidates for one core, in the order in which they were found.
#[derive(Clone, Debug)]
pub struct Parcel {
    ids: Vec<UrlId>,
    /// For each candidate, all its fields except the texts and trails.
    slips: Vec<Slip>,
    texts: String,
    trails: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Slip {
    text: Range<u32>,
    trail: Range<u32>,
    parts: Parts,
    depth: u16,
    class: Class,
    via: Via,
}

/// An empty parcel with room for the links of a page.
impl Default for Parcel {
    fn default() -> Parcel {
        Parcel {
            ids: Vec::with_capacity(LINK_BATCH_COUNT),
            slips: Vec::with_capacity(LINK_BATCH_COUNT),
            texts: String::with_capacity(LINK_BATCH_COUNT * TEXT_BYTES_USUAL),
            trails: Vec::new(),
        }
    }
}

/// The usual length of a link. Longer ones make the parcel grow.
const TEXT_BYTES_USUAL: usize = 96;

impl Parcel {
    /// Appends a candidate. `id` is the id of its URL.
    pub fn push(&mut self, id: UrlId, candidate: &Candidate<&str>) {
        let place = |start: usize, end: usize| {
            let place = |at| u32::try_from(at).expect("a full parcel is below 4 GiB");
            place(start)..place(end)
        };
        let Candidate { url, depth, class, via, trail } = candidate;
        let (text_start, trail_start) = (self.texts.len(), self.trails.len());
        self.texts.push_str(url.as_str());
        self.trails.extend_from_slice(trail);
        self.ids.push(id);
        self.slips.push(Slip {
            text: place(text_start, self.texts.len()),
            trail: place(trail_start, self.trails.len()),
            parts: url.parts(),
            depth: *depth,
            class: *class,
            via: *via,
        });
    }

    /// Reports whether the parcel has no room. Further candidates go into a new parcel.
    pub fn is_full(&self) -> bool {
        self.texts.len() >= PARCEL_BYTES_MAX
    }

    pub fn count(&self) -> usize {
        self.ids.len()
    }

    pub fn ids(&self) -> &[UrlId] {
        &self.ids
    }

    pub fn candidate(&self, index: usize) -> Candidate<&str> {
        let Slip { parts, depth, class, via, .. } = self.slips[index];
        Candidate {
            url: Url::lend(self.text(index), parts),
            depth,
            class,
            via,
            trail: self.trails[as_place(&self.slips[index].trail)].into(),
        }
    }

    /// Prefetches the text of a candidate that will be read soon. Another core wrote it, so it is
    /// in none of our caches. Most texts lie within two cache lines, so the first and the last are
    /// prefetched.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        let text = self.text(index).as_bytes();
        memory::prefetch(text);
        text.last().inspect(|last| memory::prefetch(*last));
    }

    /// Empties the parcel and keeps its memory.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.slips.clear();
        self.texts.clear();
        self.trails.clear();
    }

    fn text(&self, index: usize) -> &str {
        &self.texts[as_place(&self.slips[index].text)]
    }
}

fn as_place(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;

    #[test]
    fn candidates_come_out_of_a_parcel_as_they_went_in() {
        let made = |number: usize| Candidate {
            url: Url::parse(&format!(
                "http{}://h{number}.test{}/{}?q={number}",
                ["", "s"][number % 2],
                ["", ":8080", ":1"][number % 3],
                "x".repeat(number % 300)
            ))
            .expect("a URL"),
            depth: number as u16 * 37,
            class: Class::ALL[number % 4],
            via: Via::ALL[number % 5],
            trail: (0..number as u64 % 6).map(|step| step << 60 | 7).collect(),
        };
        let mut parcel = Parcel::default();
        for round in 0..2 {
            parcel.clear();
            for number in round..1_000 {
                let candidate = made(number);
                parcel.push(candidate.url.id(&test_key()), &candidate.lent());
            }
            assert_eq!(parcel.count(), 1_000 - round);
            for (index, id) in parcel.ids().iter().enumerate() {
                parcel.prefetch(index);
                let (candidate, expected) = (parcel.candidate(index), made(index + round));
                assert_eq!((candidate, *id), (expected.lent(), expected.url.id(&test_key())));
            }
        }
    }
}
