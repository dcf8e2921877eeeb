//! What a response may be: complete, too long, malformed, or hostile in its framing.

use super::*;
use crate::base::limits;
use crate::proto::http::{Event, Method, ResponseReader};

#[test]
fn the_answer_holds_head_and_body_as_the_server_sent_them() {
    let head =
        "HTTP/1.1 404 Not  Here\r\nServer:\tx \r\nX: 1\r\nx: 2\r\nContent-Length: 9000\r\n\r\n";
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n";
    for before in ["", interim] {
        on_every_network(|stage| {
            let wire = [before.as_bytes(), head.as_bytes(), &text(9_000)].concat();
            stage.serve(move |_| vec![say(&wire)]);
            let (answer, kept) = stage.fetch("http://a.test:80/dir/x?q=1#part");
            assert_eq!((answer.outcome, answer.status()), (Outcome::Fetched, Some(404)));
            assert_eq!(answer.response, [head.as_bytes(), &text(9_000)].concat());
            assert_eq!((kept.statuses, kept.body), (vec![404], text(9_000)));
            let asked = stage.asked().pop().unwrap();
            assert_eq!(
                asked.text.as_bytes(),
                answer.request,
                "the request is logged as it was sent"
            );
            assert_eq!(asked.path(), "/dir/x?q=1");
            assert!(asked.text.contains("\r\nHost: a.test\r\n"));
            assert!(asked.text.contains("\r\nUser-Agent: nephila-test\r\n"));
            assert_eq!(answer.address, SocketAddr::new(address(1), 80));
        });
    }
}

#[test]
fn rfc_every_framing_gives_the_same_body() {
    let length = page(text(20_000));
    let open = [format!("{OK}\r\n").as_bytes(), &text(20_000)].concat();
    let both = {
        let coded = chunked(text(20_000));
        let from = OK.len();
        [OK.as_bytes(), b"Content-Length: 5\r\n", &coded[from..]].concat()
    };
    for wire in [length, chunked(text(20_000)), open, both] {
        on_every_network(|stage| {
            let wire = wire.clone();
            stage.serve(move |_| vec![say(&wire), Close]);
            let (answer, kept) = stage.fetch("http://a.test/");
            assert_eq!((answer.outcome, kept.body), (Outcome::Fetched, text(20_000)));
        });
    }
}

#[test]
fn a_response_that_came_in_chunks_reads_back_as_one_of_known_length() {
    let fields = "Transfer-Encoding:\r\n chunked\r\nX: Transfer-Encoding: y\r\nContent-Length: 7";
    let wire = format!("{OK}{fields}\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n");
    on_every_network(|stage| {
        let wire = wire.clone();
        stage.serve(move |_| vec![say(&wire)]);
        let (answer, kept) = stage.fetch("http://a.test/");
        assert_eq!((answer.outcome, &kept.body[..]), (Outcome::Fetched, &b"abcde"[..]));
        let mut reader = ResponseReader::new(Method::Get);
        assert_eq!(reader.feed(&answer.response).unwrap(), (answer.head_len, Event::Head));
        assert_eq!(reader.body_bytes_left(), Some(5));
        let head = reader.head().unwrap();
        assert_eq!(head.header("transfer-encoding"), None);
        assert_eq!(head.all("content-length").count(), 1);
        assert_eq!(head.header("x-crawler-transfer-encoding"), Some(&b"chunked"[..]));
        assert_eq!(head.header("x-crawler-content-length"), Some(&b"7"[..]));
        assert_eq!(head.header("x"), Some(&b"Transfer-Encoding: y"[..]));
    });
}

#[test]
fn a_body_is_cut_at_the_cap_and_one_that_just_fits_is_not() {
    let cap = timeouts().body_bytes_max as usize;
    let open = |len| [format!("{OK}\r\n").as_bytes(), &text(len)].concat();
    for (len, outcome) in [(cap, Outcome::Fetched), (cap + 1, Outcome::CutLength)] {
        for wire in [page(text(len)), chunked(text(len)), open(len)] {
            on_every_network(|stage| {
                let wire = wire.clone();
                stage.serve(move |_| vec![say(&wire), Close]);
                let (answer, kept) = stage.fetch("http://a.test/");
                assert_eq!(answer.outcome, outcome, "{len} bytes");
                assert_eq!(kept.body.len(), cap);
                assert!(kept.body == text(cap));
            });
        }
    }
}

#[test]
fn an_endless_body_is_cut_and_its_connection_closed() {
    for head in ["", "Content-Length: 18446744073709551615\r\n"] {
        on_every_network(|stage| {
            let head = format!("{OK}{head}\r\n");
            stage.serve(move |_| vec![say(&head), Flood(vec![7; 10_000])]);
            let (answer, kept) = stage.fetch("http://a.test/");
            assert_eq!(answer.outcome, Outcome::CutLength);
            assert_eq!(kept.body.len() as u64, timeouts().body_bytes_max);
            assert_eq!(stage.client.idle_count(), 0);
            stage.wait_ms(1_000);
            assert_eq!(stage.witness.ended_count.get(), 1, "the server sees the connection end");
        });
    }
}

#[test]
fn an_endless_chunked_body_is_cut() {
    on_every_network(|stage| {
        let head = format!("{OK}Transfer-Encoding: chunked\r\n\r\n");
        stage.serve(move |_| vec![say(&head), Flood(b"3\r\nabc\r\n".repeat(900))]);
        let (answer, kept) = stage.fetch("http://a.test/");
        assert_eq!(answer.outcome, Outcome::CutLength);
        assert_eq!(kept.body.len() as u64, timeouts().body_bytes_max);
    });
}

#[test]
fn an_endless_head_is_given_up() {
    let floods = [
        (OK.to_owned(), "X-Pad: yes, more\r\n".repeat(50)),
        (format!("{OK}X: "), "y".repeat(1_000)),
        (String::new(), "HTTP/1.1 100 Continue\r\n\r\n".to_owned()),
        (format!("{OK}{}\r\n", "A: b\r\n".repeat(limits::HEADER_COUNT_MAX + 1)), "z".to_owned()),
    ];
    for (start, flood) in floods {
        on_every_network(|stage| {
            let (start, flood) = (start.clone(), flood.clone());
            stage.serve(move |_| vec![say(&start), Flood(flood.clone().into_bytes())]);
            let answer = stage.fetch("http://a.test/").0;
            assert_eq!((answer.outcome, answer.status()), (Outcome::HeadTooLarge, None));
            assert!(answer.response.is_empty());
            assert_eq!(stage.client.idle_count(), 0);
        });
    }
}

#[test]
fn a_response_that_breaks_the_grammar_is_discarded_and_its_connection_closed() {
    let head = |fields: &str| format!("{OK}{fields}\r\n\r\nhello");
    let chunks = |wire: &str| format!("{OK}Transfer-Encoding: chunked\r\n\r\n{wire}");
    let extension = "x".repeat(limits::CHUNK_LINE_BYTES_MAX + 1);
    let trailers = "A: b\r\n".repeat(limits::TRAILER_BYTES_MAX / 6 + 1);
    let answers = [
        "SSH-2.0-OpenSSH_9.6\r\n".to_owned(),
        "HTTP/2.0 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 1000 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 20 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
        "<html>no status line</html>".to_owned(),
        head("Content-Length: 5\r\nContent-Length: 6"),
        head("Content-Length: 5, 6"),
        head("Content-Length: -5"),
        head("Content-Length: +5"),
        head("Content-Length: 0x5"),
        head("Content-Length: 18446744073709551616"),
        head("Content-Length : 5"),
        head("Bad\0Name: 5"),
        head("Transfer-Encoding: gzip, chunked"),
        chunks("10000000000000000\r\n"),
        chunks("-1\r\n"),
        chunks("5\r\nhelloX"),
        chunks("5\nhello\r\n"),
        chunks(&format!("5;{extension}\r\nhello\r\n")),
        chunks(&format!("0\r\n{trailers}\r\n")),
    ];
    for wire in answers {
        on_every_network(|stage| {
            let own = wire.clone();
            stage.serve(move |_| vec![say(&own)]);
            let answer = stage.fetch("http://a.test/").0;
            let start: String = wire.chars().take(90).collect();
            assert_eq!(answer.outcome, Outcome::Malformed, "{start}");
            assert!(
                answer.ended < answer.started + ms(1_000),
                "the fault is known at once: {start}"
            );
            assert_eq!(stage.client.idle_count(), 0);
        });
    }
}

#[test]
fn a_folded_field_is_one_value() {
    on_every_network(|stage| {
        stage.serve(|_| {
            vec![say(format!("{OK}Link: </a>,\r\n \t </b>\r\nContent-Length: 2\r\n\r\nok"))]
        });
        let (answer, kept) = stage.fetch("http://a.test/");
        assert_eq!((answer.outcome, &kept.body[..]), (Outcome::Fetched, &b"ok"[..]));
        assert_eq!(answer.head.unwrap().header("link"), Some(&b"</a>, </b>"[..]));
    });
}

#[test]
fn one_request_without_credentials_leaves_whatever_the_url_holds() {
    let urls = [
        "http://user:secret@a.test/x",
        "http://a.test/x\r\nEvil: 1\r\n\r\nGET /y HTTP/1.1",
        "http://a.test/x%0d%0aEvil:%201",
        "http://a.test/x?\u{2028}\nEvil",
        "http://a.test/x y",
    ];
    for url in urls {
        on_every_network(|stage| {
            stage.serve(|_| vec![say(page("x"))]);
            assert_eq!(stage.outcome(url), Outcome::Fetched);
            stage.wait_ms(1_000);
            let asked = stage.asked();
            assert_eq!(asked.len(), 1);
            let request = &asked[0].text;
            assert!(request.starts_with("GET /x"), "{request}");
            assert!(request.contains(" HTTP/1.1\r\nHost: a.test\r\n"), "{request}");
            assert!(!request.contains("secret") && !request.contains("Authorization"));
            assert!(!request.contains("\nEvil"), "{request}");
        });
    }
}
