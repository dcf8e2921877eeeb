//! Tests of journals and checkpoints on a disk that fails and loses power, judged by what is read
//! back.

use super::*;
use crate::base::{Time, WallTime};
use crate::crawl::flow::{Class, Outcome, Queued, ShardIndex, Via, state_dir};
use crate::io::sim::{DiskFaults, PowerCut, Sim, SimWorld};
use crate::io::{Clock, Disk, Spawn};
use crate::proto::url::{Fingerprint, HostKey, Url};
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

const GENERATION: u32 = 3;

fn dir() -> PathBuf {
    state_dir(ShardIndex(0))
}

fn entry(n: u64) -> Entry {
    let queued = Queued {
        url: Url::parse(&format!("http://h{}.test/{}", n % 7, "x".repeat(n as usize % 300)))
            .expect("a URL"),
        depth: n as u16,
        class: Class::ALL[n as usize % 4],
        via: Via::ALL[n as usize % 5],
        tries: n as u8 % 4,
        trail: (0..n % 3).collect(),
    };
    let (host, at, outcome) = (HostKey(n), WallTime(n << 20), Outcome::ALL[n as usize % 9]);
    match n % 8 {
        7 => Entry::RunBegan,
        0 => Entry::Admitted(queued),
        1 => {
            let fingerprint = Fingerprint(u128::from(n) << 70);
            Entry::Ended { host, fingerprint, outcome, is_page: n.is_multiple_of(2) }
        }
        2 => Entry::Dead { queued, outcome, at },
        3 => Entry::Retried { queued, at },
        4 => Entry::Waiting { host, until: at },
        5 => Entry::Robots { origin: "http://h.test".into(), image: vec![n as u8; 9] },
        _ => Entry::Health { origin: "http://h.test:81".into(), image: Vec::new() },
    }
}

fn settings(sequence: u64, first_lsn: u64) -> JournalSettings {
    JournalSettings { sync_ms: 20, generation: GENERATION, sequence, first_lsn }
}

async fn pass(world: &SimWorld, ms_max: u64) {
    use crate::io::Random;
    let ms = world.random_u64() % (ms_max + 1);
    world.sleep_until(world.now() + Duration::from_millis(ms)).await;
}

/// Reads all that there is; entry `lsn` must be `entry(lsn)`.
async fn read_all(world: &SimWorld) -> Result<Replayed, JournalError> {
    replay(world, &dir(), GENERATION, (0, 0), |lsn, read| {
        if read == entry(lsn) { Ok(()) } else { Err("not what was written") }
    })
    .await
}

/// Lives one life: reads what there is, then writes on until the power goes. `promised` is the last
/// entry that the journal has called durable.
async fn live(world: SimWorld, promised: Rc<Cell<u64>>) {
    let replayed = loop {
        match read_all(&world).await {
            Ok(replayed) => break replayed,
            Err(error) => assert!(!error.is_damage(), "{error}"),
        }
        pass(&world, 50).await;
    };
    assert!(replayed.last_lsn >= promised.get(), "{replayed:?}, promised {}", promised.get());
    let mut sequence = replayed.next_sequence;
    let journal = loop {
        let settings = settings(sequence, replayed.last_lsn + 1);
        match Journal::create(&world, &dir(), settings, replayed.unproven.as_ref()).await {
            Ok(journal) => break Rc::new(journal),
            Err(_) => sequence += 1,
        }
        pass(&world, 50).await;
    };
    let (minded, own) = (journal.clone(), world.clone());
    world.spawn(async move {
        loop {
            let _ = minded.recover().await;
            pass(&own, 100).await;
        }
    });
    loop {
        for _ in 0..1 + journal.lsn() % 5 {
            let lsn = journal.lsn() + 1;
            assert_eq!(journal.append(|out| entry(lsn).push(out)), lsn);
        }
        if journal.lsn().is_multiple_of(11) {
            let _ = journal.rotate().await;
        }
        pass(&world, 15).await;
        promised.set(journal.durable_lsn().max(promised.get()));
    }
}

fn run_lives(seed: u64, is_faulty: bool) -> (u64, u64) {
    let sim = Sim::new(seed);
    sim.set_power_cut(PowerCut::default());
    if is_faulty {
        sim.set_disk_faults(DiskFaults {
            error_per_mille: 20,
            full_per_mille: 20,
            sync_error_per_mille: 40,
            ..DiskFaults::default()
        });
    }
    let promised = Rc::new(Cell::new(0));
    for _ in 0..6 {
        let world = sim.world(0);
        world.clone().spawn(live(world, promised.clone()));
        let steps = 100 + sim.digest() % 1_500;
        sim.run_until_step(sim.step_count() + steps).expect("a history");
        sim.crash([0]);
    }
    sim.set_disk_faults(DiskFaults::default());
    let world = sim.world(0);
    let read = sim.block_on(read_all(&world)).expect("an end").expect("a sound journal");
    assert!(read.last_lsn >= promised.get(), "seed {seed}: {read:?}, promised {promised:?}");
    (promised.get(), read.torn.len() as u64)
}

#[test]
fn what_the_journal_promised_is_read_back_after_any_power_cut() {
    let (mut promised, mut torn) = (0, 0);
    for seed in 0..150 {
        let (more, tails) = run_lives(seed, seed % 2 == 1);
        promised += more;
        torn += tails;
    }
    assert!(promised > 10_000 && torn > 50, "{promised} promised, {torn} torn: too few");
}

/// A journal of three files and a checkpoint, closed in order.
fn written(sim: &Sim) -> Vec<FileName> {
    let world = sim.world(0);
    let made = sim.block_on(async {
        let journal = Journal::create(&world, &dir(), settings(1, 1), None).await?;
        for lsn in 1..=300 {
            journal.append(|out| entry(lsn).push(out));
            if lsn % 30 == 0 {
                journal.sync().await?;
            }
            if lsn % 100 == 0 {
                assert_eq!(journal.rotate().await?, (lsn, lsn / 100 + 1));
            }
        }
        journal.close().await?;
        let name = FileName { kind: FileKind::Checkpoint, generation: GENERATION, sequence: 1 };
        let mut writer = CheckpointWriter::create(&world, &dir(), name).await?;
        for n in 0..300 {
            writer.push(&Entry::Host { lsn: n, image: vec![n as u8; 700] });
            if n % 40 == 0 {
                writer.flush().await?;
            }
        }
        writer.push(&Entry::Finished { host_count: 300, lsn: 0 });
        writer.finish(&world, &dir()).await?;
        let mut names = super::file::list(&world, &dir(), FileKind::Journal, GENERATION).await?;
        names.push(name);
        Ok::<_, JournalError>(names)
    });
    made.expect("an end").expect("a disk that works")
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (mut cut_count, mut refused_count) = (0, 0);
    for seed in 0..300 {
        let sim = Sim::new(seed);
        let mut names = written(&sim);
        let world = sim.world(0);
        if seed % 2 == 0 {
            // The last file has no entry. Without it, no head says that the last frame must be
            // there.
            let last = dir().join(names.remove(3).text());
            sim.block_on(world.remove(&last)).expect("an end").expect("a file");
        }
        let name = names[seed as usize / 2 % names.len()];
        sim.flip_bit(&dir().join(name.text())).expect("a byte");
        match name.kind {
            FileKind::Checkpoint => {
                let read = sim.block_on(async {
                    CheckpointReader::open(&world, &dir(), name).await?.read_out().await
                });
                let read = read.expect("an end");
                assert!(read.is_err_and(|error| error.is_damage()), "seed {seed}");
                refused_count += 1;
            }
            FileKind::Journal => match sim.block_on(read_all(&world)).expect("an end") {
                Err(error) => {
                    assert!(error.is_damage(), "seed {seed}: {error}");
                    refused_count += 1;
                }
                // A damaged last frame cannot be told from a torn one: it is cut, and reported.
                Ok(replayed) => {
                    assert!(!replayed.torn.is_empty(), "seed {seed}: {replayed:?}");
                    cut_count += 1;
                }
            },
        }
    }
    assert!(cut_count > 3 && refused_count > 270, "{cut_count} {refused_count}");
}

#[test]
fn a_version_that_is_not_ours_is_refused_by_its_number() {
    let sim = Sim::new(1);
    let name = written(&sim)[0];
    let path = dir().join(name.text());
    let mut bytes = sim.files()[&path].clone();
    bytes[8] = 9;
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..32]).to_le_bytes();
    bytes[32..40].copy_from_slice(&checksum);
    sim.put_file(&path, bytes);
    let world = sim.world(0);
    let read = sim.block_on(read_all(&world)).expect("an end");
    assert_eq!(read, Err(JournalError::Version { name: name.text(), version: 9 }));
}

/// The head of the first version was shorter.
#[test]
fn a_head_of_the_first_version_is_refused_by_its_number_and_not_as_damage() {
    let sim = Sim::new(1);
    let name = written(&sim)[0];
    let mut bytes = b"nephjrnl".to_vec();
    bytes.extend([1u32, GENERATION].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend(name.sequence.to_le_bytes());
    bytes.extend(xxhash_rust::xxh3::xxh3_64(&bytes).to_le_bytes());
    sim.put_file(&dir().join(name.text()), bytes);
    let world = sim.world(0);
    let read = sim.block_on(read_all(&world)).expect("an end");
    assert_eq!(read, Err(JournalError::Version { name: name.text(), version: 1 }));
}

/// The three files hold 100 entries each, and a fourth has none yet.
#[test]
fn a_journal_that_was_emptied_or_cut_or_is_gone_is_refused_with_its_name() {
    for number in 0..4 {
        let damage = |spoil: &dyn Fn(&Sim, &std::path::Path)| {
            let sim = Sim::new(1);
            let name = written(&sim)[number];
            spoil(&sim, &dir().join(name.text()));
            let world = sim.world(0);
            (name.text(), sim.block_on(read_all(&world)).expect("an end"))
        };
        let (name, read) = damage(&|sim, path| sim.put_file(path, Vec::new()));
        let error = read.expect_err("an emptied one");
        assert!(error.is_damage() && error.to_string().contains(&name), "{error}");
        let (name, read) = damage(&|sim, path| {
            let bytes = sim.files()[path].clone();
            sim.put_file(path, bytes[..20].to_vec());
        });
        let error = read.expect_err("one that is cut in its head");
        assert!(error.is_damage() && error.to_string().contains(&name), "{error}");
        // The head of a later file says which entries are missing.
        let (_, read) = damage(&|sim, path| {
            let bytes = sim.files()[path].clone();
            sim.put_file(path, bytes[..super::file::HEAD_BYTES].to_vec());
        });
        assert_eq!(read.is_err(), number < 3, "the last one is empty but for its head: {read:?}");
        let (_, read) = damage(&|sim, path| {
            let world = sim.world(0);
            sim.block_on(world.remove(path)).expect("an end").expect("a file");
        });
        assert_eq!(read.is_err(), number < 3, "nothing was in the last one: {read:?}");
    }
}

#[test]
fn older_files_go_and_the_kept_ones_stay() {
    let sim = Sim::new(2);
    let names = written(&sim);
    let world = sim.world(0);
    let oldest = FileName { sequence: 1, ..names[4] };
    let removed = sim.block_on(remove_before(&world, &dir(), oldest, 3)).expect("an end");
    removed.expect("a disk that works");
    let left: Vec<String> =
        sim.files().keys().map(|path| path.file_name().unwrap().to_str().unwrap().into()).collect();
    assert_eq!(left, [names[4].text(), names[2].text(), names[3].text()]);
}

#[test]
fn an_entry_waits_no_longer_than_the_group_and_a_full_group_not_at_all() {
    let sim = Sim::new(3);
    let world = sim.world(0);
    let waited = sim.block_on(async {
        let journal =
            Journal::create(&world, &dir(), settings(1, 1), None).await.expect("a journal");
        let begun = world.now();
        let lsn = journal.append(|out| entry(7).push(out));
        journal.durable(lsn).await;
        let slow = world.now().since(begun);
        let begun: Time = world.now();
        while !journal.is_backed_up() {
            journal.append(|out| Entry::Segment { image: vec![0; 60_000] }.push(out));
        }
        let first = journal.lsn() - 250;
        journal.durable(first).await;
        (slow, world.now().since(begun))
    });
    let (slow, fast) = waited.expect("an end");
    assert!(slow >= Duration::from_millis(20) && slow < Duration::from_millis(100), "{slow:?}");
    assert!(fast < Duration::from_millis(20), "{fast:?}");
}
