//! The robots.txt parser, tested with files that sites really serve, and compared with an
//! independent reader: the `robotstxt` crate, a port of Google's parser.

#[path = "support/corpus.rs"]
mod corpus;

use nephila::proto::robotstxt::{Robots, RobotsReader};
use robotstxt::matcher::{RobotsMatchStrategy, RobotsMatcher};
use std::collections::BTreeMap;

/// Returns the files of a folder of test data in the order of their names, and whether they belong
/// to the corpus.
fn corpus(folder: &str) -> (Vec<(String, Vec<u8>)>, bool) {
    let found = corpus::find(folder);
    let mut files: Vec<_> = std::fs::read_dir(&found.path)
        .expect("the folder opens")
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    (files, found.is_whole)
}

/// Returns the values of the lines of `text` whose key begins with one of `keys`.
fn values<'a>(text: &'a str, keys: &'a [&str]) -> impl Iterator<Item = &'a str> {
    text.split(['\n', '\r']).filter_map(|line| {
        let line = line.split('#').next()?;
        let (key, value) = line.split_once(':')?;
        let key = key.trim().to_ascii_lowercase();
        keys.iter().any(|wanted| key.starts_with(wanted)).then_some(value.trim())
    })
}

/// Returns paths that the file's own patterns make interesting: each pattern as a path, with its
/// stars and dollar filled in several ways, cut, and extended.
fn sample_paths(text: &str) -> Vec<String> {
    let mut paths = vec!["/".to_string(), "/index.html".into(), "/zzz/unlikely?x=1".into()];
    for pattern in values(text, &["allow", "disallow", "noindex"]).take(400) {
        let rooted = if pattern.starts_with('/') { String::new() } else { "/".into() } + pattern;
        let bare = rooted.trim_end_matches('$');
        paths.push(bare.replace('*', ""));
        paths.push(bare.replace('*', "x/y"));
        paths.push(bare.replace('*', "a") + "b");
        paths.push(bare.replace('*', "-.") + "/more?q=1");
        let cut: String = bare.chars().take(bare.chars().count() * 2 / 3).collect();
        paths.push(cut.replace('*', "q"));
        paths.push(bare.replace('*', "").to_ascii_uppercase());
    }
    // The paths are as a URL parser would give them, and begin with a slash.
    let mut paths: Vec<_> = paths
        .iter()
        .filter_map(|path| nephila::proto::url::Url::parse(&format!("http://h.example{path}")).ok())
        .map(|url| url.path_and_query().to_string())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns why the two readers may differ on a file or path, each time for a documented reason. The
/// result is `None` if they may not differ.
fn excuse(text: &str, agent: &str, path: &str) -> Option<&'static str> {
    let asks = |text: &str, path: &str| oracle(text, agent, path);
    let ours = Robots::parse(text.as_bytes(), agent).check(path).allowed;
    if path == "/robots.txt" {
        return Some("robots.txt is always allowed (RFC 9309 2.2.2)");
    }
    // The question is asked again without the records that must not end a group.
    let only_rules: String = text
        .split(['\n', '\r'])
        .filter(|line| {
            let line = line.trim_start_matches('\u{feff}').trim().to_ascii_lowercase();
            ["user", "allow", "dis", "dia"].iter().any(|key| line.starts_with(key))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    if asks(&only_rules, path) == ours {
        return Some("other records do not end a group (RFC 9309 2.2.4)");
    }
    // The question is asked again with the patterns spelled as the path is, because the port
    // compares them raw.
    let spelt: String = only_rules
        .lines()
        .map(|line| {
            let (line, dollar) = match line.strip_suffix('$') {
                Some(line) => (line, "$"),
                None => (line, ""),
            };
            match line.split_once(':') {
                Some((key, value)) => format!("{key}: {}{dollar}\n", respelt(value.trim())),
                None => format!("{line}{dollar}\n"),
            }
        })
        .collect();
    (asks(&spelt, &respelt_path(path)) == ours).then_some("percent-encoding (RFC 9309 2.2.2)")
}

fn oracle(text: &str, agent: &str, path: &str) -> bool {
    let url = format!("http://h.example{path}");
    RobotsMatcher::<GooglesMatching>::default().one_agent_allowed_by_robots(text, agent, &url)
}

/// Matches as Google's C++ source does. The port inserts into its list of positions where the
/// original assigns, and so misses `/a/*/*/b/*` on `/a/x/y/x/y/b/`.
#[derive(Default)]
struct GooglesMatching;

impl RobotsMatchStrategy for GooglesMatching {
    fn match_allow(&self, path: &str, pattern: &str) -> i32 {
        let (path, pattern) = (path.as_bytes(), pattern.as_bytes());
        let mut positions = vec![0];
        for (index, byte) in pattern.iter().enumerate() {
            if *byte == b'$' && index + 1 == pattern.len() {
                return if positions.last() == Some(&path.len()) {
                    pattern.len() as i32
                } else {
                    -1
                };
            }
            if *byte == b'*' {
                positions = (positions[0]..=path.len()).collect();
            } else {
                positions.retain(|position| path.get(*position) == Some(byte));
                positions.iter_mut().for_each(|position| *position += 1);
            }
            if positions.is_empty() {
                return -1;
            }
        }
        pattern.len() as i32
    }

    fn match_disallow(&self, path: &str, pattern: &str) -> i32 {
        self.match_allow(path, pattern)
    }
}

/// Returns `text` with `%XX` of unreserved characters decoded and unusual characters encoded,
/// without the help of the code under test.
fn respelt(text: &str) -> String {
    let mut out = String::new();
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        let pair = text.get(index + 1..index + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[index], pair) {
            (b'%', Some(octet)) => {
                match octet {
                    b'-' | b'.' | b'_' | b'~' => out.push(octet.into()),
                    _ if octet.is_ascii_alphanumeric() => out.push(octet.into()),
                    _ => out.push_str(&format!("%{octet:02X}")),
                }
                index += 2;
            }
            (b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}', _) => {
                out.push_str(&format!("%{:02X}", bytes[index]));
            }
            (b'$', _) => out.push_str("%24"),
            (byte, _) if byte.is_ascii_graphic() => out.push(byte.into()),
            (byte, _) => out.push_str(&format!("%{byte:02X}")),
        }
        index += 1;
    }
    out
}

fn respelt_path(path: &str) -> String {
    respelt(path).replace('*', "%2A")
}

/// The numbers of questions, of 81,968, on which we differ from Google's parser. In all of them we
/// follow the RFC's text.
const DIFFERENCES: [(&str, u64); 2] = [
    ("other records do not end a group (RFC 9309 2.2.4)", 1_090),
    ("percent-encoding (RFC 9309 2.2.2)", 110),
];

/// The number of real files in the corpus. Questions are asked about each.
const FILE_COUNT: usize = 400;

#[test]
fn real_files_are_judged_as_googles_parser_judges_them() {
    let (files, is_whole) = corpus("robots");
    let mut checks = 0u64;
    let mut excuses = BTreeMap::<&str, u64>::new();
    for (name, bytes) in &files {
        // The port takes only text, and reads a byte order mark as a part of the first key.
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}');
        let mut agents = vec!["nephila", "Googlebot", "*"];
        agents.extend(values(text, &["user-agent"]).filter(|name| is_token(name)).take(3));
        let paths = sample_paths(text);
        // The port reads the whole file for every question, so long files get fewer questions.
        let stride = (text.len() * paths.len() / 200_000).max(1);
        for agent in agents {
            let robots = Robots::parse(bytes, agent);
            for path in paths.iter().step_by(stride) {
                checks += 1;
                if robots.check(path).allowed == oracle(text, agent, path) {
                    continue;
                }
                let Some(reason) = excuse(text, agent, path) else {
                    panic!("{name}: {agent} {path}: we say {:?}", robots.check(path));
                };
                *excuses.entry(reason).or_default() += 1;
            }
        }
    }
    println!("{} files, {checks} checks; differences by reason: {excuses:#?}", files.len());
    if !is_whole {
        return assert!(
            files.len() == 3 && checks > 50 && excuses.is_empty(),
            "{checks} {excuses:?}"
        );
    }
    assert_eq!(files.len(), FILE_COUNT, "files of the folder");
    assert!(checks > 50_000, "{checks}");
    assert_eq!(excuses.into_iter().collect::<Vec<_>>(), DIFFERENCES, "by reason");
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_".contains(&byte))
}

#[test]
fn real_files_give_the_same_rules_in_any_pieces() {
    let (files, _) = corpus("robots");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for (name, bytes) in files {
        let whole = Robots::parse(&bytes, "nephila");
        let mut by_byte = RobotsReader::new("nephila");
        bytes.chunks(1).for_each(|piece| by_byte.push(piece));
        assert_eq!(by_byte.finish(), whole, "{name}");
        let mut random = RobotsReader::new("nephila");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (piece, after) = rest.split_at((state as usize % 300 + 1).min(rest.len()));
            random.push(piece);
            rest = after;
        }
        assert_eq!(random.finish(), whole, "{name}");
        assert!(whole.heap_bytes() <= 3 * bytes.len(), "{name}");
    }
}

/// What our parser must find in a crafted file: `agent path allowed`, and delays and sitemaps.
struct Case {
    file: &'static str,
    verdicts: &'static [(&'static str, &'static str, bool)],
    delays_ms: &'static [(&'static str, Option<u64>)],
    sitemaps: &'static [&'static str],
}

const fn case(file: &'static str, verdicts: &'static [(&'static str, &'static str, bool)]) -> Case {
    Case { file, verdicts, delays_ms: &[], sitemaps: &[] }
}

const BOM_VERDICTS: &[(&str, &str, bool)] = &[
    ("nephila", "/login.aspx", false),
    ("nephila", "/profile/x", false),
    ("nephila", "/a/output/print", false),
    ("nephila", "/output/print", true),
    ("googlebot", "/search.aspx?q", false),
    ("googlebot", "/", true),
];
const BOM_SITEMAPS: &[&str] = &["http://www.newsweek.com/sitemap_index.xml"];

const CASES: &[Case] = &[
    Case {
        delays_ms: &[("nephila", Some(5_000))],
        ..case("astore.amazon.com-robots.txt", &[("nephila", "/a", true)])
    },
    Case {
        // A delay does not end the list of agents. It applies to the agents named so far.
        delays_ms: &[("mybot", Some(10_000)), ("yourbot", None), ("nephila", Some(30_000))],
        ..case(
            "crawl-delay-group-merging.txt",
            &[
                ("mybot", "/private/a", false),
                ("mybot", "/login/a", true),
                ("yourbot", "/private/a", false),
                ("yourbot", "/login/a", false),
                ("nephila", "/private/a", true),
            ],
        )
    },
    case(
        "directive-typos-robots.txt",
        &[
            // Only the misspellings that Google's parser knows are accepted. `Desallow` and
            // `useg-agent` are unknown records, so bot3's rule belongs to bot2's group.
            ("bota", "/desallow/", true),
            ("bota", "/dissalow/", false),
            ("botb", "/useragent/", false),
            ("botb", "/useg-agent/", false),
            ("botc", "/useg-agent/", true),
            ("botd", "/useragent-no-colon/", false),
        ],
    ),
    Case {
        delays_ms: &[("nephila", Some(1_000))],
        ..case("dos-line-endings.txt", &[("nephila", "/a", true)])
    },
    case("extended-standard-robots.txt", &[("bota", "/a", true), ("botd", "/a", true)]),
    Case {
        sitemaps: &["/sitemap.xml"],
        ..case(
            "extension-robots.txt",
            &[
                ("nephila", "/private/", true),
                ("mybot", "/private/", false),
                ("mybot", "/secret/", true),
                ("otherbot", "/admin/", false),
                ("otherbot", "/private/", true),
            ],
        )
    },
    case(
        "extensions-group-merging.txt",
        &[
            ("mybot", "/private/a", false),
            ("mybot", "/login/", false),
            ("yourbot", "/private/a", false),
            ("yourbot", "/login/", false),
            ("nephila", "/llms.txt", true),
            ("nephila", "/a", false),
        ],
    ),
    Case {
        sitemaps: &["/sitemap.xml"],
        ..case(
            "format-errors-robots.txt",
            &[
                ("bota", "/whitespace-before-colon/", false),
                ("bota", "/no-colon/", false),
                ("botb", "/no-colon-useragent/", false),
                ("botc", "/whitespace-before-colon", true),
                ("botc", "/a", false),
            ],
        )
    },
    case(
        "malformed-path.txt",
        &[
            ("nephila", "/wiki/Wikipedia_talk:Mediation_Committee/", false),
            ("nephila", "/wiki/Wikipedia_talk%3Mediation_Committee/", false),
            ("nephila", "/wiki/Wikipedia_talk/", true),
        ],
    ),
    case(
        "many-user-agents.txt",
        &[
            ("wget", "/index.html", false),
            ("GetRight", "/index.html", false),
            ("BackDoorBot", "/index.html", false),
            ("nephila", "/index.html", true),
        ],
    ),
    case(
        "merge-rules.txt",
        &[
            ("testy", "/a", false),
            ("wget", "/foo/bar", true),
            ("wget", "/tmp/bar", false),
            ("nephila", "/foo/bar", false),
            ("nephila", "/ckh/bar", true),
        ],
    ),
    case(
        "precedence-of-rules.txt",
        &[
            ("wget", "/foo", true),
            ("wget", "/index.html", true),
            ("wget", "/fo", false),
            ("testy", "/foo", false),
            ("testy", "/foo/bar", true),
            ("testy", "/foo/bat", false),
            ("testy", "/", true),
        ],
    ),
    Case {
        sitemaps: &["/sitemap.xml"],
        ..case("relative-sitemap-robots.txt", &[("nephila", "/files/a", false)])
    },
    case(
        "rfc9309-example-longest-match-robots.txt",
        &[
            ("foobot", "/example/page/", true),
            ("foobot", "/example/page/disallowed.gif", false),
            ("nephila", "/example/page/disallowed.gif", true),
        ],
    ),
    case(
        "rfc9309-example-rule-group-merging.txt",
        &[
            ("examplebot", "/foo", false),
            ("ExampleBot", "/baz", false),
            ("bazbot", "/baz", false),
            ("bazbot", "/foo", true),
            ("nephila", "/bar", false),
            ("nephila", "/baz", true),
        ],
    ),
    case(
        "rfc9309-example-simple-robots.txt",
        &[
            ("nephila", "/a.gif", false),
            ("nephila", "/a.gif?x", true),
            ("nephila", "/example/a", false),
            ("nephila", "/publications/a", true),
            ("foobot", "/a", false),
            ("foobot", "/example/page.html", true),
            ("foobot", "/example/allowed.gif", true),
            ("barbot", "/example/page.html", false),
            ("bazbot", "/a", true),
            ("quxbot", "/example/page.html", true),
        ],
    ),
    Case { sitemaps: BOM_SITEMAPS, ..case("robots-with-utf16be-bom.txt", BOM_VERDICTS) },
    Case { sitemaps: BOM_SITEMAPS, ..case("robots-with-utf16le-bom.txt", BOM_VERDICTS) },
    Case { sitemaps: BOM_SITEMAPS, ..case("robots-with-utf8-bom.txt", BOM_VERDICTS) },
    Case {
        sitemaps: &["http://example.org/sitemap.xml"],
        ..case("sitemap-robots-dedup.txt", &[("nephila", "/", true)])
    },
    Case {
        sitemaps: &[
            "http://domain.com/sitemap.xml",
            "http://domain.com/dir/my-sitemap.xml",
            "http://domain.com/dir/MixedCased-sitemap.xml",
        ],
        ..case("sitemap-robots.txt", &[("nephila", "/", true)])
    },
    Case {
        delays_ms: &[("googlebot", None), ("slurp", Some(1_000)), ("msnbot", Some(10_000))],
        ..case(
            "twitter.com-robots.txt",
            &[
                ("nephila", "/a?b", false),
                ("nephila", "/a/with_friends", false),
                ("nephila", "/with_friends", true),
                ("slurp", "/a", true),
            ],
        )
    },
    Case {
        sitemaps: &[
            "http://www.amazon.com/sitemap-manual-index.xml",
            "http://www.amazon.com/sitemap_vendor_videos_us.xml",
            "http://www.amazon.com/sitemap_vod_index.xml",
            "http://www.amazon.com/sitemaps.f3053414d236e84.SitemapIndex_0.xml.gz",
            "http://www.amazon.com/sitemaps.1946f6b8171de60.SitemapIndex_0.xml.gz",
            "http://www.amazon.com/sitemaps.bbb7d657c7e29fa.SitemapIndex_0.xml.gz",
            "http://www.amazon.com/sitemaps.11aafed315ee654.SitemapIndex_0.xml.gz",
            "http://www.amazon.com/sitemaps.c21f969b5f03d33.SitemapIndex_0.xml.gz",
        ],
        ..case(
            "wildcards.txt",
            &[
                ("nephila", "/wishlist/bogus", false),
                ("nephila", "/wishlist/universal/a", true),
                ("nephila", "/a/b/gcrnsts", false),
                ("nephila", "/gp/registry/wishlist/a/reserve", false),
                ("nephila", "/", true),
            ],
        )
    },
    Case {
        sitemaps: &["http://flot.com/sitemap_index.xml"],
        ..case("www.flot.com-robots.txt", &[("nephila", "/img/a", false), ("nephila", "/a", true)])
    },
];

/// The cases of our own files.
const OWN_CASES: &[Case] = &[
    Case {
        delays_ms: &[("nephila", Some(3_000)), ("other", None)],
        sitemaps: &["http://example.org/own.xml"],
        ..case(
            "own-groups.txt",
            &[
                ("nephila", "/first", false),
                ("Nephila", "/second/x", false),
                ("nephila", "/third", true),
                ("a-bot", "/second", true),
                ("other", "/third", false),
                ("nobody", "/first", true),
            ],
        )
    },
    case(
        "own-wildcards.txt",
        &[
            ("nephila", "/x/private/y", false),
            ("nephila", "/shop/private/open", true),
            ("nephila", "/shop/private/shut", false),
            ("nephila", "/end", false),
            ("nephila", "/end/x", true),
            ("nephila", "/caf\u{e9}/x", false),
        ],
    ),
];

/// A product token has no digits (RFC 9309 2.2.1), but some files call their bots `bot1` to `bot4`.
fn with_valid_tokens(mut bytes: Vec<u8>) -> Vec<u8> {
    for at in 3..bytes.len() {
        if bytes[..at].ends_with(b"bot") && (b'1'..=b'4').contains(&bytes[at]) {
            bytes[at] = bytes[at] - b'1' + b'a';
        }
    }
    bytes
}

#[test]
fn crafted_files_say_what_their_authors_meant() {
    let (files, is_whole) = corpus("robots-cases");
    let cases = if is_whole { CASES } else { OWN_CASES };
    assert_eq!(files.len(), cases.len());
    for (name, bytes) in files {
        let case = cases.iter().find(|case| case.file == name).expect("a case per file");
        let bytes = with_valid_tokens(bytes);
        for (agent, path, allowed) in case.verdicts {
            let robots = Robots::parse(&bytes, agent);
            let verdict = robots.check(path);
            assert_eq!(verdict.allowed, *allowed, "{name}: {agent} {path}: {verdict:?}");
        }
        for (agent, delay_ms) in case.delays_ms {
            let robots = Robots::parse(&bytes, agent);
            assert_eq!(robots.crawl_delay_ms(), *delay_ms, "{name}: {agent}");
        }
        let robots = Robots::parse(&bytes, "nephila");
        assert_eq!(robots.sitemaps().collect::<Vec<_>>(), case.sitemaps, "{name}");
    }
}
