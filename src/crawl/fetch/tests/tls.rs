//! Requests under TLS: the same answers and the same limits, and records at unexpected places.

use super::tls_policy::{Certified, believing, secure};
use super::*;
use crate::base::hash_key::made_to_collide;
use crate::proto::url::Url;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

const FORGED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEvil";

/// Returns a stage whose client trusts the authority of a certificate for `a.test`, and that
/// server.
fn on_every_secure_network(
    script: impl Fn(&Asked) -> Vec<Act> + Clone + 'static,
    test: impl Fn(Stage),
) {
    on_every_network(|stage| {
        let certified = Certified::new(&["a.test"]);
        let stage = stage.with(timeouts(), believing(&certified));
        stage.listen(443, secure(certified.config()), script.clone());
        test(stage);
    });
}

const HANDSHAKE: u8 = 0x16;
/// A NewSessionTicket (RFC 8446 4.6.1): lifetime, age, no nonce, one byte of ticket, no extension.
const TICKET: [u8; 18] = [4, 0, 0, 14, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 7, 0, 0];

/// A source of session tickets, each in a record of its own, sealed with a session's keys. rustls
/// as a server sends few tickets, and as a client limits every other kind of record without data
/// (empty ones, key updates, warnings).
pub(super) struct Tickets {
    key: LessSafeKey,
    iv: [u8; 12],
    serial: u64,
}

impl Tickets {
    pub(super) fn new(session: ServerConnection) -> Tickets {
        let (serial, secrets) = session.dangerous_extract_secrets().unwrap().tx;
        let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else { panic!("a suite") };
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.as_ref()).unwrap());
        Tickets { key, iv: iv.as_ref().try_into().unwrap(), serial }
    }

    /// Returns the next `count` records (RFC 8446 5.2, 5.3).
    pub(super) fn next(&mut self, count: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        for _ in 0..count {
            let mut nonce = self.iv;
            nonce[4..].iter_mut().zip(self.serial.to_be_bytes()).for_each(|(n, s)| *n ^= s);
            self.serial += 1;
            let header = [0x17, 3, 3, 0, TICKET.len() as u8 + 1 + 16];
            let mut inner = [&TICKET[..], &[HANDSHAKE]].concat();
            let nonce = Nonce::assume_unique_for_key(nonce);
            self.key.seal_in_place_append_tag(nonce, Aad::from(header), &mut inner).unwrap();
            wire.extend_from_slice(&header);
            wire.extend_from_slice(&inner);
        }
        wire
    }
}

#[test]
fn a_page_comes_through_tls() {
    on_every_secure_network(
        |_| vec![say(page(text(60_000)))],
        |stage| {
            let (answer, kept) = stage.fetch("https://a.test/x");
            assert_eq!(answer.outcome, Outcome::Fetched);
            assert!(kept.body == text(60_000) && answer.response == page(text(60_000)));
            assert_eq!(answer.connection, Connection::OpenedTls { resumed: false });
            assert!(answer.tls_took > Some(Duration::ZERO));
            assert_eq!(answer.address.port(), 443);
            assert!(stage.asked()[0].at <= answer.seen_by);
            assert_eq!(*stage.witness.server_names.borrow(), ["a.test"]);
        },
    );
}

#[test]
fn a_second_request_goes_over_the_same_tls_connection() {
    for size in [10, 16 * 1024, 60_000] {
        on_every_secure_network(
            move |_| vec![say(page(text(size)))],
            |stage| {
                for turn in 0..4 {
                    let (answer, kept) = stage.fetch("https://a.test/");
                    assert_eq!((answer.outcome, kept.body.len()), (Outcome::Fetched, size));
                    assert_eq!(answer.connection == Connection::Reused, turn > 0);
                    stage.wait_ms(1_000);
                }
                assert_eq!(stage.connection_count(), 1);
            },
        );
    }
}

#[test]
fn records_without_data_behind_an_answer_leave_the_connection_usable() {
    on_every_secure_network(
        |_| vec![say(page("x")), WaitMs(200), Rekey, WaitMs(200), Rekey],
        |stage| {
            for turn in 0..4 {
                let (answer, kept) = stage.fetch("https://a.test/");
                assert_eq!((answer.outcome, &kept.body[..]), (Outcome::Fetched, &b"x"[..]));
                assert_eq!(answer.connection == Connection::Reused, turn > 0);
                stage.wait_ms(1_000);
            }
            assert_eq!(stage.connection_count(), 1);
        },
    );
}

#[test]
fn a_forged_response_under_tls_never_meets_the_next_request() {
    // Whatever the size, one of these ends where a record or a read ends.
    let head_len = page(text(10_000)).len() - 10_000;
    let record = 16 * 1024;
    let sizes = [10, record - head_len - 1, record - head_len, 2 * record - head_len];
    for size in sizes {
        for wait_ms in [0, 300] {
            on_every_secure_network(
                move |asked| match asked.path() {
                    "/1" if wait_ms == 0 => {
                        vec![Say([page(text(size)), FORGED.into()].concat())]
                    }
                    "/1" => vec![say(page(text(size))), WaitMs(wait_ms), say(FORGED)],
                    _ => vec![say(page("honest"))],
                },
                |stage| {
                    let (answer, kept) = stage.fetch("https://a.test/1");
                    assert_eq!((answer.outcome, kept.body.len()), (Outcome::Fetched, size));
                    stage.wait_ms(1_000);
                    let (answer, kept) = stage.fetch("https://a.test/2");
                    assert_eq!(String::from_utf8_lossy(&kept.body), "honest", "{size} {wait_ms}");
                    assert_ne!(answer.connection, Connection::Reused);
                },
            );
        }
    }
}

#[test]
fn records_of_any_size_are_read_however_they_arrive() {
    let body = text(90_000);
    let mut records = vec![format!("{OK}Content-Length: 90000\r\n\r\n").into_bytes()];
    let mut rest = &body[..];
    for size in [16_384, 700, 16_384, 5_000, 4_000, 3_000, 9, 2_000].into_iter().cycle() {
        let (piece, others) = rest.split_at(size.min(rest.len()));
        records.push(piece.to_vec());
        rest = others;
        if rest.is_empty() {
            break;
        }
    }
    on_every_secure_network(
        move |_| vec![Records(records.clone())],
        |stage| {
            let (answer, kept) = stage.fetch("https://a.test/");
            assert_eq!(answer.outcome, Outcome::Fetched);
            assert!(kept.body == text(90_000));
            assert_eq!(stage.client.idle_count(), 1);
        },
    );
}

#[test]
fn rfc_only_a_goodbye_ends_a_body_of_no_length() {
    let open = [format!("{OK}\r\n").as_bytes(), &text(900)].concat();
    let acts = [
        (vec![say(&open), Goodbye], Outcome::Fetched),
        (vec![say(&open), Close], Outcome::Incomplete),
        (vec![say(&open), Abort], Outcome::Incomplete),
        (vec![say(page(text(900))), Close], Outcome::Fetched),
        (vec![say(&page(text(901))[..]), Goodbye], Outcome::Fetched),
        (vec![Say(page(text(900))[..900].to_vec()), Goodbye], Outcome::Incomplete),
        (vec![Say(page(text(900))[..900].to_vec()), Close], Outcome::Incomplete),
    ];
    for (acts, outcome) in acts {
        let script = acts.clone();
        on_every_secure_network(
            move |_| script.clone(),
            |stage| {
                let (answer, kept) = stage.fetch("https://a.test/");
                assert_eq!(answer.outcome, outcome, "{}", acts.len());
                assert!(kept.body.len() > 800, "what has arrived is kept");
                assert_eq!(kept.body, text(kept.body.len()));
            },
        );
    }
}

#[test]
fn a_kept_tls_connection_that_the_server_left_is_not_asked() {
    for end in [Goodbye, Close, Abort] {
        on_every_secure_network(
            move |_| vec![say(page("x")), WaitMs(100), end.clone()],
            |stage| {
                stage.fetch("https://a.test/");
                stage.wait_ms(1_000);
                let answer = stage.fetch("https://a.test/").0;
                assert_eq!(answer.outcome, Outcome::Fetched);
                assert_ne!(answer.connection, Connection::Reused);
            },
        );
    }
}

#[test]
fn a_kept_tls_connection_that_dies_with_the_request_is_stale() {
    for end in [Goodbye, Close, Abort] {
        on_every_secure_network(
            move |asked| if asked.turn == 0 { vec![say(page("x"))] } else { vec![end.clone()] },
            |stage| {
                stage.fetch("https://a.test/");
                stage.wait_ms(1_000);
                let answer = stage.fetch("https://a.test/").0;
                assert_eq!((answer.outcome, answer.was_stale), (Outcome::Reset, true));
            },
        );
    }
}

#[test]
fn a_broken_record_ends_the_response_and_keeps_what_came_before() {
    on_every_secure_network(
        |_| vec![say(&page(text(9_000))[..8_000]), Garbage([0x17, 3, 3, 0, 40].repeat(20))],
        |stage| {
            let (answer, kept) = stage.fetch("https://a.test/");
            assert_eq!(answer.outcome, Outcome::Incomplete);
            assert!(kept.body.len() > 7_900, "{} bytes", kept.body.len());
            assert_eq!(kept.body, text(kept.body.len()));
            assert_eq!(stage.client.idle_count(), 0);
        },
    );
}

#[test]
fn a_slow_or_endless_answer_under_tls_is_cut_as_without() {
    on_every_secure_network(
        |asked| match asked.path() {
            "/silent" => vec![],
            "/drip" => vec![Drip { bytes: page("x"), every_ms: 1_000 }],
            _ => vec![say(format!("{OK}\r\n")), Flood(vec![7; 30_000])],
        },
        |stage| {
            let answer = stage.fetch("https://a.test/silent").0;
            assert_eq!(answer.outcome, Outcome::FirstByteTimedOut);
            let sent = answer.started + answer.connect_took.unwrap() + answer.tls_took.unwrap();
            assert_eq!(answer.ended, sent + ms(timeouts().first_byte_ms));
            assert_eq!(stage.outcome("https://a.test/drip"), Outcome::HeadTimedOut);
            let (answer, kept) = stage.fetch("https://a.test/endless");
            assert_eq!(answer.outcome, Outcome::CutLength);
            assert_eq!(kept.body.len() as u64, timeouts().body_bytes_max);
        },
    );
}

#[test]
fn endless_records_without_data_are_not_waited_out() {
    for before in [vec![], vec![say(&page("x")[..20])], vec![say(format!("{OK}\r\n"))]] {
        on_every_network(|stage| {
            let certified = Certified::new(&["a.test"]);
            let stage = stage.with(timeouts(), believing(&certified));
            let acts: Vec<Act> = before.iter().cloned().chain([Tickets]).collect();
            stage.listen(443, secure(certified.open_config()), move |_| acts.clone());
            let answer = stage.fetch("https://a.test/").0;
            assert!(matches!(answer.outcome, Outcome::Reset | Outcome::Incomplete));
            assert!(answer.ended < answer.started + ms(4_000), "before any deadline");
        });
    }
}

#[test]
fn a_kept_connection_full_of_records_without_data_is_given_up() {
    on_every_network(|stage| {
        let certified = Certified::new(&["a.test"]);
        let stage = stage.with(timeouts(), believing(&certified));
        let acts = vec![say(page("x")), WaitMs(100), Tickets];
        stage.listen(443, secure(certified.open_config()), move |_| acts.clone());
        for _ in 0..2 {
            let answer = stage.fetch("https://a.test/").0;
            assert_eq!(answer.outcome, Outcome::Fetched);
            assert_ne!(answer.connection, Connection::Reused);
            stage.wait_ms(2_000);
        }
    });
}

#[test]
fn a_second_connection_resumes_the_session() {
    on_every_secure_network(
        |_| vec![say(page("x")), Goodbye],
        |stage| {
            let connection = || {
                let answer = stage.fetch("https://a.test/").0;
                assert_eq!(answer.outcome, Outcome::Fetched);
                stage.wait_ms(1_000);
                answer.connection
            };
            assert_eq!(connection(), Connection::OpenedTls { resumed: false });
            assert_eq!(connection(), Connection::OpenedTls { resumed: true });
            assert_eq!(connection(), Connection::OpenedTls { resumed: true });
        },
    );
}

/// The pool once found origins by 64 bits of a hash that anyone can compute.
#[test]
fn no_request_goes_over_a_connection_that_was_verified_for_a_name_made_to_collide() {
    let [victim, made] = made_to_collide("origin");
    let made_host = Url::parse(&format!("{made}/")).expect("a URL").host().to_owned();
    on_every_network(|stage| {
        let certified = Certified::new(&[&made_host]);
        let stage = stage.with(timeouts(), believing(&certified));
        stage.listen(10_543, secure(certified.config()), |_| vec![say(page("mine"))]);
        assert_eq!(stage.outcome(&format!("{made}/a")), Outcome::Fetched);
        assert_eq!(stage.client.idle_count(), 1, "kept for the next request");
        let stolen = stage.fetch(&format!("{victim}/page")).0;
        assert_ne!(stolen.outcome, Outcome::Fetched, "the certificate does not have its name");
        let asked = stage.asked();
        assert_eq!((asked.len(), asked[0].path()), (1, "/a"));
    });
}
