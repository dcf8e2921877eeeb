//! Every bound of the crawler, in one place, with the relations between them checked at compile
//! time. The text at each bound says what happens when it is reached. Settings that an operator may
//! change live in `crawl::config`; their ranges stay inside these bounds.

// --- URLs and slots -----------------------------------------------------------------------------

/// Hosts fall into 2^12 slots by the top bits of their key; slots map to cores and, later, nodes.
pub const SLOT_BITS: u32 = 12;
pub const SLOT_COUNT: usize = 1 << SLOT_BITS;
/// A URL's fingerprint begins with this many bits of its host's key, the slot's bits first, so that
/// the URLs of a host lie together where fingerprints are sorted. The other 88 bits are the URL's
/// own: among a million URLs of one host (the cap), two have the same bits at one of 2^49 such
/// hosts.
pub const FINGERPRINT_HOST_BITS: u32 = 40;
pub const SHARD_COUNT_MAX: usize = 256;
/// Longer URLs are refused as [`crate::proto::url::UrlError::TooLong`] and counted.
pub const URL_BYTES_MAX: usize = 4096;
/// Longest DNS name (RFC 1035 2.3.4). A URL with a longer host is left to the reference URL parser.
pub const HOST_NAME_BYTES_MAX: usize = 253;

// --- HTTP ---------------------------------------------------------------------------------------

/// Bytes of the status line and the header fields together; a longer head fails the response.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Header fields of one head; more fail the response. Real heads with 150 fields are known (one
/// Link or Set-Cookie line for each of many values), heads with a thousand are not.
pub const HEADER_COUNT_MAX: usize = 1_024;
/// Header fields that the first pass has room for; a head with more fields is parsed a second time.
pub const HEADER_COUNT_USUAL: usize = 128;
/// Interim (1xx) responses before the final one; more fails the response.
pub const INTERIM_RESPONSE_COUNT_MAX: usize = 8;
/// Body bytes as received, before content decoding; a longer body is cut and marked as cut. An
/// operator may allow up to [`BODY_BYTES_MAX`], because a body is held in RAM until it is stored.
pub const BODY_BYTES: usize = 5 * 1024 * 1024;
pub const BODY_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// A chunk's size line with its extensions; a longer line fails the response.
pub const CHUNK_LINE_BYTES_MAX: usize = 4096;
/// All trailers of one response together; more fail the response.
pub const TRAILER_BYTES_MAX: usize = 16 * 1024;
/// Body bytes after content decoding; beyond it decoding stops and the page is marked as cut. Where
/// a setting allows longer bodies, the bound is [`DECODED_PER_BODY`] times the longest allowed
/// body.
pub const DECODED_BYTES: usize = 20 * 1024 * 1024;
pub const DECODED_PER_BODY: usize = 4;
/// Decoded bytes per encoded byte, checked once [`RATIO_CHECK_BYTES_MIN`] bytes were decoded; a
/// body above this ratio is a decompression bomb and is refused.
pub const DECODED_RATIO_MAX: usize = 200;
pub const RATIO_CHECK_BYTES_MIN: usize = 1024 * 1024;
/// Content codings stacked on one body; a body with more is refused.
pub const CONTENT_CODING_COUNT_MAX: usize = 3;
/// Largest zstd window, as a power of two; frames that ask for a larger one are refused.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 23;
pub const REDIRECT_COUNT_MAX: u8 = 5;

// --- HTTP reader --------------------------------------------------------------------------------

/// Blank lines before a status line, in bytes; more is not HTTP.
pub const LEADING_BLANK_BYTES_MAX: usize = 8;
/// All chunk extensions of one response together, in bytes, so that a response of one-byte chunks
/// cannot carry endless extensions.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 64 * 1024;
/// Output buffer of one decoding stage; the sink sees pieces of at most this size.
pub const DECODE_SCRATCH_BYTES: usize = 32 * 1024;
/// Idle contexts of each kind that a core's decoder pool keeps; the rest are freed.
pub const DECODER_IDLE_COUNT_MAX: usize = 8;

// --- HTML ---------------------------------------------------------------------------------------

/// Distinct links to pages that are taken from one page unless a setting says otherwise; the rest
/// are counted and dropped.
pub const PAGE_LINK_COUNT_MAX: usize = 1_000;
/// Links taken from one response head (Link, Refresh); the rest are counted and dropped.
pub const HEAD_LINK_COUNT_MAX: usize = 64;
pub const TITLE_BYTES_MAX: usize = 1_024;
pub const ANCHOR_TEXT_BYTES_MAX: usize = 256;
/// One attribute's value; a longer one is cut, and a link in it is dropped.
pub const ATTRIBUTE_BYTES_MAX: usize = 16 * 1024;
/// A tag's or an attribute's name; a longer one is cut, since no name that matters is longer.
pub const NAME_BYTES_MAX: usize = 256;
/// A language tag; a longer one is ignored (BCP 47 has none over 35 in practice).
pub const LANGUAGE_BYTES_MAX: usize = 64;
/// Memory of one lol_html rewriter (`--extractor lol`); a page that needs more is cut there.
pub const LOL_MEMORY_BYTES_MAX: usize = 1024 * 1024;
/// SVG and MathML roots and integration points open at once; beyond it nesting is not followed.
pub const FOREIGN_DEPTH_MAX: usize = 64;
/// Bytes looked at for a `<meta charset>` before parsing begins.
pub const CHARSET_SNIFF_BYTES: usize = 1_024;
/// Bytes held back, beginning with the first that is not ASCII, to guess an undeclared charset.
pub const CHARSET_GUESS_BYTES: usize = 4_096;

// --- robots.txt ---------------------------------------------------------------------------------

/// RFC 9309 2.5 demands that at least 500 KiB are parsed; what lies beyond this bound is ignored.
pub const ROBOTS_BYTES_MAX: usize = 512 * 1024;
pub const ROBOTS_LINE_BYTES_MAX: usize = 16 * 1024;
pub const ROBOTS_RULE_COUNT_MAX: usize = 20_000;
pub const ROBOTS_SITEMAP_COUNT_MAX: usize = 256;
/// Matching steps, of about a nanosecond each, that may be spent to judge one path; a path that
/// needs more is forbidden, without a rule that forbids it. Real files need some 100,000 steps at
/// most; a file of 20,000 rules like `/*aaaaaaaaaaaaaaab` would need a billion for each URL.
pub const ROBOTS_MATCH_STEP_COUNT_MAX: isize = 1 << 22;
/// Longest Crawl-delay; a longer one counts as this. It is a day, after which the robots.txt is
/// fetched again anyway.
pub const ROBOTS_DELAY_MS_MAX: u64 = 24 * 3_600 * 1_000;

// --- Sitemaps -----------------------------------------------------------------------------------

/// Entries taken from one sitemap: the protocol's own limit. The rest are counted and dropped. The
/// protocol's other limit, 50 MB, is not reached unless `body_bytes_max` is raised: the caps on the
/// body and on its decoding come first, and the entries listed before the cut are kept.
pub const SITEMAP_URL_COUNT_MAX: usize = 50_000;
/// Bytes of the URLs kept from one sitemap until they are routed; the rest are counted and dropped.
/// 50,000 URLs of 160 bytes fit.
pub const SITEMAP_KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Sitemap indexes between a robots.txt and a list of pages. The protocol allows one; sitemaps
/// below more indexes than this are counted and not fetched.
pub const SITEMAP_INDEX_DEPTH_MAX: u16 = 3;
/// Sitemaps that the indexes on one host may name, in addition to those that robots.txt files name;
/// the rest are counted and not fetched.
pub const SITEMAP_HOST_DOCUMENT_COUNT_MAX: u32 = 1_000;
/// URLs that the sitemaps on one host may list, known ones included; the rest are counted and
/// dropped.
pub const SITEMAP_HOST_URL_COUNT_MAX: u32 = 1_000_000;
/// Bytes held back to find the XML declaration; a longer declaration is ignored.
pub const SITEMAP_DECLARATION_BYTES_MAX: usize = 256;
/// A tag's or an attribute's name; no name that matters is longer.
pub const SITEMAP_NAME_BYTES_MAX: usize = 128;
/// A date or a priority; a longer one is ignored.
pub const SITEMAP_FIELD_BYTES_MAX: usize = 64;

// --- DNS messages -------------------------------------------------------------------------------

/// Size of UDP answers that we tell servers we accept: the DNS flag day's size, which is never
/// fragmented.
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
/// A name in a DNS question or answer, as text without the last dot.
pub const DNS_NAME_BYTES_MAX: usize = HOST_NAME_BYTES_MAX;

// --- DNS resolver (each per core) ---------------------------------------------------------------

/// Hosts whose addresses, or the lack of them, are cached, at about 150 bytes each; beyond it an
/// entry that was not used lately is evicted.
pub const DNS_CACHE_COUNT_MAX: usize = 1 << 20;
/// Names being looked up at once, with a socket each; further ones wait for their turn.
pub const DNS_IN_FLIGHT_MAX: usize = 512;
/// Bounds on how long an answer is cached, whatever time to live its server states.
pub const DNS_TTL_SECONDS_MIN: u32 = 60;
pub const DNS_TTL_SECONDS_MAX: u32 = 24 * 3_600;
/// The same bounds for the negative answers "there is no such name" and "the name has no address"
/// (RFC 2308 5: one to three hours work well as the upper bound).
pub const DNS_NEGATIVE_SECONDS_MIN: u32 = 60;
pub const DNS_NEGATIVE_SECONDS_MAX: u32 = 3 * 3_600;
/// How long a name is not asked for again after no server could answer for it (RFC 9520 3.2: at
/// least one second, at most five minutes).
pub const DNS_FAILURE_SECONDS: u32 = 30;
/// Upstream servers taken from a system's configuration; more are ignored.
pub const DNS_UPSTREAM_COUNT_MAX: usize = 8;
/// Questions in a row that an upstream may leave unanswered; after that it is asked last, for
/// `DNS_UPSTREAM_REST_MS`.
pub const DNS_SILENCE_COUNT_MAX: u32 = 3;
pub const DNS_UPSTREAM_REST_MS: u64 = 10_000;
/// Wait before the second round through the upstreams; it doubles with each further round, with
/// jitter.
pub const DNS_BACKOFF_MS: u64 = 200;
/// Datagrams received for one question that are not its reply; after that many, someone may be
/// guessing replies, and the question is asked over TCP.
pub const DNS_STRAY_COUNT_MAX: u32 = 32;

// --- SimHash ------------------------------------------------------------------------------------

/// A text with fewer words gets no fingerprint: with so few shingles, unrelated texts would count
/// as near-duplicates.
pub const SIMHASH_WORD_COUNT_MIN: usize = 16;
/// Bytes of a word that count; the rest of the word, up to the next separator, is skipped.
pub const SIMHASH_WORD_BYTES_MAX: usize = 64;
/// Shingles that are counted; a longer text is treated as if it ended there.
pub const SIMHASH_SHINGLE_COUNT_MAX: usize = (1 << 24) - 1;

// --- Ring ---------------------------------------------------------------------------------------

/// Receive buffers of one core's ring. When all are lent, receives pause until one is given back.
pub const RING_BUFFER_COUNT: u16 = 2_048;
/// Buffers that the kernel holds at a time, the last used ones: 4 MB that stay in the cache. What
/// one turn cannot receive into them is left to the next turn.
pub const RING_BUFFER_READY_COUNT: u16 = 256;
pub const RING_BUFFER_BYTES: usize = 16 * 1024;
pub const RING_SUBMISSION_COUNT: u32 = 4_096;
pub const RING_COMPLETION_COUNT: u32 = 32_768;
/// Chunks waiting on one stream before its receive is paused, so that one fast peer cannot hold
/// the buffers of all.
pub const STREAM_CHUNK_COUNT_MAX: usize = 32;
/// Completions that one turn of a core's driver takes: some twenty pages of work, two milliseconds
/// at most. The rest stay in the kernel's queue for the next turn, and timers are checked in
/// between.
pub const RING_EVENT_COUNT_MAX: usize = 64;
/// Times that a core's driver lets tasks run before it asks the kernel again.
pub const RING_YIELD_COUNT_MAX: usize = 4;
/// If a core is idle and a timer is due within this time, the core sleeps for this whole time, or
/// until `RING_GATHER_COUNT` completions have arrived. A timer or a completion may be late by as
/// much.
pub const RING_GATHER_US: u64 = 1_000;
pub const RING_GATHER_COUNT: usize = 64;
/// Longest sleep of a core's driver, and so the most that a lost signal can cost.
pub const RING_SLEEP_MS_MAX: u64 = 100;
/// How long a core that ends waits for its connections to be closed.
pub const RING_CLOSE_MS_MAX: u64 = 2_000;
/// glommio's preempt timer. None of our code needs it. Each time it fires glommio's reactor gets a
/// turn, and if the thread is held up in that turn for longer than the timer, the executor falls
/// asleep with tasks ready.
pub const RING_PREEMPT_MS: u64 = 10_000;
/// How often the watch thread checks whether each core's driver has turned.
pub const RING_WATCH_MS: u64 = 100;
/// Checks in a row that must find no turn before a core is woken from outside. A driver that sleeps
/// as intended is back within [`RING_SLEEP_MS_MAX`], so it turns between two of any three checks.
pub const RING_STILL_LOOK_COUNT: u64 = 2;
/// A shard's core that has not turned for this long is named in the log.
pub const RING_TELL_MS: u64 = 5_000;
/// A shard's core that has not turned for this long, although it was woken again and again, ends
/// the process. The Linux kernel reports a task as hung after the same time.
pub const RING_STILL_MS_MAX: u64 = 120_000;
/// Exit code of the process in that case (`EX_TEMPFAIL`): the crawl can be resumed.
pub const STILL_EXIT_CODE: u8 = 75;
/// Checks during which the process waits for its last log line to be written; then it ends without
/// it.
pub const STILL_EXIT_LOOK_COUNT: u32 = 20;
/// How long a step, a piece of work without a wait, may take before it is counted as a long step
/// and logged (`NEPHILA_LOG=debug`). No step is cut short.
pub const STEP_MS_MAX: u64 = 5;
/// Connections that the system queues until we accept them.
pub const LISTEN_BACKLOG: i32 = 4_096;
/// Accepted connections waiting for the program; more stay in the system's queue.
pub const ACCEPT_QUEUE_COUNT_MAX: usize = 1_024;
/// A datagram longer than this is cut (and then fails to parse).
pub const DATAGRAM_BYTES_MAX: usize = 4_096;

// --- Simulator ----------------------------------------------------------------------------------

/// Polls of one simulation; more end it with `SimError::StepLimit`. A test may set a lower bound.
pub const SIM_STEP_COUNT_MAX: u64 = 1 << 36;
/// Polls without the clock moving; more end the simulation with `SimError::Livelock`.
pub const SIM_INSTANT_STEP_COUNT_MAX: u64 = 10_000_000;
/// Events kept for people to read; older ones are forgotten. The digest covers them all.
pub const SIM_EVENT_COUNT_MAX: usize = 65_536;
/// Unread bytes in one direction of a simulated connection; at this bound the sender waits.
pub const SIM_WINDOW_BYTES: usize = 256 * 1024;
/// Connections that a listener has not accepted yet; further ones get no answer.
pub const SIM_BACKLOG_COUNT_MAX: usize = 4_096;
/// Datagrams waiting on one socket; further ones are lost.
pub const SIM_DATAGRAM_COUNT_MAX: usize = 1_024;
/// Receive buffer of a datagram socket; a longer datagram is cut.
pub const SIM_DATAGRAM_BYTES_MAX: usize = 4_096;
/// How long a connect without an answer goes on (Linux: six SYN retries, 127 s).
pub const SIM_CONNECT_MS_MAX: u64 = 127_000;

/// How long the shards of a simulated crawl may take to drain; a run that takes longer has failed.
/// The bound is above any wait of a visit: for an answer, a lookup or a full disk queue.
pub const SIM_DRAIN_MS_MAX: u64 = 3_600_000;
/// How long it takes to save the manifest once all simulated shards have their state. It is longer
/// than the shards need to begin.
pub const SIM_MANIFEST_MS: u64 = 20;
/// Starts in a row that the faults of a simulated disk may foil. Then the disk works again, as if
/// someone had repaired it.
pub const SIM_START_TRY_COUNT_MAX: u32 = 6;
/// Batches in the mailbox of a simulated shard: few, so that simulations meet full mailboxes.
pub const SIM_MAILBOX_BATCH_COUNT: usize = 64;
/// Breaches of one kind that a run shows; all are counted.
pub const SIM_BREACH_COUNT_SHOWN: usize = 5;

// --- Fetch --------------------------------------------------------------------------------------

/// Hosts whose TLS sessions one core remembers for resumption; the oldest is evicted. Hosts are
/// visited in rotation, so a cache smaller than the number of hosts would have evicted each session
/// before its host's next turn.
pub const TLS_SESSION_HOST_COUNT_MAX: usize = 20_480;
/// Bytes of TLS records in a row that carried no data: two whole records and some tickets. A
/// connection that brings more is given up.
pub const TLS_BARREN_BYTES_MAX: usize = 64 * 1024;
/// When the pool is full, its longest idle connection is closed to make room only if it has been
/// idle for this many times as long as connections usually are before they are used again.
pub const KEEP_ALIVE_PATIENCE: u32 = 4;
/// Default memory for the bodies of one core: those that are received, decoded and not yet stored.
/// A core that stores 200 MB a second from servers that take a second for a page holds 200 MB; a
/// fifth of a thousand bodies that stall at the cap fill it.
pub const BODY_MEMORY_MB: usize = 1_024;
pub const BODY_MEMORY_MB_MIN: usize = 64;
pub const BODY_MEMORY_MB_MAX: usize = 1 << 20;
/// At least this many bodies of the longest allowed size must fit, or the settings are refused:
/// with room for fewer, bodies would cause each other to be cut.
pub const BODY_MEMORY_COUNT_MIN: usize = 4;
/// How often the rate of bodies is measured while memory for them is short.
pub const BODY_SAMPLE_MS: u64 = 500;
/// A body is slow if, at its present rate, it takes longer than this to bring as many bytes as it
/// holds.
pub const BODY_SLOW_SECONDS: u64 = 30;
/// Bodies that hold less are left alone when memory is short: cutting one would free next to
/// nothing.
pub const BODY_VICTIM_BYTES_MIN: usize = 64 * 1024;
/// Memory that an HTML reader with its text fingerprint holds, and an inflate context,
/// approximately.
pub const HTML_READER_BYTES: usize = 8 * 1024;
pub const INFLATE_BYTES: usize = 48 * 1024;
/// Memory that a brotli context holds in addition to its window, approximately.
pub const BROTLI_TABLE_BYTES: usize = 64 * 1024;
/// Response buffers kept for reuse, and the largest capacity that is kept.
pub const FETCH_BUFFER_COUNT_MAX: usize = 256;
pub const FETCH_BUFFER_BYTES_KEPT: usize = 256 * 1024;

// --- Frontier (each per core) -------------------------------------------------------------------

/// Hosts in RAM; URLs of further hosts are dropped and counted.
pub const HOST_COUNT_MAX: usize = 1 << 22;
/// Default number of hosts in RAM beyond which idle hosts are evicted at once: 400 MB of hosts at
/// most.
pub const HOST_MEMORY_COUNT: usize = 1 << 21;
/// Cold hosts, which were evicted from RAM, at 13.7 to 17.2 bytes each. At this bound cold hosts
/// stay in RAM, and that is counted.
pub const COLD_HOST_COUNT_MAX: usize = 1 << 27;
/// Parts of the table of cold hosts. The table grows, and a checkpoint takes it, one part at a
/// time. A part has some 33,000 hosts at most, in 460 KB.
pub const COLD_PART_COUNT: usize = 1 << 12;
/// Cold hosts that a checkpoint writes as one entry; a part of the table with more is one entry.
pub const COLD_IMAGE_COUNT: usize = 4_096;
/// Hosts that one eviction step looks at: some 50 us of work.
pub const HOST_EVICTION_STEP_COUNT: usize = 1_024;
/// Eviction steps a second; the larger number applies while more hosts are in RAM than may be.
pub const HOST_EVICTION_STEPS_PER_SECOND: usize = 16;
pub const HOST_EVICTION_STEPS_PER_SECOND_MAX: usize = 64;
/// Pages of one host, queued and fetched together; further ones are dropped and counted.
pub const HOST_PAGE_COUNT_MAX: u32 = 1_000_000;
/// Scheme and port pairs of one host; a page can name 65,535 ports of it, but few of them are real.
pub const HOST_ORIGIN_COUNT_MAX: usize = 32;
/// Segments of a path; deeper URLs are dropped and counted as traps. Real paths have under 20.
pub const PATH_SEGMENT_COUNT_MAX: usize = 32;
/// Times that one segment may occur in a path; a path with more comes from a loop of relative links
/// and is dropped and counted as a trap. Dates and locales repeat a segment two or three times at
/// most.
pub const REPEATED_SEGMENT_COUNT_MAX: usize = 4;
/// Default number of URLs of one shape taken from one host; more are dropped and counted as a trap.
/// It is twice what a large site of numbered articles has, and a fifth of a host's budget.
pub const SKELETON_PAGE_COUNT: u64 = 20_000;
/// URLs that a host must have before its shapes are counted: smaller hosts cost nothing.
pub const SKELETON_WATCH_COUNT_MIN: u32 = 512;
/// Shapes counted for one host, in 4 KiB; a further one takes the place of a rare one.
pub const SKELETON_COUNT_MAX: usize = 256;
/// Bytes of RAM an idle host may cost: name, schedule and index included, the shard's data not.
pub const HOST_IDLE_BYTES_MAX: usize = 200;
/// URLs in the queues, on disk too, and the bytes of their records; beyond either bound, URLs of
/// the lowest class are dropped.
pub const QUEUED_URL_COUNT_MAX: u64 = 1 << 30;
pub const QUEUED_URL_BYTES_MAX: u64 = 64 << 30;
/// URLs that the in-memory sieve remembers; beyond it no new URL is taken, and that is counted.
pub const SEEN_URL_COUNT_MAX: usize = 1 << 28;
/// First number of places in the sieve's first gate, the cache of recent fingerprints, 8 bytes
/// each. A fingerprint that the cache does not know may have to be looked up on disk, so each new
/// one adds four places, ...
pub const RECENT_FINGERPRINT_COUNT: usize = 1 << 17;
/// ... up to this size unless a setting gives another, within `RECENT_MB_MAX`. The default holds a
/// million hosts that bring eight new links each before one of them is visited again, twice over.
/// Then the oldest fingerprint of a set is evicted.
pub const RECENT_MB: usize = 128;
pub const RECENT_MB_MAX: usize = 16 << 10;
/// First number of places in a core's link memo, which remembers recently judged links by their
/// text, 8 bytes each. Each link that was known but not remembered adds four places, ...
pub const LINK_MEMO_COUNT: usize = 1 << 17;
/// ... up to this size unless a setting gives another, within `LINK_MEMO_MB_MAX`. With 20,000 hosts
/// whose pages share 50 links each, the default holds four times as many links as pass between two
/// pages of a host. Then the oldest link of a set is evicted, and looked up like any other when it
/// comes again.
pub const LINK_MEMO_MB: usize = 32;
pub const LINK_MEMO_MB_MAX: usize = 16 << 10;
/// Links of a page that are judged together, so that their cache lines are fetched together: as
/// many as most pages have.
pub const LINK_BATCH_COUNT: usize = 64;
/// Links of a parcel, which has the links of many pages, that are judged together; see
/// [`LINK_BATCH_COUNT`]. A new link's host is found in four steps, each of which waits for the one
/// before: the more links go together, the less each of them waits.
pub const PARCEL_BATCH_COUNT: usize = 256;
/// Bits a URL in the Bloom filter when it is full; with eight bits set for each URL, about 0.5 % of
/// its answers are a false "maybe".
pub const BLOOM_BITS_PER_URL: usize = 12;

// --- URL seen on disk (each per core) -----------------------------------------------------------

/// Fingerprints in RAM that are in no run yet; at this count they are sorted and written as a run.
pub const SEEN_FRESH_COUNT: usize = 1 << 19;
pub const SEEN_FRESH_COUNT_LARGEST: usize = 1 << 22;
/// Room for them at the start of a crawl, which may be a small one.
pub const SEEN_FRESH_COUNT_FIRST: usize = 1 << 15;
/// Fingerprints that may gather in RAM while a run is written; at this count the shard starts no
/// new fetches.
pub const SEEN_FRESH_COUNT_MAX: usize = 2 * SEEN_FRESH_COUNT;
/// Deferred candidates, and the bytes of their records, at which a merge begins.
pub const SEEN_BATCH_COUNT: usize = 1 << 19;
pub const SEEN_BATCH_BYTES: usize = 64 * 1024 * 1024;
/// Deferred candidates in all, those in a merge included; beyond either bound the shard starts no
/// new fetches until the merge is done. Fetches under way may still bring links.
pub const SEEN_DEFERRED_COUNT_MAX: usize = 2 * SEEN_BATCH_COUNT;
pub const SEEN_DEFERRED_BYTES_MAX: usize = 2 * SEEN_BATCH_BYTES;
/// Longest time that a deferred candidate waits for its merge to begin, however few candidates wait
/// with it. For few candidates the disk reads only the blocks that could hold them.
pub const SEEN_LAG_MS: u64 = 1_000;
/// Records of deferred candidates lie in pieces of this size, so that growing copies nothing.
pub const SEEN_PIECE_BYTES: usize = 256 * 1024;
/// Parts of the Bloom filter, called slices, each for a range of slots; one is rebuilt at a time.
pub const SEEN_SLICE_COUNT: usize = 64;
/// URLs that a slice has room for at first.
pub const SEEN_SLICE_URL_COUNT: usize = 65_536;
/// A full slice grows to this share of its URLs, four thirds: from 12 bits a URL to 16.
pub const SEEN_GROWTH_NUMERATOR: usize = 4;
pub const SEEN_GROWTH_DENOMINATOR: usize = 3;
/// A block of a run, with its checksum: the unit that is read and checked to find one URL, or the
/// URLs of a host. It has the size of a memory page; with 16 KB a merge read four times as much.
pub const SEEN_BLOCK_BYTES: usize = 4 * 1024;
/// Bytes of blocks that are read or written at a time, at most, and the number of pieces.
pub const SEEN_TRANSFER_BYTES: usize = 256 * 1024;
pub const SEEN_TRANSFER_PIECE_COUNT: usize = 64;
/// Unneeded blocks between two needed ones that are read along with them and ignored: copying them
/// costs less than a second read.
pub const SEEN_GAP_BLOCK_COUNT: usize = 4;
/// Runs of about one size that are merged into one.
pub const SEEN_TIER_RUN_COUNT: usize = 4;
/// Runs in all; at this bound no run is written until a compaction is done. It allows four runs in
/// each of twelve sizes, from half a million fingerprints to two million million, and is not
/// reached on real disks.
pub const SEEN_RUN_COUNT_MAX: usize = 48;
/// Bytes of a run's index, as its trailer states them; a larger index means damage. The bound is
/// the index of a run of 2^34 fingerprints.
pub const SEEN_INDEX_BYTES_MAX: u64 = 1 << 30;
/// Bytes a second that merges, and likewise compactions, read and write while fetching goes on.
/// When the shard waits for them they run as fast as they can.
pub const SEEN_BYTES_PER_SECOND: u64 = 512 * 1024 * 1024;
/// Fingerprints sorted, merged or judged before other tasks of the core run: under a millisecond.
pub const SEEN_STEP_COUNT: usize = 4_096;
/// How soon a merge is tried again after the disk refused it.
pub const SEEN_RETRY_MS: u64 = 1_000;

// --- Queues on disk (each per core) -------------------------------------------------------------

/// Default memory for queued records beyond the heads of the queues; the rest is spilled to disk.
/// It is what a million hosts with a dozen URLs each take. No memory is taken before it is needed.
pub const QUEUE_RESIDENT_MB: u64 = 512;
pub const QUEUE_RESIDENT_MB_MAX: u64 = 1 << 20;
/// Bytes of the head of a host's queue of one class: its first records, which stay in RAM for the
/// next three or four visits. What exceeds it may be spilled to disk, except that a host that is
/// being visited keeps its first record however long it is.
pub const QUEUE_HEAD_BYTES: usize = 160;
/// When a head has this many records left, the next ones are read from the disk.
pub const QUEUE_LOW_COUNT: u32 = 1;
/// Bytes of one chunk of records, which one read brings back: some 160 visits of one host.
pub const QUEUE_CHUNK_BYTES_MAX: usize = 8 * 1024;
/// Bytes of chunks that are written and synced together.
pub const QUEUE_BATCH_BYTES: usize = 1024 * 1024;
pub const QUEUE_BATCH_BYTES_MIN: usize = 1024;
/// A segment of this size is sealed and the next one begun; the lower bound is for tests.
pub const QUEUE_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
pub const QUEUE_SEGMENT_BYTES_MIN: u64 = 16 * 1024;
/// A sealed segment with less than a quarter in use is compacted: its rest is moved. So the disk
/// holds at most four times what is queued, and one open segment for each class.
pub const QUEUE_SPARSE_DIVISOR: u64 = 4;
/// Bytes of one read during compaction, checked and looked up in under a millisecond.
pub const QUEUE_COMPACTION_BYTES: usize = 1024 * 1024;
pub const QUEUE_COMPACTION_BYTES_MIN: usize = 16 * 1024;
/// Chunks that one job reads, one after the other, and the number of such jobs at once.
pub const QUEUE_REFILL_COUNT: usize = 16;
pub const QUEUE_REFILL_JOB_COUNT_MAX: usize = 8;
/// Segments held open; beyond it the least recently used one is closed.
pub const QUEUE_OPEN_FILE_COUNT_MAX: usize = 128;
/// How soon a write or a read is tried again after the disk refused it.
pub const QUEUE_RETRY_MS: u64 = 1_000;

// --- Metrics ------------------------------------------------------------------------------------

/// Longest time that a histogram tells apart; a longer one counts as this. Ten minutes are above
/// any deadline.
pub const SPAN_US_MAX: u64 = 600_000_000;
/// Significant digits of a histogram. Two mean an error under 1 %, in a third of the memory of
/// three.
pub const SPAN_SIGNIFICANT_DIGITS: u8 = 2;

/// Failing origins that a shard looks at once a second to report what the crawl waits for, at some
/// 100 ns each. If there are more, the report says "at least".
pub const WAITS_LOOK_COUNT_MAX: usize = 4_096;
/// Hosts of one list of the ready wheel that are looked at to report when the next one is due.
pub const WHEEL_LOOK_COUNT_MAX: usize = 64;
/// Below this many pages a second the progress line says what the crawl waits for.
pub const WAITS_SHOWN_RATE_MAX: u64 = 10;

// --- Command line, configuration and seeds ------------------------------------------------------

/// A longer configuration file is refused without being read.
pub const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of the contact, a path or another text in the configuration; a request's head must have
/// room for several of them.
pub const SETTING_TEXT_BYTES_MAX: usize = 1_024;
pub const SETTING_LIST_COUNT_MAX: usize = 1_024;
/// Bytes of a seed file's line: a URL and room around it. A longer line is reported and skipped.
pub const SEED_LINE_BYTES_MAX: usize = 2 * URL_BYTES_MAX;
/// Problems of one seed file that are kept for the report; the rest are only counted.
pub const SEED_PROBLEM_COUNT_MAX: usize = 1_000;
/// Seeds of one crawl; the rest are counted and reported, but not taken.
pub const SEED_COUNT_MAX: usize = 10_000_000;
/// Home domains or hosts, to which a crawl's links can be restricted. Each core holds them all, at
/// some 60 bytes each; a crawl with more seeds of distinct domains must follow links everywhere, or
/// not at all.
pub const HOME_COUNT_MAX: usize = 1_000_000;
/// A longer manifest is refused. It holds settings, and names in JSON with their indentation.
pub const MANIFEST_BYTES_MAX: u64 =
    2 * CONFIG_BYTES_MAX + HOME_COUNT_MAX as u64 * (HOST_NAME_BYTES_MAX as u64 + 16);
/// Home domains or hosts that the first line of a run names; the rest are counted.
pub const HOME_SHOWN_COUNT_MAX: usize = 5;
/// A line of `nephila try`: the largest decoded page, in base64 and JSON, and some room.
pub const TRY_LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Open files that `nephila web` asks the system for; where it gets fewer, clients wait.
pub const WEB_OPEN_FILE_COUNT: u64 = 1 << 20;
// --- Synthetic web ------------------------------------------------------------------------------

/// Hosts of one synthetic web: 254 addresses a /24, from 127.16/16 to 127.32/16.
pub const WEB_HOST_COUNT_MAX: u32 = 1_000_000;
/// Largest page: the tail of the size distribution is cut here.
pub const WEB_PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Links that a synthetic page may be asked to have; tree links are added, and the sum stays under
/// the crawler's own cap.
pub const WEB_LINK_COUNT_MAX: u32 = 500;
pub const WEB_LATENCY_MS_MAX: u32 = 30_000;
/// URLs that the truth walks before it gives up, because it holds them all in memory.
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
/// Bytes of a served robots.txt that the log keeps; the rest is left out. No crawler need read
/// more.
pub const WEB_LOG_BODY_BYTES_MAX: usize = 512 * 1024;
/// Largest capacity of a line's buffer that is kept for the next request; a larger one is freed.
pub const WEB_LOG_DRAFT_BYTES_KEPT: usize = 4 * 1024;
/// Bytes after which a hostile server ends an endless answer, if its client has not closed before.
pub const WEB_ENDLESS_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
/// Names of each farm, which share one address, or one /64 network; other names do not exist.
pub const WEB_FARM_HOST_COUNT: usize = 1_000;
/// Certificates issued on demand and cached; beyond it the cache is emptied.
pub const WEB_CERTIFICATE_COUNT_MAX: usize = 65_536;

// --- Robots cache, dedup, mesh (each per core) ---------------------------------------------------

/// Origins whose robots.txt is cached; the oldest answer is evicted and fetched again when needed.
pub const ROBOTS_CACHE_COUNT_MAX: usize = 1 << 20;
/// Lines of addresses and domains that are looked at in one go to see whether they can be
/// forgotten; the rest wait for the next go.
pub const TURN_FADE_COUNT_MAX: usize = 256;
/// Payloads remembered as stored; a forgotten payload is stored again if it comes back.
pub const DIGEST_COUNT_MAX: usize = 1 << 22;
/// Payloads, and bytes of them, that gather until their digests are computed together: half of what
/// a core's own cache holds, where that is a megabyte.
pub const DIGEST_BATCH_COUNT: usize = 16;
pub const DIGEST_BATCH_BYTES: usize = 512 * 1024;
/// How long the first payload of a batch waits for others while visits under way may bring some.
/// The time is far above [`RING_GATHER_US`], because a core whose next timer is near sleeps until
/// it is due, and far below a second, after which a page should be durable.
pub const DIGEST_GATHER_US: u64 = 20_000;
const _: () = assert!(DIGEST_GATHER_US >= 20 * RING_GATHER_US);
/// Bits in which near-duplicates may differ; an index of four blocks finds up to three.
pub const NEAR_DISTANCE_MAX: u32 = 3;
/// Pages kept for each value of a SimHash block; the oldest is overwritten.
pub const NEAR_BUCKET_COUNT_MAX: usize = 64;
/// Batches in a shard's mailbox; a full mailbox gives the batch back to its sender.
pub const MAILBOX_BATCH_COUNT: usize = 1_024;
/// Messages waiting for a full mailbox; beyond it the shard starts no new fetches.
pub const MESH_PENDING_COUNT_MAX: usize = 65_536;
/// Bytes of link texts that travel in one parcel; the rest go into the next parcel.
pub const PARCEL_BYTES_MAX: usize = 4 << 20;
/// How soon a full mailbox is tried again.
pub const MESH_RETRY_MS: u64 = 1;

// --- Store --------------------------------------------------------------------------------------

/// Bytes of one WARC record, unpacked, header and block. The store refuses a longer response, and
/// the reader refuses a member that unpacks to more. It is above the longest body that may be asked
/// for.
pub const WARC_RECORD_BYTES_MAX: usize = BODY_BYTES_MAX + 1024 * 1024;
/// Size of a shard's write buffer. When the buffer is this full it is handed to the disk, and the
/// next one is filled. A single record may overfill it.
pub const WRITE_BUFFER_BYTES: usize = 8 * 1024 * 1024;
/// Room behind the buffer for the record that fills it; a longer record makes the buffer grow.
pub const WRITE_BUFFER_OVER_BYTES: usize = 1024 * 1024;
/// Bytes of one write past the page cache that must be copied first, and the size of the memory
/// they are copied to. It is large enough for the disk and small enough for the second-level cache.
pub const DIRECT_WRITE_BYTES: usize = 512 * 1024;
/// Bytes of one write past the page cache that needs no copy; a longer buffer takes several writes.
/// The ring's own bound for one operation is above this, because a write that comes back short
/// counts as failed.
pub const DIRECT_WRITE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Writes past the page cache begin and end at multiples of this, in the file and in memory.
pub const DIRECT_BLOCK_BYTES: usize = 4_096;
/// Alignment that is enough in memory: no disk controller needs more.
pub const DIRECT_ALIGN_BYTES: usize = 512;
const _: () = assert!(DIRECT_WRITE_BYTES.is_multiple_of(DIRECT_BLOCK_BYTES));
const _: () = assert!(DIRECT_WRITE_BYTES_MAX.is_multiple_of(DIRECT_BLOCK_BYTES));
const _: () = assert!(DIRECT_BLOCK_BYTES.is_multiple_of(DIRECT_ALIGN_BYTES));
/// Write buffers of a shard that are full and not proven durable: in the queue for the disk, being
/// written, or in the file. At this bound writers wait. Their bytes are bounded as well, because a
/// record may overfill a buffer: writers also wait when the buffers have as many bytes together as
/// this many buffers of normal size. As many buffers are kept for reuse. At 180 MB/s a disk may
/// stand still for half a second before anyone waits.
pub const WRITE_BUFFER_COUNT_MAX: usize = 16;
/// Index lines of the open WARC file, kept until it is closed; at the bound the file is closed
/// early.
pub const CDXJ_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Lines of the request log held before they are appended; at twice this, writers wait.
pub const REQUEST_LOG_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes at the end of a log that are searched for blocks that a power cut kept from the disk. The
/// kernel wrote back older blocks long ago (Linux writes dirty pages after 30 s), so they are
/// trusted.
pub const REQUEST_LOG_CHECK_BYTES: u64 = 64 * 1024 * 1024;
/// How long a shard waits before it tries a failed disk again; the wait doubles with every failure,
/// ...
pub const DISK_RETRY_MS_MIN: u64 = 1_000;
/// ... up to this.
pub const DISK_RETRY_MS_MAX: u64 = 30_000;
/// Bytes of one read when a torn file is searched for its last whole record.
pub const SALVAGE_READ_BYTES: usize = 1024 * 1024;

// --- Politeness ---------------------------------------------------------------------------------

/// Origins of one core that are remembered as failing; at this bound a further origin that fails is
/// asked at its host's pace, without a circuit breaker.
pub const AILING_ORIGIN_COUNT_MAX: usize = 1 << 20;
/// URLs of an origin that fail in a row, each with an answer, before the origin is given up: as
/// many as one page may link to by default.
pub const FAILED_URL_COUNT_MAX: u16 = 1_000;
/// URLs of one core that wait for a retry by themselves; beyond it their hosts wait with them.
pub const RETRY_WAITING_COUNT_MAX: usize = 1 << 20;
/// Bytes of an ETag or a Last-Modified of a robots.txt; a longer one is not kept.
pub const ROBOTS_VALIDATOR_BYTES_MAX: usize = 128;
/// Redirected robots.txt files that are being followed at once, on their own host or on behalf of
/// other hosts, each per core; beyond it they count as unreachable.
pub const ERRAND_COUNT_MAX: usize = 65_536;

// --- Audit --------------------------------------------------------------------------------------

/// Redirects of a robots.txt that are followed (RFC 9309 2.3.1.2); beyond them it is unreachable.
pub const AUDIT_ROBOTS_HOP_COUNT_MAX: usize = 5;
/// Rules hold for 24 hours (RFC 9309 2.4); a page fetched on older rules is a violation, ...
pub const AUDIT_RULES_AGE_MS_MAX: u64 = 24 * 3_600_000;
/// ... unless its request was under way by then: connecting takes time.
pub const AUDIT_FETCH_MS_MAX: u64 = 300_000;
/// How long the commit of what a crawler has learnt may take, once it is due.
pub const AUDIT_COMMIT_MS_MAX: u64 = 100;
/// A robots.txt that was unreachable for this long may be taken as absent (RFC 9309 2.3.1.4).
pub const AUDIT_RELAX_MS: u64 = 30 * AUDIT_RULES_AGE_MS_MAX;
/// Examples of one kind of violation that are kept; all are counted.
pub const AUDIT_EXAMPLE_COUNT_MAX: usize = 5;
/// Characters of a log line that are shown; the rest is cut.
pub const AUDIT_LINE_CHARS_SHOWN: usize = 240;
pub const AUDIT_NAME_CHARS_SHOWN: usize = 100;
/// Bytes of a log line, with four bytes for one byte of a robots.txt; a longer line is an error.
pub const AUDIT_LINE_BYTES_MAX: u64 = 4 * WEB_LOG_BODY_BYTES_MAX as u64 + 64 * 1024;
/// Bytes read of one WARC record, unpacked: its heads, and as much of a robots.txt as counts; the
/// rest is skipped.
pub const AUDIT_RECORD_BYTES_MAX: u64 = 2 * HEAD_BYTES_MAX as u64 + WEB_LOG_BODY_BYTES_MAX as u64;
/// How far the wall clock and the monotonic clock of one machine drift apart without being set.
pub const AUDIT_CLOCK_SLEW_NS_MAX: u64 = 1_000_000_000;

// --- Control ------------------------------------------------------------------------------------

/// Notices on their way to the control thread; a notice that finds no room is counted, and the next
/// one makes up for it.
pub const NOTICE_COUNT_MAX: usize = 65_536;
/// How long the control thread listens before it checks signals and limits again.
pub const STEER_MS: u64 = 10;
/// How often progress is shown.
pub const WATCH_MS: u64 = 200;
/// How long a shard may take to answer a probe before the round begins anew.
pub const PROBE_PATIENCE_MS: u64 = 1_000;
/// Pages that a shard is granted at a time under `max_pages`.
pub const BUDGET_PORTION_MAX: u64 = 256;
/// Time that the process has to close its files after a second signal to end. Then it ends as a
/// kill would end it, whatever stands still.
pub const SECOND_SIGNAL_MS: u64 = 3_000;
/// Time that the other shards have to finish what they have under way when a shard has ended by
/// itself: work that needs an answer of the lost shard will never finish.
pub const LOST_SHARD_DRAIN_MS: u64 = 2_000;
/// Time that the other shards then have to close their files. The process ends without those that
/// take longer.
pub const LOST_SHARD_HALT_MS: u64 = 10_000;
/// Descriptors that are not connections: files, rings, eventfds, and some room.
pub const OTHER_FILE_COUNT: usize = 1_024;

/// Hosts of the benchmarks' web: at [`BENCH_DELAY_MS`] they allow twice the pages a second that one
/// core is meant for.
pub const BENCH_HOST_COUNT: u32 = 20_000;
pub const BENCH_DELAY_MS: u64 = 1_000;
/// Delay for the suite `latency`, which loads a core by what it can do: a fast core does more than
/// this many hosts allow at one request a second each.
pub const BENCH_LATENCY_DELAY_MS: u64 = 500;

const _: () = {
    assert!(HOST_NAME_BYTES_MAX < URL_BYTES_MAX, "a URL with the longest host fits");
    assert!(SLOT_COUNT >= SHARD_COUNT_MAX, "every core can own a slot");
    assert!(DECODED_BYTES >= BODY_BYTES, "an uncoded body is never cut by the decoder");
    assert!(DECODED_PER_BODY >= 1, "an uncoded longer body is never cut by the decoder either");
    assert!(BODY_BYTES <= BODY_BYTES_MAX);
    assert!(BODY_MEMORY_COUNT_MIN * BODY_BYTES <= BODY_MEMORY_MB_MIN << 20, "default bodies fit");
    assert!(BODY_MEMORY_COUNT_MIN * (BODY_BYTES_MAX >> 20) <= BODY_MEMORY_MB_MAX);
    assert!(
        BODY_MEMORY_MB_MIN << 20 >= BODY_BYTES + (2 << ZSTD_WINDOW_LOG_MAX),
        "one decoded fits"
    );
    assert!(ROBOTS_BYTES_MAX >= 500 * 1024, "RFC 9309 2.5");
    assert!(HEAD_BYTES_MAX > URL_BYTES_MAX, "a head has room for the longest Location");
    assert!(HEADER_COUNT_USUAL <= HEADER_COUNT_MAX);
    assert!(DNS_TCP_BYTES_MAX >= DNS_UDP_BYTES_MAX as usize, "TCP carries what UDP truncates");
    assert!(DNS_TCP_BYTES_MAX <= u16::MAX as usize, "the length prefix has two bytes");
    assert!(DNS_CACHE_COUNT_MAX <= u32::MAX as usize, "places in the cache are u32");
    assert!(DNS_TTL_SECONDS_MIN <= DNS_TTL_SECONDS_MAX);
    assert!(DNS_NEGATIVE_SECONDS_MIN <= DNS_NEGATIVE_SECONDS_MAX);
    assert!(HEAD_BYTES_MAX <= u32::MAX as usize / 4, "spans of a head, unfolded too, are u32");
    assert!(CHUNK_EXTENSION_BYTES_MAX >= CHUNK_LINE_BYTES_MAX);
    assert!(DECODED_BYTES > RATIO_CHECK_BYTES_MIN, "a bomb is met before the output cap");
    assert!(SIMHASH_WORD_COUNT_MIN >= 3, "a shingle has three words");
    assert!(SIMHASH_SHINGLE_COUNT_MAX > DECODED_BYTES / 2, "a page is never cut by SimHash");
    assert!(RING_STILL_LOOK_COUNT * RING_WATCH_MS > RING_SLEEP_MS_MAX, "a sleep is not a stall");
    assert!(RING_TELL_MS > RING_STILL_LOOK_COUNT * RING_WATCH_MS, "a core is woken, then reported");
    assert!(RING_STILL_MS_MAX > RING_TELL_MS, "a core is reported before the process ends");
    assert!(RING_BUFFER_COUNT.is_power_of_two(), "the kernel masks the buffer ring's index");
    assert!(NEAR_BUCKET_COUNT_MAX <= u8::MAX as usize);
    assert!(RING_COMPLETION_COUNT >= RING_SUBMISSION_COUNT);
    assert!(HOST_ORIGIN_COUNT_MAX <= u8::MAX as usize + 1, "an origin's index is one byte");
    assert!(HOST_COUNT_MAX < u32::MAX as usize, "the last id means no host");
    assert!(HOST_MEMORY_COUNT < HOST_COUNT_MAX, "hosts leave before URLs are dropped");
    assert!(COLD_PART_COUNT.is_power_of_two(), "a part is chosen by bits");
    assert!(SKELETON_COUNT_MAX.is_multiple_of(8), "shapes are kept in sets of eight");
    assert!(REPEATED_SEGMENT_COUNT_MAX < PATH_SEGMENT_COUNT_MAX);
    assert!(SITEMAP_KEPT_BYTES_MAX <= u32::MAX as usize, "ends of addresses are u32");
    assert!(RECENT_FINGERPRINT_COUNT * 8 <= 1 << 20, "one megabyte is the least setting");
    assert!(LINK_MEMO_COUNT * 8 <= 1 << 20, "one megabyte is the least setting");
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
    assert!(FINGERPRINT_HOST_BITS <= 64, "tables use the low half, which is the URL's own");
    assert!(SEEN_SLICE_COUNT.is_power_of_two() && SEEN_SLICE_COUNT <= SLOT_COUNT, "slot ranges");
    assert!(SEEN_TRANSFER_BYTES.is_multiple_of(SEEN_BLOCK_BYTES), "transfers are whole blocks");
    assert!(HOST_COUNT_MAX <= 1 << 30, "a host and a class fit 32 bits");
    assert!(QUEUE_CHUNK_BYTES_MAX <= u16::MAX as usize, "a chunk's size is u16");
    assert!(QUEUE_CHUNK_BYTES_MAX > URL_BYTES_MAX + 9 + 8 * 31, "the longest record fits a chunk");
    assert!(QUEUE_COMPACTION_BYTES_MIN >= QUEUE_CHUNK_BYTES_MAX + 64, "a read holds a whole chunk");
    assert!(QUEUE_SEGMENT_BYTES + 2 * QUEUE_BATCH_BYTES as u64 <= u32::MAX as u64, "u32 offsets");
    assert!(SEEN_PIECE_BYTES > 2 * URL_BYTES_MAX, "a record fits a piece");
    assert!(TLS_SESSION_HOST_COUNT_MAX > BENCH_HOST_COUNT as usize, "bench tls resumes sessions");
    assert!(
        SEEN_DEFERRED_BYTES_MAX * (SEEN_FRESH_COUNT_LARGEST / SEEN_FRESH_COUNT)
            <= u32::MAX as usize / 2,
        "places of records are u32"
    );
};

// --- Journal and checkpoints --------------------------------------------------------------------

/// Bytes at which a group of entries is committed, however young it is.
pub const JOURNAL_FRAME_BYTES: usize = 1024 * 1024;
/// Bytes of entries that are not durable; at this bound no fetch is started until the disk has
/// caught up.
pub const JOURNAL_PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Length of the journal since the last checkpoint at which the next one is due, whatever the time.
pub const JOURNAL_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Largest frame; a frame that claims to be larger is damaged. A host's image is one entry, so this
/// bounds it too.
pub const FRAME_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Bytes read at a time to find out whether a sound frame follows a damaged one.
pub const FRAME_SCAN_BYTES: usize = 256 * 1024;
/// Bytes that a checkpoint writes at a time, and gathers in one go before other work is looked at.
pub const CHECKPOINT_FRAME_BYTES: usize = 128 * 1024;
/// Bytes a second that a checkpoint under way writes at most.
pub const CHECKPOINT_BYTES_PER_SECOND: u64 = 256 * 1024 * 1024;
/// Lines of a list that `nephila inspect` prints by default; the rest are counted.
pub const INSPECT_LINE_COUNT: usize = 100;
/// Hosts, breakers and checkpoints that its overview lists.
pub const INSPECT_TOP_COUNT: usize = 10;
/// Longest line of a request log, a list of dead letters or an index that `nephila inspect` reads:
/// a URL, twice over. The crawler writes no longer lines.
pub const INSPECT_LINE_BYTES_MAX: usize = 32 * 1024;
/// Dead letters that `nephila inspect` tells apart, at about 200 bytes each. If there are more, it
/// says so.
pub const INSPECT_DEAD_COUNT_MAX: usize = 4_000_000;
/// First number of URLs that an inspection of a crawl's state makes room for in the set of URLs
/// seen since the checkpoint: the inspection never asks that set.
pub const LOOK_SEEN_COUNT: usize = 4_096;
/// Times that an inspection of a crawl under way starts over because files that it was about to
/// read had been replaced.
pub const LOOK_TRY_COUNT_MAX: u32 = 8;
/// Tries are counted in lives of this many: a dead letter that an operator puts back begins its
/// next life, and copies from an earlier life are recognised by their number. Beyond the last life
/// the URL stays dead.
pub const TRIES_PER_LIFE: u8 = 16;
/// Pages whose end is not durable yet; at this bound no fetch is started.
pub const COMPLETION_COUNT_MAX: usize = 65_536;

/// Seeds offered before other work is looked at.
pub const SEED_STEP_COUNT: usize = 1_024;
/// How often a shard that is told to end checks whether all it has fetched is durable.
pub const COMPLETION_CHECK_MS: u64 = 20;

const _: () = assert!(JOURNAL_FRAME_BYTES < JOURNAL_PENDING_BYTES_MAX);
const _: () = assert!(JOURNAL_PENDING_BYTES_MAX < FRAME_BYTES_MAX);
