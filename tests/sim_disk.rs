//! The simulated disk: what was synced survives; everything else may be lost, torn, reordered or
//! refused; each fault strikes; and one seed always gives the same faults.

use nephila::io::sim::{DiskFaults, DiskModel, DiskOperation, PowerCut, Sim, SimWorld, Trouble};
use nephila::io::{Clock, Disk, DiskError, File, Spawn};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const EIO: DiskError = DiskError::Os(5);
const HERE: &str = "";

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// Makes a file with these bytes, fully synced.
async fn write_durably(world: &SimWorld, name: &str, bytes: &[u8]) {
    let file = world.create(path(name)).await.unwrap();
    file.append(bytes.to_vec()).await.unwrap();
    file.sync().await.unwrap();
    world.sync_dir(path(HERE)).await.unwrap();
}

// --- Power cuts ---------------------------------------------------------------------------------

#[test]
fn a_power_cut_keeps_what_was_synced_and_nothing_that_was_not_written() {
    let (mut lengths, mut names_lost, mut holes) = (BTreeSet::new(), 0, 0);
    for seed in 0..100 {
        let sim = Sim::new(seed);
        let world = sim.world(0);
        sim.block_on(async {
            write_durably(&world, "synced", &[1; 1_000]).await;
            let file = world.open(path("synced")).await.unwrap();
            file.append(vec![2; 3_000]).await.unwrap();
            let file = world.create(path("nameless")).await.unwrap();
            file.append(vec![3; 10]).await.unwrap();
            file.sync().await.unwrap();
        })
        .unwrap();
        sim.crash([0]);
        let files = sim.files();
        let kept = &files[path("synced")];
        assert!((1_000..=4_000).contains(&kept.len()) && kept[..1_000] == [1; 1_000]);
        assert!(kept[1_000..].iter().all(|byte| [0, 2].contains(byte)));
        holes += u32::from(kept.contains(&0) && kept.ends_with(&[2]));
        lengths.insert(kept.len());
        match files.get(path("nameless")) {
            Some(bytes) => assert_eq!(bytes, &[3; 10], "its bytes were synced"),
            None => names_lost += 1,
        }
    }
    assert!(lengths.len() > 20, "tails are cut at many places: {lengths:?}");
    assert!(holes > 5, "{holes} cuts kept a later sector without an earlier one");
    assert!((25..75).contains(&names_lost), "{names_lost} of 100");
}

#[test]
fn names_and_bytes_are_lost_independently() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let sim = Sim::new(seed);
        let world = sim.world(0);
        sim.block_on(async {
            write_durably(&world, "old", b"old").await;
            write_durably(&world, "gone", b"gone").await;
            let file = world.create(path("new")).await.unwrap();
            file.append(b"new".to_vec()).await.unwrap();
            world.rename(path("old"), path("moved")).await.unwrap();
            world.remove(path("gone")).await.unwrap();
        })
        .unwrap();
        sim.crash([0]);
        let files = sim.files();
        let has = |name| files.contains_key(path(name));
        assert_ne!(has("old"), has("moved"), "a rename happens or not, never by half");
        let moved = files.get(path("moved")).or(files.get(path("old")));
        assert_eq!(moved.map(Vec::as_slice), Some(&b"old"[..]));
        let bytes_kept = files.get(path("new")).map(|bytes| bytes == b"new");
        seen.insert((bytes_kept, has("moved"), has("gone")));
    }
    assert_eq!(seen.len(), 12, "every combination is met: {seen:?}");
}

#[test]
fn a_synced_directory_keeps_its_changes_and_those_they_build_on() {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let world = sim.world(0);
        sim.block_on(async {
            world.create_dir(path("a")).await.unwrap();
            world.create_dir(path("b")).await.unwrap();
            world.sync_dir(path(HERE)).await.unwrap();
            world.create(path("a/one")).await.unwrap();
            world.create(path("a/two")).await.unwrap();
            world.rename(path("a/one"), path("b/one")).await.unwrap();
            // Of `a` only what the rename into `b` needs is kept.
            world.sync_dir(path("b")).await.unwrap();
        })
        .unwrap();
        sim.set_power_cut(PowerCut { name_lost_per_mille: 1_000, ..PowerCut::default() });
        sim.crash([0]);
        assert_eq!(sim.files().into_keys().collect::<Vec<_>>(), [path("b/one")]);
    }
}

#[test]
fn a_directory_whose_own_name_was_not_synced_is_lost_with_all_in_it() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    sim.set_power_cut(PowerCut { name_lost_per_mille: 1_000, ..PowerCut::default() });
    let fill = async {
        world.create_dir(path("warc")).await.unwrap();
        let file = world.create(path("warc/one")).await.unwrap();
        file.sync().await.unwrap();
        world.sync_dir(path("warc")).await.unwrap();
    };
    sim.block_on(fill).unwrap();
    sim.crash([0]);
    assert_eq!(sim.block_on(world.list(path("warc"))), Ok(Err(DiskError::NotFound)));
}

#[test]
fn a_directory_sync_covers_nothing_that_came_after_it_was_asked_for() {
    let sim = Sim::new(1);
    sim.set_disk(DiskModel { sync_us_min: 9_000, sync_us_max: 9_000, ..DiskModel::default() });
    sim.set_power_cut(PowerCut { name_lost_per_mille: 1_000, ..PowerCut::default() });
    let world = sim.world(0);
    let own = world.clone();
    world.spawn(async move { own.sync_dir(path(HERE)).await.unwrap() });
    let late = async {
        world.sleep_until(world.now() + Duration::from_micros(1)).await;
        world.create(path("late")).await.unwrap();
    };
    sim.block_on(late).unwrap();
    sim.run_until_idle().unwrap();
    sim.crash([0]);
    assert!(sim.files().is_empty());
}

#[test]
fn a_sync_that_did_not_end_promises_nothing() {
    let mut shortest = usize::MAX;
    for seed in 0..50 {
        let sim = Sim::new(seed);
        sim.set_disk(DiskModel { sync_us_min: 10, sync_us_max: 10, ..DiskModel::default() });
        let world = sim.world(0);
        sim.put_file(Path::new("log"), Vec::new());
        let own = world.clone();
        world.spawn(async move {
            let file = own.open(Path::new("log")).await.unwrap();
            file.append(vec![1; 100]).await.unwrap();
            file.sync().await.unwrap();
            unreachable!("killed before");
        });
        sim.keep_events();
        while !sim.events().iter().any(|event| event.kind == "sync") {
            sim.run_until(sim.now() + Duration::from_micros(1)).unwrap();
        }
        sim.kill(0);
        sim.lose_unsynced();
        shortest = shortest.min(sim.files()[Path::new("log")].len());
    }
    assert!(shortest < 50, "the tail was lost under some seed");
}

#[test]
fn a_sync_that_a_truncation_overtook_promises_nothing() {
    let kept_bytes = |seed| {
        let sim = Sim::new(seed);
        sim.put_file(Path::new("log"), Vec::new());
        let world = sim.world(0);
        let file = Rc::new(sim.block_on(world.open(Path::new("log"))).unwrap().ok().unwrap());
        let syncing = file.clone();
        let overtaken = async {
            file.append(vec![1; 100]).await.unwrap();
            world.spawn(async move { syncing.sync().await.unwrap() });
            world.sleep_until(world.now() + Duration::from_micros(1)).await;
            file.truncate(0).await.unwrap();
            file.append(vec![2; 100]).await.unwrap();
        };
        sim.set_disk(DiskModel { sync_us_min: 9_000, sync_us_max: 9_000, ..DiskModel::default() });
        sim.block_on(overtaken).unwrap();
        sim.run_until_idle().unwrap();
        sim.lose_unsynced();
        sim.files()[Path::new("log")].len()
    };
    assert!((0..20).any(|seed| kept_bytes(seed) < 100));
}

#[test]
fn a_crash_at_every_step_keeps_all_that_was_promised() {
    let (mut step, mut promises_met) = (0, BTreeSet::new());
    loop {
        let sim = Sim::new(step);
        let promised = Rc::new(std::cell::Cell::new(0));
        let (world, said) = (sim.world(0), promised.clone());
        sim.world(0).spawn(async move {
            write_durably(&world, "log", b"").await;
            let file = world.open(path("log")).await.unwrap();
            for line in 1..=5_u8 {
                file.append(vec![line; 700]).await.unwrap();
                file.sync().await.unwrap();
                said.set(line);
            }
        });
        let is_over = !sim.run_until_step(step).unwrap();
        sim.crash([0]);
        assert_eq!(sim.task_count(), 0);
        let expected: Vec<u8> = (1..=promised.get()).flat_map(|line| [line; 700]).collect();
        let kept = sim.files().remove(path("log")).unwrap_or_default();
        assert!(kept.starts_with(&expected), "step {step}: {} promised", promised.get());
        promises_met.insert(promised.get());
        // The disk continues after the power cut with the same bytes.
        let again = sim.block_on(sim.world(0).open(path("log"))).unwrap();
        assert_eq!(again.ok().map_or(0, |file| file.size()), kept.len() as u64);
        if is_over {
            break;
        }
        step += 1;
    }
    assert_eq!(promises_met.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

// --- Operations that fail -----------------------------------------------------------------------

#[test]
fn any_operation_can_be_made_to_fail_once() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    let once = |operation| sim.trouble_disk(Trouble::next(operation, DiskError::Full));
    let full = DiskError::Full;
    sim.block_on(async {
        once(DiskOperation::Create);
        assert_eq!(world.create(path("x")).await.err(), Some(full.clone()));
        let file = world.create(path("x")).await.unwrap();
        once(DiskOperation::Open);
        assert_eq!(world.open(path("x")).await.err(), Some(full.clone()));
        once(DiskOperation::Append);
        assert_eq!(file.append(vec![1; 10]).await, Err(full.clone()));
        file.truncate(0).await.unwrap();
        assert_eq!(file.append(vec![1; 10]).await, Ok(vec![1; 10]));
        once(DiskOperation::Read);
        assert_eq!(file.read_at(0, 10).await, Err(full.clone()));
        assert_eq!(file.read_at(0, 10).await, Ok(vec![1; 10]));
        once(DiskOperation::Truncate);
        assert_eq!(file.truncate(5).await, Err(full.clone()));
        assert_eq!(file.size(), 10);
        once(DiskOperation::Sync);
        assert_eq!(file.sync().await, Err(full.clone()));
        once(DiskOperation::Rename);
        assert_eq!(world.rename(path("x"), path("y")).await, Err(full.clone()));
        once(DiskOperation::CreateDir);
        assert_eq!(world.create_dir(path("d")).await, Err(full.clone()));
        once(DiskOperation::List);
        assert_eq!(world.list(path(HERE)).await, Err(full.clone()));
        assert_eq!(world.list(path(HERE)).await, Ok(vec!["x".to_owned()]));
        once(DiskOperation::SyncDir);
        assert_eq!(world.sync_dir(path(HERE)).await, Err(full.clone()));
        once(DiskOperation::Remove);
        assert_eq!(world.remove(path("x")).await, Err(full.clone()));
        assert_eq!(world.remove(path("x")).await, Ok(()));
    })
    .unwrap();
}

#[test]
fn after_an_io_error_nobody_knows_whether_it_happened() {
    let happened = |seed| {
        let sim = Sim::new(seed);
        let world = sim.world(0);
        sim.trouble_disk(Trouble::next(DiskOperation::Create, EIO));
        assert_eq!(sim.block_on(world.create(path("x"))).unwrap().err(), Some(EIO));
        sim.files().len()
    };
    let counts: BTreeSet<usize> = (0..20).map(happened).collect();
    assert_eq!(counts, BTreeSet::from([0, 1]));
}

#[test]
fn a_full_disk_takes_what_fits_and_goes_on_when_there_is_room() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    sim.set_disk_capacity(Some(1_000));
    sim.block_on(async {
        let file = world.create(path("a")).await.unwrap();
        file.append(vec![1; 600]).await.unwrap();
        assert_eq!(file.append(vec![2; 600]).await, Err(DiskError::Full));
        assert_eq!(file.size(), 1_000, "a part was written, and the caller must cut it");
        file.truncate(600).await.unwrap();
        let other = world.create(path("b")).await.unwrap();
        other.append(vec![3; 400]).await.unwrap();
        assert_eq!(file.append(vec![2]).await, Err(DiskError::Full));
        world.remove(path("b")).await.unwrap();
        assert_eq!(file.append(vec![2]).await, Ok(vec![2]));
        sim.set_disk_capacity(None);
        file.append(vec![2; 5_000]).await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_second_sync_does_not_save_what_a_failed_one_dropped() {
    let (mut dropped, mut hidden) = (0, 0);
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let world = sim.world(0);
        let read = sim.block_on(async {
            write_durably(&world, "log", &[1; 1_000]).await;
            let file = world.open(path("log")).await.unwrap();
            file.append(vec![2; 5_000]).await.unwrap();
            sim.trouble_disk(Trouble::next(DiskOperation::Sync, EIO));
            assert_eq!(file.sync().await, Err(EIO));
            assert_eq!(file.sync().await, Ok(()), "the sync reports success without effect");
            file.read_at(0, 6_000).await.unwrap()
        });
        let read = read.unwrap();
        sim.crash([0]);
        let kept = sim.files().remove(path("log")).unwrap();
        assert_eq!(kept[..1_000], [1; 1_000], "synced before");
        let is_whole = |bytes: &[u8]| bytes[1_000..].iter().all(|byte| *byte == 2);
        dropped += u32::from(!is_whole(&kept));
        hidden += u32::from(!is_whole(&kept) && is_whole(&read));
    }
    assert!(dropped > 40, "{dropped} of 50");
    assert!((10..40).contains(&hidden), "{hidden}: it read well until the power was cut");
}

#[test]
fn a_slow_disk_has_spikes() {
    let slowest = |faults| {
        let sim = Sim::new(3);
        sim.set_disk_faults(faults);
        let world = sim.world(0);
        let appends = async {
            let file = world.create(path("log")).await.unwrap();
            let mut slowest = Duration::ZERO;
            for _ in 0..200 {
                let begun = world.now();
                file.append(vec![1]).await.unwrap();
                slowest = slowest.max(world.now().since(begun));
            }
            slowest
        };
        sim.block_on(appends).unwrap()
    };
    let spikes = DiskFaults { spike_per_mille: 50, spike_ms_max: 2_000, ..DiskFaults::default() };
    assert!(slowest(DiskFaults::default()) < Duration::from_millis(1));
    assert!(slowest(spikes) > Duration::from_millis(500));
}

#[test]
fn a_bit_flips_at_rest_and_stays_flipped() {
    let sim = Sim::new(1);
    sim.put_file(path("state"), vec![0; 4_096]);
    let at = sim.flip_bit(path("state")).unwrap();
    sim.crash([0]);
    let bytes = sim.files().remove(path("state")).unwrap();
    assert!(bytes[at as usize].is_power_of_two());
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 1);
}

#[test]
fn one_seed_is_one_history_of_faults() {
    let run = |seed| {
        let sim = Sim::new(seed);
        sim.set_disk_faults(DiskFaults {
            error_per_mille: 100,
            full_per_mille: 50,
            sync_error_per_mille: 100,
            spike_per_mille: 100,
            spike_ms_max: 50,
        });
        let world = sim.world(0);
        let work = async {
            for n in 0..20 {
                let name = format!("file-{n}");
                let Ok(file) = world.create(path(&name)).await else { continue };
                for _ in 0..5 {
                    let _ = file.append(vec![n; 900]).await;
                    let _ = file.sync().await;
                }
                let _ = world.sync_dir(path(HERE)).await;
            }
        };
        sim.block_on(work).unwrap();
        sim.crash([0]);
        (sim.digest(), sim.files())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
