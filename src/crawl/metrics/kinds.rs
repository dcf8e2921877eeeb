//! What is counted and what is timed: one line each, so that a name lives once.

/// Declares an enum with its members in order and a stable snake-case name for each: the names
/// appear in `--json`, in the summary and in scrapes, so changing one breaks its readers.
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
    /// Things that happened, counted since the crawl began. They only grow.
    Count {
        /// Responses whose body was stored, or recorded as a revisit.
        Pages = "pages",
        Requests = "requests",
        /// As the sockets gave them: heads, bodies and TLS included.
        BytesReceived = "bytes_received",
        BytesSent = "bytes_sent",
        /// Payloads of pages, transfer coding removed, content coding not.
        BytesPayload = "bytes_payload",
        /// Bodies of pages that were parsed, content coding removed.
        BytesDecoded = "bytes_decoded",
        /// Copied by the program on a page's way: from the ring's buffers into the response, and
        /// from there into the record.
        BytesCopied = "bytes_copied",
        /// Written to WARC files, after compression.
        BytesStored = "bytes_stored",
        LinksFound = "links_found",
        /// Of these: dealt with a moment ago, on another page or on this. Among the known URLs.
        LinksRemembered = "links_remembered",
        /// Links beyond the cap of a page: dropped.
        LinksOverCap = "links_over_cap",
        /// Pages that had some.
        PagesOverLinkCap = "pages_over_link_cap",
        /// Links that are not URLs, or not http(s).
        LinksRefused = "links_refused",
        /// Links outside what `stay` allows, beyond the depth limit, or filtered.
        LinksOutside = "links_outside",
        UrlsNew = "urls_new",
        UrlsKnown = "urls_known",
        /// URLs that came to an end which survives a power cut.
        UrlsEnded = "urls_ended",
        /// Checkpoints taken, what they wrote, and those that the disk refused.
        Checkpoints = "checkpoints",
        CheckpointBytes = "checkpoint_bytes",
        CheckpointFailures = "checkpoint_failures",
        /// New URLs for which a queue had no room: lost, and so said.
        UrlsDropped = "urls_dropped",
        /// New URLs that look like a trap: too deep, going round in circles, or one too many of
        /// one shape. Not among the dropped.
        UrlsTrapped = "urls_trapped",
        /// URLs that the Bloom filter may know: looked up on disk, then counted as new or known.
        UrlsDeferred = "urls_deferred",
        /// Passes over the runs of fingerprints, and what all work on them read and wrote.
        SieveMerges = "sieve_merges",
        SieveBytes = "sieve_bytes",
        /// Times that so much waited for a merge that no fetch was started until it was done.
        SieveStalls = "sieve_stalls",
        /// Times that the disk refused a merge, a run or a removal: tried again.
        SieveFailures = "sieve_failures",
        /// Batches of queued URLs written to disk, reads that brought some back, and the bytes of
        /// all work on them.
        QueueBatches = "queue_batches",
        QueueRefills = "queue_refills",
        QueueBytes = "queue_bytes",
        /// Visits that waited for their URL to be read.
        QueueWaits = "queue_waits",
        /// Times that so much waited to be written that no fetch was started until it was.
        QueueStalls = "queue_stalls",
        /// Times that the disk refused a write, a read or a removal: tried again.
        QueueFailures = "queue_failures",
        /// Hosts that left RAM, those that came back, and times that one could not leave because
        /// too many had.
        HostsCooled = "hosts_cooled",
        HostsReturned = "hosts_returned",
        HostsUncooled = "hosts_uncooled",
        RobotsFetched = "robots_fetched",
        /// A robots.txt fetched again that had not changed (304).
        RobotsUnchanged = "robots_unchanged",
        /// Origins whose robots.txt failed for so long that it counts as absent.
        RobotsRelaxed = "robots_relaxed",
        /// Robots.txt files that moved and were not followed: too many are at once.
        ErrandsRefused = "errands_refused",
        /// URLs denied because their robots.txt is too costly to match.
        RobotsUndecided = "robots_undecided",
        /// Crawl-delays and Retry-Afters that were longer than `crawl_delay_ms_max`.
        DelaysClamped = "delays_clamped",
        /// Times an origin's breaker opened: nothing is asked of it for a while.
        BreakersOpened = "breakers_opened",
        /// Origins that came back after their breaker had opened.
        BreakersClosed = "breakers_closed",
        /// Origins given up: their URLs become dead letters.
        OriginsGivenUp = "origins_given_up",
        /// Bodies whose content coding was a bomb, too deep or broken: kept as they came, marked.
        BodiesUndecoded = "bodies_undecoded",
        /// Bodies that were cut because memory for bodies was short and they were slow; those that
        /// were not slow and were let go; times that no fetch started for want of it.
        BodiesCut = "bodies_cut",
        BodiesShed = "bodies_shed",
        BodyStalls = "body_stalls",
        /// Lists of pages and of sitemaps that were read.
        Sitemaps = "sitemaps",
        /// What robots.txt or an index called a sitemap, and is none.
        SitemapsRefused = "sitemaps_refused",
        /// Addresses that sitemaps listed.
        SitemapUrls = "sitemap_urls",
        /// Of these: no URLs, or none that the sitemap may speak for.
        SitemapUrlsRefused = "sitemap_urls_refused",
        /// Of these: beyond the cap of a sitemap or of a host, or below too many indexes.
        SitemapUrlsOverCap = "sitemap_urls_over_cap",
        Revisits = "revisits",
        NearDuplicates = "near_duplicates",
        Retries = "retries",
        /// URLs given up after the last retry.
        DeadLetters = "dead_letters",
        /// Questions sent to upstream resolvers; one that went on over TCP counts once.
        DnsQueries = "dns_queries",
        /// Lookups that were answered from memory.
        DnsCached = "dns_cached",
        ConnectionsOpened = "connections_opened",
        ConnectionsReused = "connections_reused",
        /// Closed although another request could have followed: `keep_alive_count_max` were idle.
        ConnectionsCrowded = "connections_crowded",
        TlsFull = "tls_full",
        TlsResumed = "tls_resumed",
        /// Requests that had to wait for the turn at an address or a domain.
        TurnsAwaited = "turns_awaited",
        /// Pieces of work that kept a core so long that all else on it was late.
        LongSteps = "long_steps",
        /// Times another core's mailbox had no room: the batch waited.
        MailboxesFull = "mailboxes_full",
        /// Reports and answers to the control thread that it had no room for.
        NoticesLost = "notices_lost",
        /// Times the disk failed and the shard started nothing until it worked again.
        DiskPauses = "disk_pauses",
        /// WARC files begun.
        WarcFiles = "warc_files",
        WarcRecords = "warc_records",
    }
}

kinds! {
    /// Parts of a page's way that are timed.
    Span {
        Dns = "dns",
        Connect = "connect",
        Tls = "tls",
        /// From the request's last byte sent to the response's first byte.
        FirstByte = "first_byte",
        Body = "body",
        Parse = "parse",
        Store = "store",
        /// From the planned start, so that a late start counts, to the stored record.
        Total = "total",
        /// Actual start minus the time the host became eligible.
        Lateness = "lateness",
    }
}

kinds! {
    /// Why a core starts no visits, whatever hosts are ready. The names are for the operator.
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
    /// What a core's time goes to. Each excludes what of it belongs to another.
    Stage {
        /// System calls of the ring: the kernel's part of every send, receive, connect and write.
        Ring = "ring",
        /// What the ring brought, handed to those who wait for it.
        Dispatch = "dispatch",
        /// A visit beside all below: names, rules, turns, heads and framing, the request's log.
        Visit = "visit",
        Digest = "digest",
        /// Content coding, tokens, text, SimHash.
        Parse = "parse",
        /// Links: joined, normalised, looked up, queued or sent to their core.
        Links = "links",
        Store = "store",
        /// Entries of ends, and waiting for what they promise.
        Ends = "ends",
        /// Choice of hosts, and the start of their visits.
        Schedule = "schedule",
        /// Mail from other cores.
        Mail = "mail",
        /// Jobs of URL seen and of the queues on disk, and checkpoints.
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
