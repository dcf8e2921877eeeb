//! The names of all counters, timers and reasons, each declared on one line, so that every name
//! exists once.

/// Declares an enum with its members in order and a stable name for each. The names appear in
/// `--json`, in the summary and in scrapes, so a changed name breaks their readers.
macro_rules! kinds {
    ($(#[$about:meta])* $kind:ident { $($(#[$doc:meta])* $member:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $kind { $($(#[$doc])* $member,)* }

        impl $kind {
            pub const ALL: &[$kind] = &[$($kind::$member,)*];
            pub const COUNT: usize = $kind::ALL.len();

            pub fn name(self) -> &'static str {
                match self { $($kind::$member => $name,)* }
            }

            pub fn index(self) -> usize {
                self as usize
            }
        }
    };
}

kinds! {
    /// Events and amounts, counted since the crawl began. They only grow.
    Count {
        /// Responses whose body was stored, or recorded as a revisit.
        Pages = "pages",
        Requests = "requests",
        /// Bytes as the sockets received them, including heads, bodies and TLS.
        BytesReceived = "bytes_received",
        BytesSent = "bytes_sent",
        /// Payloads of pages, with the transfer coding removed and the content coding kept.
        BytesPayload = "bytes_payload",
        /// Bodies of pages that were parsed, with the content coding removed.
        BytesDecoded = "bytes_decoded",
        /// Bytes that the program copied for a page: from the ring's buffers into the response, and
        /// from there into the record.
        BytesCopied = "bytes_copied",
        /// Bytes written to WARC files, after compression.
        BytesStored = "bytes_stored",
        LinksFound = "links_found",
        /// Found links that were dealt with a moment ago, on the same page or on another. They also
        /// count as known URLs.
        LinksRemembered = "links_remembered",
        /// Links beyond the limit of a page, which are dropped.
        LinksOverCap = "links_over_cap",
        /// Pages with more links than the limit.
        PagesOverLinkCap = "pages_over_link_cap",
        /// Links that are not URLs, or whose scheme is not http or https.
        LinksRefused = "links_refused",
        /// Links that `stay` does not allow, that lie beyond the depth limit, or that were
        /// filtered.
        LinksOutside = "links_outside",
        UrlsNew = "urls_new",
        UrlsKnown = "urls_known",
        /// URLs whose end is durable: it survives a power cut.
        UrlsEnded = "urls_ended",
        /// Checkpoints taken.
        Checkpoints = "checkpoints",
        /// Bytes that checkpoints wrote.
        CheckpointBytes = "checkpoint_bytes",
        /// Checkpoints that the disk refused.
        CheckpointFailures = "checkpoint_failures",
        /// New URLs for which a queue had no room. They are lost, and that is reported.
        UrlsDropped = "urls_dropped",
        /// New URLs that look like a trap: too deep, with repeated path segments, or beyond the
        /// limit of URLs of one shape. They do not count as dropped.
        UrlsTrapped = "urls_trapped",
        /// URLs that the Bloom filter may know. They are looked up on disk, then counted as new or
        /// known.
        UrlsDeferred = "urls_deferred",
        /// Merges with the runs of fingerprints on disk.
        SieveMerges = "sieve_merges",
        /// Bytes read and written by all work on those runs.
        SieveBytes = "sieve_bytes",
        /// Times that no fetch started because too many URLs waited for a merge.
        SieveStalls = "sieve_stalls",
        /// Times that the disk refused a merge, a run or a removal. It is tried again.
        SieveFailures = "sieve_failures",
        /// Batches of queued URLs that were written to disk.
        QueueBatches = "queue_batches",
        /// Reads that brought queued URLs back from disk.
        QueueRefills = "queue_refills",
        /// Bytes read and written by all work on the queues on disk.
        QueueBytes = "queue_bytes",
        /// Visits that waited for their URL to be read from disk.
        QueueWaits = "queue_waits",
        /// Times that no fetch started because too many queued URLs waited to be written.
        QueueStalls = "queue_stalls",
        /// Times that the disk refused a write, a read or a removal. It is tried again.
        QueueFailures = "queue_failures",
        /// Hosts that were evicted from RAM.
        HostsCooled = "hosts_cooled",
        /// Evicted hosts that came back.
        HostsReturned = "hosts_returned",
        /// Times that a host could not be evicted because too many hosts had been.
        HostsUncooled = "hosts_uncooled",
        RobotsFetched = "robots_fetched",
        /// Robots.txt files that were fetched again and had not changed (304).
        RobotsUnchanged = "robots_unchanged",
        /// Origins whose robots.txt has failed for so long that it counts as absent.
        RobotsRelaxed = "robots_relaxed",
        /// Redirects of a robots.txt that were not followed, because too many errands are open or
        /// because the host waits for an errand itself.
        ErrandsRefused = "errands_refused",
        /// URLs denied because their robots.txt is too expensive to match.
        RobotsUndecided = "robots_undecided",
        /// Crawl-delays and Retry-Afters that were longer than `crawl_delay_ms_max`.
        DelaysClamped = "delays_clamped",
        /// Times that the circuit breaker of an origin opened. Nothing is requested from the origin
        /// for a while.
        BreakersOpened = "breakers_opened",
        /// Origins that recovered after their circuit breaker had opened.
        BreakersClosed = "breakers_closed",
        /// Origins that were given up. Their URLs become dead letters.
        OriginsGivenUp = "origins_given_up",
        /// Bodies whose content coding was a decompression bomb, nested too deeply or broken. They
        /// are kept as received, and marked.
        BodiesUndecoded = "bodies_undecoded",
        /// Bodies that were cut because memory for bodies was short and they were slow.
        BodiesCut = "bodies_cut",
        /// Bodies that were not slow and were discarded because memory for bodies was short.
        BodiesShed = "bodies_shed",
        /// Times that no fetch started because memory for bodies was short.
        BodyStalls = "body_stalls",
        /// Sitemaps and sitemap indexes that were read.
        Sitemaps = "sitemaps",
        /// Files that a robots.txt or an index names as sitemaps, but that are none.
        SitemapsRefused = "sitemaps_refused",
        /// URLs that sitemaps listed.
        SitemapUrls = "sitemap_urls",
        /// Listed entries that are no URLs, or that the sitemap may not list.
        SitemapUrlsRefused = "sitemap_urls_refused",
        /// Listed URLs beyond the limit of a sitemap or of a host, or below too many indexes.
        SitemapUrlsOverCap = "sitemap_urls_over_cap",
        Revisits = "revisits",
        NearDuplicates = "near_duplicates",
        Retries = "retries",
        /// URLs that were given up after the last retry.
        DeadLetters = "dead_letters",
        /// Queries sent to DNS resolvers. A query that was repeated over TCP counts once.
        DnsQueries = "dns_queries",
        /// Lookups that were answered from memory.
        DnsCached = "dns_cached",
        ConnectionsOpened = "connections_opened",
        ConnectionsReused = "connections_reused",
        /// Connections that were closed although they could have been used again, because
        /// `keep_alive_count_max` were idle.
        ConnectionsCrowded = "connections_crowded",
        TlsFull = "tls_full",
        TlsResumed = "tls_resumed",
        /// Requests that had to wait for the turn at an address or a domain.
        TurnsAwaited = "turns_awaited",
        /// Pieces of work that kept a core for so long that all other work on it was late.
        LongSteps = "long_steps",
        /// Times that another core's mailbox had no room, so that the batch had to wait.
        MailboxesFull = "mailboxes_full",
        /// Reports and answers that the mailbox of the control thread had no room for.
        NoticesLost = "notices_lost",
        /// Times that the disk failed and the shard started no fetch until the disk worked again.
        DiskPauses = "disk_pauses",
        /// WARC files that were begun.
        WarcFiles = "warc_files",
        WarcRecords = "warc_records",
    }
}

kinds! {
    /// The parts of a page's way that are timed.
    Span {
        Dns = "dns",
        Connect = "connect",
        Tls = "tls",
        /// From the last byte of the request sent to the first byte of the response.
        FirstByte = "first_byte",
        Body = "body",
        Parse = "parse",
        Store = "store",
        /// From the planned start to the stored record. A late start is included.
        Total = "total",
        /// The actual start minus the time at which the host became eligible.
        Lateness = "lateness",
    }
}

kinds! {
    /// Why a core starts no visits, whatever hosts are ready. The names are shown to the operator.
    Hold {
        DiskFails = "the disk fails",
        DiskBehind = "the disk is behind",
        PeersBehind = "another core takes no mail",
        Memory = "memory for bodies is short",
        Slots = "all fetch_slots are in use",
        Budget = "the page limit is dealt out",
        Ending = "the crawl is ending",
    }
}

kinds! {
    /// What a core's time is spent on. Time counts for one stage only: work inside another stage is
    /// left out of that stage.
    Stage {
        /// System calls of the ring: the kernel's part of every send, receive, connect and write.
        Ring = "ring",
        /// Handing the ring's completions to the tasks that wait for them.
        Dispatch = "dispatch",
        /// All of a visit that no stage below covers: names, rules, turns, heads and framing, the
        /// request log.
        Visit = "visit",
        Digest = "digest",
        /// Content decoding, tokenizing, text and SimHash.
        Parse = "parse",
        /// Links: they are joined, normalised, looked up, and queued or sent to their core.
        Links = "links",
        Store = "store",
        /// Journal entries of ended URLs, and waiting until a URL may end.
        Ends = "ends",
        /// The choice of hosts, and the start of their visits.
        Schedule = "schedule",
        /// Mail from other cores.
        Mail = "mail",
        /// Work on the URL-seen set and the queues on disk, and checkpoints.
        Disk = "disk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_distinct(mut names: Vec<&str>) {
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_kind_has_a_name_of_its_own_and_its_place_as_index() {
        assert_distinct(Count::ALL.iter().map(|count| count.name()).collect());
        assert_distinct(Span::ALL.iter().map(|span| span.name()).collect());
        assert!(Count::ALL.iter().enumerate().all(|(index, count)| count.index() == index));
        assert!(Span::ALL.iter().enumerate().all(|(index, span)| span.index() == index));
    }
}
