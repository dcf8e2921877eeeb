use super::*;
use crate::base::limits::{
    ROBOTS_BYTES_MAX, ROBOTS_LINE_BYTES_MAX, ROBOTS_RULE_COUNT_MAX, ROBOTS_SITEMAP_COUNT_MAX,
};
use proptest::prelude::*;

fn parse(text: &str) -> Robots {
    Robots::parse(text.as_bytes(), "nephila")
}

fn allows(text: &str, path: &str) -> bool {
    parse(text).check(path).allowed
}

#[test]
fn rfc_groups_for_our_token_are_merged_and_others_left_out() {
    let robots = parse(
        "User-agent: nephila\nDisallow: /a\n\nUser-agent: other\nDisallow: /b\n\n\
         user-agent: *\nDisallow: /c\n\nuser-agent: x\nuser-agent: NEPHILA/2.0\nDisallow: /d\n",
    );
    let patterns: Vec<_> = robots.rules().map(|rule| rule.pattern).collect();
    assert_eq!(patterns, ["/a", "/d"]);
}

#[test]
fn rfc_everyones_rules_apply_only_where_no_group_names_us() {
    let everyone = "User-agent: *\nDisallow: /a\n";
    assert!(!allows(everyone, "/a"));
    let named = "User-agent: *\nDisallow: /a\nUser-agent: nephila\nAllow: /b\n";
    assert!(allows(named, "/a"));
    let named_without_rules = "User-agent: *\nDisallow: /a\n\nUser-agent: nephila\n";
    assert!(allows(named_without_rules, "/a"));
    let both = "User-agent: *\nUser-agent: nephila\nDisallow: /a\n";
    assert!(!allows(both, "/a"));
}

#[test]
fn rfc_only_the_whole_token_is_us() {
    for agent in ["nephila-news", "neph", "nephilax", "x nephila", "1nephila"] {
        assert!(allows(&format!("User-agent: {agent}\nDisallow: /\n"), "/a"), "{agent}");
    }
    for agent in ["nephila", "Nephila/1.0", "nephila bot", "NEPHILA2"] {
        assert!(!allows(&format!("User-agent: {agent}\nDisallow: /\n"), "/a"), "{agent}");
    }
}

#[test]
fn rfc_rules_before_any_group_are_ignored() {
    assert!(allows("Disallow: /\nUser-agent: *\nAllow: /a\n", "/b"));
}

#[test]
fn rfc_other_records_do_not_end_a_group() {
    let text = "User-agent: nephila\nCrawl-delay: 2\nSitemap: /s.xml\nHost: a\n\
                User-agent: other\nDisallow: /a\n";
    assert!(!allows(text, "/a"));
    assert_eq!(parse(text).crawl_delay_ms(), Some(2_000));
}

#[test]
fn rfc_the_longest_match_wins_and_allow_wins_a_tie() {
    let text = "User-agent: *\nDisallow: /example/page/disallowed.gif\nAllow: /example/page/\n\
                Allow: /x\nDisallow: /x\nDisallow: /*.z\nAllow: /y.z\n";
    let robots = parse(text);
    assert!(robots.check("/example/page/").allowed);
    let verdict = robots.check("/example/page/disallowed.gif");
    assert!(!verdict.allowed);
    assert_eq!(verdict.rule.unwrap().line, 2);
    assert_eq!(verdict.rule.unwrap().to_string(), "line 2: Disallow: /example/page/disallowed.gif");
    assert!(robots.check("/x").allowed);
    assert!(robots.check("/y.z").allowed, "Allow must win a tie of four octets");
    assert_eq!(robots.check("/nowhere"), Verdict { allowed: true, rule: None });
}

#[test]
fn rfc_octets_are_counted_as_they_are_compared() {
    // `/%62%61%7A` is `/baz`, which has four octets however it is written.
    let text = "User-agent: *\nAllow: /%62%61%7A\nDisallow: /baz/q\n";
    assert!(!allows(text, "/baz/quux"));
    assert!(allows(text, "/baz/p"));
    let tie = "User-agent: *\nDisallow: /%7E%7E\nAllow: /~~\n";
    assert!(allows(tie, "/~~x"));
    let beyond_ascii = "User-agent: *\nDisallow: /\u{30c4}\nAllow: /%E3%83\n";
    assert!(!allows(beyond_ascii, "/%E3%83%84"));
}

#[test]
fn rfc_a_rule_for_a_url_in_a_query_holds_for_both_spellings_of_it() {
    let text = "User-agent: *\nDisallow: /login?to=https://\nAllow: /login?to=https%3A%2F%2Fa\n";
    for path in ["/login?to=https://b", "/login?to=https%3a%2F%2fb", "/login?to=https:%2F/b"] {
        assert!(!allows(text, path), "{path}");
    }
    assert!(allows(text, "/login?to=https://a/x"));
    assert!(allows(text, "/login?to=ftp://b"));
}

#[test]
fn a_file_made_to_be_slow_forbids_what_it_does_not_decide_in_time() {
    let slow = "Disallow: /*aaaaaaaaaaaab\n".repeat(18_000);
    let robots = parse(&format!("User-agent: *\n{slow}Allow: /*b$\n"));
    assert_eq!(robots.rules().count(), 18_001);
    let verdict = robots.check(&format!("/{}", "a".repeat(4_000)));
    assert!(verdict.is_undecided(), "{verdict:?}");
    // A path that is decided within the step limit is decided by its rule.
    assert!(robots.check("/b").allowed);
    assert!(!robots.check("/xaaaaaaaaaaaab").is_undecided());
    assert!(!robots.check("/nowhere").is_undecided());
}

#[test]
fn rfc_robots_txt_itself_is_always_allowed() {
    assert!(allows("User-agent: *\nDisallow: /\n", "/robots.txt"));
    assert!(Robots::disallow_all().check("/robots.txt").allowed);
    assert!(!Robots::disallow_all().check("/robots.txt2").allowed);
    assert!(!Robots::disallow_all().check("/").allowed);
    assert!(Robots::allow_all().check("/").allowed);
    assert_eq!(Robots::allow_all().heap_bytes(), 0);
}

#[test]
fn an_empty_disallow_forbids_nothing_and_still_ends_the_list_of_agents() {
    let text = "User-agent: nephila\nDisallow:\nUser-agent: other\nDisallow: /\n";
    assert!(allows(text, "/a"));
}

#[test]
fn lenient_an_allowed_index_page_allows_its_directory() {
    let text = "User-agent: *\nDisallow: /\nAllow: /a/index.html\n";
    assert!(allows(text, "/a/"));
    assert!(!allows(text, "/a/b"));
    assert!(!allows("User-agent: *\nAllow: /a\nDisallow: /\n", "/b"));
}

#[test]
fn every_line_end_counts_one_line() {
    for end in ["\n", "\r", "\r\n"] {
        let text = ["User-agent: *", "", "Disallow: /a", "Disallow: /bc"].join(end);
        let lines: Vec<_> = parse(&text).rules().map(|rule| rule.line).collect();
        assert_eq!(lines, [4, 3], "{end:?}");
    }
}

#[test]
fn lenient_byte_order_marks_are_no_text() {
    let text = "User-agent: *\r\nDisallow: /caf\u{e9}/\u{1f577}\r\n";
    let plain = parse(text);
    assert_eq!(plain.rules().count(), 1);
    assert_eq!(parse(&format!("\u{feff}{text}")), plain);
    let utf16: Vec<u16> = "\u{feff}".encode_utf16().chain(text.encode_utf16()).collect();
    let little: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    assert_eq!(Robots::parse(&little, "nephila"), plain);
    assert_eq!(Robots::parse(&big, "nephila"), plain);
    let torn = [b"\xef\xbb".as_slice(), text.as_bytes()].concat();
    assert_eq!(Robots::parse(&torn, "nephila"), plain);
}

#[test]
fn delays_come_from_the_groups_that_apply_and_the_longest_counts() {
    let text = "User-agent: *\nCrawl-delay: 9\nDisallow:\n\nUser-agent: nephila\nCrawl-delay: 1\n\
                Crawl-delay: 0.5\nDisallow:\n";
    assert_eq!(parse(text).crawl_delay_ms(), Some(1_000));
    assert_eq!(Robots::parse(text.as_bytes(), "other").crawl_delay_ms(), Some(9_000));
    assert_eq!(parse("Crawl-delay: 3\nUser-agent: *\nDisallow:\n").crawl_delay_ms(), None);
}

#[test]
fn sitemaps_are_taken_from_anywhere_once_each() {
    let text = "Sitemap: http://a.b/1.xml\nUser-agent: x\nDisallow: /\nsitemap: HTTPS://a.b/2\n\
                Sitemap: http://a.b/1.xml\nSitemap: /3.xml\nSitemap: //a.b/4\nSitemap: ftp://a/5\n\
                Sitemap:\n";
    let robots = parse(text);
    let sitemaps: Vec<_> = robots.sitemaps().collect();
    assert_eq!(sitemaps, ["http://a.b/1.xml", "HTTPS://a.b/2", "/3.xml"]);
    assert_eq!(robots.rules().count(), 0);
}

#[test]
fn counts_are_bounded() {
    let mut text = String::from("User-agent: *\n");
    for index in 0..ROBOTS_RULE_COUNT_MAX + 10 {
        text.push_str(&format!("Disallow:/{index}\n"));
    }
    assert!(text.len() < ROBOTS_BYTES_MAX);
    assert_eq!(parse(&text).rules().count(), ROBOTS_RULE_COUNT_MAX);
    let sitemaps: String = (0..ROBOTS_SITEMAP_COUNT_MAX + 10)
        .map(|index| format!("Sitemap: http://a.b/{index}\n"))
        .collect();
    assert_eq!(parse(&sitemaps).sitemaps().count(), ROBOTS_SITEMAP_COUNT_MAX);
}

#[test]
fn rfc_500_kib_are_read_and_a_line_cut_by_the_limit_is_not() {
    let mut text = String::from("User-agent: *\n");
    text.push_str(&"#".repeat(ROBOTS_BYTES_MAX - text.len() - 13));
    text.push_str("\nDisallow: /abc\nDisallow: /d\n");
    assert_eq!(text.as_bytes()[ROBOTS_BYTES_MAX - 1], b'a');
    assert_eq!(parse(&text).rules().count(), 0);
    let fits = text.replacen("##", "", 1).replacen('#', "", 1);
    let patterns = parse(&fits).rules().map(|rule| rule.pattern.to_string()).collect::<Vec<_>>();
    assert_eq!(patterns, ["/abc"]);
    let mut reader = RobotsReader::new("nephila");
    reader.push(&vec![b'x'; ROBOTS_BYTES_MAX - 1]);
    reader.push(b"x");
    assert!(!reader.is_full());
    reader.push(b"x");
    assert!(reader.is_full());
}

#[test]
fn rfc_a_file_that_ends_at_the_limit_is_whole() {
    let (start, end) = ("User-agent: *\n#", "\nDisallow: /abc");
    let text = [start, &"#".repeat(ROBOTS_BYTES_MAX - start.len() - end.len()), end].concat();
    assert_eq!(text.len(), ROBOTS_BYTES_MAX);
    assert!(!allows(&text, "/abc"));
    assert!(allows(&format!("{text}d"), "/abc"), "a cut last line must not be read");
}

#[test]
fn an_endless_line_is_cut_and_the_next_one_read() {
    let text = format!(
        "User-agent: *\nDisallow: /{}\nDisallow: /b\n",
        "a".repeat(3 * ROBOTS_LINE_BYTES_MAX)
    );
    let whole = parse(&text);
    let lengths: Vec<_> = whole.rules().map(|rule| rule.pattern.len()).collect();
    assert_eq!(lengths, [ROBOTS_LINE_BYTES_MAX - "Disallow: ".len(), 2]);
    assert_eq!(in_pieces(text.as_bytes(), &[1_000]), whole);
}

fn in_pieces(bytes: &[u8], lengths: &[usize]) -> Robots {
    let mut reader = RobotsReader::new("nephila");
    let mut rest = bytes;
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*length).clamp(1, rest.len()));
        reader.push(piece);
        rest = after;
    }
    reader.finish()
}

/// Makes files that are close enough to robots.txt to reach every branch.
#[expect(clippy::disallowed_types, reason = "prop_oneof! shares its arms through an Arc")]
fn file() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(vec![
        "User-agent: *",
        "User-agent: nephila",
        "User-agent: x",
        "Disallow: /",
        "Allow: /a",
        "Allow",
        "Disallow: /*b$",
        "Crawl-delay: 1.",
        "Sitemap: http://a/",
        "Sitemap: /",
        "#",
        " ",
        ":",
        "%",
        "\r",
        "\n",
        "\r\n",
        "\n\n",
        "\u{feff}",
        "/index.html",
        "\u{e9}",
        "9",
    ]);
    let word = prop_oneof![
        8 => key.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
        1 => Just(b"\xff\xfe".to_vec()),
    ];
    prop::collection::vec(word, 0..30).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_rules(
        file in file(),
        lengths in prop::collection::vec(1usize..20, 1..8),
    ) {
        let whole = Robots::parse(&file, "nephila");
        prop_assert_eq!(&in_pieces(&file, &[1]), &whole);
        prop_assert_eq!(&in_pieces(&file, &lengths), &whole);
    }

    #[test]
    fn any_bytes_give_bounded_rules_and_a_verdict(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        path in "/.{0,40}",
    ) {
        let file = [b"User-agent: *\nDisallow: /".as_slice(), &bytes].concat();
        let robots = Robots::parse(&file, "nephila");
        // An octet grows to three when it is encoded, and an entry takes no more bytes than the
        // line of its rule.
        prop_assert!(robots.heap_bytes() <= 4 * file.len());
        let verdict = robots.check(&path);
        prop_assert_eq!(verdict.allowed, verdict.rule.is_none_or(|rule| rule.allow));
        prop_assert!(!verdict.is_undecided());
    }
}
