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
        /// Written to WARC files, after compression.
        BytesStored = "bytes_stored",
        LinksFound = "links_found",
        /// Links beyond the cap of a page: dropped.
        LinksOverCap = "links_over_cap",
        /// Links that are not URLs, or not http(s).
        LinksRefused = "links_refused",
        /// Links outside what `stay` allows, beyond the depth limit, or filtered.
        LinksOutside = "links_outside",
        UrlsNew = "urls_new",
        UrlsKnown = "urls_known",
        /// New URLs for which a queue had no room: lost, and so said.
        UrlsDropped = "urls_dropped",
        RobotsFetched = "robots_fetched",
        Revisits = "revisits",
        NearDuplicates = "near_duplicates",
        Retries = "retries",
        /// URLs given up after the last retry.
        DeadLetters = "dead_letters",
        DnsQueries = "dns_queries",
        DnsCached = "dns_cached",
        ConnectionsOpened = "connections_opened",
        ConnectionsReused = "connections_reused",
        TlsFull = "tls_full",
        TlsResumed = "tls_resumed",
        /// Requests that had to ask another core for the turn at a shared address.
        TurnsAwaited = "turns_awaited",
        /// Times another core's mailbox had no room: the batch waited.
        MailboxesFull = "mailboxes_full",
        /// Reports and answers to the control thread that it had no room for.
        NoticesLost = "notices_lost",
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
