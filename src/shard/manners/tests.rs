//! Tests of manners without a shard: what they promise to webmasters and to the shard.

use super::super::out::Kept;
use super::super::{Notice, Plan};
use super::*;
use crate::base::hash_key::test_key;
use crate::base::limits::ERRAND_COUNT_MAX;
use crate::crawl::flow::{Penalty, TurnPlace};
use crate::io::sim::Sim;
use std::net::IpAddr;

#[test]
fn a_url_out_of_tries_is_a_dead_letter_everywhere_however_its_origin_failed() {
    let causes = Outcome::ALL.into_iter().filter(|of| of.row().penalty == Penalty::BackOff);
    assert!(causes.clone().any(|cause| cause == Outcome::CutTime));
    for cause in causes {
        assert!(is_failure(out_of_tries(Some(cause))), "{}", cause.name());
    }
    assert_eq!(out_of_tries(Some(Outcome::ConnectRefused)), Outcome::ConnectRefused);
    assert_eq!(out_of_tries(None), Outcome::RobotsUnreachable);
}

fn manners() -> Manners {
    let sim = Sim::new(7);
    let (control, _notices) = sim.mailbox::<Notice>(8);
    let plan = Plan {
        settings: Settings { domain_delay_ms: 500, ..Settings::default() },
        hash_key: test_key(),
        placement: Placement::new(2),
        upstreams: Vec::new(),
        homes: hashbrown::HashSet::new(),
        extra_ca: None,
        has_budget: false,
        sabotage: None,
        past: None,
        generation: 0,
    };
    let kit = Kit::new(sim.world(0), ShardIndex(0), plan, control);
    let second = Duration::from_secs(1);
    Manners::new(&kit, Health::default(), RobotsCache::new("nephila", second, second))
}

fn url(number: u32) -> Url {
    Url::parse(&format!("http://host{number}.test/page")).expect("a URL")
}

/// Returns an address and the name of a host whose lines both belong to the shard that asks.
fn own_place(manners: &Manners) -> (IpAddr, String) {
    let is_own = |place| manners.placement.of_turn(&manners.hash_key, place) == manners.index;
    let addresses = (1..=255).map(|last| IpAddr::from([10, 0, 0, last]));
    let address = addresses.into_iter().find(|address| is_own(TurnPlace::Address(*address)));
    let domain = |name: &str| manners.hash_key.hash(name.as_bytes()) as u64;
    let names = (0..255).map(|number| format!("host{number}.test"));
    let name = names.into_iter().find(|name| is_own(TurnPlace::Domain(domain(name))));
    (address.expect("an own address"), name.expect("an own domain"))
}

#[test]
fn of_robots_txts_that_have_moved_no_more_are_kept_than_the_bound_says() {
    let mut manners = manners();
    let mut moves =
        |number: usize| manners.move_robots(&format!("http://host{number}.test"), url(1), 1);
    assert!((0..ERRAND_COUNT_MAX).all(&mut moves));
    assert!(!moves(ERRAND_COUNT_MAX), "the table is full");
    assert!(moves(0), "an origin that is already kept stays");
    assert_eq!(manners.probe.count(Count::ErrandsRefused), 1);
}

#[test]
fn an_unused_turn_frees_its_place() {
    let mut manners = manners();
    let (mut out, now) = (Kept::default(), Time::from_ms(9_000));
    let (address, name) = own_place(&manners);
    let mut pace = Pace::default();
    let mut take = |manners: &mut Manners, now| {
        let held = manners.held(&name, None, &mut pace);
        let turn = manners.take_turns(held, &mut pace, address, now, &mut out);
        let Turn::Held(held) = turn else { return false };
        let used_at = (now > Time::from_ms(9_000)).then_some(now);
        assert!(manners.give_back(held, &mut pace, used_at, &mut out), "its own lines move");
        true
    };
    assert!(take(&mut manners, now) && take(&mut manners, now), "the first visit made no request");
    assert!(take(&mut manners, now + Duration::from_millis(1)));
    assert!(!take(&mut manners, now + Duration::from_millis(2)), "the third visit made a request");
    manners.assert_returned();
    assert!(out.letters.is_empty());
}

#[test]
fn nobody_waits_for_a_domain_with_an_address_in_hand() {
    let mut manners = manners();
    let (mut out, now) = (Kept::default(), Time::from_ms(9_000));
    let (address, name) = own_place(&manners);
    let (mut first, mut second) = (Pace::default(), Pace::default());
    let held = manners.held(&name, None, &mut first);
    let Turn::Held(held) = manners.take_turns(held, &mut first, address, now, &mut out) else {
        panic!("both places are free");
    };
    // Another host of the domain was called for its address, and finds the domain taken.
    let other = format!("www.{name}");
    let granted = Some(TurnPlace::Address(IpAddr::from([10, 0, 0, 77])));
    let turns = manners.held(&other, granted, &mut second);
    let waits = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let turn = manners.take_turns(turns, &mut second, address, now, &mut out);
        matches!(turn, Turn::InLine)
    }));
    assert!(waits.is_err(), "waiting for a domain while holding an address panics");
    assert!(manners.give_back(held, &mut first, None, &mut Kept::default()));
}

#[test]
#[should_panic(expected = "a visit has lost its turns")]
fn a_visit_that_forgets_its_turns_is_found() {
    let manners = manners();
    drop(manners.held("host1.test", None, &mut Pace::default()));
    manners.assert_returned();
}
