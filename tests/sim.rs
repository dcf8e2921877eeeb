//! The simulator itself: exact virtual time, one history per seed, tasks that are killed. Its
//! network is tested in `sim_net.rs`, its disk in `sim_disk.rs`, and what it shares with the real
//! world in `seam.rs`.

use nephila::base::Time;
use nephila::io::sim::{Faults, NetModel, START, Sim, SimError, SimWorld};
use nephila::io::{
    Clock, Disk, DiskError, File, Inbox, Listener, Net, Outbox, Random, Spawn, Stream,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

const NEVER: Time = Time::NEVER;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn spawn_echo_server(world: &SimWorld, at: SocketAddr) {
    let listener = world.listen(at).unwrap();
    let own = world.clone();
    world.spawn(async move {
        while let Ok(mut stream) = listener.accept().await {
            own.spawn(async move {
                while let Ok(Some(chunk)) = stream.receive(NEVER).await {
                    if stream.send(chunk.to_vec(), NEVER).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Runs `count` clients on three shards, each with one message a minute. Returns the digest of the
/// run.
fn echo_for_hours(seed: u64, count: u16, minutes: u64) -> (Sim, u64) {
    let sim = Sim::new(seed);
    spawn_echo_server(&sim.world(0), address("0.0.0.0:80"));
    let echoed = Rc::new(Cell::new(0));
    for client in 0..count {
        let world = sim.world(1 + client % 3);
        let echoed = echoed.clone();
        world.clone().spawn(async move {
            let to = SocketAddr::new([198, 51, 100, (client % 250) as u8].into(), 80);
            let mut stream = world.connect(to, NEVER).await.ok().unwrap();
            for minute in 0..minutes {
                world.sleep_until(START + Duration::from_secs(60 * minute)).await;
                let message: Vec<u8> = (0..2_000).map(|_| world.random_u64() as u8).collect();
                stream.send(message.clone(), NEVER).await.unwrap();
                let mut answer = Vec::new();
                while answer.len() < message.len() {
                    answer.extend_from_slice(&stream.receive(NEVER).await.unwrap().unwrap());
                }
                assert_eq!(answer, message);
                echoed.set(echoed.get() + 1);
            }
        });
    }
    sim.run_until_idle().unwrap();
    assert_eq!(echoed.get(), u64::from(count) * minutes);
    let digest = sim.digest();
    (sim, digest)
}

#[test]
fn many_connections_echo_for_virtual_hours() {
    let (sim, _) = echo_for_hours(1, 300, 120);
    assert!(sim.now() >= START + Duration::from_secs(119 * 60));
    assert_eq!(sim.task_count(), 1, "only the listener is left waiting");
}

#[test]
fn one_seed_has_one_history_and_another_seed_another() {
    let digests = [7, 7, 8].map(|seed| echo_for_hours(seed, 20, 3).1);
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
}

#[test]
fn the_events_behind_equal_digests_are_equal() {
    let run = |seed| {
        let sim = Sim::new(seed);
        sim.keep_events();
        let (server, client) = (sim.world(0), sim.world(1));
        let done = sim.block_on(async {
            let listener = server.listen(address("192.0.2.1:80")).unwrap();
            let mut there = client.connect(listener.local(), NEVER).await.ok().unwrap();
            let mut here = listener.accept().await.ok().unwrap();
            here.send(vec![1; 50_000], NEVER).await.unwrap();
            drop(here);
            client.note(format_args!("reading"));
            let mut received_bytes = 0;
            while let Some(chunk) = there.receive(NEVER).await.unwrap() {
                received_bytes += chunk.len();
            }
            received_bytes
        });
        assert_eq!(done, Ok(50_000));
        (sim.events(), sim.digest())
    };
    let (events, digest) = run(3);
    assert_eq!((events.clone(), digest), run(3));
    assert_ne!(events, run(4).0);
    for kind in ["listening", "connecting", "accepted", "sent", "note", "received", "saw close"] {
        assert!(events.iter().any(|event| event.kind == kind), "no event of kind {kind}");
    }
    assert!(events.is_sorted_by_key(|event| event.at));
}

#[test]
fn tasks_of_a_shard_keep_their_order_and_shards_race_by_the_seed() {
    let run = |seed| {
        let sim = Sim::new(seed);
        let order = Rc::new(RefCell::new(Vec::new()));
        for index in 0..20 {
            let order = order.clone();
            sim.world(index % 2).spawn(async move { order.borrow_mut().push(index) });
        }
        sim.run_until_idle().unwrap();
        order.take()
    };
    for seed in 0..20 {
        let order = run(seed);
        for shard in 0..2 {
            let own: Vec<_> = order.iter().filter(|index| **index % 2 == shard).collect();
            assert!(own.is_sorted() && own.len() == 10);
        }
    }
    assert!((0..20).any(|seed| run(seed) != run(100)), "some interleaving differs");
}

#[test]
fn run_until_stops_the_clock_where_it_was_told_to() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    let woken = Rc::new(Cell::new(0));
    for ms in [10, 20, 30] {
        let (world, woken) = (world.clone(), woken.clone());
        sim.world(0).spawn(async move {
            world.sleep_until(START + Duration::from_millis(ms)).await;
            woken.set(woken.get() + 1);
        });
    }
    sim.run_until(START + Duration::from_millis(20)).unwrap();
    assert_eq!((woken.get(), sim.now()), (2, START + Duration::from_millis(20)));
    sim.run_until(START + Duration::from_millis(25)).unwrap();
    assert_eq!((woken.get(), sim.now()), (2, START + Duration::from_millis(25)));
    sim.run_until_idle().unwrap();
    assert_eq!((woken.get(), sim.now()), (3, START + Duration::from_millis(30)));
}

#[test]
fn a_dropped_sleep_leaves_no_timer_behind() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    sim.block_on(async {
        let mut sleep = pin!(world.sleep_until(START + Duration::from_secs(86_400)));
        poll_fn(|context| Poll::Ready(sleep.as_mut().poll(context).is_pending())).await
    })
    .unwrap();
    sim.run_until_idle().unwrap();
    assert_eq!(sim.now(), START);
}

#[test]
fn waiting_for_nobody_is_a_deadlock() {
    let sim = Sim::new(1);
    let (_outbox, inbox) = sim.mailbox::<u8>(1);
    assert_eq!(sim.block_on(inbox.receive()), Err(SimError::Deadlock { at: START, task_count: 0 }));
}

#[test]
fn spinning_without_time_is_a_livelock_and_steps_are_bounded() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    let spin = async {
        while world.now() == START {
            world.yield_now().await;
        }
    };
    assert_eq!(sim.block_on(spin), Err(SimError::Livelock { at: START }));

    let sim = Sim::new(1);
    sim.bound_steps(100);
    let world = sim.world(0);
    let endless = async {
        loop {
            world.sleep_until(world.now() + Duration::from_millis(1)).await;
        }
    };
    let result: Result<(), _> = sim.block_on(endless);
    assert_eq!(result, Err(SimError::StepLimit { at: START + Duration::from_millis(100) }));
}

#[test]
fn a_full_mailbox_gives_the_message_back_and_a_message_wakes_its_owner() {
    let sim = Sim::new(1);
    let (outbox, inbox) = sim.mailbox::<u8>(2);
    assert_eq!(inbox.try_receive(), None);
    let second = outbox.clone();
    assert_eq!(
        (outbox.try_send(1), second.try_send(2), outbox.try_send(3)),
        (Ok(()), Ok(()), Err(3))
    );
    assert_eq!(inbox.try_receive(), Some(1));
    assert_eq!(outbox.try_send(3), Ok(()));
    let world = sim.world(1);
    sim.world(1).spawn(async move {
        world.sleep_until(START + Duration::from_secs(1)).await;
        assert_eq!(second.try_send(4), Ok(()));
    });
    let received = sim.block_on(async {
        let mut received = Vec::new();
        while received.len() < 3 {
            received.push(inbox.receive().await);
        }
        received
    });
    assert_eq!(received, Ok(vec![2, 3, 4]));
    assert_eq!(sim.now(), START + Duration::from_secs(1));
}

#[test]
fn a_shard_may_be_killed_by_a_task_of_its_own() {
    let sim = Rc::new(Sim::new(1));
    let killer = sim.clone();
    let after = Rc::new(Cell::new(false));
    let witness = after.clone();
    let world = sim.world(0);
    sim.world(0).spawn(async move {
        killer.kill(0);
        world.yield_now().await;
        witness.set(true);
    });
    sim.run_until_idle().unwrap();
    assert_eq!((sim.task_count(), after.get()), (0, false));
}

#[test]
fn dropping_the_simulation_drops_its_tasks() {
    let token = Rc::new(());
    let sim = Sim::new(1);
    let (world, held) = (sim.world(0), token.clone());
    sim.world(0).spawn(async move {
        world.sleep_until(NEVER).await;
        drop(held);
    });
    sim.run_until_idle().unwrap();
    assert_eq!(Rc::strong_count(&token), 2);
    drop(sim);
    assert_eq!(Rc::strong_count(&token), 1);
}

#[test]
fn shards_draw_their_own_numbers_and_go_on_where_they_were() {
    let draw = |seed, shard| Sim::new(seed).world(shard).random_u64();
    assert_eq!(draw(1, 0), draw(1, 0));
    assert_ne!(draw(1, 0), draw(1, 1));
    assert_ne!(draw(1, 0), draw(2, 0));
    let sim = Sim::new(1);
    let first = sim.world(0).random_u64();
    assert_ne!(first, sim.world(0).random_u64(), "the same world, asked for again");
}

#[test]
fn the_wall_clock_jumps_and_the_monotonic_one_does_not() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    assert_eq!(world.wall().to_string(), "2026-01-01T00:00:00Z");
    sim.run_until(START + Duration::from_secs(61)).unwrap();
    assert_eq!(world.wall().to_string(), "2026-01-01T00:01:01Z");
    sim.shift_wall(-86_400);
    assert_eq!(world.wall().to_string(), "2025-12-31T00:01:01Z");
    assert_eq!(world.now(), START + Duration::from_secs(61));
}

#[test]
fn nodes_have_directories_of_their_own_on_the_disk() {
    let sim = Sim::new(1);
    let nodes = [sim.world_in(0, Path::new("node-0")), sim.world_in(1, Path::new("node-1"))];
    sim.block_on(async {
        for (index, node) in nodes.iter().enumerate() {
            let file = node.create(Path::new("name")).await.unwrap();
            file.append(vec![index as u8]).await.unwrap();
            let escape = node.open(Path::new("../node-0/name")).await;
            assert_eq!(escape.err(), Some(DiskError::OutsideDirectory));
        }
    })
    .unwrap();
    let expected = [("node-0/name".into(), vec![0]), ("node-1/name".into(), vec![1])];
    assert_eq!(sim.files().into_iter().collect::<Vec<_>>(), expected);
    sim.lose_unsynced();
    assert_eq!(sim.block_on(nodes[0].create_dir(Path::new("deeper"))), Ok(Ok(())));
}

#[test]
#[should_panic(expected = "one append at a time")]
fn two_appends_at_once_are_a_mistake_that_shows() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    let file = Rc::new(sim.block_on(world.create(Path::new("log"))).unwrap().ok().unwrap());
    for _ in 0..2 {
        let file = file.clone();
        world.spawn(async move {
            let _ = file.append(vec![1]).await;
        });
    }
    let _ = sim.run_until_idle();
}

/// Returns when each of four clients on two shards had its answers. A bystander polls sometimes,
/// and dials and asks an address of its own.
fn answer_times(sim: &Sim, has_bystander: bool) -> Vec<(u16, Time)> {
    sim.set_net(NetModel {
        faults: Faults { spike_per_mille: 300, spike_ms_max: 900, ..Faults::default() },
        ..NetModel::default()
    });
    spawn_echo_server(&sim.world(9), address("0.0.0.0:80"));
    if has_bystander {
        let world = sim.world(1);
        world.clone().spawn(async move {
            for second in 0..20 {
                world.sleep_until(START + Duration::from_secs(second)).await;
                world.yield_now().await;
                let to = address("203.0.113.9:80");
                let mut stream = world.connect(to, NEVER).await.ok().unwrap();
                stream.send(vec![1; 3_000], NEVER).await.unwrap();
                stream.receive(NEVER).await.unwrap();
            }
        });
    }
    let answers = Rc::<RefCell<Vec<(u16, Time)>>>::default();
    for client in 0..4 {
        let (world, answers) = (sim.world(client % 2), answers.clone());
        world.clone().spawn(async move {
            let to = SocketAddr::new([198, 51, 100, client as u8].into(), 80);
            let mut stream = world.connect(to, NEVER).await.ok().unwrap();
            for second in 0..20 {
                world.sleep_until(START + Duration::from_secs(second)).await;
                stream.send(vec![2; 3_000], NEVER).await.unwrap();
                let mut byte_count = 0;
                while byte_count < 3_000 {
                    byte_count += stream.receive(NEVER).await.unwrap().unwrap().len();
                }
                answers.borrow_mut().push((client, world.now()));
            }
        });
    }
    sim.run_until(START + Duration::from_secs(60)).unwrap();
    answers.take()
}

#[test]
fn in_a_steady_simulation_one_task_more_changes_nothing_for_the_others() {
    let alone = answer_times(&Sim::steady(5), false);
    assert_eq!(alone.len(), 80);
    assert_eq!(answer_times(&Sim::steady(5), true), alone);
    assert_ne!(answer_times(&Sim::steady(6), false), alone, "faults are drawn from the seed");
    assert_ne!(answer_times(&Sim::new(5), true), answer_times(&Sim::new(5), false));
}
