//! The values that stages hand to each other: a URL on its way, the outcome of a request, and the
//! messages between cores. Stages never import each other; they meet here.

mod parcel;

pub use parcel::Parcel;

use crate::base::Time;
use crate::base::limits::{TRIES_PER_LIFE, URL_BYTES_MAX};
use crate::base::pack::{Pack, Unpack};
use crate::proto::url::{HostKey, Text, Url};
use std::net::IpAddr;
use std::path::PathBuf;

/// A core of this process, and the index of the state that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardIndex(pub u16);

/// Returns the folder, within the data directory, where a shard keeps its state.
pub fn state_dir(shard: ShardIndex) -> PathBuf {
    PathBuf::from(format!("state/shard-{:02}", shard.0))
}

/// The priority of a URL. Each class gets a share of the choices, so no class starves.
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

    /// Returns the class with this number on disk.
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
    /// Named as a sitemap by a robots.txt or a sitemap index. The URLs that a sitemap lists are
    /// links.
    Sitemap = 3,
    /// A robots.txt on its way through a host's queue.
    Robots = 4,
}

impl Via {
    pub const ALL: [Via; 5] = [Via::Seed, Via::Link, Via::Redirect, Via::Sitemap, Via::Robots];

    /// Returns the way with this number on disk.
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

/// The URLs that redirected to this one, first to last, as the low halves of their fingerprints. At
/// most [`crate::base::limits::REDIRECT_COUNT_MAX`] long, and empty for almost every URL. The trail
/// of a sitemap begins with the key of the host whose robots.txt named the sitemap, so that the
/// sitemap's scope travels with it, over cores, queues and restarts.
pub type Trail = Box<[u64]>;

/// A URL that was found, on its way to the shard that owns its host. The URL is normalised. A
/// candidate owns its text, or borrows it from where it was found (`Candidate<&str>`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<T = Box<str>> {
    pub url: Url<T>,
    /// The number of links from a seed to this URL.
    pub depth: u16,
    pub class: Class,
    pub via: Via,
    pub trail: Trail,
}

impl<T: Text> Candidate<T> {
    /// Returns a candidate that borrows the text of this one.
    pub fn lent(&self) -> Candidate<&str> {
        self.with(self.url.lent())
    }

    /// Returns a candidate with a copy of the text.
    pub fn owned(&self) -> Candidate {
        self.with(self.url.owned())
    }

    fn with<U>(&self, url: Url<U>) -> Candidate<U> {
        let Candidate { depth, class, via, .. } = *self;
        Candidate { url, depth, class, via, trail: self.trail.clone() }
    }
}

/// A URL that was taken: it is in a queue, on its way out of one, or on its way back into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued<T = Box<str>> {
    pub url: Url<T>,
    pub depth: u16,
    pub class: Class,
    pub via: Via,
    /// The number of requests made for this URL so far, counted by the caller, plus
    /// [`TRIES_PER_LIFE`] for each earlier life; see [`Queued::tries_made`].
    pub tries: u8,
    pub trail: Trail,
}

impl<T: Text> Queued<T> {
    /// Returns a queued URL that borrows the text of this one.
    pub fn lent(&self) -> Queued<&str> {
        self.with(self.url.lent())
    }

    /// Returns a queued URL with a copy of the text.
    pub fn owned(&self) -> Queued {
        self.with(self.url.owned())
    }

    fn with<U>(&self, url: Url<U>) -> Queued<U> {
        let Queued { depth, class, via, tries, .. } = *self;
        Queued { url, depth, class, via, tries, trail: self.trail.clone() }
    }

    /// Returns the number of requests made for this URL in its present life. Only a dead letter
    /// that was put back has had more than one life: each time adds [`TRIES_PER_LIFE`] to `tries`.
    pub fn tries_made(&self) -> u8 {
        self.tries % TRIES_PER_LIFE
    }

    /// Writes this URL in the form that state files hold.
    pub fn pack(&self, pack: &mut Pack<'_>) {
        let Queued { url, depth, class, via, tries, trail } = self;
        pack.text(url.as_str());
        let [origin_low, origin_high] = (url.origin().len() as u16).to_le_bytes();
        let [depth_low, depth_high] = depth.to_le_bytes();
        let trail_count = u8::try_from(trail.len()).expect("a trail has at most 255 steps");
        let (class, via) = (*class as u8, *via as u8);
        // These bytes are written in one call, because the journal has an entry for every URL that
        // is taken.
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
    /// Reads what [`Queued::pack`] wrote. Returns `None` if the bytes are something else.
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
    /// The name does not exist, or it has no address.
    NoName,
    /// No upstream gave a usable answer in time.
    Failed,
    /// The address is private, loopback or otherwise not public, and the settings do not allow such
    /// addresses.
    AddressRefused,
}

/// What became of one request. An outcome is data, not an error: [`Outcome::row`] says what follows
/// from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    Fetched,
    /// The body was longer than the limit. It is stored and marked as cut.
    CutLength,
    /// The body took longer than its deadline. It is stored and marked as cut.
    CutTime,
    NotModified,
    Redirected,
    RedirectLoop,
    RedirectLimit,
    /// The redirect had no Location, an unusable one, or one whose scheme is not http or https.
    RedirectRefused,
    ClientError,
    ServerError,
    /// The status was 429, or 503 with Retry-After.
    Throttled,
    /// The response is not HTTP, or its framing is ambiguous.
    Malformed,
    HeadTooLarge,
    /// The connection ended before the body did.
    Incomplete,
    NoName,
    DnsFailed,
    AddressRefused,
    ConnectRefused,
    ConnectTimedOut,
    ConnectFailed,
    /// The TLS handshake failed for a cause that has no name below.
    TlsFailed,
    FirstByteTimedOut,
    HeadTimedOut,
    Reset,
    RobotsDenied,
    RobotsUnreachable,
    /// The origin has failed for so long that it was given up. No request was made.
    OriginDown,
    /// We had no descriptor, port or buffer for the request.
    Shed,
    /// The crawl ended (page limit, time limit or signal) before the request was answered.
    Cancelled,
    // The outcomes below were added later. An outcome's position is its number on disk, so new ones
    // go last.
    /// The certificate has expired by this machine's clock, which may be wrong.
    TlsExpired,
    /// The certificate is not valid yet by this machine's clock, which may be wrong.
    TlsNotYetValid,
    TlsWrongName,
    TlsSelfSigned,
    /// The certificates lead to an authority that is not trusted.
    TlsUnknownIssuer,
    /// The server does not send the certificate of its issuer, and the issuer is not trusted.
    TlsBrokenChain,
    /// The certificate is damaged, revoked, or not meant for servers.
    TlsBadCertificate,
    /// The server does not speak TLS, or shares no version or cipher suite with us.
    TlsProtocol,
    /// Memory for bodies was short and the body was slow. It is stored and marked as cut.
    CutMemory,
    /// Memory for bodies was short and the body was discarded. The URL is requested again.
    ShedMemory,
}

/// Who caused an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nobody,
    Server,
    Network,
    Policy,
    Us,
}

/// What an outcome does to the pace of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penalty {
    None,
    /// The outcome counts as a failure: exponential back-off, and one more failure for the circuit
    /// breaker.
    BackOff,
}

/// One row of the table of outcomes.
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
    /// Returns this outcome's row of the table.
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

    /// Reports whether there is a body to read, whole or cut.
    pub fn is_page(self) -> bool {
        use Outcome::*;
        matches!(self, Fetched | CutLength | CutTime | CutMemory)
    }
}

/// How often each outcome happened, indexed by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeCounts(pub [u64; Outcome::COUNT]);

impl Default for OutcomeCounts {
    fn default() -> OutcomeCounts {
        OutcomeCounts([0; Outcome::COUNT])
    }
}

/// Where and when a payload was first stored. A revisit record refers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    pub url: Box<str>,
    /// The WARC-Date in Unix seconds.
    pub at_seconds: u64,
}

/// Identifies a question that a shard has asked, so that the answer can be matched with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// A place at which hosts of several cores take turns: one request at a time, with a delay between
/// requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TurnPlace {
    /// An address, or the IPv6 network that stands for all its addresses, as
    /// [`crate::crawl::resolve::pace_place`] computes it.
    Address(IpAddr),
    /// A registrable domain, as the hash of its name.
    Domain(u64),
}

/// A message from one core to another. Messages are sent in batches, one batch per peer in each
/// turn of the loop.
#[derive(Clone, Debug)]
pub enum Message {
    /// Links that the receiver owns. It answers with [`Message::LinksKept`], once for many links.
    Links(Box<Parcel>),
    /// The first `through_count` links that `by` got from the receiver of this message are durable
    /// at `by`.
    LinksKept {
        by: ShardIndex,
        through_count: u64,
    },
    /// Asks for the turn of `host` at `place`. The answer is [`Message::TurnGranted`], sent as soon
    /// as the host has the turn.
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
    /// The turn is over. The server saw the request at `used_at` or earlier; `None` means that no
    /// request was made.
    TurnReturned {
        place: TurnPlace,
        host: HostKey,
        used_at: Option<Time>,
    },
    /// Asks whether this payload is stored already. If it is not, the receiver remembers `original`
    /// as its first copy.
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
    /// Asks whether there is a page within three bits. `blocks` marks the blocks of the SimHash
    /// that the receiver owns.
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
    /// Asks for a robots.txt that `origin` was redirected to, to be fetched on behalf of `asker`.
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
    /// Returns the number of links in this message.
    pub fn link_count(&self) -> usize {
        if let Message::Links(parcel) = self { parcel.count() } else { 0 }
    }
}

/// What arrives in a shard's mailbox: batches from other shards, and commands of the control
/// thread.
#[derive(Clone, Debug)]
pub enum Mail {
    Batch { from: ShardIndex, messages: Vec<Message> },
    Command(Command),
}

/// A command from the control thread to a shard.
#[derive(Clone, Debug)]
pub enum Command {
    /// Every shard is ready, and the manifest says how slots are dealt. Visits may begin.
    Open,
    Seeds(Vec<Candidate>),
    /// Asks whether the shard is idle. The answer carries the same round.
    Probe {
        round: u64,
    },
    /// The shard may fetch this many more pages.
    Budget(u64),
    /// Until the shard gets more budget, it sends back the pages that it cannot spend at once.
    CallBudgetIn,
    /// Finish what is under way, start nothing new, and report when that is done.
    Drain,
    /// End now and abandon what is under way.
    Halt,
}

/// The answer to a request for a robots.txt, before its rules are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsAnswer {
    /// 2xx: the body, cut at the size limit.
    Rules(Box<[u8]>),
    /// 304: the known rules still hold.
    Unchanged,
    /// 4xx other than 429: everything may be fetched. A redirect beyond the limit does not count as
    /// this.
    Absent,
    /// 5xx, 429 or no answer: nothing may be fetched until the robots.txt can be read.
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

    /// Journals, checkpoints and circuit breakers of earlier versions hold these numbers.
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
