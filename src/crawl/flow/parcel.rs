//! Candidates on their way to another core, packed.
//!
//! A boxed candidate costs an allocation, which another core then frees. In a parcel the texts lie
//! behind each other, and with each comes who it is, as its finder computed it: most links are
//! known, and of those the receiver reads no text. Invariant: what [`Parcel::candidate`] gives is
//! equal to what was pushed.

use super::{Candidate, Class, Via};
use crate::base::limits::{LINK_BATCH_COUNT, PARCEL_BYTES_MAX};
use crate::proto::url::{Parts, Url, UrlId};
use crate::sys::memory;
use std::ops::Range;

/// Candidates for one core, in the order in which they were found.
#[derive(Clone, Debug)]
pub struct Parcel {
    ids: Vec<UrlId>,
    /// What is not text: of each candidate.
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

/// With room for the links of a page.
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

/// Of a link; longer ones make the parcel grow.
const TEXT_BYTES_USUAL: usize = 96;

impl Parcel {
    /// `id` is that of its URL.
    pub fn push(&mut self, id: UrlId, candidate: &Candidate<&str>) {
        let place = |start: usize, end: usize| {
            let place = |at| u32::try_from(at).expect("full long before");
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

    /// Whoever has more begins another.
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

    /// That a candidate is to be read soon. Another core wrote it: it is in no cache of ours. Most
    /// texts lie in two lines.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        let text = self.text(index).as_bytes();
        memory::prefetch(text);
        text.last().inspect(|last| memory::prefetch(*last));
    }

    /// Empty again, with its room.
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
