//! The simulated network: who answers where and when, how connections end, what is bounded, and
//! what happens to datagrams.

use nephila::base::Time;
use nephila::io::sim::{Faults, NetModel, START, Sim, SimStream, SimWorld, Unknown};
use nephila::io::{Clock, Datagram, Listener, Net, NetError, Spawn, Stream};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const NEVER: Time = Time::NEVER;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns both ends of a new connection.
async fn pair(server: &SimWorld, client: &SimWorld) -> (SimStream, SimStream) {
    let listener = server.listen(address("192.0.2.1:0")).unwrap();
    let dialled = client.connect(listener.local(), NEVER).await.ok().unwrap();
    (listener.accept().await.ok().unwrap(), dialled)
}

/// Reads to the end. Returns what came, and how it ended.
async fn drain(stream: &mut SimStream) -> (Vec<u8>, Result<(), NetError>) {
    let mut bytes = Vec::new();
    loop {
        match stream.receive(NEVER).await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return (bytes, Ok(())),
            Err(error) => return (bytes, Err(error)),
        }
    }
}

#[test]
fn deadlines_fire_at_exactly_their_time() {
    let sim = Sim::new(1);
    let (server, client) = (sim.world(0), sim.world(1));
    let at = |ms| START + Duration::from_millis(ms);
    sim.block_on(async {
        let (mut here, mut there) = pair(&server, &client).await;
        assert_eq!(there.receive(at(1_234)).await.err(), Some(NetError::TimedOut));
        assert_eq!(client.now(), at(1_234));
        assert_eq!(there.receive(at(5)).await.err(), Some(NetError::TimedOut), "already past");
        assert_eq!(client.now(), at(1_234));
        let sent = there.send(vec![0; 10_000_000], at(9_999)).await;
        assert_eq!((sent, client.now()), (Err(NetError::TimedOut), at(9_999)));
        assert!(here.receive(at(10_000)).await.is_ok());
        let socket = client.datagram(address("0.0.0.0:0"), None).unwrap();
        assert_eq!(socket.receive(at(20_000)).await, Err(NetError::TimedOut));
        assert_eq!(client.now(), at(20_000));
    })
    .unwrap();
}

#[test]
fn a_receive_that_was_answered_leaves_no_deadline_behind() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    sim.block_on(async {
        let (mut here, mut there) = pair(&world, &world).await;
        let own = world.clone();
        world.spawn(async move {
            own.sleep_until(START + Duration::from_secs(1)).await;
            here.send(vec![1], NEVER).await.unwrap();
        });
        assert!(there.receive(START + Duration::from_secs(86_400)).await.unwrap().is_some());
    })
    .unwrap();
    sim.run_until_idle().unwrap();
    assert!(sim.now() < START + Duration::from_secs(2));
}

#[test]
fn an_address_without_a_listener_refuses_after_a_round_trip() {
    let sim = Sim::new(1);
    sim.set_net(NetModel { latency_us_min: 500, latency_us_max: 500, ..NetModel::default() });
    let world = sim.world(0);
    sim.block_on(async {
        let result = world.connect(address("192.0.2.9:80"), NEVER).await;
        assert_eq!(result.err(), Some(NetError::Refused));
        assert_eq!(world.now(), START + Duration::from_millis(1));
    })
    .unwrap();
}

#[test]
fn a_silent_address_times_out_at_the_deadline_or_when_the_system_gives_up() {
    let sim = Sim::new(1);
    sim.set_net(NetModel { unknown: Unknown::Silence, ..NetModel::default() });
    let world = sim.world(0);
    sim.block_on(async {
        let deadline = START + Duration::from_secs(10);
        let result = world.connect(address("192.0.2.9:80"), deadline).await;
        assert_eq!((result.err(), world.now()), (Some(NetError::TimedOut), deadline));
        let result = world.connect(address("192.0.2.9:80"), NEVER).await;
        assert_eq!(result.err(), Some(NetError::TimedOut));
        assert_eq!(world.now(), deadline + Duration::from_secs(127));
    })
    .unwrap();
}

#[test]
fn a_wildcard_listener_answers_for_every_address_that_has_none_of_its_own() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    sim.block_on(async {
        let wildcard = world.listen(address("0.0.0.0:80")).unwrap();
        let exact = world.listen(address("192.0.2.1:80")).unwrap();
        let dialled = world.connect(address("192.0.2.7:80"), NEVER).await.ok().unwrap();
        let accepted = wildcard.accept().await.ok().unwrap();
        assert_eq!(accepted.local(), address("192.0.2.7:80"));
        assert_eq!((accepted.peer(), dialled.peer()), (dialled.local(), accepted.local()));
        let _dialled = world.connect(address("192.0.2.1:80"), NEVER).await.ok().unwrap();
        assert_eq!(exact.accept().await.ok().unwrap().local(), address("192.0.2.1:80"));
        let other_family = world.connect(address("[2001:db8::1]:80"), NEVER).await;
        assert_eq!(other_family.err(), Some(NetError::Refused));
        let again = world.listen(address("192.0.2.1:80"));
        assert_eq!(again.err(), Some(NetError::AddressInUse));
    })
    .unwrap();
}

#[test]
fn bytes_before_a_close_are_read_before_it() {
    let sim = Sim::new(1);
    let (server, client) = (sim.world(0), sim.world(1));
    sim.block_on(async {
        let (mut here, mut there) = pair(&server, &client).await;
        here.send(vec![5; 100_000], NEVER).await.unwrap();
        drop(here);
        assert!(there.is_quiet(), "all of it is still on its way");
        assert_eq!(drain(&mut there).await, (vec![5; 100_000], Ok(())));
        assert!(!there.is_quiet(), "a closed connection is not quiet");
        assert!(
            matches!(there.receive(NEVER).await, Ok(None)),
            "after the end the stream stays at its end"
        );
    })
    .unwrap();
}

#[test]
fn an_abort_and_a_close_over_unread_bytes_are_resets() {
    let sim = Sim::new(1);
    let (server, client) = (sim.world(0), sim.world(1));
    sim.block_on(async {
        let (mut here, mut there) = pair(&server, &client).await;
        here.send(vec![5; 9], NEVER).await.unwrap();
        here.reset();
        assert_eq!(drain(&mut there).await, (vec![5; 9], Err(NetError::Reset)));
        assert_eq!(there.send(vec![1], NEVER).await, Err(NetError::Reset));

        let (here, mut there) = pair(&server, &client).await;
        there.send(vec![5; 9], NEVER).await.unwrap();
        client.sleep_until(client.now() + Duration::from_secs(1)).await;
        drop(here);
        assert_eq!(drain(&mut there).await, (vec![], Err(NetError::Reset)));
    })
    .unwrap();
}

#[test]
fn a_sender_to_a_peer_that_left_is_told_a_round_trip_later() {
    let sim = Sim::new(1);
    let (server, client) = (sim.world(0), sim.world(1));
    sim.block_on(async {
        let (here, mut there) = pair(&server, &client).await;
        drop(here);
        assert!(there.send(vec![1], NEVER).await.is_ok(), "the peer's end is not known here yet");
        client.sleep_until(client.now() + Duration::from_secs(1)).await;
        assert_eq!(there.send(vec![1], NEVER).await, Err(NetError::Reset));
        assert!(matches!(there.receive(NEVER).await, Ok(None)), "the close came first");

        let (here, mut there) = pair(&server, &client).await;
        drop(here);
        let sent = there.send(vec![1; 10_000_000], NEVER).await;
        assert_eq!(sent, Err(NetError::Reset), "losing more than a window is reported");

        let (here, mut there) = pair(&server, &client).await;
        server.spawn({
            let server = server.clone();
            async move {
                server.sleep_until(server.now() + Duration::from_secs(1)).await;
                drop(here);
            }
        });
        let sent = there.send(vec![1; 10_000_000], NEVER).await;
        assert_eq!(sent, Err(NetError::Reset), "a full window has no room for the rest");
    })
    .unwrap();
}

#[test]
fn a_listener_that_goes_resets_what_it_did_not_accept() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    sim.block_on(async {
        let listener = world.listen(address("192.0.2.1:80")).unwrap();
        let mut stream = world.connect(listener.local(), NEVER).await.ok().unwrap();
        drop(listener);
        assert_eq!(drain(&mut stream).await, (vec![], Err(NetError::Reset)));
        assert!(world.listen(address("192.0.2.1:80")).is_ok(), "the address is free again");
    })
    .unwrap();
}

#[test]
fn a_sender_waits_when_the_window_is_full() {
    let sim = Sim::new(1);
    sim.set_net(NetModel { window_bytes: 10_000, ..NetModel::default() });
    let (server, client) = (sim.world(0), sim.world(1));
    sim.block_on(async {
        let (mut here, mut there) = pair(&server, &client).await;
        let deadline = client.now() + Duration::from_secs(5);
        assert_eq!(there.send(vec![0; 50_000], deadline).await, Err(NetError::TimedOut));
        drop(there);
        assert_eq!(drain(&mut here).await, (vec![0; 10_000], Ok(())));
    })
    .unwrap();
}

#[test]
fn segments_are_of_many_sizes_and_within_their_bound() {
    let sim = Sim::new(1);
    sim.set_net(NetModel { segment_bytes_max: 8, ..NetModel::default() });
    let world = sim.world(0);
    sim.block_on(async {
        let (mut here, mut there) = pair(&world, &world).await;
        let message: Vec<u8> = (0..20_000u32).map(|index| index as u8).collect();
        here.send(message.clone(), NEVER).await.unwrap();
        drop(here);
        let (mut received, mut sizes) = (Vec::new(), [0; 9]);
        while let Some(chunk) = there.receive(NEVER).await.unwrap() {
            sizes[chunk.len()] += 1;
            received.extend_from_slice(&chunk);
        }
        assert_eq!(received, message);
        assert!(sizes[0] == 0 && sizes[1..].iter().all(|count| *count > 10), "{sizes:?}");
    })
    .unwrap();
}

#[test]
fn a_connected_datagram_socket_hears_only_its_peer() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    sim.block_on(async {
        let server = world.datagram(address("192.0.2.53:53"), None).unwrap();
        let stranger = world.datagram(address("192.0.2.66:53"), None).unwrap();
        let client = world.datagram(address("0.0.0.0:0"), Some(server.local())).unwrap();
        client.send(b"question", server.local()).unwrap();
        let (question, from) = server.receive(NEVER).await.unwrap();
        assert_eq!((&question[..], from.port()), (&b"question"[..], client.local().port()));
        stranger.send(b"forged", from).unwrap();
        server.send(b"answer", from).unwrap();
        assert_eq!(client.receive(NEVER).await.unwrap(), (b"answer".to_vec(), server.local()));
        let soon = world.now() + Duration::from_secs(5);
        assert_eq!(client.receive(soon).await, Err(NetError::TimedOut));
    })
    .unwrap();
}

#[test]
fn only_a_connected_datagram_socket_is_told_that_nobody_listens() {
    let sim = Sim::new(1);
    let world = sim.world(0);
    sim.block_on(async {
        let nobody = address("192.0.2.53:53");
        let connected = world.datagram(address("0.0.0.0:0"), Some(nobody)).unwrap();
        connected.send(b"?", nobody).unwrap();
        assert_eq!(connected.receive(NEVER).await, Err(NetError::Refused));
        let free = world.datagram(address("0.0.0.0:0"), None).unwrap();
        free.send(b"?", nobody).unwrap();
        let soon = world.now() + Duration::from_secs(5);
        assert_eq!(free.receive(soon).await, Err(NetError::TimedOut));
    })
    .unwrap();
}

#[test]
fn datagrams_are_lost_at_the_rate_of_the_model_and_when_nobody_reads() {
    let received_of_thousand = |datagram_loss_per_mille| {
        let sim = Sim::new(1);
        let faults = Faults { datagram_loss_per_mille, ..Faults::default() };
        sim.set_net(NetModel { faults, ..NetModel::default() });
        let world = sim.world(0);
        let received = sim.block_on(async {
            let server = world.datagram(address("192.0.2.53:53"), None).unwrap();
            for _ in 0..1_000 {
                server.send(b"to myself", server.local()).unwrap();
            }
            let soon = world.now() + Duration::from_secs(5);
            let mut count = 0;
            while server.receive(soon).await.is_ok() {
                count += 1;
            }
            for _ in 0..2_000 {
                server.send(b"flood", server.local()).unwrap();
            }
            let soon = world.now() + Duration::from_secs(5);
            let mut flood_count = 0;
            while server.receive(soon).await.is_ok() {
                flood_count += 1;
            }
            assert!(flood_count <= nephila::base::limits::SIM_DATAGRAM_COUNT_MAX);
            count
        });
        received.unwrap()
    };
    assert_eq!(received_of_thousand(0), 1_000);
    assert_eq!(received_of_thousand(1_000), 0);
    assert!((600..800).contains(&received_of_thousand(300)));
}

#[test]
fn a_killed_shard_leaves_its_peers_with_a_close_and_its_addresses_free() {
    let sim = Sim::new(1);
    let (server, client) = (sim.world(0), sim.world(1));
    let at = address("192.0.2.1:80");
    let listener = server.listen(at).unwrap();
    server.spawn(async move {
        let mut stream = listener.accept().await.ok().unwrap();
        let _ = stream.receive(NEVER).await;
    });
    let mut stream = sim.block_on(client.connect(at, NEVER)).unwrap().ok().unwrap();
    let goes_on = Rc::new(Cell::new(false));
    let (own, witness) = (client.clone(), goes_on.clone());
    client.spawn(async move {
        own.sleep_until(START + Duration::from_secs(9)).await;
        witness.set(true);
    });
    sim.run_until(START + Duration::from_secs(1)).unwrap();
    sim.kill(0);
    assert_eq!(sim.task_count(), 1);
    assert_eq!(sim.block_on(drain(&mut stream)).unwrap(), (vec![], Ok(())));
    assert!(server.listen(at).is_ok());
    sim.run_until_idle().unwrap();
    assert!(goes_on.get(), "the other shard continues");
}
