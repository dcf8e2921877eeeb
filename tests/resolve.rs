//! The resolver against name servers in simulation: every name is queried once, failures lead to
//! the next server, and only public addresses get through.

use nephila::base::Time;
use nephila::base::limits::{
    DNS_ADDRESS_COUNT_MAX, DNS_FAILURE_SECONDS, DNS_IN_FLIGHT_MAX, DNS_NEGATIVE_SECONDS_MAX,
    DNS_STRAY_COUNT_MAX, DNS_TTL_SECONDS_MAX, DNS_TTL_SECONDS_MIN,
};
use nephila::crawl::flow::ResolveError;
use nephila::crawl::resolve::{Address, DnsSettings, Resolver};
use nephila::io::sim::{Faults, NetModel, START, Sim, SimStream, SimWorld, Unknown};
use nephila::io::{Datagram, Listener, Net, Spawn, Stream};
use nephila::proto::dnswire::{self, FrameReader, Kind, Query, Rcode, encode_answer};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const FIRST: &str = "192.0.2.53:53";
const SECOND: &str = "192.0.2.54:53";
const TIMEOUT_MS: u64 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Udp,
    Tcp,
}

/// The queries that reached a server, in order.
type Log = Rc<RefCell<Vec<(String, Kind, Carrier)>>>;

/// Runs a name server at `at`. `brain` gives the messages to send back, in order.
fn serve(
    world: &SimWorld,
    at: &str,
    brain: impl Fn(&Query, Carrier) -> Vec<Vec<u8>> + 'static,
) -> Log {
    let (log, brain, at): (Log, _, SocketAddr) =
        (Log::default(), Rc::new(brain), at.parse().unwrap());
    let socket = world.datagram(at, None).unwrap();
    let (own_log, own_brain) = (log.clone(), brain.clone());
    world.spawn(async move {
        while let Ok((message, from)) = socket.receive(Time::NEVER).await {
            let query = dnswire::decode_query(&message).unwrap();
            own_log.borrow_mut().push((query.name.clone(), query.kind.unwrap(), Carrier::Udp));
            for reply in own_brain(&query, Carrier::Udp) {
                socket.send(&reply, from).unwrap();
            }
        }
    });
    let (listener, own_log) = (world.listen(at).unwrap(), log.clone());
    world.spawn(async move {
        while let Ok(mut stream) = listener.accept().await {
            let query = read_query(&mut stream).await;
            own_log.borrow_mut().push((query.name.clone(), query.kind.unwrap(), Carrier::Tcp));
            for reply in brain(&query, Carrier::Tcp) {
                let mut frame = Vec::new();
                dnswire::encode_frame(&reply, &mut frame).unwrap();
                let _ = stream.send(frame, Time::NEVER).await;
            }
            // Closing while bytes are on their way would reset the connection, so the server waits
            // for the peer.
            let _ = stream.receive(Time::NEVER).await;
        }
    });
    log
}

async fn read_query(stream: &mut SimStream) -> Query {
    let mut reader = FrameReader::new();
    loop {
        let chunk = stream.receive(Time::NEVER).await.ok().flatten().unwrap();
        if let Some(message) = reader.push(&mut &chunk[..]).unwrap() {
            let mut query = dnswire::decode_query(message).unwrap();
            query.answer_bytes_max = u16::MAX;
            return query;
        }
    }
}

/// Returns an answer with those of `addresses` that are of the queried kind.
fn found(query: &Query, addresses: &[&str], ttl_seconds: u32) -> Vec<Vec<u8>> {
    let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
    vec![encode_answer(query, &addresses, ttl_seconds, Rcode::NoError, false)]
}

fn refusal(query: &Query, rcode: Rcode) -> Vec<Vec<u8>> {
    vec![encode_answer(query, &[], 300, rcode, false)]
}

fn settings() -> DnsSettings {
    DnsSettings {
        upstreams: vec![FIRST.parse().unwrap(), SECOND.parse().unwrap()],
        timeout_ms: TIMEOUT_MS,
        tries: 4,
        allow_private: false,
    }
}

/// Makes a simulation with the servers' world, and the resolver in another world.
fn stage(seed: u64) -> (Sim, SimWorld, Resolver<SimWorld>) {
    let sim = Sim::new(seed);
    let (servers, own) = (sim.world(0), sim.world(1));
    (sim, servers, Resolver::new(own, settings()))
}

fn ips(address: &Address) -> Vec<String> {
    address.ips.iter().map(IpAddr::to_string).collect()
}

fn lookup(sim: &Sim, resolver: &Resolver<SimWorld>, host: &str) -> Result<Address, ResolveError> {
    sim.block_on(resolver.lookup(host)).unwrap()
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

#[test]
fn a_name_is_asked_for_once_and_then_remembered_until_its_time_is_over() {
    let (sim, servers, resolver) = stage(1);
    let log = serve(&servers, FIRST, |query, _| found(query, &["8.8.8.8", "8.8.4.4"], 300));
    assert_eq!(resolver.cached("a.test"), None);
    let address = lookup(&sim, &resolver, "a.test").unwrap();
    assert_eq!(ips(&address), ["8.8.8.8", "8.8.4.4"]);
    let answered_at = sim.now();
    assert_eq!(address.expires, answered_at + seconds(300));
    assert_eq!(lookup(&sim, &resolver, "a.test"), Ok(address.clone()));
    assert_eq!(sim.now(), answered_at, "an answer from the cache takes no time");
    assert_eq!(log.borrow().as_slice(), [("a.test".into(), Kind::A, Carrier::Udp)]);
    sim.run_until(address.expires - Duration::from_nanos(1)).unwrap();
    assert_eq!(resolver.cached("a.test"), Some(Ok(address.clone())));
    sim.run_until(address.expires).unwrap();
    assert_eq!(resolver.cached("a.test"), None);
    assert!(lookup(&sim, &resolver, "a.test").unwrap().expires > address.expires);
    assert_eq!((log.borrow().len(), resolver.query_count(), resolver.cached_count()), (2, 2, 2));
}

#[test]
fn times_to_live_are_clamped() {
    let (sim, servers, resolver) = stage(2);
    serve(&servers, FIRST, |query, _| {
        let ttl = if query.name == "short.test" { 0 } else { 2_000_000_000 };
        found(query, &["8.8.8.8"], ttl)
    });
    let hold = |host| lookup(&sim, &resolver, host).unwrap().expires.since(sim.now());
    assert_eq!(hold("short.test"), seconds(DNS_TTL_SECONDS_MIN));
    assert_eq!(hold("long.test"), seconds(DNS_TTL_SECONDS_MAX));
}

#[test]
fn everyone_who_waits_for_a_name_shares_one_question() {
    let (sim, servers, resolver) = stage(3);
    let log = serve(&servers, FIRST, |query, _| found(query, &["8.8.8.8"], 300));
    let world = sim.world(1);
    let answered = Rc::new(Cell::new(0));
    for _ in 0..50 {
        let (resolver, answered) = (resolver.clone(), answered.clone());
        world.spawn(async move {
            assert_eq!(ips(&resolver.lookup("a.test").await.unwrap()), ["8.8.8.8"]);
            answered.set(answered.get() + 1);
        });
    }
    sim.run_until_idle().unwrap();
    assert_eq!((answered.get(), log.borrow().len(), resolver.in_flight_count()), (50, 1, 0));
}

#[test]
fn a_caller_that_gives_up_takes_nothing_from_the_others() {
    use std::task::{Context, Waker};
    let (sim, servers, resolver) = stage(4);
    let log = serve(&servers, FIRST, |query, _| found(query, &["8.8.8.8"], 300));
    let mut first = Box::pin(resolver.lookup("a.test"));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let second = resolver.lookup("a.test");
    drop(first);
    assert_eq!(ips(&sim.block_on(second).unwrap().unwrap()), ["8.8.8.8"]);
    assert_eq!(log.borrow().len(), 1);
}

#[test]
fn silence_leads_to_the_next_server_and_a_silent_one_is_asked_last() {
    let (sim, servers, resolver) = stage(5);
    let silent = serve(&servers, FIRST, |_, _| vec![]);
    let log = serve(&servers, SECOND, |query, _| found(query, &["8.8.8.8"], 300));
    for round in 0..3 {
        let begun = sim.now();
        assert!(lookup(&sim, &resolver, &format!("h{round}.test")).is_ok());
        assert!(sim.now().since(begun) >= Duration::from_millis(TIMEOUT_MS));
    }
    let begun = sim.now();
    assert!(lookup(&sim, &resolver, "h9.test").is_ok());
    assert!(
        sim.now().since(begun) < Duration::from_millis(TIMEOUT_MS),
        "the silent server is asked last"
    );
    assert_eq!((silent.borrow().len(), log.borrow().len()), (3, 4));
}

#[test]
fn a_failure_or_a_refusal_leads_to_the_next_server_at_once() {
    for rcode in [Rcode::ServerFailure, Rcode::Refused, Rcode::NotImplemented, Rcode::FormatError] {
        let (sim, servers, resolver) = stage(6);
        let failing = serve(&servers, FIRST, move |query, _| refusal(query, rcode));
        let log = serve(&servers, SECOND, |query, _| found(query, &["8.8.8.8"], 300));
        assert!(lookup(&sim, &resolver, "a.test").is_ok(), "{rcode:?}");
        assert!(sim.now().since(START) < Duration::from_millis(TIMEOUT_MS));
        assert_eq!((failing.borrow().len(), log.borrow().len()), (1, 1));
    }
}

#[test]
fn a_lookup_that_nobody_answers_ends_after_its_tries_and_is_not_repeated_at_once() {
    let (sim, servers, resolver) = stage(7);
    let silent = [FIRST, SECOND].map(|at| serve(&servers, at, |_, _| vec![]));
    assert_eq!(lookup(&sim, &resolver, "a.test"), Err(ResolveError::Failed));
    let took = sim.now().since(START);
    assert!(took > Duration::from_millis(4 * TIMEOUT_MS) && took < Duration::from_secs(10));
    assert_eq!(silent.clone().map(|log| log.borrow().len()), [2, 2]);
    let failed_at = sim.now();
    assert_eq!(lookup(&sim, &resolver, "a.test"), Err(ResolveError::Failed));
    assert_eq!(sim.now(), failed_at);
    sim.run_until(failed_at + seconds(DNS_FAILURE_SECONDS)).unwrap();
    assert_eq!(resolver.cached("a.test"), None);
}

#[test]
fn servers_that_are_not_there_fail_the_lookup() {
    for unknown in [Unknown::Refuse, Unknown::Silence] {
        let (sim, _, resolver) = stage(8);
        sim.set_net(NetModel { unknown, ..NetModel::default() });
        assert_eq!(lookup(&sim, &resolver, "a.test"), Err(ResolveError::Failed));
    }
    let sim = Sim::new(8);
    let resolver = Resolver::new(sim.world(1), DnsSettings { upstreams: vec![], ..settings() });
    assert_eq!(lookup(&sim, &resolver, "a.test"), Err(ResolveError::Failed));
}

#[test]
fn with_a_third_of_all_datagrams_lost_names_are_still_found() {
    let (sim, servers, _) = stage(9);
    let faults = Faults { datagram_loss_per_mille: 333, ..Faults::default() };
    sim.set_net(NetModel { faults, ..NetModel::default() });
    for at in [FIRST, SECOND] {
        serve(&servers, at, |query, _| found(query, &["8.8.8.8"], 300));
    }
    let resolver = Resolver::new(sim.world(1), DnsSettings { tries: 20, ..settings() });
    for index in 0..100 {
        assert!(lookup(&sim, &resolver, &format!("h{index}.test")).is_ok());
    }
    assert!(resolver.query_count() > 150, "some queries were lost and repeated");
}

#[test]
fn an_answer_that_does_not_fit_comes_over_tcp() {
    let (sim, servers, resolver) = stage(10);
    sim.set_net(NetModel { segment_bytes_max: 7, ..NetModel::default() });
    let log = serve(&servers, FIRST, |query, carrier| {
        let addresses: Vec<IpAddr> = (0..200).map(|last| IpAddr::from([8, 8, 8, last])).collect();
        let truncated = carrier == Carrier::Udp;
        vec![encode_answer(query, &addresses, 300, Rcode::NoError, truncated)]
    });
    let address = lookup(&sim, &resolver, "a.test").unwrap();
    assert_eq!(address.ips.len(), DNS_ADDRESS_COUNT_MAX);
    let carriers: Vec<_> = log.borrow().iter().map(|(_, _, carrier)| *carrier).collect();
    assert_eq!(carriers, [Carrier::Udp, Carrier::Tcp]);
}

#[test]
fn a_server_that_fails_over_tcp_leads_to_the_next() {
    type Brain = fn(&Query) -> Vec<Vec<u8>>;
    let brains: [Brain; 4] = [
        |_| vec![],
        |_| vec![vec![0; 5]],
        |_| vec![vec![0; 20_000]],
        |query| vec![encode_answer(query, &[], 300, Rcode::NoError, true)],
    ];
    for brain in brains {
        let (sim, servers, resolver) = stage(11);
        let log = serve(&servers, FIRST, move |query, carrier| match carrier {
            Carrier::Udp => vec![encode_answer(query, &[], 300, Rcode::NoError, true)],
            Carrier::Tcp => brain(query),
        });
        serve(&servers, SECOND, |query, _| found(query, &["8.8.4.4"], 300));
        assert_eq!(ips(&lookup(&sim, &resolver, "a.test").unwrap()), ["8.8.4.4"]);
        assert_eq!(log.borrow().len(), 2);
    }
}

/// Answers to `query` with another id.
fn forged(query: &Query, count: u32) -> Vec<Vec<u8>> {
    let (true_id, mut query) = (query.id, query.clone());
    let ids = (1..=count as u16).map(|step| true_id.wrapping_add(step));
    ids.flat_map(|id| {
        query.id = id;
        found(&query, &["6.6.6.6"], 300)
    })
    .collect()
}

#[test]
fn forged_and_broken_replies_are_passed_over_until_the_true_one_comes() {
    let (sim, servers, resolver) = stage(12);
    sim.set_net(NetModel { latency_us_min: 500, latency_us_max: 500, ..NetModel::default() });
    let log = serve(&servers, FIRST, |query, _| {
        let mut replies = forged(query, 3);
        let mut other_name = Vec::new();
        dnswire::encode_query(query.id, "evil.test", Kind::A, &mut other_name).unwrap();
        let other_name = dnswire::decode_query(&other_name).unwrap();
        replies.extend(found(&other_name, &["6.6.6.6"], 300));
        replies.push(vec![]);
        replies.push(query.id.to_be_bytes().to_vec());
        replies.extend(found(query, &["8.8.8.8"], 300));
        replies
    });
    assert_eq!(ips(&lookup(&sim, &resolver, "a.test").unwrap()), ["8.8.8.8"]);
    assert_eq!((log.borrow().len(), resolver.query_count()), (1, 1));
}

#[test]
fn a_flood_of_guesses_makes_the_question_go_over_tcp() {
    let (sim, servers, resolver) = stage(13);
    let log = serve(&servers, FIRST, |query, carrier| match carrier {
        Carrier::Udp => forged(query, DNS_STRAY_COUNT_MAX),
        Carrier::Tcp => found(query, &["8.8.8.8"], 300),
    });
    assert_eq!(ips(&lookup(&sim, &resolver, "a.test").unwrap()), ["8.8.8.8"]);
    assert_eq!(log.borrow().len(), 2);
}

#[test]
fn a_name_that_does_not_exist_is_not_asked_for_again() {
    let (sim, servers, resolver) = stage(14);
    let log = serve(&servers, FIRST, |query, _| refusal(query, Rcode::NoName));
    assert_eq!(lookup(&sim, &resolver, "a.test"), Err(ResolveError::NoName));
    assert_eq!(log.borrow().as_slice(), [("a.test".into(), Kind::A, Carrier::Udp)]);
    let answered_at = sim.now();
    sim.run_until(answered_at + seconds(299)).unwrap();
    assert_eq!(resolver.cached("a.test"), Some(Err(ResolveError::NoName)));
    sim.run_until(answered_at + seconds(300)).unwrap();
    assert_eq!(resolver.cached("a.test"), None);
}

#[test]
fn what_cannot_be_a_name_is_none_and_is_asked_of_nobody() {
    let (sim, servers, resolver) = stage(15);
    let log = serve(&servers, FIRST, |query, _| found(query, &["8.8.8.8"], 300));
    let long = "a".repeat(64);
    for host in ["", "a..b", "a b", long.as_str()] {
        assert_eq!(lookup(&sim, &resolver, host), Err(ResolveError::NoName), "{host}");
    }
    assert!(log.borrow().is_empty());
    sim.run_until(START + seconds(DNS_NEGATIVE_SECONDS_MAX)).unwrap();
    assert_eq!(resolver.cached("a..b"), None);
}

#[test]
fn ipv6_addresses_are_asked_for_when_there_are_no_others() {
    let (sim, servers, resolver) = stage(16);
    let log = serve(&servers, FIRST, |query, _| match query.name.as_str() {
        "six.test" => found(query, &["2001:4860::1"], 300),
        "both.test" => found(query, &["8.8.8.8", "2001:4860::2"], 300),
        _ => found(query, &[], 300),
    });
    assert_eq!(ips(&lookup(&sim, &resolver, "six.test").unwrap()), ["2001:4860::1"]);
    assert_eq!(lookup(&sim, &resolver, "none.test"), Err(ResolveError::NoName));
    assert_eq!(ips(&lookup(&sim, &resolver, "both.test").unwrap()), ["8.8.8.8"]);
    assert_eq!(log.borrow().len(), 5);
    let other = |host: &str| sim.block_on(resolver.other_family(host)).unwrap();
    for _ in 0..2 {
        assert_eq!(ips(&other("both.test").unwrap()), ["2001:4860::2"]);
        assert_eq!(
            other("six.test"),
            Err(ResolveError::NoName),
            "the name has no address of the first family"
        );
        assert_eq!(other("8.8.8.8"), Err(ResolveError::NoName));
    }
    assert_eq!(log.borrow().len(), 6, "the other family is remembered too");
    assert_eq!(ips(&lookup(&sim, &resolver, "both.test").unwrap()), ["8.8.8.8"]);
}

#[test]
fn only_public_addresses_of_a_name_are_kept() {
    let (sim, servers, resolver) = stage(17);
    let brain = |query: &Query, _| match query.name.as_str() {
        "mixed.test" => found(query, &["127.0.0.1", "8.8.8.8", "10.0.0.1"], 300),
        "metadata.test" => found(query, &["169.254.169.254"], 300),
        _ => found(query, &["::ffff:127.0.0.1", "fc00::1"], 300),
    };
    serve(&servers, FIRST, brain);
    assert_eq!(ips(&lookup(&sim, &resolver, "mixed.test").unwrap()), ["8.8.8.8"]);
    for host in ["metadata.test", "six.test"] {
        for _ in 0..2 {
            assert_eq!(lookup(&sim, &resolver, host), Err(ResolveError::AddressRefused), "{host}");
        }
    }
    let lenient = DnsSettings { allow_private: true, ..settings() };
    let lenient = Resolver::new(sim.world(1), lenient);
    let address = lookup(&sim, &lenient, "mixed.test").unwrap();
    assert_eq!(ips(&address), ["127.0.0.1", "8.8.8.8", "10.0.0.1"]);
}

#[test]
fn a_name_that_turns_private_is_refused_when_it_is_asked_for_again() {
    let (sim, servers, resolver) = stage(18);
    let asked_count = Cell::new(0);
    serve(&servers, FIRST, move |query, _| {
        asked_count.set(asked_count.get() + 1);
        found(query, &[if asked_count.get() == 1 { "8.8.8.8" } else { "192.168.0.1" }], 0)
    });
    let address = lookup(&sim, &resolver, "rebind.test").unwrap();
    sim.run_until(address.expires).unwrap();
    assert_eq!(lookup(&sim, &resolver, "rebind.test"), Err(ResolveError::AddressRefused));
}

#[test]
fn hosts_that_are_addresses_are_judged_and_asked_of_nobody() {
    let (sim, _, resolver) = stage(19);
    let refused = Some(Err(ResolveError::AddressRefused));
    for host in ["127.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "localhost", "a.localhost", "0.0.0.0"] {
        assert_eq!(resolver.cached(host), refused, "{host}");
        assert_eq!(resolver.cached(host), refused, "{host} again");
    }
    assert_eq!(ips(&lookup(&sim, &resolver, "8.8.8.8").unwrap()), ["8.8.8.8"]);
    let v6 = lookup(&sim, &resolver, "[2001:4860::1]").unwrap();
    assert_eq!((ips(&v6), v6.expires), (vec!["2001:4860::1".into()], Time::NEVER));
    assert_eq!(resolver.query_count(), 0);
}

#[test]
fn lookups_beyond_the_bound_wait_for_a_place() {
    let (sim, servers, _) = stage(20);
    sim.set_net(NetModel { latency_us_min: 1_000, latency_us_max: 1_000, ..NetModel::default() });
    let log = serve(&servers, FIRST, |query, _| found(query, &["8.8.8.8"], 300));
    let world = sim.world(1);
    let resolver = Resolver::new(world.clone(), settings());
    let answered = Rc::new(Cell::new(0));
    let count = DNS_IN_FLIGHT_MAX * 2 + 10;
    for index in 0..count {
        let (resolver, answered) = (resolver.clone(), answered.clone());
        world.spawn(async move {
            resolver.lookup(&format!("h{index}.test")).await.unwrap();
            answered.set(answered.get() + 1);
        });
    }
    sim.run_until(START + Duration::from_micros(1_500)).unwrap();
    assert_eq!((log.borrow().len(), resolver.in_flight_count()), (DNS_IN_FLIGHT_MAX, count));
    resolver.prefetch("soon.test");
    assert_eq!(resolver.in_flight_count(), count, "the lookups that wait come first");
    sim.run_until_idle().unwrap();
    assert_eq!((answered.get(), log.borrow().len(), resolver.count()), (count, count, count));
}

#[test]
fn a_prefetched_name_is_there_when_it_is_wanted() {
    let (sim, servers, resolver) = stage(21);
    let log = serve(&servers, FIRST, |query, _| found(query, &["8.8.8.8"], 300));
    resolver.prefetch("a.test");
    resolver.prefetch("a.test");
    sim.run_until_idle().unwrap();
    assert!(matches!(resolver.cached("a.test"), Some(Ok(_))));
    resolver.prefetch("a.test");
    sim.run_until_idle().unwrap();
    assert_eq!(log.borrow().len(), 1);
}
