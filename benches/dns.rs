//! DNS messages: writing a query, and reading an answer with an alias and four addresses.

use criterion::{Criterion, criterion_group, criterion_main};
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use nephila::proto::dnswire::{Kind, decode_answer, encode_query};
use std::hint::black_box;

const ID: u16 = 0x1234;
const HOST: &str = "www.example.com";

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

fn answer() -> Vec<u8> {
    let mut message = Message::new(ID, MessageType::Response, OpCode::Query);
    message.add_query(Query::query(name("www.example.com."), RecordType::A));
    let (alias, edge) = (name("www.example.com."), name("edge.example.net."));
    message.add_answer(Record::from_rdata(alias, 60, RData::CNAME(CNAME(edge.clone()))));
    for last in 0..4 {
        let address = RData::A(A::new(192, 0, 2, last));
        message.add_answer(Record::from_rdata(edge.clone(), 60, address));
    }
    message.to_vec().expect("a message")
}

fn dns(criterion: &mut Criterion) {
    let (mut out, wire) = (Vec::new(), answer());
    let mut group = criterion.benchmark_group("dns");
    group.bench_function("encode a query", |bencher| {
        bencher.iter(|| encode_query(black_box(ID), black_box(HOST), Kind::A, &mut out))
    });
    let read = decode_answer(&wire, ID, HOST, Kind::A).expect("an answer");
    assert_eq!(read.addresses.len(), 4);
    group.bench_function("decode an answer", |bencher| {
        bencher.iter(|| decode_answer(black_box(&wire), ID, HOST, Kind::A))
    });
}

criterion_group!(benches, dns);
criterion_main!(benches);
