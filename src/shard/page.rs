//! A page from its first byte to its links: parsed while it arrives, judged, stored, routed.

use super::links::{Tally, Ways};
use super::promises::Stored;
use super::turns::Hands;
use super::{Notice, Questions, Reply, Shard};
use crate::base::oneshot;
use crate::dedup;
use crate::fetch::{Answer, Sink};
use crate::flow::{Candidate, Mail, Message, Original, Outcome, ShardIndex, Ticket, Trail, Via};
use crate::frontier::{HostId, Queued};
use crate::html::Page;
use crate::http::{ContentType, DecodeError, ResponseHead};
use crate::io::{Outbox, World};
use crate::limits;
use crate::metrics::{Count, Span, Stage};
use crate::parse::{Manner, Parsed, Parser};
use crate::store::{Position, StoreError, StoredPage};
use crate::url::Url;
use crate::warc::{PayloadDigest, Sha1, Truncated};
use std::net::IpAddr;
use std::rc::Rc;

/// What the index says of a body beyond its bytes.
#[derive(Default)]
struct Judged {
    simhash: Option<u64>,
    near: Option<u64>,
    undecoded: Option<&'static str>,
    links_left_out: u32,
}

/// Feeds the parser while the body arrives.
struct PageSink<'a, W: World, O, C> {
    shard: &'a Shard<W, O, C>,
    is_sitemap: bool,
    parser: Option<Parser>,
    parse_ns: u64,
}

impl<W: World, O: Outbox<Mail>, C: Outbox<Notice>> Sink for PageSink<'_, W, O, C> {
    fn head(&mut self, head: &ResponseHead) -> bool {
        if (200..300).contains(&head.status()) {
            let mut decoders = self.shard.decoders.borrow_mut();
            let parser = if self.is_sitemap { Parser::sitemap } else { Parser::new };
            let manner = Manner::of(&self.shard.plan.settings);
            self.parser = Some(parser(head, &mut decoders, manner));
        }
        true
    }

    fn body(&mut self, piece: &[u8]) {
        let PageSink { shard, parser, .. } = self;
        let before_ns = shard.booked_ns();
        if let Some(parser) = parser {
            shard.spend(Stage::Parse, || parser.push(piece));
        }
        self.parse_ns += self.shard.booked_ns() - before_ns;
    }

    fn held_bytes(&self) -> usize {
        self.parser.as_ref().map_or(0, Parser::held_bytes)
    }
}

impl<W: World, O: Outbox<Mail>, C: Outbox<Notice>> Shard<W, O, C> {
    pub(super) async fn visit_page(
        self: &Rc<Self>,
        host: HostId,
        queued: Queued,
        address: IpAddr,
        hands: Hands,
    ) {
        self.robots.borrow_mut().used(queued.url.origin());
        let is_sitemap = self.is_sitemap(&queued);
        if queued.tries_made() > 0 {
            self.client.close_kept(&queued.url);
        }
        let mut sink = PageSink { shard: self, is_sitemap, parser: None, parse_ns: 0 };
        let mut answer = self.client.fetch(&queued.url, address, &mut sink).await;
        let PageSink { parser, mut parse_ns, .. } = sink;
        let (outcome, target) = self.judge(&queued, &answer);
        self.finish_request(host, &queued.url, &answer, outcome, hands).await;
        self.metrics.borrow_mut().outcome(outcome);
        let next = self.pace(host, &queued.url, &answer, outcome);
        self.book(host, &queued.url, queued.tries_made(), &answer, outcome);

        let before_ns = self.booked_ns();
        let parsed = match parser {
            Some(parser) => {
                self.spend(Stage::Parse, || parser.finish(&mut self.decoders.borrow_mut()))
            }
            None => Parsed::default(),
        };
        answer.hold.iter().for_each(|hold| hold.note(answer.response.capacity()));
        if let Some(page) = &parsed.page {
            self.spend(Stage::Links, || self.route_links(&queued, page, &answer));
        }
        let (target, respelled) = match target {
            Some(target) if is_respelled(&queued.url, &target) => (None, Some(target)),
            target => (target, None),
        };
        self.spend(Stage::Links, || {
            self.route_head_links(&queued, parsed.page.as_ref(), &answer);
        });
        if let Some(target) = target {
            self.route_redirect(&queued, target);
        }
        parse_ns += self.booked_ns() - before_ns;
        if is_sitemap && outcome.is_page() {
            self.take_listed(&queued, parsed.listed.as_ref()).await;
        }
        // Nothing of what follows is the host's: it need not wait for its page's digest and record.
        let is_end = respelled.is_none() && self.is_end(&queued, &answer, outcome);
        if is_end {
            self.release(host, next);
            self.wake.poke();
        }
        let last_try = queued.tries_made() >= self.plan.settings.retry_count_max;
        let stored = if answer.head.is_some() && (!outcome.row().retry || last_try) {
            self.store_page(&queued.url, &mut answer, outcome, &parsed).await.map(Some)
        } else {
            Ok(None)
        };
        // A list of pages is none: it is stored, and costs nothing of the page limit.
        let is_page = matches!(stored, Ok(Some(_))) && outcome.is_page() && parsed.listed.is_none();
        if is_page {
            self.count_page();
            let mut metrics = self.metrics.borrow_mut();
            metrics.record(Span::Parse, std::time::Duration::from_nanos(parse_ns));
            metrics.record(Span::Total, self.world.now().since(answer.started));
        } else {
            self.refund_budget();
        }
        self.client.let_go(&mut answer);
        match (stored, respelled) {
            (Ok(_), Some(target)) => self.respell(host, queued, target, answer.ended),
            (Ok(position), None) => {
                let record = position.map(|position| Stored { position, is_page });
                self.conclude(host, queued, &answer, outcome, record).await;
            }
            // Not stored, it has not come to its end: it stays open, for the next start.
            (Err(error), _) => self.store_failed(error),
        }
        if !is_end {
            self.release(host, next);
        }
    }

    /// The store takes no more, and not for want of a disk ([`super::pause`]): it is closed. That
    /// is no failure once the shard has ended and closes its files itself.
    pub(super) fn store_failed(&self, error: StoreError) {
        if self.ended.get() && error == StoreError::Closed {
            return;
        }
        self.draining.set(true);
        self.notice(Notice::StoreFailed { shard: self.index, error });
    }

    /// What an answer amounts to, and where it redirects to.
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
        let target = self.normaliser.normalise(target);
        let step = self.trail_step(&target);
        // To itself with its parameters in another order it may go once, and costs a try.
        let is_back = is_respelled(&queued.url, &target)
            && (target == queued.url || queued.tries_made() >= self.plan.settings.retry_count_max)
            || queued.trail.contains(&step);
        if is_back {
            return (Outcome::RedirectLoop, None);
        }
        // The first step of a sitemap's trail is no redirect: it names the submitter.
        let named_count = usize::from(queued.via == Via::Sitemap);
        let hop_count = queued.trail.len().saturating_sub(named_count);
        if hop_count >= limits::REDIRECT_COUNT_MAX as usize {
            return (Outcome::RedirectLimit, None);
        }
        (Outcome::Redirected, Some(target))
    }

    /// A URL's name in redirect trails and in the near-duplicate tables.
    pub(super) fn trail_step(&self, url: &Url) -> u64 {
        url.fingerprint(&self.plan.hash_key).0 as u64
    }

    fn route_redirect(&self, queued: &Queued, target: Url) {
        if !self.is_home(target.host()) {
            self.tell_if_seed(queued, Outcome::Redirected);
            return self.metrics.borrow_mut().add(Count::LinksOutside, 1);
        }
        let trail: Trail =
            queued.trail.iter().copied().chain([self.trail_step(&queued.url)]).collect();
        let (depth, class) = (queued.depth, queued.class);
        // A sitemap that has moved is still one.
        let via = if queued.via == Via::Sitemap { Via::Sitemap } else { Via::Redirect };
        self.route(Candidate { url: target, depth, class, via, trail });
    }

    fn route_links(&self, queued: &Queued, page: &Page, answer: &Answer) {
        let mut robots = page.robots;
        if let Some(head) = &answer.head {
            head.all("x-robots-tag").for_each(|value| robots.add_header(value));
        }
        let follow_all = self.plan.settings.follow_nofollow;
        let depth = queued.depth.saturating_add(1);
        let is_too_deep = depth > self.plan.settings.depth_max;
        let base = page.base_url(&queued.url);
        let mut barred = 0;
        let leading = page.links().filter(|link| {
            let nofollow = (link.nofollow() || robots.nofollow) && !follow_all;
            let leads = !nofollow && link.leads_to_page() && !is_too_deep;
            barred += u64::from(!leads);
            leads
        });
        let hrefs = leading.map(|link| link.href);
        let now = self.world.now();
        let tally = self.links.borrow_mut().route(self, &base, hrefs, depth, now);
        self.count_links(tally);
        let mut metrics = self.metrics.borrow_mut();
        metrics.add(Count::LinksFound, page.links().len() as u64);
        metrics.add(Count::LinksOutside, barred);
        metrics.add(Count::LinksRefused, u64::from(page.link_cut_count));
        drop(metrics);
        self.tell_left_out(&queued.url, page.link_over_count);
    }

    /// Counts what is left out of a page with too many links, and says so at the first such page,
    /// the tenth, the hundredth: the index names them all.
    pub(super) fn tell_left_out(&self, url: &Url, link_count: u32) {
        if link_count == 0 {
            return;
        }
        let mut metrics = self.metrics.borrow_mut();
        metrics.add(Count::LinksOverCap, link_count.into());
        metrics.add(Count::PagesOverLinkCap, 1);
        let page_count = metrics.count(Count::PagesOverLinkCap);
        let is_power_of_ten = page_count == 10u64.pow(page_count.ilog10());
        if is_power_of_ten {
            tracing::warn!(
                "{link_count} links of {url} are left out: a page may have {} \
                 (page_link_count_max). Shard {} has left out {} links of {page_count} pages so \
                 far; the CDXJ lines of these pages say links_left_out",
                self.plan.settings.page_link_count_max,
                self.index.0,
                metrics.count(Count::LinksOverCap),
            );
        }
    }

    /// Of links, all at once: see [`Shard::offered`] for one.
    pub(super) fn count_links(&self, tally: Tally) {
        let mut metrics = self.metrics.borrow_mut();
        metrics.add(Count::LinksRemembered, tally.remembered_count);
        metrics.add(Count::LinksRefused, tally.refused_count);
        metrics.add(Count::LinksOutside, tally.outside_count);
        metrics.add(Count::UrlsKnown, tally.remembered_count + tally.known_count);
        metrics.add(Count::UrlsNew, tally.queued_count);
        metrics.add(Count::UrlsDeferred, tally.deferred_count);
        metrics.add(Count::UrlsTrapped, tally.trapped_count);
        metrics.add(Count::UrlsDropped, tally.dropped_count);
        if tally.queued_count > 0 {
            self.wake.poke();
        }
    }

    /// Stores a response; says where.
    async fn store_page(
        &self,
        url: &Url,
        answer: &mut Answer,
        outcome: Outcome,
        parsed: &Parsed,
    ) -> Result<Position, StoreError> {
        if let Some(simhash) = parsed.simhash {
            self.near.borrow().foresee(simhash);
        }
        let digest = self.digest(&mut answer.response, answer.head_len).await;
        let begun = self.world.now();
        let is_page = outcome.is_page();
        let bytes = (answer.response.len() - answer.head_len) as u64;
        let mut known = None;
        let mut near = None;
        if is_page && bytes > 0 && outcome == Outcome::Fetched {
            known = self.known_payload(url, answer, digest).await;
            if known.is_none()
                && let Some(simhash) = parsed.simhash
            {
                near = self.near_page(simhash, url).await;
            }
        }
        // A body that we cut, or that came in part, lacks its coding's end as a matter of course.
        let is_ours = |error: &DecodeError| {
            outcome != Outcome::Fetched && matches!(error, DecodeError::Cut(_))
        };
        let undecoded = parsed.failed.filter(|error| !is_ours(error)).map(DecodeError::name);
        let links_left_out = parsed.page.as_ref().map_or(0, |page| page.link_over_count);
        let judged = Judged { simhash: parsed.simhash, near, undecoded, links_left_out };
        let position = self.write(url, answer, outcome, digest, known.as_ref(), judged).await?;
        let mut metrics = self.metrics.borrow_mut();
        metrics.record(Span::Store, self.world.now().since(begun));
        if is_page {
            metrics.add(Count::BytesPayload, bytes);
            metrics.add(Count::BytesDecoded, parsed.decoded_bytes);
            metrics.add(Count::Revisits, u64::from(known.is_some()));
            metrics.add(Count::NearDuplicates, u64::from(near.is_some()));
            metrics.add(Count::BodiesUndecoded, u64::from(undecoded.is_some()));
        }
        Ok(position)
    }

    /// Stores a robots.txt: as it came, no question asked.
    pub(super) async fn store_plainly(&self, url: &Url, answer: &Answer) {
        if answer.head.is_none() {
            return;
        }
        let digest = PayloadDigest::of(&answer.response[answer.head_len..]);
        let judged = Judged::default();
        let written = self.write(url, answer, answer.outcome, digest, None, judged).await;
        if let Err(error) = written {
            self.store_failed(error);
        }
    }

    async fn write(
        &self,
        url: &Url,
        answer: &Answer,
        outcome: Outcome,
        payload_digest: Sha1,
        revisit_of: Option<&Original>,
        judged: Judged,
    ) -> Result<Position, StoreError> {
        let Judged { simhash, near, undecoded, links_left_out } = judged;
        let head = answer.head.as_ref().expect("only answers with a head are stored");
        let content_type = ContentType::parse(head.header("content-type").unwrap_or(b""));
        let page = StoredPage {
            url,
            address: answer.address,
            at: answer.at,
            request_head: &answer.request,
            response: &answer.response,
            head_len: answer.head_len,
            payload_digest,
            transfer_coded: false,
            content_coded: head.header("content-encoding").is_some(),
            truncated: match outcome {
                Outcome::CutLength => Some(Truncated::Length),
                Outcome::CutTime => Some(Truncated::Time),
                Outcome::Incomplete | Outcome::Reset => Some(Truncated::Disconnect),
                // WARC 1.1 5.13 has no word for a want of memory.
                Outcome::Malformed | Outcome::CutMemory | Outcome::ShedMemory => {
                    Some(Truncated::Unspecified)
                }
                _ => None,
            },
            revisit_of,
            status: head.status(),
            mime: std::str::from_utf8(content_type.mime).unwrap_or(""),
            simhash,
            near,
            undecoded,
            links_left_out,
        };
        let position = self.spend_on(Stage::Store, self.store.write(&page)).await?;
        self.count_stored(&position);
        // Into the response as it came, and from there into the record.
        let copied_bytes = answer.response.len() as u64 + position.length;
        self.metrics.borrow_mut().add(Count::BytesCopied, copied_bytes);
        Ok(position)
    }

    async fn known_payload(&self, url: &Url, answer: &Answer, digest: Sha1) -> Option<Original> {
        let original = Original { url: url.as_str().into(), at_seconds: answer.at.unix_seconds() };
        let owner = self.plan.placement.of_digest(&digest);
        if owner == self.index {
            return self.digests.borrow_mut().ask(&digest, original);
        }
        let asker = self.index;
        let reply = self.ask_shard(owner, |ticket| Message::DigestAsked {
            digest,
            original,
            asker,
            ticket,
        });
        match reply.await {
            Some(Reply::Digest(known)) => known,
            _ => None,
        }
    }

    async fn near_page(&self, simhash: u64, url: &Url) -> Option<u64> {
        let page = self.trail_step(url);
        let mut near = None;
        let mut replies = Vec::new();
        for (owner, blocks) in dedup::masks(simhash, self.plan.placement.shard_count()) {
            if owner == self.index {
                near = near.or(self.near.borrow_mut().ask(simhash, page, blocks));
            } else {
                let asker = self.index;
                replies.push(self.ask_shard(owner, |ticket| Message::NearAsked {
                    simhash,
                    page,
                    blocks,
                    asker,
                    ticket,
                }));
            }
        }
        for reply in replies {
            if let Some(Reply::Near(found)) = reply.await {
                near = near.or(found);
            }
        }
        near
    }

    /// Posts a question; the answer comes by mail.
    fn ask_shard(
        &self,
        owner: ShardIndex,
        question: impl FnOnce(Ticket) -> Message,
    ) -> oneshot::Receiver<Reply> {
        let (ticket, receiver) = self.questions.borrow_mut().open();
        self.mesh.borrow_mut().post(owner, question(ticket));
        self.wake.poke();
        receiver
    }
}

impl Questions {
    /// Bounded by the fetch slots: a visit has at most four open.
    fn open(&mut self) -> (Ticket, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        self.next = self.next.wrapping_add(1);
        self.open.insert(self.next, sender);
        (Ticket(self.next), receiver)
    }
}

/// What an answer amounts to by its status, where redirects are someone else's business.
pub(super) fn by_status(answer: &Answer) -> Outcome {
    let Some(head) = answer.head.as_ref() else { return answer.outcome };
    match head.status() {
        200..300 => answer.outcome,
        304 => Outcome::NotModified,
        300..400 => Outcome::Redirected,
        429 => Outcome::Throttled,
        503 if head.header("retry-after").is_some() => Outcome::Throttled,
        400..500 => Outcome::ClientError,
        // RFC 9110 15: a status beyond the known classes is taken as a server's error.
        500.. => Outcome::ServerError,
        _ => Outcome::Malformed,
    }
}

/// Whether both are one URL to us, whatever the order of their parameters: URL seen would not let
/// the second in.
fn is_respelled(url: &Url, target: &Url) -> bool {
    url.compared() == target.compared()
}
