//! Entries. Each records a change in the journal, or a piece of the state in a checkpoint.

use super::frame;
use crate::base::WallTime;
use crate::base::pack::Unpack;
use crate::crawl::flow::{Outcome, Queued};
use crate::proto::url::{Fingerprint, HostKey, Text};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A URL was taken: it is known, and it is in its host's queue.
    Admitted(Queued),
    /// A URL has ended. Its record and its links were durable before this was written.
    Ended { host: HostKey, fingerprint: Fingerprint, outcome: Outcome, is_page: bool },
    /// The same as `Ended`, for a URL that was given up: it is for the list of dead letters.
    Dead { queued: Queued, outcome: Outcome, at: WallTime },
    /// A URL waits for another try. This replaces the copy that was queued.
    Retried { queued: Queued, at: WallTime },
    /// A host asked us to stay away until this time.
    Waiting { host: HostKey, until: WallTime },
    /// What is known of an origin's robots.txt.
    Robots { origin: String, image: Vec<u8> },
    /// How an origin fails; empty if it fails no longer.
    Health { origin: String, image: Vec<u8> },

    /// An operator has put a URL that had ended back into its host's queue.
    Revived(Queued),
    /// A host is in RAM although no URL of it was taken: another host's robots.txt led to it. This
    /// entry makes the host known to later entries about it.
    Met { origin: String },
    /// A run of the crawl began, in the process that writes this journal.
    RunBegan,

    /// Begins a checkpoint. Journal entries up to `cut_lsn` are in it; those of file `cut_sequence`
    /// and later files are not.
    Begun { shard: u16, cut_lsn: u64, cut_sequence: u64, at: WallTime },
    /// A run of URL-seen: a file of fingerprints.
    Run { image: Vec<u8> },
    /// A segment of queue tails.
    Segment { image: Vec<u8> },
    /// Cold hosts, which are not in RAM, as they were at the cut: each as its last entry before the
    /// cut left it.
    Cold { image: Vec<u8> },
    /// A host, as it was after entry `lsn`.
    Host { lsn: u64, image: Vec<u8> },
    /// The totals of the crawl, with the ends that the journal has up to entry `lsn`. `is_last`
    /// says that the crawl had been told to end: what comes after is another run.
    Totals { lsn: u64, is_last: bool, image: Vec<u8> },
    /// Ends a checkpoint. Entries up to `lsn` had been made when its last host was written.
    Finished { host_count: u64, lsn: u64 },
}

const ADMITTED: u8 = 1;
const ENDED: u8 = 2;
const DEAD: u8 = 3;
const RETRIED: u8 = 4;
const WAITING: u8 = 5;
const ROBOTS: u8 = 6;
const HEALTH: u8 = 7;
const REVIVED: u8 = 8;
const MET: u8 = 9;
const RUN_BEGAN: u8 = 10;
const BEGUN: u8 = 32;
const RUN: u8 = 33;
const SEGMENT: u8 = 34;
const HOST: u8 = 35;
const FINISHED: u8 = 36;
const COLD: u8 = 37;
const TOTALS: u8 = 38;

/// Appends an `Admitted` entry. It is written for every URL that is taken, so the room for all of
/// it is made at once.
pub fn push_admitted<T: Text>(out: &mut Vec<u8>, queued: &Queued<T>) {
    out.reserve(FRAMING_BYTES_MAX + queued.url.as_str().len() + 8 * queued.trail.len());
    frame::push(out, ADMITTED, |pack| queued.pack(pack));
}

/// Bytes that a queued URL takes at most beside its text and its trail.
const FRAMING_BYTES_MAX: usize = 32;

/// Appends an `Ended` entry. `is_page` says that the URL brought a page, which is counted as one.
pub fn push_ended(
    out: &mut Vec<u8>,
    host: HostKey,
    fingerprint: Fingerprint,
    outcome: Outcome,
    is_page: bool,
) {
    frame::push(out, ENDED, |pack| {
        pack.u64(host.0);
        pack.u128(fingerprint.0);
        pack.u8(outcome as u8);
        pack.u8(u8::from(is_page));
    });
}

pub fn push_dead(out: &mut Vec<u8>, queued: &Queued, outcome: Outcome, at: WallTime) {
    frame::push(out, DEAD, |pack| {
        queued.pack(pack);
        pack.u8(outcome as u8);
        pack.u64(at.0);
    });
}

pub fn push_retried(out: &mut Vec<u8>, queued: &Queued, at: WallTime) {
    frame::push(out, RETRIED, |pack| {
        queued.pack(pack);
        pack.u64(at.0);
    });
}

pub fn push_waiting(out: &mut Vec<u8>, host: HostKey, until: WallTime) {
    frame::push(out, WAITING, |pack| {
        pack.u64(host.0);
        pack.u64(until.0);
    });
}

impl Entry {
    pub fn push(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Admitted(queued) => push_admitted(out, queued),
            Entry::Ended { host, fingerprint, outcome, is_page } => {
                push_ended(out, *host, *fingerprint, *outcome, *is_page);
            }
            Entry::Dead { queued, outcome, at } => push_dead(out, queued, *outcome, *at),
            Entry::Retried { queued, at } => push_retried(out, queued, *at),
            Entry::Waiting { host, until } => push_waiting(out, *host, *until),
            Entry::Robots { origin, image } => frame::push(out, ROBOTS, |pack| {
                pack.text(origin);
                pack.bytes(image);
            }),
            Entry::Health { origin, image } => frame::push(out, HEALTH, |pack| {
                pack.text(origin);
                pack.bytes(image);
            }),
            Entry::Revived(queued) => frame::push(out, REVIVED, |pack| queued.pack(pack)),
            Entry::Met { origin } => frame::push(out, MET, |pack| pack.text(origin)),
            Entry::RunBegan => frame::push(out, RUN_BEGAN, |_| ()),
            Entry::Cold { image } => {
                frame::push(out, COLD, |pack| pack.0.extend_from_slice(image));
            }
            Entry::Begun { shard, cut_lsn, cut_sequence, at } => frame::push(out, BEGUN, |pack| {
                pack.u16(*shard);
                pack.u64(*cut_lsn);
                pack.u64(*cut_sequence);
                pack.u64(at.0);
            }),
            Entry::Run { image } => frame::push(out, RUN, |pack| pack.0.extend_from_slice(image)),
            Entry::Segment { image } => frame::push(out, SEGMENT, |pack| pack.bytes(image)),
            Entry::Host { lsn, image } => frame::push(out, HOST, |pack| {
                pack.u64(*lsn);
                pack.bytes(image);
            }),
            Entry::Totals { lsn, is_last, image } => frame::push(out, TOTALS, |pack| {
                pack.u64(*lsn);
                pack.u8(u8::from(*is_last));
                pack.bytes(image);
            }),
            Entry::Finished { host_count, lsn } => frame::push(out, FINISHED, |pack| {
                pack.u64(*host_count);
                pack.u64(*lsn);
            }),
        }
    }

    /// Reads what [`Entry::push`] wrote; `None` if the body is something else.
    pub(super) fn read(kind: u8, body: &[u8]) -> Option<Entry> {
        let mut rest = Unpack(body);
        let entry = Entry::read_body(kind, &mut rest)?;
        rest.is_empty().then_some(entry)
    }

    fn read_body(kind: u8, body: &mut Unpack<'_>) -> Option<Entry> {
        Some(match kind {
            ADMITTED => Entry::Admitted(Queued::unpack(body)?),
            ENDED => Entry::Ended {
                host: HostKey(body.u64()?),
                fingerprint: Fingerprint(body.u128()?),
                outcome: read_outcome(body)?,
                is_page: body.u8()? != 0,
            },
            DEAD => Entry::Dead {
                queued: Queued::unpack(body)?,
                outcome: read_outcome(body)?,
                at: WallTime(body.u64()?),
            },
            RETRIED => Entry::Retried { queued: Queued::unpack(body)?, at: WallTime(body.u64()?) },
            WAITING => Entry::Waiting { host: HostKey(body.u64()?), until: WallTime(body.u64()?) },
            ROBOTS => Entry::Robots { origin: body.text()?.into(), image: body.bytes()?.into() },
            HEALTH => Entry::Health { origin: body.text()?.into(), image: body.bytes()?.into() },
            REVIVED => Entry::Revived(Queued::unpack(body)?),
            MET => Entry::Met { origin: body.text()?.into() },
            RUN_BEGAN => Entry::RunBegan,
            COLD => Entry::Cold { image: std::mem::take(&mut body.0).into() },
            BEGUN => Entry::Begun {
                shard: body.u16()?,
                cut_lsn: body.u64()?,
                cut_sequence: body.u64()?,
                at: WallTime(body.u64()?),
            },
            RUN => Entry::Run { image: std::mem::take(&mut body.0).into() },
            SEGMENT => Entry::Segment { image: body.bytes()?.into() },
            HOST => Entry::Host { lsn: body.u64()?, image: body.bytes()?.into() },
            TOTALS => Entry::Totals {
                lsn: body.u64()?,
                is_last: body.u8()? != 0,
                image: body.bytes()?.into(),
            },
            FINISHED => Entry::Finished { host_count: body.u64()?, lsn: body.u64()? },
            _ => return None,
        })
    }
}

fn read_outcome(body: &mut Unpack<'_>) -> Option<Outcome> {
    Outcome::ALL.get(usize::from(body.u8()?)).copied()
}
