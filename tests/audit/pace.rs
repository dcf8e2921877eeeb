//! Gaps, concurrency, Crawl-delay and Retry-After.

use crate::script::*;
use nephila::lab::audit::web_log::WebLogs;
use nephila::lab::audit::{Kind, Terms, judge};
use proptest::prelude::*;

#[test]
fn a_gap_of_exactly_the_delay_passes_and_a_nanosecond_less_does_not() {
    let asked = |gap| [robots_status(0, "h", 404), page(gap, "h", "/")];
    assert_eq!(found(&asked(SECOND)), LAWFUL);
    assert_eq!(found(&asked(SECOND - 1)), [(Kind::HostGap, 1), (Kind::AddressGap, 1)]);
}

#[test]
fn the_verdict_says_where_the_smallest_gap_was() {
    let asked = [
        robots_status(0, "slow", 404),
        robots_status(0, "quick", 404),
        page(3 * SECOND, "slow", "/"),
        page(2 * SECOND, "quick", "/"),
    ];
    let verdict = verdict_of(&asked, &Terms::default());
    let gap = verdict.host_gap_ns_min.as_ref().expect("a gap");
    assert_eq!((gap.value, gap.of.as_str()), (2 * SECOND, "quick"));
    assert!(gap.lines[1].contains(" quick / 200"), "{:?}", gap.lines);
    let text = verdict.to_string();
    assert!(text.starts_with("PASS"), "{text}");
    assert!(text.contains("2000.000000 ms at quick"), "{text}");
}

#[test]
fn hosts_of_one_address_share_its_pace() {
    let at = |address, asked: Asked| Asked { address, ..asked };
    let asked = |gap| [at(7, robots_status(0, "a", 404)), at(7, robots_status(gap, "b", 404))];
    assert_eq!(found(&asked(SECOND)), LAWFUL);
    assert_eq!(found(&asked(SECOND - 1)), [(Kind::AddressGap, 1)]);
}

/// Two hosts, each at an address spelled in its own way, requested this far apart.
fn spelled(first: &'static str, second: &'static str, gap: u64) -> [Asked; 2] {
    let at = |address, asked: Asked| Asked { spelled: Some(address), ..asked };
    [at(first, robots_status(0, "a", 404)), at(second, robots_status(gap, "b", 404))]
}

#[test]
fn an_ipv4_address_has_one_pace_however_it_is_spelled() {
    for other in ["::ffff:10.0.0.7", "::ffff:a00:7", "64:ff9b::10.0.0.7", "2002:a00:7::1"] {
        let asked = |gap| spelled("::ffff:10.0.0.7", other, gap);
        assert_eq!(found(&asked(MS / 10)), [(Kind::AddressGap, 1), (Kind::AddressOverlap, 1)]);
        assert_eq!(found(&asked(SECOND)), LAWFUL, "{other}");
        let plain = Asked { address: 7, ..robots_status(0, "a", 404) };
        let [_, mapped] = spelled("::", "::ffff:127.16.0.7", MS / 10);
        assert_eq!(found(&[plain, mapped])[0], (Kind::AddressGap, 1));
    }
}

#[test]
fn a_64_of_ipv6_addresses_has_one_pace_unless_the_terms_say_otherwise() {
    let near = spelled("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", SECOND - 1);
    assert_eq!(found(&near), [(Kind::AddressGap, 1)]);
    let verdict = verdict_of(&near, &Terms::default());
    assert_eq!(verdict.examples[0].address.as_deref(), Some("2001:db8:1:2::/64"));
    assert_eq!(found(&spelled("2001:db8:1:2::1", "2001:db8:1:2::9", SECOND)), LAWFUL);
    assert_eq!(found(&spelled("2001:db8:1:2::1", "2001:db8:1:3::1", MS / 10)), LAWFUL);
    let each = Terms { ipv6_pace_prefix: 128, ..Terms::default() };
    assert!(verdict_of(&near, &each).pass);
    let wide = Terms { ipv6_pace_prefix: 48, ..Terms::default() };
    let far = spelled("2001:db8:1:2::1", "2001:db8:1:3::1", SECOND - 1);
    assert_eq!(verdict_of(&far, &wide).count(Kind::AddressGap), 1);
}

#[test]
fn a_host_on_two_addresses_has_one_pace() {
    let asked = |gap| {
        [
            Asked { address: 7, ..robots_status(0, "h", 404) },
            Asked { address: 8, ..page(gap, "h", "/") },
        ]
    };
    assert_eq!(found(&asked(SECOND)), LAWFUL);
    assert_eq!(found(&asked(SECOND - 1)), [(Kind::HostGap, 1)]);
}

#[test]
fn ports_and_schemes_of_a_host_share_its_pace() {
    let asked = |gap| {
        [robots_status(0, "h:8080", 404), Asked { scheme: "https", ..robots_status(gap, "H", 404) }]
    };
    assert_eq!(found(&asked(SECOND)), LAWFUL);
    let verdict = verdict_of(&asked(SECOND - 1), &Terms::default());
    assert_eq!(verdict.count(Kind::HostGap), 1);
    assert_eq!(verdict.host_count, 1);
}

#[test]
fn a_crawl_delay_that_was_served_is_in_force() {
    let body = "User-agent: *\nCrawl-delay: 5\n";
    let asked = |gap| [robots(0, "h", body), page(gap, "h", "/1"), page(3 * gap, "h", "/2")];
    assert_eq!(found(&asked(5 * SECOND)), LAWFUL);
    assert_eq!(found(&asked(5 * SECOND - 1)), [(Kind::CrawlDelay, 1)]);
}

#[test]
fn a_crawl_delay_binds_from_when_it_was_served_and_its_own_origin_alone() {
    let body = "User-agent: nephila\nCrawl-delay: 50\n\n";
    let open = robots_status(0, "h", 404);
    let before = [open.clone(), page(SECOND, "h", "/1"), robots(2 * SECOND, "h", body)];
    assert_eq!(found(&before), LAWFUL);
    let other =
        [robots(0, "h", body), robots_status(SECOND, "h:81", 404), page(2 * SECOND, "h:81", "/")];
    assert_eq!(found(&other), LAWFUL);
    let relaxed = [robots(0, "h", body), robots(SECOND, "h", ""), page(2 * SECOND, "h", "/")];
    assert_eq!(
        found(&relaxed),
        LAWFUL,
        "the page may be requested again, because the first answer did not arrive"
    );
}

#[test]
fn a_crawl_delay_counts_up_to_the_configured_bound() {
    let body = "User-agent: *\nCrawl-delay: 86400\n";
    let terms = Terms { crawl_delay_ms_max: 10_000, ..Terms::default() };
    let asked = |gap| [robots(0, "h", body), page(gap, "h", "/1")];
    assert!(verdict_of(&asked(10 * SECOND), &terms).pass);
    assert_eq!(verdict_of(&asked(10 * SECOND - 1), &terms).count(Kind::CrawlDelay), 1);
}

#[test]
fn a_request_that_begins_as_another_ends_passes_and_one_before_does_not() {
    let asked = |end| [Asked { end, ..robots_status(0, "h", 404) }, page(2 * SECOND, "h", "/")];
    assert_eq!(found(&asked(2 * SECOND)), LAWFUL);
    let late = asked(2 * SECOND + 1);
    assert_eq!(found(&late), [(Kind::HostOverlap, 1), (Kind::AddressOverlap, 1)]);
    let verdict = verdict_of(&late, &Terms::default());
    assert_eq!(verdict.host_concurrency_max.expect("requests").value, 2);
    let cut = [Asked { fate: "cut", ..late[0].clone() }, late[1].clone()];
    assert_eq!(found(&cut), LAWFUL, "its client had left at an unknown moment");
}

#[test]
fn a_retry_after_in_seconds_is_waited_out() {
    for status in [429, 503] {
        let busy = Asked { status, ..page(SECOND, "h", "/") }.telling("retry-after", "30");
        let asked = |at| [robots_status(0, "h", 404), busy.clone(), page(at, "h", "/other")];
        // Retry-After counts from when the answer was sent, a millisecond after its request.
        assert_eq!(found(&asked(31 * SECOND + MS)), LAWFUL);
        assert_eq!(found(&asked(31 * SECOND + MS - 1)), [(Kind::InsideRetryAfter, 1)]);
    }
}

#[test]
fn a_retry_after_binds_robots_txt_too_and_a_lost_one_nobody() {
    let busy = robots_status(0, "h", 503).telling("retry-after", "30");
    let again = robots_status(10 * SECOND, "h", 404);
    assert_eq!(found(&[busy.clone(), again.clone()]), [(Kind::InsideRetryAfter, 1)]);
    let lost = Asked { fate: "cut", ..busy };
    assert_eq!(found(&[lost, again]), LAWFUL);
}

#[test]
fn a_retry_after_that_is_a_date_is_waited_out_by_the_wall_clock() {
    // This is 60 seconds after the time that the log gives for the clock.
    let date = "Sun, 06 Nov 1994 08:50:37 GMT";
    let busy = Asked { status: 503, ..page(SECOND, "h", "/") }.telling("retry-after", date);
    let asked = |at| [robots_status(0, "h", 404), busy.clone(), page(at, "h", "/other")];
    assert_eq!(found(&asked(60 * SECOND)), LAWFUL);
    assert_eq!(found(&asked(60 * SECOND - 1)), [(Kind::InsideRetryAfter, 1)]);
    let undated = log(&asked(2 * SECOND)).replace("# clock", "# nothing");
    let verdict = judge(&WebLogs::text(undated), &Terms::default(), None).expect("a log");
    assert_eq!((verdict.pass, verdict.undated_retry_count), (true, 1), "said, not guessed");
}

#[test]
fn a_retry_after_counts_up_to_the_configured_bound() {
    let terms = Terms { retry_after_ms_max: 20_000, ..Terms::default() };
    let busy = robots_status(0, "h", 503).telling("retry-after", "99999999999999999999");
    let asked = |at| [busy.clone(), robots_status(at, "h", 404)];
    assert!(verdict_of(&asked(20 * SECOND + MS), &terms).pass);
    assert_eq!(verdict_of(&asked(20 * SECOND), &terms).count(Kind::InsideRetryAfter), 1);
}

/// Hosts on few addresses. Each address has a schedule that keeps the delay to the nanosecond.
fn polite_schedule() -> impl Strategy<Value = Vec<Asked>> {
    let gaps = proptest::collection::vec((0..3u8, 0..4u8, 0..3 * SECOND), 2..60);
    gaps.prop_map(|choices| {
        let mut next = [0u64; 3];
        let mut known = std::collections::BTreeSet::new();
        let mut asked = Vec::new();
        for (number, (address, name, slack)) in choices.into_iter().enumerate() {
            let host = format!("h{name}.a{address}");
            let start = next[usize::from(address)] + slack % 3;
            next[usize::from(address)] = start + SECOND;
            let request = if known.insert(host.clone()) {
                robots_status(start, &host, 404)
            } else {
                page(start, &host, &format!("/{number}"))
            };
            asked.push(Asked { address, ..request });
        }
        asked
    })
}

proptest! {
    #[test]
    fn polite_schedules_pass_and_one_request_too_early_is_found(
        mut asked in polite_schedule(),
        chosen in any::<prop::sample::Index>(),
        early in 4..SECOND / 2,
    ) {
        prop_assert_eq!(found(&asked), LAWFUL);
        // A request that has another request before it at its address.
        let index = chosen.index(asked.len());
        let address = asked[index].address;
        let has_before = asked[..index].iter().any(|other| other.address == address);
        prop_assume!(has_before);
        let moved = &mut asked[index];
        (moved.start, moved.sent, moved.end) =
            (moved.start - early, moved.sent - early, moved.end - early);
        let kinds = found(&asked);
        prop_assert!(kinds.iter().any(|(kind, _)| *kind == Kind::AddressGap), "{:?}", kinds);
    }
}
