//! Tests of the frontier as a whole, one promise each. `model_tests` has the random ones.

use super::*;
use crate::base::WallTime;
use crate::base::hash_key::test_key;
use crate::base::pack::{Pack, Unpack};
use crate::crawl::flow::{Trail, Via};
use crate::proto::url::HostKey;
use std::collections::HashSet;

pub fn candidate(text: &str, class: Class) -> Candidate {
    let url = Url::parse(text).expect("a test's URL");
    Candidate { url, depth: 1, class, via: Via::Link, trail: Box::default() }
}

pub fn offer(frontier: &mut Frontier, text: &str, class: Class) -> Offered {
    frontier.offer(candidate(text, class), Time::ZERO)
}

fn next(frontier: &mut Frontier) -> Option<(HostId, String)> {
    let host = frontier.pop_ready()?;
    let queued = frontier.next_url(host).url()?;
    Some((host, queued.url.to_string()))
}

#[test]
fn a_url_is_queued_once_and_comes_back_as_it_was_written() {
    let mut frontier = Frontier::<_, ()>::new(Caps::default(), test_key());
    let texts = ["http://h.test/a?b=c", "https://h.test:8443/%7Ex", "http://[2001:db8::1]:81/"];
    for (index, text) in texts.into_iter().enumerate() {
        let trail: Trail = (0..index as u64).collect();
        let found =
            Candidate { depth: 9, via: Via::Redirect, trail, ..candidate(text, Class::High) };
        assert_eq!(frontier.offer(found.clone(), Time::ZERO), Offered::Queued);
        assert_eq!(frontier.offer(found.clone(), Time::ZERO), Offered::Known);
        let host = frontier.pop_ready().expect("ready at once");
        assert_eq!(frontier.peek_origin(host), Some(Origin::of(&found.url)));
        assert_eq!(frontier.next_url(host), Next::Url(found.into()));
        assert_eq!(frontier.next_url(host), Next::Nothing);
        frontier.release(host, Time::ZERO);
    }
    assert!(frontier.is_drained());
}

#[test]
fn an_idle_host_remembers_when_it_may_be_asked() {
    let mut frontier = Frontier::<_, ()>::new(Caps::default(), test_key());
    offer(&mut frontier, "http://h.test/1", Class::Normal);
    let (host, _) = next(&mut frontier).expect("ready");
    frontier.release(host, Time::from_ms(1_000));
    assert_eq!(frontier.host_state(host), HostState::Idle);
    frontier.offer(candidate("http://h.test/2", Class::Urgent), Time::from_ms(10));
    assert_eq!((frontier.host_state(host), frontier.pop_ready()), (HostState::Waiting, None));
    frontier.advance(Time(999_999_999));
    assert_eq!(frontier.pop_ready(), None);
    assert!(frontier.next_due().is_some_and(|due| due <= Time::from_ms(1_000)));
    frontier.advance(Time::from_ms(1_000));
    assert_eq!(frontier.pop_ready(), Some(host));
}

#[test]
fn a_busy_host_is_not_popped_again() {
    let mut frontier = Frontier::<_, ()>::new(Caps::default(), test_key());
    offer(&mut frontier, "http://h.test/1", Class::Normal);
    offer(&mut frontier, "http://h.test/2", Class::Normal);
    let (host, _) = next(&mut frontier).expect("ready");
    offer(&mut frontier, "http://h.test/3", Class::Urgent);
    frontier.advance(Time::from_ms(1 << 40));
    assert_eq!((frontier.pop_ready(), frontier.busy_count()), (None, 1));
    frontier.release(host, Time::ZERO);
    assert_eq!(next(&mut frontier), Some((host, "http://h.test/3".into())));
}

#[test]
fn without_a_delay_a_released_host_is_ready_within_the_same_tick() {
    let mut frontier = Frontier::<_, ()>::new(Caps::default(), test_key());
    offer(&mut frontier, "http://h.test/1", Class::Normal);
    offer(&mut frontier, "http://h.test/2", Class::Normal);
    frontier.advance(Time(1_500_000));
    let (host, _) = next(&mut frontier).expect("ready");
    frontier.release(host, Time(1_400_000));
    assert_eq!(frontier.pop_ready(), Some(host));
}

#[test]
fn a_retry_goes_first_and_its_host_waits() {
    let mut frontier = Frontier::<_, ()>::new(Caps::default(), test_key());
    for path in 1..=3 {
        offer(&mut frontier, &format!("http://h.test/{path}"), Class::Normal);
    }
    let host = frontier.pop_ready().expect("ready");
    let mut queued = frontier.next_url(host).url().expect("queued");
    queued.tries += 1;
    frontier.requeue(host, queued.clone(), Time::from_ms(5_000));
    frontier.release(host, Time::from_ms(1_000));
    frontier.advance(Time::from_ms(4_999));
    assert_eq!(frontier.pop_ready(), None, "the retry's wait outlasts the release's");
    frontier.advance(Time::from_ms(5_000));
    assert_eq!(frontier.pop_ready(), Some(host));
    assert_eq!(frontier.next_url(host), Next::Url(queued));
    assert_eq!((frontier.host_fetched_count(host), frontier.host_queued_count(host)), (1, 2));
}

#[test]
fn a_better_url_moves_a_ready_host_forward() {
    let mut frontier = Frontier::<_, ()>::new(Caps::default(), test_key());
    offer(&mut frontier, "http://low.test/", Class::Low);
    offer(&mut frontier, "http://later.test/", Class::Low);
    offer(&mut frontier, "http://later.test/urgent", Class::Urgent);
    let (host, url) = next(&mut frontier).expect("ready");
    assert_eq!(
        (frontier.host_name(host), url.as_str()),
        ("later.test", "http://later.test/urgent")
    );
}

#[test]
fn a_drained_host_gives_up_all_it_had_and_is_idle() {
    let mut frontier = Frontier::<_, ()>::new(Caps::default(), test_key());
    for (path, class) in Class::ALL.into_iter().enumerate() {
        offer(&mut frontier, &format!("http://h.test/{path}"), class);
    }
    offer(&mut frontier, "http://other.test/", Class::Low);
    let host = frontier.host_by_key(HostKey::of(&test_key(), "h.test")).expect("met");
    let listed: Vec<_> = frontier.queued_in(host).collect();
    assert_eq!(listed.len(), 4);
    assert_eq!(frontier.drain_host(host), (listed, false));
    assert_eq!((frontier.host_state(host), frontier.pending_url_count()), (HostState::Idle, 1));
    assert_eq!(next(&mut frontier).map(|(_, url)| url), Some("http://other.test/".into()));
    assert_eq!(frontier.pop_ready(), None);
}

#[test]
fn a_host_at_its_page_cap_takes_no_more_and_fills_no_memory() {
    let mut frontier =
        Frontier::<_, ()>::new(Caps { host_page_count_max: 2, ..Caps::default() }, test_key());
    assert_eq!(offer(&mut frontier, "http://trap.test/1", Class::Normal), Offered::Queued);
    assert!(next(&mut frontier).is_some());
    assert_eq!(offer(&mut frontier, "http://trap.test/2", Class::Normal), Offered::Queued);
    for page in 3..100 {
        let offered = offer(&mut frontier, &format!("http://trap.test/{page}"), Class::Urgent);
        assert_eq!(offered, Offered::Dropped(DropReason::HostPagesFull));
    }
    assert_eq!(offer(&mut frontier, "http://other.test/", Class::Low), Offered::Queued);
    assert_eq!(frontier.sieve().figures().url_count, 3);
    assert_eq!(frontier.figures().dropped_count[DropReason::HostPagesFull as usize], 97);
}

#[test]
fn hosts_and_remembered_urls_are_bounded() {
    let caps = Caps { host_count_max: 1, ..Caps::default() };
    let mut frontier = Frontier::with_sieve(MemorySieve::default().limited_to(1), caps, test_key());
    assert_eq!(offer(&mut frontier, "http://a.test/", Class::Low), Offered::Queued);
    let dropped = offer(&mut frontier, "http://a.test/2", Class::Low);
    assert_eq!(dropped, Offered::Dropped(DropReason::SeenFull));
    let mut frontier = Frontier::<_, ()>::new(caps, test_key());
    assert_eq!(offer(&mut frontier, "http://a.test/", Class::Low), Offered::Queued);
    let dropped = offer(&mut frontier, "http://b.test/", Class::Low);
    assert_eq!(dropped, Offered::Dropped(DropReason::HostsFull));
}

#[test]
fn an_evicted_host_leaves_the_schedule_and_can_come_back() {
    let mut frontier =
        Frontier::<_, ()>::new(Caps { queued_count_max: 1, ..Caps::default() }, test_key());
    assert_eq!(offer(&mut frontier, "http://low.test/", Class::Low), Offered::Queued);
    assert_eq!(offer(&mut frontier, "http://high.test/", Class::High), Offered::Queued);
    assert_eq!(next(&mut frontier).map(|(_, url)| url), Some("http://high.test/".into()));
    assert_eq!((frontier.pop_ready(), frontier.pending_url_count()), (None, 0));
    assert_eq!(offer(&mut frontier, "http://low.test/2", Class::Low), Offered::Queued);
    assert_eq!(next(&mut frontier).map(|(_, url)| url), Some("http://low.test/2".into()));
}

#[test]
fn bytes_are_bounded_as_well_as_urls() {
    let mut frontier =
        Frontier::<_, ()>::new(Caps { queued_bytes_max: 1_000, ..Caps::default() }, test_key());
    for page in 0..200 {
        offer(&mut frontier, &format!("http://h{}.test/{page}", page % 7), Class::Low);
        assert!(frontier.pending_url_bytes() <= 1_000);
    }
    let long = format!("http://long.test/{}", "x".repeat(900));
    assert_eq!(offer(&mut frontier, &long, Class::Normal), Offered::Queued);
    assert!(frontier.pending_url_bytes() <= 1_000);
    let too_long = format!("http://long.test/{}", "x".repeat(1_000));
    let dropped = offer(&mut frontier, &too_long, Class::Urgent);
    assert_eq!(dropped, Offered::Dropped(DropReason::QueueFull));
}

#[test]
fn ready_hosts_share_the_choices_by_class() {
    let mut frontier = Frontier::<_, ()>::new(Caps::default(), test_key());
    for class in Class::ALL {
        for host in 0..200 {
            let text = format!("http://c{}h{host}.test/", class.index());
            offer(&mut frontier, &text, class);
        }
    }
    let mut shares = [0; 4];
    for _ in 0..150 {
        let host = frontier.pop_ready().expect("ready");
        shares[frontier.next_url(host).url().expect("queued").class.index()] += 1;
    }
    assert_eq!(shares, [80, 40, 20, 10]);
}

fn wall(time: Time) -> WallTime {
    WallTime(time.0 + 1_000)
}

fn unwall(wall: WallTime) -> Time {
    Time(wall.0 - 1_000)
}

fn image_of(frontier: &Frontier<MemorySieve>, host: HostId) -> Vec<u8> {
    let mut image = Vec::new();
    frontier.pack_host(host, &mut Pack(&mut image), wall);
    image
}

fn drain_urls(frontier: &mut Frontier<MemorySieve>, now: Time) -> Vec<Queued> {
    frontier.advance(now);
    let mut urls = Vec::new();
    while let Some(host) = frontier.pop_ready() {
        while let Next::Url(queued) = frontier.next_url(host) {
            urls.push(queued);
        }
    }
    urls
}

#[test]
fn a_host_comes_back_from_its_image_with_what_was_queued_in_flight_and_waiting() {
    let mut frontier = Frontier::<MemorySieve>::new(Caps::default(), test_key());
    let urls = ["http://h.test/a", "https://h.test/b", "http://h.test:8/c", "http://h.test/d"];
    for url in urls {
        offer(&mut frontier, url, Class::Normal);
    }
    frontier.advance(Time::from_ms(1));
    let host = frontier.pop_ready().expect("ready");
    let mut next = || match frontier.next_url(host) {
        Next::Url(queued) => queued,
        other => panic!("{other:?}"),
    };
    let first = next();
    let second = Queued { tries: 1, ..next() };
    frontier.retry_at(host, second.clone(), Time::from_ms(900));
    frontier.release(host, Time::from_ms(500));
    let image = image_of(&frontier, host);

    let mut again = Frontier::<MemorySieve>::new(Caps::default(), test_key());
    let back = again.unpack_host(&mut Unpack(&image), &Middle::Chunks, unwall).expect("an image");
    assert_eq!(again.host_eligible_at(back), Time::from_ms(500));
    assert_eq!(again.pending_url_count(), 4);
    assert!(drain_urls(&mut again, Time::from_ms(499)).is_empty(), "its next-eligible time holds");
    let early = drain_urls(&mut again, Time::from_ms(500));
    let texts: Vec<&str> = early.iter().map(|queued| queued.url.as_str()).collect();
    assert_eq!(texts, [first.url.as_str(), urls[2], urls[3]], "the URL in flight comes first");
    again.release(back, Time::ZERO);
    assert_eq!(drain_urls(&mut again, Time::from_ms(900)), [second]);
    for cut in 0..image.len() {
        let mut broken = Frontier::<MemorySieve>::new(Caps::default(), test_key());
        assert!(
            broken.unpack_host(&mut Unpack(&image[..cut]), &Middle::Chunks, unwall).is_err(),
            "cut at {cut}"
        );
    }
}

#[test]
fn what_ended_or_was_tried_since_the_image_is_a_stale_copy_in_its_queue() {
    let mut frontier = Frontier::<MemorySieve>::new(Caps::default(), test_key());
    for path in ["/ended", "/tried", "/left"] {
        offer(&mut frontier, &format!("http://h.test{path}"), Class::Normal);
    }
    let host = frontier.host_ids().next().expect("a host");
    let image = image_of(&frontier, host);
    let mut again = Frontier::<MemorySieve>::new(Caps::default(), test_key());
    let back = again.unpack_host(&mut Unpack(&image), &Middle::Chunks, unwall).expect("an image");
    let queued = |path: &str, tries| Queued {
        tries,
        ..candidate(&format!("http://h.test{path}"), Class::Normal).into()
    };
    again.retry_again(back, queued("/tried", 1), Time::from_ms(10));
    again.retry_again(back, queued("/tried", 2), Time::from_ms(20));
    again.end_again(back, queued("/ended", 0).url.fingerprint(&test_key()));
    assert_eq!(again.readmit(&queued("/new", 0)), Some(back));
    assert_eq!(again.readmit(&queued("/new", 0)).map(|_| ()), Some(()));
    again.end_again(back, queued("/new", 0).url.fingerprint(&test_key()));
    // The second image has the stale copies too: it may be read before they have come up.
    let image = image_of(&again, back);
    let mut third = Frontier::<MemorySieve>::new(Caps::default(), test_key());
    third.unpack_host(&mut Unpack(&image), &Middle::Chunks, unwall).expect("an image");
    for (frontier, stale_count) in [(&mut again, 5), (&mut third, 4)] {
        let left = drain_urls(frontier, Time::from_ms(30));
        assert_eq!(left, [queued("/tried", 2), queued("/left", 0)]);
        assert_eq!(frontier.figures().stale_count, stale_count);
    }
    assert_eq!(offer(&mut again, "http://h.test/new", Class::Normal), Offered::Known);
}

#[test]
fn each_host_carries_the_data_of_the_shard() {
    let mut frontier = Frontier::<MemorySieve, u32>::new(Caps::default(), test_key());
    for host in 0..10 {
        frontier.offer(candidate(&format!("http://h{host}.test/"), Class::Low), Time::ZERO);
    }
    frontier.host_ids().for_each(|host| *frontier.host_data(host) = host.0 * 3);
    assert!(frontier.host_ids().all(|host| *frontier.host_data(host) == host.0 * 3));
}

/// A sieve that answers `Later` to every fingerprint that it does not know, as a sieve on disk may.
#[derive(Default)]
struct LateSieve {
    known: HashSet<Fingerprint>,
    deferred: Vec<Candidate>,
}

impl Sieve for LateSieve {
    fn probe(&mut self, fingerprint: Fingerprint) -> Seen {
        if self.known.contains(&fingerprint) { Seen::Known } else { Seen::Later }
    }

    fn admit(&mut self, fingerprint: Fingerprint) {
        self.known.insert(fingerprint);
    }

    fn defer(&mut self, _: Fingerprint, candidate: &Candidate<&str>, _: Time) {
        self.deferred.push(candidate.owned());
    }

    fn settle(&mut self) -> Option<Candidate> {
        while let Some(candidate) = self.deferred.pop() {
            if self.known.insert(candidate.url.fingerprint(&test_key())) {
                return Some(candidate);
            }
        }
        None
    }

    fn deferred_count(&self) -> usize {
        self.deferred.len()
    }

    fn is_full(&self) -> bool {
        false
    }
}

#[test]
fn a_deferred_url_is_late_but_not_lost_nor_doubled() {
    let mut frontier =
        Frontier::<LateSieve, ()>::with_sieve(LateSieve::default(), Caps::default(), test_key());
    let found = candidate("http://h.test/", Class::Normal);
    assert_eq!(frontier.offer(found.clone(), Time::ZERO), Offered::Later);
    assert_eq!(frontier.offer(found.clone(), Time::ZERO), Offered::Later);
    assert!(!frontier.is_drained(), "the sieve holds a URL");
    assert_eq!(frontier.pop_ready(), None);
    assert_eq!(frontier.settle(Time::ZERO), 1);
    assert_eq!(frontier.offer(found.clone(), Time::ZERO), Offered::Known);
    let host = frontier.pop_ready().expect("ready");
    assert_eq!(frontier.next_url(host), Next::Url(found.into()));
    frontier.release(host, Time::ZERO);
    assert!(frontier.is_drained());
}

/// The URL is taken, tried again and again, and given up, as a journal records it without a
/// checkpoint in between. Every step leaves a copy in a queue or among the retries.
#[test]
fn of_all_copies_that_a_journal_leaves_only_the_one_put_back_is_handed_out() {
    let mut frontier = Frontier::<MemorySieve, ()>::new(Caps::default(), test_key());
    let url = Url::parse("http://h.test/x").expect("a URL");
    let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
    let taken: Queued = Candidate { url: url.clone(), depth: 1, class, via, trail }.into();
    let host = frontier.readmit(&taken).expect("a host");
    let mut lives = Vec::new();
    let mut tries = 0;
    for life in 0..4 {
        for more in 1..=3 {
            let again = Queued { tries: tries + more, ..taken.clone() };
            frontier.retry_again(host, again, Time::from_ms(10));
        }
        frontier.end_again(host, url.fingerprint(&test_key()));
        frontier.revive(&taken).expect("a life is left");
        tries = crate::base::limits::TRIES_PER_LIFE * (life + 1);
        lives.push(tries);
    }
    frontier.advance(Time::from_ms(60_000));
    assert_eq!(frontier.pop_ready(), Some(host));
    let handed_out: Vec<Queued> = std::iter::from_fn(|| frontier.next_url(host).url()).collect();
    assert_eq!(handed_out.len(), 1, "{handed_out:?}");
    assert_eq!(Some(&handed_out[0].tries), lives.last());
    assert_eq!(handed_out[0].tries_made(), 0);
}

#[test]
fn a_stale_copy_that_waits_for_its_time_stays_one_when_the_queue_has_run_dry() {
    let mut frontier = Frontier::<MemorySieve, ()>::new(Caps::default(), test_key());
    let url = Url::parse("http://h.test/x").expect("a URL");
    let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
    let taken: Queued = Candidate { url: url.clone(), depth: 1, class, via, trail }.into();
    let host = frontier.readmit(&taken).expect("a host");
    for (tries, at_ms) in [(2, 50), (3, 10)] {
        let again = Queued { tries, ..taken.clone() };
        frontier.retry_again(host, again, Time::from_ms(at_ms));
    }
    frontier.advance(Time::from_ms(10));
    assert_eq!(frontier.pop_ready(), Some(host));
    assert_eq!(frontier.next_url(host).url().map(|queued| queued.tries), Some(3));
    frontier.complete(host, url.fingerprint(&test_key()));
    assert_eq!(frontier.next_url(host), Next::Nothing);
    frontier.release(host, Time::ZERO);
    frontier.advance(Time::from_ms(50));
    assert_eq!(frontier.pop_ready(), Some(host));
    assert_eq!(frontier.next_url(host), Next::Nothing, "the copy is stale");
}
