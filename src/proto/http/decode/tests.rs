use super::*;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compression, GzBuilder};
use proptest::prelude::*;
use std::io::Write;

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(body: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn br(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 5, 22);
    encoder.write_all(body).unwrap();
    drop(encoder);
    out
}

fn zstd(body: &[u8]) -> Vec<u8> {
    ::zstd::stream::encode_all(body, 3).unwrap()
}

/// Returns `body` in every coding, with the header value of each.
fn encoded(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("gzip", gzip(body)),
        ("X-GZIP", gzip(body)),
        ("deflate", zlib(body)),
        ("deflate", raw_deflate(body)),
        ("br", br(body)),
        ("zstd", zstd(body)),
        ("identity", body.to_vec()),
        ("gzip, br", br(&gzip(body))),
        ("br, identity, zstd, deflate", zlib(&zstd(&br(body)))),
    ]
}

/// Makes text that compresses moderately, far below the ratio of a bomb.
fn page(len: usize) -> Vec<u8> {
    let mut state = 7u64;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            b"etaoin shrdlu<>/"[(state >> 60) as usize]
        })
        .collect()
}

fn decode(encoding: &str, wire: &[u8], step: usize) -> (Vec<u8>, Result<(), DecodeError>) {
    let mut decoder = Decoder::new(encoding.as_bytes()).unwrap();
    decode_with(&mut decoder, wire, step)
}

fn decode_with(
    decoder: &mut Decoder,
    wire: &[u8],
    step: usize,
) -> (Vec<u8>, Result<(), DecodeError>) {
    let mut body = Vec::new();
    let pushed = wire
        .chunks(step.max(1))
        .try_for_each(|piece| decoder.push(piece, &mut |out| body.extend_from_slice(out)));
    let result = pushed.and_then(|()| decoder.finish());
    assert_eq!(decoder.decoded_bytes(), body.len());
    (body, result)
}

#[test]
fn every_coding_is_undone_whole_and_byte_by_byte() {
    for body in [page(0), page(1), page(100_000)] {
        for (encoding, wire) in encoded(&body) {
            for step in [wire.len(), 1, 1000] {
                let (decoded, result) = decode(encoding, &wire, step);
                assert_eq!(result, Ok(()), "{encoding} by {step}");
                assert!(decoded == body, "{encoding} by {step}");
            }
        }
    }
}

#[test]
fn an_empty_body_is_whole_under_any_coding() {
    for encoding in ["", "gzip", "deflate", "br", "zstd", "gzip, br"] {
        assert_eq!(decode(encoding, b"", 1), (Vec::new(), Ok(())), "{encoding}");
    }
}

#[test]
fn identity_passes_the_input_itself() {
    let input = b"as it is";
    for encoding in ["", " , ", "Identity", "identity,identity,identity,identity,identity"] {
        let mut decoder = Decoder::new(encoding.as_bytes()).unwrap();
        assert!(decoder.is_identity());
        let mut seen = None;
        decoder.push(input, &mut |out| seen = Some((out.as_ptr(), out.len()))).unwrap();
        assert_eq!(seen, Some((input.as_ptr(), input.len())));
    }
}

#[test]
fn a_cut_body_is_delivered_up_to_the_cut() {
    // The body has several zstd blocks, each of which decodes whole or not at all.
    let body = page(500_000);
    for (encoding, wire) in encoded(&body) {
        if encoding == "identity" {
            continue;
        }
        for len in [1, 2, wire.len() / 2, wire.len() - 1] {
            let (whole, result) = decode(encoding, &wire[..len], len);
            assert!(matches!(result, Err(DecodeError::Cut(_))), "{encoding} {len}: {result:?}");
            assert!(body.starts_with(&whole));
            let (bytewise, again) = decode(encoding, &wire[..len], 1);
            assert_eq!(again, result, "{encoding} {len}");
            assert!(body.starts_with(&bytewise), "{encoding} {len}");
            // The br library may hold back the last few symbols of a piece.
            let is_same = bytewise.len().abs_diff(whole.len()) < 64;
            assert!(is_same || encoding.contains(','), "{encoding} {len}");
        }
        let (half, _) = decode(encoding, &wire[..wire.len() / 2], 512);
        assert!(encoding.contains(',') || half.len() > 10_000, "{encoding}: {}", half.len());
    }
}

#[test]
fn rfc_gzip_members_follow_each_other() {
    let wire = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
    for step in [wire.len(), 1] {
        assert_eq!(decode("gzip", &wire, step), (b"one two".to_vec(), Ok(())));
    }
}

#[test]
fn rfc_gzip_headers_with_every_field_are_skipped() {
    let builder = GzBuilder::new().extra(vec![0; 300]).filename("a").comment("b").mtime(7);
    let mut encoder = builder.write(Vec::new(), Compression::default());
    encoder.write_all(b"body").unwrap();
    let mut wire = encoder.finish().unwrap();
    for step in [wire.len(), 1] {
        assert_eq!(decode("gzip", &wire, step), (b"body".to_vec(), Ok(())));
    }
    // GzBuilder does not write FHCRC: two bytes behind the comment.
    let data_at = wire.len() - raw_deflate(b"body").len() - 8;
    wire[3] |= 1 << 1;
    wire.splice(data_at..data_at, [0xab, 0xcd]);
    assert_eq!(decode("gzip", &wire, 1), (b"body".to_vec(), Ok(())));
}

#[test]
fn lenient_junk_behind_the_end_is_ignored() {
    for (encoding, wire) in [
        ("gzip", gzip(b"body")),
        ("deflate", zlib(b"body")),
        ("deflate", raw_deflate(b"body")),
        ("br", br(b"body")),
    ] {
        for junk in [&[0; 20][..], b"\r\n", b"\x1f", b"\x1fx"] {
            let wire = [&wire, junk].concat();
            for step in [wire.len(), 1] {
                let decoded = decode(encoding, &wire, step);
                assert_eq!(decoded, (b"body".to_vec(), Ok(())), "{encoding} {junk:?} {step}");
            }
        }
    }
}

#[test]
fn what_is_not_the_coding_is_corrupt() {
    let html = b"<!doctype html><title>never compressed</title>".repeat(10);
    for encoding in ["gzip", "deflate", "br", "zstd"] {
        let (_, result) = decode(encoding, &html, html.len());
        assert!(matches!(result, Err(DecodeError::Corrupt(_))), "{encoding}: {result:?}");
        assert_eq!(decode(encoding, &html, 1).1, result, "{encoding}");
    }
}

#[test]
fn a_flipped_bit_in_gzip_is_found() {
    let (body, wire) = (page(5000), gzip(&page(5000)));
    // The loop begins at the data, because most header bytes mean nothing.
    for index in 10..wire.len() {
        let mut bad = wire.clone();
        // The lowest bit is flipped: the bits above it may be padding in the last byte of the data.
        bad[index] ^= 1;
        let (decoded, result) = decode("gzip", &bad, bad.len());
        assert!(result.is_err(), "byte {index} of {}: {} bytes", wire.len(), decoded.len());
    }
    assert_eq!(decode("gzip", &wire, 100), (body, Ok(())));
}

#[test]
fn unknown_and_too_many_codings_are_refused() {
    for encoding in ["compress", "utf-8", "gzip; q=1", "g zip", "gzip, none"] {
        let error = Decoder::new(encoding.as_bytes()).err();
        assert_eq!(error, Some(DecodeError::UnknownCoding), "{encoding}");
    }
    let many = ["gzip"; CONTENT_CODING_COUNT_MAX + 1];
    assert!(Decoder::new(many[1..].join(",").as_bytes()).is_ok());
    let error = Decoder::new(many.join(",").as_bytes()).err();
    assert_eq!(error, Some(DecodeError::TooManyCodings));
    let lines = many.iter().map(|line| line.as_bytes());
    assert_eq!(DecoderPool::new().decoder(lines).err(), Some(DecodeError::TooManyCodings));
}

#[test]
fn bombs_are_refused_early_in_every_coding() {
    let zeros = vec![0; 64 * 1024 * 1024];
    for (encoding, wire) in [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("br", br(&zeros)),
        ("zstd", zstd(&zeros)),
        ("gzip, gzip", gzip(&gzip(&zeros))),
    ] {
        for step in [wire.len(), 16 * 1024, 1] {
            let (decoded, result) = decode(encoding, &wire, step);
            assert_eq!(result, Err(DecodeError::Bomb), "{encoding} by {step}");
            let bound = RATIO_CHECK_BYTES_MIN.max(wire.len() * DECODED_RATIO_MAX);
            assert!(decoded.len() <= bound + DECODE_SCRATCH_BYTES, "{encoding}");
        }
    }
}

#[test]
fn a_bomb_that_a_second_coding_swallows_is_still_met() {
    // 40 MiB of empty gzip members are coded as gzip again: the sink never sees a byte.
    let empties = gzip(b"").repeat(2 * 1024 * 1024);
    let wire = gzip(&empties);
    let (decoded, result) = decode("gzip, gzip", &wire, wire.len());
    assert!(decoded.is_empty());
    assert!(matches!(result, Err(DecodeError::Bomb | DecodeError::TooLarge)), "{result:?}");
}

#[test]
fn decoded_bytes_are_cut_exactly_at_the_limit() {
    let body = page(DECODED_BYTES + 5);
    for (encoding, wire) in [("identity", body.clone()), ("zstd", zstd(&body))] {
        let (decoded, result) = decode(encoding, &wire, 16 * 1024);
        assert_eq!(result, Err(DecodeError::TooLarge), "{encoding}");
        assert!(decoded == body[..DECODED_BYTES], "{encoding}");
    }
    let (decoded, result) = decode("identity", &body[..DECODED_BYTES], 16 * 1024);
    assert_eq!((decoded.len(), result), (DECODED_BYTES, Ok(())));
}

#[test]
fn a_pool_for_longer_bodies_decodes_longer_ones() {
    let body = page(DECODED_BYTES + 5);
    let mut pool = DecoderPool::for_bodies(DECODED_BYTES);
    let mut decoder = pool.decoder([&b"zstd"[..]]).unwrap();
    let mut decoded = Vec::new();
    decoder.push(&zstd(&body), &mut |piece| decoded.extend_from_slice(piece)).unwrap();
    assert_eq!(decoder.finish(), Ok(()));
    assert!(decoded == body);
    let mut none = pool.decoder([&b"identity"[..]]).unwrap();
    let longest = vec![0; DECODED_BYTES * DECODED_PER_BODY];
    assert_eq!(none.push(&longest, &mut |_| {}), Ok(()));
    assert_eq!(none.push(b"x", &mut |_| {}), Err(DecodeError::TooLarge));
}

#[test]
fn zstd_windows_are_bounded() {
    let frame = |window_log: u32| {
        let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(window_log).unwrap();
        encoder.write_all(&page(1000)).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(decode("zstd", &frame(ZSTD_WINDOW_LOG_MAX), 100), (page(1000), Ok(())));
    let (decoded, result) = decode("zstd", &frame(ZSTD_WINDOW_LOG_MAX + 1), 100);
    assert_eq!((decoded.len(), result), (0, Err(DecodeError::WindowTooLarge)));
}

#[test]
fn rfc_zstd_frames_follow_each_other() {
    let skippable = [&0x184d_2a50_u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"xyz"].concat();
    let wire = [zstd(b"one "), skippable, zstd(b""), zstd(b"two")].concat();
    for step in [wire.len(), 1] {
        assert_eq!(decode("zstd", &wire, step), (b"one two".to_vec(), Ok(())));
    }
}

#[test]
fn a_zstd_frame_that_holds_less_than_it_says_gets_one_verdict_in_any_cut() {
    // The content size is 142, and the last block has no bytes.
    let frame = b"\x28\xb5\x2f\xfd\x20\x8e\x01\0\0";
    let whole = decode("zstd", frame, frame.len());
    for step in 1..frame.len() {
        assert_eq!(decode("zstd", frame, step), whole, "by {step}");
    }
}

#[test]
fn pooled_contexts_forget_the_last_body_even_if_it_was_cut_or_corrupt() {
    let mut pool = DecoderPool::new();
    let body = page(50_000);
    for round in 0..3 {
        for (encoding, wire) in encoded(&body) {
            let mut decoder = pool.decoder([encoding.as_bytes()]).unwrap();
            assert!(decode_with(&mut decoder, &wire, 777).0 == body, "{encoding} {round}");
            pool.give_back(decoder);
            let mut decoder = pool.decoder([encoding.as_bytes()]).unwrap();
            let _ = decode_with(&mut decoder, &wire[..wire.len() / 2], 777);
            pool.give_back(decoder);
            let mut decoder = pool.decoder([encoding.as_bytes()]).unwrap();
            let _ = decode_with(&mut decoder, &page(2000), 777);
            pool.give_back(decoder);
        }
    }
    assert!(!pool.inflates.is_empty() && !pool.zstds.is_empty() && !pool.scratches.is_empty());
    assert!(pool.scratches.len() <= DECODER_IDLE_COUNT_MAX);
}

#[test]
fn after_an_error_the_decoder_only_repeats_it() {
    let mut decoder = Decoder::new(b"gzip").unwrap();
    let error = Err(DecodeError::Corrupt(Coding::Gzip));
    assert_eq!(decoder.push(b"no", &mut |_| {}), error);
    assert_eq!(decoder.push(&gzip(b"yes"), &mut |_| panic!("output after an error")), error);
    assert_eq!(decoder.finish(), error);
}

proptest! {
    #[test]
    fn any_bytes_under_any_coding_get_the_same_verdict_in_any_cut(
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        step in 1usize..50,
    ) {
        let mut wires = encoded(&page(3000));
        for (encoding, wire) in &mut wires {
            for (index, value) in &flips {
                let at = index.index(wire.len());
                wire[at] = *value;
            }
            for wire in [&wire[..], &noise] {
                let (whole, verdict) = decode(encoding, wire, wire.len());
                let (cut, again) = decode(encoding, wire, step);
                // If codings are stacked, it depends on the cut which one reports the error first.
                if encoding.contains(',') {
                    prop_assert_eq!(verdict.is_err(), again.is_err(), "{}", encoding);
                } else {
                    prop_assert_eq!(verdict, again, "{}", encoding);
                }
                prop_assert!(verdict.is_err() || whole == cut, "{}", encoding);
                let is_prefix = whole.starts_with(&cut) || cut.starts_with(&whole);
                prop_assert!(is_prefix, "{}", encoding);
            }
        }
    }
}
