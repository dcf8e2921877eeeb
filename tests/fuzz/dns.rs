//! DNS messages: replies to our question and to others, queries to the synthetic web, and frames.

use crate::dice::Dice;
use crate::engine::{Target, scale};
use nephila::base::limits::{DNS_ADDRESS_COUNT_MAX, DNS_TCP_BYTES_MAX};
use nephila::proto::dnswire::{
    DnsError, DnsOutcome, FrameReader, Kind, Rcode, decode_answer, decode_query, encode_answer,
    encode_frame, encode_query,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NAME: &str = "www.h.example";
const ID: u16 = 0x4142;

#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"\x03www\x01h\x07example\0", b"\xC0\x0C", b"\xC0\x00", b"\xC0\xFF", b"\x00\x01\x00\x01",
    b"\x00\x1C\x00\x01", b"\x00\x05\x00\x01", b"\x00\x06\x00\x01", b"\x00\x29",
    b"\x00\x00\x0E\x10", b"\x00\x04\x01\x02\x03\x04", b"\x00\x02\xC0\x0C", b"\xFF\xFF", b"\x3F",
    b"\x40", b"AB\x81\x80",
];

fn query(kind: Kind) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_query(ID, NAME, kind, &mut bytes).expect("a host name");
    bytes
}

fn addresses() -> Vec<IpAddr> {
    let of = |last: u8| IpAddr::from([192, 0, 2, last]);
    let mut all: Vec<IpAddr> = (0..20).map(of).collect();
    all.push(Ipv6Addr::LOCALHOST.into());
    all
}

fn replies() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for kind in [Kind::A, Kind::Aaaa] {
        let asked = decode_query(&query(kind)).expect("our own query");
        let all = addresses();
        for rcode in [Rcode::NoError, Rcode::NoName, Rcode::ServerFailure, Rcode::FormatError] {
            seeds.push(encode_answer(&asked, &all[18..], 300, rcode, false));
        }
        seeds.push(encode_answer(&asked, &[], 60, Rcode::NoError, false));
        seeds.push(encode_answer(&asked, &all, 60, Rcode::NoError, true));
        // An alias written by hand, from the question's name to the same name with `x.` before it,
        // so there are two answers.
        let mut alias = encode_answer(&asked, &all[..1], 300, Rcode::NoError, false);
        alias[7] = 2;
        alias.extend_from_slice(b"\xC0\x0C\0\x05\0\x01\0\0\0\x0A\0\x04\x01x\xC0\x0C");
        seeds.push(alias);
    }
    seeds
}

#[test]
fn any_reply_is_refused_or_answers_our_question() {
    let target = Target {
        name: "dns::any_reply_is_refused_or_answers_our_question",
        words: WORDS,
        seeds: replies(),
        input_bytes_max: 2_000,
        input_count: 20_000,
    };
    target.run(|input| {
        let mut signs = Vec::new();
        for kind in [Kind::A, Kind::Aaaa] {
            let answer = decode_answer(input, ID, NAME, kind);
            if let Ok(answer) = &answer {
                let is_found = answer.outcome == DnsOutcome::Found;
                assert_eq!(is_found, !answer.addresses.is_empty());
                assert!(answer.addresses.len() <= DNS_ADDRESS_COUNT_MAX);
                assert!(answer.addresses.iter().all(|address| kind.holds(*address)));
                // The id in the first two bytes is that of our question.
                assert_eq!(input[..2], ID.to_be_bytes());
                let other = decode_answer(input, ID ^ 1, NAME, kind);
                assert_eq!(other, Err(DnsError::WrongId));
                let stranger = decode_answer(input, ID, "other.example", kind);
                assert!(!stranger.is_ok_and(|answer| answer.outcome == DnsOutcome::Found));
            }
            signs.push(answer.map(|answer| (answer.outcome, scale(answer.addresses.len()))));
        }
        signs
    });
}

#[test]
fn any_query_is_refused_or_can_be_answered() {
    let target = Target {
        name: "dns::any_query_is_refused_or_can_be_answered",
        words: WORDS,
        seeds: vec![query(Kind::A), query(Kind::Aaaa)],
        input_bytes_max: 1_500,
        input_count: 10_000,
    };
    target.run(|input| {
        let query = match decode_query(input) {
            Ok(query) => query,
            Err(error) => return (Some(error), false, 0),
        };
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let bytes = encode_answer(&query, &[address], 300, Rcode::NoError, false);
        assert!(bytes.len() <= usize::from(query.answer_bytes_max));
        // Our own client reads the reply, if it could have asked for such a name.
        if let (Some(kind), false) = (query.kind, query.name.is_empty()) {
            match decode_answer(&bytes, query.id, &query.name, kind) {
                Ok(answer) if kind == Kind::A && answer.outcome == DnsOutcome::Found => {
                    assert_eq!(answer.addresses, [address]);
                }
                Ok(answer) => assert!(kind != Kind::A || answer.outcome == DnsOutcome::Truncated),
                Err(error) => assert_eq!(error, DnsError::BadName, "{}", query.name),
            }
        }
        (None, query.kind.is_some(), scale(query.name.len()))
    });
}

#[test]
fn any_stream_of_frames_reads_the_same_in_any_pieces() {
    let mut stream = Vec::new();
    for message in replies() {
        let mut frame = Vec::new();
        encode_frame(&message, &mut frame).expect("a short message");
        stream.extend_from_slice(&frame);
    }
    let target = Target {
        name: "dns::any_stream_of_frames_reads_the_same_in_any_pieces",
        words: &[
            b"\0\x0C",
            b"\0\x0B",
            b"\0\0",
            b"\x40\x00",
            b"\x40\x01",
            b"\xFF\xFF",
            b"twelve bytes",
        ],
        seeds: vec![stream, b"\0\x0Ctwelve bytes\0\x0C".to_vec()],
        input_bytes_max: 40_000,
        input_count: 4_000,
    };
    target.run(|input| {
        let naive = naive_frames(input);
        assert_eq!(frames(&[input]), naive);
        assert_eq!(frames(&Dice::of(input).cut(input)), naive);
        (scale(naive.0.len()), naive.1)
    });
}

/// Returns the messages and how the stream ended: at an invalid frame, within a frame, or between
/// two frames.
type Frames = (Vec<Vec<u8>>, Result<bool, DnsError>);

fn frames(pieces: &[&[u8]]) -> Frames {
    let mut reader = FrameReader::new();
    let mut messages = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            match reader.push(&mut rest) {
                Ok(message) => messages.extend(message.map(<[u8]>::to_vec)),
                Err(error) => return (messages, Err(error)),
            }
        }
    }
    (messages, Ok(reader.is_between_frames()))
}

fn naive_frames(stream: &[u8]) -> Frames {
    let mut messages = Vec::new();
    let mut rest = stream;
    while let [high, low, after @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if !(12..=DNS_TCP_BYTES_MAX).contains(&len) {
            return (messages, Err(DnsError::FrameSize));
        }
        let Some(message) = after.get(..len) else { break };
        messages.push(message.to_vec());
        rest = &after[len..];
    }
    (messages, Ok(rest.is_empty()))
}
