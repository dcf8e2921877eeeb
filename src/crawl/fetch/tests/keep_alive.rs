//! Which connections carry a second request, and which never do.

use super::*;

const FORGED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEvil";

#[test]
fn a_second_request_goes_over_the_same_connection() {
    let head_only = format!("{OK}Content-Length: 0\r\n\r\n").into_bytes();
    let old = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let none = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    for first in [page("one"), chunked("one"), head_only, old, none] {
        on_every_network(|stage| {
            stage.serve_in_turn(vec![vec![say(&first)], vec![say(page("two"))]]);
            let (answer, _) = stage.fetch("http://a.test/1");
            assert_eq!((answer.outcome, answer.connection), (Outcome::Fetched, Connection::Opened));
            assert!(answer.connect_took.is_some() && answer.tls_took.is_none());
            assert_eq!(stage.client.idle_count(), 1);
            stage.wait_ms(1_000);
            let (answer, kept) = stage.fetch("http://a.test/2");
            assert_eq!((answer.outcome, answer.connection), (Outcome::Fetched, Connection::Reused));
            assert!(answer.connect_took.is_none());
            assert_eq!(kept.body, b"two");
            let asked = stage.asked();
            assert_eq!(stage.connection_count(), 1);
            assert_eq!((asked[1].connection, asked[1].turn), (0, 1));
            assert_eq!((asked[0].path(), asked[1].path()), ("/1", "/2"));
        });
    }
}

#[test]
fn nothing_is_asked_on_a_connection_after_a_doubt() {
    let with = |head: &str, body: &str| vec![say(format!("HTTP/{head}\r\n\r\n{body}"))];
    let length = "Content-Length: 2";
    let late = |answer: &str| vec![say(answer), WaitMs(300), say(FORGED)];
    let answers = [
        with(&format!("1.1 200 OK\r\nConnection: close\r\n{length}"), "ok"),
        with(&format!("1.0 200 OK\r\n{length}"), "ok"),
        with(&format!("1.1 200 OK\r\n{length}"), &format!("ok{FORGED}")),
        late(&format!("{OK}{length}\r\n\r\nok")),
        with("1.1 304 Not Modified\r\nContent-Length: 4", "body"),
        with("1.1 304 Not Modified", "body"),
        late("HTTP/1.1 304 Not Modified\r\n\r\n"),
        with("1.1 204 No Content\r\nContent-Length: 2", "ok"),
        with(&format!("1.1 200 OK\r\n{length}\r\nTransfer-Encoding: chunked"), "0\r\n\r\n"),
        with("1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
        vec![say("HTTP/1.1 200 OK\nContent-Length: 2\n\nok")],
        vec![say(format!("{OK}\r\nok")), Close],
        vec![say(chunked("ok")), say("\r\n")],
    ];
    for answer in answers {
        on_every_network(|stage| {
            stage.serve_in_turn(vec![answer.clone(), vec![say(page("second"))]]);
            let first = stage.fetch("http://a.test/1").0;
            assert_eq!(first.outcome, Outcome::Fetched, "{answer:?}");
            assert!(!first.response.ends_with(b"Evil"));
            stage.wait_ms(1_000);
            let (second, kept) = stage.fetch("http://a.test/2");
            assert_eq!((second.outcome, &kept.body[..]), (Outcome::Fetched, &b"second"[..]));
            assert_eq!(second.connection, Connection::Opened, "{answer:?}");
            assert_eq!(stage.asked()[1].connection, 1, "{answer:?}");
        });
    }
}

#[test]
fn an_unwanted_body_costs_the_connection() {
    on_every_network(|stage| {
        stage.serve(|_| vec![say(&page(text(50_000))[..1_000]), WaitMs(500), say(text(49_000))]);
        let kept = Kept { unwanted: true, ..Kept::default() };
        let (answer, kept) = stage.fetch_at("http://a.test/", address(1), kept);
        assert_eq!((answer.outcome, answer.status()), (Outcome::Fetched, Some(200)));
        assert!(kept.body.is_empty());
        assert_eq!(stage.client.idle_count(), 0);
        stage.wait_ms(1_000);
        assert_eq!(stage.witness.ended_count.get(), 1, "the server sees the connection end");
    });
}

#[test]
fn a_connection_that_died_in_the_pool_is_not_asked() {
    for end in [Close, Abort] {
        on_every_network(|stage| {
            let end = end.clone();
            stage.serve(move |_| vec![say(page("x")), WaitMs(100), end.clone()]);
            assert_eq!(stage.outcome("http://a.test/1"), Outcome::Fetched);
            assert_eq!(stage.client.idle_count(), 1);
            stage.wait_ms(1_000);
            let answer = stage.fetch("http://a.test/2").0;
            assert_eq!((answer.outcome, answer.connection), (Outcome::Fetched, Connection::Opened));
            assert!(!answer.was_stale);
        });
    }
}

#[test]
fn a_request_that_crosses_the_servers_close_is_stale_and_no_failure_of_the_server() {
    for end in [Close, Abort] {
        on_every_network(|stage| {
            let wide =
                NetModel { latency_us_min: 50_000, latency_us_max: 50_000, ..NetModel::default() };
            stage.sim.set_net(wide);
            let end = end.clone();
            stage.serve(move |asked| match asked.path() {
                "/1" => vec![say(page("x")), WaitMs(1_000), end.clone()],
                _ => vec![say(page("third"))],
            });
            assert_eq!(stage.outcome("http://a.test/1"), Outcome::Fetched);
            // The close is sent 950 ms from now and arrives at 1000 ms.
            stage.wait_ms(980);
            let answer = stage.fetch("http://a.test/2").0;
            assert_eq!((answer.outcome, answer.connection), (Outcome::Reset, Connection::Reused));
            assert!(answer.was_stale && answer.response.is_empty() && answer.head.is_none());
            assert_eq!(stage.client.idle_count(), 0);
            let (answer, kept) = stage.fetch("http://a.test/2");
            assert_eq!((answer.outcome, answer.connection), (Outcome::Fetched, Connection::Opened));
            assert_eq!(kept.body, b"third");
        });
    }
}

#[test]
fn only_a_kept_connection_without_an_answer_is_stale() {
    for end in [Close, Abort] {
        let answers = |first: Vec<Act>| vec![first, vec![end.clone()]];
        on_every_network(|stage| {
            stage.serve_in_turn(answers(vec![say(page("x"))]));
            stage.fetch("http://a.test/1");
            let kept = stage.fetch("http://a.test/2").0;
            assert_eq!((kept.outcome, kept.was_stale), (Outcome::Reset, true));
        });
        on_every_network(|stage| {
            stage.serve_in_turn(answers(vec![say("HTTP/1.1 200"), end.clone()]));
            let cut = stage.fetch("http://a.test/1").0;
            assert!(matches!(cut.outcome, Outcome::Incomplete | Outcome::Reset));
            let fresh = stage.fetch("http://a.test/2").0;
            assert_eq!((fresh.outcome, fresh.was_stale), (Outcome::Reset, false));
        });
        on_every_network(|stage| {
            let cut = vec![say("HTTP/1.1 200"), end.clone()];
            stage.serve_in_turn(vec![vec![say(page("x"))], cut]);
            stage.fetch("http://a.test/1");
            let begun = stage.fetch("http://a.test/2").0;
            assert_eq!((begun.connection, begun.was_stale), (Connection::Reused, false));
        });
    }
}

/// Sends requests to hosts by number, a second apart. Returns how each was reached, and how many
/// connections are idle.
fn reach(stage: &Stage, hosts: &[u8]) -> Vec<(Connection, usize)> {
    let ask = |host: &u8| {
        let url = format!("http://h{host}.test/");
        let answer = stage.fetch_at(&url, address(*host), Kept::default()).0;
        stage.wait_ms(1_000);
        (answer.connection, stage.client.idle_count())
    };
    hosts.iter().map(ask).collect()
}

fn with_room_for_two(stage: Stage) -> Stage {
    let two = Timeouts { keep_alive_count_max: 2, ..timeouts() };
    let stage = stage.with(two, TlsPolicy::new(None, false).unwrap());
    stage.serve(|_| vec![say(page("x"))]);
    stage
}

#[test]
fn hosts_in_turns_find_as_many_connections_as_there_is_room_for() {
    use Connection::{Opened, Reused};
    on_every_network(|stage| {
        let stage = with_room_for_two(stage);
        let first = reach(&stage, &[1, 2, 3]);
        assert_eq!(first, [(Opened, 1), (Opened, 2), (Opened, 2)]);
        assert_eq!((stage.witness.ended_count.get(), stage.client.crowded_count()), (1, 1));
        for round in 2..6 {
            let next = reach(&stage, &[1, 2, 3]);
            assert_eq!(next, [(Reused, 2), (Reused, 2), (Opened, 2)], "{round}");
            assert_eq!(stage.client.crowded_count(), round);
        }
    });
}

#[test]
fn a_full_pool_closes_what_nobody_seems_to_want_any_more() {
    use Connection::{Opened, Reused};
    on_every_network(|stage| {
        let stage = with_room_for_two(stage);
        // The second host gets a request every second, the first gets no more.
        reach(&stage, &[1, 2, 2, 2]);
        assert_eq!(reach(&stage, &[3]), [(Opened, 2)]);
        assert_eq!(reach(&stage, &[3]), [(Reused, 2)], "it has replaced the first");
        assert_eq!(reach(&stage, &[1]), [(Opened, 2)]);
        assert_eq!(reach(&stage, &[2, 3]), [(Reused, 2), (Reused, 2)]);
        assert_eq!(stage.client.crowded_count(), 2);
    });
}

#[test]
fn a_pool_of_none_keeps_none() {
    on_every_network(|stage| {
        let none = Timeouts { keep_alive_count_max: 0, ..timeouts() };
        let stage = stage.with(none, TlsPolicy::new(None, false).unwrap());
        stage.serve(|_| vec![say(page("x"))]);
        for count in 1..4 {
            assert_eq!(stage.fetch("http://a.test/").0.connection, Connection::Opened);
            assert_eq!((stage.client.idle_count(), stage.connection_count()), (0, count));
        }
    });
}

#[test]
fn an_idle_connection_is_closed_after_its_time_and_not_before() {
    on_every_network(|stage| {
        stage.serve(|_| vec![say(page("x"))]);
        stage.fetch("http://a.test/1");
        stage.wait_ms(6_000);
        // The connection is used again, so its idle time begins anew and its first entry counts no
        // more.
        stage.fetch("http://a.test/2");
        stage.fetch_at("http://b.test/", address(2), Kept::default());
        stage.wait_ms(9_000);
        stage.client.close_idle();
        assert_eq!((stage.client.idle_count(), stage.witness.ended_count.get()), (2, 0));
        stage.wait_ms(1_100);
        stage.client.close_idle();
        assert_eq!(stage.client.idle_count(), 0);
        stage.wait_ms(1_000);
        assert_eq!(stage.witness.ended_count.get(), 2);
    });
}

#[test]
fn a_kept_connection_serves_one_origin_at_one_address() {
    on_every_network(|stage| {
        stage.serve(|_| vec![say(page("x"))]);
        stage.listen(8080, |_| None, |_| vec![say(page("x"))]);
        let connection =
            |url, last| stage.fetch_at(url, address(last), Kept::default()).0.connection;
        assert_eq!(connection("http://a.test/", 1), Connection::Opened);
        assert_eq!(connection("http://b.test/", 1), Connection::Opened, "another host");
        assert_eq!(connection("http://a.test:8080/", 1), Connection::Opened, "another port");
        assert_eq!(connection("http://a.test/", 1), Connection::Reused);
        assert_eq!(connection("http://a.test/", 2), Connection::Opened, "it has moved");
        assert_eq!(connection("http://a.test/", 2), Connection::Reused);
    });
}

#[test]
fn a_response_buffer_comes_back_empty_and_large_ones_do_not() {
    on_every_network(|stage| {
        stage.serve(|asked| vec![say(page(if asked.turn == 0 { text(9_000) } else { text(3) }))]);
        let first = stage.fetch("http://a.test/").0.response;
        assert_eq!(first, page(text(9_000)));
        let room = first.capacity();
        stage.client.recycle(first);
        let second = stage.fetch("http://a.test/").0.response;
        assert_eq!((&second, second.capacity()), (&page(text(3)), room));
        let large = Vec::with_capacity(crate::base::limits::FETCH_BUFFER_BYTES_KEPT + 1);
        stage.client.recycle(large);
        assert_eq!(stage.client.buffers.borrow().len(), 0);
        for _ in 0..2 * crate::base::limits::FETCH_BUFFER_COUNT_MAX {
            stage.client.recycle(Vec::with_capacity(1));
        }
        let count = stage.client.buffers.borrow().len();
        assert_eq!(count, crate::base::limits::FETCH_BUFFER_COUNT_MAX);
    });
}
