//! Every bound of the crawler, in one place, with the relations between them checked at compile
//! time. What happens at a bound is said beside it. Settings that an operator may change live in
//! `config`; the ranges there stay inside these.

// --- URLs and slots -----------------------------------------------------------------------------

/// Hosts fall into 2^12 slots by the top bits of their key; slots map to cores and, later, nodes.
pub const SLOT_BITS: u32 = 12;
pub const SLOT_COUNT: usize = 1 << SLOT_BITS;
/// A URL's fingerprint begins with so many bits of its host's key, the slot's first, so that the
/// URLs of a host lie together where fingerprints are sorted. The other 88 are the URL's own: of a
/// million URLs of a host (the cap) two are alike once in 2^49 such hosts.
pub const FINGERPRINT_HOST_BITS: u32 = 40;
pub const SHARD_COUNT_MAX: usize = 256;
/// Longer URLs are refused as [`crate::proto::url::UrlError::TooLong`] and counted.
pub const URL_BYTES_MAX: usize = 4096;
/// DNS names are no longer (RFC 1035 2.3.4). A longer host is left to the reference URL parser.
pub const HOST_NAME_BYTES_MAX: usize = 253;

// --- HTTP ---------------------------------------------------------------------------------------

/// Status line and header fields together; more fails the response.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Fields of one head; more fails the response. Real heads of 150 are known (one Link or Set-Cookie
/// line for each of many), of a thousand not.
pub const HEADER_COUNT_MAX: usize = 1_024;
/// Fields for which there is room at once; a head with more is read a second time.
pub const HEADER_COUNT_USUAL: usize = 128;
/// Interim (1xx) responses before the final one; more fails the response.
pub const INTERIM_RESPONSE_COUNT_MAX: usize = 8;
/// Body bytes as received, before content decoding; beyond it the body is cut and so marked. An
/// operator may set up to [`BODY_BYTES_MAX`]: a body is held in RAM until it is stored.
pub const BODY_BYTES: usize = 5 * 1024 * 1024;
pub const BODY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// A chunk's size line with its extensions, and all trailers together.
pub const CHUNK_LINE_BYTES_MAX: usize = 4096;
pub const TRAILER_BYTES_MAX: usize = 16 * 1024;
/// Body bytes after content decoding; beyond it decoding stops and the page is marked cut. Where
/// longer bodies are taken, it is [`DECODED_PER_BODY`] times the longest.
pub const DECODED_BYTES: usize = 20 * 1024 * 1024;
pub const DECODED_PER_BODY: usize = 4;
/// Decoded over encoded, once [`RATIO_CHECK_BYTES_MIN`] were decoded; beyond it: a bomb, refused.
pub const DECODED_RATIO_MAX: usize = 200;
pub const RATIO_CHECK_BYTES_MIN: usize = 1024 * 1024;
/// Stacked content codings; more are refused.
pub const CONTENT_CODING_COUNT_MAX: usize = 3;
/// zstd frames that ask for a larger window are refused.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;
pub const REDIRECT_COUNT_MAX: u8 = 5;

// --- HTTP reader --------------------------------------------------------------------------------

/// Blank lines before a status line, in bytes; more is not HTTP.
pub const LEADING_BLANK_BYTES_MAX: usize = 8;
/// Chunk extensions of one response together, so that one-byte chunks cannot carry endless ones.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 64 * 1024;
/// Output buffer of one decoding stage; the sink sees pieces of at most this size.
pub const DECODE_SCRATCH_BYTES: usize = 32 * 1024;
/// Idle contexts of each kind that a core's decoder pool keeps; the rest are freed.
pub const DECODER_IDLE_COUNT_MAX: usize = 8;

// --- HTML ---------------------------------------------------------------------------------------

/// Distinct links to pages that are taken from one page unless a setting says otherwise; the rest
/// are counted and left out.
pub const PAGE_LINK_COUNT_MAX: usize = 1_000;
/// Links taken from one response head (Link, Refresh); the rest are counted and left out.
pub const HEAD_LINK_COUNT_MAX: usize = 64;
pub const TITLE_BYTES_MAX: usize = 1_024;
pub const ANCHOR_TEXT_BYTES_MAX: usize = 256;
/// One attribute's value; a longer one is cut, and a link in it is dropped.
pub const ATTRIBUTE_BYTES_MAX: usize = 16 * 1024;
/// A tag's or an attribute's name; a longer one is none that matters.
pub const NAME_BYTES_MAX: usize = 256;
/// A language tag; a longer one is ignored (BCP 47 has none over 35 in practice).
pub const LANGUAGE_BYTES_MAX: usize = 64;
/// Memory of one lol_html rewriter (`--extractor lol`); a page that needs more is cut there.
pub const LOL_MEMORY_BYTES_MAX: usize = 1024 * 1024;
/// SVG and MathML roots and integration points open at once; beyond it nesting is not followed.
pub const FOREIGN_DEPTH_MAX: usize = 64;
/// Bytes looked at for a `<meta charset>` before parsing begins.
pub const CHARSET_SNIFF_BYTES: usize = 1_024;
/// Bytes held back, from the first that is not ASCII, to guess an undeclared charset from.
pub const CHARSET_GUESS_BYTES: usize = 4_096;

// --- robots.txt ---------------------------------------------------------------------------------

/// RFC 9309 2.5 wants at least 500 KiB parsed; beyond this the rest is ignored.
pub const ROBOTS_BYTES_MAX: usize = 512 * 1024;
pub const ROBOTS_LINE_BYTES_MAX: usize = 16 * 1024;
pub const ROBOTS_RULE_COUNT_MAX: usize = 20_000;
pub const ROBOTS_SITEMAP_COUNT_MAX: usize = 256;
/// Steps, of about a nanosecond, that judge one path; then the path is forbidden, by no rule. Real
/// files need some 100,000 at the most; one of 20,000 rules like `/*aaaaaaaaaaaaaaab` would need a
/// billion for each of its URLs.
pub const ROBOTS_MATCH_STEP_COUNT_MAX: isize = 1 << 22;
/// A longer Crawl-delay counts as this: a day, after which the file is read again anyway.
pub const ROBOTS_DELAY_MS_MAX: u64 = 24 * 3_600 * 1_000;

// --- Sitemaps -----------------------------------------------------------------------------------

/// Entries taken from one sitemap: the protocol's own limit. The rest are counted and dropped. Its
/// 50 MB are not reached, unless `body_bytes_max` is raised: the caps of the body and of its
/// decoding come first, and what was listed before them stands.
pub const SITEMAP_URL_COUNT_MAX: usize = 50_000;
/// Bytes of the addresses kept of one sitemap until they are routed; the rest are counted and
/// dropped. 50,000 of 160 bytes fit.
pub const SITEMAP_KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Indexes between a robots.txt and a list of pages. The protocol allows one; sitemaps below more
/// are counted and not asked for.
pub const SITEMAP_INDEX_DEPTH_MAX: u16 = 3;
/// Sitemaps that the indexes on one host may name, beside what robots.txt files do; the rest are
/// counted and not asked for.
pub const SITEMAP_HOST_DOCUMENT_COUNT_MAX: u32 = 1_000;
/// URLs that the sitemaps on one host may list, known ones included; the rest are counted and
/// dropped.
pub const SITEMAP_HOST_URL_COUNT_MAX: u32 = 1_000_000;
/// Bytes held back for the XML declaration; a longer one is not believed.
pub const SITEMAP_DECLARATION_BYTES_MAX: usize = 256;
/// A tag's or an attribute's name; a longer one is none that matters.
pub const SITEMAP_NAME_BYTES_MAX: usize = 128;
/// A date or a priority; a longer one is ignored.
pub const SITEMAP_FIELD_BYTES_MAX: usize = 64;

// --- DNS messages -------------------------------------------------------------------------------

/// What we tell servers we take over UDP: the DNS flag day's size, which is never fragmented.
pub const DNS_UDP_BYTES_MAX: u16 = 1_232;
/// One message over TCP. The protocol allows 64 KiB, but no host needs 16 KiB of addresses, and
/// the cost of a message of chained compression pointers grows with the square of its size.
pub const DNS_TCP_BYTES_MAX: usize = 16 * 1024;
/// Records of the answer, and of the authority section; a message with more is refused.
pub const DNS_RECORD_COUNT_MAX: usize = 256;
/// Aliases followed from the name asked for to its addresses; a longer chain is refused.
pub const DNS_ALIAS_COUNT_MAX: usize = 12;
/// Addresses kept of one answer; the rest are dropped.
pub const DNS_ADDRESS_COUNT_MAX: usize = 16;
/// A host name as text, without the last dot.
pub const DNS_NAME_BYTES_MAX: usize = 253;

// --- DNS resolver (each per core) ---------------------------------------------------------------

/// Hosts whose addresses, or the lack of them, are remembered, at about 150 bytes each; beyond it
/// one that was not asked for lately is forgotten.
pub const DNS_CACHE_COUNT_MAX: usize = 1 << 20;
/// Names being looked up at once, with a socket each; further ones wait for their turn.
pub const DNS_IN_FLIGHT_MAX: usize = 512;
/// An answer holds at least and at most this long, whatever its server says.
pub const DNS_TTL_SECONDS_MIN: u32 = 60;
pub const DNS_TTL_SECONDS_MAX: u32 = 24 * 3_600;
/// The same for "there is no such name" and "it has no address" (RFC 2308 5: one to three hours
/// work well as the upper end).
pub const DNS_NEGATIVE_SECONDS_MIN: u32 = 60;
pub const DNS_NEGATIVE_SECONDS_MAX: u32 = 3 * 3_600;
/// How long a name that nobody could tell us of is not asked for again (RFC 9520 3.2: at least one
/// second, at most five minutes).
pub const DNS_FAILURE_SECONDS: u32 = 30;
/// Upstream servers taken from a system's configuration; more are ignored.
pub const DNS_UPSTREAM_COUNT_MAX: usize = 8;
/// Unanswered questions in a row after which an upstream is asked last, and for how long.
pub const DNS_SILENCE_COUNT_MAX: u32 = 3;
pub const DNS_UPSTREAM_REST_MS: u64 = 10_000;
/// Wait before the second round through the upstreams; it doubles with each, and is jittered.
pub const DNS_BACKOFF_MS: u64 = 200;
/// Datagrams that are no reply to our question; after more, someone is guessing: TCP is used.
pub const DNS_STRAY_COUNT_MAX: u32 = 32;

// --- SimHash ------------------------------------------------------------------------------------

/// A text with fewer words has no fingerprint: so few shingles make neighbours of strangers.
pub const SIMHASH_WORD_COUNT_MIN: usize = 16;
/// Bytes of a word that count; what follows them up to the next separator is skipped.
pub const SIMHASH_WORD_BYTES_MAX: usize = 64;
/// Shingles that are counted; beyond them the text is as if it ended there.
pub const SIMHASH_SHINGLE_COUNT_MAX: usize = (1 << 24) - 1;

// --- Ring ---------------------------------------------------------------------------------------

/// Receive buffers of one core's socket ring. When all are lent, receives pause until one is back.
pub const RING_BUFFER_COUNT: u16 = 2_048;
/// Of these the kernel has so many at a time, the last used: 4 MB that stay in the cache. One turn
/// that needs more leaves the rest to the next.
pub const RING_BUFFER_READY_COUNT: u16 = 256;
pub const RING_BUFFER_BYTES: usize = 16 * 1024;
pub const RING_SUBMISSION_COUNT: u32 = 4_096;
pub const RING_COMPLETION_COUNT: u32 = 32_768;
/// Chunks waiting on one stream before its receive is paused, so that one fast peer cannot hold
/// the buffers of all.
pub const STREAM_CHUNK_COUNT_MAX: usize = 32;
/// Completions that one turn of a core takes; the rest stay in the kernel's queue for the next,
/// before which timers are looked at again: some twenty pages of work, two milliseconds at most.
pub const RING_EVENT_COUNT_MAX: usize = 64;
/// How often tasks are let run before a core's driver asks the kernel again.
pub const RING_YIELD_COUNT_MAX: usize = 4;
/// A core with nothing to do that a timer would wake within this long sleeps so long, or until so
/// many things have happened: what a timer or a completion may be late by.
pub const RING_GATHER_US: u64 = 1_000;
pub const RING_GATHER_COUNT: usize = 64;
/// Longest sleep of a core's driver: what a lost signal could cost at the most.
pub const RING_SLEEP_MS_MAX: u64 = 100;
/// How long the end of a core waits for its connections to be closed.
pub const RING_CLOSE_MS_MAX: u64 = 2_000;
/// glommio's preempt timer. Nothing of ours asks for it, each time it fires glommio's reactor has a
/// turn, and in that turn a thread that is held up for longer falls asleep with tasks ready.
pub const RING_PREEMPT_MS: u64 = 10_000;
/// How often the watch looks whether each core's driver has turned.
pub const RING_WATCH_MS: u64 = 100;
/// Looks in a row that find no turn before a core is woken from outside. A driver that sleeps as it
/// should is back within [`RING_SLEEP_MS_MAX`], so between two of three looks.
pub const RING_STILL_LOOK_COUNT: u64 = 2;
/// A shard's core that has not turned for so long is named in the log.
pub const RING_TELL_MS: u64 = 5_000;
/// A shard's core that has not turned for so long, although it was woken all the while, ends the
/// process. The kernel calls a task hung after as long.
pub const RING_STILL_MS_MAX: u64 = 120_000;
/// The process's exit code then (`EX_TEMPFAIL`): the crawl can be resumed.
pub const STILL_EXIT_CODE: u8 = 75;
/// Looks that the line in the log has to be written before the process ends without it.
pub const STILL_EXIT_LOOK_COUNT: u32 = 20;
/// What a piece of work that does not wait may take before it is counted as a long step, and said
/// (`NEPHILA_LOG=debug`). Nothing is cut short.
pub const STEP_MS_MAX: u64 = 5;
/// Connections the system queues for us before we accept them.
pub const LISTEN_BACKLOG: i32 = 4_096;
/// Accepted connections waiting for the program; more stay in the system's queue.
pub const ACCEPT_QUEUE_COUNT_MAX: usize = 1_024;
/// A datagram longer than this is cut (and then fails to parse).
pub const DATAGRAM_BYTES_MAX: usize = 4_096;

// --- Simulator ----------------------------------------------------------------------------------

/// Polls of one simulation; more end it with `SimError::StepLimit`. A test may set less.
pub const SIM_STEP_COUNT_MAX: u64 = 1 << 36;
/// Polls without the clock moving; more end the simulation with `SimError::Livelock`.
pub const SIM_INSTANT_STEP_COUNT_MAX: u64 = 10_000_000;
/// Events kept for people to read; older ones are forgotten. The digest covers them all.
pub const SIM_EVENT_COUNT_MAX: usize = 65_536;
/// Unread bytes on one direction of a simulated connection; then its sender waits.
pub const SIM_WINDOW_BYTES: usize = 256 * 1024;
/// Connections a listener has not accepted; further ones get no answer.
pub const SIM_BACKLOG_COUNT_MAX: usize = 4_096;
/// Datagrams waiting on one socket; further ones are lost.
pub const SIM_DATAGRAM_COUNT_MAX: usize = 1_024;
/// The receive buffer of a datagram socket: what is longer is cut.
pub const SIM_DATAGRAM_BYTES_MAX: usize = 4_096;
/// How long a connect without an answer goes on (Linux: six SYN retries, 127 s).
pub const SIM_CONNECT_MS_MAX: u64 = 127_000;

/// How long the shards of a simulated crawl may take to drain; then the run failed. Above any
/// wait of a visit: an answer's, a lookup's, a full disk queue's.
pub const SIM_DRAIN_MS_MAX: u64 = 3_600_000;
/// How long it takes to save the manifest once all simulated shards have their state: longer than
/// the shards need to begin.
pub const SIM_MANIFEST_MS: u64 = 20;
/// Starts in a row that a simulated disk may foil; then it works again, for someone has seen to it.
pub const SIM_START_TRY_COUNT_MAX: u32 = 6;
/// Batches in the mailbox of a simulated shard: few, so that full ones are met.
pub const SIM_MAILBOX_BATCH_COUNT: usize = 64;
/// Breaches of one kind that a run shows; all are counted.
pub const SIM_BREACH_COUNT_SHOWN: usize = 5;

// --- Fetch --------------------------------------------------------------------------------------

/// Hosts whose TLS sessions one core remembers for resumption; the oldest is forgotten. Hosts come
/// round, one after the other: a memory of fewer than there are has none when its turn comes.
pub const TLS_SESSION_HOST_COUNT_MAX: usize = 20_480;
/// Bytes of TLS records from which no byte of data has come: two whole records and some tickets.
/// Beyond it the connection is given up.
pub const TLS_BARREN_BYTES_MAX: usize = 64 * 1024;
/// In a full pool: how often as long as is usual before a connection is used again must the longest
/// idle one have been so to be closed for another.
pub const KEEP_ALIVE_PATIENCE: u32 = 4;
/// Memory for bodies of one core, where an operator says nothing else: what is received, unpacked
/// and not yet stored. A core that stores 200 MB a second from servers that take a second for a
/// page holds 200 MB; a fifth of a thousand stalled bodies at the cap fill it.
pub const BODY_MEMORY_MB: usize = 1_024;
pub const BODY_MEMORY_MB_MIN: usize = 64;
pub const BODY_MEMORY_MB_MAX: usize = 1 << 20;
/// So many bodies of the longest kind fit at least, or the settings are refused: fewer would have
/// each other cut.
pub const BODY_MEMORY_COUNT_MIN: usize = 4;
/// How often the rate of bodies is measured while memory for them is short.
pub const BODY_SAMPLE_MS: u64 = 500;
/// A body that brings less in so long than it holds is slow.
pub const BODY_SLOW_SECONDS: u64 = 30;
/// Bodies that hold less are left alone when memory is short: to cut one frees next to nothing.
pub const BODY_VICTIM_BYTES_MIN: usize = 64 * 1024;
/// What a reader of HTML, a fingerprint of text and an inflating context hold, about.
pub const HTML_READER_BYTES: usize = 8 * 1024;
pub const INFLATE_BYTES: usize = 48 * 1024;
/// What a brotli context holds beside its window, about.
pub const BROTLI_TABLE_BYTES: usize = 64 * 1024;
/// Response buffers kept for reuse, and the largest that is.
pub const FETCH_BUFFER_COUNT_MAX: usize = 256;
pub const FETCH_BUFFER_BYTES_KEPT: usize = 256 * 1024;

// --- Frontier (each per core) -------------------------------------------------------------------

/// Hosts in RAM; URLs of further hosts are dropped and counted.
pub const HOST_COUNT_MAX: usize = 1 << 22;
/// Hosts in RAM beyond which those that are idle leave at once, where an operator says nothing
/// else: 400 MB of them at the most.
pub const HOST_MEMORY_COUNT: usize = 1 << 21;
/// Hosts that have left RAM, at 13.7 to 17.2 bytes each; beyond them cold ones stay, and that is
/// counted.
pub const COLD_HOST_COUNT_MAX: usize = 1 << 27;
/// Parts of their table: what grows, and what a checkpoint takes, in one go. At the most some
/// 33,000 hosts each, in 460 KB.
pub const COLD_PART_COUNT: usize = 1 << 12;
/// Cold hosts that a checkpoint writes as one entry, or a part of the table if that has more.
pub const COLD_IMAGE_COUNT: usize = 4_096;
/// Hosts looked at in one go for whether they may leave: some 50 us.
pub const SWEEP_STEP_COUNT: usize = 1_024;
/// Such steps a second; and while more hosts are in RAM than may be.
pub const SWEEP_STEPS_PER_SECOND: usize = 16;
pub const SWEEP_STEPS_PER_SECOND_MAX: usize = 64;
/// Pages of one host, queued and fetched together; further ones are dropped and counted.
pub const HOST_PAGE_COUNT_MAX: u32 = 1_000_000;
/// Scheme and port pairs of one host; a page can name 65,535 ports of it, few of them real.
pub const HOST_ORIGIN_COUNT_MAX: usize = 32;
/// Segments of a path; deeper URLs are dropped and counted as traps. Real ones have under 20.
pub const PATH_SEGMENT_COUNT_MAX: usize = 32;
/// Times that one segment may stand in a path; more is a circle of relative links, dropped and
/// counted as a trap. Dates and locales repeat a segment two or three times at the most.
pub const REPEATED_SEGMENT_COUNT_MAX: usize = 4;
/// URLs of one shape taken from one host, where an operator says nothing else; more are dropped and
/// counted as a trap. Twice what a large site of numbered articles has, a fifth of a host's budget.
pub const SKELETON_PAGE_COUNT: u64 = 20_000;
/// URLs of a host from which on its shapes are counted: smaller hosts cost nothing.
pub const SKELETON_WATCH_COUNT_MIN: u32 = 512;
/// Shapes counted for one host, in 4 KiB; a further one takes the place of a rare one.
pub const SKELETON_COUNT_MAX: usize = 256;
/// Bytes of RAM an idle host may cost: name, schedule and index included, the shard's data not.
pub const HOST_IDLE_BYTES_MAX: usize = 200;
/// URLs in the queues, on disk too, and the bytes of their records; beyond either, the lowest class
/// goes.
pub const QUEUED_URL_COUNT_MAX: u64 = 1 << 30;
pub const QUEUED_URL_BYTES_MAX: u64 = 64 << 30;
/// URLs the in-memory sieve remembers; beyond it no new URL is taken, and that is counted.
pub const SEEN_URL_COUNT_MAX: usize = 1 << 28;
/// Fingerprints in the sieve's first gate, 8 bytes each, at first. What it does not know may have
/// to be asked of the disk, so each new one brings room for four ...
pub const RECENT_FINGERPRINT_COUNT: usize = 1 << 17;
/// ... up to this, or what a setting says, and may say: a million hosts that bring eight new links
/// each before one of them comes round, twice. Then the oldest of a place is forgotten.
pub const RECENT_MB: usize = 128;
pub const RECENT_MB_MAX: usize = 16 << 10;
/// Links of a core that were dealt with lately, by their text, 8 bytes each, at first. Each that
/// was known and not remembered gives it room for four more ...
pub const LINK_MEMO_COUNT: usize = 1 << 17;
/// ... up to this, or what a setting says, and may say: with 20,000 hosts whose pages share 50
/// links each, four times as many as pass between two pages of a host. Beyond it the oldest of a
/// place is forgotten, and looked up as any other.
pub const LINK_MEMO_MB: usize = 32;
pub const LINK_MEMO_MB_MAX: usize = 16 << 10;
/// Links of a page that are judged together, so that their cache lines come together: as many as
/// most pages have.
pub const LINK_BATCH_COUNT: usize = 64;
/// As [`LINK_BATCH_COUNT`], of a parcel, which has the links of many pages. A new link's host is
/// found in four steps, each of which waits for the one before: the more go together, the less each
/// of them waits.
pub const PARCEL_BATCH_COUNT: usize = 256;
/// Of the Bloom filter when it is full; with eight bits set a URL, about 0.5 % false "maybe".
pub const BLOOM_BITS_PER_URL: usize = 12;

// --- URL seen on disk (each per core) -----------------------------------------------------------

/// Fingerprints in RAM that are in no run yet; so many are sorted and written as a run.
pub const SEEN_FRESH_COUNT: usize = 1 << 19;
pub const SEEN_FRESH_COUNT_LARGEST: usize = 1 << 22;
/// Room for them at the start of a crawl, which may be a small one.
pub const SEEN_FRESH_COUNT_FIRST: usize = 1 << 15;
/// Of them, those gathered while a run is written; beyond it the shard starts no new fetches.
pub const SEEN_FRESH_COUNT_MAX: usize = 2 * SEEN_FRESH_COUNT;
/// Deferred candidates, and the bytes of their records, that begin a merge.
pub const SEEN_BATCH_COUNT: usize = 1 << 19;
pub const SEEN_BATCH_BYTES: usize = 64 * 1024 * 1024;
/// Deferred candidates in all, those in a merge included; beyond either bound the shard starts no
/// new fetches until the merge is done. What is under way may still bring links.
pub const SEEN_DEFERRED_COUNT_MAX: usize = 2 * SEEN_BATCH_COUNT;
pub const SEEN_DEFERRED_BYTES_MAX: usize = 2 * SEEN_BATCH_BYTES;
/// A deferred candidate waits no longer for its merge to begin, however few wait with it. The disk
/// then reads only the blocks that could hold them.
pub const SEEN_LAG_MS: u64 = 1_000;
/// Records of deferred candidates lie in pieces of this size: growing copies nothing.
pub const SEEN_PIECE_BYTES: usize = 256 * 1024;
/// Parts of the Bloom filter, each for a range of slots; one is rebuilt at a time.
pub const SEEN_SLICE_COUNT: usize = 64;
/// URLs that a slice has room for at first.
pub const SEEN_SLICE_URL_COUNT: usize = 65_536;
/// A slice that is full grows to this share of its URLs, four thirds: from 12 bits a URL to 16.
pub const SEEN_GROWTH_NUMERATOR: usize = 4;
pub const SEEN_GROWTH_DENOMINATOR: usize = 3;
/// A block of a run, with its checksum: what is read and checked to find one URL, or those of a
/// host. A page of memory; with 16 KB a merge read four times as much.
pub const SEEN_BLOCK_BYTES: usize = 4 * 1024;
/// Blocks that are read at a time, or written: so many bytes at the most, in so many pieces.
pub const SEEN_TRANSFER_BYTES: usize = 256 * 1024;
pub const SEEN_TRANSFER_PIECE_COUNT: usize = 64;
/// Blocks between two that are wanted which are read with them and not looked at: to copy them
/// costs less than a second read.
pub const SEEN_GAP_BLOCK_COUNT: usize = 4;
/// Runs of about one size that are merged into one.
pub const SEEN_TIER_RUN_COUNT: usize = 4;
/// Runs in all; at the bound no run is written until a compaction is done. Four in each of twelve
/// sizes, from half a million fingerprints to two million million: not met while disks hold.
pub const SEEN_RUN_COUNT_MAX: usize = 48;
/// A run's index, as its trailer tells it; a larger one is damage. A run of 2^34 fingerprints.
pub const SEEN_INDEX_BYTES_MAX: u64 = 1 << 30;
/// Bytes that merges and compactions read and write a second, each, while fetching goes on. When
/// the shard waits for them they run as fast as they can.
pub const SEEN_BYTES_PER_SECOND: u64 = 512 * 1024 * 1024;
/// Fingerprints sorted, merged or judged before other tasks of the core run: under a millisecond.
pub const SEEN_STEP_COUNT: usize = 4_096;
/// How soon a merge that the disk refused is tried again.
pub const SEEN_RETRY_MS: u64 = 1_000;

// --- Queues on disk (each per core) -------------------------------------------------------------

/// Records in RAM beyond the heads of the queues; what is more goes to disk. Where an operator says
/// nothing else: what a million hosts with a dozen URLs each take. Nothing is taken before it is
/// needed.
pub const QUEUE_RESIDENT_MB: u64 = 512;
pub const QUEUE_RESIDENT_MB_MAX: u64 = 1 << 20;
/// The head of a host's queue of a class: the first records stay in RAM, for the next three or four
/// visits. Longer ones than this go to disk too, but for the host that is being visited.
pub const QUEUE_HEAD_BYTES: usize = 160;
/// Records of a head at which the next ones are asked of the disk.
pub const QUEUE_LOW_COUNT: u32 = 1;
/// Records of one chunk: what a read brings back. Some 160 visits of one host.
pub const QUEUE_CHUNK_BYTES_MAX: usize = 8 * 1024;
/// Chunks written and synced together.
pub const QUEUE_BATCH_BYTES: usize = 1024 * 1024;
pub const QUEUE_BATCH_BYTES_MIN: usize = 1024;
/// A segment of this size is sealed and the next begun; at least for settings of tests.
pub const QUEUE_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
pub const QUEUE_SEGMENT_BYTES_MIN: u64 = 16 * 1024;
/// A sealed segment of which less than a quarter is in use has the rest moved, so that the disk
/// holds at most four times what is queued, and one open segment a class.
pub const QUEUE_SPARSE_DIVISOR: u64 = 4;
/// One read of a segment that is moved: checked and looked up in under a millisecond.
pub const QUEUE_SIFT_BYTES: usize = 1024 * 1024;
pub const QUEUE_SIFT_BYTES_MIN: usize = 16 * 1024;
/// Chunks that one job reads, one after the other, and such jobs at once.
pub const QUEUE_REFILL_COUNT: usize = 16;
pub const QUEUE_REFILL_JOB_COUNT_MAX: usize = 8;
/// Segments held open; beyond it the one not used for longest is closed.
pub const QUEUE_OPEN_FILE_COUNT_MAX: usize = 128;
/// How soon a write or a read that the disk refused is tried again.
pub const QUEUE_RETRY_MS: u64 = 1_000;

// --- Metrics ------------------------------------------------------------------------------------

/// Longest time a histogram tells apart; longer counts as this. Ten minutes: above any deadline.
pub const SPAN_US_MAX: u64 = 600_000_000;
/// Two digits: an error under 1 %, in a third of the memory of three.
pub const SPAN_SIGNIFICANT_DIGITS: u8 = 2;

/// Failing origins that a shard looks at once a second to say what the crawl waits for: some 100 ns
/// each. Of more it says "at least".
pub const WAITS_LOOK_COUNT_MAX: usize = 4_096;
/// Hosts of one list of the ready wheel that are looked at to say when the next is due.
pub const WHEEL_LOOK_COUNT_MAX: usize = 64;
/// With fewer pages a second the progress line says what the crawl waits for.
pub const WAITS_SHOWN_RATE_MAX: u64 = 10;

// --- Command line, configuration and seeds ------------------------------------------------------

/// A longer configuration file is refused unread.
pub const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Contact, paths and other text in the configuration; it must fit a request's head many times.
pub const SETTING_TEXT_BYTES_MAX: usize = 1_024;
pub const SETTING_LIST_COUNT_MAX: usize = 1_024;
/// A longer line of a seed file is reported as a problem and skipped: a URL and room around it.
pub const SEED_LINE_BYTES_MAX: usize = 2 * URL_BYTES_MAX;
/// Problems of one seed file that are kept to be told; the rest are only counted.
pub const SEED_PROBLEM_COUNT_MAX: usize = 1_000;
/// Seeds of one crawl; the rest are counted and told, not taken.
pub const SEED_COUNT_MAX: usize = 10_000_000;
/// Domains or hosts to which links can be kept. Each core holds them all, some 60 bytes each; a
/// crawl with more seeds of distinct domains follows links everywhere, or not at all.
pub const HOME_COUNT_MAX: usize = 1_000_000;
/// A longer manifest is refused: settings, and names in JSON with their indentation.
pub const MANIFEST_BYTES_MAX: u64 =
    2 * CONFIG_BYTES_MAX + HOME_COUNT_MAX as u64 * (HOST_NAME_BYTES_MAX as u64 + 16);
/// Of these the first line of a run names so many; the rest it counts.
pub const HOME_SHOWN_COUNT_MAX: usize = 5;
/// A line of `nephila try`: the largest decoded page, in base64 and JSON, and some room.
pub const TRY_LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Open files that `nephila web` asks the system for; where it gets fewer, clients wait.
pub const WEB_OPEN_FILE_COUNT: u64 = 1 << 20;
// --- Synthetic web ------------------------------------------------------------------------------

/// Hosts of one synthetic web: 254 addresses a /24, from 127.16/16 to 127.32/16.
pub const WEB_HOST_COUNT_MAX: u32 = 1_000_000;
/// The tail of the size distribution is cut here.
pub const WEB_PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Links asked for on one page; tree links come on top, still under the crawler's own cap.
pub const WEB_LINK_COUNT_MAX: u32 = 500;
pub const WEB_LATENCY_MS_MAX: u32 = 30_000;
/// URLs that the truth walks before it gives up: it holds them all in memory.
pub const WEB_TRUTH_URL_COUNT_MAX: usize = 4_000_000;
/// One request head; a longer one is answered 431 and the connection closed.
pub const WEB_REQUEST_BYTES_MAX: usize = 16 * 1024;
pub const WEB_REQUEST_HEADER_COUNT_MAX: usize = 64;
/// Requests on one connection before the server closes it.
pub const WEB_CONNECTION_REQUEST_COUNT_MAX: u32 = 1_000;
/// A connection that is silent, or does not take its answer, for this long is closed.
pub const WEB_IDLE_MS_MAX: u64 = 60_000;
/// Idle send buffers kept for the next response; more are freed.
pub const WEB_SPARE_BUFFER_COUNT_MAX: usize = 256;
/// Log lines gathered before the sink sees them.
pub const WEB_LOG_BUFFER_BYTES: usize = 256 * 1024;
pub const WEB_LOG_FLUSH_MS: u64 = 500;
/// Of a robots.txt served, in the log; the rest is not in it. No crawler need read more.
pub const WEB_LOG_BODY_BYTES_MAX: usize = 512 * 1024;
/// A line's buffer that has grown larger is freed, not kept for the next request.
pub const WEB_LOG_DRAFT_BYTES_KEPT: usize = 4 * 1024;
/// What a hostile server calls endless ends here, if its client has not closed before.
pub const WEB_ENDLESS_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
/// Names of each farm that share one address, or one /64 of them; others do not exist.
pub const WEB_FARM_HOST_COUNT: usize = 1_000;
/// Certificates issued on demand and kept; beyond it the cache starts anew.
pub const WEB_CERTIFICATE_COUNT_MAX: usize = 65_536;

// --- Robots cache, dedup, mesh (each per core) ---------------------------------------------------

/// Origins whose robots.txt is remembered; the oldest answer is forgotten and asked for again.
pub const ROBOTS_CACHE_COUNT_MAX: usize = 1 << 20;
/// Lines of addresses and domains looked at in one go to see whether they can be forgotten; the
/// rest is for the next.
pub const TURN_FADE_COUNT_MAX: usize = 256;
/// Payloads remembered as stored; a forgotten one is stored again if it comes back.
pub const DIGEST_COUNT_MAX: usize = 1 << 22;
/// Payloads, and bytes of them, that wait for their digest together before it is made: half of what
/// a core's own cache holds, where that is a megabyte.
pub const DIGEST_BATCH_COUNT: usize = 16;
pub const DIGEST_BATCH_BYTES: usize = 512 * 1024;
/// How long the first of them waits for the others while visits are under way that may bring some.
/// Far over [`RING_GATHER_US`]: a core that a timer is about to wake sleeps until it does. Far
/// under a second, after which a page shall be durable.
pub const DIGEST_GATHER_US: u64 = 20_000;
const _: () = assert!(DIGEST_GATHER_US >= 20 * RING_GATHER_US);
/// Bits in which near-duplicates may differ; four blocks find up to three.
pub const NEAR_DISTANCE_MAX: u32 = 3;
/// Pages kept per SimHash block value; the oldest is overwritten.
pub const NEAR_BUCKET_COUNT_MAX: usize = 64;
/// Batches in a shard's mailbox; a full one gives the batch back to its sender.
pub const MAILBOX_BATCH_COUNT: usize = 1_024;
/// Messages waiting for a full mailbox; beyond it the shard starts no new fetches.
pub const MESH_PENDING_COUNT_MAX: usize = 65_536;
/// Texts of links that travel in one parcel; what is beyond goes into the next.
pub const PARCEL_BYTES_MAX: usize = 4 << 20;
/// How soon a full mailbox is tried again.
pub const MESH_RETRY_MS: u64 = 1;

// --- Store --------------------------------------------------------------------------------------

/// One WARC record unpacked, header and block. A longer response is refused by the store; a member
/// that unpacks to more is refused by the reader. Above the longest body that may be asked for.
pub const WARC_RECORD_BYTES_MAX: usize = BODY_BYTES_MAX + 1024 * 1024;
/// A shard's write buffer. It is handed to the disk once it is this full, and the next one filled.
/// A single record may overfill it.
pub const WRITE_BUFFER_BYTES: usize = 8 * 1024 * 1024;
/// Room behind it for the record that fills it; a longer one makes it grow.
pub const WRITE_BUFFER_OVER_BYTES: usize = 1024 * 1024;
/// Bytes of one write past the page cache that must be copied first, and of the memory that it is
/// made from. Large enough for the disk, small enough for the second-level cache.
pub const DIRECT_WRITE_BYTES: usize = 512 * 1024;
/// Bytes of one write past the page cache that need no copy; a longer buffer takes several. The
/// ring's own bound for one operation is above it: a write that comes back short counts as failed.
pub const DIRECT_WRITE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Writes past the page cache begin and end at multiples of this, in the file and in memory.
pub const DIRECT_BLOCK_BYTES: usize = 4_096;
/// In memory this is enough: no disk controller asks for more.
pub const DIRECT_ALIGN_BYTES: usize = 512;
const _: () = assert!(DIRECT_WRITE_BYTES.is_multiple_of(DIRECT_BLOCK_BYTES));
const _: () = assert!(DIRECT_WRITE_BYTES_MAX.is_multiple_of(DIRECT_BLOCK_BYTES));
const _: () = assert!(DIRECT_BLOCK_BYTES.is_multiple_of(DIRECT_ALIGN_BYTES));
/// Write buffers of a shard that are full and not proven durable: in line for the disk, with it, or
/// in the file; then writers wait. Their bytes are bounded as well, for a record may overfill one:
/// once they have as many together as so many buffers, writers wait too. As many are kept for
/// reuse. At 180 MB/s a disk may stand still for half a second before anyone waits.
pub const WRITE_BUFFER_COUNT_MAX: usize = 16;
/// Index lines of the open WARC file, kept until it is closed; at the bound the file is closed
/// early.
pub const CDXJ_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Lines of the request log held before they are appended; at twice this, writers wait.
pub const REQUEST_LOG_BUFFER_BYTES: usize = 64 * 1024;
/// The end of a log that is searched for blocks which a power cut kept from the disk. What is older
/// the kernel wrote back long ago (Linux: dirty pages after 30 s) and is taken as it is.
pub const REQUEST_LOG_CHECK_BYTES: u64 = 64 * 1024 * 1024;
/// How long a shard waits before it tries a failed disk again; doubled with every failure, ...
pub const DISK_RETRY_MS_MIN: u64 = 1_000;
/// ... up to this.
pub const DISK_RETRY_MS_MAX: u64 = 30_000;
/// One read when a torn file is searched for its last whole record.
pub const SALVAGE_READ_BYTES: usize = 1024 * 1024;

// --- Politeness ---------------------------------------------------------------------------------

/// Origins of one core that are remembered as failing; beyond it a further one is asked at its
/// host's pace, without a breaker.
pub const AILING_ORIGIN_COUNT_MAX: usize = 1 << 20;
/// URLs of an origin that fail in a row, each with an answer, before the origin is given up: more
/// than those of one page.
pub const FAILED_URL_COUNT_MAX: u16 = 1_000;
/// URLs of one core that wait for another try by themselves; beyond it their hosts wait with them.
pub const RETRY_WAITING_COUNT_MAX: usize = 1 << 20;
/// An ETag or a Last-Modified of a robots.txt; a longer one is not kept.
pub const ROBOTS_VALIDATOR_BYTES_MAX: usize = 128;
/// Robots.txt files that moved and are followed at once, on their own host or on behalf of others,
/// each per core; beyond it they count as unreachable.
pub const ERRAND_COUNT_MAX: usize = 65_536;

// --- Audit --------------------------------------------------------------------------------------

/// Redirects of a robots.txt that are followed (RFC 9309 2.3.1.2); beyond them it is unreachable.
pub const AUDIT_ROBOTS_HOP_COUNT_MAX: usize = 5;
/// Rules hold for 24 hours (RFC 9309 2.4); a page on older ones is a violation ...
pub const AUDIT_RULES_AGE_MS_MAX: u64 = 24 * 3_600_000;
/// ... but one whose request was under way by then: connecting takes time.
pub const AUDIT_FETCH_MS_MAX: u64 = 300_000;
/// How long the commit of what a crawler has learnt may take, once it is due.
pub const AUDIT_COMMIT_MS_MAX: u64 = 100;
/// Unreachable for so long, a robots.txt may be taken as absent (RFC 9309 2.3.1.4).
pub const AUDIT_RELAX_MS: u64 = 30 * AUDIT_RULES_AGE_MS_MAX;
/// Examples of one kind of violation that are kept; all are counted.
pub const AUDIT_EXAMPLE_COUNT_MAX: usize = 5;
/// A log's line as it is shown; the rest is cut.
pub const AUDIT_LINE_CHARS_SHOWN: usize = 240;
pub const AUDIT_NAME_CHARS_SHOWN: usize = 100;
/// A log's line as it is read, four bytes for one of a robots.txt; a longer one is an error.
pub const AUDIT_LINE_BYTES_MAX: u64 = 4 * WEB_LOG_BODY_BYTES_MAX as u64 + 64 * 1024;
/// Of one WARC record, unpacked: heads and as much of a robots.txt as counts; the rest is skipped.
pub const AUDIT_RECORD_BYTES_MAX: u64 = 2 * HEAD_BYTES_MAX as u64 + WEB_LOG_BODY_BYTES_MAX as u64;
/// Clocks of one machine drift this far apart, wall against monotonic, without having been set.
pub const AUDIT_CLOCK_SLEW_NS_MAX: u64 = 1_000_000_000;

// --- Control ------------------------------------------------------------------------------------

/// Notices on their way to the control thread; one that finds no room is counted and made good by
/// the next.
pub const NOTICE_COUNT_MAX: usize = 65_536;
/// How long the control thread listens before it looks at signals and limits again.
pub const STEER_MS: u64 = 10;
/// How often progress is shown.
pub const WATCH_MS: u64 = 200;
/// How long a shard may take to answer a probe before the round is begun anew.
pub const PROBE_PATIENCE_MS: u64 = 1_000;
/// Pages a shard is allowed at a time under `max_pages`.
pub const BUDGET_PORTION_MAX: u64 = 256;
/// Told a second time to end, the process has so long to close its files. Then it ends as a kill
/// ends it, whatever stands still.
pub const SECOND_SIGNAL_MS: u64 = 3_000;
/// When a shard has ended by itself, the others may finish what they have under way for so long:
/// what needs its answer never will.
pub const LOST_SHARD_DRAIN_MS: u64 = 2_000;
/// And so long they may take to close their files. The process ends without those that take longer.
pub const LOST_SHARD_HALT_MS: u64 = 10_000;
/// Descriptors that are not connections: files, rings, eventfds, and some room.
pub const OTHER_FILE_COUNT: usize = 1_024;

/// Hosts of the benchmarks' web: at [`BENCH_DELAY_MS`] twice the pages a second that one core is
/// meant for.
pub const BENCH_HOST_COUNT: u32 = 20_000;
pub const BENCH_DELAY_MS: u64 = 1_000;
/// Of `latency`, which loads a core by what it can do: a quick one does more than so many hosts
/// allow at a request a second each.
pub const BENCH_LATENCY_DELAY_MS: u64 = 500;

const _: () = {
    assert!(HOST_NAME_BYTES_MAX < URL_BYTES_MAX, "a URL with the longest host fits");
    assert!(SLOT_COUNT >= SHARD_COUNT_MAX, "every core can own a slot");
    assert!(DECODED_BYTES >= BODY_BYTES, "an uncoded body is never cut by the decoder");
    assert!(DECODED_PER_BODY >= 1, "nor a longer one, where longer ones are taken");
    assert!(BODY_BYTES <= BODY_BYTES_MAX);
    assert!(BODY_MEMORY_COUNT_MIN * BODY_BYTES <= BODY_MEMORY_MB_MIN << 20, "the default fits all");
    assert!(BODY_MEMORY_COUNT_MIN * (BODY_BYTES_MAX >> 20) <= BODY_MEMORY_MB_MAX);
    assert!(BODY_MEMORY_MB_MIN << 20 >= BODY_BYTES + (2 << ZSTD_WINDOW_LOG_MAX), "one, unpacked");
    assert!(ROBOTS_BYTES_MAX >= 500 * 1024, "RFC 9309 2.5");
    assert!(HEAD_BYTES_MAX > URL_BYTES_MAX, "a Location header fits");
    assert!(HEADER_COUNT_USUAL <= HEADER_COUNT_MAX);
    assert!(DNS_TCP_BYTES_MAX >= DNS_UDP_BYTES_MAX as usize, "TCP is the way out of truncation");
    assert!(DNS_TCP_BYTES_MAX <= u16::MAX as usize, "the length prefix has two bytes");
    assert!(DNS_CACHE_COUNT_MAX <= u32::MAX as usize, "places in the cache are u32");
    assert!(DNS_TTL_SECONDS_MIN <= DNS_TTL_SECONDS_MAX);
    assert!(DNS_NEGATIVE_SECONDS_MIN <= DNS_NEGATIVE_SECONDS_MAX);
    assert!(HEAD_BYTES_MAX <= u32::MAX as usize / 4, "spans of a head, unfolded too, are u32");
    assert!(CHUNK_EXTENSION_BYTES_MAX >= CHUNK_LINE_BYTES_MAX);
    assert!(DECODED_BYTES > RATIO_CHECK_BYTES_MIN, "a bomb is met before the output cap");
    assert!(SIMHASH_WORD_COUNT_MIN >= 3, "a shingle has three words");
    assert!(SIMHASH_SHINGLE_COUNT_MAX > DECODED_BYTES / 2, "a page is never cut by SimHash");
    assert!(RING_STILL_LOOK_COUNT * RING_WATCH_MS > RING_SLEEP_MS_MAX, "sleep is no standstill");
    assert!(RING_TELL_MS > RING_STILL_LOOK_COUNT * RING_WATCH_MS, "a word after a nudge");
    assert!(RING_STILL_MS_MAX > RING_TELL_MS, "the end after a word");
    assert!(RING_BUFFER_COUNT.is_power_of_two(), "the kernel masks the buffer ring's index");
    assert!(NEAR_BUCKET_COUNT_MAX <= u8::MAX as usize);
    assert!(RING_COMPLETION_COUNT >= RING_SUBMISSION_COUNT);
    assert!(HOST_ORIGIN_COUNT_MAX <= u8::MAX as usize + 1, "an origin's index is one byte");
    assert!(HOST_COUNT_MAX < u32::MAX as usize, "the last id means none");
    assert!(HOST_MEMORY_COUNT < HOST_COUNT_MAX, "hosts leave before URLs are dropped");
    assert!(COLD_PART_COUNT.is_power_of_two(), "a part is chosen by bits");
    assert!(SKELETON_COUNT_MAX.is_multiple_of(8), "sets of eight");
    assert!(REPEATED_SEGMENT_COUNT_MAX < PATH_SEGMENT_COUNT_MAX);
    assert!(SITEMAP_KEPT_BYTES_MAX <= u32::MAX as usize, "ends of addresses are u32");
    assert!(RECENT_FINGERPRINT_COUNT * 8 <= 1 << 20, "one megabyte is the least that may be set");
    assert!(LINK_MEMO_COUNT * 8 <= 1 << 20, "one megabyte is the least that may be set");
    assert!(RECENT_MB_MAX << 20 <= 1 << 37, "sets of 32 bytes are numbered by 32 bits");
    assert!(LINK_MEMO_MB_MAX << 20 <= 1 << 37, "sets of 32 bytes are numbered by 32 bits");
    assert!(SEED_LINE_BYTES_MAX > URL_BYTES_MAX, "every URL we take fits a line");
    assert!(SETTING_TEXT_BYTES_MAX * 8 <= HEAD_BYTES_MAX, "a User-Agent fits a request");
    assert!(TRY_LINE_BYTES_MAX >= DECODED_BYTES * 3, "a page fits a line, escaped or base64");
    assert!(WARC_RECORD_BYTES_MAX >= BODY_BYTES_MAX + 4 * HEAD_BYTES_MAX, "every body fits");
    assert!(STREAM_CHUNK_COUNT_MAX * 4 <= RING_BUFFER_COUNT as usize);
    assert!(WEB_PAGE_BYTES_MAX < BODY_BYTES, "the crawler cuts no synthetic page");
    assert!(WEB_LINK_COUNT_MAX as usize * 2 <= PAGE_LINK_COUNT_MAX);
    assert!(FINGERPRINT_HOST_BITS >= SLOT_BITS, "a fingerprint begins with its slot");
    assert!(FINGERPRINT_HOST_BITS <= 64, "the low half is the URL's own: tables go by it");
    assert!(SEEN_SLICE_COUNT.is_power_of_two() && SEEN_SLICE_COUNT <= SLOT_COUNT, "slot ranges");
    assert!(SEEN_TRANSFER_BYTES.is_multiple_of(SEEN_BLOCK_BYTES), "whole blocks");
    assert!(HOST_COUNT_MAX <= 1 << 30, "a host and a class fit 32 bits");
    assert!(QUEUE_CHUNK_BYTES_MAX <= u16::MAX as usize, "a chunk's size is u16");
    assert!(QUEUE_CHUNK_BYTES_MAX > URL_BYTES_MAX + 9 + 8 * 31, "the longest record fits a chunk");
    assert!(QUEUE_SIFT_BYTES_MIN >= QUEUE_CHUNK_BYTES_MAX + 64, "a read holds a whole chunk");
    assert!(QUEUE_SEGMENT_BYTES + 2 * QUEUE_BATCH_BYTES as u64 <= u32::MAX as u64, "offsets");
    assert!(SEEN_PIECE_BYTES > 2 * URL_BYTES_MAX, "a record fits a piece");
    assert!(TLS_SESSION_HOST_COUNT_MAX > BENCH_HOST_COUNT as usize, "else bench tls has none");
    assert!(
        SEEN_DEFERRED_BYTES_MAX * (SEEN_FRESH_COUNT_LARGEST / SEEN_FRESH_COUNT)
            <= u32::MAX as usize / 2,
        "places of records are u32"
    );
};

// --- Journal and checkpoints --------------------------------------------------------------------

/// A group of entries is committed at this size, however young it is.
pub const JOURNAL_FRAME_BYTES: usize = 1024 * 1024;
/// Entries that are not durable; beyond it no fetch is started until the disk has caught up.
pub const JOURNAL_PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A checkpoint is due when the journal since the last one is this long, whatever the time.
pub const JOURNAL_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// A frame claims to be larger: it is damaged. A host's image is one entry, and this its bound.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Read at a time to find out whether a damaged frame is followed by a sound one.
pub const FRAME_SCAN_BYTES: usize = 256 * 1024;
/// Written at a time by a checkpoint, and gathered in one go between two looks at other work.
pub const CHECKPOINT_FRAME_BYTES: usize = 128 * 1024;
/// A checkpoint under way writes at most so much a second.
pub const CHECKPOINT_BYTES_PER_SECOND: u64 = 256 * 1024 * 1024;
/// Lines that `nephila inspect` prints of a list, unless it is told otherwise; the rest is counted.
pub const INSPECT_LINE_COUNT: usize = 100;
/// Hosts, breakers and checkpoints that its overview lists.
pub const INSPECT_TOP_COUNT: usize = 10;
/// Longest line of a request log, a list of dead letters or an index that it reads: a URL, twice
/// over. Longer ones are none of ours.
pub const INSPECT_LINE_BYTES_MAX: usize = 32 * 1024;
/// Dead letters that it tells apart, at about 200 bytes each. Beyond them it says that it saw more.
pub const INSPECT_DEAD_COUNT_MAX: usize = 4_000_000;
/// URLs that a look at a crawl's state has room for at first in the set of those seen since the
/// checkpoint: it asks that set nothing.
pub const LOOK_SEEN_COUNT: usize = 4_096;
/// Times that a look at the state of a crawl under way begins anew because files that it was about
/// to read had been replaced.
pub const LOOK_TRY_COUNT_MAX: u32 = 8;
/// Tries are counted in lives of so many: a dead letter that an operator puts back begins its next
/// life, and every copy of an earlier one is told by its number. Beyond the last it stays dead.
pub const TRIES_PER_LIFE: u8 = 16;
/// Pages whose end is not durable yet; beyond it no fetch is started.
pub const COMPLETION_COUNT_MAX: usize = 65_536;

/// Seeds offered between two looks at other work.
pub const SEED_STEP_COUNT: usize = 1_024;
/// A shard that is told to end looks this often whether all it has fetched is durable.
pub const PROMISE_CHECK_MS: u64 = 20;

const _: () = assert!(JOURNAL_FRAME_BYTES < JOURNAL_PENDING_BYTES_MAX);
const _: () = assert!(JOURNAL_PENDING_BYTES_MAX < FRAME_BYTES_MAX);
