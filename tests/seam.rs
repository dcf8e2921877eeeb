//! What every world behind the seam must do, written once against the traits.
//!
//! Each check is generic over the world; `seam_tests!` makes a test of each for one world. A new
//! world needs one line: a module name, and a function that runs a check in a fresh world with an
//! empty data directory. Times are short and only lower bounds are asserted, so that real clocks
//! pass too.

use nephila::base::limits::RING_EVENT_COUNT_MAX;
use nephila::base::{Time, oneshot};
use nephila::io::ring::{Care, RingWorld, Wake};
use nephila::io::sim::{Sim, SimWorld};
use nephila::io::{Datagram, DiskError, File, Listener, NetError, Stream, World, deadline_in_ms};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

macro_rules! seam_tests {
    ($world:ident, $run:path, [$($check:ident),* $(,)?]) => {
        mod $world {
            $(#[test] fn $check() { $run(super::$check); })*
        }
    };
    ($world:ident, $run:path) => {
        seam_tests!($world, $run, [
            bytes_are_echoed_in_order,
            ten_megabytes_arrive_whole,
            both_directions_flow_at_once,
            many_connections_are_open_at_once,
            a_receive_ends_at_its_deadline,
            a_send_that_nobody_reads_ends_at_its_deadline,
            a_dropped_receive_loses_nothing,
            a_port_without_a_listener_refuses,
            a_taken_address_is_in_use,
            both_ends_agree_on_their_addresses,
            a_closing_peer_ends_the_stream,
            sending_to_a_closed_peer_fails_in_the_end,
            a_reset_is_told_from_a_close_behind_the_bytes_before_it,
            a_stream_is_quiet_until_the_peer_speaks_or_closes,
            datagrams_make_the_round_trip,
            a_connected_socket_hears_only_its_peer,
            a_datagram_receive_ends_at_its_deadline,
            appended_bytes_are_read_back,
            bulk_files_are_as_any_others,
            a_truncated_file_goes_on_at_its_new_end,
            names_are_created_renamed_removed_and_listed,
            a_rename_replaces_the_file_that_was_there,
            directories_hold_files_and_may_be_made_twice,
            paths_stay_inside_the_data_directory,
            sleepers_wake_in_the_order_of_their_times,
            a_sleep_into_the_past_ends_at_once,
            a_yield_lets_other_tasks_run,
            random_numbers_differ,
            clocks_go_forward_together,
        ]);
    };
}

seam_tests!(sim_world, crate::run_in_sim);
seam_tests!(ring_world, crate::run_in_ring);

/// Runs the check under several seeds, which give other latencies, segments and orders.
fn run_in_sim(check: impl AsyncFnOnce(SimWorld, IpAddr) + Copy) {
    for seed in 0..5 {
        let sim = Sim::new(seed);
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        sim.block_on(check(sim.world(0), ip)).unwrap();
    }
}

/// Runs the check on its own thread, over loopback and in a directory that is removed after the
/// test.
fn run_in_ring(check: impl AsyncFnOnce(RingWorld, IpAddr) + Copy + Send + 'static) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let wake = Wake::new().unwrap();
    let main = move || async move {
        let world = RingWorld::new(wake, Some(&path)).unwrap();
        check(world.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
        world.stop();
    };
    RingWorld::start(None, "seam", Care::Wake, main).unwrap().join().unwrap().unwrap();
}

// --- Streams ------------------------------------------------------------------------------------

#[test]
fn a_heap_of_completions_is_handed_out_in_turns() {
    run_in_ring(a_sleeper_wakes_between_turns);
}

/// The reads of eight turns end in the call that submits them, and each read makes work. A task
/// that sleeps in the meantime waits for the turn in which it is due and for the one before, not
/// for all eight. While completions are left, the kernel is not asked for more.
async fn a_sleeper_wakes_between_turns<W: World>(world: W, _ip: IpAddr) {
    let read_count = 8 * RING_EVENT_COUNT_MAX;
    let (work, sleep) = (Duration::from_micros(20), Duration::from_millis(1));
    assert!(work * RING_EVENT_COUNT_MAX as u32 > sleep);
    let file = Rc::new(world.create(Path::new("heap")).await.unwrap());
    file.append(pattern(read_count)).await.unwrap();
    let done_count = Rc::new(Cell::new(0));
    let call_count_before = world.effort().syscall_count;
    for offset in 0..read_count {
        let (reader, file, done_count) = (world.clone(), file.clone(), done_count.clone());
        world.spawn(async move {
            assert_eq!(file.read_at(offset as u64, 1).await.unwrap().len(), 1);
            let until = reader.now() + work;
            while reader.now() < until {}
            done_count.set(done_count.get() + 1);
        });
    }
    let mut most = 0;
    while done_count.get() < read_count {
        let before = done_count.get();
        world.sleep_until(world.now() + sleep).await;
        most = most.max(done_count.get() - before);
    }
    assert!(most <= 2 * RING_EVENT_COUNT_MAX, "{most} of {read_count} within one sleep");
    let call_count = world.effort().syscall_count - call_count_before;
    assert!(call_count <= 4, "{call_count} system calls for eight turns");
}

async fn bytes_are_echoed_in_order<W: World>(world: W, ip: IpAddr) {
    let (mut server, mut client) = pair(&world, ip).await;
    world.spawn(async move {
        while let Ok(Some(chunk)) = server.receive(Time::NEVER).await {
            let echo = chunk.to_vec();
            drop(chunk);
            server.send(echo, Time::NEVER).await.unwrap();
        }
    });
    for size in [1, 2, 1_000, 100_000] {
        let message = pattern(size);
        let sent = client.send(message.clone(), Time::NEVER).await.unwrap();
        assert_eq!(sent, message, "the buffer comes back unchanged");
        assert_eq!(receive_exactly(&mut client, size).await, message);
    }
}

async fn ten_megabytes_arrive_whole<W: World>(world: W, ip: IpAddr) {
    let (mut server, mut client) = pair(&world, ip).await;
    let message = pattern(10 << 20);
    let to_send = message.clone();
    world.spawn(async move {
        server.send(to_send, Time::NEVER).await.unwrap();
    });
    let received = receive_to_end(&mut client).await;
    assert!(received == message, "{} of {} bytes, or others", received.len(), message.len());
}

async fn both_directions_flow_at_once<W: World>(world: W, ip: IpAddr) {
    let (mut server, mut client) = pair(&world, ip).await;
    let (done, wait) = oneshot::channel();
    world.spawn(async move {
        for _ in 0..50 {
            server.send(pattern(5_000), Time::NEVER).await.unwrap();
        }
        let received = receive_exactly(&mut server, 50 * 3_000).await;
        done.send(received.len());
    });
    for _ in 0..50 {
        client.send(pattern(3_000), Time::NEVER).await.unwrap();
    }
    let received = receive_exactly(&mut client, 50 * 5_000).await;
    assert!(received.chunks(5_000).all(|message| message == pattern(5_000)));
    assert_eq!(wait.await, Some(50 * 3_000));
}

async fn many_connections_are_open_at_once<W: World>(world: W, ip: IpAddr) {
    let listener = world.listen(SocketAddr::new(ip, 0)).unwrap();
    let mut clients = Vec::new();
    for _ in 0..100 {
        let client = world.connect(listener.local(), Time::NEVER).await.ok().unwrap();
        let mut server = listener.accept().await.ok().unwrap();
        world.spawn(async move {
            let question = receive_exactly(&mut server, 2).await;
            server.send(question, Time::NEVER).await.unwrap();
        });
        clients.push(client);
    }
    for (index, client) in clients.iter_mut().enumerate() {
        client.send(vec![index as u8, 7], Time::NEVER).await.unwrap();
    }
    for (index, client) in clients.iter_mut().enumerate().rev() {
        assert_eq!(receive_to_end(client).await, [index as u8, 7]);
    }
}

async fn a_receive_ends_at_its_deadline<W: World>(world: W, ip: IpAddr) {
    let (mut server, mut client) = pair(&world, ip).await;
    let deadline = deadline_in_ms(&world, 30);
    assert_eq!(client.receive(deadline).await.err(), Some(NetError::TimedOut));
    assert!(world.now() >= deadline, "not before it");
    server.send(vec![1], Time::NEVER).await.unwrap();
    assert_eq!(receive_exactly(&mut client, 1).await, [1], "the stream can still be used");
}

async fn a_send_that_nobody_reads_ends_at_its_deadline<W: World>(world: W, ip: IpAddr) {
    let (_server, mut client) = pair(&world, ip).await;
    let deadline = deadline_in_ms(&world, 100);
    let sent = client.send(vec![0; 64 << 20], deadline).await;
    assert_eq!(sent.err(), Some(NetError::TimedOut));
    assert!(world.now() >= deadline, "not before it");
}

async fn a_dropped_receive_loses_nothing<W: World>(world: W, ip: IpAddr) {
    let (mut server, mut client) = pair(&world, ip).await;
    let message = pattern(60_000);
    let to_send = message.clone();
    let own = world.clone();
    world.spawn(async move {
        for piece in to_send.chunks(500) {
            server.send(piece.to_vec(), Time::NEVER).await.unwrap();
            own.yield_now().await;
        }
    });
    let mut received = Vec::new();
    loop {
        // The future is polled once and dropped, whatever it returned. Then the operation runs to
        // its end.
        let early = {
            let mut attempt = pin!(client.receive(Time::NEVER));
            poll_fn(|context| Poll::Ready(attempt.as_mut().poll(context))).await
        };
        let result = match early {
            Poll::Ready(result) => result,
            Poll::Pending => client.receive(Time::NEVER).await,
        };
        match result.unwrap() {
            Some(chunk) => received.extend_from_slice(&chunk),
            None => break,
        }
    }
    assert!(received == message, "{} of {} bytes, or others", received.len(), message.len());
}

async fn a_port_without_a_listener_refuses<W: World>(world: W, ip: IpAddr) {
    // Port 1 (tcpmux) has no server on any machine that runs tests.
    let result = world.connect(SocketAddr::new(ip, 1), deadline_in_ms(&world, 5_000)).await;
    assert_eq!(result.err(), Some(NetError::Refused));
}

async fn a_taken_address_is_in_use<W: World>(world: W, ip: IpAddr) {
    let listener = world.listen(SocketAddr::new(ip, 0)).unwrap();
    assert_ne!(listener.local().port(), 0);
    assert_eq!(world.listen(listener.local()).err(), Some(NetError::AddressInUse));
    let socket = world.datagram(SocketAddr::new(ip, 0), None).unwrap();
    assert_eq!(world.datagram(socket.local(), None).err(), Some(NetError::AddressInUse));
}

async fn both_ends_agree_on_their_addresses<W: World>(world: W, ip: IpAddr) {
    let listener = world.listen(SocketAddr::new(ip, 0)).unwrap();
    let client = world.connect(listener.local(), Time::NEVER).await.ok().unwrap();
    let server = listener.accept().await.ok().unwrap();
    assert_eq!((server.local(), client.peer()), (listener.local(), listener.local()));
    assert_eq!(server.peer(), client.local());
}

async fn a_closing_peer_ends_the_stream<W: World>(world: W, ip: IpAddr) {
    let (mut server, mut client) = pair(&world, ip).await;
    server.send(pattern(1_000), Time::NEVER).await.unwrap();
    drop(server);
    assert_eq!(receive_to_end(&mut client).await, pattern(1_000));
    let after = client.receive(deadline_in_ms(&world, 5_000)).await;
    assert!(matches!(after, Ok(None)), "after the end the stream stays at its end");
}

async fn a_reset_is_told_from_a_close_behind_the_bytes_before_it<W: World>(world: W, ip: IpAddr) {
    let (mut server, mut client) = pair(&world, ip).await;
    server.send(pattern(1_000), Time::NEVER).await.unwrap();
    assert_eq!(receive_exactly(&mut client, 1_000).await, pattern(1_000));
    server.reset();
    let after = client.receive(deadline_in_ms(&world, 5_000)).await;
    assert!(matches!(after, Err(NetError::Reset)), "a reset is not an orderly end");
    assert!(!client.is_quiet(), "a pool must not keep it");
}

async fn sending_to_a_closed_peer_fails_in_the_end<W: World>(world: W, ip: IpAddr) {
    let (server, mut client) = pair(&world, ip).await;
    drop(server);
    // The first bytes may still be accepted: only the peer's answer to them shows that it has
    // closed the connection.
    for _ in 0..100 {
        if let Err(error) = client.send(vec![1; 100], deadline_in_ms(&world, 5_000)).await {
            assert!(matches!(error, NetError::Reset | NetError::Closed), "{error}");
            return;
        }
        world.sleep_until(deadline_in_ms(&world, 5)).await;
    }
    panic!("a hundred sends to a closed peer succeeded");
}

async fn a_stream_is_quiet_until_the_peer_speaks_or_closes<W: World>(world: W, ip: IpAddr) {
    let (mut server, mut client) = pair(&world, ip).await;
    assert!(client.is_quiet());
    server.send(vec![1], Time::NEVER).await.unwrap();
    assert!(becomes_unquiet(&world, &client).await, "bytes came");
    assert_eq!(receive_exactly(&mut client, 1).await, [1]);
    assert!(client.is_quiet(), "all bytes were read");
    drop(server);
    assert!(becomes_unquiet(&world, &client).await, "the peer closed");
    assert!(matches!(client.receive(Time::NEVER).await, Ok(None)));
}

// --- Datagrams ----------------------------------------------------------------------------------

async fn datagrams_make_the_round_trip<W: World>(world: W, ip: IpAddr) {
    let server = world.datagram(SocketAddr::new(ip, 0), None).unwrap();
    let client = world.datagram(SocketAddr::new(ip, 0), None).unwrap();
    for size in [1, 12, 512, 1_232] {
        client.send(&pattern(size), server.local()).unwrap();
        let (question, from) = server.receive(deadline_in_ms(&world, 5_000)).await.unwrap();
        assert_eq!((question, from), (pattern(size), client.local()));
        server.send(b"answer", from).unwrap();
        let answer = client.receive(deadline_in_ms(&world, 5_000)).await;
        assert_eq!(answer, Ok((b"answer".to_vec(), server.local())));
    }
}

async fn a_connected_socket_hears_only_its_peer<W: World>(world: W, ip: IpAddr) {
    let peer = world.datagram(SocketAddr::new(ip, 0), None).unwrap();
    let stranger = world.datagram(SocketAddr::new(ip, 0), None).unwrap();
    let socket = world.datagram(SocketAddr::new(ip, 0), Some(peer.local())).unwrap();
    stranger.send(b"forged", socket.local()).unwrap();
    world.sleep_until(deadline_in_ms(&world, 50)).await;
    peer.send(b"true", socket.local()).unwrap();
    let received = socket.receive(deadline_in_ms(&world, 5_000)).await;
    assert_eq!(received, Ok((b"true".to_vec(), peer.local())));
    let nothing = socket.receive(deadline_in_ms(&world, 50)).await;
    assert_eq!(nothing, Err(NetError::TimedOut));
}

async fn a_datagram_receive_ends_at_its_deadline<W: World>(world: W, ip: IpAddr) {
    let socket = world.datagram(SocketAddr::new(ip, 0), None).unwrap();
    let deadline = deadline_in_ms(&world, 30);
    assert_eq!(socket.receive(deadline).await, Err(NetError::TimedOut));
    assert!(world.now() >= deadline, "not before it");
}

// --- Files --------------------------------------------------------------------------------------

async fn appended_bytes_are_read_back<W: World>(world: W, _ip: IpAddr) {
    let path = Path::new("log");
    let file = world.create(path).await.ok().unwrap();
    append_and_read_back(world, path, file).await;
}

async fn bulk_files_are_as_any_others<W: World>(world: W, _ip: IpAddr) {
    let path = Path::new("bulk");
    let file = world.create_bulk(path).await.ok().unwrap();
    assert_eq!(world.create_bulk(path).await.err(), Some(DiskError::Exists));
    // As in a store, a buffer has the same alignment in memory as in the file.
    let mut size = 0;
    for len in [3_000_001, 4_096, 5, 1_000_000] {
        let mut bytes: Vec<u8> = Vec::with_capacity(len + 8_192);
        let from = bytes.as_ptr().align_offset(4_096) + size % 4_096;
        bytes.resize(from, 0);
        bytes.extend_from_slice(&pattern(len));
        let (back, done) = file.append_from(bytes, from).await;
        assert_eq!((&back[from..], done), (&pattern(len)[..], Ok(())));
        size += len;
        assert_eq!(file.size(), size as u64);
        assert_eq!(file.read_at((size - len) as u64, len + 1).await, Ok(pattern(len)));
    }
    file.sync().await.unwrap();
    file.truncate(0).await.unwrap();
    append_and_read_back(world.clone(), path, file).await;
    let path = Path::new("bulk2");
    let file = world.create_bulk(path).await.ok().unwrap();
    append_and_read_back(world, path, file).await;
}

async fn append_and_read_back<W: World>(world: W, path: &Path, file: W::File) {
    assert_eq!(file.size(), 0);
    assert_eq!(file.read_at(0, 10).await, Ok(vec![]));
    let mut written = Vec::new();
    // The sizes are around those of the blocks that direct I/O uses.
    for size in [1, 511, 512, 4_095, 4_096, 4_097, 100_000] {
        assert_eq!(file.append(pattern(size)).await, Ok(pattern(size)));
        written.extend_from_slice(&pattern(size));
        assert_eq!(file.size(), written.len() as u64);
    }
    assert_eq!(file.sync().await, Ok(()));
    assert_eq!(file.read_at(0, written.len()).await.as_ref(), Ok(&written));
    assert_eq!(file.read_at(500, 5_000).await, Ok(written[500..5_500].to_vec()));
    let end = written.len() - 3;
    assert_eq!(file.read_at(end as u64, 100).await, Ok(written[end..].to_vec()));
    assert_eq!(file.read_at(written.len() as u64 + 9, 100).await, Ok(vec![]));
    drop(file);
    let file = world.open(path).await.ok().unwrap();
    assert_eq!(file.size(), written.len() as u64);
    assert_eq!(file.append_back(b"more".to_vec()).await, (b"more".to_vec(), Ok(())));
    assert_eq!(file.read_at(end as u64, 100).await, Ok([&written[end..], b"more"].concat()));
}

async fn a_truncated_file_goes_on_at_its_new_end<W: World>(world: W, _ip: IpAddr) {
    let file = world.create(Path::new("log")).await.ok().unwrap();
    file.append(pattern(10_000)).await.unwrap();
    file.truncate(5_001).await.unwrap();
    assert_eq!(file.size(), 5_001);
    file.append(b"tail".to_vec()).await.unwrap();
    file.sync().await.unwrap();
    let expected = [&pattern(10_000)[..5_001], b"tail"].concat();
    assert_eq!(file.read_at(0, 20_000).await, Ok(expected));
    file.truncate(0).await.unwrap();
    assert_eq!((file.size(), file.read_at(0, 10).await), (0, Ok(vec![])));
}

async fn names_are_created_renamed_removed_and_listed<W: World>(world: W, _ip: IpAddr) {
    let (here, one, two) = (Path::new(""), Path::new("one"), Path::new("two"));
    assert_eq!(world.open(one).await.err(), Some(DiskError::NotFound));
    drop(world.create(two).await.ok().unwrap());
    drop(world.create(one).await.ok().unwrap());
    assert_eq!(world.create(one).await.err(), Some(DiskError::Exists));
    assert_eq!(world.list(here).await, Ok(vec!["one".to_owned(), "two".to_owned()]), "sorted");
    assert_eq!(world.rename(one, Path::new("three")).await, Ok(()));
    assert_eq!(world.rename(one, Path::new("four")).await, Err(DiskError::NotFound));
    assert_eq!(world.remove(two).await, Ok(()));
    assert_eq!(world.remove(two).await, Err(DiskError::NotFound));
    assert_eq!(world.sync_dir(here).await, Ok(()));
    assert_eq!(world.list(here).await, Ok(vec!["three".to_owned()]));
}

async fn a_rename_replaces_the_file_that_was_there<W: World>(world: W, _ip: IpAddr) {
    let (new, current) = (Path::new("MANIFEST.new"), Path::new("MANIFEST"));
    for text in [&b"old"[..], b"newer"] {
        let file = world.create(new).await.ok().unwrap();
        file.append(text.to_vec()).await.unwrap();
        file.sync().await.unwrap();
        drop(file);
        world.rename(new, current).await.unwrap();
        world.sync_dir(Path::new("")).await.unwrap();
        let file = world.open(current).await.ok().unwrap();
        assert_eq!(file.read_at(0, 100).await, Ok(text.to_vec()));
    }
    assert_eq!(world.list(Path::new("")).await, Ok(vec!["MANIFEST".to_owned()]));
}

async fn directories_hold_files_and_may_be_made_twice<W: World>(world: W, _ip: IpAddr) {
    let dir = Path::new("state/shard-00");
    assert_eq!(world.create(&dir.join("log")).await.err(), Some(DiskError::NotFound));
    assert_eq!(world.list(dir).await, Err(DiskError::NotFound));
    assert_eq!(world.create_dir(dir).await, Ok(()));
    assert_eq!(world.create_dir(dir).await, Ok(()));
    drop(world.create(&dir.join("log")).await.ok().unwrap());
    assert_eq!(world.sync_dir(dir).await, Ok(()));
    assert_eq!(world.list(dir).await, Ok(vec!["log".to_owned()]));
    assert_eq!(world.list(Path::new("state")).await, Ok(vec!["shard-00".to_owned()]));
    assert_eq!(world.rename(dir, Path::new("state/shard-01")).await, Ok(()));
    assert!(world.open(Path::new("state/shard-01/log")).await.is_ok());
}

async fn paths_stay_inside_the_data_directory<W: World>(world: W, _ip: IpAddr) {
    world.create_dir(Path::new("inside")).await.unwrap();
    for path in ["../outside", "/tmp/outside", "inside/../../outside"].map(Path::new) {
        let outside = Some(DiskError::OutsideDirectory);
        assert_eq!(world.create(path).await.err(), outside);
        assert_eq!(world.open(path).await.err(), outside);
        assert_eq!(world.create_dir(path).await.err(), outside);
        assert_eq!(world.remove(path).await.err(), outside);
        assert_eq!(world.list(path).await.err(), outside);
        assert_eq!(world.sync_dir(path).await.err(), outside);
        assert_eq!(world.rename(Path::new("inside"), path).await.err(), outside);
        assert_eq!(world.rename(path, Path::new("inside")).await.err(), outside);
    }
}

// --- Time, chance, tasks ------------------------------------------------------------------------

async fn sleepers_wake_in_the_order_of_their_times<W: World>(world: W, _ip: IpAddr) {
    let order = Rc::new(RefCell::new(Vec::new()));
    let start = world.now();
    for ms in [40, 10, 30, 20, 0] {
        let (own, order) = (world.clone(), order.clone());
        world.spawn(async move {
            own.sleep_until(start + Duration::from_millis(ms)).await;
            assert!(own.now() >= start + Duration::from_millis(ms), "not before its time");
            order.borrow_mut().push(ms);
        });
    }
    while order.borrow().len() < 5 {
        world.sleep_until(deadline_in_ms(&world, 10)).await;
    }
    assert_eq!(*order.borrow(), [0, 10, 20, 30, 40]);
}

async fn a_sleep_into_the_past_ends_at_once<W: World>(world: W, _ip: IpAddr) {
    world.sleep_until(Time::ZERO).await;
    world.sleep_until(world.now()).await;
}

async fn a_yield_lets_other_tasks_run<W: World>(world: W, _ip: IpAddr) {
    let ran = Rc::new(Cell::new(false));
    let witness = ran.clone();
    world.spawn(async move { witness.set(true) });
    for _ in 0..1_000 {
        if ran.get() {
            return;
        }
        world.yield_now().await;
    }
    panic!("the other task did not run during a thousand yields");
}

async fn random_numbers_differ<W: World>(world: W, _ip: IpAddr) {
    let mut drawn: Vec<_> = (0..1_000).map(|_| world.random_u64()).collect();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 1_000);
}

async fn clocks_go_forward_together<W: World>(world: W, _ip: IpAddr) {
    let (start, wall_start) = (world.now(), world.wall());
    world.sleep_until(deadline_in_ms(&world, 20)).await;
    assert!(world.now().since(start) >= Duration::from_millis(20));
    assert!(world.wall() > wall_start);
    assert!(world.wall().civil().0 >= 2025, "a plausible year: {}", world.wall());
}

// --- Helpers ------------------------------------------------------------------------------------

/// Returns the accepted end and the dialled end of a new connection.
async fn pair<W: World>(world: &W, ip: IpAddr) -> (W::Stream, W::Stream) {
    let listener = world.listen(SocketAddr::new(ip, 0)).unwrap();
    let client = world.connect(listener.local(), deadline_in_ms(world, 5_000)).await;
    let server = listener.accept().await;
    (server.ok().unwrap(), client.ok().unwrap())
}

/// Returns bytes with a period that does not divide any buffer's size, so that a lost or moved
/// buffer is noticed.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index % 251) as u8).collect()
}

async fn receive_exactly(stream: &mut impl Stream, size: usize) -> Vec<u8> {
    let mut received = Vec::with_capacity(size);
    while received.len() < size {
        let chunk = stream.receive(Time::NEVER).await.unwrap().expect("an early end");
        assert!(!chunk.is_empty());
        received.extend_from_slice(&chunk);
    }
    assert_eq!(received.len(), size, "the peer sent no more than that");
    received
}

async fn receive_to_end(stream: &mut impl Stream) -> Vec<u8> {
    let mut received = Vec::new();
    while let Some(chunk) = stream.receive(Time::NEVER).await.unwrap() {
        assert!(!chunk.is_empty());
        received.extend_from_slice(&chunk);
    }
    received
}

async fn becomes_unquiet<W: World>(world: &W, stream: &W::Stream) -> bool {
    for _ in 0..1_000 {
        if !stream.is_quiet() {
            return true;
        }
        world.sleep_until(deadline_in_ms(world, 1)).await;
    }
    false
}
