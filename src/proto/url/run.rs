//! Finds how many bytes at the start of a text stand for themselves, sixteen at a time. Nearly all
//! bytes of nearly all links do, so they need not be looked up in a table one by one.
//!
//! Bytes go in, an index comes out. The caller decides about the byte that ends the run; if a byte
//! is missing from a set here, the text only takes the slow path.

use crate::sys::scan::{Lanes, Native, WINDOW_BYTES};

/// The start of a path that is copied as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathRun {
    pub(super) end: usize,
    /// Some segment of it starts with a dot.
    pub(super) is_dotted: bool,
}

/// Measures a run of letters, digits, `-`, `.`, `/` and `_`, as if a slash stood before it.
#[inline]
pub(super) fn path_run(text: &[u8]) -> PathRun {
    let (mut at, mut dotted, mut behind_slash) = (0, 0, 1);
    loop {
        let (window, wanted) = window(text, at);
        let lanes = Native::load(&window);
        let others = !is_simple(lanes).mask() & wanted;
        let slashes = lanes.equal(b'/').mask();
        let dots = lanes.equal(b'.').mask() & (slashes << 1 | behind_slash) & wanted;
        if others != 0 {
            let end = others.trailing_zeros();
            let is_dotted = dotted | dots & !(!0 << end) != 0;
            return PathRun { end: at + end as usize, is_dotted };
        }
        dotted |= dots;
        behind_slash = slashes >> (WINDOW_BYTES - 1) & 1;
        at += WINDOW_BYTES;
        if at >= text.len() {
            return PathRun { end: text.len(), is_dotted: dotted != 0 };
        }
    }
}

/// Measures how far a query can be copied unchanged: the bytes of a path, and `%`, `&`, `=`, and
/// `(` to `;`.
#[inline]
pub(super) fn query_run(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let (window, wanted) = window(text, at);
        let lanes = Native::load(&window);
        let others = !is_simple_in_query(lanes).mask() & wanted;
        if others != 0 {
            return at + others.trailing_zeros() as usize;
        }
        at += WINDOW_BYTES;
        if at >= text.len() {
            return text.len();
        }
    }
}

#[inline(always)]
fn is_letter<L: Lanes>(lanes: L) -> L {
    lanes.or(b' ').minus(b'a').at_most(b'z' - b'a')
}

#[inline(always)]
fn is_simple<L: Lanes>(lanes: L) -> L {
    // The range from `-` to `9` holds the dot, the slash and the digits.
    is_letter(lanes) | lanes.minus(b'-').at_most(b'9' - b'-') | lanes.equal(b'_')
}

#[inline(always)]
fn is_simple_in_query<L: Lanes>(lanes: L) -> L {
    let signs = lanes.minus(b'(').at_most(b';' - b'(') | lanes.equal(b'=') | lanes.equal(b'_');
    is_letter(lanes) | signs | lanes.equal(b'&') | lanes.equal(b'%')
}

/// Returns the bytes from `at`, and a mask with a bit for each byte that is there.
#[inline(always)]
fn window(text: &[u8], at: usize) -> ([u8; WINDOW_BYTES], u32) {
    let rest = text.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(window) => (*window, !(!0 << WINDOW_BYTES)),
        None => (short(rest), !(!0 << rest.len())),
    }
}

/// Loads fewer bytes than a window, with zeros behind them. It does so with two words that may
/// overlap, because a copy of unknown length is a call.
#[inline(always)]
fn short(text: &[u8]) -> [u8; WINDOW_BYTES] {
    let number = match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => {
            let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
            u128::from(first) | u128::from(last) << (8 * (text.len() - 8))
        }
        _ => u128::from(shorter(text)),
    };
    number.to_le_bytes()
}

/// Loads fewer than eight bytes.
#[inline(always)]
fn shorter(text: &[u8]) -> u64 {
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            u64::from(first) | u64::from(last) << (8 * (text.len() - 4))
        }
        _ => text.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path_run_by_bytes(text: &[u8]) -> PathRun {
        let is_simple =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'/' | b'_');
        let end = text.iter().position(|byte| !is_simple(byte)).unwrap_or(text.len());
        let is_start = |at: usize| at == 0 || text[at - 1] == b'/';
        PathRun { end, is_dotted: (0..end).any(|at| text[at] == b'.' && is_start(at)) }
    }

    fn query_run_by_bytes(text: &[u8]) -> usize {
        let is_simple = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'('..=b';' | b'=' | b'_' | b'&' | b'%')
        };
        text.iter().position(|byte| !is_simple(byte)).unwrap_or(text.len())
    }

    fn check(text: &[u8]) {
        assert_eq!(path_run(text), path_run_by_bytes(text), "{text:?}");
        assert_eq!(query_run(text), query_run_by_bytes(text), "{text:?}");
    }

    #[test]
    fn every_byte_is_told_wherever_it_stands() {
        check(b"");
        for byte in 0..=255 {
            for (len, at) in (1..=50).flat_map(|len| (0..len).map(move |at| (len, at))) {
                let mut text = vec![b'x'; len];
                text[at] = byte;
                check(&text);
                text[len - 1 - at] = b'/';
                check(&text);
            }
        }
    }

    proptest! {
        #[test]
        fn runs_end_where_they_end_byte_by_byte(text in "[a-c./?#&=%;'~é]{0,60}") {
            check(text.as_bytes());
        }
    }
}
