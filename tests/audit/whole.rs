//! What was fetched and how often, and what the logs may look like.

use crate::script::*;
use nephila::lab::audit::truth::{Expect, Expectation};
use nephila::lab::audit::web_log::WebLogs;
use nephila::lab::audit::{AuditError, Kind, Terms, judge};

#[test]
fn a_url_fetched_twice_is_found_and_a_retry_is_not() {
    let asked = |status| {
        [
            robots_status(0, "h", 404),
            Asked { status, ..page(SECOND, "h", "/") },
            page(2 * SECOND, "h", "/"),
        ]
    };
    assert_eq!(found(&asked(200)), [(Kind::FetchedTwice, 1)]);
    for status in [301, 404] {
        assert_eq!(found(&asked(status)), [(Kind::AskedAgain, 1)], "{status}");
    }
    for status in [429, 500, 503] {
        assert_eq!(found(&asked(status)), LAWFUL, "{status}");
    }
    let mut cut = asked(200);
    cut[1].fate = "cut";
    assert_eq!(found(&cut), LAWFUL);
    let robots_again = [robots(0, "h", ""), robots(SECOND, "h", "")];
    assert_eq!(found(&robots_again), LAWFUL);
}

#[test]
fn more_tries_than_promised_are_found() {
    let terms = Terms { try_count_max: Some(2), ..Terms::default() };
    let mut asked = vec![robots_status(0, "h", 404)];
    for try_number in 1..=2 {
        asked.push(Asked { status: 500, ..page(try_number * SECOND, "h", "/") });
    }
    assert!(verdict_of(&asked, &terms).pass);
    asked.push(page(3 * SECOND, "h", "/"));
    assert_eq!(verdict_of(&asked, &terms).count(Kind::AskedTooOften), 1);
}

/// A server that closes kept connections without an answer has still seen each request.
#[test]
fn requests_without_an_answer_are_tries() {
    let terms = Terms { try_count_max: Some(4), ..Terms::default() };
    let asked = |count: u64| {
        let mut asked = vec![robots_status(0, "h", 404)];
        for number in 1..=count {
            let dropped = page(number * SECOND, "h", "/dropped");
            asked.push(Asked { fate: "unsent", status: 0, ..dropped });
        }
        verdict_of(&asked, &terms).count(Kind::AskedTooOften)
    };
    assert_eq!((asked(4), asked(5), asked(7)), (0, 1, 3));
}

#[test]
fn the_truth_is_held_against_what_was_fetched() {
    let expected = |url: &str, expect| Expectation { url: url.into(), expect };
    let judged = |truth: Vec<Expectation>| {
        let asked = [
            robots(0, "h:8080", ""),
            page(SECOND, "h:8080", "/got"),
            Asked { status: 404, ..page(2 * SECOND, "h:8080", "/gone") },
            page(3 * SECOND, "h:8080", "/sitemap.xml"),
        ];
        let hits = WebLogs::text(log(&asked));
        let verdict = judge(&hits, &Terms::default(), Some(truth)).expect("a log");
        verdict.violation_counts.into_iter().collect::<Vec<_>>()
    };
    let got = || expected("http://h:8080/got", Expect::Fetched);
    let gone = || expected("http://h:8080/gone", Expect::ClientError);
    assert_eq!(judged(vec![got(), gone()]), LAWFUL);
    assert_eq!(judged(vec![got()]), [(Kind::UnknownAsked, 1)]);
    let missed = expected("http://h:8080/missed", Expect::Fetched);
    assert_eq!(judged(vec![got(), gone(), missed]), [(Kind::Missed, 1)]);
    let failed = expected("http://h:8080/gone", Expect::Fetched);
    assert_eq!(
        judged(vec![got(), failed]),
        [(Kind::Missed, 1)],
        "it was requested but never fetched"
    );
    let denied = expected("http://h:8080/got", Expect::Denied);
    assert_eq!(judged(vec![denied, gone()]), [(Kind::DeniedAsked, 1)]);
}

#[test]
fn logs_of_several_servers_are_one_history() {
    let place = tempfile::tempdir().expect("a directory");
    let write = |name: &str, asked: &[Asked]| {
        let path = place.path().join(name);
        std::fs::write(&path, log(asked)).expect("a file");
        path
    };
    let first = write("0", &[page(2 * SECOND, "h", "/1"), page(4 * SECOND, "h", "/2")]);
    let second = write("1", &[robots_status(0, "h", 404), page(3 * SECOND - 1, "h", "/3")]);
    let verdict = judge(&WebLogs::files(vec![first, second]), &Terms::default(), None).unwrap();
    assert_eq!(verdict.count(Kind::HostGap), 1);
    assert_eq!(verdict.count(Kind::BeforeRobots), 0);
    let example = &verdict.examples[0];
    assert!(example.lines[0].contains(" /1 ") && example.lines[1].contains(" /3 "), "{example:?}");
}

#[test]
fn a_torn_last_line_is_no_line_and_a_foreign_one_is_an_error() {
    let mut text = log(&[robots_status(0, "h", 404), page(SECOND, "h", "/")]);
    text.push_str("2000000000 20000");
    let verdict = judge(&WebLogs::text(text.clone()), &Terms::default(), None).expect("a log");
    assert_eq!(verdict.request_count, 2);
    text.push('\n');
    let refused = judge(&WebLogs::text(text), &Terms::default(), None);
    assert!(matches!(refused, Err(AuditError::BadLine { number: 4, .. })), "{refused:?}");
}

#[test]
fn examples_are_few_counts_are_whole_and_nothing_steers_the_terminal() {
    let asked: Vec<Asked> =
        (0..100).map(|n| page(n * 2 * SECOND, "h\\x1b[2J", &format!("/{n}"))).collect();
    let verdict = verdict_of(&asked, &Terms::default());
    assert_eq!(verdict.count(Kind::BeforeRobots), 100);
    assert!(verdict.examples.len() <= 5);
    let text = verdict.to_string();
    assert!(text.starts_with("FAIL: 100 violations\n"), "{text}");
    assert!(!text.contains('\x1b') && text.lines().count() < 40, "{text}");
}

#[test]
fn an_empty_log_passes_and_says_how_little_it_saw() {
    let verdict = verdict_of(&[], &Terms::default());
    assert!(verdict.pass && verdict.request_count == 0);
    assert!(verdict.to_string().contains("never two requests"));
}
