//! How the crawler treats one server: RFC 9309 and politeness, rule by rule, in simulation. Each
//! rule has its own scripted server, and what it saw is the judge.

#[path = "support/scripted.rs"]
mod scripted;
mod support;

use nephila::crawl::config::Settings;
use nephila::crawl::metrics::Count;
use nephila::io::sim::{NetModel, Sim};
use nephila::proto::url::Url;
use scripted::{Act, Asked, body, page, say, serve};
use std::time::Duration;
use support::{crawl_in, settings};

const HOUR: u64 = 3_600;

/// Crawls from `seeds`. Returns what the server saw, with the time of each request in seconds.
fn crawl(
    seeds: &[&str],
    settings: Settings,
    script: impl Fn(&Asked) -> Act + 'static,
) -> Vec<(u64, String, Asked)> {
    let sim = Sim::new(9);
    let seen = serve(&sim, script);
    let seeds = seeds.iter().map(|text| Url::parse(text).expect("a URL")).collect();
    crawl_in(&sim, 3, settings, seeds);
    let seen = seen.borrow();
    let first = seen.first().cloned();
    let mut lines = Vec::new();
    for asked in seen.iter() {
        let second = asked.second(first.as_ref().expect("one at least"));
        lines.push((second, format!("{}{}", asked.to, asked.path), asked.clone()));
    }
    lines
}

fn targets(seen: &[(u64, String, Asked)]) -> Vec<&str> {
    seen.iter().map(|(_, target, _)| target.as_str()).collect()
}

fn seconds(seen: &[(u64, String, Asked)]) -> Vec<u64> {
    seen.iter().map(|(second, ..)| *second).collect()
}

/// Returns a check that is true until more than the given number of robots.txt requests have come.
fn counter() -> impl Fn(&Asked, usize) -> bool {
    let count = std::cell::Cell::new(0);
    move |asked, limit| {
        if asked.path == "/robots.txt" {
            count.set(count.get() + 1);
        }
        count.get() <= limit
    }
}

#[test]
fn rfc_9309_2_3_1_3_an_absent_robots_txt_allows_all() {
    for status in ["404 Not Found", "410 Gone", "403 Forbidden", "401 Unauthorized"] {
        let seen = crawl(&["http://10.0.0.1/a"], settings(), move |asked| {
            if asked.path == "/robots.txt" { body(status, "Disallow: /") } else { page(&[]) }
        });
        assert_eq!(targets(&seen), ["10.0.0.1/robots.txt", "10.0.0.1/a"], "{status}");
    }
}

#[test]
fn rfc_9309_2_3_1_4_a_failing_robots_txt_forbids_all_and_is_tried_again_with_patience() {
    let seen = crawl(&["http://10.0.0.1/a"], settings(), |_| body("500 Oops", ""));
    assert!(seen.iter().all(|(_, target, _)| target == "10.0.0.1/robots.txt"));
    let at = seconds(&seen);
    assert_eq!(at.len(), 4, "the first try and three more: {at:?}");
    let waits: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((1..=2).contains(&waits[0]), "{waits:?}");
    assert!((5..=7).contains(&waits[1]), "{waits:?}");
    assert!((30..=38).contains(&waits[2]), "{waits:?}");
}

#[test]
fn rfc_9309_2_3_1_4_once_it_answers_the_pages_are_fetched() {
    let is_down = counter();
    let seen = crawl(&["http://10.0.0.1/a"], settings(), move |asked| {
        let down = is_down(asked, 2);
        match asked.path.as_str() {
            "/robots.txt" if down => Act::Hang,
            "/robots.txt" => body("200 OK", "User-agent: *\nDisallow: /no"),
            _ => page(&["/no", "/b"]),
        }
    });
    let robots = "10.0.0.1/robots.txt";
    assert_eq!(targets(&seen), [robots, robots, robots, "10.0.0.1/a", "10.0.0.1/b"]);
}

#[test]
fn a_throttled_robots_txt_is_asked_for_again_when_it_said() {
    let is_busy = counter();
    let seen = crawl(&["http://10.0.0.1/a"], settings(), move |asked| {
        let busy = is_busy(asked, 1);
        match asked.path.as_str() {
            "/robots.txt" if busy => body("429 Too Many\r\nRetry-After: 600", ""),
            "/robots.txt" => body("404 Not Found", ""),
            _ => page(&[]),
        }
    });
    assert_eq!(targets(&seen).len(), 3);
    assert!((600..760).contains(&seconds(&seen)[1]), "{:?}", seconds(&seen));
}

#[test]
fn a_robots_txt_that_redirects_nowhere_or_to_itself_is_asked_for_as_one_that_fails() {
    for field in ["", "\r\nLocation:", "\r\nLocation: /robots.txt"] {
        let seen =
            crawl(&["http://10.0.0.1/a"], settings(), move |asked| match asked.path.as_str() {
                "/robots.txt" => body(&format!("301 Moved{field}"), ""),
                _ => page(&[]),
            });
        assert_eq!(targets(&seen), ["10.0.0.1/robots.txt"; 4], "{field}: each try is one request");
    }
}

/// The server says nothing of its rules by that: it is up, and they are asked for again.
#[test]
fn a_robots_txt_that_is_lost_with_a_kept_connection_is_asked_for_again_over_a_new_one() {
    let moved = "HTTP/1.1 301 Moved\r\nLocation: /rules\r\nContent-Length: 0\r\n\r\n";
    let seen = crawl(&["http://10.0.0.1/a"], settings(), |asked| match asked.path.as_str() {
        "/robots.txt" => Act::Keep(moved.to_owned()),
        "/rules" => body("200 OK", "User-agent: *\nDisallow: /no"),
        _ => page(&["/b", "/no"]),
    });
    let paths: Vec<&str> = seen.iter().map(|(.., asked)| asked.path.as_str()).collect();
    assert_eq!(paths, ["/robots.txt", "/rules", "/rules", "/a", "/b"]);
    assert!(seconds(&seen)[3] < 10, "without an unreachable one's patience: {:?}", seconds(&seen));
}

#[test]
fn rfc_9309_2_3_1_2_five_redirects_across_hosts_are_followed_and_a_sixth_is_not() {
    for (hops, fetched) in [(5, true), (6, false)] {
        let seen = crawl(&["http://10.0.0.1/a", "http://10.0.0.1/no"], settings(), move |asked| {
            let IpStep { step, next } = IpStep::of(asked);
            match asked.path.as_str() {
                "/robots.txt" if step < hops => {
                    body(&format!("301 Moved\r\nLocation: http://{next}/robots.txt"), "")
                }
                "/robots.txt" => body("200 OK", "User-agent: *\nDisallow: /no"),
                _ => page(&[]),
            }
        });
        let pages: Vec<&str> =
            targets(&seen).into_iter().filter(|target| !target.ends_with("robots.txt")).collect();
        let expected: &[&str] = if fetched { &["10.0.0.1/a"] } else { &[] };
        assert_eq!(pages, expected, "{hops} hops: {:?}", targets(&seen));
        if fetched {
            assert_eq!(seen.len(), 7, "six robots.txt on six hosts, one page");
        }
    }
}

/// The hosts 10.0.0.1, 10.0.0.2 and so on form a chain.
struct IpStep {
    step: u8,
    next: String,
}

impl IpStep {
    fn of(asked: &Asked) -> IpStep {
        let std::net::IpAddr::V4(address) = asked.to else { panic!("an IPv4 address") };
        let last = address.octets()[3];
        IpStep { step: last - 1, next: format!("10.0.0.{}", last + 1) }
    }
}

#[test]
fn robots_txts_that_redirect_to_each_other_end_both_hosts_and_not_the_crawl() {
    let seeds = ["http://10.0.0.1/a", "http://10.0.0.2/a", "http://10.0.0.9/a"];
    let seen = crawl(&seeds, settings(), |asked| {
        let other = match asked.to.to_string().as_str() {
            "10.0.0.1" => "10.0.0.2",
            "10.0.0.2" => "10.0.0.1",
            _ if asked.path == "/robots.txt" => return body("404 Not Found", ""),
            _ => return page(&[]),
        };
        body(&format!("302 Found\r\nLocation: http://{other}/robots.txt"), "")
    });
    let pages: Vec<&str> =
        targets(&seen).into_iter().filter(|target| !target.ends_with("robots.txt")).collect();
    assert_eq!(pages, ["10.0.0.9/a"]);
}

/// Each page links to the next, without an end: /0 to /1 to /2.
fn chain(asked: &Asked) -> Act {
    let number: u32 = asked.path.trim_start_matches('/').parse().unwrap_or(0);
    page(&[&format!("/{}", number + 1)])
}

#[test]
fn rfc_9309_2_4_a_day_old_robots_txt_is_asked_for_again_with_its_version() {
    let settings = Settings { delay_ms: 3_600_000, depth_max: 30, ..settings() };
    let seen = crawl(&["http://10.0.0.1/0"], settings, |asked| match asked.path.as_str() {
        "/robots.txt" if asked.head.contains("If-None-Match: \"v1\"\r\n") => {
            say("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nConnection: close\r\n\r\n")
        }
        "/robots.txt" => body("200 OK\r\nETag: \"v1\"", "User-agent: *\nDisallow: /27"),
        _ => chain(asked),
    });
    let robots: Vec<&(u64, String, Asked)> =
        seen.iter().filter(|(_, target, _)| target.ends_with("robots.txt")).collect();
    assert_eq!(robots.len(), 2, "{:?}", targets(&seen));
    assert!(robots[1].2.head.contains("If-None-Match"));
    assert!((24 * HOUR..26 * HOUR).contains(&robots[1].0), "{}", robots[1].0);
    assert_eq!(targets(&seen).last(), Some(&"10.0.0.1/26"), "its rules still hold");
}

#[test]
fn a_robots_txt_that_is_tightened_is_obeyed_within_a_day() {
    let settings = Settings { delay_ms: 3_600_000, depth_max: 40, ..settings() };
    let is_open = counter();
    let seen = crawl(&["http://10.0.0.1/0"], settings, move |asked| {
        let open = is_open(asked, 1);
        match asked.path.as_str() {
            "/robots.txt" if open => body("200 OK", "User-agent: *\nDisallow:"),
            "/robots.txt" => body("200 OK", "User-agent: *\nDisallow: /"),
            _ => chain(asked),
        }
    });
    assert_eq!(targets(&seen).last(), Some(&"10.0.0.1/robots.txt"));
    assert!((20..30).contains(&seen.len()), "{}", seen.len());
}

#[test]
fn rfc_9309_2_3_1_4_after_the_long_period_an_unreachable_robots_txt_counts_as_absent() {
    let settings = Settings {
        robots_relax_seconds: 2 * HOUR,
        retry_count_max: 10,
        breaker_give_up_count: 20,
        ..settings()
    };
    let seeds: Vec<String> = (0..20).map(|number| format!("http://10.0.0.1/p{number}")).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let seen = crawl(&seeds, settings, |asked| match asked.path.as_str() {
        "/robots.txt" => body("503 Down", ""),
        _ => page(&[]),
    });
    let first_page = seen.iter().find(|(_, target, _)| !target.ends_with("robots.txt"));
    let (second, ..) = first_page.expect("pages in the end");
    assert!(*second >= 2 * HOUR, "{second}");
}

#[test]
fn a_crawl_delay_is_kept_between_all_requests_however_long() {
    let seen =
        crawl(&["http://10.0.0.1/0"], Settings { depth_max: 3, ..settings() }, |asked| match asked
            .path
            .as_str()
        {
            "/robots.txt" => body("200 OK", "User-agent: *\nCrawl-delay: 900\n"),
            _ => chain(asked),
        });
    assert_eq!(seconds(&seen), [0, 900, 1_800, 2_700, 3_600]);
}

#[test]
fn a_crawl_delay_as_long_as_rules_last_still_lets_pages_be_fetched() {
    let settings = Settings { depth_max: 2, robots_ttl_seconds: 60, ..settings() };
    let seen = crawl(&["http://10.0.0.1/0"], settings, |asked| match asked.path.as_str() {
        "/robots.txt" => body("200 OK", "User-agent: *\nCrawl-delay: 100\n"),
        _ => chain(asked),
    });
    let robots = "10.0.0.1/robots.txt";
    let pages = ["10.0.0.1/0", "10.0.0.1/1", "10.0.0.1/2"];
    assert_eq!(targets(&seen), [robots, pages[0], robots, pages[1], robots, pages[2]]);
}

#[test]
fn a_crawl_delay_beyond_the_bound_is_clamped_and_the_host_is_not_dropped() {
    let settings = Settings { depth_max: 1, crawl_delay_ms_max: 60_000, ..settings() };
    let seen = crawl(&["http://10.0.0.1/0"], settings, |asked| match asked.path.as_str() {
        "/robots.txt" => body("200 OK", "User-agent: *\nCrawl-delay: 86400\n"),
        _ => chain(asked),
    });
    assert_eq!(seconds(&seen), [0, 60, 120]);
}

#[test]
fn retry_after_is_obeyed_in_seconds_as_a_date_and_clamped() {
    let cases = [
        ("120", 120),
        ("Thu, 01 Jan 2026 00:10:00 GMT", 590),
        ("99999999999999999999", 3_600),
        ("-5", 1),
        ("soon", 1),
    ];
    for (value, wait) in cases {
        let tries = std::cell::Cell::new(0);
        let seen = crawl(&["http://10.0.0.1/a"], settings(), move |asked| {
            if asked.path == "/robots.txt" {
                return body("404 Not Found", "");
            }
            tries.set(tries.get() + 1);
            match tries.get() {
                1 => body(&format!("503 Busy\r\nRetry-After: {value}"), ""),
                _ => page(&[]),
            }
        });
        let at = seconds(&seen);
        assert_eq!(at.len(), 3, "{value}");
        let waited = at[2] - at[1];
        assert!(waited >= wait && waited <= wait * 5 / 4 + 12, "{value}: {waited}");
    }
}

#[test]
fn a_dead_server_is_left_alone_for_five_minutes_and_then_asked_once() {
    let seeds: Vec<String> = (0..12).map(|number| format!("http://10.0.0.1/{number}")).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let seen = crawl(&seeds, settings(), |asked| match asked.path.as_str() {
        "/robots.txt" => body("404 Not Found", ""),
        _ => Act::Hang,
    });
    let at = seconds(&seen);
    let pauses: Vec<u64> =
        at.windows(2).map(|pair| pair[1] - pair[0]).filter(|pause| *pause >= 290).collect();
    assert_eq!(pauses.len(), 3, "three waits without success, then the origin is given up: {at:?}");
    for (pause, least) in pauses.iter().zip([300, 600, 1_200]) {
        assert!((least..=least * 5 / 4 + 1).contains(pause), "{pauses:?}");
    }
    assert!(at.len() <= 1 + 5 + 3, "five failures and three probes: {at:?}");
}

#[test]
fn urls_given_up_are_written_down_with_their_reason() {
    let sim = Sim::new(9);
    serve(&sim, |asked| match asked.path.as_str() {
        "/robots.txt" => body("200 OK", "User-agent: *\nDisallow: /no"),
        "/gone" => body("410 Gone", ""),
        _ => Act::Hang,
    });
    let first = ["1/no", "1/gone", "2/alone"].map(|rest| format!("http://10.0.0.{rest}"));
    let seeds = first.into_iter().chain((0..12).map(|number| format!("http://10.0.0.1/{number}")));
    let seeds = seeds.map(|text| Url::parse(&text).expect("a URL")).collect();
    let crawl = crawl_in(&sim, 1, settings(), seeds);
    let log = &crawl.files[std::path::Path::new("requests/dead-00.log")];
    let log = std::str::from_utf8(log).expect("text");
    let mut reasons = std::collections::BTreeMap::new();
    for line in log.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, outcome, tries, "0", "seed", url] = words[..] else { panic!("{line}") };
        assert!(reasons.insert(url.to_owned(), (outcome.to_owned(), tries.to_owned())).is_none());
    }
    let of = |rest: &str| {
        let (outcome, tries) = &reasons[&format!("http://10.0.0.{rest}")];
        (outcome.as_str(), tries.as_str())
    };
    assert_eq!(of("1/gone"), ("client_error", "1"));
    assert_eq!(of("2/alone"), ("reset", "4"));
    let tries = (0..12).map(|number| of(&format!("1/{number}")));
    let (asked, unasked): (Vec<_>, Vec<_>) = tries.partition(|letter| letter.1 != "0");
    // There are five failures and three probes, each of a URL that had not failed before.
    assert_eq!((asked, unasked), (vec![("origin_down", "1"); 8], vec![("origin_down", "0"); 4]));
    assert_eq!(reasons.len(), 14, "the forbidden URL is not a dead letter: {reasons:?}");
}

#[test]
fn a_dead_server_that_comes_back_is_crawled_to_the_end() {
    let down_until = 400;
    let start = std::cell::OnceCell::new();
    let seeds: Vec<String> = (0..12).map(|number| format!("http://10.0.0.1/{number}")).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let seen = crawl(&seeds, settings(), move |asked| {
        let start = *start.get_or_init(|| asked.at);
        match asked.path.as_str() {
            "/robots.txt" => body("404 Not Found", ""),
            _ if asked.at.since(start) < Duration::from_secs(down_until) => Act::Hang,
            _ => page(&[]),
        }
    });
    let well: std::collections::BTreeSet<&str> = seen
        .iter()
        .filter(|(second, ..)| *second >= down_until)
        .map(|(_, target, _)| target.as_str())
        .collect();
    assert!(seconds(&seen).len() < 5 + 1 + 2 * 12, "{:?}", seconds(&seen));
    let spent = targets(&seen).iter().filter(|target| **target == "10.0.0.1/0").count();
    assert_eq!((spent, well.len()), (2, 12), "no URL spent its tries, and none was lost");
}

/// More broken URLs than a breaker needs to give up an origin, all before the sound ones.
#[test]
fn a_server_that_answers_errors_for_most_urls_is_asked_for_all_others() {
    let broken = (0..60).map(|number| format!("http://10.0.0.1/broken/{number}"));
    let sound = (0..5).map(|number| format!("http://10.0.0.1/sound/{number}"));
    let seeds: Vec<String> = broken.chain(sound).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let seen = crawl(&seeds, settings(), |asked| match asked.path.as_str() {
        "/robots.txt" => body("404 Not Found", ""),
        path if path.starts_with("/broken/") => body("500 Oops", ""),
        _ => page(&[]),
    });
    let targets = targets(&seen);
    let count = |target: &str| targets.iter().filter(|asked| **asked == target).count();
    for number in 0..60 {
        assert_eq!(count(&format!("10.0.0.1/broken/{number}")), 4, "one try and three more");
    }
    for number in 0..5 {
        assert_eq!(count(&format!("10.0.0.1/sound/{number}")), 1, "{number}");
    }
}

#[test]
fn a_server_that_answers_nothing_but_errors_is_given_up_after_a_thousand_urls() {
    let seeds: Vec<String> = (0..1_500).map(|number| format!("http://10.0.0.1/{number}")).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let seen = crawl(&seeds, settings(), |asked| match asked.path.as_str() {
        "/robots.txt" => body("404 Not Found", ""),
        _ => body("500 Oops", ""),
    });
    assert!((1_000..1_010).contains(&seen.len()), "{}", seen.len());
    assert!(seconds(&seen).last() < Some(&(2 * HOUR)), "{:?}", seconds(&seen).last());
}

/// Nothing else is requested: the other orders are known, and `/s?a=2&b=1` is the seed.
#[test]
fn parameters_are_asked_for_in_the_order_in_which_they_were_found_and_only_once() {
    let links = ["/c?y=2026&amp;m=11", "/c?m=11&amp;y=2026", "/c?y=2026&amp;utm_id=1&amp;m=11#top"];
    let seen =
        crawl(&["http://10.0.0.1/s?b=1&a=2"], settings(), move |asked| match asked.path.as_str() {
            "/robots.txt" => body("200 OK", "User-agent: *\nDisallow: /*?m="),
            "/c?y=2026&m=11" => page(&["/s?a=2&amp;b=1"]),
            _ => page(&links),
        });
    let expected = ["/robots.txt", "/s?b=1&a=2", "/c?y=2026&m=11"];
    assert_eq!(targets(&seen), expected.map(|path| format!("10.0.0.1{path}")));
}

#[test]
fn a_server_that_wants_another_order_of_parameters_is_followed_and_one_that_wants_both_is_a_loop() {
    for is_loop in [false, true] {
        let seen = crawl(&["http://10.0.0.1/s?b=1&a=2"], settings(), move |asked| {
            match asked.path.as_str() {
                "/robots.txt" => body("404 Not Found", ""),
                "/s?b=1&a=2" => body("301 Moved\r\nLocation: /s?a=2&b=1", ""),
                "/s?a=2&b=1" if is_loop => body("301 Moved\r\nLocation: /s?b=1&a=2", ""),
                _ => page(&["/s?b=1&amp;a=2"]),
            }
        });
        let expected = ["/robots.txt", "/s?b=1&a=2", "/s?a=2&b=1"];
        assert_eq!(targets(&seen), expected.map(|path| format!("10.0.0.1{path}")), "{is_loop}");
    }
}

/// Only links that lead to pages count towards a page's limit of links.
#[test]
fn stylesheets_repeats_and_data_links_cost_a_page_none_of_its_links() {
    let mut html = String::new();
    for number in 0..1_200 {
        html += &format!("<link rel=stylesheet href=/{number}.css><a href=/0>again</a>");
        html += &format!("<a href=data:,{number}>d</a><a rel=nofollow href=/n{number}>n</a>");
    }
    (0..20).for_each(|number| html += &format!("<a href=/{number}>page</a>"));
    let seen =
        crawl(&["http://10.0.0.1/"], Settings { delay_ms: 20, ..settings() }, move |asked| {
            match asked.path.as_str() {
                "/robots.txt" => body("404 Not Found", ""),
                "/" => body("200 OK\r\nContent-Type: text/html", &html),
                _ => page(&[]),
            }
        });
    assert_eq!(seen.len(), 2 + 20, "{:?}", targets(&seen));
}

#[test]
fn links_beyond_the_setting_are_left_out_counted_and_marked_in_the_index() {
    for (page_link_count_max, asked_count) in [(30, 30), (0, 1_100)] {
        let sim = Sim::new(9);
        let seen = serve(&sim, |asked| match asked.path.as_str() {
            "/robots.txt" => body("404 Not Found", ""),
            "/" => {
                let links: Vec<String> = (0..1_100).map(|number| format!("/{number}")).collect();
                page(&links.iter().map(String::as_str).collect::<Vec<_>>())
            }
            _ => page(&[]),
        });
        let settings = Settings { page_link_count_max, delay_ms: 20, ..settings() };
        let crawl = crawl_in(&sim, 2, settings, vec![Url::parse("http://10.0.0.1/").unwrap()]);
        assert_eq!(seen.borrow().len(), 2 + asked_count);
        let (metrics, _) = nephila::crawl::metrics::merged(&crawl.reports);
        let left_out = 1_100 - asked_count as u64;
        assert_eq!(metrics.count(Count::LinksOverCap), left_out);
        assert_eq!(metrics.count(Count::PagesOverLinkCap), u64::from(left_out > 0));
        let is_index = |path: &std::path::Path| path.extension().is_some_and(|of| of == "cdxj");
        let lines = crawl.files.iter().filter(|(path, _)| is_index(path)).flat_map(|(_, bytes)| {
            let text = std::str::from_utf8(bytes).expect("text");
            text.lines().filter(|line| line.contains("left_out")).map(str::to_owned)
        });
        let lines: Vec<String> = lines.collect();
        assert_eq!(lines.len(), usize::from(left_out > 0), "{lines:?}");
        assert!(lines.iter().all(|line| {
            line.contains("\"url\": \"http://10.0.0.1/\"")
                && line.contains(&format!("\"links_left_out\": \"{left_out}\""))
        }));
    }
}

#[test]
fn rfc_8288_next_and_prev_and_refresh_in_a_head_are_followed_whatever_the_body_is() {
    let seen = crawl(&["http://10.0.0.1/list/1?p=1"], settings(), |asked| {
        let with = |fields: &str| body(&format!("200 OK\r\n{fields}"), "<base href=/no/>");
        match asked.path.as_str() {
            "/robots.txt" => body("404 Not Found", ""),
            "/list/1?p=1" => with(
                "Content-Type: application/json\r\nLink: <?p=2>; rel=\"next\", </a,b>; title=\"x, \
                 <y>\"; rel=prev\r\nLink: </no-style>; rel=stylesheet, </no-anchor>; rel=next; \
                 anchor=\"/x\", </no-follow>; rel=\"next nofollow\"",
            ),
            "/list/1?p=2" => with("Content-Type: text/html\r\nRefresh: 5; url='next'"),
            "/a,b" => with("X-Robots-Tag: nofollow\r\nLink: </no-robots>; rel=next"),
            "/list/next" => with("Link: <<>>, </no-broken>; rel=next"),
            _ => body("200 OK", ""),
        }
    });
    let mut asked = targets(&seen);
    asked.sort();
    let expected = ["/a,b", "/list/1?p=1", "/list/1?p=2", "/list/next", "/robots.txt"];
    assert_eq!(asked, expected.map(|path| format!("10.0.0.1{path}")));
}

#[test]
fn a_server_that_labours_is_asked_less() {
    let settings = Settings { depth_max: 6, ..settings() };
    let seen = crawl(&["http://10.0.0.1/0"], settings, |asked| {
        let answer =
            if asked.path == "/robots.txt" { body("404 Not Found", "") } else { chain(asked) };
        match answer {
            Act::Say(text, _) => Act::Say(text, Duration::from_secs(2)),
            other => other,
        }
    });
    let gaps: Vec<u64> = seconds(&seen).windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= 10), "five times two seconds: {gaps:?}");
}

/// The host does not even wait while the record of its last page is written.
#[test]
fn without_a_delay_a_host_is_asked_again_as_soon_as_it_has_answered() {
    let (sim, page_count) = (Sim::new(9), 100);
    sim.set_net(NetModel { latency_us_min: 20, latency_us_max: 20, ..NetModel::default() });
    let links: Vec<String> = (0..page_count).map(|number| format!("/{number}")).collect();
    let seen = serve(&sim, move |asked| match asked.path.as_str() {
        "/robots.txt" => body("404 Not Found", ""),
        _ => page(&links.iter().map(String::as_str).collect::<Vec<_>>()),
    });
    let settings = Settings { delay_ms: 0, ..settings() };
    let seeds = vec![Url::parse("http://10.0.0.1/").expect("a URL")];
    crawl_in(&sim, 1, settings, seeds);
    let seen = seen.borrow();
    assert_eq!(seen.len(), page_count + 2, "its robots.txt, its root and all others");
    // A few requests wait for rules that become durable, or for the control thread's answer.
    let mut gaps: Vec<Duration> =
        seen.windows(2).map(|pair| pair[1].at.since(pair[0].at)).collect();
    gaps.sort();
    // The gap is an answer, a connection and a request, at 20 us each way: no tick, no batch.
    assert!(gaps[page_count * 9 / 10] < Duration::from_micros(500), "{gaps:?}");
}

/// Returns the least time between two requests to addresses that `is_one` takes for one server.
fn gap_ms_min(seen: &[(u64, String, Asked)], is_one: impl Fn(&Asked) -> bool) -> u64 {
    let times: Vec<_> = seen.iter().filter(|(.., a)| is_one(a)).map(|(.., a)| a.at).collect();
    assert!(times.len() >= 8, "enough requests to be too close: {}", times.len());
    let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]).as_millis() as u64);
    gaps.min().expect("several requests")
}

/// The first page has links to two others; other pages have none.
fn three_pages(asked: &Asked) -> Act {
    match asked.path.as_str() {
        "/robots.txt" => body("404 Not Found", ""),
        "/" => page(&["/1", "/2"]),
        _ => page(&[]),
    }
}

#[test]
fn an_ipv4_address_has_one_pace_however_a_name_or_a_url_spells_it() {
    let spellings = ["http://10.0.0.1/", "http://[::ffff:10.0.0.1]/", "http://[::ffff:a00:1]/"];
    let seen = crawl(&spellings, settings(), three_pages);
    assert!(gap_ms_min(&seen, |_| true) >= 1_000, "{:?}", seconds(&seen));
    let to = |asked: &Asked| asked.to.to_string();
    assert!(seen.iter().all(|(.., asked)| to(asked) == "10.0.0.1"), "the IPv4 address is used");
    // An address of a translator (RFC 6052) or of 6to4 leads to the same server. It is used as is.
    let seen = crawl(
        &["http://10.0.0.1/", "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::1]/"],
        settings(),
        three_pages,
    );
    assert!(gap_ms_min(&seen, |_| true) >= 1_000, "{:?}", seconds(&seen));
    assert!(seen.iter().any(|(.., asked)| to(asked) == "64:ff9b::a00:1"));
}

#[test]
fn a_64_of_ipv6_addresses_has_one_pace_unless_the_setting_says_otherwise() {
    let seeds = ["http://[fd00:0:0:1::1]/", "http://[fd00:0:0:1:9::2]/", "http://[fd00:0:0:2::1]/"];
    let network = |asked: &Asked| match asked.to {
        std::net::IpAddr::V6(v6) => v6.segments()[3],
        std::net::IpAddr::V4(_) => unreachable!("none was seeded"),
    };
    let seen = crawl(&seeds, settings(), three_pages);
    assert_eq!(seen.len(), 12);
    assert!(gap_ms_min(&seen, |asked| network(asked) == 1) >= 1_000, "{:?}", seconds(&seen));
    assert!(gap_ms_min(&seen, |_| true) < 1_000, "another /64 has its own pace");
    let each = Settings { ipv6_pace_prefix: 128, ..settings() };
    let seen = crawl(&seeds, each, three_pages);
    assert!(gap_ms_min(&seen, |asked| network(asked) == 1) < 1_000);
}
