//! Crawls that were killed and resumed: what the crawler may forget, and what it must still do.

use super::script::{Asked, LAWFUL, MS, SECOND, UNIX_SECONDS, page, robots, verdict_of};
use nephila::base::Time;
use nephila::lab::audit::{Kind, Stop, Terms, Verdict};

const OPEN: &str = "User-agent: *\nDisallow:";

/// A process is killed at 100 s and another begins at 110 s. An answer is certainly durable after
/// half a second. A page may be fetched again if it ended less than four seconds before the kill.
fn terms() -> Terms {
    let [at, back] = [100, 110].map(|second| Time((UNIX_SECONDS + second) * SECOND));
    let stop = Stop { at, back, forgotten_ms: 500, repeated_ms: 4_000, is_log_cut: false };
    Terms { stops: vec![stop], repeat_count_max: Some(2), ..Terms::default() }
}

fn verdict(asked: &[Asked]) -> Verdict {
    verdict_of(asked, &terms())
}

fn found(asked: &[Asked]) -> Vec<(Kind, u64)> {
    verdict(asked).violation_counts.into_iter().collect()
}

fn put_off(start: u64, retry_after: &str) -> Asked {
    Asked { status: 503, ..page(start, "a", "/busy") }.telling("retry-after", retry_after)
}

#[test]
fn a_page_that_ended_just_before_the_stop_may_be_fetched_again_and_an_older_one_may_not() {
    let again = |seconds| {
        let second = page(111 * SECOND, "a", "/");
        found(&[robots(SECOND, "a", OPEN), page(seconds * SECOND, "a", "/"), second])
    };
    assert_eq!(again(97), LAWFUL);
    assert_eq!(again(95), [(Kind::FetchedTwice, 1)]);
    // The new process knows the robots.txt that it has fetched itself.
    let twice = [page(111 * SECOND, "a", "/"), page(113 * SECOND, "a", "/")];
    let all = [&[robots(SECOND, "a", OPEN)][..], &twice].concat();
    assert_eq!(found(&all), [(Kind::FetchedTwice, 1)]);
}

#[test]
fn a_request_that_arrives_while_nobody_is_there_was_sent_before() {
    let late = [page(100 * SECOND + 5, "a", "/"), page(111 * SECOND, "a", "/")];
    assert_eq!(found(&[&[robots(SECOND, "a", OPEN)][..], &late].concat()), LAWFUL);
}

#[test]
fn gaps_are_owed_across_a_stop() {
    let asked = |second_ms| {
        let two = [page(99_900 * MS, "a", "/1"), page(second_ms * MS, "a", "/2")];
        let terms = Terms { delay_ms: 15_000, ..terms() };
        let all = [&[robots(SECOND, "a", OPEN)][..], &two].concat();
        verdict_of(&all, &terms).count(Kind::HostGap)
    };
    assert_eq!((asked(110_000), asked(115_000)), (1, 0));
}

#[test]
fn a_retry_after_of_long_ago_is_kept_and_one_of_the_last_moment_may_be_forgotten() {
    let asked = |ms| {
        let two = [put_off(ms * MS, "60"), page(111 * SECOND, "a", "/2")];
        found(&[&[robots(SECOND, "a", OPEN)][..], &two].concat())
    };
    assert_eq!(asked(99_000), [(Kind::InsideRetryAfter, 1)]);
    assert_eq!(asked(99_800), LAWFUL);
    // A request that may be forgotten does not hide one that may not.
    let two = [put_off(98 * SECOND, "20"), put_off(99_800 * MS, "60")];
    let all = [&[robots(SECOND, "a", OPEN)][..], &two, &[page(111 * SECOND, "a", "/2")]].concat();
    assert_eq!(found(&all), [(Kind::InsideRetryAfter, 2)], "the second put-off breaks it as well");
}

#[test]
fn rules_of_the_last_moment_may_be_forgotten_and_must_be_asked_for_again() {
    let closed = "User-agent: *\nDisallow: /no\nCrawl-delay: 30";
    let first = [robots(SECOND, "a", OPEN), page(50 * SECOND, "a", "/1")];
    let asked = |robots_ms, path| {
        let rest = [robots(robots_ms * MS, "a", closed), page(111 * SECOND, "a", path)];
        found(&[&first[..], &rest].concat())
    };
    assert_eq!(asked(99_900, "/no"), LAWFUL, "the earlier rules allow it");
    assert_eq!(asked(99_000, "/no"), [(Kind::CrawlDelay, 1), (Kind::AgainstRules, 1)]);
    // Without an earlier robots.txt no rules are known.
    let only = [robots(99_900 * MS, "a", OPEN), page(111 * SECOND, "a", "/1")];
    assert_eq!(found(&only), LAWFUL, "it may also be remembered");
}

#[test]
fn a_stop_excuses_no_more_than_can_have_been_under_way() {
    let hosts = ["a", "b", "c"];
    let mut asked: Vec<Asked> = hosts.iter().map(|host| robots(SECOND, host, OPEN)).collect();
    asked.extend(hosts.iter().map(|host| page(98 * SECOND, host, "/")));
    asked.extend(hosts.iter().take(2).map(|host| page(111 * SECOND, host, "/")));
    let lawful = verdict(&asked);
    assert!(lawful.pass, "{lawful}");
    assert_eq!(lawful.repeat_counts, [2]);
    asked.push(page(112 * SECOND, "c", "/"));
    assert_eq!(found(&asked), [(Kind::RepeatedTooMany, 1)]);
}

#[test]
fn tries_that_were_forgotten_do_not_count() {
    let terms = Terms { try_count_max: Some(2), ..terms() };
    let error = |seconds| Asked { status: 500, ..page(seconds * SECOND, "a", "/x") };
    let asked = |seconds: &[u64]| {
        let requests: Vec<Asked> = seconds.iter().map(|second| error(*second)).collect();
        let all = [&[robots(SECOND, "a", OPEN)][..], &requests].concat();
        verdict_of(&all, &terms).count(Kind::AskedTooOften)
    };
    assert_eq!(asked(&[90, 98, 111]), 0);
    assert_eq!(asked(&[80, 90, 111]), 1);
}

#[test]
fn a_log_that_lost_lines_with_its_crawler_does_not_speak_against_it() {
    let asked = [page(50 * SECOND, "a", "/1"), page(111 * SECOND, "a", "/2")];
    assert_eq!(found(&asked), [(Kind::BeforeRobots, 2)]);
    let mut terms = terms();
    terms.stops[0].is_log_cut = true;
    let verdict = verdict_of(&asked, &terms);
    assert_eq!((verdict.count(Kind::BeforeRobots), verdict.unwitnessed_page_count), (1, 1));
}
