//! A visit to a page: the body is parsed while it arrives, then the answer is judged and stored and
//! its links are routed.

use super::verdict::{NextStep, by_status, is_respelled, next_step};
use crate::base::limits;
use crate::crawl::fetch::{Answer, Sink};
use crate::crawl::flow::{Candidate, Outcome, Queued, Trail, Via};
use crate::crawl::frontier::HostId;
use crate::crawl::metrics::{Count, Span, Stage};
use crate::crawl::parse::{Manner, Parsed, Parser};
use crate::io::World;
use crate::proto::html::Page;
use crate::proto::http::ResponseHead;
use crate::proto::url::Url;
use crate::shard::Shard;
use crate::shard::archive::Stored;
use crate::shard::manners::HeldTurns;
use crate::shard::slots::PageBudget;
use std::net::IpAddr;
use std::rc::Rc;

/// The sink of a page's request: feeds the parser while the body arrives.
struct PageSink<'a, W: World> {
    shard: &'a Shard<W>,
    is_sitemap: bool,
    parser: Option<Parser>,
    parse_ns: u64,
}

impl<W: World> Sink for PageSink<'_, W> {
    fn head(&mut self, head: &ResponseHead) -> bool {
        if (200..300).contains(&head.status()) {
            let mut decoders = self.shard.net.decoders.borrow_mut();
            let parser = if self.is_sitemap { Parser::sitemap } else { Parser::new };
            let manner = Manner::of(&self.shard.kit.plan.settings);
            self.parser = Some(parser(head, &mut decoders, manner));
        }
        true
    }

    fn body(&mut self, piece: &[u8]) {
        let PageSink { shard, parser, .. } = self;
        let before_ns = shard.kit.meter.booked_ns();
        if let Some(parser) = parser {
            shard.kit.spend(Stage::Parse, || parser.push(piece));
        }
        self.parse_ns += self.shard.kit.meter.booked_ns() - before_ns;
    }

    fn held_bytes(&self) -> usize {
        self.parser.as_ref().map_or(0, Parser::held_bytes)
    }
}

impl<W: World> Shard<W> {
    pub(in crate::shard) async fn visit_page(
        self: &Rc<Self>,
        host: HostId,
        queued: Queued,
        address: IpAddr,
        held: HeldTurns,
        budget: PageBudget,
    ) {
        self.manners.borrow_mut().robots_used(queued.url.origin());
        let is_sitemap = self.is_sitemap(&queued);
        if queued.tries_made() > 0 {
            self.net.client.close_kept(&queued.url);
        }
        let mut sink = PageSink { shard: self, is_sitemap, parser: None, parse_ns: 0 };
        let mut answer = self.net.client.fetch(&queued.url, address, &mut sink).await;
        let PageSink { parser, mut parse_ns, .. } = sink;
        let (outcome, target) = self.judge(&queued, &answer);
        self.finish_request(host, &queued.url, &answer, outcome, held).await;
        self.kit.probe.outcome(outcome);
        let next = self.next_request(host, &queued.url, &answer, outcome);
        self.book(host, &queued.url, queued.tries_made(), &answer, outcome);

        let before_ns = self.kit.meter.booked_ns();
        let parsed = match parser {
            Some(parser) => {
                self.kit.spend(Stage::Parse, || parser.finish(&mut self.net.decoders.borrow_mut()))
            }
            None => Parsed::default(),
        };
        answer.hold.iter().for_each(|hold| hold.note(answer.response.capacity()));
        if let Some(page) = &parsed.page {
            self.kit.spend(Stage::Links, || self.route_links(&queued, page, &answer));
        }
        let (target, respelled) = match target {
            Some(target) if is_respelled(&queued.url, &target) => (None, Some(target)),
            target => (target, None),
        };
        self.kit.spend(Stage::Links, || {
            self.route_head_links(&queued, parsed.page.as_ref(), &answer);
        });
        if let Some(target) = target {
            self.route_redirect(&queued, target);
        }
        parse_ns += self.kit.meter.booked_ns() - before_ns;
        if is_sitemap && outcome.is_page() {
            self.take_listed(&queued, parsed.listed.as_ref()).await;
        }
        // Nothing after this point concerns the host: it is released now and does not wait for its
        // page's digest and record.
        let step = next_step(outcome, answer.was_sent, &queued, &self.kit.plan.settings);
        let is_end = respelled.is_none() && matches!(step, NextStep::Bury | NextStep::End);
        if is_end {
            self.release(host, next);
            self.kit.wake.poke();
        }
        let last_try = queued.tries_made() >= self.kit.plan.settings.retry_count_max;
        let stored = if answer.head.is_some() && (!outcome.row().retry || last_try) {
            self.store_page(&queued.url, &mut answer, outcome, &parsed).await.map(Some)
        } else {
            Ok(None)
        };
        // A sitemap is no page: it is stored, and does not count against the page limit.
        let is_page = matches!(stored, Ok(Some(_))) && outcome.is_page() && parsed.listed.is_none();
        if is_page {
            self.slots.spend(budget);
            self.archive.count_page();
            let probe = &self.kit.probe;
            probe.record(Span::Parse, std::time::Duration::from_nanos(parse_ns));
            probe.record(Span::Total, self.kit.world.now().since(answer.started));
        } else {
            self.slots.refund(budget);
        }
        self.net.client.let_go(&mut answer);
        match (stored, respelled) {
            (Ok(_), Some(target)) => self.respell(host, queued, target, answer.ended),
            (Ok(position), None) => {
                let record = position.map(|position| Stored { position, is_page });
                self.conclude(host, queued, &answer, (outcome, step), record).await;
            }
            // A URL whose record was not stored has not ended: it stays open for the next start.
            (Err(error), _) => self.kit.store_failed(error),
        }
        if !is_end {
            self.release(host, next);
        }
    }

    /// Returns the outcome of an answer and, for a redirect, its target.
    fn judge(&self, queued: &Queued, answer: &Answer) -> (Outcome, Option<Url>) {
        let Some(head) = answer.head.as_ref() else { return (answer.outcome, None) };
        if !answer.outcome.is_page() {
            return (answer.outcome, None);
        }
        match head.status() {
            301 | 302 | 303 | 307 | 308 => self.judge_redirect(queued, head),
            300..400 if head.status() != 304 => (Outcome::RedirectRefused, None),
            _ => (by_status(answer), None),
        }
    }

    fn judge_redirect(&self, queued: &Queued, head: &ResponseHead) -> (Outcome, Option<Url>) {
        let location = head.header("location").unwrap_or(b"");
        let Ok(target) = queued.url.join_bytes(location) else {
            return (Outcome::RedirectRefused, None);
        };
        if location.is_empty() {
            return (Outcome::RedirectRefused, None);
        }
        let target = self.discovery.borrow().territory().normaliser.normalise(target);
        let step = self.trail_step(&target);
        // A redirect to the same URL with its parameters in another order is followed once, and
        // costs a try.
        let is_back = is_respelled(&queued.url, &target)
            && (target == queued.url
                || queued.tries_made() >= self.kit.plan.settings.retry_count_max)
            || queued.trail.contains(&step);
        if is_back {
            return (Outcome::RedirectLoop, None);
        }
        // The first step of a sitemap's trail is not a redirect: it names the submitter.
        let named_count = usize::from(queued.via == Via::Sitemap);
        let hop_count = queued.trail.len().saturating_sub(named_count);
        if hop_count >= limits::REDIRECT_COUNT_MAX as usize {
            return (Outcome::RedirectLimit, None);
        }
        (Outcome::Redirected, Some(target))
    }

    fn route_redirect(&self, queued: &Queued, target: Url) {
        if !self.discovery.borrow().territory().is_home(target.host()) {
            self.tell_if_seed(queued, Outcome::Redirected);
            return self.kit.probe.add(Count::LinksOutside, 1);
        }
        let trail: Trail =
            queued.trail.iter().copied().chain([self.trail_step(&queued.url)]).collect();
        let (depth, class) = (queued.depth, queued.class);
        // A sitemap that was redirected is still a sitemap.
        let via = if queued.via == Via::Sitemap { Via::Sitemap } else { Via::Redirect };
        self.route(Candidate { url: target, depth, class, via, trail });
    }

    fn route_links(&self, queued: &Queued, page: &Page, answer: &Answer) {
        let mut robots = page.robots;
        if let Some(head) = &answer.head {
            head.all("x-robots-tag").for_each(|value| robots.add_header(value));
        }
        let follow_all = self.kit.plan.settings.follow_nofollow;
        let depth = queued.depth.saturating_add(1);
        let is_too_deep = depth > self.kit.plan.settings.depth_max;
        let base = page.base_url(&queued.url);
        let mut barred = 0;
        let leading = page.links().filter(|link| {
            let nofollow = (link.nofollow() || robots.nofollow) && !follow_all;
            let leads = !nofollow && link.leads_to_page() && !is_too_deep;
            barred += u64::from(!leads);
            leads
        });
        let hrefs = leading.map(|link| link.href);
        let now = self.kit.world.now();
        let tally =
            self.discovery.borrow_mut().offer_links(&base, hrefs, depth, now, &mut self.out());
        self.count_links(tally);
        let probe = &self.kit.probe;
        probe.add(Count::LinksFound, page.links().len() as u64);
        probe.add(Count::LinksOutside, barred);
        probe.add(Count::LinksRefused, u64::from(page.link_cut_count));
        self.tell_left_out(&queued.url, page.link_over_count);
    }
}
