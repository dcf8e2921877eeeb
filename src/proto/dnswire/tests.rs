use super::*;
use crate::base::limits::{DNS_ADDRESS_COUNT_MAX, DNS_ALIAS_COUNT_MAX, DNS_TCP_BYTES_MAX};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query as Question};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, SOA};
use hickory_proto::rr::{RData, Record};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const ID: u16 = 0x1234;

/// Makes a response to `www.example.com A`, to which tests add records.
fn response() -> Message {
    let mut message = Message::new(ID, MessageType::Response, OpCode::Query);
    message.add_query(Question::query(host("www.example.com"), RecordType::A));
    message
}

fn host(name: &str) -> Name {
    wire_name(name).unwrap()
}

fn a(name: &str, ttl: u32, last: u8) -> Record {
    Record::from_rdata(host(name), ttl, RData::A(A::new(192, 0, 2, last)))
}

fn alias(name: &str, ttl: u32, target: &str) -> Record {
    Record::from_rdata(host(name), ttl, RData::CNAME(CNAME(host(target))))
}

fn soa(zone: &str, ttl: u32, minimum: u32) -> Record {
    let soa = SOA::new(host(zone), host(zone), 1, 1, 1, 1, minimum);
    Record::from_rdata(host(zone), ttl, RData::SOA(soa))
}

fn read(message: &Message) -> Result<Answer, DnsError> {
    decode_answer(&message.to_vec().unwrap(), ID, "www.example.com", Kind::A)
}

fn v4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

#[test]
fn a_query_reaches_the_server_and_its_answer_comes_back() {
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let mut wire = Vec::new();
    for (kind, wanted) in [(Kind::A, v4(7)), (Kind::Aaaa, v6)] {
        encode_query(ID, "WWW.Example.com", kind, &mut wire).unwrap();
        let query = decode_query(&wire).unwrap();
        assert_eq!((query.id, query.name.as_str()), (ID, "www.example.com"));
        assert_eq!((query.kind, query.answer_bytes_max), (Some(kind), 1232));
        assert!(query.recursion_desired);
        let reply = encode_answer(&query, &[v4(7), v6], 300, Rcode::NoError, false);
        let answer = decode_answer(&reply, ID, "www.example.com", kind).unwrap();
        assert_eq!(answer.outcome, DnsOutcome::Found);
        assert_eq!((answer.addresses, answer.ttl_seconds), (vec![wanted], 300));
    }
}

#[test]
fn a_query_on_the_wire_is_the_bytes_of_the_rfcs() {
    let mut wire = vec![9; 40];
    encode_query(ID, "a.bc", Kind::Aaaa, &mut wire).unwrap();
    let head = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01";
    let question = b"\x01a\x02bc\x00\x00\x1c\x00\x01";
    let edns = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
    assert_eq!(wire, [&head[..], question, edns].concat());
}

#[test]
fn names_that_cannot_be_hosts_are_refused() {
    let mut wire = Vec::new();
    let long_label = "a".repeat(64);
    let long_name = ["a".repeat(63).as_str(); 4].join(".");
    let bad = ["", ".", "a..b", ".a", "a b", "a\\.b", "b\u{fc}cher.de", &long_label, &long_name];
    for name in bad {
        assert_eq!(encode_query(1, name, Kind::A, &mut wire), Err(DnsError::BadName), "{name}");
    }
    let longest = format!("{}.{}", ["a".repeat(63).as_str(); 3].join("."), "b".repeat(61));
    assert_eq!(longest.len(), 253);
    for name in ["_dmarc.a.", "xn--bcher-kva.de", longest.as_str()] {
        encode_query(1, name, Kind::A, &mut wire).unwrap();
        let text = decode_query(&wire).unwrap().name;
        assert_eq!(text, name.trim_end_matches('.'));
    }
}

#[test]
fn a_reply_with_another_id_or_question_is_refused() {
    let mut message = response();
    message.add_answer(a("www.example.com", 60, 1));
    let wire = message.to_vec().unwrap();
    let read = |id, name, kind| decode_answer(&wire, id, name, kind);
    assert!(read(ID, "WWW.EXAMPLE.COM", Kind::A).is_ok());
    assert_eq!(read(ID + 1, "www.example.com", Kind::A), Err(DnsError::WrongId));
    for name in ["ww.example.com", "example.com", "www.example.com.net", "x.www.example.com"] {
        assert_eq!(read(ID, name, Kind::A), Err(DnsError::WrongQuestion), "{name}");
    }
    assert_eq!(read(ID, "www.example.com", Kind::Aaaa), Err(DnsError::WrongQuestion));
}

#[test]
fn a_query_is_no_answer_and_an_answer_is_no_query() {
    let mut wire = Vec::new();
    encode_query(ID, "www.example.com", Kind::A, &mut wire).unwrap();
    assert_eq!(decode_answer(&wire, ID, "www.example.com", Kind::A), Err(DnsError::WrongType));
    assert_eq!(decode_query(&response().to_vec().unwrap()), Err(DnsError::WrongType));
}

#[test]
fn aliases_are_followed_in_any_order_and_the_shortest_time_holds() {
    let mut message = response();
    message.add_answer(a("c.example.net", 500, 3));
    message.add_answer(alias("b.example.net", 90, "C.example.net"));
    message.add_answer(alias("www.example.com", 400, "b.example.net"));
    message.add_answer(a("c.example.net", 500, 4));
    let answer = read(&message).unwrap();
    assert_eq!(answer.outcome, DnsOutcome::Found);
    assert_eq!((answer.addresses, answer.ttl_seconds), (vec![v4(3), v4(4)], 90));
}

#[test]
fn records_about_other_names_are_ignored() {
    let mut message = response();
    message.add_answer(a("evil.example.com", 10, 66));
    message.add_answer(a("www.example.com", 60, 1));
    message.add_additional(a("www.example.com", 5, 67));
    message.add_authority(a("www.example.com", 5, 68));
    let answer = read(&message).unwrap();
    assert_eq!((answer.addresses, answer.ttl_seconds), (vec![v4(1)], 60));
}

#[test]
fn addresses_of_the_other_family_are_no_data() {
    let mut message = response();
    let data = RData::AAAA(AAAA(Ipv6Addr::LOCALHOST));
    message.add_answer(Record::from_rdata(host("www.example.com"), 60, data));
    assert_eq!(read(&message).unwrap().outcome, DnsOutcome::NoData);
}

#[test]
fn an_alias_loop_and_a_chain_over_the_limit_are_refused() {
    let mut message = response();
    message.add_answer(alias("www.example.com", 60, "a.example.com"));
    message.add_answer(alias("a.example.com", 60, "www.example.com"));
    assert_eq!(read(&message), Err(DnsError::AliasLimit));

    let chain = |count: usize| {
        let mut message = response();
        message.add_answer(alias("www.example.com", 60, "h1.example.com"));
        for step in 1..count {
            let (from, to) = (format!("h{step}.example.com"), format!("h{}.example.com", step + 1));
            message.add_answer(alias(&from, 60, &to));
        }
        message.add_answer(a(&format!("h{count}.example.com"), 60, 9));
        read(&message)
    };
    assert_eq!(chain(DNS_ALIAS_COUNT_MAX).unwrap().addresses, vec![v4(9)]);
    assert_eq!(chain(DNS_ALIAS_COUNT_MAX + 1), Err(DnsError::AliasLimit));
}

#[test]
fn addresses_beyond_the_limit_are_dropped_and_records_beyond_theirs_refused() {
    let mut message = response();
    for last in 0..100 {
        message.add_answer(a("www.example.com", 60, last));
    }
    assert_eq!(read(&message).unwrap().addresses.len(), DNS_ADDRESS_COUNT_MAX);
    for last in 0..157 {
        message.add_answer(a("www.example.com", 60, last));
    }
    assert_eq!(read(&message), Err(DnsError::TooManyRecords));
}

#[test]
fn rfc_2308_bad_news_lives_as_long_as_the_smaller_of_soa_time_and_minimum() {
    for (code, outcome) in
        [(ResponseCode::NXDomain, DnsOutcome::NoName), (ResponseCode::NoError, DnsOutcome::NoData)]
    {
        for (ttl, minimum, wanted) in [(300, 900, 300), (900, 120, 120), (u32::MAX, 120, 0)] {
            let mut message = response();
            message.metadata.response_code = code;
            message.add_authority(soa("example.com", ttl, minimum));
            let answer = read(&message).unwrap();
            assert_eq!((answer.outcome, answer.ttl_seconds), (outcome, wanted));
        }
        let mut message = response();
        message.metadata.response_code = code;
        message.add_authority(soa("example.org", 300, 300));
        let answer = read(&message).unwrap();
        assert_eq!((answer.outcome, answer.ttl_seconds), (outcome, 0), "the SOA of another zone");
    }
}

#[test]
fn an_alias_to_a_name_without_address_is_no_data_for_no_longer_than_the_alias() {
    let mut message = response();
    message.add_answer(alias("www.example.com", 30, "b.example.net"));
    message.add_authority(soa("example.net", 300, 300));
    let answer = read(&message).unwrap();
    assert_eq!((answer.outcome, answer.ttl_seconds), (DnsOutcome::NoData, 30));
}

#[test]
fn a_referral_is_a_failure_and_not_no_data() {
    let mut message = response();
    let data = RData::NS(NS(host("ns.example.com")));
    message.add_authority(Record::from_rdata(host("example.com"), 60, data));
    assert_eq!(read(&message).unwrap().outcome, DnsOutcome::ServerFailure);
}

#[test]
fn failure_codes_are_outcomes_even_without_the_question() {
    for (code, outcome) in [
        (ResponseCode::ServFail, DnsOutcome::ServerFailure),
        (ResponseCode::Refused, DnsOutcome::Refused),
        (ResponseCode::FormErr, DnsOutcome::NotUnderstood),
        (ResponseCode::NotImp, DnsOutcome::NotUnderstood),
        (ResponseCode::YXDomain, DnsOutcome::Refused),
    ] {
        let mut message = response();
        message.metadata.response_code = code;
        assert_eq!(read(&message).unwrap().outcome, outcome);
        message.queries.clear();
        assert_eq!(read(&message).unwrap().outcome, outcome);
    }
    let mut bad_version = response();
    bad_version.metadata.response_code = ResponseCode::BADVERS;
    bad_version.set_edns(Edns::new());
    assert_eq!(read(&bad_version).unwrap().outcome, DnsOutcome::NotUnderstood);
    let mut found = response();
    found.queries.clear();
    found.add_answer(a("www.example.com", 60, 1));
    assert_eq!(read(&found), Err(DnsError::WrongQuestion));
}

#[test]
fn a_truncated_reply_says_so_and_none_of_its_records_is_used() {
    let mut message = response();
    message.metadata.truncation = true;
    message.add_answer(a("www.example.com", 60, 1));
    let mut wire = message.to_vec().unwrap();
    wire.truncate(wire.len() - 3);
    let answer = decode_answer(&wire, ID, "www.example.com", Kind::A).unwrap();
    assert_eq!((answer.outcome, answer.addresses.len()), (DnsOutcome::Truncated, 0));
}

#[test]
fn the_server_truncates_what_the_client_does_not_take() {
    let mut wire = Vec::new();
    encode_query(ID, "www.example.com", Kind::A, &mut wire).unwrap();
    let mut query = decode_query(&wire).unwrap();
    let many: Vec<IpAddr> = (0..200).map(v4).collect();
    let udp = encode_answer(&query, &many, 60, Rcode::NoError, false);
    assert!(udp.len() <= 1232);
    let outcome =
        |wire: &[u8]| decode_answer(wire, ID, "www.example.com", Kind::A).unwrap().outcome;
    assert_eq!(outcome(&udp), DnsOutcome::Truncated);
    query.answer_bytes_max = u16::MAX;
    assert_eq!(
        outcome(&encode_answer(&query, &many, 60, Rcode::NoError, false)),
        DnsOutcome::Found
    );
    let forced = encode_answer(&query, &many, 60, Rcode::NoError, true);
    assert_eq!(outcome(&forced), DnsOutcome::Truncated);
    let none = encode_answer(&query, &[], 60, Rcode::NoName, false);
    let answer = decode_answer(&none, ID, "www.example.com", Kind::A).unwrap();
    assert_eq!((answer.outcome, answer.ttl_seconds), (DnsOutcome::NoName, 60));
}

#[test]
fn compression_loops_are_malformed() {
    let head = b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00";
    let question = b"\x03www\x07example\x03com\x00\x00\x01\x00\x01";
    let fixed = b"\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01";
    let with_owner = |owner: &[u8]| {
        let wire = [&head[..], question, owner, fixed].concat();
        decode_answer(&wire, ID, "www.example.com", Kind::A)
    };
    assert_eq!(with_owner(b"\xc0\x0c").unwrap().addresses, vec![v4(1)]);
    assert_eq!(with_owner(b"\xc0\x21"), Err(DnsError::Malformed), "a pointer to itself");
    assert_eq!(with_owner(b"\xc0\x40"), Err(DnsError::Malformed), "a forward pointer");
    assert_eq!(
        with_owner(b"\x01a\xc0\x21"),
        Err(DnsError::Malformed),
        "a pointer to its own label"
    );
    assert_eq!(with_owner(b"\xff\xff"), Err(DnsError::Malformed), "a pointer outside");
    assert_eq!(with_owner(b"\x80a"), Err(DnsError::Malformed), "reserved label type");
}

#[test]
fn frames_come_out_whole_however_the_stream_is_cut() {
    let messages = [vec![1; 12], vec![2; 300], vec![3; DNS_TCP_BYTES_MAX]];
    let mut stream = Vec::new();
    let mut frame = Vec::new();
    for message in &messages {
        encode_frame(message, &mut frame).unwrap();
        stream.extend_from_slice(&frame);
    }
    for piece_len in [1, 2, 3, 7, 311, stream.len()] {
        let mut reader = FrameReader::new();
        let mut got = Vec::new();
        for mut piece in stream.chunks(piece_len) {
            while !piece.is_empty() {
                got.extend(reader.push(&mut piece).unwrap().map(<[u8]>::to_vec));
            }
        }
        assert!(reader.is_between_frames());
        assert_eq!(got, messages);
    }
}

#[test]
fn frames_over_the_limit_or_under_a_header_are_refused() {
    for len in [0u16, 11, DNS_TCP_BYTES_MAX as u16 + 1, u16::MAX] {
        let mut reader = FrameReader::new();
        let prefix = len.to_be_bytes();
        assert_eq!(reader.push(&mut &prefix[..]), Err(DnsError::FrameSize));
    }
    let mut out = Vec::new();
    assert_eq!(encode_frame(&vec![0; 65_536], &mut out), Err(DnsError::FrameSize));
}

proptest! {
    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_query(&bytes);
        let _ = decode_answer(&bytes, ID, "www.example.com", Kind::A);
    }

    #[test]
    fn a_damaged_answer_never_holds_more_than_the_limits(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut message = response();
        message.add_answer(alias("www.example.com", 60, "b.example.net"));
        message.add_answer(a("b.example.net", 60, 1));
        message.add_authority(soa("example.com", 60, 60));
        message.set_edns(Edns::new());
        let mut wire = message.to_vec().unwrap();
        for (at, byte) in edits {
            let at = at.index(wire.len());
            wire[at] = byte;
        }
        if is_cut {
            wire.truncate(cut.index(wire.len()));
        }
        let id = u16::from_be_bytes([*wire.first().unwrap_or(&0), *wire.get(1).unwrap_or(&0)]);
        if let Ok(answer) = decode_answer(&wire, id, "www.example.com", Kind::A) {
            prop_assert!(answer.addresses.len() <= DNS_ADDRESS_COUNT_MAX);
            prop_assert_eq!(answer.outcome == DnsOutcome::Found, !answer.addresses.is_empty());
        }
        let _ = decode_query(&wire);
    }

    #[test]
    fn any_stream_of_frames_keeps_the_reader_bounded(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40),
    ) {
        let mut reader = FrameReader::new();
        'stream: for piece in &pieces {
            let mut piece = piece.as_slice();
            while !piece.is_empty() {
                match reader.push(&mut piece) {
                    Ok(Some(message)) => prop_assert!(message.len() <= DNS_TCP_BYTES_MAX),
                    Ok(None) => {}
                    Err(_) => break 'stream,
                }
            }
        }
    }
}
