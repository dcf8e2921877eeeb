//! Links that an answer names in its head: `Link: <...>; rel=next` and `Refresh`. They are followed
//! like a page's own links, whatever the body is, because a feed, a PDF or JSON may continue
//! elsewhere.
//!
//! They are relative to the URL that was requested, because `<base>` applies to the markup alone
//! (RFC 8288 3.1). Directives in X-Robots-Tag apply to them, and so do those in the page's meta
//! elements.

use crate::base::limits::HEAD_LINK_COUNT_MAX;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::Queued;
use crate::crawl::metrics::Count;
use crate::io::World;
use crate::proto::html::{Page, Rel, RobotsMeta, refresh_url};
use crate::proto::http::{ResponseHead, header_links};
use crate::shard::Shard;
use std::borrow::Cow;

impl<W: World> Shard<W> {
    pub(in crate::shard) fn route_head_links(
        &self,
        queued: &Queued,
        page: Option<&Page>,
        answer: &Answer,
    ) {
        let head = answer.head.as_ref().filter(|head| (200..300).contains(&head.status()));
        let Some(head) = head else { return };
        let takes_nofollow = self.kit.plan.settings.follow_nofollow;
        let mut found = named(head, takes_nofollow);
        if found.is_empty() {
            return;
        }
        let found_count = found.len();
        found.truncate(HEAD_LINK_COUNT_MAX);
        let over_count = (found_count - found.len()) as u32;
        let mut robots = page.map_or(RobotsMeta::default(), |page| page.robots);
        head.all("x-robots-tag").for_each(|value| robots.add_header(value));
        let depth = queued.depth.saturating_add(1);
        let is_barred =
            (robots.nofollow && !takes_nofollow) || depth > self.kit.plan.settings.depth_max;
        let probe = &self.kit.probe;
        probe.add(Count::LinksFound, found_count as u64);
        if is_barred {
            return probe.add(Count::LinksOutside, found_count as u64);
        }
        let (hrefs, now) = (found.iter().map(|href| &**href), self.kit.world.now());
        let tally = self.discovery.borrow_mut().offer_links(
            &queued.url,
            hrefs,
            depth,
            now,
            &mut self.out(),
        );
        self.count_links(tally);
        self.tell_left_out(&queued.url, over_count);
    }
}

/// Returns the links in a head that may be followed, in their order. Their number is bounded by the
/// size of a head.
fn named(head: &ResponseHead, takes_nofollow: bool) -> Vec<Cow<'_, str>> {
    let mut found = Vec::new();
    for link in head.all("link").flat_map(header_links) {
        let rel = Rel::parse(&link.rel);
        let leads = rel.has(Rel::NEXT) || rel.has(Rel::PREV);
        if leads && !link.has_anchor && (takes_nofollow || !rel.has(Rel::NOFOLLOW)) {
            found.push(String::from_utf8_lossy(link.target));
        }
    }
    // A browser takes the first `Refresh` field; a list in one field is not a refresh.
    let refresh = head.header("refresh").and_then(refresh_url);
    found.extend(refresh.map(|url| String::from_utf8_lossy(url.trim_ascii())));
    found
}
