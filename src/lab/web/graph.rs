//! The link graph: which URLs exist, what each one is, and what it links to. All of it is
//! arithmetic.
//!
//! A host's URLs are numbered from 0 (its root) and divided into ranges, one for each [`Kind`]. The
//! content pages form a tree with eight children for each page; every other attached URL (a leaf)
//! is linked from exactly one content page; the hosts form a tree as well, from root to root. So
//! every URL is reachable from host 0's root by construction, except three kinds: `Moved` pages are
//! reachable only through a redirect, `Orphan` pages only through a sitemap, `Behind` pages only
//! through pages that robots.txt denies. Random links are added to these and reach nothing new.
//!
//! Only the hosts' URL counts are kept in memory (4 bytes a host). Each core has a graph of its
//! own.

use crate::lab::web::chance::{Dice, chance, mix, scale, unit};
use crate::lab::web::spec::{Split, WebSpec};

/// How many children a page has in its host's tree, and a host in the tree of hosts.
const FANOUT: u64 = 8;
/// How many pages of its host the navigation of every page names.
const NAV_COUNT: u32 = 9;
/// How many pages of a host, and how many hosts of the web, familiar links point at.
const FAMILIAR_PAGES: u32 = 16;
const FAMILIAR_HOSTS: u32 = 32;
/// Bytes of page that each link needs. A smaller page has fewer links.
const BYTES_PER_LINK: u32 = 150;

/// What a URL of the web is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Content,
    /// The same bytes as a content page of its host.
    Print,
    /// The same bytes as press pages on other hosts.
    Press,
    /// A content page with a few words changed.
    Variant,
    Redirect,
    /// A page under `/private/`, which the host's robots.txt denies.
    Denied,
    Missing,
    Gone,
    Broken,
    /// A page that answers 503 with Retry-After, part of the time.
    Busy,
    /// A page that only a redirect leads to.
    Moved,
    /// A page that only denied pages lead to: no polite crawler knows it.
    Behind,
    /// A page that only its host's sitemap lists.
    Orphan,
}

/// One URL. Places are made by [`Graph::place`], so that the kind always matches the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub host: u32,
    pub page: u32,
    pub kind: Kind,
}

/// A host's robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// 404: crawl freely.
    Absent,
    Open,
    /// `/private/` is denied.
    Private,
    /// All is denied. A host that other hosts are reached through never has this.
    Closed,
    /// 500: nothing may be fetched. A host that other hosts are reached through never has this.
    Failing,
}

pub struct Graph {
    spec: WebSpec,
    page_counts: Vec<u32>,
    press_group_count: u32,
}

/// Where each kind's range of page numbers ends, in [`RANGES`] order.
struct Layout {
    ends: [u32; RANGES.len()],
}

/// The ranges in the order of their page numbers. All errors share one range; `Missing` stands for
/// them.
const RANGES: [Kind; 10] = [
    Kind::Content,
    Kind::Print,
    Kind::Press,
    Kind::Variant,
    Kind::Redirect,
    Kind::Denied,
    Kind::Missing,
    Kind::Moved,
    Kind::Behind,
    Kind::Orphan,
];

/// Salts for the draws: one for each thing that is drawn.
const SPLIT: u64 = 1;
const LAYOUT: u64 = 2;
const RULES: u64 = 3;
const LINKS: u64 = 4;
const TARGET: u64 = 5;
const GROUP: u64 = 6;
const BODY: u64 = 7;

impl Graph {
    /// Makes the graph of a `spec` that has passed its check.
    pub fn new(spec: WebSpec) -> Graph {
        debug_assert_eq!(spec.check(), Ok(()));
        let page_counts = split_pages(&spec);
        let press = spec.page_count as f64 * spec.duplicate_fraction / 2.0;
        Graph { page_counts, press_group_count: (press / 4.0).ceil().max(1.0) as u32, spec }
    }

    pub fn spec(&self) -> &WebSpec {
        &self.spec
    }

    pub fn page_count(&self, host: u32) -> u32 {
        self.page_counts[host as usize]
    }

    /// Returns the URL with this number, if the host has one.
    pub fn place(&self, host: u32, page: u32) -> Option<Place> {
        if host >= self.spec.host_count || page >= self.page_count(host) {
            return None;
        }
        Some(self.place_in(&self.layout(host), host, page))
    }

    pub fn root(&self, host: u32) -> Place {
        debug_assert!(host < self.spec.host_count);
        Place { host, page: 0, kind: Kind::Content }
    }

    pub fn rules(&self, host: u32) -> Rules {
        let hash = self.draw(RULES, host, 0);
        if host > 0 && u64::from(host) * FANOUT >= u64::from(self.spec.host_count) {
            let draw = unit(mix(hash, 1));
            if draw < self.spec.robots_closed_fraction {
                return Rules::Closed;
            }
            if draw < self.spec.robots_closed_fraction + self.spec.robots_failing_fraction {
                return Rules::Failing;
            }
        }
        match chance(hash, self.spec.robots_deny_fraction) {
            true => Rules::Private,
            false if mix(hash, 2) & 1 == 0 => Rules::Absent,
            false => Rules::Open,
        }
    }

    /// Returns the Crawl-delay in a host's robots.txt, if it names one.
    pub fn crawl_delay_seconds(&self, host: u32) -> Option<u32> {
        let hash = self.draw(RULES, host, 1);
        let says = matches!(self.rules(host), Rules::Open | Rules::Private)
            && chance(hash, self.spec.crawl_delay_fraction);
        says.then(|| 1 + scale(mix(hash, 1), 3))
    }

    pub fn has_sitemap(&self, host: u32) -> bool {
        matches!(self.rules(host), Rules::Open | Rules::Private)
            && chance(self.draw(RULES, host, 2), self.spec.sitemap_fraction)
    }

    /// Returns the pages that only the host's sitemap lists.
    pub fn orphans(&self, host: u32) -> impl Iterator<Item = Place> {
        let layout = self.layout(host);
        let pages = layout.start(Kind::Orphan)..layout.end(Kind::Orphan);
        pages.map(move |page| Place { host, page, kind: Kind::Orphan })
    }

    /// Returns the target of a redirect: a page that nothing else points at, another redirect (a
    /// chain of two), or a page of any host.
    pub fn redirect_target(&self, from: Place) -> Place {
        debug_assert_eq!(from.kind, Kind::Redirect);
        let layout = self.layout(from.host);
        let index = from.page - layout.start(Kind::Redirect);
        let moved = layout.start(Kind::Moved) + index / 2;
        match index % 4 {
            0 | 2 if moved < layout.end(Kind::Moved) => {
                Place { host: from.host, page: moved, kind: Kind::Moved }
            }
            3 => Place { page: from.page - 1, ..from },
            _ => self.anywhere(&mut Dice::new(self.draw(TARGET, from.host, from.page))),
        }
    }

    /// Returns the page whose bytes this one repeats, or whose words it varies; any other page is
    /// its own original. A press page has no original: its copies share their [`Graph::body_key`].
    pub fn original(&self, place: Place) -> Place {
        if !matches!(place.kind, Kind::Print | Kind::Variant) {
            return place;
        }
        let layout = self.layout(place.host);
        let index = match place.kind {
            Kind::Print => place.page - layout.start(Kind::Print),
            _ => layout.count(Kind::Print) + place.page - layout.start(Kind::Variant),
        };
        let page = (index + 1) % layout.end(Kind::Content);
        Place { host: place.host, page, kind: Kind::Content }
    }

    /// Reports whether another URL serves this content page's bytes. If so, its links must mean the
    /// same from there.
    pub fn has_twin(&self, place: Place) -> bool {
        let layout = self.layout(place.host);
        let twins = layout.count(Kind::Print) + layout.count(Kind::Variant);
        match place.page {
            0 => twins >= layout.end(Kind::Content),
            page => place.kind == Kind::Content && page <= twins,
        }
    }

    /// Returns a key that is equal for URLs with equal bodies. A variant has the key of its
    /// original, from which it differs by a stamp.
    pub fn body_key(&self, place: Place) -> u64 {
        if place.kind == Kind::Press {
            let draw = self.draw(GROUP, place.host, place.page);
            return mix(mix(self.spec.seed, GROUP), u64::from(scale(draw, self.press_group_count)));
        }
        let original = self.original(place);
        self.draw(BODY, original.host, original.page)
    }

    /// Appends the links of a page of `page_bytes`: navigation, the tree, then far and familiar
    /// pages.
    pub fn links(&self, place: Place, page_bytes: usize, out: &mut Vec<Place>) {
        let place = self.original(place);
        let layout = self.layout(place.host);
        let start = out.len();
        let room = u32::try_from(page_bytes).unwrap_or(u32::MAX) / BYTES_PER_LINK;
        let wanted = self.spec.link_count.min(room) as usize;
        let mut dice = Dice::new(mix(self.body_key(place), LINKS));
        if place.kind == Kind::Press {
            out.extend(
                (0..wanted.min(self.spec.fresh_link_count as usize))
                    .map(|_| self.anywhere(&mut dice)),
            );
            return;
        }
        let content = layout.end(Kind::Content);
        let page = |page| Place { host: place.host, page, kind: Kind::Content };
        out.extend((0..NAV_COUNT.min(content)).map(page));
        let tree = out.len();
        self.push_tree(place, &layout, out);
        let fresh = (self.spec.fresh_link_count as usize).min(wanted);
        while out.len() - tree < fresh {
            let far = match dice.roll() & 1 {
                0 => page(dice.below(content)),
                _ => self.anywhere(&mut dice),
            };
            out.push(far);
        }
        while out.len() - start < wanted {
            let familiar = match dice.roll() & 3 {
                0 => self.root(dice.below(FAMILIAR_HOSTS.min(self.spec.host_count))),
                _ => page(dice.below(FAMILIAR_PAGES.min(content))),
            };
            out.push(familiar);
        }
    }

    /// Appends the links that make every URL reachable.
    fn push_tree(&self, place: Place, layout: &Layout, out: &mut Vec<Place>) {
        let content = layout.end(Kind::Content);
        if place.kind == Kind::Denied {
            let behind = layout.start(Kind::Behind) + (place.page - layout.start(Kind::Denied)) / 2;
            if behind < layout.end(Kind::Behind) {
                out.push(Place { host: place.host, page: behind, kind: Kind::Behind });
            }
        }
        if place.kind != Kind::Content {
            return;
        }
        for child in children(place.page, content) {
            out.push(Place { host: place.host, page: child, kind: Kind::Content });
        }
        let leaves = content + place.page..layout.end(Kind::Missing);
        out.extend(
            leaves.step_by(content as usize).map(|leaf| self.place_in(layout, place.host, leaf)),
        );
        if place.page == 0 {
            out.extend(children(place.host, self.spec.host_count).map(|host| self.root(host)));
        }
    }

    fn anywhere(&self, dice: &mut Dice) -> Place {
        let host = dice.below(self.spec.host_count);
        let page = dice.below(self.layout(host).end(Kind::Content));
        Place { host, page, kind: Kind::Content }
    }

    fn place_in(&self, layout: &Layout, host: u32, page: u32) -> Place {
        let range = layout.ends.iter().position(|&end| page < end);
        let kind = match range.map(|range| RANGES[range]) {
            Some(Kind::Missing) if self.spec.errors_are_500 => Kind::Broken,
            Some(Kind::Missing) => match (page ^ host) % 8 {
                0..4 => Kind::Missing,
                4 => Kind::Gone,
                5 | 6 => Kind::Broken,
                _ => Kind::Busy,
            },
            Some(kind) => kind,
            None => unreachable!("the last range ends at the host's URL count"),
        };
        Place { host, page, kind }
    }

    /// Divides a host's page numbers among the kinds. Each kind's share is rounded up or down by a
    /// draw, so that small hosts get some of each kind as well.
    fn layout(&self, host: u32) -> Layout {
        let spec = &self.spec;
        let total = self.page_count(host);
        let denied = match self.rules(host) {
            Rules::Private => spec.denied_page_fraction,
            _ => 0.0,
        };
        let fractions = [
            spec.duplicate_fraction / 2.0,
            spec.duplicate_fraction / 2.0,
            spec.near_duplicate_fraction,
            spec.redirect_fraction,
            denied,
            spec.error_fraction,
        ];
        let mut room = total - 1;
        let mut counts = [0; RANGES.len()];
        for (index, fraction) in fractions.into_iter().enumerate() {
            if fraction > 0.0 {
                let draw = unit(self.draw(LAYOUT, host, index as u32));
                counts[index + 1] = ((f64::from(total) * fraction + draw) as u32).min(room);
                room -= counts[index + 1];
            }
        }
        for (from, to) in [(4, 7), (5, 8)] {
            let count: u32 = counts[from];
            counts[to] = count.div_ceil(2).min(room);
            room -= counts[to];
        }
        if spec.orphan_fraction > 0.0 && self.has_sitemap(host) {
            let draw = unit(self.draw(LAYOUT, host, 9));
            counts[9] = ((f64::from(total) * spec.orphan_fraction + draw) as u32).min(room);
            room -= counts[9];
        }
        counts[0] = room + 1;
        let mut end = 0;
        Layout {
            ends: counts.map(|count| {
                end += count;
                end
            }),
        }
    }

    fn draw(&self, salt: u64, host: u32, page: u32) -> u64 {
        mix(mix(self.spec.seed, salt), u64::from(host) << 32 | u64::from(page))
    }
}

impl Layout {
    fn start(&self, kind: Kind) -> u32 {
        match Layout::range(kind) {
            0 => 0,
            range => self.ends[range - 1],
        }
    }

    fn end(&self, kind: Kind) -> u32 {
        self.ends[Layout::range(kind)]
    }

    fn count(&self, kind: Kind) -> u32 {
        self.end(kind) - self.start(kind)
    }

    fn range(kind: Kind) -> usize {
        match kind {
            Kind::Content => 0,
            Kind::Print => 1,
            Kind::Press => 2,
            Kind::Variant => 3,
            Kind::Redirect => 4,
            Kind::Denied => 5,
            Kind::Missing | Kind::Gone | Kind::Broken | Kind::Busy => 6,
            Kind::Moved => 7,
            Kind::Behind => 8,
            Kind::Orphan => 9,
        }
    }
}

/// Returns the children of `parent` in a tree with root 0, where the parent of `n` is `n / FANOUT`.
fn children(parent: u32, count: u32) -> impl Iterator<Item = u32> {
    let first = (u64::from(parent) * FANOUT).max(1);
    let end = ((u64::from(parent) + 1) * FANOUT).min(u64::from(count));
    (first..end).map(|child| child as u32)
}

/// Gives each host one URL and divides the rest by weight. The first hosts get one more each, until
/// what rounding left is used up.
fn split_pages(spec: &WebSpec) -> Vec<u32> {
    let weight = |host: u32| match spec.split {
        Split::Even => 1.0,
        // Pareto with alpha 1.2; the largest host has at most a thousand times the smallest one's
        // weight.
        Split::Skewed => {
            let draw = unit(mix(mix(spec.seed, SPLIT), u64::from(host)));
            (1.0 - draw).powf(-1.0 / 1.2).min(1_000.0)
        }
    };
    let total: f64 = (0..spec.host_count).map(weight).sum();
    let spread = (spec.page_count - u64::from(spec.host_count)) as f64;
    let mut counts: Vec<u32> =
        (0..spec.host_count).map(|host| 1 + (spread * weight(host) / total) as u32).collect();
    let given: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let mut left = spec.page_count.saturating_sub(given);
    // Rounding down loses less than one URL for each host, so one more for each of the first hosts
    // suffices.
    for count in counts.iter_mut() {
        if left == 0 {
            break;
        }
        *count += 1;
        left -= 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(spec: WebSpec) -> Graph {
        spec.check().unwrap();
        Graph::new(spec)
    }

    #[test]
    fn urls_fall_to_hosts_without_a_remainder() {
        for split in [Split::Even, Split::Skewed] {
            let graph = graph(WebSpec { split, page_count: 12_345, ..WebSpec::default() });
            let total: u64 = (0..1_000).map(|host| u64::from(graph.page_count(host))).sum();
            assert_eq!(total, 12_345);
            assert!((0..1_000).all(|host| graph.page_count(host) > 0));
        }
        let skewed = graph(WebSpec { split: Split::Skewed, ..WebSpec::default() });
        let largest = (0..1_000).map(|host| skewed.page_count(host)).max().unwrap();
        assert!(largest > 1_000, "{largest}");
    }

    #[test]
    fn every_attached_url_hangs_on_exactly_one_content_page() {
        let rough = WebSpec::profile("rough").unwrap();
        let graph = graph(WebSpec { host_count: 20, page_count: 4_000, ..rough });
        for host in 0..20 {
            let layout = graph.layout(host);
            let mut parents = vec![0; graph.page_count(host) as usize];
            for page in 0..layout.end(Kind::Content) {
                let mut links = Vec::new();
                let place = graph.place(host, page).unwrap();
                graph.push_tree(place, &layout, &mut links);
                for link in links.into_iter().filter(|link| link.host == host) {
                    assert_eq!(graph.place(host, link.page), Some(link));
                    parents[link.page as usize] += 1;
                }
            }
            let attached = layout.end(Kind::Missing) as usize;
            assert!(parents[1..attached].iter().all(|&count| count == 1), "host {host}");
            assert!(parents[attached..].iter().all(|&count| count == 0), "host {host}");
        }
    }

    #[test]
    fn kinds_have_the_share_that_was_asked_for() {
        let graph = graph(WebSpec::default());
        let mut redirects = 0;
        for host in 0..1_000 {
            redirects += graph.layout(host).count(Kind::Redirect);
        }
        assert!((3_800..4_200).contains(&redirects), "{redirects}");
    }

    #[test]
    fn closed_hosts_have_no_children() {
        let graph = graph(WebSpec { robots_closed_fraction: 1.0, ..WebSpec::default() });
        for host in (0..1_000).filter(|&host| graph.rules(host) == Rules::Closed) {
            assert_eq!(children(host, 1_000).count(), 0);
        }
        assert_eq!(graph.rules(999), Rules::Closed);
        assert_ne!(graph.rules(124), Rules::Closed);
    }

    #[test]
    fn redirects_end_at_a_page_within_three_hops() {
        let rough = WebSpec::profile("rough").unwrap();
        let graph = graph(WebSpec { host_count: 50, page_count: 5_000, ..rough });
        for host in 0..50 {
            for page in 0..graph.page_count(host) {
                let mut place = graph.place(host, page).unwrap();
                let mut hops = 0;
                while place.kind == Kind::Redirect {
                    place = graph.redirect_target(place);
                    hops += 1;
                }
                assert!(hops <= 2, "{hops}");
            }
        }
    }
}
