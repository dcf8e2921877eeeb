//! The store on a disk that fails, loses power and comes back. The bytes that are left are the
//! judge: every record that was reported durable is whole and indexed once, every closed file can
//! be read to its end and matches its index, and nothing else was touched.

use nephila::base::{Time, WallTime};
use nephila::crawl::flow::Outcome;
use nephila::crawl::store::{
    Life, RequestLine, RequestLog, StoreError, StoreSettings, StoredPage, WarcStore, salvage,
};
use nephila::io::ring::{Care, RingWorld, Wake};
use nephila::io::sim::{DiskFaults, DiskModel, DiskOperation, PowerCut, Sim, SimWorld, Trouble};
use nephila::io::{Clock, DiskError, Random, Spawn};
use nephila::proto::url::Url;
use nephila::proto::warc::{PayloadDigest, Sha1, StoredRecord, records};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
const PAGE_COUNT: usize = 40;
const EIO: DiskError = DiskError::Os(5);

struct Page {
    url: Url,
    response: Vec<u8>,
    digest: Sha1,
}

impl Page {
    fn new(n: usize) -> Page {
        let url = Url::parse(&format!("http://h.example/p/{n}")).unwrap();
        let body: Vec<u8> = (0..n * 397 % 5_000).map(|at| (at * 31 + n) as u8).collect();
        Page { url, response: [HEAD, &body].concat(), digest: PayloadDigest::of(&body) }
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

fn settings() -> StoreSettings {
    StoreSettings { roll_bytes: 30_000, sync_bytes: 6_000, sync_ms: 40, ..Default::default() }
}

/// Uses a store as a shard does: pages come at irregular times, and a failed operation is tried
/// again. Pages and log lines that became durable are noted as promised.
#[derive(Clone, Default)]
struct Promised {
    pages: Rc<RefCell<BTreeSet<usize>>>,
    line_count: Rc<Cell<usize>>,
    is_closed: Rc<Cell<bool>>,
}

async fn opened(world: &SimWorld) -> (WarcStore<SimWorld>, RequestLog<SimWorld>) {
    loop {
        let store = WarcStore::open(world, 0, settings()).await;
        let log = RequestLog::open(world, 0, Life::First).await;
        if let (Ok(store), Ok(log)) = (store, log) {
            return (store, log);
        }
        pass(world, 100).await;
    }
}

async fn pass(world: &SimWorld, ms_max: u64) {
    let ms = world.random_u64() % (ms_max + 1);
    world.sleep_until(world.now() + Duration::from_millis(ms)).await;
}

async fn crawl_some(world: SimWorld, first: usize, promised: Promised) {
    let (store, log) = opened(&world).await;
    let (store, log) = (Rc::new(store), Rc::new(log));
    let (own, minded, minded_log) = (world.clone(), store.clone(), log.clone());
    let is_closed = promised.is_closed.clone();
    world.spawn(async move {
        while !is_closed.get() {
            let _ = minded.recover().await;
            let _ = minded_log.recover().await;
            pass(&own, 200).await;
        }
    });
    let mut has_failed = false;
    for n in first..first + PAGE_COUNT {
        let page = Page::new(n);
        log.write(&line(&page.url)).await;
        let position = store.write(&page.stored()).await.unwrap();
        let (store, pages) = (store.clone(), promised.pages.clone());
        world.spawn(async move {
            store.durable(&position).await;
            pages.borrow_mut().insert(n);
        });
        if n % 8 == 0 {
            // After a failed sync the log itself reports from which line on nothing is durable.
            has_failed |= log.sync().await.is_err();
            if !has_failed {
                promised.line_count.set(n + 1 - first);
            }
        }
        pass(&world, 30).await;
    }
    while store.close().await.is_err() {
        pass(&world, 500).await;
    }
    promised.is_closed.set(true);
}

fn line(url: &Url) -> RequestLine<'_> {
    RequestLine {
        started: Time(12_345),
        at: WallTime(1_767_225_599_000_000_000),
        address: None,
        method: "GET",
        url,
        status: Some(200),
        outcome: Outcome::Fetched,
        body_bytes: 1,
        total_ms: 42,
    }
}

fn faulty() -> DiskFaults {
    DiskFaults {
        error_per_mille: 20,
        full_per_mille: 20,
        sync_error_per_mille: 60,
        spike_per_mille: 20,
        spike_ms_max: 300,
    }
}

/// Salvages until it succeeds. Sometimes the power is cut in the middle.
fn restart(sim: &Sim) {
    for attempt in 0..50 {
        let world = sim.world(0);
        let done = Rc::new(Cell::new(false));
        let said = done.clone();
        world.clone().spawn(async move {
            while salvage(&world, |_| true).await.is_err() {
                pass(&world, 100).await;
            }
            said.set(true);
        });
        let cut_at = if attempt < 3 { sim.step_count() + 5 + sim.digest() % 60 } else { u64::MAX };
        sim.run_until_step(cut_at).unwrap();
        if done.get() {
            return;
        }
        sim.crash([0]);
    }
    panic!("the salvage never succeeds");
}

fn with_suffix(files: &BTreeMap<PathBuf, Vec<u8>>, suffix: &str) -> Vec<PathBuf> {
    let has = |path: &&PathBuf| path.to_str().unwrap().ends_with(suffix);
    files.keys().filter(has).cloned().collect()
}

/// Asserts that every closed file can be read to its end, that every record is what was written,
/// and that the index says where it is. Returns the pages found, each once.
fn judge(files: &BTreeMap<PathBuf, Vec<u8>>, context: &str) -> BTreeSet<usize> {
    let mut pages = BTreeSet::new();
    let warcs = with_suffix(files, ".warc.gz");
    assert_eq!(with_suffix(files, ".cdxj").len(), warcs.len(), "{context}: an index for each");
    for path in warcs {
        let read: Result<Vec<StoredRecord>, _> = records(&files[&path]).collect();
        let read = read.unwrap_or_else(|error| panic!("{context}: {}: {error}", path.display()));
        assert_eq!(read[0].kind(), "warcinfo", "{context}");
        let mut places = BTreeSet::new();
        for record in &read {
            record.verify().unwrap();
            if record.kind() != "response" {
                continue;
            }
            let url = record.header("WARC-Target-URI").unwrap();
            let n: usize = url.rsplit('/').next().unwrap().parse().unwrap();
            assert_eq!(record.block(), Page::new(n).response, "{context}: page {n}");
            assert!(pages.insert(n), "{context}: page {n} is stored twice");
            places.insert((url.to_owned(), record.offset.to_string(), record.length.to_string()));
        }
        let stem = path.to_str().unwrap().strip_suffix(".warc.gz").unwrap();
        let index = String::from_utf8(files[Path::new(&format!("{stem}.cdxj"))].clone()).unwrap();
        assert!(index.lines().is_sorted(), "{context}");
        let name = path.file_name().unwrap().to_str().unwrap();
        let indexed = index.lines().map(|line| {
            let json: serde_json::Value =
                serde_json::from_str(line.splitn(3, ' ').nth(2).unwrap()).unwrap();
            assert_eq!(json["filename"], name, "{context}");
            let text = |key: &str| json[key].as_str().unwrap().to_owned();
            (text("url"), text("offset"), text("length"))
        });
        assert_eq!(indexed.collect::<BTreeSet<_>>(), places, "{context}: {}", path.display());
    }
    pages
}

/// Runs, cuts the power at a step that the seed chooses, and judges. Returns whether everything was
/// closed before the cut, and how many pages were promised.
fn run_and_crash(seed: u64, faults: DiskFaults) -> (bool, usize) {
    let whole = Sim::new(seed);
    whole.set_disk_faults(faults);
    whole.block_on(crawl_some(whole.world(0), 0, Promised::default())).unwrap();
    let cut_at = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) % whole.step_count();
    let sim = Sim::new(seed);
    sim.put_file(Path::new("MANIFEST.json"), b"{}".to_vec());
    sim.put_file(Path::new("warc/notes.txt"), b"the operator's".to_vec());
    sim.set_disk_faults(faults);
    let promised = Promised::default();
    sim.world(0).spawn(crawl_some(sim.world(0), 0, promised.clone()));
    sim.run_until_step(cut_at).unwrap();
    let was_closed = promised.is_closed.get();
    sim.crash([0]);
    restart(&sim);
    let context = format!("seed {seed}");
    sim.set_disk_faults(DiskFaults::default());

    let files = sim.files();
    assert!(with_suffix(&files, ".open").is_empty(), "{context}");
    assert_eq!(files[Path::new("MANIFEST.json")], b"{}");
    assert_eq!(files[Path::new("warc/notes.txt")], b"the operator's");
    let found = judge(&files, &context);
    let pages = promised.pages.borrow().clone();
    assert!(
        found.is_superset(&pages),
        "{context}: these were durable and are lost: {:?}",
        &pages - &found
    );

    // The next run writes beside the last one's files, and continues the log after its last good
    // line.
    let next = Promised::default();
    sim.block_on(crawl_some(sim.world(0), 1_000, next.clone())).unwrap();
    sim.crash([0]);
    let files = sim.files();
    let both = judge(&files, &context);
    assert_eq!(both.len(), found.len() + PAGE_COUNT, "{context}");
    let log = String::from_utf8(files[Path::new("requests/shard-00.log")].clone()).unwrap();
    let of_first_life = |line: &&str| {
        let n = line.split("/p/").nth(1).and_then(|rest| rest.split(' ').next());
        n.is_some_and(|n| n.parse::<usize>().unwrap() < 1_000)
    };
    let line_count = log.lines().filter(of_first_life).count();
    assert!(line_count >= promised.line_count.get(), "{context}: {log}");
    let is_whole = |line: &str| line.starts_with('#') || line.ends_with(" 42");
    assert!(log.lines().all(is_whole), "{context}: {log}");
    (was_closed, pages.len())
}

#[test]
fn after_a_power_cut_anywhere_every_durable_record_is_whole_and_indexed() {
    let ends: Vec<_> = (0..400).map(|seed| run_and_crash(seed, DiskFaults::default())).collect();
    assert!(
        ends.iter().filter(|(was_closed, _)| *was_closed).count() < 40,
        "most cuts come before the end"
    );
    assert!(ends.iter().filter(|(_, promised)| *promised > 10).count() > 100, "with promises");
}

#[test]
fn after_a_power_cut_on_a_failing_disk_too() {
    let ends: Vec<_> = (1_000..1_400).map(|seed| run_and_crash(seed, faulty())).collect();
    assert!(ends.iter().filter(|(_, promised)| *promised > 10).count() > 50, "with promises");
}

#[test]
fn a_failing_disk_that_keeps_its_power_costs_no_page() {
    for seed in 0..100 {
        let sim = Sim::new(seed);
        sim.set_disk_faults(faulty());
        let promised = Promised::default();
        sim.block_on(crawl_some(sim.world(0), 0, promised)).unwrap();
        assert_eq!(judge(&sim.files(), &format!("seed {seed}")).len(), PAGE_COUNT);
        assert!(with_suffix(&sim.files(), ".open").is_empty());
        sim.crash([0]);
        let context = format!("seed {seed}, after a cut");
        assert_eq!(judge(&sim.files(), &context).len(), PAGE_COUNT, "closed files are durable");
    }
}

#[test]
fn a_failed_sync_is_never_taken_for_success() {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        sim.set_power_cut(PowerCut { kept: 0, ..PowerCut::default() });
        let world = sim.world(0);
        let pages: Vec<Page> = (7..10).map(Page::new).collect();
        sim.block_on(async {
            let store = WarcStore::open(&world, 0, StoreSettings::default()).await.unwrap();
            let mut last = None;
            for page in &pages {
                last = Some(store.write(&page.stored()).await.unwrap());
            }
            let trouble = Trouble::next(DiskOperation::Sync, EIO);
            sim.trouble_disk(Trouble { path_part: "warc/", ..trouble });
            let failed = StoreError::Disk { doing: "sync WARC file", error: EIO };
            assert_eq!(store.sync().await, Err(failed.clone()));
            assert_eq!((store.synced_through(), store.failure()), (0, Some(failed.clone())));
            assert_eq!(store.sync().await, Err(failed), "a second sync fails in the same way");
            store.recover().await.unwrap();
            store.durable(&last.unwrap()).await;
        })
        .unwrap();
        sim.crash([0]);
        restart(&sim);
        assert_eq!(judge(&sim.files(), &format!("seed {seed}")), BTreeSet::from([7, 8, 9]));
    }
}

/// Pages come faster than an append ends, so there is always something to write.
#[test]
fn a_store_that_is_never_idle_is_synced_in_time_all_the_same() {
    let sim = Sim::new(3);
    sim.set_disk(DiskModel { latency_us_min: 500, latency_us_max: 900, ..DiskModel::default() });
    let world = sim.world(0);
    sim.block_on(async {
        let sync_ms = 40;
        let settings = StoreSettings { sync_ms, ..StoreSettings::default() };
        let store = WarcStore::open(&world, 0, settings).await.unwrap();
        let mut written = Vec::new();
        for n in 0..20_000 {
            let page = Page::new(n % 13);
            written.push((world.now(), store.write(&page.stored()).await.unwrap().mark));
            world.sleep_until(world.now() + Duration::from_micros(50)).await;
            let old = world.now() - Duration::from_millis(3 * sync_ms);
            let due = written.iter().rev().find(|(at, _)| *at < old);
            let synced = store.synced_through();
            assert!(due.is_none_or(|(_, mark)| *mark <= synced), "page {n}: {due:?}, {synced}");
        }
    })
    .unwrap();
}

#[test]
fn a_full_disk_is_waited_for_and_then_nothing_is_missing() {
    let sim = Sim::new(1);
    sim.fill_disk_until(45_000, sim.now() + Duration::from_secs(60));
    let promised = Promised::default();
    let world = sim.world(0);
    let begun = world.now();
    sim.block_on(crawl_some(world.clone(), 0, promised)).unwrap();
    assert!(world.now().since(begun) >= Duration::from_secs(60));
    assert_eq!(judge(&sim.files(), "full").len(), PAGE_COUNT);
}

#[test]
fn a_flipped_bit_in_a_file_left_open_is_found_and_what_is_before_it_kept() {
    for seed in 0..60 {
        let sim = Sim::new(seed);
        let world = sim.world(0);
        sim.block_on(async {
            let store = WarcStore::open(&world, 0, StoreSettings::default()).await.unwrap();
            for n in 0..10 {
                store.write(&Page::new(n).stored()).await.unwrap();
            }
            store.sync().await.unwrap();
        })
        .unwrap();
        sim.crash([0]);
        let path = with_suffix(&sim.files(), ".open").remove(0);
        sim.flip_bit(&path);
        let salvaged = sim.block_on(salvage(&world, |_| true)).unwrap().unwrap();
        // A few bits of a gzip member have no meaning: its time, and flags that nobody reads.
        assert!(salvaged[0].damage.is_some() || salvaged[0].cut_bytes == 0, "seed {seed}");
        if salvaged[0].name.is_some() {
            let found = judge(&sim.files(), &format!("seed {seed}"));
            assert_eq!(
                found,
                (0..found.len()).collect(),
                "seed {seed}: all pages before the damage are found"
            );
        }
    }
}

// --- A real disk --------------------------------------------------------------------------------

fn on_real_disk<T: Send + 'static>(
    directory: &Path,
    work: impl AsyncFnOnce(RingWorld) -> T + Send + 'static,
) -> T {
    let path = directory.to_owned();
    let wake = Wake::new().unwrap();
    let main = move || async move {
        let world = RingWorld::new(wake, Some(&path)).unwrap();
        let value = work(world.clone()).await;
        world.stop();
        value
    };
    RingWorld::start(None, "store", Care::Wake, main).unwrap().join().unwrap().unwrap()
}

#[test]
fn links_out_of_the_directory_are_not_followed_on_a_real_disk() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let victim = outside.path().join("victim");
    std::fs::write(&victim, b"not ours").unwrap();
    let link = |to: &Path, name: &str| {
        std::os::unix::fs::symlink(to, inside.path().join(name)).unwrap();
    };
    let refused = |result: Result<(), StoreError>| {
        let outside = DiskError::OutsideDirectory;
        matches!(result, Err(StoreError::Disk { error, .. }) if error == outside)
    };

    link(outside.path(), "warc");
    let opened = on_real_disk(inside.path(), async |world| {
        WarcStore::open(&world, 0, StoreSettings::default()).await.map(|_| ())
    });
    assert!(refused(opened));

    std::fs::remove_file(inside.path().join("warc")).unwrap();
    std::fs::create_dir(inside.path().join("warc")).unwrap();
    std::fs::create_dir(inside.path().join("requests")).unwrap();
    link(&victim, "warc/nephila-20260101000000-000-000000.warc.gz.open");
    let salvaged =
        on_real_disk(inside.path(), async |world| salvage(&world, |_| true).await.map(|_| ()));
    assert!(refused(salvaged));
    link(&victim, "requests/shard-00.log");
    let opened = on_real_disk(inside.path(), async |world| {
        RequestLog::open(&world, 0, Life::First).await.map(|_| ())
    });
    assert!(refused(opened));

    assert_eq!(std::fs::read(&victim).unwrap(), b"not ours");
    let names: Vec<_> = std::fs::read_dir(outside.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "no file was created there");
}

#[test]
fn a_torn_file_on_a_real_disk_is_cut_indexed_and_renamed() {
    let directory = tempfile::tempdir().unwrap();
    on_real_disk(directory.path(), async |world| {
        let store = WarcStore::open(&world, 0, StoreSettings::default()).await.unwrap();
        for n in 0..5 {
            store.write(&Page::new(n).stored()).await.unwrap();
        }
        store.sync().await.unwrap();
    });
    let warc = directory.path().join("warc");
    let open = std::fs::read_dir(&warc).unwrap().next().unwrap().unwrap().path();
    let size = std::fs::metadata(&open).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&open).unwrap().set_len(size - 1).unwrap();
    let salvaged =
        on_real_disk(directory.path(), async |world| salvage(&world, |_| true).await.unwrap());
    assert_eq!((salvaged.len(), salvaged[0].records), (1, 10), "the last request is torn");
    let files = std::fs::read_dir(&warc).unwrap().map(|entry| entry.unwrap().path());
    let files = files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    assert_eq!(judge(&files, "real").len(), 5);
}
