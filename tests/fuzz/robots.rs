//! robots.txt: pieces are compared with the whole, memory is bounded, and the result does not
//! depend on how a file is spelled.

use crate::dice::Dice;
use crate::engine::{Target, corpus, scale};
use nephila::base::limits::{ROBOTS_DELAY_MS_MAX, ROBOTS_RULE_COUNT_MAX, ROBOTS_SITEMAP_COUNT_MAX};
use nephila::proto::robotstxt::{Robots, RobotsReader};

#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"User-agent: *\n", b"User-agent: nephila\n", b"User-agent: other\n", b"Disallow: /\n",
    b"Disallow:\n", b"Allow: /a\n", b"Disallow: /*b$\n", b"Disallow: /a*b*c\n", b"Disallow ",
    b"Allow: ", b"/index.html", b"Crawl-delay: 1.5\n", b"Crawl-delay: ",
    b"Sitemap: http://a/s.xml\n", b"Sitemap: /", b"#", b":", b" ", b"\t", b"\r", b"\n", b"\r\n",
    b"*", b"$", b"%", b"%2A", b"%24", b"%61", b"%zz", b"\xC3\xA9", b"\xC2\xA0", b"\xEF\xBB\xBF",
    b"\xFF\xFE", b"\xFE\xFF", b"\0", b"\x0b", b"Dissalow: /x\n",
];

const PATHS: &[&str] = &[
    "/",
    "/a",
    "/ab",
    "/a/b/c?d=e",
    "/index.html",
    "/%61",
    "/*",
    "/a$b",
    "/\u{e9}",
    "/robots.txt",
];

#[test]
fn any_file_gives_the_same_rules_in_any_pieces() {
    let mut seeds = corpus("robots-cases", 3_000);
    seeds.extend(corpus("robots", 2_000).into_iter().step_by(5));
    let target = Target {
        name: "robots::any_file_gives_the_same_rules_in_any_pieces",
        words: WORDS,
        seeds,
        input_bytes_max: 8_000,
        input_count: 6_000,
    };
    target.run(|input| {
        let mut dice = Dice::of(input);
        let whole = Robots::parse(input, "nephila");
        let mut reader = RobotsReader::new("nephila");
        dice.cut(input).into_iter().for_each(|piece| reader.push(piece));
        assert_eq!(reader.finish(), whole);
        check_bounds(&whole, input.len());
        for path in PATHS {
            let verdict = whole.check(path);
            assert_eq!(verdict.allowed, verdict.rule.is_none_or(|rule| rule.allow), "{path}");
            // The rule that decides is the first one, by precedence, that matches. No rule before
            // it may match.
            let naive = whole.rules().find(|rule| naive_matches(rule.pattern.as_bytes(), path));
            assert!(
                *path == "/robots.txt" || verdict.rule == naive,
                "{path}: {verdict:?} {naive:?}"
            );
        }
        let denied = PATHS.iter().filter(|path| !whole.check(path).allowed).count();
        let delay = whole.crawl_delay_ms().is_some();
        (denied, delay, whole.sitemaps().count().min(3), scale(whole.rules().count()))
    });
}

fn check_bounds(robots: &Robots, file_bytes: usize) {
    assert!(robots.rules().count() <= ROBOTS_RULE_COUNT_MAX);
    assert!(robots.sitemaps().count() <= ROBOTS_SITEMAP_COUNT_MAX);
    assert!(robots.crawl_delay_ms().is_none_or(|delay_ms| delay_ms <= ROBOTS_DELAY_MS_MAX));
    // An encoded octet takes three bytes, and UTF-16 may turn two bytes into three. An entry of
    // eight bytes comes with a line that is longer than that. `Allow: /index.html` makes two rules.
    assert!(robots.heap_bytes() <= 6 * file_bytes, "{} of {file_bytes}", robots.heap_bytes());
    let lengths: Vec<_> = robots.rules().map(|rule| (rule.pattern.len(), rule.allow)).collect();
    let is_sorted = |pair: &[(usize, bool)]| {
        pair[0].0 > pair[1].0 || pair[0].0 == pair[1].0 && pair[0].1 >= pair[1].1
    };
    assert!(
        lengths.windows(2).all(is_sorted),
        "rules are sorted by octets, and allow comes before disallow"
    );
}

/// Matches by the definition in RFC 9309 2.2.3, position by position, on the path in normal form.
fn naive_matches(pattern: &[u8], path: &str) -> bool {
    let path = normal(path);
    let mut places: Vec<bool> = (0..=path.len()).map(|at| at == 0).collect();
    for (index, byte) in pattern.iter().enumerate() {
        let mut next = vec![false; path.len() + 1];
        match byte {
            b'$' if index + 1 == pattern.len() => return places[path.len()],
            b'*' => {
                let first = places.iter().position(|place| *place);
                next[first.unwrap_or(path.len() + 1).min(path.len())..].fill(first.is_some());
            }
            _ => (0..path.len())
                .filter(|at| places[*at] && path[*at] == *byte)
                .for_each(|at| next[at + 1] = true),
        }
        places = next;
    }
    places.contains(&true)
}

/// The normal forms of the paths above: what must be encoded is encoded, and `%61` becomes its
/// letter.
fn normal(path: &str) -> Vec<u8> {
    let path = path.replace("%61", "a").replace('*', "%2A").replace('$', "%24");
    path.replace('\u{e9}', "%C3%A9").into_bytes()
}
