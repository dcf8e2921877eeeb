//! The links of a page: from their texts to the frontier, or to the core that owns their host.
//!
//! In: the base of a page and the texts of its links; URLs that other cores have sent. Out: URLs
//! that are new or still wait for the disk, given to the frontier; URLs of other cores' hosts,
//! handed over to be sent; a [`LinkTally`]. Touched by one core.
//!
//! Most links are known, and finding that out is what costs: every gate is a table larger than the
//! processor's caches. So links go through the gates together, [`LINK_BATCH_COUNT`] of a page at a
//! time, and each gate's memory is prefetched before the first link is judged:
//! 1. The keys of all links are computed. Links that the memo knows are done, and so are those that
//!    occur earlier in the batch.
//! 2. The others are joined and normalised in buffers that are reused, and hashed once.
//! 3. URL seen is asked: first what it has seen recently, then, for the others, all of it. Known
//!    links are done.
//! 4. The few that remain are offered one by one.
//!
//! Links from other cores begin with the third step, [`PARCEL_BATCH_COUNT`] at a time, because they
//! were joined and hashed where they were found.
//!
//! Prefetching changes no result. Between the check of a URL and its offer only links of the same
//! batch are admitted, so a link that occurs twice in the batch is checked again.

use super::link_memo::{Bases, LinkMemo};
use crate::base::limits::{LINK_BATCH_COUNT, PARCEL_BATCH_COUNT};
use crate::base::{HashKey, Time};
use crate::crawl::flow::{Candidate, Class, Parcel, Queued, Trail, Via};
use crate::crawl::frontier::{Frontier, Offered, Seen, Sieve};
use crate::proto::url::{Base, Fingerprint, HostKey, Normaliser, Scratch, Url, UrlId};
use std::cell::RefMut;

/// What the link desk needs of the shard. A test has a stand-in.
pub trait Ways {
    type Sieve: Sieve;
    type Data: Default;

    fn frontier(&self) -> RefMut<'_, Frontier<Self::Sieve, Self::Data>>;
    /// Returns the key with which hosts and URLs are hashed.
    fn hash_key(&self) -> &HashKey;
    fn normaliser(&self) -> &Normaliser;
    /// Reports whether links may lead to this host.
    fn is_home(&self, host: &str) -> bool;
    /// Reports whether this core owns the host.
    fn is_own(&self, host: HostKey) -> bool;
    /// Sends a candidate to the core that owns its host.
    fn send(&self, id: UrlId, candidate: &Candidate<&str>);
    /// Notes that a URL was queued. Called at once.
    fn admitted(&self, queued: &Queued<&str>);
}

/// What happened to links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTally {
    /// Links that the memo knew, or that occurred earlier in the batch.
    pub remembered_count: u64,
    /// Links that are no URLs we can use.
    pub refused_count: u64,
    /// Links that lead where links may not lead.
    pub outside_count: u64,
    pub sent_count: u64,
    pub known_count: u64,
    pub queued_count: u64,
    pub deferred_count: u64,
    pub trapped_count: u64,
    pub dropped_count: u64,
}

pub struct LinkDesk {
    memo: LinkMemo,
    /// Links that the memo did not know, in the order of the page.
    found: Vec<Link>,
    /// The ids of `found`.
    ids: Vec<UrlId>,
}

/// A link of the batch, with buffers that are reused.
struct Link {
    key: u128,
    url: Scratch,
    /// How many more times the batch names this link.
    again_count: u64,
}

impl LinkDesk {
    /// Returns a desk with `memory_mb` for the links that are remembered. `memo_key` is used for
    /// those alone.
    pub fn new(memory_mb: usize, memo_key: HashKey) -> LinkDesk {
        let none = UrlId { host: HostKey(0), fingerprint: Fingerprint(0) };
        let found = || Link { key: 0, url: Scratch::default(), again_count: 0 };
        LinkDesk {
            memo: LinkMemo::new(memory_mb, memo_key),
            found: std::iter::repeat_with(found).take(LINK_BATCH_COUNT).collect(),
            ids: vec![none; LINK_BATCH_COUNT],
        }
    }

    /// Routes the links of a page that was found at `depth - 1`: each goes to the frontier or to
    /// the core that owns its host.
    pub fn route<'l>(
        &mut self,
        ways: &impl Ways,
        base: &Url,
        mut hrefs: impl Iterator<Item = &'l str>,
        depth: u16,
        now: Time,
    ) -> LinkTally {
        let host_key = base.host_key(ways.hash_key());
        let (bases, base) = (self.memo.bases(base, host_key), Base::of(base, ways.normaliser()));
        let mut tally = LinkTally::default();
        loop {
            let mut links = [(0, ""); LINK_BATCH_COUNT];
            let mut count = 0;
            for (link, href) in links.iter_mut().zip(hrefs.by_ref()) {
                *link = (self.memo.prefetch(&bases, href), href);
                count += 1;
            }
            let found_count =
                self.resolve(ways, (&bases, &base), &links[..count], depth, &mut tally);
            self.judge(ways, found_count, depth, now, &mut tally);
            if count < LINK_BATCH_COUNT {
                return tally;
            }
        }
    }

    /// Does steps one and two. Returns how many links remain.
    fn resolve(
        &mut self,
        ways: &impl Ways,
        (bases, base): (&Bases<'_>, &Base<'_>),
        links: &[(u128, &str)],
        depth: u16,
        tally: &mut LinkTally,
    ) -> usize {
        let (mut found_count, mut met) = (0, Met::default());
        let frontier = ways.frontier();
        for (key, href) in links {
            if self.memo.knows(*key) {
                tally.remembered_count += 1;
                continue;
            }
            let place = match met.find(*key, &self.found) {
                Ok(before) => {
                    self.found[before].again_count += 1;
                    continue;
                }
                Err(free) => free,
            };
            let found = &mut self.found[found_count];
            let is_home = |host: &str| ways.is_home(host);
            match found.url.join(base, href, ways.normaliser(), is_home) {
                Ok(true) => {}
                Ok(false) => {
                    tally.outside_count += 1;
                    continue;
                }
                Err(_) => {
                    tally.refused_count += 1;
                    continue;
                }
            }
            let id = found.url.id(ways.hash_key(), bases.url().host(), bases.host_key());
            if ways.is_own(id.host) {
                frontier.prefetch(id.fingerprint);
                (found.key, found.again_count) = (*key, 0);
                self.ids[found_count] = id;
                found_count += 1;
                met.put(place, found_count);
            } else {
                ways.send(id, &candidate(&found.url, depth));
                self.memo.remember_again(*key);
                tally.sent_count += 1;
            }
        }
        found_count
    }

    /// Does steps three and four, for the first `found_count` of `found`.
    fn judge(
        &mut self,
        ways: &impl Ways,
        found_count: usize,
        depth: u16,
        now: Time,
        tally: &mut LinkTally,
    ) {
        let found = &self.found[..found_count];
        let made = |index: usize| candidate(&found[index].url, depth);
        admit(
            ways,
            &self.ids[..found_count],
            now,
            |_| (),
            made,
            |index, offered| {
                tally.count(offered);
                let Link { key, again_count, .. } = found[index];
                match offered {
                    // A dropped link is not remembered, so that it is judged again if it comes
                    // again. Within this batch the result would be the same.
                    Offered::Dropped(_) => (0..again_count).for_each(|_| tally.count(offered)),
                    Offered::Queued => self.memo.remember(key),
                    Offered::Known | Offered::Later => self.memo.remember_again(key),
                }
                if !matches!(offered, Offered::Dropped(_)) {
                    tally.remembered_count += again_count;
                }
            },
        );
    }

    /// Admits URLs of this core's hosts that another core has found.
    pub fn take(&mut self, ways: &impl Ways, parcel: &Parcel, now: Time) -> LinkTally {
        let mut tally = LinkTally::default();
        for (batch, ids) in parcel.ids().chunks(PARCEL_BATCH_COUNT).enumerate() {
            let start = batch * PARCEL_BATCH_COUNT;
            let frontier = ways.frontier();
            ids.iter().for_each(|id| frontier.prefetch(id.fingerprint));
            drop(frontier);
            let prefetch = |index: usize| parcel.prefetch(start + index);
            let made = |index: usize| parcel.candidate(start + index);
            admit(ways, ids, now, prefetch, made, |_, offered| tally.count(offered));
        }
        tally
    }
}

/// The links that a batch has had so far, to recognise those that it repeats: a page names some of
/// its links several times, and the memo does not know those of a host that is seldom visited. It
/// is a hash table by key; a place holds a link's index in `found` plus one, or zero if it is free.
struct Met([u8; Met::PLACE_COUNT]);

impl Default for Met {
    fn default() -> Met {
        Met([0; Met::PLACE_COUNT])
    }
}

impl Met {
    /// The table is never full: half of the places stay free.
    const PLACE_COUNT: usize = 2 * LINK_BATCH_COUNT;

    /// Returns the link's index in `found`, or, if it is not there, the free place for it.
    fn find(&self, key: u128, found: &[Link]) -> Result<usize, usize> {
        let mut place = key as usize % Met::PLACE_COUNT;
        while let Some(before) = self.0[place].checked_sub(1) {
            if found[usize::from(before)].key == key {
                return Ok(usize::from(before));
            }
            place = (place + 1) % Met::PLACE_COUNT;
        }
        Err(place)
    }

    /// Stores the last of `found_count` links at this place.
    fn put(&mut self, place: usize, found_count: usize) {
        self.0[place] = found_count as u8;
    }
}

const _: () = assert!(LINK_BATCH_COUNT <= u8::MAX as usize && Met::PLACE_COUNT.is_power_of_two());

/// Does steps three and four. `prefetch` is called early for each index whose URL is not known,
/// `candidate` makes the candidate at such an index, and `settled` is told what happened to each.
fn admit<'c>(
    ways: &impl Ways,
    ids: &[UrlId],
    now: Time,
    prefetch: impl Fn(usize),
    candidate: impl Fn(usize) -> Candidate<&'c str>,
    mut settled: impl FnMut(usize, Offered),
) {
    let mut frontier = ways.frontier();
    let mut left = [(0, Seen::New); PARCEL_BATCH_COUNT];
    let (mut open_count, mut left_count) = (0, 0);
    for (index, id) in ids.iter().enumerate() {
        if frontier.knows_early(id.fingerprint) {
            settled(index, Offered::Known);
        } else {
            left[open_count].0 = index;
            open_count += 1;
        }
    }
    // The remaining links move to the front, never beyond the place that is read.
    for place in 0..open_count {
        let index = left[place].0;
        let id = &ids[index];
        match frontier.check(id.fingerprint) {
            Seen::Known => settled(index, Offered::Known),
            seen => {
                prefetch(index);
                left[left_count] = (index, seen);
                left_count += 1;
                if seen == Seen::New {
                    frontier.prefetch_offer(*id);
                }
            }
        }
    }
    let left = &left[..left_count];
    // A link that waits for the disk does not need its host yet.
    let new = left.iter().filter(|(_, seen)| *seen == Seen::New);
    frontier.prefetch_hosts(new.map(|(index, _)| ids[*index].host));
    // A filter on some bits of each URL, for whether it may have occurred earlier: of a few dozen
    // URLs hardly any share the bits by chance.
    let mut met = [0u64; 16];
    for (place, (index, seen)) in left.iter().enumerate() {
        let id = ids[*index];
        let (word, bit) = (id.fingerprint.0 as usize % met.len(), id.fingerprint.0 >> 4 & 63);
        let is_again =
            met[word] >> bit & 1 == 1 && left[..place].iter().any(|(before, _)| ids[*before] == id);
        met[word] |= 1 << bit;
        let seen = if is_again { frontier.check(id.fingerprint) } else { *seen };
        let note = |queued: &Queued<&str>| ways.admitted(queued);
        settled(*index, frontier.offer_checked(seen, id, candidate(*index), now, note));
    }
}

impl LinkTally {
    pub fn add(&mut self, other: LinkTally) {
        self.remembered_count += other.remembered_count;
        self.refused_count += other.refused_count;
        self.outside_count += other.outside_count;
        self.sent_count += other.sent_count;
        self.known_count += other.known_count;
        self.queued_count += other.queued_count;
        self.deferred_count += other.deferred_count;
        self.trapped_count += other.trapped_count;
        self.dropped_count += other.dropped_count;
    }

    fn count(&mut self, offered: Offered) {
        *match offered {
            Offered::Queued => &mut self.queued_count,
            Offered::Known => &mut self.known_count,
            Offered::Later => &mut self.deferred_count,
            Offered::Dropped(reason) if reason.is_trap() => &mut self.trapped_count,
            Offered::Dropped(_) => &mut self.dropped_count,
        } += 1;
    }
}

fn candidate(url: &Scratch, depth: u16) -> Candidate<&str> {
    let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
    Candidate { url: url.url(), depth, class, via, trail }
}

#[cfg(test)]
mod tests {
    // `prop_oneof!` keeps its branches in an `Arc`.
    #![allow(clippy::disallowed_types)]

    use super::*;
    use crate::base::hash_key::test_key;
    use crate::crawl::frontier::{Caps, MemorySieve};
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::HashSet;

    /// A sieve that is uncertain about a third of the new URLs, and stays so.
    #[derive(Default)]
    struct Doubtful {
        sure: MemorySieve,
        deferred: Vec<Candidate>,
    }

    impl Sieve for Doubtful {
        fn probe(&mut self, fingerprint: Fingerprint) -> Seen {
            match self.sure.probe(fingerprint) {
                Seen::New if fingerprint.0.is_multiple_of(3) => Seen::Later,
                seen => seen,
            }
        }

        fn admit(&mut self, fingerprint: Fingerprint) {
            self.sure.admit(fingerprint);
        }

        fn defer(&mut self, _: Fingerprint, candidate: &Candidate<&str>, _: Time) {
            self.deferred.push(candidate.owned());
        }

        fn settle(&mut self) -> Option<Candidate> {
            None
        }

        fn deferred_count(&self) -> usize {
            self.deferred.len()
        }

        fn is_full(&self) -> bool {
            false
        }
    }

    /// A core that owns every second host.
    struct Half {
        frontier: RefCell<Frontier<Doubtful>>,
        normaliser: Normaliser,
        hash_key: HashKey,
        sent: RefCell<Parcel>,
        admitted: RefCell<Vec<Queued>>,
    }

    impl Half {
        fn new() -> Half {
            let caps = Caps { host_page_count_max: 20, ..Caps::default() };
            Half {
                frontier: RefCell::new(Frontier::with_sieve(Doubtful::default(), caps, test_key())),
                normaliser: Normaliser::new(&[]),
                hash_key: test_key(),
                sent: RefCell::default(),
                admitted: RefCell::default(),
            }
        }
    }

    impl Ways for Half {
        type Sieve = Doubtful;
        type Data = ();

        fn frontier(&self) -> RefMut<'_, Frontier<Doubtful>> {
            self.frontier.borrow_mut()
        }

        fn hash_key(&self) -> &HashKey {
            &self.hash_key
        }

        fn normaliser(&self) -> &Normaliser {
            &self.normaliser
        }

        fn is_home(&self, host: &str) -> bool {
            host != "away.test"
        }

        fn is_own(&self, host: HostKey) -> bool {
            host.0.is_multiple_of(2)
        }

        fn send(&self, id: UrlId, candidate: &Candidate<&str>) {
            self.sent.borrow_mut().push(id, candidate);
        }

        fn admitted(&self, queued: &Queued<&str>) {
            self.admitted.borrow_mut().push(queued.owned());
        }
    }

    /// Offers one link after the other, with no memo and without prefetching. Returns how many were
    /// refused, led outside and were dropped.
    fn one_by_one(half: &Half, base: &Url, hrefs: &[String]) -> [u64; 3] {
        let mut counts = [0; 3];
        for href in hrefs {
            let Ok(url) = base.join(href) else {
                counts[0] += 1;
                continue;
            };
            let url = half.normaliser.normalise(url);
            if !half.is_home(url.host()) {
                counts[1] += 1;
                continue;
            }
            let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
            let candidate = Candidate { url, depth: 3, class, via, trail };
            if half.is_own(candidate.url.host_key(&test_key())) {
                let note = |queued: &Queued<&str>| half.admitted(queued);
                let offered = half.frontier().offer_noting(candidate, Time::ZERO, note);
                counts[2] += u64::from(matches!(offered, Offered::Dropped(_)));
            } else {
                half.sent.borrow_mut().push(candidate.url.id(&test_key()), &candidate.lent());
            }
        }
        counts
    }

    fn href() -> impl Strategy<Value = String> {
        prop_oneof![
            "/[a-c]/[a-z]",
            "[a-c]/[a-z]",
            "\\.\\./[a-z]",
            "http://[a-f]\\.test/[a-z]",
            "//[A-F]\\.test/[a-c]/\\.\\./[a-z]",
            "/[a-z]\\?b=[12]&a=[12]",
            "https://[a-c]\\.test:[1-3]/",
            "(mailto:x|http://away\\.test/|http://\\[|#top|\\?q)",
            "/(a/){1,6}[a-c]",
        ]
    }

    fn sent(half: &Half) -> Vec<Candidate> {
        let sent = half.sent.borrow();
        (0..sent.count()).map(|index| sent.candidate(index).owned()).collect()
    }

    /// Keeps the first candidate of each URL.
    fn once(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
        let mut urls = HashSet::new();
        candidates.retain(|candidate| urls.insert(candidate.url.clone()));
        candidates
    }

    fn assert_same(half: &Half, naive: &Half) -> Result<(), TestCaseError> {
        let (mut ours, mut others) = (half.frontier(), naive.frontier());
        prop_assert_eq!(ours.pending_url_count(), others.pending_url_count());
        let deferred =
            |of: &mut Frontier<Doubtful>| once(std::mem::take(&mut of.sieve_mut().deferred));
        prop_assert_eq!(deferred(&mut ours), deferred(&mut others));
        Ok(())
    }

    proptest! {
        /// In batches or one by one, the same URLs are queued, in the same order, and noted at
        /// once.
        #[test]
        fn links_in_batches_fare_as_links_one_by_one(
            pages in prop::collection::vec(
                ("http://[a-d]\\.test/([a-c]/)?", prop::collection::vec(href(), 0..150)),
                1..6,
            ),
        ) {
            let (half, naive, mut desk) = (Half::new(), Half::new(), LinkDesk::new(1, test_key()));
            for (base, hrefs) in &pages {
                let base = Url::parse(base).expect("a base");
                let texts = hrefs.iter().map(String::as_str);
                let tally = desk.route(&half, &base, texts, 3, Time::ZERO);
                let expected = one_by_one(&naive, &base, hrefs);
                let LinkTally { remembered_count, refused_count, outside_count, .. } = tally;
                let LinkTally { sent_count, known_count, queued_count, .. } = tally;
                let LinkTally { deferred_count, trapped_count, dropped_count, .. } = tally;
                let sum = remembered_count + refused_count + outside_count + sent_count
                    + known_count + queued_count + deferred_count + trapped_count + dropped_count;
                prop_assert_eq!(sum, hrefs.len() as u64);
                let lost_count = trapped_count + dropped_count;
                prop_assert_eq!([refused_count, outside_count, lost_count], expected);
                prop_assert_eq!(&*half.admitted.borrow(), &*naive.admitted.borrow());
            }
            prop_assert_eq!(once(sent(&half)), once(sent(&naive)));
            for (index, id) in half.sent.borrow().ids().iter().enumerate() {
                prop_assert_eq!(half.sent.borrow().candidate(index).url.id(&test_key()), *id);
            }
            assert_same(&half, &naive)?;
        }

        /// Links that other cores send, in batches or one by one, however often.
        #[test]
        fn links_by_mail_fare_as_links_one_by_one(
            hrefs in prop::collection::vec(href(), 0..400),
        ) {
            let (half, naive, mut desk) = (Half::new(), Half::new(), LinkDesk::new(1, test_key()));
            let base = Url::parse("http://a.test/").expect("a base");
            let urls = hrefs.iter().filter_map(|href| base.join(href).ok());
            let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
            let sent: Vec<Candidate> = urls
                .map(|url| Candidate { url, depth: 3, class, via, trail: trail.clone() })
                .collect();
            let mut parcel = Parcel::default();
            for candidate in &sent {
                parcel.push(candidate.url.id(&test_key()), &candidate.lent());
            }
            let tally = desk.take(&half, &parcel, Time::ZERO);
            for candidate in &sent {
                let note = |queued: &Queued<&str>| naive.admitted(queued);
                naive.frontier().offer_noting(candidate.clone(), Time::ZERO, note);
            }
            let LinkTally { known_count, queued_count, deferred_count, .. } = tally;
            let LinkTally { trapped_count, dropped_count, .. } = tally;
            let sum = known_count + queued_count + deferred_count + trapped_count + dropped_count;
            prop_assert_eq!(sum, sent.len() as u64);
            prop_assert_eq!(&*half.admitted.borrow(), &*naive.admitted.borrow());
            assert_same(&half, &naive)?;
        }
    }
}
