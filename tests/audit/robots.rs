//! robots.txt must be known before the first page, obeyed, reachable and fresh, and redirects of it
//! must be followed.

use crate::script::*;
use nephila::lab::audit::web_log::WebLogs;
use nephila::lab::audit::{AuditError, Fate, Hit, Hits, Kind, Terms, judge};

const CLOSED: &str = "User-agent: *\nDisallow: /private\n";

#[test]
fn a_page_waits_for_the_robots_txt_of_its_own_origin() {
    assert_eq!(found(&[page(0, "h", "/")]), [(Kind::BeforeRobots, 1)]);
    let asked = |host: &str, scheme| {
        [robots_status(0, "h", 404), Asked { scheme, ..page(2 * SECOND, host, "/") }]
    };
    assert_eq!(found(&asked("h", "http")), LAWFUL);
    assert_eq!(found(&asked("H:80", "http")), LAWFUL, "the same origin");
    assert_eq!(found(&asked("h:8080", "http")), [(Kind::BeforeRobots, 1)]);
    assert_eq!(found(&asked("h", "https")), [(Kind::BeforeRobots, 1)]);
}

#[test]
fn a_robots_txt_still_under_way_is_not_known() {
    let late = Asked { sent: 3 * SECOND, end: 3 * SECOND, ..robots_status(0, "h", 404) };
    let kinds = found(&[late, page(2 * SECOND, "h", "/")]);
    assert!(kinds.contains(&(Kind::BeforeRobots, 1)), "{kinds:?}");
}

#[test]
fn a_page_against_the_rules_in_force_is_found() {
    let asked = |path: &str| [robots(0, "h", CLOSED), page(2 * SECOND, "h", path)];
    assert_eq!(found(&asked("/public")), LAWFUL);
    assert_eq!(found(&asked("/private/x")), [(Kind::AgainstRules, 1)]);
}

#[test]
fn rules_in_force_are_those_served_last() {
    let page = page(3 * SECOND, "h", "/private");
    let opened = [robots(0, "h", CLOSED), robots(SECOND, "h", ""), page.clone()];
    assert_eq!(found(&opened), LAWFUL);
    let tightened = [robots(0, "h", ""), robots(SECOND, "h", CLOSED), page];
    assert_eq!(found(&tightened), [(Kind::AgainstRules, 1)]);
}

#[test]
fn rfc_while_robots_txt_is_unreachable_no_page_is_asked_for() {
    let kinds = [(Kind::RobotsUnreachable, 1)];
    let asked = |first: Asked| [first, page(2 * SECOND, "h", "/")];
    for status in [500, 503, 429, 599] {
        assert_eq!(found(&asked(robots_status(0, "h", status))), kinds, "{status}");
    }
    for status in [400, 401, 403, 404, 410, 451] {
        assert_eq!(found(&asked(robots_status(0, "h", status))), LAWFUL, "{status}");
    }
    let unsent = Asked { fate: "unsent", ..robots_status(0, "h", 404) };
    assert_eq!(found(&asked(unsent)), kinds);
    let failed_again =
        [robots(0, "h", ""), robots_status(SECOND, "h", 500), page(2 * SECOND, "h", "/")];
    assert_eq!(found(&failed_again), kinds);
}

#[test]
fn rfc_after_thirty_days_unreachable_it_may_be_taken_as_absent() {
    let asked = |at: u64| {
        let failing = (0..=at / HOUR).map(|hour| robots_status(hour * HOUR, "h", 500));
        failing.chain([page(at + SECOND, "h", "/")]).collect::<Vec<_>>()
    };
    assert_eq!(found(&asked(30 * DAY)), LAWFUL);
    assert_eq!(found(&asked(29 * DAY)), [(Kind::RobotsUnreachable, 1)]);
    let mut answered = asked(30 * DAY);
    answered[300].status = 404;
    assert_eq!(found(&answered), [(Kind::RobotsUnreachable, 1)], "it had answered in between");
}

#[test]
fn rfc_rules_hold_for_a_day_and_a_fetch() {
    let asked = |at| [robots(0, "h", ""), page(at, "h", "/")];
    assert_eq!(found(&asked(DAY + 60 * SECOND)), LAWFUL);
    assert_eq!(found(&asked(DAY + HOUR)), [(Kind::StaleRules, 1)]);
    let renewed = [robots(0, "h", ""), robots(DAY, "h", ""), page(DAY + HOUR, "h", "/")];
    assert_eq!(found(&renewed), LAWFUL);
}

#[test]
fn a_robots_txt_that_moved_is_found_where_it_moved_to() {
    let asked = |path: &str| {
        [
            moved(0, "a", "/robots.txt", "http://b/rules.txt"),
            page(SECOND, "b", "/rules.txt").telling("body", CLOSED),
            page(2 * SECOND, "a", path),
        ]
    };
    assert_eq!(
        found(&asked("/")),
        LAWFUL,
        "the redirect of a robots.txt to b does not need the robots.txt of b"
    );
    assert_eq!(found(&asked("/private")), [(Kind::AgainstRules, 1)]);
    let early = [asked("/")[0].clone(), page(2 * SECOND, "a", "/")];
    assert_eq!(found(&early), [(Kind::BeforeRobots, 1)]);
    let elsewhere = [robots_status(0, "a", 404), page(SECOND, "b", "/rules.txt")];
    assert_eq!(found(&elsewhere), [(Kind::BeforeRobots, 1)], "no redirect led there");
}

/// Returns `hop_count` redirects, each to the next path, and then the rules.
fn chain(hop_count: u64) -> Vec<Asked> {
    let path = |hop| if hop == 0 { "/robots.txt".to_owned() } else { format!("/r{hop}") };
    let mut asked: Vec<Asked> =
        (0..hop_count).map(|hop| moved(hop * SECOND, "h", &path(hop), &path(hop + 1))).collect();
    asked.push(page(hop_count * SECOND, "h", &path(hop_count)).telling("body", CLOSED));
    asked.push(page((hop_count + 1) * SECOND, "h", "/"));
    asked
}

#[test]
fn rfc_five_redirects_are_followed_and_the_sixth_leads_nowhere() {
    assert_eq!(found(&chain(1)), LAWFUL);
    assert_eq!(found(&chain(5)), LAWFUL);
    let kinds = found(&chain(6));
    assert!(kinds.contains(&(Kind::RobotsUnreachable, 1)), "{kinds:?}");
    let looping = [
        moved(0, "h", "/robots.txt", "/robots.txt"),
        moved(SECOND, "h", "/robots.txt", "/robots.txt"),
        page(2 * SECOND, "h", "/"),
    ];
    let kinds = found(&looping);
    assert!(kinds.contains(&(Kind::RobotsUnreachable, 1)), "{kinds:?}");
    let nowhere = [robots_status(0, "h", 302), page(2 * SECOND, "h", "/")];
    assert_eq!(found(&nowhere), [(Kind::RobotsUnreachable, 1)]);
}

#[test]
fn rules_that_no_log_has_are_said_to_be_unjudged() {
    let verdict = verdict_of(
        &[robots_status(0, "h", 200), page(2 * SECOND, "h", "/private")],
        &Terms::default(),
    );
    assert_eq!((verdict.pass, verdict.bodiless_robots_count), (true, 1));
    assert!(verdict.to_string().contains("unjudged"));
}

/// Requests whose answers may have been lost by the network.
struct Lossy(WebLogs, fn(&Hit<'_>) -> bool);

impl Hits for Lossy {
    fn each(&self, visit: &mut dyn FnMut(&Hit<'_>)) -> Result<(), AuditError> {
        self.0.each(&mut |hit| {
            let fate = if self.1(hit) { Fate::Unsure } else { hit.fate };
            visit(&Hit { fate, ..*hit });
        })
    }

    fn line(&self, place: u64) -> String {
        self.0.line(place)
    }
}

#[test]
fn an_answer_that_may_be_lost_binds_no_more_than_the_one_before() {
    let tightened = "User-agent: *\nDisallow: /\nCrawl-delay: 90\n";
    let asked = [
        robots(0, "h", CLOSED),
        robots(SECOND, "h", tightened),
        page(2 * SECOND, "h", "/"),
        page(3 * SECOND, "h", "/private"),
    ];
    let second = |hit: &Hit<'_>| hit.body.is_some_and(|body| body.ends_with(b"90\n"));
    let hits = Lossy(WebLogs::text(log(&asked)), second);
    let verdict = judge(&hits, &Terms::default(), None).expect("a log");
    let kinds: Vec<_> = verdict.violation_counts.into_iter().collect();
    assert_eq!(kinds, [(Kind::AgainstRules, 1)], "both forbid /private");
}
