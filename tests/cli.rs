//! The binary as people and programs meet it: what it prints where, and its exit codes.

#![allow(clippy::disallowed_methods)] // waits for processes, in real time

use nephila::engine::Manifest;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes; a command that hangs fails its test instead of stopping it.
const PATIENCE: Duration = Duration::from_secs(60);

fn nephila(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nephila"));
    command.args(arguments).env_remove("NEPHILA_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs to the end, with `input` on stdin.
fn run_with(arguments: &[&str], input: &str) -> Output {
    let mut child = nephila(arguments).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |stream: &mut dyn Read| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let errors = std::thread::spawn(move || read(&mut stderr));
    let results = std::thread::spawn(move || read(&mut stdout));
    let status = wait(&mut child);
    feeder.join().unwrap();
    Output { status, stdout: results.join().unwrap(), stderr: errors.join().unwrap() }
}

fn run(arguments: &[&str]) -> Output {
    run_with(arguments, "")
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the command did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn assert_ends(output: &Output, code: i32, says: &[&str]) {
    let errors = errors(output);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    for said in says {
        assert!(errors.contains(said), "{said:?} is not in {errors:?}");
    }
}

fn answers(parser: &str, questions: &[Value]) -> Vec<Value> {
    let input: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let output = run_with(&["try", parser], &input);
    assert_ends(&output, 0, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// --- try ----------------------------------------------------------------------------------------

#[test]
fn try_answers_every_line_in_order() {
    let answers = answers(
        "url",
        &[
            json!({"url": "x", "base": "http://a.test/y/"}),
            json!("no object"),
            json!({"url": "HTTP://B.test:80/%7ea?utm_source=1"}),
        ],
    );
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[0]["url"], "http://a.test/y/x");
    assert!(answers[1]["error"].is_string());
    assert_eq!(answers[2]["normal"], "http://b.test/~a");
}

#[test]
fn try_knows_robots_html_and_http() {
    let robots = json!({"robots": "User-agent: *\nDisallow: /x", "agent": "a", "url": "/x/y"});
    let robots = answers("robots", &[robots]);
    assert_eq!(
        (&robots[0]["allowed"], &robots[0]["rule"]),
        (&json!(false), &json!("Disallow: /x"))
    );
    let html = answers("html", &[json!({"html": "<a href=/l>t</a>", "base": "http://a.test/"})]);
    let link = json!({"url": "http://a.test/l", "kind": "a", "nofollow": false, "text": "t"});
    assert_eq!(html[0]["links"], json!([link]));
    // "HTTP/1.1 204 No Content\r\n\r\n"
    let response = "SFRUUC8xLjEgMjA0IE5vIENvbnRlbnQNCg0K";
    let http = answers("http", &[json!({"response_base64": response, "eof": false})]);
    assert_eq!((&http[0]["status"], &http[0]["complete"]), (&json!(204), &json!(true)));
}

#[test]
fn try_prints_nothing_that_steers_a_terminal() {
    let question = json!({"html": "<title>\u{9b}2J\u{202e}</title>", "base": "http://a.test/"});
    let output = run_with(&["try", "html"], &format!("{question}\n"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\\u202e") && !text.contains('\u{202e}'), "{text:?}");
    assert!(!text.contains('\u{9b}'), "{text:?}");
}

// --- Usage and configuration --------------------------------------------------------------------

#[test]
fn bad_usage_ends_with_two() {
    assert_ends(&run(&[]), 2, &["Usage"]);
    assert_ends(&run(&["crawl", "http://a.test/"]), 2, &["--out"]);
    assert_ends(&run(&["crawl", "--nonsense"]), 2, &["--nonsense"]);
    assert_ends(&run(&["try", "nonsense"]), 2, &["nonsense"]);
    assert_ends(&run(&["web", "--profile", "nonsense"]), 2, &["nonsense", "default", "rough"]);
    assert_ends(&run(&["web", "--hosts", "0"]), 2, &["host_count"]);
}

#[test]
fn help_and_version_end_with_zero() {
    for arguments in [&["--help"][..], &["--version"], &["crawl", "--help"], &["try", "--help"]] {
        let output = run(arguments);
        assert_ends(&output, 0, &[]);
        assert!(!output.stdout.is_empty());
    }
}

/// A crawl that must not begin: its directory may not even be made.
fn refused(config: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("nephila.toml"), folder.path().join("out"));
    std::fs::write(&file, config).unwrap();
    let mut all = vec!["crawl", "--config", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    all.extend_from_slice(arguments);
    let output = run(&all);
    assert!(!out.exists(), "something was started");
    output
}

#[test]
fn a_bad_configuration_ends_with_two_and_says_what_is_wrong() {
    let seed = "http://a.test/";
    let with = |config: &str| refused(config, &[seed]);
    assert_ends(&with("delay_ms = = 1"), 2, &["nephila.toml", "line 1"]);
    assert_ends(&with("dealy_ms = 1"), 2, &["nephila.toml", "`dealy_ms`", "`delay_ms`"]);
    assert_ends(&with("delay_ms = -1"), 2, &["delay_ms = -1", "0 to 86400000"]);
    assert_ends(&with("stay = \"home\""), 2, &["stay", "\"web\" or \"domain\" or \"host\""]);
    assert_ends(&with("head_timeout_ms = 100"), 2, &["first_byte_timeout_ms"]);
    assert_ends(&with("cores = [1000]"), 2, &["core 1000"]);
    let missing = run(&["crawl", "--config", "/nowhere/x.toml", "--out", "/nowhere/out", seed]);
    assert_ends(&missing, 2, &["/nowhere/x.toml"]);
}

#[test]
fn flags_are_checked_like_the_file_and_go_over_it() {
    let seed = "http://a.test/";
    assert_ends(&refused("", &[seed, "--delay-ms", "86400001"]), 2, &["delay_ms = 86400001"]);
    assert_ends(&refused("", &[seed, "--dns", "resolver"]), 2, &["dns", "IP:PORT"]);
    assert_ends(&refused("", &[seed, "--cores", "0-x"]), 2, &["cores", "0,2-3"]);
    assert_ends(&refused("", &[seed, "--contact", "a b"]), 2, &["contact"]);
    assert_ends(&refused("", &[seed, "--set", "fetch_slots=0"]), 2, &["fetch_slots = 0"]);
    // The file's value is good, the flag's is not: the flag counts.
    let over = refused("stay = \"web\"", &[seed, "--stay", "home"]);
    assert_ends(&over, 2, &["stay = \"home\""]);
}

#[test]
fn a_public_seed_needs_a_contact() {
    let output = refused("", &["http://a.test/", "https://example.org/"]);
    assert_ends(&output, 2, &["https://example.org/", "--contact", "contact ="]);
}

#[test]
fn the_printed_settings_are_a_configuration_file() {
    let printed = run(&["settings"]);
    assert_ends(&printed, 0, &[]);
    let config = String::from_utf8(printed.stdout).unwrap();
    assert!(config.contains("\ndelay_ms = 1000\n"), "{config}");
    // Accepted: what is missed is the contact, which has no default.
    assert_ends(&refused(&config, &["https://example.org/"]), 2, &["--contact"]);
}

#[test]
fn bad_seeds_are_told_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = folder.path().join("seeds.txt");
    std::fs::write(&seeds, "# none of these\n\nftp://a.test/\nhttp://[\n\x1b[2J\n").unwrap();
    let output = refused("", &["--seeds", seeds.to_str().unwrap()]);
    assert_ends(&output, 2, &["seeds.txt:3: ", "seeds.txt:4: ", "seeds.txt:5: ", "no seed"]);
    assert!(!errors(&output).contains('\x1b'), "{:?}", errors(&output));
    assert_ends(&refused("", &[]), 2, &["no seed"]);
}

// --- web ----------------------------------------------------------------------------------------

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn terminate(child: &Child) {
    let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
}

#[test]
fn web_says_its_seed_url_serves_it_and_keeps_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, truth) = (path("log"), path("truth"));
    let (listen, dns) = (format!("0.0.0.0:{}", free_port()), format!("127.0.0.1:{}", free_port()));
    let mut child = nephila(&["web", "--hosts", "3", "--pages", "30", "--log", &log])
        .args(["--truth", &truth, "--listen", &listen, "--dns", &dns])
        .spawn()
        .unwrap();
    let mut seed_url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut seed_url).unwrap();
    let seed_url = seed_url.trim();
    let host = seed_url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let port = host.rsplit_once(':').unwrap().1;
    let mut stream = TcpStream::connect(format!("127.16.0.1:{port}")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).unwrap();
    assert!(status.starts_with("HTTP/1.1 200"), "{status}");
    terminate(&child);
    assert!(wait(&mut child).success());
    assert!(
        lines(&log).iter().any(|line| line.contains(" whole ") && line.ends_with(" / 200")),
        "{:?}",
        lines(&log)
    );
    assert!(lines(&truth)[0].contains(seed_url), "{:?}", lines(&truth));
}

fn lines(path: &str) -> Vec<String> {
    std::fs::read_to_string(Path::new(path)).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn web_on_a_taken_port_fails_with_one() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let output = run(&["web", "--hosts", "1", "--pages", "1", "--listen", &listen]);
    let port = listen.rsplit_once(':').unwrap().1;
    assert_ends(&output, 1, &[&format!(":{port}"), "in use"]);
}

// --- crawl --------------------------------------------------------------------------------------

/// Crawls one seed without retries, on one core.
fn crawl(seed: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut all = vec!["crawl", seed, "--out", out.to_str().unwrap(), "--json"];
    all.extend(["--set", "retry_count_max=0", "--max-seconds", "30"]);
    all.extend_from_slice(arguments);
    run(&all)
}

fn outcome_count(output: &Output, outcome: &str) -> u64 {
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    object["outcomes"][outcome].as_u64().unwrap()
}

#[test]
fn a_private_address_is_refused_unless_allowed() {
    let output = crawl("http://127.0.0.1:9/", &["--dns", "127.0.0.1:9"]);
    assert_ends(&output, 1, &["address_refused", "--allow-private"]);
    assert_eq!(outcome_count(&output, "address_refused"), 1);
}

#[test]
fn a_refused_port_ends_with_one() {
    let seed = format!("http://127.0.0.1:{}/", free_port());
    let output = crawl(&seed, &["--dns", "127.0.0.1:9", "--allow-private"]);
    assert_ends(&output, 1, &["no page was fetched: connect_refused", &seed]);
}

#[test]
fn a_name_that_nobody_resolves_ends_with_one() {
    let fast = ["--set", "dns_timeout_ms=50", "--set", "dns_tries=1"];
    let dns = format!("127.0.0.1:{}", free_port());
    let arguments = [&fast[..], &["--dns", &dns]].concat();
    let output = crawl("http://nowhere.test/", &arguments);
    assert_ends(&output, 1, &["no page was fetched", "http://nowhere.test/"]);
}

#[test]
fn a_limit_of_open_files_reduces_the_run_and_not_what_the_crawl_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let seed = format!("http://127.0.0.1:{}/", free_port());
    // So many files that not even root may raise the limit to them (fs.nr_open).
    let set = ["fetch_slots=3000", "keep_alive_count_max=1048576"];
    let begin = [&seed, "--allow-private", "--set", set[0], "--set", set[1]];
    for arguments in [&begin[..], &["--resume"]] {
        let output = Command::new("prlimit")
            .args(["--nofile=2000:2000", env!("CARGO_BIN_EXE_nephila"), "crawl"])
            .args(["--out", out.to_str().unwrap(), "--dns", "127.0.0.1:9", "--cores", "0"])
            .args(["--max-seconds", "1"])
            .args(arguments)
            .env_remove("NEPHILA_LOG")
            .output()
            .unwrap();
        let said = errors(&output);
        assert!(said.contains("the system allows 2000 open files"), "{said}");
        assert!(!said.contains("this setting has changed"), "{said}");
        let settings = Manifest::load(&out).unwrap().settings;
        assert_eq!((settings.fetch_slots, settings.keep_alive_count_max), (3_000, 1_048_576));
    }
}

// --- a disk that fails --------------------------------------------------------------------------

/// A web, and a crawl of it whose files may not grow beyond so many bytes. A limit of the process
/// is the smallest disk that can be had without being root: writes beyond it fail as on a full one.
struct Cramped {
    web: Child,
    crawl: Child,
    errors: std::sync::mpsc::Receiver<String>,
    folder: tempfile::TempDir,
}

impl Cramped {
    fn start(file_bytes_max: u64) -> Cramped {
        let folder = tempfile::tempdir().unwrap();
        let listen = format!("0.0.0.0:{}", free_port());
        let dns = format!("127.0.0.1:{}", free_port());
        let mut web = nephila(&["web", "--hosts", "4", "--pages", "60"])
            .args(["--listen", &listen, "--dns", &dns])
            .spawn()
            .unwrap();
        let mut seed = String::new();
        BufReader::new(web.stdout.take().unwrap()).read_line(&mut seed).unwrap();
        // Ignored signals stay ignored in what is executed; this one would end the process.
        let mut crawl = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec prlimit --fsize=\"$0\":unlimited \"$@\""])
            .args([&file_bytes_max.to_string(), env!("CARGO_BIN_EXE_nephila"), "crawl"])
            .args([seed.trim(), "--out", folder.path().join("out").to_str().unwrap(), "--json"])
            .args(["--dns", &dns, "--allow-private", "--delay-ms", "20"])
            .args(["--contact", "http://crawler.test/", "--stay", "web"])
            .env_remove("NEPHILA_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(crawl.stderr.take().unwrap());
        let (sender, errors) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Cramped { web, crawl, errors, folder }
    }

    /// Reads on until a line says `text`, and gives it.
    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.errors.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("{text:?} was not said: {before:#?}"),
            }
        }
    }

    fn make_room(&self) {
        let pid = self.crawl.id().to_string();
        let raised = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
        assert!(raised.unwrap().success());
    }

    fn warc_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join("out/warc")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Cramped {
    fn drop(&mut self) {
        for child in [&mut self.web, &mut self.crawl] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_disk_without_room_pauses_the_crawl_and_room_lets_it_end() {
    let mut cramped = Cramped::start(100_000);
    let said = cramped.wait_for("paused, the disk fails");
    let out = cramped.folder.path().join("out").canonicalize().unwrap();
    for part in [out.to_str().unwrap(), "write WARC file", "goes on by itself", "Ctrl-C"] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    cramped.make_room();
    cramped.wait_for("the disk works again");
    assert!(wait(&mut cramped.crawl).success());
    let object: Value = serde_json::from_reader(cramped.crawl.stdout.take().unwrap()).unwrap();
    assert_eq!(object["exit"], "done");
    let names = cramped.warc_names();
    assert!(names.iter().all(|name| !name.ends_with(".open")), "{names:?}");
    let mut urls = Vec::new();
    for name in names.iter().filter(|name| name.ends_with(".cdxj")) {
        for line in lines(out.join("warc").join(name).to_str().unwrap()) {
            let json: Value = serde_json::from_str(line.splitn(3, ' ').nth(2).unwrap()).unwrap();
            urls.push((json["url"].as_str().unwrap().to_owned(), json["status"] == "200"));
        }
    }
    let count = urls.len();
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), count, "nothing is stored twice");
    let is_page = |url: &str| !url.ends_with("/robots.txt") && !url.contains("/sitemap");
    let pages = urls.iter().filter(|(url, is_ok)| *is_ok && is_page(url)).count();
    assert!(pages > 20);
    assert_eq!(object["pages"], pages);
}

#[test]
fn a_signal_ends_a_crawl_that_waits_for_its_disk() {
    let mut cramped = Cramped::start(100_000);
    cramped.wait_for("paused, the disk fails");
    terminate(&cramped.crawl);
    assert_eq!(wait(&mut cramped.crawl).code(), Some(1));
    cramped.wait_for("the crawl was given up: write WARC file");
}
