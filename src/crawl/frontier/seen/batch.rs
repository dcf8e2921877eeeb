//! A batch: deferred candidates, packed in the order in which they came.
//!
//! This module owns their records and needles. A record is the candidate's text with its other
//! fields: nine bytes beside the URL and its trail. Its needle takes 24 bytes more. A million boxed
//! candidates would cost about twice that. Records lie in pieces of fixed size, so that growing
//! copies nothing. Invariant: what [`Batch::candidate`] returns is equal to what was pushed.

use super::order::Keyed;
use crate::base::Time;
use crate::base::limits::SEEN_PIECE_BYTES;
use crate::crawl::flow::{Candidate, Class, Via};
use crate::proto::url::{Fingerprint, Url};

/// A deferred fingerprint on its way through a merge. It is stored in two halves, because a `u128`
/// would align the needle to 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needle {
    high: u64,
    low: u64,
    /// The candidate's place in the order in which they came.
    pub(super) index: u32,
    place: u32,
}

impl Needle {
    pub(super) fn fingerprint(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }
}

impl Keyed for Needle {
    fn key(&self) -> u128 {
        self.fingerprint()
    }
}

#[derive(Default)]
pub(super) struct Batch {
    needles: Vec<Needle>,
    pieces: Vec<Vec<u8>>,
    size_bytes: usize,
    /// When the first candidate came.
    pub(super) since: Option<Time>,
}

/// Bytes of a record's head: text length, origin length, depth, class, via, trail length. The trail
/// follows, then the text.
const HEAD_BYTES: usize = 2 + 2 + 2 + 1 + 1 + 1;

impl Batch {
    pub(super) fn push(
        &mut self,
        fingerprint: Fingerprint,
        candidate: &Candidate<&str>,
        now: Time,
    ) {
        let Candidate { url, depth, class, via, trail } = candidate;
        let record_bytes = HEAD_BYTES + 8 * trail.len() + url.as_str().len();
        if self.pieces.last().is_none_or(|piece| piece.len() + record_bytes > SEEN_PIECE_BYTES) {
            self.pieces.push(Vec::with_capacity(SEEN_PIECE_BYTES.max(record_bytes)));
        }
        let piece_index = self.pieces.len() - 1;
        let piece = &mut self.pieces[piece_index];
        let place = piece_index * SEEN_PIECE_BYTES + piece.len();
        let number = |length: usize| u16::try_from(length).expect("URLs are short").to_le_bytes();
        let mut head = [0; HEAD_BYTES];
        head[..2].copy_from_slice(&number(url.as_str().len()));
        head[2..4].copy_from_slice(&number(url.origin().len()));
        head[4..6].copy_from_slice(&depth.to_le_bytes());
        head[6..8].copy_from_slice(&[*class as u8, *via as u8]);
        head[8] = u8::try_from(trail.len()).expect("trails are short");
        piece.extend_from_slice(&head);
        trail.iter().for_each(|step| piece.extend_from_slice(&step.to_le_bytes()));
        piece.extend_from_slice(url.as_str().as_bytes());
        self.size_bytes += record_bytes;
        self.needles.push(Needle {
            high: (fingerprint.0 >> 64) as u64,
            low: fingerprint.0 as u64,
            index: u32::try_from(self.needles.len()).expect("bounded by limits"),
            place: u32::try_from(place).expect("bounded by limits"),
        });
        self.since.get_or_insert(now);
    }

    pub(super) fn count(&self) -> usize {
        self.needles.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    pub(super) fn needles(&self) -> &[Needle] {
        &self.needles
    }

    pub(super) fn candidate(&self, index: usize) -> Candidate {
        let place = self.needles[index].place as usize;
        let record = &self.pieces[place / SEEN_PIECE_BYTES][place % SEEN_PIECE_BYTES..];
        let number = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let (text_bytes, origin_bytes) = (usize::from(number(0)), usize::from(number(2)));
        let text_start = HEAD_BYTES + 8 * usize::from(record[8]);
        let steps = record[HEAD_BYTES..text_start].as_chunks().0;
        let text = str::from_utf8(&record[text_start..text_start + text_bytes])
            .expect("the text was written from a URL");
        let (origin, path_and_query) = text.split_at(origin_bytes);
        Candidate {
            url: Url::rebuild(origin, path_and_query),
            depth: number(4),
            class: Class::ALL[usize::from(record[6])],
            via: Via::ALL[usize::from(record[7])],
            trail: steps.iter().map(|step| u64::from_le_bytes(*step)).collect(),
        }
    }

    pub(super) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        (0..self.count()).map(|index| self.candidate(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;

    #[test]
    fn candidates_come_back_as_they_went_in_over_many_pieces() {
        let mut batch = Batch::default();
        let made = |number: usize| Candidate {
            url: Url::parse(&format!(
                "http{}://h{number}.test:8080/{}?q={number}",
                ["", "s"][number % 2],
                "x".repeat(number % 3_000)
            ))
            .expect("a URL"),
            depth: number as u16,
            class: Class::ALL[number % 4],
            via: Via::ALL[number % 5],
            trail: (0..number as u64 % 6).map(|step| step << 60 | 7).collect(),
        };
        for number in 0..3_000 {
            let candidate = made(number);
            batch.push(
                candidate.url.fingerprint(&test_key()),
                &candidate.lent(),
                Time(number as u64 + 5),
            );
        }
        assert!(batch.pieces.len() > 10, "one piece proves nothing");
        assert_eq!(batch.since, Some(Time(5)));
        for (number, candidate) in batch.candidates().enumerate() {
            assert_eq!(candidate, made(number));
            let needle = batch.needles()[number];
            assert_eq!(Fingerprint(needle.fingerprint()), candidate.url.fingerprint(&test_key()));
            assert_eq!(needle.index as usize, number);
        }
        assert_eq!(batch.candidates().count(), 3_000);
    }
}
