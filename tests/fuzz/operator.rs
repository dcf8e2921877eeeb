//! Text from operators and logs: seed files, configuration, request lines, web logs, and the
//! escapes that make other people's text safe for a terminal.

use crate::dice::Dice;
use crate::engine::{Target, scale, texts};
use nephila::base::limits::{SEED_PROBLEM_COUNT_MAX, SHARD_COUNT_MAX};
use nephila::base::{Time, WallTime, escape, escape_cut};
use nephila::crawl::config::{Settings, parse_cores};
use nephila::crawl::flow::Outcome;
use nephila::crawl::seed::Seeds;
use nephila::crawl::store::{LogLine, RequestLine};
use nephila::io::sim::Sim;
use nephila::lab::web::log::{Asked, Draft, Entry};
use nephila::lab::web::{MemorySink, RequestLog};
use nephila::proto::url::{Normaliser, Url};
use std::cell::RefCell;
use std::io::BufReader;
use std::net::SocketAddr;

#[test]
fn any_seed_file_is_read_the_same_in_any_reads() {
    let target = Target {
        name: "operator::any_seed_file_is_read_the_same_in_any_reads",
        words: &[
            b"http://h.example/",
            b"h.example",
            b"\n",
            b"\r\n",
            b"#",
            b" # why",
            b" ",
            b"\t",
            b"\xEF\xBB\xBF",
            b"\xFF",
            b"\0",
            b"ftp://a",
            b"localhost:8080",
            b"//",
        ],
        seeds: texts(&["# seeds\nhttp://h.example/a\n\nh.example/b # no scheme\r\nmailto:x\n"]),
        input_bytes_max: 20_000,
        input_count: 4_000,
    };
    target.run(|input| {
        let read = |buffer_bytes: usize| {
            let mut seeds = Seeds::new(Normaliser::new(&[]));
            let reader = BufReader::with_capacity(buffer_bytes, input);
            seeds.add_lines("seeds.txt", reader).expect("memory reads");
            let problems: Vec<String> = seeds.problems().iter().map(|p| format!("{p:?}")).collect();
            let problem_count = seeds.problem_count();
            (seeds.into_urls(), problems, problem_count)
        };
        let whole = read(input.len().max(1));
        assert_eq!(read(1 + Dice::of(input).size(4_000)), whole);
        let (urls, problems, problem_count) = whole;
        let line_count = 1 + memchr::memchr_iter(b'\n', input).count();
        assert!(problems.len() == problem_count.min(SEED_PROBLEM_COUNT_MAX));
        assert!(urls.len() <= line_count && problem_count <= line_count);
        assert!(problems.iter().all(|problem| problem.len() < 20_000));
        (scale(urls.len()), scale(problem_count))
    });
}

#[test]
fn any_configuration_is_refused_or_reads_back_as_equal() {
    let default = Settings::default().to_toml();
    let mut seeds: Vec<Vec<u8>> = default.lines().map(|line| line.as_bytes().to_vec()).collect();
    seeds.push(default.into_bytes());
    let target = Target {
        name: "operator::any_configuration_is_refused_or_reads_back_as_equal",
        words: &[
            b"delay_ms = ",
            b"cores = ",
            b"contact = ",
            b"\"",
            b"'",
            b"\n",
            b"[",
            b"]",
            b"=",
            b"0",
            b"-1",
            b"1e9",
            b"99999999999999999999",
            b"true",
            b"\"\"\"",
            b"\\u0000",
            b"#",
            b"nan",
            b"0,2-3",
        ],
        seeds,
        input_bytes_max: 4_000,
        input_count: 4_000,
    };
    target.run(|input| {
        let text = String::from_utf8_lossy(input);
        let settings = Settings::from_toml(&text);
        if let Ok(settings) = &settings {
            assert_eq!(Settings::from_toml(&settings.to_toml()).as_ref(), Ok(settings));
        }
        let mut changed = Settings::default();
        let assigned = changed.set_text(&text);
        assert!(assigned.is_ok() || changed == Settings::default(), "a refusal changes nothing");
        let cores = parse_cores(&text);
        assert!(
            cores.as_ref().is_ok_and(|cores| cores.len() <= 4 * SHARD_COUNT_MAX) || cores.is_err()
        );
        let checked = settings.as_ref().ok().map(|settings| settings.check().is_ok());
        let name = |error: &nephila::crawl::config::ConfigError| {
            format!("{error:?}").split(['(', ' ']).next().map(str::to_owned)
        };
        (settings.as_ref().err().and_then(name), checked, assigned.err().as_ref().and_then(name))
    });
}

#[test]
fn any_log_line_is_one_line_that_reads_back() {
    let target = Target {
        name: "operator::any_log_line_is_one_line_that_reads_back",
        words: &[
            b"7 8 9 whole 127.0.0.1:1 [::1]:2 http h / 200",
            b" retry-after=5",
            b" location=/x",
            b" body=\\x0A",
            b"\\x",
            b"\\x20",
            b"\\",
            b" ",
            b"\n",
            b"\xC3\xA9",
            b"-",
        ],
        seeds: texts(&["7 8 9 cut 127.0.0.1:1 127.0.0.1:2 https h /\\x20 200", "h.example"]),
        input_bytes_max: 400,
        input_count: 10_000,
    };
    let sim = Sim::new(1);
    let world = sim.world(0);
    target.run(|input| {
        let text = String::from_utf8_lossy(input);
        let read = Entry::parse(&text);
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let (host, path) = match &read {
            Some(entry) => (entry.host.clone(), entry.path.clone()),
            None => (text.clone().into_owned(), format!("/{text}")),
        };
        let (host, path) = (host.as_str(), path.as_str());
        let sink = MemorySink::default();
        let log = RefCell::new(RequestLog::new(sink.clone()));
        let (at, peer, local, is_https, status) = (Time(7), address, address, false, 200);
        let asked = Asked { at, peer, local, is_https, host, path, status };
        let mut draft = Draft::new(&log, &world, &asked);
        let answer = [b"HTTP/1.1 200 OK\r\nRetry-After: 5\r\n\r\n", input].concat();
        draft.tell(&answer, true);
        drop(draft);
        log.borrow_mut().flush().expect("memory takes all");
        let entries = sink.entries();
        let [entry] = &entries[..] else { panic!("{} lines", entries.len()) };
        assert_eq!((entry.host.as_str(), entry.path.as_str()), (host, path));
        assert_eq!(entry.retry_after.as_deref(), Some("5"));
        assert_eq!(entry.body.as_deref(), Some(input));
        check_request_line(&text);
        (read.is_some(), scale(input.len()))
    });
}

/// The crawler's own log has ten words in a line, whatever the URL and the method are.
fn check_request_line(text: &str) {
    let base = Url::parse("http://h.example/").expect("a URL");
    let url = base.join(text).unwrap_or(base);
    let line = RequestLine {
        started: Time(1),
        at: WallTime(2),
        address: None,
        // This text is our own and never empty, but it is escaped all the same.
        method: &format!("GET{text}"),
        url: &url,
        status: Some(200),
        outcome: Outcome::Fetched,
        body_bytes: 3,
        total_ms: 4,
    };
    let mut out = Vec::new();
    line.push(&mut out);
    let out = String::from_utf8(out).expect("a log is text");
    assert!(out.ends_with('\n') && out.matches('\n').count() == 1, "{out:?}");
    let columns: Vec<&str> = out.trim_end_matches('\n').split(' ').collect();
    assert!(columns.len() == 10 && columns.iter().all(|column| !column.is_empty()), "{out:?}");
}

#[test]
fn any_text_is_made_fit_for_one_line_of_a_terminal() {
    let target = Target {
        name: "operator::any_text_is_made_fit_for_one_line_of_a_terminal",
        words: &[
            b"\x1b[2J",
            b"\\",
            b"\\n",
            b"\n",
            b"\xE2\x80\xAE",
            b"\xC2\x9B",
            b"\xFF",
            b"a",
            b"\xEF\xBB\xBF",
        ],
        seeds: texts(&["plain", "a\u{202e}b\\\n\u{1b}[0m"]),
        input_bytes_max: 300,
        input_count: 10_000,
    };
    target.run(|input| {
        let whole = escape(input).to_string();
        assert!(!whole.chars().any(char::is_control), "{whole:?}");
        // The longest escape, `\u{10ffff}`, has ten bytes and stands for at most four.
        assert!(whole.len() <= 10 * input.len());
        let chars_max = Dice::of(input).below(40);
        let cut = escape_cut(input, chars_max).to_string();
        let kept = cut.strip_suffix('…').filter(|kept| cut != whole || whole.starts_with(kept));
        assert!(cut == whole || kept.is_some_and(|kept| whole.starts_with(kept)), "{cut:?}");
        (cut == whole, scale(whole.len()), whole.len() == input.len())
    });
}
