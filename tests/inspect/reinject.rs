//! Dead letters put back: fetched once more, exactly, whatever the journal still has of them; and
//! looks beside a crawl that runs.

use super::server::{Server, answer, page};
use super::{HOST, crawl, dead, files, look, manner, nephila, resume, settings, texts};
use nephila::cli::inspect::{DeadFilter, InspectError, Question, ask};
use nephila::crawl::config::Settings;
use nephila::engine::report::summary;
use nephila::engine::{DataDirectory, Summary};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// `/bad` fails four times and is well then; `/gone` is missing for ever.
fn site() -> Server {
    Server::start(|_, path, nth| match (path, nth) {
        ("/robots.txt", _) => answer("404 None", ""),
        ("/", _) => page(&["/bad", "/gone", "/good"]),
        ("/bad", 0..4) => answer("500 Oops", ""),
        ("/gone", _) => answer("404 None", ""),
        _ => page(&[]),
    })
}

fn reinject(out: &Path, urls: &[String]) -> Result<String, InspectError> {
    ask(out, &Question::Reinject(urls.to_vec()), manner(true, 100))
}

#[test]
fn a_dead_letter_put_back_is_fetched_once_and_dead_no_more() {
    let (server, place) = (site(), tempfile::tempdir().expect("a directory"));
    let out = place.path().join("crawl");
    let (bad, gone) = (server.url(HOST, "/bad"), server.url(HOST, "/gone"));
    crawl(settings(), &[server.url(HOST, "/")], &out);
    assert_eq!(server.asked().len(), 7, "the page, /bad four times, /gone and /good");
    let mut all = dead(&out, None, None);
    all.sort();
    assert_eq!(all, [bad.clone(), gone.clone()]);

    for (urls, why) in [
        (&[bad.clone(), server.url(HOST, "/good")][..], "it was not given up"),
        (&[server.url(HOST, "/never")], "it was not given up"),
    ] {
        let before = files(&out);
        let refused = reinject(&out, urls).expect_err("no dead letter");
        assert!(refused.to_string().contains(why), "{refused}");
        assert!(files(&out) == before, "all or nothing");
    }
    let path = out.to_str().expect("a path");
    let output = nephila(&["inspect", path, "--reinject", &bad, &bad]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("1 dead letter put back"), "{output:?}");
    assert_eq!(dead(&out, None, None), std::slice::from_ref(&gone));
    let history = look(&out, &Question::Url(bad.clone()));
    assert_eq!(history["to_come"]["state"], "queued");
    assert_eq!(history["to_come"]["tries"], 0, "all of its tries are before it");
    let again = reinject(&out, std::slice::from_ref(&bad)).expect_err("it is queued already");
    assert!(again.to_string().contains("still to come"), "{again}");

    // In all runs together: all four URLs have ended, and one of them is dead.
    let totals = |resumed: &Summary| {
        let counts = &summary::json(resumed)["total"]["counts"];
        ["pages", "urls_ended", "dead_letters"].map(|name| counts[name].as_u64().expect("a count"))
    };
    assert_eq!(totals(&resume(settings(), &out)), [3, 4, 1]);
    assert_eq!(server.asked(), [format!("{HOST}/bad")]);
    assert_eq!(dead(&out, None, None), std::slice::from_ref(&gone));
    let history = look(&out, &Question::Url(bad.clone()));
    assert_eq!((&history["state"], &history["request_count"]), (&"ended".into(), &5.into()));
    assert_eq!(look(&out, &Question::Overview)["urls"]["ended"], 4);

    // Life after life, and dead again each time.
    for life in 2..5 {
        reinject(&out, std::slice::from_ref(&gone)).expect("a dead letter");
        assert_eq!(totals(&resume(settings(), &out)), [3, 4, 1], "life {life}");
        assert_eq!(server.asked(), [format!("{HOST}/gone")], "life {life}");
        assert_eq!(dead(&out, None, None), std::slice::from_ref(&gone));
    }
}

/// A crawl that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_crawl(seed: &str, out: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nephila"));
    command.args(["crawl", seed, "--out", out.to_str().expect("a path"), "--quiet"]);
    command.args(["--allow-private", "--dns", "127.0.0.1:9", "--contact", "http://crawler.test/"]);
    command.args(["--set", "sync_ms=20", "--set", "journal_sync_ms=10"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.env_remove("NEPHILA_LOG").spawn().expect("a process"))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Another host keeps the crawl running: it asks for most of an hour before its page.
fn endless_site() -> Server {
    Server::start(|host, path, nth| match (host, path, nth) {
        (HOST, "/robots.txt", _) => answer("404 None", ""),
        (_, "/robots.txt", _) => answer("200 OK", "User-agent: *\nCrawl-delay: 3000\n"),
        (HOST, "/", _) => page(&["/bad", "/good"]),
        (HOST, "/bad", 0..4) => answer("500 Oops", ""),
        _ => page(&[]),
    })
}

#[test]
fn no_copy_of_a_dead_letter_survives_a_kill_but_the_one_put_back() {
    let server = endless_site();
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("crawl");
    let bad = server.url(HOST, "/bad");
    let slow = server.url("127.0.0.9", "/");
    let fast = ["--delay-ms", "10", "--set", "retry_base_ms=10", &slow];
    let mut child = start_crawl(&server.url(HOST, "/"), &out, &fast);
    // No checkpoint was taken: the journal has the URL as it was taken, tried again and again, and
    // given up.
    let filter = DeadFilter::default();
    wait_until("the dead letter", || {
        let answer = ask(&out, &Question::Dead(filter.clone()), manner(true, 9));
        answer.is_ok_and(|text| text.contains(&bad))
    });
    let refused = reinject(&out, std::slice::from_ref(&bad)).expect_err("a crawl runs");
    assert!(matches!(refused, InspectError::Locked(_)), "{refused}");
    let told = ask(&out, &Question::Overview, manner(true, 9)).expect("an answer");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["running"], true);
    assert_eq!(told["checkpoints"].as_array().map(Vec::len), Some(0));
    assert_eq!(told["ended_since_checkpoint"]["server_error"], 1);
    child.0.kill().expect("a process");
    child.0.wait().expect("an end");
    assert_eq!(server.asked().iter().filter(|asked| asked.ends_with("/bad")).count(), 4);

    let put_back = ask(&out, &Question::ReinjectDead(filter), manner(true, 9)).expect("put back");
    assert!(put_back.contains("\"reinjected\":1"), "{put_back}");
    let brief = Settings { max_seconds: 2, ..settings() };
    resume(brief.clone(), &out);
    let asked = server.asked();
    assert_eq!(asked.iter().filter(|asked| asked.ends_with("/bad")).count(), 1, "{asked:?}");
    assert_eq!(dead(&out, None, None), [] as [String; 0]);
    // Nor does one come back later.
    resume(brief, &out);
    assert_eq!(server.asked().iter().filter(|asked| asked.ends_with("/bad")).count(), 0);
}

#[test]
fn a_locked_directory_is_refused_and_left_as_it_is() {
    let (server, place) = (site(), tempfile::tempdir().expect("a directory"));
    let out = place.path().join("crawl");
    crawl(settings(), &[server.url(HOST, "/")], &out);
    let before = files(&out);
    let lock = DataDirectory::open(&out).expect("a lock");
    let refused = ask(&out, &Question::ReinjectDead(DeadFilter::default()), manner(true, 9));
    assert!(matches!(refused, Err(InspectError::Locked(_))), "{refused:?}");
    assert!(files(&out) == before);
    drop(lock);
    ask(&out, &Question::ReinjectDead(DeadFilter::default()), manner(true, 9)).expect("unlocked");
    assert!(files(&out) != before);
}

#[test]
fn looks_beside_a_crawl_that_takes_checkpoints_all_succeed() {
    let server = Server::start(|_, path, _| {
        let number: u32 = path.trim_start_matches('/').parse().unwrap_or(0);
        let links: Vec<String> = (1..4).map(|step| format!("/{}", number * 3 + step)).collect();
        page(&links.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("crawl");
    // Without a cap on shapes: what one refuses after a merge is known, and never ends.
    let busy = "--delay-ms 0 --set checkpoint_seconds=1 --set skeleton_page_cap=0 --max-seconds 6";
    let busy: Vec<&str> = busy.split(' ').collect();
    let mut child = start_crawl(&server.url(HOST, "/"), &out, &busy);
    wait_until("the crawl", || out.join("MANIFEST.json").exists() && out.join("requests").exists());
    let (mut look_count, mut ended_most, mut checkpoint_names) = (0, 0, Vec::new());
    while child.0.try_wait().expect("a process").is_none() {
        let told = ask(&out, &Question::Overview, manner(true, 9)).expect("an answer");
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let count = |name: &str| told["urls"][name].as_u64().expect("a count");
        let pending_count = count("queued") + count("waiting") + count("open");
        assert_eq!(count("known"), pending_count + count("ended"));
        ended_most = ended_most.max(count("ended"));
        look_count += 1;
        for checkpoint in told["checkpoints"].as_array().expect("a list") {
            let name = checkpoint["name"].as_str().expect("a name").to_owned();
            if !checkpoint_names.contains(&name) {
                checkpoint_names.push(name);
            }
        }
    }
    assert!(look_count > 5 && checkpoint_names.len() > 2, "{look_count}, {checkpoint_names:?}");
    let told = look(&out, &Question::Overview);
    let (ended, fetched) = (&told["urls"]["ended"], &told["requests"]["fetched"]);
    assert_eq!(ended.as_u64().map(|count| count + 1), fetched.as_u64(), "and a robots.txt");
    assert!(ended_most > 10, "{ended_most}");
}

#[test]
fn a_url_that_was_under_way_at_the_checkpoint_is_open() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let server = Server::start(move |_, path, _| {
        if path == "/held" {
            // Until the test has seen enough, or is over.
            let _ = gate.recv();
        }
        page(if path == "/" { &["/held", "/next"] } else { &[] })
    });
    // Let go before the server is waited for, should the test fail.
    let release = release;
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("crawl");
    let patient = ["--delay-ms", "10", "--set", "checkpoint_seconds=1"];
    let mut child = start_crawl(&server.url(HOST, "/"), &out, &patient);
    let question = Question::Host(HOST.into());
    let mut states = Vec::new();
    wait_until("a checkpoint with the URL in it", || {
        let Ok(text) = ask(&out, &question, manner(true, 9)) else { return false };
        let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        states = texts(&told["urls"], "state");
        states.contains(&"open".to_owned())
    });
    assert_eq!(states, ["open", "queued"], "/held, and /next behind it");
    let held = ask(&out, &Question::Url(server.url(HOST, "/held")), manner(true, 9));
    let held: serde_json::Value = serde_json::from_str(&held.expect("an answer")).expect("JSON");
    assert_eq!(
        (&held["to_come"]["state"], &held["to_come"]["via"]),
        (&"open".into(), &"link".into())
    );
    drop(release);
    assert!(child.0.wait().expect("an end").success());
    let told = look(&out, &Question::Overview);
    assert_eq!((&told["urls"]["open"], &told["urls"]["ended"]), (&0.into(), &3.into()));
}
