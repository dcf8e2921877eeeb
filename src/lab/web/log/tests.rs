//! Tests that lines read back as they were written, and that requests without an end have a line
//! too.

use super::*;
use crate::base::WallTime;
use std::cell::Cell;
use std::future::Future;

/// A clock that stands still until a test sets it.
struct Standing(Cell<u64>);

impl Clock for Standing {
    fn now(&self) -> Time {
        Time(self.0.get())
    }

    fn wall(&self) -> WallTime {
        WallTime(self.0.get() + 1_000)
    }

    fn cpu_ns(&self) -> u64 {
        0
    }

    fn sleep_until(&self, _: Time) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    fn yield_now(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([127, 16, 0, last], 80))
}

fn asked<'a>(host: &'a str, path: &'a str) -> Asked<'a> {
    let (peer, local) = (address(1), address(2));
    Asked { at: Time(7), peer, local, is_https: false, host, path, status: 200 }
}

/// Begins and delivers the answer.
fn serve(mut draft: Draft<'_, Standing>) {
    draft.begin();
    draft.deliver();
}

fn memory_log() -> (MemorySink, RefCell<RequestLog>, Standing) {
    let sink = MemorySink::default();
    let log = RefCell::new(RequestLog::new(sink.clone()));
    (sink, log, Standing(Cell::new(9)))
}

#[test]
fn lines_read_back_as_they_were_written() {
    let (sink, log, clock) = memory_log();
    let hosts = ["h000001.site0.test", "", "a b", "caf\u{e9}\n\\x20"];
    for host in hosts {
        serve(Draft::new(&log, &clock, &asked(host, "/p/1?q= x")));
    }
    assert!(sink.entries().is_empty(), "nothing was flushed yet");
    log.borrow_mut().flush().unwrap();
    let entries = sink.entries();
    assert_eq!(entries.len(), hosts.len());
    for (entry, host) in entries.iter().zip(hosts) {
        assert_eq!((entry.host.as_str(), entry.path.as_str()), (host, "/p/1?q= x"));
        assert_eq!((entry.at, entry.peer, entry.local), (Time(7), address(1), address(2)));
        assert_eq!((entry.sent, entry.end, entry.is_https), (Time(9), Time(9), false));
        assert_eq!((&entry.retry_after, &entry.location, &entry.body), (&None, &None, &None));
    }
    let text = sink.text();
    let ends = "127.16.0.1:80 127.16.0.2:80";
    let start = format!("7 9 9 whole {ends} http h000001.site0.test /p/1?q=\\x20x 200\n");
    assert!(text.starts_with(&start), "{text}");
}

#[test]
fn what_binds_the_client_reads_back_as_it_was_sent() {
    let (sink, log, clock) = memory_log();
    let date = "Fri, 31 Dec 1999 23:59:59 GMT";
    let mut busy = Draft::new(&log, &clock, &Asked { status: 503, ..asked("h", "/p") });
    busy.tell(format!("HTTP/1.1 503 Busy\r\nRETRY-AFTER: {date}\r\n\r\nbody").as_bytes(), false);
    serve(busy);
    let mut moved = Draft::new(&log, &clock, &Asked { status: 301, ..asked("h", "/robots.txt") });
    moved.tell(b"HTTP/1.1 301 Moved\r\nLocation: http://i/r?a=b c\r\n\r\nbody", false);
    serve(moved);
    let mut robots = Draft::new(&log, &clock, &asked("h", "/robots.txt"));
    robots.tell(b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\r\nDisallow: /=\xff\n", true);
    serve(robots);
    log.borrow_mut().flush().unwrap();
    let entries = sink.entries();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[0].retry_after.as_deref(), Some(date));
    assert_eq!(entries[0].body, None, "only a robots.txt has its body in the log");
    assert_eq!(entries[1].location.as_deref(), Some("http://i/r?a=b c"));
    assert_eq!(entries[1].body, None, "a redirect's body is no robots.txt");
    let body = b"User-agent: *\r\nDisallow: /=\xff\n".to_vec();
    assert_eq!(entries[2].body, Some(body));
}

#[test]
fn an_answer_that_never_ends_is_in_the_log_as_far_as_it_came() {
    let (sink, log, clock) = memory_log();
    drop(Draft::new(&log, &clock, &asked("h", "/unsent")));
    let mut cut = Draft::new(&log, &clock, &asked("h", "/cut"));
    cut.begin();
    clock.0.set(70);
    drop(cut);
    log.borrow_mut().flush().unwrap();
    let entries = sink.entries();
    let times = |index: usize| [entries[index].at, entries[index].sent, entries[index].end];
    assert_eq!((entries[0].fate, times(0)), (Fate::Unsent, [Time(7), Time(9), Time(9)]));
    assert_eq!((entries[1].fate, times(1)), (Fate::Cut, [Time(7), Time(9), Time(70)]));
}

#[test]
fn a_robots_body_is_cut_at_its_bound() {
    let (sink, log, clock) = memory_log();
    let mut robots = Draft::new(&log, &clock, &asked("h", "/robots.txt"));
    let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    answer.resize(answer.len() + WEB_LOG_BODY_BYTES_MAX + 1, b'x');
    robots.tell(&answer, true);
    serve(robots);
    log.borrow_mut().flush().unwrap();
    assert_eq!(sink.entries()[0].body.as_ref().unwrap().len(), WEB_LOG_BODY_BYTES_MAX);
    assert!(log.borrow().spares.is_empty(), "a buffer as large as this is not kept");
}

#[test]
fn the_clocks_remark_is_no_request() {
    let (sink, log, clock) = memory_log();
    log.borrow_mut().remark_clock(&clock);
    log.borrow_mut().flush().unwrap();
    assert_eq!(sink.text(), "# clock 9 1009\n");
    assert!(sink.entries().is_empty());
    assert_eq!(log.borrow().line_count(), 0);
}

#[test]
fn a_full_buffer_and_the_end_both_flush() {
    let (sink, log, clock) = memory_log();
    let path = "/".repeat(4_000);
    for _ in 0..100 {
        Draft::new(&log, &clock, &asked("h", &path)).deliver();
    }
    assert!(!sink.entries().is_empty());
    drop(log);
    assert_eq!(sink.entries().len(), 100);
}

#[test]
fn a_failing_sink_is_told_once_and_counted() {
    struct Failing;
    impl LogSink for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<()> {
            Err(io::Error::other("disk full"))
        }
    }
    let (log, clock) = (RefCell::new(RequestLog::new(Failing)), Standing(Cell::new(9)));
    log.borrow_mut().remark_clock(&clock);
    Draft::new(&log, &clock, &asked("h", "/")).deliver();
    let mut log = log.borrow_mut();
    assert!(log.flush().is_err());
    assert!(log.flush().is_ok());
    assert_eq!((log.line_count(), log.lost_count()), (1, 1));
}

#[test]
fn foreign_lines_are_refused() {
    let whole = "7 9 9 whole 127.0.0.1:1 127.0.0.1:2 http h / 200";
    assert!(Entry::parse(whole).is_some());
    for line in ["", "x", "1 2 3 4 5 6 7 8 9", "# clock 7 8"] {
        assert_eq!(Entry::parse(line), None, "{line}");
    }
    for ending in [" ", " 200", " cookie=1", " body=\\xzz"] {
        assert_eq!(Entry::parse(&format!("{whole}{ending}")), None, "{ending}");
    }
    assert_eq!(Entry::parse(&whole.replace("whole", "half")), None);
}
