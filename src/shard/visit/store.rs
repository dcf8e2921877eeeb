//! A response on its way into the archive: its digest, the earlier page with the same body, the
//! page that is nearly the same, and its record.

use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Original, Outcome};
use crate::crawl::metrics::{Count, Span};
use crate::crawl::parse::Parsed;
use crate::crawl::store::{Position, StoreError, StoredPage};
use crate::io::World;
use crate::proto::http::{ContentType, DecodeError};
use crate::proto::url::Url;
use crate::proto::warc::{PayloadDigest, Sha1, Truncated};
use crate::shard::Shard;

/// What the index records about a body besides its bytes.
#[derive(Default)]
struct Judged {
    simhash: Option<u64>,
    near: Option<u64>,
    undecoded: Option<&'static str>,
    links_left_out: u32,
}

impl<W: World> Shard<W> {
    /// Stores a response and returns the position of its record.
    pub(super) async fn store_page(
        &self,
        url: &Url,
        answer: &mut Answer,
        outcome: Outcome,
        parsed: &Parsed,
    ) -> Result<Position, StoreError> {
        if let Some(simhash) = parsed.simhash {
            self.sameness.prefetch(simhash);
        }
        let (response, head_len) = (&mut answer.response, answer.head_len);
        let digest =
            self.sameness.digest(&self.kit, self.slots.active_count(), response, head_len).await;
        let begun = self.kit.world.now();
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
        // If we cut the body, or it arrived in part, the end of its coding is missing as expected:
        // that is no decoding failure.
        let is_ours = |error: &DecodeError| {
            outcome != Outcome::Fetched && matches!(error, DecodeError::Cut(_))
        };
        let undecoded = parsed.failed.filter(|error| !is_ours(error)).map(DecodeError::name);
        let links_left_out = parsed.page.as_ref().map_or(0, |page| page.link_over_count);
        let judged = Judged { simhash: parsed.simhash, near, undecoded, links_left_out };
        let position = self.write(url, answer, outcome, digest, known.as_ref(), judged).await?;
        let probe = &self.kit.probe;
        probe.record(Span::Store, self.kit.world.now().since(begun));
        if is_page {
            probe.add(Count::BytesPayload, bytes);
            probe.add(Count::BytesDecoded, parsed.decoded_bytes);
            probe.add(Count::Revisits, u64::from(known.is_some()));
            probe.add(Count::NearDuplicates, u64::from(near.is_some()));
            probe.add(Count::BodiesUndecoded, u64::from(undecoded.is_some()));
        }
        Ok(position)
    }

    /// Stores a robots.txt as it arrived, without a search for duplicates.
    pub(super) async fn store_plainly(&self, url: &Url, answer: &Answer) {
        if answer.head.is_none() {
            return;
        }
        let digest = PayloadDigest::of(&answer.response[answer.head_len..]);
        let judged = Judged::default();
        let written = self.write(url, answer, answer.outcome, digest, None, judged).await;
        if let Err(error) = written {
            self.kit.store_failed(error);
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
                // WARC 1.1 5.13 has no value for a lack of memory.
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
        let position = self.archive.page(&page).await?;
        // Each byte is copied into the response buffer as it arrives, and from there into the
        // record.
        let copied_bytes = answer.response.len() as u64 + position.length;
        self.kit.probe.add(Count::BytesCopied, copied_bytes);
        Ok(position)
    }

    async fn known_payload(&self, url: &Url, answer: &Answer, digest: Sha1) -> Option<Original> {
        let original = Original { url: url.as_str().into(), at_seconds: answer.at.unix_seconds() };
        let asked = self.sameness.payload(&digest, original, &mut self.out());
        if asked.is_elsewhere() {
            self.kit.wake.poke();
        }
        asked.known().await
    }

    async fn near_page(&self, simhash: u64, url: &Url) -> Option<u64> {
        let asked = self.sameness.near(simhash, self.trail_step(url), &mut self.out());
        if asked.is_elsewhere() {
            self.kit.wake.poke();
        }
        asked.found().await
    }
}
