//! The store against a world in memory; see `tests/warc.rs` for the bytes themselves.

use super::fake::Fake;
use super::gather::{Batch, Gatherer, Seal, new_buffer};
use super::*;
use crate::base::Time;
use crate::flow::Outcome;
use crate::io::{Clock, Disk};
use crate::limits::{
    DIRECT_BLOCK_BYTES, REQUEST_LOG_BUFFER_BYTES, WARC_RECORD_BYTES_MAX, WRITE_BUFFER_BYTES,
    WRITE_BUFFER_COUNT_MAX,
};
use crate::warc::{PayloadDigest, ReadError, StoredRecord, records};
use std::pin::pin;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n";

struct TestPage {
    url: Url,
    response: Vec<u8>,
    digest: Sha1,
}

impl TestPage {
    fn new(n: usize, body_len: usize) -> TestPage {
        let url = Url::parse(&format!("http://h{}.example/p/{n}", n % 3)).unwrap();
        let body: Vec<u8> = (0..body_len).map(|at| (at * 31 + n) as u8).collect();
        TestPage { url, response: [HEAD, &body].concat(), digest: PayloadDigest::of(&body) }
    }

    fn stored(&self) -> StoredPage<'_> {
        StoredPage {
            url: &self.url,
            address: SocketAddr::from(([192, 0, 2, 7], 80)),
            at: WallTime(1_767_225_599_000_000_000),
            request_head: b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            response: &self.response,
            head_len: HEAD.len(),
            payload_digest: self.digest,
            transfer_coded: false,
            content_coded: false,
            truncated: None,
            revisit_of: None,
            status: 200,
            mime: "text/html",
            simhash: None,
            near: None,
            undecoded: None,
            links_left_out: 0,
        }
    }
}

fn open(world: &Fake, settings: StoreSettings) -> WarcStore<Fake> {
    world.run(WarcStore::open(world, 3, settings)).unwrap()
}

fn write(world: &Fake, store: &WarcStore<Fake>, n: usize, body_len: usize) -> Position {
    world.run(store.write(&TestPage::new(n, body_len).stored())).unwrap()
}

fn disk_full(doing: &'static str) -> StoreError {
    StoreError::Disk { doing, error: DiskError::Full }
}

fn with_suffix(world: &Fake, suffix: &str) -> Vec<String> {
    world.names().into_iter().filter(|name| name.ends_with(suffix)).collect()
}

/// All records of all closed files, each verified.
fn stored_records(world: &Fake) -> Vec<StoredRecord> {
    let files = with_suffix(world, ".warc.gz").into_iter().map(|name| world.bytes(&name));
    let all: Vec<_> = files.flat_map(|bytes| records(&bytes).collect::<Vec<_>>()).collect();
    let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
    all.iter().for_each(|record| record.verify().unwrap());
    all
}

fn stored_urls(world: &Fake) -> Vec<String> {
    let all = stored_records(world).into_iter();
    let responses = all.filter(|record| record.kind() == "response");
    responses.map(|record| record.header("WARC-Target-URI").unwrap().to_owned()).collect()
}

#[test]
fn pages_are_read_back_at_their_positions() {
    let world = Fake::default();
    let store =
        open(&world, StoreSettings { user_agent: "me\r\nx: y".into(), ..Default::default() });
    let positions: Vec<_> = (0..20).map(|n| write(&world, &store, n, 5_000 * n)).collect();
    assert!(with_suffix(&world, ".warc.gz").is_empty());
    world.run(store.close()).unwrap();
    assert_eq!(
        world.names(),
        [
            "warc/nephila-20251231235959-003-000000.cdxj",
            "warc/nephila-20251231235959-003-000000.warc.gz"
        ]
    );
    let all = stored_records(&world);
    let kinds: Vec<_> = all.iter().map(StoredRecord::kind).collect();
    assert_eq!(kinds[..3], ["warcinfo", "response", "request"]);
    assert_eq!(all.len(), 1 + 2 * 20);
    let fields = String::from_utf8(all[0].block().to_vec()).unwrap();
    assert!(fields.contains("\r\nhttp-header-user-agent: me  x: y\r\n"), "{fields}");
    for (n, position) in positions.iter().enumerate() {
        let found = all.iter().find(|record| record.offset == position.offset).unwrap();
        assert_eq!((found.length, position.serial), (position.length, 0));
        assert_eq!(found.block(), TestPage::new(n, 5_000 * n).response);
        let request = &all[2 * n + 2];
        assert_eq!(request.header("WARC-Concurrent-To"), found.header("WARC-Record-ID"));
    }
}

#[test]
fn the_index_is_sorted_and_points_at_the_records() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    let positions: Vec<_> = (0..30).map(|n| write(&world, &store, n, 100)).collect();
    world.run(store.close()).unwrap();
    let index = String::from_utf8(world.bytes(&with_suffix(&world, ".cdxj")[0])).unwrap();
    let lines: Vec<_> = index.lines().collect();
    assert_eq!(lines.len(), 30);
    assert!(lines.is_sorted() && index.ends_with('\n'));
    for line in lines {
        let json: serde_json::Value =
            serde_json::from_str(line.splitn(3, ' ').nth(2).unwrap()).unwrap();
        let n: usize = json["url"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
        assert_eq!(json["offset"], positions[n].offset.to_string());
        assert_eq!(json["length"], positions[n].length.to_string());
        assert_eq!(json["filename"], "nephila-20251231235959-003-000000.warc.gz");
    }
}

#[test]
fn a_full_file_is_closed_and_the_next_begun() {
    let world = Fake::default();
    let store = open(&world, StoreSettings { roll_bytes: 10_000, ..Default::default() });
    let positions: Vec<_> = (0..12).map(|n| write(&world, &store, n, 3_000)).collect();
    world.run(store.close()).unwrap();
    assert_eq!(positions.last().unwrap().serial, 3);
    assert_eq!(with_suffix(&world, ".warc.gz").len(), 4);
    assert_eq!(with_suffix(&world, ".cdxj").len(), 4);
    assert!(with_suffix(&world, ".open").is_empty());
    assert_eq!(stored_urls(&world).len(), 12);
    let first = stored_records(&world).into_iter().filter(|record| record.offset == 0);
    assert!(first.into_iter().all(|record| record.kind() == "warcinfo"));
    let again = open(&world, StoreSettings::default());
    assert_eq!(write(&world, &again, 1, 1).serial, 4);
}

#[test]
fn a_page_is_durable_within_the_sync_time() {
    let world = Fake::default();
    let store = open(&world, StoreSettings { sync_ms: 250, ..Default::default() });
    let position = write(&world, &store, 0, 1_000);
    assert_eq!((store.flushed_through(), store.synced_through()), (0, 0));
    world.run(store.durable(&position));
    assert_eq!(world.now(), Time::from_ms(250));
    assert_eq!(store.synced_through(), position.mark);
    let crashed = world.after_crash(0);
    let salvaged = crashed.run(salvage(&crashed, |_| true)).unwrap();
    assert_eq!((salvaged[0].records, salvaged[0].cut_bytes), (3, 0));
    assert_eq!(stored_urls(&crashed).len(), 1);
}

#[test]
fn enough_bytes_are_synced_before_the_time() {
    let world = Fake::default();
    let sync_bytes = 2 * WRITE_BUFFER_BYTES as u64;
    let store = open(&world, StoreSettings { sync_bytes, ..Default::default() });
    let positions: Vec<_> =
        (0..40).map(|n| write(&world, &store, n, WRITE_BUFFER_BYTES / 10)).collect();
    world.run(store.durable(&positions[10]));
    assert_eq!(world.now(), Time::ZERO);
    world.run(store.sync()).unwrap();
    assert_eq!(world.now(), Time::ZERO);
    assert_eq!(store.synced_through(), positions[39].mark);
}

#[test]
fn writers_wait_while_all_buffers_are_full() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    world.hold_appends(true);
    // Five fill a buffer.
    let size = WRITE_BUFFER_BYTES / 5 + 1;
    let page = TestPage::new(0, size);
    let mut written = 0;
    loop {
        let stored = page.stored();
        let mut write = pin!(store.write(&stored));
        if world.settle(write.as_mut()).is_some() {
            written += 1;
            assert!(written < 1_000, "somebody waits");
            continue;
        }
        // The full ones that may be held, and the one that is filled.
        assert_eq!(written, (WRITE_BUFFER_COUNT_MAX + 1) * WRITE_BUFFER_BYTES.div_ceil(size));
        world.hold_appends(false);
        world.run(write).unwrap();
        break;
    }
    world.run(store.close()).unwrap();
    assert_eq!(stored_urls(&world).len(), written + 1);
}

#[test]
fn a_body_of_any_size_that_may_be_asked_for_is_stored_and_such_bodies_are_bounded_together() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    world.hold_appends(true);
    let size = 40 * 1024 * 1024;
    let page = TestPage::new(0, size);
    let mut written = 0;
    loop {
        let stored = page.stored();
        let mut write = pin!(store.write(&stored));
        if world.settle(write.as_mut()).is_some() {
            written += 1;
            assert!(written < 100, "somebody waits");
            continue;
        }
        // One more than fit, and the one in the buffer that cannot be sealed.
        let fit = (WRITE_BUFFER_COUNT_MAX * WRITE_BUFFER_BYTES).div_ceil(size);
        assert!(written <= fit + 2, "{written} of {size} bytes are held");
        world.hold_appends(false);
        world.run(write).unwrap();
        break;
    }
    world.run(store.close()).unwrap();
    let all = stored_records(&world);
    let blocks = all.iter().filter(|record| record.kind() == "response");
    assert!(blocks.into_iter().all(|record| record.block() == page.response));
    assert_eq!(stored_urls(&world).len(), written + 1);
}

#[test]
fn full_buffers_are_synced_before_they_hold_up_writers_for_good() {
    let world = Fake::default();
    let sync_bytes = 4 * (WRITE_BUFFER_COUNT_MAX * WRITE_BUFFER_BYTES) as u64;
    let store = open(&world, StoreSettings { sync_bytes, ..Default::default() });
    let written = 2 * (WRITE_BUFFER_COUNT_MAX + 1);
    let positions: Vec<_> =
        (0..written).map(|n| write(&world, &store, n, WRITE_BUFFER_BYTES)).collect();
    assert_eq!(world.now(), Time::ZERO, "long before it was time");
    assert!(store.synced_through() >= positions[0].mark);
    world.run(store.close()).unwrap();
    assert_eq!(stored_urls(&world).len(), written);
}

/// The series of batches that pages make, sealed so when a buffer is full.
fn batches(seal: Seal) -> Vec<Batch> {
    let mut gatherer = Gatherer::new(StoreSettings::default(), 3, 0);
    let page = TestPage::new(0, WRITE_BUFFER_BYTES / 5 + 77);
    let (mut batches, at) = (Vec::new(), WallTime(1_767_225_599_000_000_000));
    for _ in 0..16 {
        if gatherer.is_full() {
            batches.extend(gatherer.seal(new_buffer(), seal));
        }
        let position = gatherer.gather(&page.stored(), at, || 7);
        assert_eq!(position.mark, gatherer.mark());
    }
    batches.extend(gatherer.seal(new_buffer(), Seal::EndFile));
    assert_eq!(batches.last().map(|batch| batch.mark), Some(gatherer.mark()));
    batches
}

#[test]
fn a_full_buffer_goes_to_the_disk_in_whole_blocks_and_the_rest_begins_the_next() {
    let (cut, whole) = (batches(Seal::Blocks), batches(Seal::All));
    let file = |batches: &[Batch]| -> Vec<u8> {
        batches.iter().flat_map(|batch| batch.bytes[batch.from..].to_vec()).collect()
    };
    assert!(file(&cut) == file(&whole) && cut.len() == 4, "the same file");
    for batch in &cut[..3] {
        let len = batch.bytes.len() - batch.from;
        assert!(len.is_multiple_of(DIRECT_BLOCK_BYTES) && len > 0);
        assert!(batch.mark.is_multiple_of(DIRECT_BLOCK_BYTES as u64), "as far as it is written");
        assert_eq!(batch.bytes[batch.from..].as_ptr().align_offset(DIRECT_BLOCK_BYTES), 0);
    }
    assert!(whole.iter().any(|batch| !batch.mark.is_multiple_of(DIRECT_BLOCK_BYTES as u64)));
}

#[test]
fn a_failed_append_is_said_and_after_recovery_nothing_is_missing() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    let kept = write(&world, &store, 1, 2_000);
    world.run(store.sync()).unwrap();
    let held = write(&world, &store, 2, 2_000);
    world.fail_next("append", DiskError::Full);
    let full = disk_full("write WARC file");
    assert_eq!(world.run(store.sync()), Err(full.clone()));
    assert_eq!(store.failure(), Some(full));
    world.run(store.durable(&kept));
    assert!(world.settle(pin!(store.durable(&held))).is_none(), "not on disk, not promised");
    let later = write(&world, &store, 3, 2_000);

    world.fail_next("truncate", DiskError::Full);
    assert_eq!(world.run(store.recover()), Err(disk_full("cut WARC file")));
    world.run(store.recover()).unwrap();
    world.run(store.durable(&held));
    assert_eq!(store.failure(), None);
    world.run(store.close()).unwrap();
    let all = stored_records(&world);
    for position in [kept, held, later] {
        assert!(all.iter().any(|record| record.offset == position.offset), "where it was said");
    }
    let urls = ["http://h1.example/p/1", "http://h2.example/p/2", "http://h0.example/p/3"];
    assert_eq!(stored_urls(&world), urls);
    assert!(with_suffix(&world, ".open").is_empty());
}

#[test]
fn writers_wait_for_a_failed_disk_and_hold_no_more_than_the_buffers() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    write(&world, &store, 0, 100);
    world.fail_next("append", DiskError::Full);
    assert!(world.run(store.sync()).is_err());
    let page = TestPage::new(1, WRITE_BUFFER_BYTES / 4);
    let stored = page.stored();
    let mut written = 0;
    while world.settle(pin!(store.write(&stored))).is_some() {
        written += 1;
        assert!(written < 1_000, "somebody waits");
    }
    let held = 4 * (WRITE_BUFFER_COUNT_MAX + 1);
    assert!((held - 4..=held).contains(&written), "{written}: four pages fill a buffer");
    world.run(store.recover()).unwrap();
    world.run(store.close()).unwrap();
    assert_eq!(stored_urls(&world).len(), written + 1);
}

#[test]
fn every_step_of_closing_may_fail_and_be_recovered() {
    for step in ["sync", "remove", "create", "rename", "sync_dir"] {
        let world = Fake::default();
        let store = open(&world, StoreSettings::default());
        write(&world, &store, 1, 2_000);
        world.run(store.sync()).unwrap();
        write(&world, &store, 2, 2_000);
        world.fail_next(step, DiskError::Full);
        assert!(world.run(store.close()).is_err(), "{step}");
        world.run(store.recover()).unwrap();
        world.run(store.close()).unwrap();
        let urls = ["http://h1.example/p/1", "http://h2.example/p/2"];
        assert_eq!(stored_urls(&world), urls, "{step}");
        assert!(with_suffix(&world, ".open").is_empty());
        assert_eq!(with_suffix(&world, ".cdxj").len(), 1);
    }
}

#[test]
fn a_salvaged_index_says_what_the_lost_one_would_have() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    for n in 0..9 {
        write(&world, &store, n, 300);
    }
    world.run(store.sync()).unwrap();
    let crashed = world.after_crash(0);
    crashed.run(salvage(&crashed, |_| true)).unwrap();
    world.run(store.close()).unwrap();
    let index = |world: &Fake| String::from_utf8(world.bytes(&with_suffix(world, ".cdxj")[0]));
    assert_eq!(index(&crashed), index(&world));
}

#[test]
fn garbage_behind_the_last_record_is_cut_and_named() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    write(&world, &store, 1, 700);
    world.run(store.sync()).unwrap();
    let name = with_suffix(&world, ".open").remove(0);
    let zeros = [world.bytes(&name), vec![0; 4096]].concat();
    let crashed = world.after_crash(0);
    crashed.put(&name, &zeros);
    crashed.put("warc/nephila-20260101000000-001-000000.warc.gz.open", b"");
    let salvaged = crashed.run(salvage(&crashed, |_| true)).unwrap();
    assert_eq!(salvaged[0].damage, Some(ReadError::BadMember));
    assert_eq!(salvaged[0].cut_bytes, 4096);
    assert_eq!((salvaged[1].name.clone(), salvaged[1].damage), (None, None));
    assert_eq!(stored_urls(&crashed).len(), 1);
}

#[test]
fn a_revisit_stores_its_head_alone() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    let page = TestPage::new(1, 9_000);
    let original = Original { url: "http://o.example/".into(), at_seconds: 951_782_400 };
    let revisit = StoredPage {
        revisit_of: Some(&original),
        simhash: Some(1),
        truncated: Some(Truncated::Length),
        ..page.stored()
    };
    world.run(store.write(&revisit)).unwrap();
    world.run(store.close()).unwrap();
    let all = stored_records(&world);
    assert_eq!(all[1].kind(), "revisit");
    assert_eq!(all[1].block(), HEAD);
    assert_eq!(all[1].header("WARC-Refers-To-Date"), Some("2000-02-29T00:00:00Z"));
    assert_eq!(all[1].header("WARC-Truncated"), None);
    let index = String::from_utf8(world.bytes(&with_suffix(&world, ".cdxj")[0])).unwrap();
    assert!(index.contains("\"warc/revisit\"") && index.contains("\"simhash\""));
}

#[test]
fn the_store_refuses_what_is_too_large_and_what_comes_after_its_end() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    let page = TestPage::new(1, 10);
    let huge = vec![0; WARC_RECORD_BYTES_MAX];
    let stored = StoredPage { response: &huge, ..page.stored() };
    assert_eq!(world.run(store.write(&stored)), Err(StoreError::TooLarge));
    world.run(store.close()).unwrap();
    assert_eq!(world.run(store.write(&page.stored())), Err(StoreError::Closed));
    assert!(world.names().is_empty());
    assert_eq!(world.run(store.close()), Ok(()));
}

#[test]
fn a_dropped_store_leaves_no_task() {
    let world = Fake::default();
    let store = open(&world, StoreSettings::default());
    write(&world, &store, 1, 10);
    assert_eq!(world.task_count(), 1);
    drop(store);
    world.run(async { world.yield_now().await });
    assert_eq!(world.task_count(), 0);
}

fn line(url: &Url) -> RequestLine<'_> {
    RequestLine {
        started: Time(12_345),
        at: WallTime(1_767_225_599_000_000_000),
        address: Some(SocketAddr::from(([192, 0, 2, 7], 80))),
        method: "GET",
        url,
        status: Some(200),
        outcome: Outcome::Fetched,
        body_bytes: 25_000,
        total_ms: 42,
    }
}

#[test]
fn the_request_log_goes_on_behind_its_last_whole_line() {
    let world = Fake::default();
    let url = Url::parse("http://a.example/x y?z").unwrap();
    let path = "requests/shard-03.log";
    world.put(path, b"# start 0 2025-12-31T00:00:00Z\n1 2025-12-31T00:");
    let log = world.run(RequestLog::open(&world, 3, Life::First)).unwrap();
    world.run(log.write(&line(&url)));
    let denied = RequestLine {
        address: None,
        status: None,
        outcome: Outcome::RobotsDenied,
        method: "G\nT",
        ..line(&url)
    };
    world.run(log.write(&denied));
    world.run(log.close()).unwrap();
    let text = String::from_utf8(world.after_crash(0).bytes(path)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "# start 0 2025-12-31T00:00:00Z");
    assert_eq!(lines[1], "# start 0 1767225599000000000 2025-12-31T23:59:59Z");
    assert_eq!(
        lines[2],
        "12345 2025-12-31T23:59:59Z a.example 192.0.2.7:80 GET http://a.example/x%20y?z 200 \
         fetched 25000 42"
    );
    assert!(lines[3].contains(" - G%0AT ") && lines[3].contains(" - robots_denied "));
    assert!(lines[4].starts_with("# end "), "it was closed");
    assert_eq!(lines.len(), 5);
}

#[test]
fn the_request_log_waits_for_a_slow_disk_and_loses_nothing() {
    let world = Fake::default();
    let url = Url::parse("http://a.example/").unwrap();
    let log = world.run(RequestLog::open(&world, 0, Life::First)).unwrap();
    world.hold_appends(true);
    let mut written = 0;
    loop {
        let line = line(&url);
        let mut write = pin!(log.write(&line));
        if world.settle(write.as_mut()).is_some() {
            written += 1;
            continue;
        }
        let mut text = Vec::new();
        line.push(&mut text);
        assert_eq!(written * text.len() / REQUEST_LOG_BUFFER_BYTES, 3);
        world.hold_appends(false);
        world.run(write);
        break;
    }
    world.run(log.close()).unwrap();
    let text = world.bytes("requests/shard-00.log");
    // The start, the line that waited and the end.
    assert_eq!(memchr::memchr_iter(b'\n', &text).count(), written + 3);
}

#[test]
fn the_request_log_keeps_its_lines_while_the_disk_fails() {
    let world = Fake::default();
    let url = Url::parse("http://a.example/").unwrap();
    let log = world.run(RequestLog::open(&world, 0, Life::First)).unwrap();
    world.run(log.flush()).unwrap();
    (0..3).for_each(|_| world.run(log.write(&line(&url))));
    world.fail_next("append", DiskError::Full);
    let full = disk_full("write request log");
    assert_eq!(world.run(log.flush()), Err(full.clone()));
    world.run(log.write(&line(&url)));
    assert_eq!(log.failure(), Some(full));
    world.run(log.recover()).unwrap();
    world.run(log.close()).unwrap();
    let text = String::from_utf8(world.bytes("requests/shard-00.log")).unwrap();
    let (start, lines) = text.split_once('\n').unwrap();
    assert!(start.starts_with("# start "));
    let (lines, end) = lines.split_at(lines.find("# end ").expect("it was closed"));
    assert_eq!((lines.lines().count(), end.lines().count()), (4, 1));
    assert!(lines.lines().all(|line| line.starts_with("12345 ") && line.ends_with(" 42")));
}

#[test]
fn the_request_log_says_from_where_on_a_failed_sync_proves_nothing() {
    let world = Fake::default();
    let url = Url::parse("http://a.example/").unwrap();
    let log = world.run(RequestLog::open(&world, 0, Life::First)).unwrap();
    world.run(log.sync()).unwrap();
    let proven = world.bytes("requests/shard-00.log").len();
    world.run(log.write(&line(&url)));
    world.fail_next("sync", DiskError::Os(5));
    assert!(world.run(log.sync()).is_err());
    world.run(log.recover()).unwrap();
    world.run(log.close()).unwrap();
    let text = String::from_utf8(world.bytes("requests/shard-00.log")).unwrap();
    let (lines, end) = text.split_at(text.find("# end ").expect("it was closed"));
    assert!(lines.ends_with(&format!(" 42\n# unproven {proven}\n")), "{text}");
    assert_eq!(end.lines().count(), 1, "{text}");
}

#[test]
fn the_request_log_is_cut_where_a_block_never_came_to_the_disk() {
    let path = "requests/shard-00.log";
    let line = |n: u32| format!("{n} a line of some length that is whole\n");
    let whole: String = (0..5_000).map(line).collect();
    for hole in [0, 17, 66_000, 131_072, whole.len() - 9] {
        let world = Fake::default();
        let mut bytes = whole.clone().into_bytes();
        bytes[hole..hole + 8].fill(0);
        world.put(path, &bytes);
        drop(world.run(RequestLog::open(&world, 0, Life::First)).unwrap());
        let left = String::from_utf8(world.bytes(path)).unwrap();
        let cut_at = whole[..hole].rfind('\n').map_or(0, |at| at + 1);
        assert_eq!(left, whole[..cut_at], "hole at {hole}");
    }
}

#[test]
fn an_unreadable_directory_is_an_error_and_a_missing_one_is_not() {
    let world = Fake::default();
    world.fail_next("list", DiskError::NotFound);
    assert_eq!(world.run(salvage(&world, |_| true)), Ok(Vec::new()));
    world.fail_next("list", DiskError::PermissionDenied);
    let denied = StoreError::Disk { doing: "list WARC files", error: DiskError::PermissionDenied };
    assert_eq!(world.run(salvage(&world, |_| true)), Err(denied));
    assert_eq!(world.run(world.list("warc".as_ref())), Ok(Vec::new()));
}
