//! The table of hostile servers: a name, what the server does, and what a crawler must do about it.

use super::naming::Naming;
use super::script::Script;
use super::{Ask, bodies, framing, paths};
use crate::crawl::flow::Outcome::{self, *};
use std::net::{IpAddr, Ipv6Addr};

/// One hostile host: `<name>.hostile.test`, at an address of its own.
#[derive(Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    pub does: &'static str,
    /// What the crawler must do about it, in words.
    pub demands: &'static str,
    /// The outcomes that the requests for `/` may have, in order; the last request must have the
    /// last of them. Empty means that `/` is never asked for.
    pub ends: &'static [Outcome],
    /// The same for the requests for `/robots.txt`.
    pub robots_ends: &'static [Outcome],
    /// The crawler must ask for `/next` as well, over another connection, and get its honest page.
    pub has_next: bool,
    /// The row needs public addresses: it is served only in simulation, and only there does the
    /// index link to it.
    pub is_simulated: bool,
    pub secrecy: Secrecy,
    pub naming: Naming,
    pub(super) answer: fn(&Ask<'_>) -> Script,
    pub(super) robots: fn(&Ask<'_>) -> Script,
}

/// What a client meets at a host: plain HTTP, HTTPS with one of these certificates, or broken TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    Plain,
    Honest,
    Expired,
    NotYetValid,
    OtherName,
    SelfSigned,
    /// Signed by an intermediate issuer whose certificate the server does not send.
    BrokenChain,
    /// Signed by an authority whose certificate the server sends and nobody trusts.
    UnknownIssuer,
    /// Plain HTTP at the port for HTTPS.
    NotTls,
    /// The server never answers the handshake.
    Stalled,
}

type Play = fn(&Ask<'_>) -> Script;

const fn row(
    name: &'static str,
    does: &'static str,
    demands: &'static str,
    ends: &'static [Outcome],
    answer: Play,
) -> Row {
    Row {
        name,
        does,
        demands,
        ends,
        robots_ends: &[Fetched],
        has_next: false,
        is_simulated: false,
        secrecy: Secrecy::Plain,
        naming: Naming::Own,
        answer,
        robots: paths::robots_absent,
    }
}

impl Row {
    const fn robots(self, robots: Play, robots_ends: &'static [Outcome]) -> Row {
        Row { robots, robots_ends, ..self }
    }

    const fn next(self) -> Row {
        Row { has_next: true, ..self }
    }

    const fn tls(self, secrecy: Secrecy, robots_ends: &'static [Outcome]) -> Row {
        Row { secrecy, robots_ends, ..self }
    }

    const fn named(self, naming: Naming) -> Row {
        let robots_ends: &[Outcome] = match self.ends {
            [DnsFailed] | [AddressRefused] => &[],
            _ => self.robots_ends,
        };
        Row { naming, robots_ends, ..self }
    }

    const fn simulated(self) -> Row {
        Row { is_simulated: true, ..self }
    }

    pub fn is_secret(&self) -> bool {
        self.secrecy != Secrecy::Plain
    }
}

const METADATA: Naming = Naming::Fixed(IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)));
const INTRANET: Naming = Naming::Fixed(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));
const LOOPBACK_6: Naming = Naming::Fixed(IpAddr::V6(Ipv6Addr::LOCALHOST));
const UNIQUE_LOCAL: Naming = Naming::Fixed(IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 1)));
const MAPPED: Naming = Naming::Fixed(IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x7f00, 1)));

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    // Honest hosts: the control, and the target of redirects.
    row("honest", "two pages on one connection", "fetched", &[Fetched], framing::honest),
    row("landing", "an honest target of redirects; denies /denied/", "fetched", &[Fetched],
        framing::genuine).robots(paths::landing_robots, &[Fetched]),
    // Every index links first to a host whose unkeyed hash was made equal to this one's.
    row("hash-collision", "a host whose name collides with its own is linked first", "fetched",
        &[Fetched], framing::genuine),

    // Time.
    row("silent", "accepts, sends nothing", "first-byte timeout", &[FirstByteTimedOut],
        framing::silent),
    row("slow-head", "one byte a second in the head", "head deadline", &[HeadTimedOut],
        framing::slow_head),
    row("slow-body", "one byte a second in the body", "body deadline, kept as truncated (time)",
        &[CutTime], framing::slow_body),
    row("stalled-body", "most of a body of 4 MB, then nothing",
        "body deadline; cut before that if memory is short", &[CutTime],
        framing::stalled_body),

    // Size.
    row("endless-body", "a body without end", "cut at the cap, truncated (length)", &[CutLength],
        framing::endless_body),
    row("endless-chunks", "chunks without end", "cut at the cap, truncated (length)",
        &[CutLength], framing::endless_chunks),
    row("endless-header", "one header line without end", "capped, failed", &[HeadTooLarge],
        framing::endless_header),
    row("endless-headers", "header lines without end", "capped, failed", &[HeadTooLarge],
        framing::endless_headers),
    row("endless-interim", "interim responses without end", "capped, failed", &[HeadTooLarge],
        framing::endless_interim),

    // Content-Length.
    row("length-two", "two different Content-Lengths", "discarded, closed", &[Malformed],
        framing::length_two).next(),
    row("length-negative", "Content-Length: -5", "discarded, closed", &[Malformed],
        framing::length_negative).next(),
    row("length-signed", "Content-Length: +5", "discarded, closed", &[Malformed],
        framing::length_signed).next(),
    row("length-hex", "Content-Length: 0x5", "discarded, closed", &[Malformed],
        framing::length_hex).next(),
    row("length-over", "Content-Length over u64", "discarded, closed", &[Malformed],
        framing::length_over).next(),
    row("length-and-chunked", "Content-Length with Transfer-Encoding",
        "chunked wins, closed after it", &[Fetched], framing::length_and_chunked).next(),

    // Chunks.
    row("chunk-overflow", "a chunk size over u64", "error", &[Malformed],
        framing::chunk_overflow).next(),
    row("chunk-no-end", "no CRLF after a chunk", "error", &[Malformed],
        framing::chunk_no_end).next(),
    row("chunk-extension", "a chunk extension without end", "capped, error", &[Malformed],
        framing::chunk_extension).next(),
    row("chunk-trailers", "trailers without end", "capped, error", &[Malformed],
        framing::chunk_trailers).next(),

    // Ends.
    row("cut-length", "the stream ends before Content-Length", "incomplete, marked, retried",
        &[Incomplete], framing::cut_length),
    row("cut-chunked", "the stream ends before the last chunk", "incomplete, marked, retried",
        &[Incomplete], framing::cut_chunked),
    row("forged", "a forged second response behind the first", "discarded", &[Fetched],
        framing::forged).next(),
    row("forged-late", "a forged response on the idle connection", "discarded", &[Fetched],
        framing::forged_late).robots(paths::robots_patient, &[Fetched]).next(),
    row("body-on-204", "a body on 204", "discarded, closed", &[Fetched],
        framing::body_on_204).next(),
    row("body-on-304", "a body on 304", "discarded, closed", &[NotModified],
        framing::body_on_304).next(),
    row("folded", "folded header lines", "one space", &[Fetched], framing::folded),
    row("space-before-colon", "a blank before the colon of a Content-Length", "refused",
        &[Malformed], framing::space_before_colon).next(),
    row("space-before-other", "a blank before the colon of another field",
        "blank removed, closed after it", &[Fetched], framing::space_before_other).next(),
    row("fields-many", "150 header fields", "fetched", &[Fetched], framing::fields_many),
    row("no-status-line", "no status line", "error", &[Malformed],
        framing::no_status_line).next(),
    row("status-1000", "status 1000", "error", &[Malformed], framing::status_1000).next(),
    row("status-999", "status 999", "counts as a server error, retried", &[ServerError],
        framing::status_999),
    row("reset-mid-body", "reset in mid-body", "incomplete, retried", &[Incomplete],
        framing::reset_mid_body),
    row("reset-reused", "reset on a reused connection", "one retry on a new connection",
        &[Reset, Fetched], framing::reset_reused),
    row("closes-kept", "closes a kept connection without an answer, again and again",
        "each request is a try, the next goes over a new connection", &[Reset],
        framing::closes_unanswered).next(),
    row("errors-some", "500 for some URLs, 200 for others", "its healthy URLs are fetched",
        &[Fetched], paths::errors_some).simulated(),

    // Content codings.
    row("bomb-gzip", "1 MB of gzip that unpacks to 1 GB", "output and ratio caps", &[Fetched],
        bodies::bomb_gzip),
    row("bomb-br", "br that unpacks to 10 GB", "output and ratio caps", &[Fetched],
        bodies::bomb_br),
    row("bomb-zstd", "zstd that unpacks to 10 GB", "output and ratio caps", &[Fetched],
        bodies::bomb_zstd),
    row("codings-ten", "ten stacked encodings", "depth cap", &[Fetched], bodies::codings_ten),
    row("zstd-window", "zstd with a giant window", "refused", &[Fetched], bodies::zstd_window),
    row("gzip-corrupt", "corrupt gzip", "raw bytes kept, marked", &[Fetched],
        bodies::gzip_corrupt),
    row("gzip-cut", "cut gzip", "raw bytes kept, marked", &[Fetched], bodies::gzip_cut),

    // Redirects.
    row("redirect-self", "redirects to itself", "loop found", &[RedirectLoop],
        paths::redirect_self),
    row("redirect-pair", "A to B to A", "loop found", &[Redirected], paths::redirect_pair),
    row("redirect-endless", "endless new redirects", "5 hops", &[Redirected],
        paths::redirect_endless),
    row("redirect-file", "redirect to file:", "refused", &[RedirectRefused],
        paths::redirect_file),
    row("redirect-gopher", "redirect to gopher:", "refused", &[RedirectRefused],
        paths::redirect_gopher),
    row("redirect-data", "redirect to data:", "refused", &[RedirectRefused],
        paths::redirect_data),
    row("redirect-javascript", "redirect to javascript:", "refused", &[RedirectRefused],
        paths::redirect_javascript),
    row("redirect-denied", "redirect to a path that robots.txt denies", "never asked for",
        &[Redirected], paths::redirect_denied),
    row("redirect-abroad", "redirect to another host", "robots and pace of the target",
        &[Redirected], paths::redirect_abroad),
    row("redirect-private", "redirect to 169.254.169.254", "no connect", &[Redirected],
        paths::redirect_private).simulated(),

    // Request lines and credentials.
    row("crlf-location", "line breaks in Location, folded and escaped", "one request line",
        &[Redirected], paths::crlf_location),
    row("crlf-bare", "a bare CR in Location", "refused", &[Malformed], paths::crlf_bare).next(),
    row("crlf-href", "line breaks in href", "one request line", &[Fetched], paths::crlf_href),
    row("user-info", "user info in links and redirects", "no credential leaves", &[Fetched],
        paths::user_info),

    // robots.txt.
    row("robots-500", "robots.txt 500", "no page fetched", &[], paths::guarded)
        .robots(paths::robots_failing, &[Fetched]),
    row("robots-silent", "robots.txt times out", "no page fetched", &[], paths::guarded)
        .robots(paths::robots_silent, &[FirstByteTimedOut]),
    row("robots-reset", "robots.txt answered by a reset", "no page fetched", &[], paths::guarded)
        .robots(paths::robots_reset, &[Reset]),
    row("robots-404", "robots.txt 404", "crawl", &[Fetched], paths::guarded),
    row("robots-410", "robots.txt 410", "crawl", &[Fetched], paths::guarded)
        .robots(paths::robots_gone, &[Fetched]),
    row("robots-429", "robots.txt 429, then rules", "defer, then obey", &[Fetched],
        paths::guarded).robots(paths::robots_throttled, &[Fetched]),
    row("robots-huge", "robots.txt of 10 GB", "500 KiB parsed, bounded", &[Fetched],
        paths::guarded).robots(paths::robots_huge, &[CutLength]),
    row("robots-line", "robots.txt of one endless line", "bounded, rules before it hold",
        &[Fetched], paths::guarded).robots(paths::robots_line, &[CutLength]),
    row("robots-binary", "robots.txt with noise around its rules", "the rules hold",
        &[Fetched], paths::guarded).robots(paths::robots_binary, &[Fetched]),
    row("robots-moved-5", "robots.txt redirected 5 times", "followed", &[Fetched],
        paths::guarded).robots(paths::robots_moved_5, &[Fetched]),
    row("robots-moved-6", "robots.txt redirected 6 times", "counts as unreachable", &[],
        paths::guarded).robots(paths::robots_moved_6, &[Fetched]),
    row("robots-tightened", "robots.txt denies more in mid-crawl", "honoured when it is read again",
        &[Fetched], paths::tightened).robots(paths::robots_tightened, &[Fetched]),

    // Retry-After.
    row("retry-huge", "Retry-After beyond all numbers", "clamped, honoured",
        &[Throttled, Fetched], paths::retry_huge),
    row("retry-negative", "Retry-After: -30", "ignored, backed off", &[Throttled, Fetched],
        paths::retry_negative),
    row("retry-date", "Retry-After: a date in 2100", "clamped, honoured", &[Throttled, Fetched],
        paths::retry_date),

    // Pages.
    row("links-million", "a million links on a page", "per-page cap", &[Fetched],
        bodies::links_million),
    row("links-20000", "20,000 links on a page among as many that lead nowhere",
        "up to the setting; the number left out is logged", &[Fetched], bodies::links_crowded),
    row("links-head", "30 KB of Link headers, full of quotes, commas and links", "bounded",
        &[Fetched], bodies::links_head),
    row("calendar", "a calendar without end", "per-host budget", &[Fetched], paths::calendar),
    row("sessions", "session ids in links", "per-host budget", &[Fetched], paths::sessions),
    row("attribute-huge", "a 10 MB attribute", "bounded", &[CutLength], bodies::attribute_huge),
    row("tags-nested", "a million nested tags", "bounded", &[Fetched], bodies::tags_nested),

    // Names.
    row("dns-loop", "a compression loop", "refused", &[DnsFailed], framing::genuine)
        .named(Naming::Loop),
    row("dns-wrong-id", "answers with another id", "refused", &[DnsFailed], framing::genuine)
        .named(Naming::WrongId),
    row("dns-wrong-port", "answers from another port", "refused", &[DnsFailed],
        framing::genuine).named(Naming::WrongPort),
    row("dns-cut", "answers cut over UDP", "TCP fallback", &[Fetched], framing::genuine)
        .named(Naming::Cut),
    row("dns-cut-always", "answers cut over TCP too", "refused", &[DnsFailed], framing::genuine)
        .named(Naming::CutAlways),
    row("dns-chain", "8 aliases", "followed", &[Fetched], framing::genuine)
        .named(Naming::Chain(8)),
    row("dns-chain-long", "40 aliases", "chain cap", &[DnsFailed], framing::genuine)
        .named(Naming::Chain(40)),
    row("dns-chain-loop", "an alias of itself", "chain cap", &[DnsFailed], framing::genuine)
        .named(Naming::ChainLoop),
    row("dns-metadata", "a name for 169.254.169.254", "no connect", &[AddressRefused],
        framing::genuine).named(METADATA).simulated(),
    row("dns-intranet", "a name for 10.0.0.1", "no connect", &[AddressRefused],
        framing::genuine).named(INTRANET).simulated(),
    row("dns-loopback-6", "a name for ::1", "no connect", &[AddressRefused],
        framing::genuine).named(LOOPBACK_6).simulated(),
    row("dns-unique-local", "a name for fc00::1", "no connect", &[AddressRefused],
        framing::genuine).named(UNIQUE_LOCAL).simulated(),
    row("dns-mapped", "a name for ::ffff:127.0.0.1", "no connect", &[AddressRefused],
        framing::genuine).named(MAPPED).simulated(),
    row("dns-rebound", "a public address first, 127.0.0.1 later", "checked each time, pinned",
        &[Fetched], paths::tightened).named(Naming::Rebound).simulated(),

    // TLS.
    row("tls-honest", "a good certificate", "fetched", &[Fetched], framing::honest)
        .tls(Secrecy::Honest, &[Fetched]),
    row("tls-expired", "an expired certificate", "refused", &[], framing::genuine)
        .tls(Secrecy::Expired, &[TlsExpired]),
    row("tls-not-yet", "a certificate of the next century", "refused", &[], framing::genuine)
        .tls(Secrecy::NotYetValid, &[TlsNotYetValid]),
    row("tls-other-name", "a certificate for another name", "refused", &[], framing::genuine)
        .tls(Secrecy::OtherName, &[TlsWrongName]),
    row("tls-self-signed", "a self-signed certificate", "refused", &[], framing::genuine)
        .tls(Secrecy::SelfSigned, &[TlsSelfSigned]),
    row("tls-broken-chain", "an issuer's certificate left out", "refused", &[],
        framing::genuine).tls(Secrecy::BrokenChain, &[TlsBrokenChain]),
    row("tls-unknown", "an authority that nobody trusts", "refused", &[], framing::genuine)
        .tls(Secrecy::UnknownIssuer, &[TlsUnknownIssuer]),
    row("tls-none", "plain HTTP at the port for HTTPS", "refused", &[], framing::genuine)
        .tls(Secrecy::NotTls, &[TlsProtocol]),
    row("tls-stalled", "a handshake without an answer", "deadline", &[], framing::genuine)
        .tls(Secrecy::Stalled, &[ConnectTimedOut]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_their_own_that_are_host_labels() {
        let mut names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        let is_label = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        assert!(names.iter().all(is_label));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
