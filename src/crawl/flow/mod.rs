//! What stages hand to each other: a URL on its way, the outcome of asking for it, and the messages
//! between cores. Stages never import each other; they meet here.

mod parcel;

pub use parcel::Parcel;

use crate::base::Time;
use crate::base::limits::{TRIES_PER_LIFE, URL_BYTES_MAX};
use crate::base::pack::{Pack, Unpack};
use crate::proto::url::{HostKey, Text, Url};
use std::net::IpAddr;
use std::path::PathBuf;

/// A core of this process, and the state it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardIndex(pub u16);

/// Where a shard keeps its state, in the data directory.
pub fn state_dir(shard: ShardIndex) -> PathBuf {
    PathBuf::from(format!("state/shard-{:02}", shard.0))
}

/// Priority of a URL. Each class gets a share of the choices, so none starves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    Urgent = 0,
    High = 1,
    Normal = 2,
    Low = 3,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Urgent, Class::High, Class::Normal, Class::Low];

    /// The class that is written as this number.
    pub fn from_number(number: u8) -> Option<Class> {
        Class::ALL.get(usize::from(number)).copied()
    }

    pub fn index(self) -> usize {
        self as usize
    }

    pub fn name(self) -> &'static str {
        match self {
            Class::Urgent => "urgent",
            Class::High => "high",
            Class::Normal => "normal",
            Class::Low => "low",
        }
    }
}

/// How a URL was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Via {
    Seed = 0,
    Link = 1,
    Redirect = 2,
    /// Named as a sitemap, by a robots.txt or an index. What a sitemap lists are links.
    Sitemap = 3,
    /// A robots.txt on its way through a host's queue.
    Robots = 4,
}

impl Via {
    pub const ALL: [Via; 5] = [Via::Seed, Via::Link, Via::Redirect, Via::Sitemap, Via::Robots];

    /// The way that is written as this number.
    pub fn from_number(number: u8) -> Option<Via> {
        Via::ALL.get(usize::from(number)).copied()
    }

    pub fn by_name(name: &str) -> Option<Via> {
        Via::ALL.into_iter().find(|via| via.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Via::Seed => "seed",
            Via::Link => "link",
            Via::Redirect => "redirect",
            Via::Sitemap => "sitemap",
            Via::Robots => "robots",
        }
    }
}

/// The URLs (low halves of their fingerprints) that redirected here, first to last. At most
/// [`crate::base::limits::REDIRECT_COUNT_MAX`] long; empty for almost every URL. That of a sitemap begins
/// with the key of the host whose robots.txt named it: its word travels with it, over cores, queues
/// and restarts.
pub type Trail = Box<[u64]>;

/// A URL that someone found, on its way to the shard that owns its host. The URL is normalised. Its
/// text is its own, or (`Candidate<&str>`) lies where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<T = Box<str>> {
    pub url: Url<T>,
    /// Links followed from a seed.
    pub depth: u16,
    pub class: Class,
    pub via: Via,
    pub trail: Trail,
}

impl<T: Text> Candidate<T> {
    pub fn lent(&self) -> Candidate<&str> {
        self.with(self.url.lent())
    }

    pub fn owned(&self) -> Candidate {
        self.with(self.url.owned())
    }

    fn with<U>(&self, url: Url<U>) -> Candidate<U> {
        let Candidate { depth, class, via, .. } = *self;
        Candidate { url, depth, class, via, trail: self.trail.clone() }
    }
}

/// A URL that was taken: in a queue, on its way out of it, or back into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued<T = Box<str>> {
    pub url: Url<T>,
    pub depth: u16,
    pub class: Class,
    pub via: Via,
    /// Requests made for it so far; the caller counts. With the life it is in, see
    /// [`Queued::tries_made`].
    pub tries: u8,
    pub trail: Trail,
}

impl<T: Text> Queued<T> {
    pub fn lent(&self) -> Queued<&str> {
        self.with(self.url.lent())
    }

    pub fn owned(&self) -> Queued {
        self.with(self.url.owned())
    }

    fn with<U>(&self, url: Url<U>) -> Queued<U> {
        let Queued { depth, class, via, tries, .. } = *self;
        Queued { url, depth, class, via, tries, trail: self.trail.clone() }
    }

    /// Requests made for it in its present life. Only dead letters that were put back have more
    /// than one: [`TRIES_PER_LIFE`] is added to `tries` for each.
    pub fn tries_made(&self) -> u8 {
        self.tries % TRIES_PER_LIFE
    }

    /// As state files hold it.
    pub fn pack(&self, pack: &mut Pack<'_>) {
        let Queued { url, depth, class, via, tries, trail } = self;
        pack.text(url.as_str());
        let [origin_low, origin_high] = (url.origin().len() as u16).to_le_bytes();
        let [depth_low, depth_high] = depth.to_le_bytes();
        let trail_count = u8::try_from(trail.len()).expect("trails are short");
        let (class, via) = (*class as u8, *via as u8);
        // In one piece: the journal says this of every URL that is taken.
        pack.0.extend_from_slice(&[
            origin_low,
            origin_high,
            depth_low,
            depth_high,
            class,
            via,
            *tries,
            trail_count,
        ]);
        trail.iter().for_each(|step| pack.u64(*step));
    }
}

impl Queued {
    pub fn unpack(from: &mut Unpack<'_>) -> Option<Queued> {
        let text = from.text().filter(|text| text.len() <= URL_BYTES_MAX)?;
        let (origin, path_and_query) = text.split_at_checked(usize::from(from.u16()?))?;
        Some(Queued {
            url: Url::rebuild(origin, path_and_query),
            depth: from.u16()?,
            class: Class::from_number(from.u8()?)?,
            via: Via::from_number(from.u8()?)?,
            tries: from.u8()?,
            trail: (0..from.u8()?).map(|_| from.u64()).collect::<Option<_>>()?,
        })
    }
}

impl<T> From<Candidate<T>> for Queued<T> {
    fn from(candidate: Candidate<T>) -> Queued<T> {
        let Candidate { url, depth, class, via, trail } = candidate;
        Queued { url, depth, class, via, tries: 0, trail }
    }
}

/// Why the address of a host could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResolveError {
    /// The name does not exist, or has no address.
    NoName,
    /// No upstream gave a usable answer in time.
    Failed,
    /// The address is private, loopback or otherwise not public, and that is not allowed.
    AddressRefused,
}

/// What became of one request. Data, not an error: [`Outcome::row`] says what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    Fetched,
    /// The body was longer than the cap, or slower than its deadline: stored, marked cut.
    CutLength,
    CutTime,
    NotModified,
    Redirected,
    RedirectLoop,
    RedirectLimit,
    /// No Location, an unusable one, or a scheme that is not http(s).
    RedirectRefused,
    ClientError,
    ServerError,
    /// 429, or 503 with Retry-After.
    Throttled,
    /// Not HTTP, or framing in doubt.
    Malformed,
    HeadTooLarge,
    /// The stream ended before the body did.
    Incomplete,
    NoName,
    DnsFailed,
    AddressRefused,
    ConnectRefused,
    ConnectTimedOut,
    ConnectFailed,
    /// A handshake that failed for a cause without a name below.
    TlsFailed,
    FirstByteTimedOut,
    HeadTimedOut,
    Reset,
    RobotsDenied,
    RobotsUnreachable,
    /// Its origin has failed for so long that it was given up: not asked for.
    OriginDown,
    /// We had no descriptor, port or buffer for it.
    Shed,
    /// The crawl ended (page or time limit, signal) before the request was answered.
    Cancelled,
    // From here on what came later: an outcome's place is its number on disk.
    /// By this machine's clock, which may be wrong; so with the next.
    TlsExpired,
    TlsNotYetValid,
    TlsWrongName,
    TlsSelfSigned,
    /// The certificates lead to an authority that is not trusted.
    TlsUnknownIssuer,
    /// The server leaves out the certificate of its issuer, who is not trusted.
    TlsBrokenChain,
    /// Damaged, revoked, or not for servers.
    TlsBadCertificate,
    /// Not TLS, or no version and no suite in common.
    TlsProtocol,
    /// Memory for bodies was short, and the body was slow: stored, marked cut.
    CutMemory,
    /// Memory for bodies was short, and the body was let go; asked for again.
    ShedMemory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nobody,
    Server,
    Network,
    Policy,
    Us,
}

/// What an outcome does to the host's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penalty {
    None,
    /// Counts as a failure: exponential back-off, and the breaker's count.
    BackOff,
}

/// One row of the outcome table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutcomeRow {
    pub name: &'static str,
    pub fault: Fault,
    pub retry: bool,
    pub penalty: Penalty,
}

impl Outcome {
    pub const COUNT: usize = Outcome::ShedMemory as usize + 1;

    pub const ALL: [Outcome; Outcome::COUNT] = {
        use Outcome::*;
        [
            Fetched,
            CutLength,
            CutTime,
            NotModified,
            Redirected,
            RedirectLoop,
            RedirectLimit,
            RedirectRefused,
            ClientError,
            ServerError,
            Throttled,
            Malformed,
            HeadTooLarge,
            Incomplete,
            NoName,
            DnsFailed,
            AddressRefused,
            ConnectRefused,
            ConnectTimedOut,
            ConnectFailed,
            TlsFailed,
            FirstByteTimedOut,
            HeadTimedOut,
            Reset,
            RobotsDenied,
            RobotsUnreachable,
            OriginDown,
            Shed,
            Cancelled,
            TlsExpired,
            TlsNotYetValid,
            TlsWrongName,
            TlsSelfSigned,
            TlsUnknownIssuer,
            TlsBrokenChain,
            TlsBadCertificate,
            TlsProtocol,
            CutMemory,
            ShedMemory,
        ]
    };

    #[rustfmt::skip]
    pub fn row(self) -> OutcomeRow {
        use Fault::*;
        use Outcome::*;
        use Penalty::BackOff;
        let row = |name, fault, retry, penalty| OutcomeRow { name, fault, retry, penalty };
        match self {
            Fetched           => row("fetched",             Nobody,  false, Penalty::None),
            CutLength         => row("cut_length",          Server,  false, Penalty::None),
            CutTime           => row("cut_time",            Server,  false, BackOff),
            NotModified       => row("not_modified",        Nobody,  false, Penalty::None),
            Redirected        => row("redirected",          Nobody,  false, Penalty::None),
            RedirectLoop      => row("redirect_loop",       Server,  false, Penalty::None),
            RedirectLimit     => row("redirect_limit",      Server,  false, Penalty::None),
            RedirectRefused   => row("redirect_refused",    Server,  false, Penalty::None),
            ClientError       => row("client_error",        Server,  false, Penalty::None),
            ServerError       => row("server_error",        Server,  true,  BackOff),
            Throttled         => row("throttled",           Server,  true,  BackOff),
            Malformed         => row("malformed",           Server,  false, Penalty::None),
            HeadTooLarge      => row("head_too_large",      Server,  false, Penalty::None),
            Incomplete        => row("incomplete",          Server,  true,  BackOff),
            NoName            => row("no_name",             Server,  false, Penalty::None),
            DnsFailed         => row("dns_failed",          Network, true,  BackOff),
            AddressRefused    => row("address_refused",     Policy,  false, Penalty::None),
            ConnectRefused    => row("connect_refused",     Server,  true,  BackOff),
            ConnectTimedOut   => row("connect_timed_out",   Network, true,  BackOff),
            ConnectFailed     => row("connect_failed",      Network, true,  BackOff),
            TlsFailed         => row("tls_failed",          Server,  false, BackOff),
            FirstByteTimedOut => row("first_byte_timed_out", Server, true,  BackOff),
            HeadTimedOut      => row("head_timed_out",      Server,  true,  BackOff),
            Reset             => row("reset",               Network, true,  BackOff),
            RobotsDenied      => row("robots_denied",       Policy,  false, Penalty::None),
            RobotsUnreachable => row("robots_unreachable",  Server,  false, BackOff),
            OriginDown        => row("origin_down",         Server,  false, Penalty::None),
            Shed              => row("shed",                Us,      true,  Penalty::None),
            Cancelled         => row("cancelled",           Us,      false, Penalty::None),
            TlsExpired        => row("tls_expired",         Server,  false, BackOff),
            TlsNotYetValid    => row("tls_not_yet_valid",   Server,  false, BackOff),
            TlsWrongName      => row("tls_wrong_name",      Server,  false, BackOff),
            TlsSelfSigned     => row("tls_self_signed",     Server,  false, BackOff),
            TlsUnknownIssuer  => row("tls_unknown_issuer",  Server,  false, BackOff),
            TlsBrokenChain    => row("tls_broken_chain",    Server,  false, BackOff),
            TlsBadCertificate => row("tls_bad_certificate", Server,  false, BackOff),
            TlsProtocol       => row("tls_protocol",        Server,  false, BackOff),
            CutMemory         => row("cut_memory",          Server,  false, BackOff),
            ShedMemory        => row("shed_memory",         Us,      true,  Penalty::None),
        }
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn by_name(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// There is a body to read, whole or cut.
    pub fn is_page(self) -> bool {
        use Outcome::*;
        matches!(self, Fetched | CutLength | CutTime | CutMemory)
    }
}

/// How often each outcome came about, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeCounts(pub [u64; Outcome::COUNT]);

impl Default for OutcomeCounts {
    fn default() -> OutcomeCounts {
        OutcomeCounts([0; Outcome::COUNT])
    }
}

/// Where and when a payload was first stored: what a revisit record refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    pub url: Box<str>,
    /// Unix seconds of the WARC-Date.
    pub at_seconds: u64,
}

/// Names a question that a shard has open, so that the answer finds its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// Where hosts of several cores take turns: one request at a time, a delay apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TurnPlace {
    /// An address, or the IPv6 network of several, as [`crate::crawl::resolve::pace_place`] says.
    Address(IpAddr),
    /// A registrable domain, by the hash of its name.
    Domain(u64),
}

/// From one core to another. Sent in batches, a batch per peer and turn of the loop.
#[derive(Clone, Debug)]
pub enum Message {
    /// Answered by [`Message::LinksKept`], many at a time.
    Links(Box<Parcel>),
    /// So many links from the receiver, counted from the first, are durable with `by`.
    LinksKept {
        by: ShardIndex,
        through_count: u64,
    },
    /// May `host` speak at `place`? Answered by [`Message::TurnGranted`] when it may, at once.
    TurnWanted {
        place: TurnPlace,
        host: HostKey,
        asker: ShardIndex,
        delay_ms: u32,
    },
    TurnGranted {
        place: TurnPlace,
        host: HostKey,
    },
    /// The turn is over; the server saw the request at `used_at` or earlier (`None`: not used).
    TurnReturned {
        place: TurnPlace,
        host: HostKey,
        used_at: Option<Time>,
    },
    /// Is this payload stored already? If not, `original` is remembered as its first copy.
    DigestAsked {
        digest: [u8; 20],
        original: Original,
        asker: ShardIndex,
        ticket: Ticket,
    },
    DigestAnswered {
        ticket: Ticket,
        known: Option<Original>,
    },
    /// Is there a page within three bits? Blocks of the SimHash this shard owns are in `blocks`.
    NearAsked {
        simhash: u64,
        page: u64,
        blocks: u8,
        asker: ShardIndex,
        ticket: Ticket,
    },
    NearAnswered {
        ticket: Ticket,
        near: Option<u64>,
    },
    /// Fetch a robots.txt that `origin` was redirected to, on behalf of `asker`.
    RobotsWanted {
        target: Url,
        origin: Box<str>,
        asker: ShardIndex,
        hops: u8,
    },
    RobotsAnswered {
        origin: Box<str>,
        answer: RobotsAnswer,
    },
}

impl Message {
    /// Links that it brings.
    pub fn link_count(&self) -> usize {
        if let Message::Links(parcel) = self { parcel.count() } else { 0 }
    }
}

/// What a shard's mailbox carries: batches from other shards, and the control thread's commands.
#[derive(Clone, Debug)]
pub enum Mail {
    Batch { from: ShardIndex, messages: Vec<Message> },
    Command(Command),
}

/// From the control thread to a shard.
#[derive(Clone, Debug)]
pub enum Command {
    /// Every shard is ready, and the way in which slots are dealt is noted: visits may begin.
    Open,
    Seeds(Vec<Candidate>),
    /// Are you quiet? Answered with the same round.
    Probe {
        round: u64,
    },
    /// So many more pages may be fetched.
    Budget(u64),
    /// Until more is given: send back pages that cannot be spent at once.
    CallBudgetIn,
    /// Finish what is under way, start nothing, and say when that is done.
    Drain,
    /// End now; what is under way is given up.
    Halt,
}

/// What came of asking for a robots.txt, before its rules are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsAnswer {
    /// 2xx: the body, cut at the limit.
    Rules(Box<[u8]>),
    /// 304: what is known still holds.
    Unchanged,
    /// 4xx other than 429, and redirects beyond the limit are not among them: crawl freely.
    Absent,
    /// 5xx, 429 or no answer: nothing may be fetched until it answers.
    Unreachable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_table_has_a_row_per_outcome_with_its_own_name() {
        let mut names: Vec<_> = Outcome::ALL.iter().map(|outcome| outcome.name()).collect();
        assert!(Outcome::ALL.iter().enumerate().all(|(index, o)| *o as usize == index));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Outcome::COUNT);
    }

    /// Journals, checkpoints and breakers of earlier versions hold these numbers.
    #[test]
    fn an_outcome_keeps_the_number_that_it_has_on_disk() {
        let pinned = [
            (Outcome::Fetched, 0),
            (Outcome::ClientError, 8),
            (Outcome::NoName, 14),
            (Outcome::TlsFailed, 20),
            (Outcome::OriginDown, 26),
            (Outcome::Cancelled, 28),
            (Outcome::TlsExpired, 29),
            (Outcome::TlsProtocol, 36),
            (Outcome::ShedMemory, 38),
        ];
        for (outcome, number) in pinned {
            assert_eq!(outcome as usize, number, "{}", outcome.name());
        }
    }
}
