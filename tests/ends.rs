//! How a process ends: by signals as an operator, a terminal and a supervisor send them, and
//! because one of its shards cannot start.

#![allow(clippy::disallowed_methods)] // waits for processes, in real time

use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// This is longer than any step here takes. A process that hangs then fails its test instead of
/// blocking it.
const PATIENCE: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_nephila");

/// A synthetic web, and a folder for a crawl of it that would take minutes.
struct Stand {
    web: Child,
    seed: String,
    dns: String,
    folder: tempfile::TempDir,
}

impl Stand {
    fn start() -> Stand {
        let listen = format!("0.0.0.0:{}", free_port());
        let dns = format!("127.0.0.1:{}", free_port());
        let mut web = Command::new(BINARY)
            .args(["web", "--hosts", "4", "--pages", "4000", "--listen", &listen, "--dns", &dns])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut seed = String::new();
        BufReader::new(web.stdout.take().unwrap()).read_line(&mut seed).unwrap();
        let folder = tempfile::tempdir().unwrap();
        Stand { web, seed: seed.trim().to_owned(), dns, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a shell's line that becomes the crawl, with its process id, its summary and its log
    /// in files.
    fn line(&self) -> String {
        let [pid, out, json, log] =
            ["pid", "out", "json", "log"].map(|name| self.path(name).display().to_string());
        let (seed, dns) = (&self.seed, &self.dns);
        format!(
            "echo $$ > {pid}; NEPHILA_LOG=info exec {BINARY} crawl {seed} --out {out} --dns {dns} \
             --allow-private --delay-ms 200 --contact http://crawler.test/ --quiet --json \
             > {json} 2> {log}"
        )
    }

    /// Returns the crawl's process once it has requested a page.
    fn crawl(&self) -> u32 {
        wait_until("the first page", || {
            let logs = fs::read_dir(self.path("out/requests")).into_iter().flatten().flatten();
            logs.into_iter().any(|log| log.metadata().is_ok_and(|data| data.len() > 0))
        });
        fs::read_to_string(self.path("pid")).unwrap().trim().parse().unwrap()
    }

    /// Returns what the crawl printed about its end.
    fn summary(&self) -> Value {
        let text = fs::read_to_string(self.path("json")).unwrap();
        assert!(!text.is_empty(), "no summary; its log: {}", self.log());
        serde_json::from_str(&text).unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = self.web.kill();
        let _ = self.web.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not come in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reports whether a process exists and is not a zombie.
fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_terminal_that_goes_lets_the_crawl_drain() {
    let stand = Stand::start();
    // `script` gives the shell its own terminal as its controlling terminal.
    let mut terminal = Command::new("script")
        .args(["-qfec", &stand.line(), "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let crawl = stand.crawl();
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    wait_until("the crawl to end", || !is_alive(crawl));
    assert_eq!(stand.summary()["exit"], "interrupted", "{}", stand.log());
}

#[test]
fn a_hangup_without_a_terminal_is_told_and_ignored() {
    let stand = Stand::start();
    let mut shell = Command::new("setsid")
        .args(["sh", "-c", &stand.line()])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let crawl = stand.crawl();
    send("-HUP", crawl);
    wait_until("a word of it", || stand.log().contains("SIGHUP is ignored"));
    assert!(stand.log().contains(" INFO "), "{}", stand.log());
    assert!(is_alive(crawl));
    send("-TERM", crawl);
    assert!(shell.wait().unwrap().success());
    assert_eq!(stand.summary()["exit"], "interrupted");
}

/// The process's stderr is a full pipe that nobody reads, so any thread that writes to it blocks:
/// the thread that steers, and any other that logs.
fn stuck(command: &mut Command, errors: &Path) -> (Stuck, File) {
    assert!(Command::new("mkfifo").arg(errors).status().unwrap().success());
    // The pipe is opened for reading and writing, so that neither end waits for the other.
    let mut pipe = fs::OpenOptions::new().read(true).write(true).open(errors).unwrap();
    let filler = pipe.try_clone().unwrap();
    pipe.write_all(&[b'x'; 64 * 1024]).unwrap();
    (Stuck(command.stderr(filler).spawn().unwrap()), pipe)
}

/// A process that is killed when its test ends, even if the test fails.
struct Stuck(Child);

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ends_by_the_second_signal(child: &mut Child) {
    let pid = child.id();
    wait_until("the thread that takes signals", || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
        tasks.into_iter().any(|task| name(task).is_ok_and(|name| name.trim() == "signals"))
    });
    send("-TERM", pid);
    std::thread::sleep(Duration::from_millis(500));
    assert!(is_alive(pid), "the process should be blocked, not gone");
    let begun = Instant::now();
    send("-TERM", pid);
    wait_until("the process to end", || child.try_wait().unwrap().is_some());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn the_second_signal_ends_a_crawl_that_stands_still() {
    let stand = Stand::start();
    let mut crawl = Command::new(BINARY);
    crawl
        .args(["crawl", &stand.seed, "--dns", &stand.dns, "--allow-private", "--delay-ms", "200"])
        .args(["--contact", "http://crawler.test/", "--out", stand.path("out").to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let (mut crawl, _pipe) = stuck(&mut crawl, &stand.path("errors"));
    ends_by_the_second_signal(&mut crawl.0);
}

#[test]
fn the_second_signal_ends_a_web_that_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let mut web = Command::new(BINARY);
    web.args(["web", "--hosts", "2", "--pages", "20", "--listen"])
        .args([format!("0.0.0.0:{}", free_port()), "--dns".to_owned()])
        .arg(format!("127.0.0.1:{}", free_port()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let (mut web, _pipe) = stuck(&mut web, &folder.path().join("errors"));
    let mut seed = String::new();
    BufReader::new(web.0.stdout.take().unwrap()).read_line(&mut seed).unwrap();
    ends_by_the_second_signal(&mut web.0);
}

impl Stand {
    /// Resumes the crawl. Returns whether it ended well, and what it printed.
    fn resumed(&self) -> (Option<i32>, String) {
        let errors = File::create(self.path("errors")).unwrap();
        let mut crawl = Stuck(
            Command::new(BINARY)
                .args(["crawl", "--resume", "--dns", &self.dns, "--delay-ms", "5", "--quiet"])
                .args(["--allow-private", "--contact", "http://crawler.test/"])
                .args(["--out", self.path("out").to_str().unwrap()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(errors)
                .spawn()
                .unwrap(),
        );
        wait_until("the resumed crawl to end", || crawl.0.try_wait().unwrap().is_some());
        let code = crawl.0.wait().unwrap().code();
        (code, fs::read_to_string(self.path("errors")).unwrap())
    }

    fn request_count(&self) -> usize {
        let logs = fs::read_dir(self.path("out/requests")).unwrap();
        let texts = logs.map(|log| fs::read_to_string(log.unwrap().path()).unwrap());
        let count = |text: String| text.lines().filter(|line| !line.starts_with('#')).count();
        texts.map(count).sum()
    }
}

#[test]
fn a_start_that_one_shard_refuses_ends_with_its_reason_and_without_a_request() {
    let stand = Stand::start();
    let line = stand.line() + " --set seen_batch=64 --set checkpoint_seconds=1";
    let line = line.replace("--delay-ms 200", "--delay-ms 20");
    let mut shell = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).spawn().unwrap();
    let crawl = stand.crawl();
    // The crawl's secret decides which shard has the hosts.
    let runs_of = |shard: usize| {
        let folder = stand.path(&format!("out/state/shard-{shard:02}"));
        let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "run")).collect::<Vec<_>>()
    };
    let with_runs = || (0..64).find(|shard| !runs_of(*shard).is_empty());
    wait_until("a run of URL seen", || with_runs().is_some());
    let shard = with_runs().expect("a shard with a run");
    send("-TERM", crawl);
    assert!(shell.wait().unwrap().success(), "{}", stand.log());
    // All of them: one alone may be a run that the last checkpoint no longer names.
    runs_of(shard).iter().for_each(|run| fs::remove_file(run).unwrap());
    let before = stand.request_count();
    let (code, said) = stand.resumed();
    assert_eq!(code, Some(1), "{said}");
    let refused = format!("shard {shard}: URL seen: cannot open seen-");
    assert!(said.contains(&refused), "{said}");
    assert_eq!(stand.request_count(), before, "no request was made");
}
