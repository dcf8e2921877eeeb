//! The addresses of hosts, by DNS: looked up once, remembered and checked.
//!
//! The steps of a lookup:
//!
//! 1. [`Resolver::cached`]: a host that is an address needs no server; a remembered answer is
//!    returned.
//! 2. The first caller that asks for a name starts a task. Other callers that ask for the same name
//!    wait for the same answer. The task belongs to no caller, so a caller that gives up takes
//!    nothing away from the others.
//! 3. The task waits for one of [`DNS_IN_FLIGHT_MAX`] places.
//! 4. The task asks for IPv4 addresses, and for IPv6 addresses if there are none. It asks one
//!    upstream after the other: after silence or a failure it asks the next.
//! 5. Each address gets its one spelling ([`canonical`]). Addresses that are not public are
//!    removed, the rest is remembered, and all callers are answered.
//!
//! Invariant: unless private addresses are allowed, no [`Address`] holds an address that is not
//! public, wherever it came from, and none holds an address that is not canonical. Connections are
//! made to an [`Address`] and never to a name.
//!
//! The resolver is owned by one core. A clone is a handle to the same resolver.

use super::address::{canonical, is_public};
use super::cache::{Cache, Known, Name, Wanted};
use super::upstream::{Question, Upstream};
use crate::base::limits::{
    DNS_BACKOFF_MS, DNS_CACHE_COUNT_MAX, DNS_FAILURE_SECONDS, DNS_IN_FLIGHT_MAX,
    DNS_NEGATIVE_SECONDS_MAX, DNS_NEGATIVE_SECONDS_MIN, DNS_TTL_SECONDS_MAX, DNS_TTL_SECONDS_MIN,
};
use crate::base::{Time, oneshot};
use crate::crawl::flow::ResolveError;
use crate::io::World;
use crate::proto::dnswire::{Answer, DnsOutcome, Kind};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// What the resolver needs from the settings.
#[derive(Clone, Debug)]
pub struct DnsSettings {
    /// The upstream resolvers, in order of preference. If there are none, only hosts that are
    /// addresses resolve.
    pub upstreams: Vec<SocketAddr>,
    /// How long to wait for one answer of one upstream, and as long again if the query is repeated
    /// over TCP.
    pub timeout_ms: u64,
    /// The number of queries for one name and kind of address before the lookup counts as failed;
    /// at least one.
    pub tries: u8,
    /// Allow addresses that are not public: for tests and for crawls of an intranet.
    pub allow_private: bool,
}

/// The addresses at which a host may be contacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Never empty, canonical, in the server's order. All are of one family, except for IPv4
    /// addresses that an answer spells as IPv6 ones.
    pub ips: Rc<[IpAddr]>,
    /// When the addresses have to be looked up again.
    pub expires: Time,
}

/// The DNS resolver of one core.
pub struct Resolver<W: World>(Rc<Shared<W>>);

impl<W: World> Clone for Resolver<W> {
    fn clone(&self) -> Resolver<W> {
        Resolver(self.0.clone())
    }
}

struct Shared<W> {
    world: W,
    settings: DnsSettings,
    upstreams: Vec<Upstream>,
    cache: RefCell<Cache>,
    /// Hashes names for the cache, with a random key.
    hasher: RandomState,
    /// The callers that wait, by the name that they wait for. A name is in the map while its task
    /// runs.
    waiting: RefCell<HashMap<Asked, Vec<Waiter>>>,
    places: Places,
    query_count: Cell<u64>,
    cached_count: Cell<u64>,
}

/// A name, and what is asked about it.
type Asked = (Box<str>, Wanted);

type Waiter = oneshot::Sender<Result<Address, ResolveError>>;

impl<W: World> Resolver<W> {
    /// Creates a resolver.
    ///
    /// # Panics
    /// If the settings allow no try.
    pub fn new(world: W, settings: DnsSettings) -> Resolver<W> {
        assert!(settings.tries > 0, "dns_tries must be at least one");
        Resolver(Rc::new(Shared {
            upstreams: settings.upstreams.iter().map(|at| Upstream::new(*at)).collect(),
            hasher: RandomState::new(),
            world,
            settings,
            cache: RefCell::new(Cache::new(DNS_CACHE_COUNT_MAX)),
            waiting: RefCell::default(),
            places: Places::default(),
            query_count: Cell::new(0),
            cached_count: Cell::new(0),
        }))
    }

    /// Returns the addresses of `host`, which is spelled as [`crate::proto::url::Url::host`]
    /// returns it.
    pub async fn lookup(&self, host: &str) -> Result<Address, ResolveError> {
        match self.cached(host) {
            Some(known) => known,
            None => self.wait_for(host, Wanted::Any).await,
        }
    }

    /// Returns the IPv6 addresses of a host for which [`Resolver::lookup`] finds IPv4 addresses.
    /// They are what is left to try when the IPv4 addresses do not answer. Fails with
    /// [`ResolveError::NoName`] if there is no other family.
    pub async fn other_family(&self, host: &str) -> Result<Address, ResolveError> {
        let first = self.lookup(host).await?;
        if first.ips.iter().any(IpAddr::is_ipv6) || literal(host).is_some() {
            return Err(ResolveError::NoName);
        }
        let known = match self.remembered(self.0.name(host, Wanted::V6)) {
            Some(known) => {
                self.0.cached_count.set(self.0.cached_count.get() + 1);
                known
            }
            None => self.wait_for(host, Wanted::V6).await,
        }?;
        // An IPv4 address that was spelled as an IPv6 one does not count as another family.
        let ips: Rc<[IpAddr]> = known.ips.iter().copied().filter(IpAddr::is_ipv6).collect();
        if ips.is_empty() { Err(ResolveError::NoName) } else { Ok(Address { ips, ..known }) }
    }

    /// Returns what [`Resolver::lookup`] can answer without a query. A remembered answer costs a
    /// hash and no allocation.
    pub fn cached(&self, host: &str) -> Option<Result<Address, ResolveError>> {
        let name = self.0.name(host, Wanted::Any);
        let known = self.remembered(name);
        if known.is_some() {
            self.0.cached_count.set(self.0.cached_count.get() + 1);
            return known;
        }
        let address = literal(host)?;
        let known = self.0.permitted(&[address]);
        Some(self.remember(name, known, Time::NEVER))
    }

    /// Starts the lookup of a host that will be needed soon. Does nothing while the greatest number
    /// of lookups is under way, because callers that wait come first.
    pub fn prefetch(&self, host: &str) {
        let is_known = || self.remembered(self.0.name(host, Wanted::Any)).is_some();
        if !self.0.places.are_all_taken() && literal(host).is_none() && !is_known() {
            self.start(host, Wanted::Any, None);
        }
    }

    /// Returns the number of queries sent to upstreams. A query that was repeated over TCP counts
    /// once.
    pub fn query_count(&self) -> u64 {
        self.0.query_count.get()
    }

    /// Returns the number of lookups that were answered from memory.
    pub fn cached_count(&self) -> u64 {
        self.0.cached_count.get()
    }

    /// Returns the number of answers that were evicted for lack of room before they expired.
    pub fn evicted_count(&self) -> u64 {
        self.0.cache.borrow().evicted_count()
    }

    /// Returns the number of remembered answers, some of which may have expired.
    pub fn count(&self) -> usize {
        self.0.cache.borrow().count()
    }

    /// Returns the number of names being looked up, including those that wait for a place.
    pub fn in_flight_count(&self) -> usize {
        self.0.waiting.borrow().len()
    }

    fn remembered(&self, name: Name<'_>) -> Option<Result<Address, ResolveError>> {
        let now = self.0.world.now();
        let mut cache = self.0.cache.borrow_mut();
        let (known, expires) = cache.find(name, now)?;
        Some(known.clone().map(|ips| Address { ips, expires }))
    }

    fn remember(
        &self,
        name: Name<'_>,
        known: Known,
        expires: Time,
    ) -> Result<Address, ResolveError> {
        let now = self.0.world.now();
        self.0.cache.borrow_mut().insert(name, known.clone(), expires, now);
        known.map(|ips| Address { ips, expires })
    }

    async fn wait_for(&self, host: &str, wanted: Wanted) -> Result<Address, ResolveError> {
        let (sender, receiver) = oneshot::channel();
        self.start(host, wanted, Some(sender));
        // The sender is lost only when the world ends.
        receiver.await.unwrap_or(Err(ResolveError::Failed))
    }

    /// Joins the lookup of this name that is under way, or starts one.
    fn start(&self, host: &str, wanted: Wanted, waiter: Option<Waiter>) {
        let asked: Asked = (host.into(), wanted);
        let is_first = {
            let mut waiting = self.0.waiting.borrow_mut();
            let is_first = !waiting.contains_key(&asked);
            waiting.entry(asked.clone()).or_default().extend(waiter);
            is_first
        };
        if !is_first {
            return;
        }
        let own = self.clone();
        self.0.world.spawn(async move {
            own.0.places.take().await;
            let (known, ttl_seconds) = own.0.find(&asked.0, wanted).await;
            own.0.places.give_back();
            let expires = own.0.world.now() + Duration::from_secs(ttl_seconds.into());
            let result = own.remember(own.0.name(&asked.0, wanted), known, expires);
            let waiters = own.0.waiting.borrow_mut().remove(&asked);
            for waiter in waiters.into_iter().flatten() {
                waiter.send(result.clone());
            }
        });
    }
}

impl<W: World> Shared<W> {
    fn name<'n>(&self, host: &'n str, wanted: Wanted) -> Name<'n> {
        Name { host, wanted, hash: self.hasher.hash_one((host, wanted)) }
    }

    /// Returns those of `addresses` that may be contacted, in their canonical spelling.
    fn permitted(&self, addresses: &[IpAddr]) -> Known {
        let fine = |address: &IpAddr| self.settings.allow_private || is_public(*address);
        let spelled = addresses.iter().map(|address| canonical(*address));
        let ips: Rc<[IpAddr]> = spelled.filter(fine).collect();
        if ips.is_empty() { Err(ResolveError::AddressRefused) } else { Ok(ips) }
    }

    /// Looks `host` up, and returns the result and for how many seconds it holds.
    async fn find(&self, host: &str, wanted: Wanted) -> (Known, u32) {
        let first = if wanted == Wanted::Any { Kind::A } else { Kind::Aaaa };
        let mut answer = self.ask(host, first).await;
        let has_none = answer.as_ref().is_some_and(|said| said.outcome == DnsOutcome::NoData);
        if has_none && wanted == Wanted::Any {
            answer = self.ask(host, Kind::Aaaa).await;
        }
        let Some(Answer { outcome, addresses, ttl_seconds }) = answer else {
            return (Err(ResolveError::Failed), DNS_FAILURE_SECONDS);
        };
        if outcome == DnsOutcome::Found {
            let seconds = ttl_seconds.clamp(DNS_TTL_SECONDS_MIN, DNS_TTL_SECONDS_MAX);
            return (self.permitted(&addresses), seconds);
        }
        let seconds = ttl_seconds.clamp(DNS_NEGATIVE_SECONDS_MIN, DNS_NEGATIVE_SECONDS_MAX);
        (Err(ResolveError::NoName), seconds)
    }

    /// Asks one upstream after the other, those that rest last. Repeats this in rounds, with a wait
    /// between rounds, until an upstream gives an answer about the name or the tries are used up.
    async fn ask(&self, host: &str, kind: Kind) -> Option<Answer> {
        let Ok(mut question) = Question::new(host, kind) else {
            // The name does not fit a DNS query, so no server can have it.
            let (outcome, ttl_seconds) = (DnsOutcome::NoName, DNS_NEGATIVE_SECONDS_MAX);
            return Some(Answer { outcome, addresses: Vec::new(), ttl_seconds });
        };
        let now = self.world.now();
        let mut round: Vec<&Upstream> = self.upstreams.iter().collect();
        round.sort_by_key(|upstream| upstream.is_resting(now));
        let mut backoff_ms = DNS_BACKOFF_MS;
        for index in 0..usize::from(self.settings.tries) {
            let upstream = round.get(index.checked_rem(round.len())?)?;
            if index > 0 && index % round.len() == 0 {
                self.pause(backoff_ms).await;
                backoff_ms *= 2;
            }
            self.query_count.set(self.query_count.get() + 1);
            let said = upstream.ask(&self.world, &mut question, self.settings.timeout_ms).await;
            if said.is_some() {
                return said;
            }
        }
        None
    }

    /// Sleeps between a half and the whole of `span_ms`, so that lookups that failed together do
    /// not come back together.
    async fn pause(&self, span_ms: u64) {
        let jitter_ms = self.world.random_u64() % (span_ms / 2 + 1);
        let until = self.world.now() + Duration::from_millis(span_ms - jitter_ms);
        self.world.sleep_until(until).await;
    }
}

/// Returns the address that `host` is, if it is an address and not a name. RFC 6761 6.3 lets
/// `localhost` and names under it be the loopback address without a query.
fn literal(host: &str) -> Option<IpAddr> {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    if host == "localhost" || host.ends_with(".localhost") {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    host.ends_with(|last: char| last.is_ascii_digit()).then(|| host.parse().ok())?
}

/// The places for lookups under way. A place that is given back goes to the caller that has waited
/// longest.
#[derive(Default)]
struct Places {
    taken_count: Cell<usize>,
    queue: RefCell<VecDeque<oneshot::Sender<()>>>,
}

impl Places {
    fn are_all_taken(&self) -> bool {
        self.taken_count.get() >= DNS_IN_FLIGHT_MAX
    }

    async fn take(&self) {
        if self.are_all_taken() {
            let (sender, receiver) = oneshot::channel();
            self.queue.borrow_mut().push_back(sender);
            receiver.await;
        } else {
            self.taken_count.set(self.taken_count.get() + 1);
        }
    }

    fn give_back(&self) {
        let next = self.queue.borrow_mut().pop_front();
        match next {
            Some(sender) => sender.send(()),
            None => self.taken_count.set(self.taken_count.get() - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_that_are_addresses_are_taken_for_addresses() {
        let v6 = |text: &str| Some(IpAddr::V6(text.parse().unwrap()));
        assert_eq!(literal("192.0.2.1"), Some(IpAddr::from([192, 0, 2, 1])));
        assert_eq!(literal("[2001:db8::1]"), v6("2001:db8::1"));
        assert_eq!(literal("[::ffff:127.0.0.1]"), v6("::ffff:127.0.0.1"));
        for localhost in ["localhost", "a.localhost"] {
            assert_eq!(literal(localhost), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        }
        for name in
            ["", "[", "[::1", "[192.0.2.1]", "a.test", "h1", "1.2.3", "alocalhost", "2a::1g"]
        {
            assert_eq!(literal(name), None, "{name}");
        }
    }
}
