//! Bytes to UTF-8: chunks are compared with the whole, and with encoding_rs in one call if the
//! charset is known from the start.

use crate::dice::Dice;
use crate::engine::{Target, corpus, scale, texts};
use encoding_rs::Encoding;
use nephila::base::limits::CHARSET_SNIFF_BYTES;
use nephila::proto::html::{charset::Decoder, prescan};

#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"<meta charset=", b"<meta http-equiv=content-type content='text/html; charset=", b"'>", b">",
    b"koi8-r", b"iso-2022-jp", b"iso-2022-kr", b"utf-8", b"utf-16le", b"x-user-defined",
    b"gb18030", b"big5", b"euc-jp", b"windows-1252", b"<!--", b"-->", b"<a b='c'", b"\xEF\xBB\xBF",
    b"\xFF\xFE", b"\xFE\xFF", b"\x1B$B", b"\x1B(B", b"\xC3\xA9", b"\x81\x30\x81\x30",
    b"\x8F\xA2\xB7", b"<\0?\0x\0", b"\0<\0?\0x",
];

#[rustfmt::skip]
const LABELS: &[&str] = &[
    "utf-8", "utf-16le", "utf-16be", "windows-1251", "shift_jis", "euc-jp", "iso-2022-jp", "gbk",
    "gb18030", "big5", "euc-kr", "koi8-u", "x-user-defined", "iso-2022-kr", "no-such-charset",
];

fn decode(pieces: &[&[u8]], header: Option<&str>) -> (Vec<u8>, &'static str) {
    let mut out = Vec::new();
    let mut decoder = Decoder::new(header);
    // Acts as the collector does: it passes on a declaration as soon as it is in the text.
    let mut take = |piece: &[u8]| {
        out.extend_from_slice(piece);
        let at = memchr::memmem::find(&out, b"<meta charset=")? + "<meta charset=".len();
        let end = at + memchr::memchr(b'>', &out[at..])?;
        Encoding::for_label(&out[at..end])
    };
    pieces.iter().for_each(|piece| decoder.push(piece, &mut take));
    decoder.finish(&mut take);
    (out, decoder.charset())
}

#[test]
fn any_bytes_decode_the_same_in_any_chunks() {
    let mut seeds = corpus("html5lib/encoding", 6_000);
    // The charset is declared beyond the bytes that are sniffed, so the parser finds the
    // declaration.
    let late = [&b" ".repeat(CHARSET_SNIFF_BYTES)[..], b"<meta charset=koi8-r>a\xC1"].concat();
    seeds.push(late);
    let target = Target {
        name: "charset::any_bytes_decode_the_same_in_any_chunks",
        words: WORDS,
        seeds,
        input_bytes_max: 9_000,
        input_count: 3_000,
    };
    target.run(|input| {
        let mut dice = Dice::of(input);
        let header = dice.one_in(2).then(|| *dice.pick(LABELS));
        let whole = decode(&[input], header);
        assert_eq!(decode(&dice.cut(input), header), whole);
        let settled = Encoding::for_bom(input)
            .map(|(encoding, _)| encoding)
            .or_else(|| header.and_then(|label| Encoding::for_label(label.as_bytes())));
        if let Some(encoding) = settled {
            assert_eq!(whole.1, encoding.name());
            let (text, _) = encoding.decode_with_bom_removal(input);
            // UTF-8 is not checked here; its consumers replace what is invalid.
            assert_eq!(String::from_utf8_lossy(&whole.0), text);
        }
        (whole.1, header, scale(whole.0.len()))
    });
}

#[test]
fn any_declaration_found_in_a_head_stays_when_more_comes() {
    let target = Target {
        name: "charset::any_declaration_found_in_a_head_stays_when_more_comes",
        words: WORDS,
        seeds: texts(&["<!doctype html><meta charset=koi8-r>", "<a b=c><meta charset='gbk'x>"]),
        input_bytes_max: 2_000,
        input_count: 10_000,
    };
    target.run(|input| {
        let whole = prescan(input);
        let end = Dice::of(input).below(input.len() + 1);
        let found = prescan(&input[..end]);
        assert!(found.is_none() || found == whole, "{found:?} then {whole:?}");
        (whole.map(Encoding::name), found.is_some())
    });
}
