//! Traps: sites that make URLs without end, by mistake or on purpose.
//!
//! Every new URL passes three checks before it is queued. A URL that fails one is dropped with its
//! [`DropReason`]. Seeds, sitemaps and robots.txt are not checked, because someone named them.
//!
//! 1. The path has at most [`PATH_SEGMENT_COUNT_MAX`] segments.
//! 2. No segment stands in the path more than [`REPEATED_SEGMENT_COUNT_MAX`] times: relative links
//!    that lead ever deeper (`/a/b/a/b/...`) repeat themselves.
//! 3. Its host has taken fewer URLs of its [`Skeleton`] than the cap.
//!
//! The third check needs memory, so it begins when a host has [`SKELETON_WATCH_COUNT_MIN`] URLs (or
//! the cap, if that is less): a small host costs nothing, a watched one 4 KiB. The table is
//! space-saving counting (Metwally et al., 2005) in sets of eight: a new shape takes the place of
//! the rarest of its set and inherits that count as its error. Only the certain part, the count
//! less the error, is held against the cap. So a shape is never cut early. It is cut late by at
//! most the URLs taken before the watch began, and those that were missed while other shapes had
//! its place.
//!
//! The frontier of one core owns the tables. Invariant: a table exists only for hosts that passed
//! the watch count, and never grows.

use super::DropReason;
use super::host::HostId;
use crate::base::limits::{
    PATH_SEGMENT_COUNT_MAX, REPEATED_SEGMENT_COUNT_MAX, SKELETON_COUNT_MAX,
    SKELETON_WATCH_COUNT_MIN,
};
use crate::base::pack::{Pack, Unpack};
use crate::crawl::flow::Via;
use crate::proto::url::{Skeleton, Text, Url};
use hashbrown::HashMap;

const SET_COUNT: usize = SKELETON_COUNT_MAX / SET_SIZE;
/// Shapes of one set, which take two cache lines.
const SET_SIZE: usize = 8;

pub struct Traps {
    page_count_max: u64,
    watch_count_min: u32,
    tables: HashMap<HostId, Box<Table>>,
}

type Table = [[Shape; SET_SIZE]; SET_COUNT];

#[derive(Clone, Copy, Default)]
struct Shape {
    skeleton: u64,
    /// URLs taken, with those that another shape had counted here before (`error_count`). Zero
    /// means that the place is free.
    count: u32,
    error_count: u32,
}

/// Reports whether a URL that was found this way is checked.
pub fn is_checked(via: Via) -> bool {
    match via {
        Via::Link | Via::Redirect => true,
        Via::Seed | Via::Sitemap | Via::Robots => false,
    }
}

/// Makes the checks that need no memory of other URLs.
pub fn check_path<T: Text>(url: &Url<T>) -> Result<(), DropReason> {
    let target = url.path_and_query().as_bytes();
    // Almost every URL ends here.
    if slash_count(target) <= REPEATED_SEGMENT_COUNT_MAX {
        return Ok(());
    }
    let path = &target[..memchr::memchr(b'?', target).unwrap_or(target.len())];
    if slash_count(path) > PATH_SEGMENT_COUNT_MAX {
        return Err(DropReason::PathTooDeep);
    }
    let mut segments = [&path[..0]; PATH_SEGMENT_COUNT_MAX];
    let mut repeat_counts = [0; PATH_SEGMENT_COUNT_MAX];
    for (index, segment) in path[1..].split(|byte| *byte == b'/').enumerate() {
        let first = segments[..index].iter().position(|before| *before == segment);
        let counted = first.unwrap_or(index);
        segments[index] = segment;
        repeat_counts[counted] += 1;
        if repeat_counts[counted] > REPEATED_SEGMENT_COUNT_MAX {
            return Err(DropReason::SegmentRepeated);
        }
    }
    Ok(())
}

/// Counts the slashes in pieces whose count fits a byte, so that the compiler counts 16 bytes at a
/// time.
fn slash_count(bytes: &[u8]) -> usize {
    let in_piece = |piece: &[u8]| piece.iter().map(|byte| u8::from(*byte == b'/')).sum::<u8>();
    bytes.chunks(usize::from(u8::MAX)).map(|piece| usize::from(in_piece(piece))).sum()
}

impl Traps {
    /// `page_count_max` bounds the URLs of one shape and host; zero means no limit.
    pub fn new(page_count_max: u64) -> Traps {
        let watch_count_min = u32::try_from(page_count_max).unwrap_or(u32::MAX);
        Traps {
            page_count_max,
            watch_count_min: watch_count_min.min(SKELETON_WATCH_COUNT_MIN),
            tables: HashMap::new(),
        }
    }

    /// Reports whether `host`, which has taken `taken_count` URLs, may take one of this shape.
    /// Returns the shape for [`Traps::took`]; `None` while the host is not watched.
    pub fn check(
        &self,
        host: HostId,
        taken_count: u32,
        skeleton: impl FnOnce() -> Skeleton,
    ) -> Result<Option<Skeleton>, DropReason> {
        if self.page_count_max == 0 || taken_count < self.watch_count_min {
            return Ok(None);
        }
        let skeleton = skeleton();
        let known = self
            .tables
            .get(&host)
            .and_then(|table| table[set_of(skeleton)].iter().find(|shape| shape.is_of(skeleton)));
        match known {
            Some(shape) if u64::from(shape.count - shape.error_count) >= self.page_count_max => {
                Err(DropReason::SkeletonFull)
            }
            _ => Ok(Some(skeleton)),
        }
    }

    /// Counts a URL that was taken.
    pub fn took(&mut self, host: HostId, skeleton: Skeleton) {
        let table = self
            .tables
            .entry(host)
            .or_insert_with(|| Box::new([[Shape::default(); SET_SIZE]; SET_COUNT]));
        let set = &mut table[set_of(skeleton)];
        let place = set.iter().position(|shape| shape.is_of(skeleton)).unwrap_or_else(|| {
            let rarest = (0..SET_SIZE).min_by_key(|place| set[*place].count).unwrap_or(0);
            let error_count = set[rarest].count;
            set[rarest] = Shape { skeleton: skeleton.0, count: error_count, error_count };
            rarest
        });
        set[place].count = set[place].count.saturating_add(1);
    }

    /// Packs the table of a watched host, and nothing for a host that is not watched.
    pub fn pack(&self, host: HostId, pack: &mut Pack<'_>) {
        let Some(table) = self.tables.get(&host) else { return };
        for shape in table.iter().flatten() {
            pack.u64(shape.skeleton);
            pack.u32(shape.count);
            pack.u32(shape.error_count);
        }
    }

    /// Restores what [`Traps::pack`] packed; `None` if the image is something else.
    pub fn unpack(&mut self, host: HostId, image: &[u8]) -> Option<()> {
        if image.is_empty() {
            return Some(());
        }
        let mut image = Unpack(image);
        let mut table = Box::new([[Shape::default(); SET_SIZE]; SET_COUNT]);
        for shape in table.iter_mut().flatten() {
            let (skeleton, count, error_count) = (image.u64()?, image.u32()?, image.u32()?);
            *shape = Shape { skeleton, count, error_count: error_count.min(count) };
        }
        self.tables.insert(host, table);
        image.is_empty().then_some(())
    }

    /// Reports whether the shapes of a host's URLs are counted.
    pub fn is_watched(&self, host: HostId) -> bool {
        self.tables.contains_key(&host)
    }

    /// Returns the number of hosts whose shapes are counted.
    pub fn watched_count(&self) -> usize {
        self.tables.len()
    }
}

impl Shape {
    fn is_of(&self, skeleton: Skeleton) -> bool {
        self.count > 0 && self.skeleton == skeleton.0
    }
}

fn set_of(skeleton: Skeleton) -> usize {
    (skeleton.0 % SET_COUNT as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Time;
    use crate::base::hash_key::test_key;
    use crate::crawl::flow::{Candidate, Class};
    use crate::crawl::frontier::{Caps, Frontier, MemorySieve, Offered};

    const CAP: u64 = 2_000;

    fn frontier(skeleton_page_count_max: u64) -> Frontier<MemorySieve> {
        Frontier::new(Caps { skeleton_page_count_max, ..Caps::default() }, test_key())
    }

    fn offer(frontier: &mut Frontier<MemorySieve>, target: &str, via: Via) -> Offered {
        let url = Url::parse(&format!("http://h.test{target}")).expect("a test's URL");
        let (class, trail) = (Class::Normal, Box::default());
        frontier.offer(Candidate { url, depth: 3, class, via, trail }, Time::ZERO)
    }

    /// Offers links until one is refused; returns how many were queued, and why it ended.
    fn taken(
        frontier: &mut Frontier<MemorySieve>,
        targets: impl Iterator<Item = String>,
    ) -> (u64, Option<DropReason>) {
        let mut count = 0;
        for target in targets {
            match offer(frontier, &target, Via::Link) {
                Offered::Dropped(reason) => return (count, Some(reason)),
                offered => count += u64::from(offered == Offered::Queued),
            }
        }
        (count, None)
    }

    fn assert_cut_at_the_cap(targets: impl Iterator<Item = String>) {
        let mut frontier = frontier(CAP);
        let (count, why) = taken(&mut frontier, targets);
        assert_eq!(why, Some(DropReason::SkeletonFull));
        assert_eq!(count, CAP + u64::from(SKELETON_WATCH_COUNT_MIN));
        let dropped = frontier.figures().dropped_count[DropReason::SkeletonFull as usize];
        assert_eq!(dropped, 1, "the drop is counted");
        assert_eq!(
            offer(&mut frontier, "/about", Via::Link),
            Offered::Queued,
            "other shapes go on"
        );
        assert_eq!(offer(&mut frontier, "/c/9999/12/31", Via::Seed), Offered::Queued);
    }

    #[test]
    fn a_calendar_without_end_is_cut_at_the_cap() {
        assert_cut_at_the_cap((0..).map(|n| format!("/calendar/{}/{:02}", n / 12, n % 12 + 1)));
        assert_cut_at_the_cap((0..).map(|n| format!("/calendar?month={n}&view=month")));
    }

    #[test]
    fn session_ids_in_links_are_cut_at_the_cap() {
        let id = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 0x1000_0000_0000_000a;
        assert_cut_at_the_cap((0..).map(|n| format!("/shop/{:016x}/cart", id(n))));
        assert_cut_at_the_cap((0..).map(|n| format!("/cart;session={:x}", id(n))));
        assert_cut_at_the_cap((0..).map(|n| format!("/cart?token={:x}&lang=en", id(n))));
    }

    #[test]
    fn relative_links_that_lead_ever_deeper_end_soon() {
        let mut frontier = frontier(0);
        let nested = (1..).map(|depth| format!("/{}", "a/b/".repeat(depth)));
        let (count, why) = taken(&mut frontier, nested);
        assert_eq!(
            (count, why),
            (REPEATED_SEGMENT_COUNT_MAX as u64, Some(DropReason::SegmentRepeated))
        );
        let deep = (1..).map(|depth| (0..depth).map(|n| format!("/s{n}")).collect::<String>());
        let (count, why) = taken(&mut frontier, deep);
        assert_eq!((count, why), (PATH_SEGMENT_COUNT_MAX as u64, Some(DropReason::PathTooDeep)));
        let query = format!("/?from={}", "/a".repeat(100));
        assert_eq!(offer(&mut frontier, &query, Via::Link), Offered::Queued, "a query is no path");
    }

    #[test]
    fn a_large_honest_site_is_taken_whole_under_the_defaults() {
        let mut frontier: Frontier<MemorySieve> = Frontier::new(Caps::default(), test_key());
        let articles = (0..10_000).map(|n| format!("/article/{}", 100_000 + n * 7));
        assert_eq!(taken(&mut frontier, articles), (10_000, None));
        let words = ["on-rust", "on-rings", "on-sieves", "on-hosts", "on-spiders"];
        let titles = (0..10_000).map(|n| format!("/news/2026/{}-{n}.html", words[n % 5]));
        assert_eq!(taken(&mut frontier, titles), (10_000, None));
    }

    #[test]
    fn zero_is_no_limit_and_a_small_host_is_not_watched() {
        let mut free = frontier(0);
        assert_eq!(taken(&mut free, (0..30_000).map(|n| format!("/p/{n}"))), (30_000, None));
        assert_eq!(free.watched_host_count(), 0);
        let mut watched = frontier(CAP);
        let count = u64::from(SKELETON_WATCH_COUNT_MIN);
        taken(&mut watched, (0..count).map(|n| format!("/p/{n}")));
        assert_eq!(watched.watched_host_count(), 0);
        taken(&mut watched, (count..=count).map(|n| format!("/p/{n}")));
        assert_eq!(watched.watched_host_count(), 1);
    }

    /// A table full of shapes that were seen more often than the cap holds none of their counts
    /// against another shape.
    #[test]
    fn a_shape_that_comes_late_has_its_share_as_well() {
        const SMALL_CAP: u64 = 10;
        let mut traps = Traps::new(SMALL_CAP);
        let host = HostId(7);
        for number in 0..100 * SKELETON_COUNT_MAX as u64 {
            traps.took(host, Skeleton(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }
        for _ in 0..SMALL_CAP {
            let shape =
                traps.check(host, 1_000, || Skeleton(7)).expect("not cut").expect("watched");
            traps.took(host, shape);
        }
        assert_eq!(traps.check(host, 1_000, || Skeleton(7)), Err(DropReason::SkeletonFull));
    }

    /// Compares with exact counts, in a full table with far more shapes than places: a shape is
    /// never cut early, and cut late by no more than the others of its set could push it out.
    #[test]
    fn a_shape_among_thousands_is_never_cut_early_and_not_much_later() {
        let mut traps = Traps::new(CAP);
        let host = HostId(7);
        let trap = || Skeleton(u64::MAX);
        for shape in (1..=SKELETON_COUNT_MAX as u64).cycle().take(50 * SKELETON_COUNT_MAX) {
            traps.took(host, Skeleton(shape));
        }
        let mut rng = 1u64;
        let (mut count, mut total) = (0u64, 0u64);
        loop {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            total += 1;
            assert!(total < 100_000, "the trap was never found");
            if rng >> 62 != 0 {
                // Three of four URLs have a shape of their own.
                traps.took(host, Skeleton(rng >> 3));
                continue;
            }
            match traps.check(host, SKELETON_WATCH_COUNT_MIN, trap) {
                Ok(Some(skeleton)) => traps.took(host, skeleton),
                Ok(None) => unreachable!("the host is watched"),
                Err(reason) => break assert_eq!(reason, DropReason::SkeletonFull),
            }
            count += 1;
        }
        assert!((CAP..CAP + CAP / 10).contains(&count), "{count} of {total}");
    }
}
