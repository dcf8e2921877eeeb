//! Network faults of the simulator: each strikes at its rate, where it should and nowhere else;
//! both ends see what they would see on a real network; and one seed always gives the same faults.

use nephila::base::Time;
use nephila::io::sim::{Faults, NetModel, START, Sim, SimStream, SimWorld, Unknown};
use nephila::io::{Clock, Datagram, Listener, Net, NetError, Spawn, Stream};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const NEVER: Time = Time::NEVER;
const ALWAYS: u64 = 1_000;
const ANSWER_BYTES: usize = 50_000;

fn well() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 80))
}

fn ill() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 80))
}

/// Makes a simulation in which the ill address, and no other, has these faults.
fn sim_with(seed: u64, faults: Faults) -> Sim {
    let sim = Sim::new(seed);
    sim.set_faults(ill().ip(), faults);
    sim
}

/// Answers the first bytes of every connection with 50,000 bytes, and then waits for the next.
fn serve(world: &SimWorld) {
    let listener = world.listen(SocketAddr::from(([0, 0, 0, 0], 80))).unwrap();
    let own = world.clone();
    world.spawn(async move {
        while let Ok(mut stream) = listener.accept().await {
            own.spawn(async move {
                while let Ok(Some(_)) = stream.receive(NEVER).await {
                    if stream.send(vec![7; ANSWER_BYTES], NEVER).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

fn in_seconds(world: &SimWorld, seconds: u64) -> Time {
    world.now() + Duration::from_secs(seconds)
}

/// Asks, and reads until the answer is whole or ends otherwise. Returns the number of bytes and how
/// it ended.
async fn ask(world: &SimWorld, to: SocketAddr) -> (usize, Result<(), NetError>) {
    let mut stream = match world.connect(to, in_seconds(world, 200)).await {
        Ok(stream) => stream,
        Err(error) => return (0, Err(error)),
    };
    if let Err(error) = stream.send(vec![1; 300], in_seconds(world, 60)).await {
        return (0, Err(error));
    }
    read(world, &mut stream).await
}

async fn read(world: &SimWorld, stream: &mut SimStream) -> (usize, Result<(), NetError>) {
    let mut count = 0;
    while count < ANSWER_BYTES {
        match stream.receive(in_seconds(world, 60)).await {
            Ok(Some(chunk)) => count += chunk.len(),
            Ok(None) => return (count, Err(NetError::Closed)),
            Err(error) => return (count, Err(error)),
        }
    }
    (count, Ok(()))
}

/// Returns the results of `count` questions to an address with these faults, one after the other.
/// The same number of questions to a healthy address must all be answered whole.
fn outcomes(faults: Faults, count: usize) -> Vec<(usize, Result<(), NetError>)> {
    let sim = sim_with(11, faults);
    let (server, client) = (sim.world(0), sim.world(1));
    serve(&server);
    let all = async {
        let mut all = Vec::new();
        for _ in 0..count {
            assert_eq!(ask(&client, well()).await, (ANSWER_BYTES, Ok(())), "a healthy neighbour");
            all.push(ask(&client, ill()).await);
        }
        all
    };
    sim.block_on(all).unwrap()
}

fn ends(outcomes: &[(usize, Result<(), NetError>)], error: NetError) -> usize {
    outcomes.iter().filter(|(_, end)| *end == Err(error)).count()
}

#[test]
fn connects_are_refused_unanswered_or_out_of_sockets_at_their_rates() {
    let faults = Faults { refused_per_mille: 300, ..Faults::default() };
    let refused = ends(&outcomes(faults, 300), NetError::Refused);
    assert!((60..120).contains(&refused), "{refused}");
    let faults = Faults { unanswered_per_mille: 300, ..Faults::default() };
    let silent = ends(&outcomes(faults, 300), NetError::TimedOut);
    assert!((60..120).contains(&silent), "{silent}");
    let faults = Faults { exhausted_per_mille: 300, ..Faults::default() };
    let exhausted = ends(&outcomes(faults, 300), NetError::Exhausted);
    assert!((60..120).contains(&exhausted), "{exhausted}");
}

#[test]
fn want_of_sockets_strikes_connected_datagrams_too() {
    let sim = sim_with(1, Faults { exhausted_per_mille: ALWAYS, ..Faults::default() });
    let world = sim.world(0);
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    assert_eq!(world.datagram(any, Some(ill())).err(), Some(NetError::Exhausted));
    assert!(world.datagram(any, Some(well())).is_ok());
    assert!(world.datagram(ill(), None).is_ok(), "a server's own socket is not dialled");
}

#[test]
fn a_lost_first_packet_makes_a_late_connect() {
    let sim = sim_with(2, Faults { syn_loss_per_mille: 600, ..Faults::default() });
    let (server, client) = (sim.world(0), sim.world(1));
    serve(&server);
    let mut late = [0; 3];
    sim.block_on(async {
        for _ in 0..100 {
            let begun = client.now();
            let connected = client.connect(ill(), NEVER).await.is_ok();
            let took = client.now().since(begun).as_secs();
            match took {
                0 => late[0] += 1,
                1 | 3 | 7 | 15 | 31 | 63 => late[1] += 1,
                127 => late[2] += 1,
                _ => panic!("a connect took {took} s"),
            }
            assert_eq!(connected, took != 127);
        }
    })
    .unwrap();
    assert!(late[0] > 20 && late[1] > 30 && late[2] > 0, "{late:?}");
}

#[test]
fn a_reset_strikes_at_any_byte_of_either_direction_and_both_ends_hear_of_it() {
    let faults = Faults { reset_per_mille: ALWAYS, strike_bytes_max: 60_000, ..Faults::default() };
    let all = outcomes(faults, 400);
    let resets = ends(&all, NetError::Reset);
    // A fault after more than the 300 bytes of the question is never reached in that direction.
    assert!((230..400).contains(&resets), "{resets}");
    let cut = |range: std::ops::Range<usize>| all.iter().any(|(count, _)| range.contains(count));
    assert!(cut(0..1) && cut(1..100) && cut(1_000..10_000) && cut(10_000..ANSWER_BYTES));

    let sim = sim_with(5, Faults { strike_bytes_max: 0, ..faults });
    let world = sim.world(0);
    sim.block_on(async {
        let listener = world.listen(ill()).unwrap();
        let (mut to_listener, mut to_dialler) = (0, 0);
        for _ in 0..20 {
            let mut dialled = world.connect(ill(), NEVER).await.unwrap();
            let mut accepted = listener.accept().await.unwrap();
            accepted.send(vec![1; 9], NEVER).await.unwrap();
            if matches!(dialled.receive(NEVER).await, Ok(Some(_))) {
                dialled.send(vec![1; 9], NEVER).await.unwrap();
                to_listener += 1;
            } else {
                to_dialler += 1;
            }
            assert_eq!(accepted.receive(NEVER).await.err(), Some(NetError::Reset));
            assert_eq!(dialled.receive(NEVER).await.err(), Some(NetError::Reset));
        }
        assert!(to_listener > 3 && to_dialler > 3);
    })
    .unwrap();
}

#[test]
fn a_half_open_connection_tells_nobody_not_even_when_one_side_leaves() {
    let faults = Faults { vanish_per_mille: ALWAYS, strike_bytes_max: 0, ..Faults::default() };
    let sim = sim_with(3, faults);
    let world = sim.world(0);
    sim.block_on(async {
        let listener = world.listen(ill()).unwrap();
        let mut dialled = world.connect(ill(), NEVER).await.unwrap();
        let mut accepted = listener.accept().await.unwrap();
        for _ in 0..2 {
            dialled.send(vec![1; 300], NEVER).await.unwrap();
            accepted.send(vec![1; 300], NEVER).await.unwrap();
        }
        let deadline = in_seconds(&world, 500);
        // One of the first two sends was struck. All later ones are lost in both directions.
        while let Ok(Some(_)) = accepted.receive(deadline).await {}
        while let Ok(Some(_)) = dialled.receive(deadline).await {}
        assert_eq!(world.now(), deadline);
        assert!(dialled.is_quiet(), "the connection looks usable for another request");
        let sent = dialled.send(vec![1; 10_000_000], in_seconds(&world, 9)).await;
        assert_eq!(sent, Err(NetError::TimedOut), "one window is sent, and nothing after it");
        drop(dialled);
        let waited = accepted.receive(in_seconds(&world, 900)).await;
        assert_eq!(waited.err(), Some(NetError::TimedOut), "no close arrives");
    })
    .unwrap();
}

#[test]
fn a_server_that_closes_early_leaves_a_part_of_its_answer() {
    let faults = Faults {
        close_per_mille: ALWAYS,
        strike_bytes_max: ANSWER_BYTES as u64,
        ..Faults::default()
    };
    let all = outcomes(faults, 200);
    assert!(all.iter().all(|(count, end)| *end == Err(NetError::Closed) && *count <= ANSWER_BYTES));
    assert!(all.iter().any(|(count, _)| *count < 100));
    assert!(all.iter().any(|(count, _)| *count > ANSWER_BYTES / 4));
}

#[test]
fn a_stall_pauses_the_answer_and_then_it_goes_on() {
    let took_of = |faults: Faults| {
        let sim = sim_with(4, faults);
        let (server, client) = (sim.world(0), sim.world(1));
        serve(&server);
        let mut took = Vec::new();
        sim.block_on(async {
            for _ in 0..40 {
                let begun = client.now();
                assert_eq!(ask(&client, ill()).await, (ANSWER_BYTES, Ok(())));
                took.push(client.now().since(begun));
            }
        })
        .unwrap();
        took.sort_unstable();
        took
    };
    let stall = Faults { stall_per_mille: ALWAYS, stall_ms_max: 50_000, ..Faults::default() };
    let stalled = took_of(Faults { strike_bytes_max: 10_000, ..stall });
    assert!(stalled[20] > Duration::from_secs(10), "{stalled:?}");
    assert!(stalled[39] < Duration::from_secs(52), "{stalled:?}");
    let spiked = took_of(Faults { spike_per_mille: 100, spike_ms_max: 9_000, ..Faults::default() });
    assert!(spiked[20] > Duration::from_secs(1) && spiked[39] < Duration::from_secs(20));
    let plain = took_of(Faults::default());
    assert!(plain[39] < Duration::from_secs(1), "{plain:?}");
}

#[test]
fn a_trickle_comes_at_its_rate_a_little_at_a_time() {
    let faults =
        Faults { trickle_per_mille: ALWAYS, trickle_bytes_per_second: 2_000, ..Faults::default() };
    let sim = sim_with(6, faults);
    let (server, client) = (sim.world(0), sim.world(1));
    serve(&server);
    sim.block_on(async {
        let begun = client.now();
        let mut stream = client.connect(ill(), NEVER).await.unwrap();
        stream.send(vec![1; 300], NEVER).await.unwrap();
        let mut count = 0;
        while count < ANSWER_BYTES {
            let chunk = stream.receive(in_seconds(&client, 2)).await.unwrap().unwrap();
            assert!(chunk.len() <= 500);
            count += chunk.len();
        }
        let took = client.now().since(begun).as_secs();
        assert!((25..=26).contains(&took), "{took}");
    })
    .unwrap();
}

#[test]
fn datagrams_arrive_twice_and_overtake_each_other() {
    let received = |faults: Faults| {
        let sim = sim_with(8, faults);
        let world = sim.world(0);
        let numbers = sim.block_on(async {
            let server = world.datagram(ill(), None).unwrap();
            let client = world.datagram(SocketAddr::from(([0, 0, 0, 0], 0)), None).unwrap();
            for number in 0..200u8 {
                client.send(&[number], server.local()).unwrap();
                world.sleep_until(world.now() + Duration::from_millis(100)).await;
            }
            let soon = in_seconds(&world, 60);
            let mut numbers = Vec::new();
            while let Ok((bytes, from)) = server.receive(soon).await {
                numbers.push(bytes[0]);
                // The way back has the same faults as the way there.
                server.send(&bytes, from).unwrap();
            }
            let soon = in_seconds(&world, 60);
            let mut back_count = 0;
            while client.receive(soon).await.is_ok() {
                back_count += 1;
            }
            (numbers, back_count)
        });
        numbers.unwrap()
    };
    let (numbers, back_count) = received(Faults::default());
    assert!(numbers.is_sorted() && (numbers.len(), back_count) == (200, 200));
    let doubled = Faults { datagram_double_per_mille: 500, ..Faults::default() };
    let (numbers, back_count) = received(doubled);
    assert!((270..330).contains(&numbers.len()), "{}", numbers.len());
    assert!(back_count > numbers.len() + 100, "{back_count}");
    let late =
        Faults { datagram_late_per_mille: 200, datagram_late_ms_max: 5_000, ..Faults::default() };
    let (numbers, _) = received(late);
    assert!(numbers.len() == 200 && !numbers.is_sorted());
}

#[test]
fn a_machine_is_away_and_comes_back_when_the_gate_says_so() {
    let sim = Sim::new(1);
    let (server, client) = (sim.world(0), sim.world(1));
    serve(&server);
    let asked: Rc<RefCell<Vec<IpAddr>>> = Rc::default();
    let witness = asked.clone();
    sim.set_gate(Box::new(move |address, now| {
        witness.borrow_mut().push(address);
        match now.since(START).as_secs() {
            0..100 => Some(Unknown::Refuse),
            100..200 => Some(Unknown::Silence),
            _ => None,
        }
    }));
    sim.block_on(async {
        assert_eq!(ask(&client, well()).await, (0, Err(NetError::Refused)));
        client.sleep_until(START + Duration::from_secs(150)).await;
        assert_eq!(ask(&client, well()).await, (0, Err(NetError::TimedOut)));
        client.sleep_until(START + Duration::from_secs(300)).await;
        assert_eq!(ask(&client, well()).await, (ANSWER_BYTES, Ok(())));
    })
    .unwrap();
    assert_eq!(*asked.borrow(), [well().ip(); 3]);
}

#[test]
fn an_acknowledged_send_says_what_the_peer_has_read() {
    let faults = Faults { vanish_per_mille: 500, strike_bytes_max: 60_000, ..Faults::default() };
    let sim = sim_with(9, faults);
    let (server, client) = (sim.world(0).acknowledged(), sim.world(1));
    let (mut whole, mut cut) = (0, 0);
    sim.block_on(async {
        let listener = server.listen(ill()).unwrap();
        for round in 0..60 {
            let mut dialled = client.connect(ill(), NEVER).await.unwrap();
            let mut accepted = listener.accept().await.unwrap();
            let received = Rc::new(RefCell::new((0, NEVER)));
            let (own, witness) = (client.clone(), received.clone());
            client.spawn(async move {
                // Every third client closes in the middle of the answer.
                let wanted = if round % 3 == 0 { ANSWER_BYTES / 2 } else { ANSWER_BYTES };
                while witness.borrow().0 < wanted {
                    let deadline = in_seconds(&own, 20);
                    let Ok(Some(chunk)) = dialled.receive(deadline).await else { return };
                    let count = witness.borrow().0 + chunk.len();
                    *witness.borrow_mut() = (count, own.now());
                }
                if wanted == ANSWER_BYTES {
                    let _ = dialled.receive(NEVER).await;
                }
            });
            let sent = accepted.send(vec![1; ANSWER_BYTES], in_seconds(&server, 60)).await;
            let (count, last_at) = *received.borrow();
            assert_eq!(sent.is_ok(), count == ANSWER_BYTES, "{round}: {count} bytes");
            if sent.is_ok() {
                assert_eq!(server.now(), last_at);
                whole += 1;
            } else {
                cut += 1;
            }
        }
    })
    .unwrap();
    assert!(whole > 15 && cut > 25, "{whole} {cut}");
}

#[test]
fn all_faults_at_once_are_the_same_again_under_their_seed() {
    let faults = Faults {
        exhausted_per_mille: 20,
        refused_per_mille: 50,
        unanswered_per_mille: 20,
        syn_loss_per_mille: 100,
        spike_per_mille: 50,
        spike_ms_max: 3_000,
        reset_per_mille: 100,
        vanish_per_mille: 100,
        close_per_mille: 100,
        stall_per_mille: 100,
        strike_bytes_max: 60_000,
        stall_ms_max: 30_000,
        trickle_per_mille: 100,
        trickle_bytes_per_second: 5_000,
        datagram_loss_per_mille: 100,
        datagram_double_per_mille: 100,
        datagram_late_per_mille: 100,
        datagram_late_ms_max: 1_000,
    };
    let history = |seed| {
        let sim = Sim::new(seed);
        sim.set_net(NetModel { faults, ..NetModel::default() });
        let (server, client) = (sim.world(0), sim.world(1));
        serve(&server);
        let outcomes = sim.block_on(async {
            let mut outcomes = Vec::new();
            for _ in 0..200 {
                outcomes.push(ask(&client, well()).await);
            }
            outcomes
        });
        (sim.digest(), outcomes.unwrap())
    };
    let first = history(1);
    assert_eq!(first, history(1));
    assert_ne!(first.0, history(2).0);
    for error in [NetError::Exhausted, NetError::Refused, NetError::TimedOut, NetError::Reset] {
        assert!(ends(&first.1, error) > 0, "{error}");
    }
    assert!(ends(&first.1, NetError::Closed) > 0);
    assert!(first.1.iter().filter(|(_, end)| end.is_ok()).count() > 50);
}
