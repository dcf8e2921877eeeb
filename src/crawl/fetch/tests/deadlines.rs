//! Servers that are slow, silent, absent or gone: the outcome of each, and when the request ends.

use super::*;

/// Returns when the request of the first connection was sent.
fn sent_at(answer: &Answer) -> Time {
    answer.started + answer.connect_took.unwrap() + answer.tls_took.unwrap_or_default()
}

#[test]
fn nobody_listens() {
    on_every_network(|stage| {
        let answer = stage.fetch("http://a.test/").0;
        assert_eq!(answer.outcome, Outcome::ConnectRefused);
        assert_eq!((answer.connection, answer.connect_took), (Connection::None, None));
        assert!(answer.ended < answer.started + ms(100));
    });
}

#[test]
fn nobody_answers_a_connect() {
    on_every_network(|stage| {
        stage.sim.set_net(NetModel { unknown: Unknown::Silence, ..NetModel::default() });
        let answer = stage.fetch("http://a.test/").0;
        assert_eq!(
            (answer.outcome, answer.connection),
            (Outcome::ConnectTimedOut, Connection::None)
        );
        assert_eq!(answer.ended, answer.started + ms(timeouts().connect_ms));
    });
}

#[test]
fn a_server_that_accepts_and_says_nothing() {
    on_every_network(|stage| {
        stage.serve(|_| vec![]);
        let answer = stage.fetch("http://a.test/").0;
        assert_eq!(answer.outcome, Outcome::FirstByteTimedOut);
        assert_eq!(answer.ended, sent_at(&answer) + ms(timeouts().first_byte_ms));
        assert_eq!((answer.first_byte_took, answer.status()), (None, None));
        assert!(answer.response.is_empty() && !answer.was_stale);
        assert_eq!(stage.asked().len(), 1);
    });
}

#[test]
fn a_server_that_never_accepts() {
    on_every_network(|stage| {
        let at = SocketAddr::new(address(1), 80);
        let _listener = stage.sim.world(0).listen(at).unwrap();
        let answer = stage.fetch("http://a.test/").0;
        assert_eq!(
            answer.outcome,
            Outcome::FirstByteTimedOut,
            "the system accepted the connection"
        );
        assert_eq!(answer.ended, sent_at(&answer) + ms(timeouts().first_byte_ms));
    });
}

#[test]
fn a_head_that_drips_or_stops_or_never_becomes_final_ends_at_its_deadline() {
    let drip = Drip { bytes: page("x"), every_ms: 1_000 };
    let hint = say("HTTP/1.1 103 Early Hints\r\n\r\n");
    let interim = [hint, WaitMs(3_000)].into_iter().cycle().take(8).collect();
    for acts in [vec![drip], vec![say("HTTP/1.1 200 O")], interim] {
        on_every_network(|stage| {
            let script = acts.clone();
            stage.serve(move |_| script.clone());
            let answer = stage.fetch("http://a.test/").0;
            assert_eq!(answer.outcome, Outcome::HeadTimedOut, "{acts:?}");
            assert_eq!(answer.ended, sent_at(&answer) + ms(timeouts().head_ms));
            assert!(answer.first_byte_took.unwrap() <= ms(1_100));
            assert_eq!(stage.client.idle_count(), 0);
        });
    }
}

#[test]
fn a_body_that_drips_or_stops_is_kept_as_far_as_it_came() {
    let head = format!("{OK}Content-Length: 90\r\n\r\n");
    let open = format!("{OK}\r\n");
    let coded = format!("{OK}Transfer-Encoding: chunked\r\n\r\n");
    let drip = |bytes| Drip { bytes, every_ms: 1_000 };
    let acts = [
        (vec![say(&head), drip(text(90))], 18..=20),
        (vec![say(&head), say(text(7))], 7..=7),
        (vec![say(&head)], 0..=0),
        (vec![say(&open), drip(text(90))], 18..=20),
        (vec![say(&coded), say("2\r\n\x00\x01\r\n5a\r\n")], 2..=2),
    ];
    for (acts, body_bytes) in acts {
        on_every_network(|stage| {
            let script = acts.clone();
            stage.serve(move |_| script.clone());
            let (answer, kept) = stage.fetch("http://a.test/");
            assert_eq!(answer.outcome, Outcome::CutTime, "{acts:?}");
            assert_eq!(answer.body_took, Some(ms(timeouts().body_ms)));
            assert!(body_bytes.contains(&kept.body.len()), "{} bytes", kept.body.len());
            assert_eq!(kept.body, text(kept.body.len()));
            assert_eq!((answer.status(), stage.client.idle_count()), (Some(200), 0));
        });
    }
}

#[test]
fn a_stream_that_ends_before_its_response_is_incomplete() {
    let length = page(text(5_000));
    let coded = chunked(text(5_000));
    let open = format!("{OK}\r\nsome of it").into_bytes();
    for end in [Close, Abort] {
        for wire in [&length[..length.len() - 1], &coded[..coded.len() - 6], &open[..]] {
            if matches!(end, Close) && wire == open {
                continue; // A body without a length ends with the close.
            }
            on_every_network(|stage| {
                let (wire, end) = (wire.to_vec(), end.clone());
                stage.serve(move |_| vec![say(&wire), end.clone()]);
                let (answer, kept) = stage.fetch("http://a.test/");
                assert_eq!(answer.outcome, Outcome::Incomplete);
                assert!(kept.body.len() >= 10, "what has arrived is kept");
                assert_eq!(answer.status(), Some(200));
                assert_eq!(stage.client.idle_count(), 0);
            });
        }
    }
}

#[test]
fn a_stream_that_ends_inside_the_head_has_no_head() {
    for (end, outcome) in [(Close, Outcome::Incomplete), (Abort, Outcome::Reset)] {
        on_every_network(|stage| {
            let end = end.clone();
            stage.serve(move |_| vec![say("HTTP/1.1 200 OK\r\nA: b\r\n"), end.clone()]);
            let answer = stage.fetch("http://a.test/").0;
            assert_eq!((answer.outcome, answer.status()), (outcome, None));
            assert!(answer.response.is_empty());
        });
    }
}

#[test]
fn the_delay_counts_from_when_the_server_had_the_request() {
    let acts = |path: &str| match path {
        "/at-once" => vec![say(page("x"))],
        "/later" => vec![WaitMs(700), say(page("x"))],
        "/close" => vec![Close],
        "/reset" => vec![WaitMs(30), Abort],
        "/silent" => vec![],
        "/drip" => vec![Drip { bytes: page("x"), every_ms: 900 }],
        "/cut" => vec![say(&page(text(90))[..60])],
        _ => vec![say("gibberish")],
    };
    for path in ["/at-once", "/later", "/close", "/reset", "/silent", "/drip", "/cut", "/bad"] {
        for kept in [false, true] {
            on_every_network(|stage| {
                stage.serve(move |asked| acts(asked.path()));
                if kept {
                    stage.fetch("http://a.test/at-once");
                    stage.wait_ms(1_000);
                }
                let answer = stage.fetch(&format!("http://a.test{path}")).0;
                assert_eq!(answer.connection == Connection::Reused, kept);
                let asked = stage.asked().pop().unwrap();
                assert_eq!(asked.path(), path);
                assert!(
                    asked.at <= answer.seen_by,
                    "{path}: seen_by is before the server saw the request"
                );
            });
        }
    }
}

#[test]
fn the_times_of_a_fetch_add_up() {
    on_every_network(|stage| {
        let flat =
            NetModel { latency_us_min: 10_000, latency_us_max: 10_000, ..NetModel::default() };
        stage.sim.set_net(flat);
        stage.serve(|_| {
            let wire = page(text(1_000));
            vec![
                WaitMs(100),
                say(&wire[..20]),
                WaitMs(200),
                say(&wire[20..500]),
                WaitMs(300),
                say(&wire[500..]),
            ]
        });
        let answer = stage.fetch("http://a.test/").0;
        assert_eq!(answer.outcome, Outcome::Fetched);
        assert_eq!(answer.connect_took, Some(ms(20)));
        assert_eq!(answer.first_byte_took, Some(ms(120)));
        assert_eq!(answer.body_took, Some(ms(300)));
        assert_eq!(answer.seen_by, answer.started + ms(140));
        assert_eq!(answer.ended, answer.started + ms(640));
    });
}
