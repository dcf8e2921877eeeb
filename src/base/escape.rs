//! Makes text from the web safe to print on a terminal and in one line of a log.
//!
//! Pages, headers and URLs are written by strangers: an escape sequence in a title could rewrite
//! the operator's screen, a bidirectional control could show one host as another, and a line break
//! could forge a log line. Printable characters stay; all others are spelled out. The result can be
//! reversed, because a backslash is doubled.

use std::fmt::{self, Write};

/// Returns a value that prints `text` as printable characters on one line, whatever `text` holds.
pub fn escape<T: AsRef<[u8]> + ?Sized>(text: &T) -> Escaped<'_> {
    Escaped { bytes: text.as_ref(), chars_max: usize::MAX }
}

/// Like [`escape`], but prints `…` in place of what comes after the first `chars_max` characters.
pub fn escape_cut<T: AsRef<[u8]> + ?Sized>(text: &T, chars_max: usize) -> Escaped<'_> {
    Escaped { bytes: text.as_ref(), chars_max }
}

#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
    chars_max: usize,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars_left = self.chars_max;
        for chunk in self.bytes.utf8_chunks() {
            for char in chunk.valid().chars() {
                if chars_left == 0 {
                    return out.write_char('…');
                }
                chars_left -= 1;
                write_char(out, char)?;
            }
            for byte in chunk.invalid() {
                if chars_left == 0 {
                    return out.write_char('…');
                }
                chars_left -= 1;
                write!(out, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

fn write_char(out: &mut fmt::Formatter<'_>, char: char) -> fmt::Result {
    match char {
        '\\' => out.write_str("\\\\"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        _ if char.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(char)),
        _ if is_unprintable(char) => write!(out, "\\u{{{:x}}}", u32::from(char)),
        _ => out.write_char(char),
    }
}

/// Reports whether `char` steers, hides or reorders what is around it instead of showing something.
pub fn is_unprintable(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' // zero width, and the marks of direction
            | '\u{2028}'..='\u{202e}' // line breaks of Unicode; embeddings and overrides
            | '\u{2060}'..='\u{206f}' // invisible operators, isolates
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}' // tags: text that nobody sees
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_of_any_script_stays() {
        for text in ["plain text", "Grüße, 世界, مرحبا", "emoji 🕷", ""] {
            assert_eq!(escape(text).to_string(), text);
        }
    }

    #[test]
    fn what_steers_a_terminal_is_spelled_out() {
        assert_eq!(escape("\x1b[2J\x07\r\n\t\x7f").to_string(), "\\x1b[2J\\x07\\r\\n\\t\\x7f");
        assert_eq!(escape("\u{9b}31m").to_string(), "\\u{9b}31m");
        assert_eq!(escape("a\u{202e}b\u{2066}c").to_string(), "a\\u{202e}b\\u{2066}c");
        assert_eq!(escape("\u{2028}\u{200b}\u{e0041}").to_string(), "\\u{2028}\\u{200b}\\u{e0041}");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_shown_in_hex() {
        assert_eq!(escape(b"a\xff\xc3b\xe2\x82").to_string(), "a\\xff\\xc3b\\xe2\\x82");
    }

    #[test]
    fn no_two_texts_look_the_same() {
        assert_ne!(escape("\n").to_string(), escape("\\n").to_string());
        assert_eq!(escape("\\x1b").to_string(), "\\\\x1b");
    }

    #[test]
    fn every_character_comes_out_as_one_printable_line() {
        for char in (0..=0x10ffff).filter_map(char::from_u32) {
            let shown = escape(char.encode_utf8(&mut [0; 4])).to_string();
            assert!(!shown.chars().any(is_unprintable), "{shown:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_by_characters() {
        assert_eq!(escape_cut("ääää", 3).to_string(), "äää…");
        assert_eq!(escape_cut("äää", 3).to_string(), "äää");
        assert_eq!(escape_cut(b"\xff\xff", 1).to_string(), "\\xff…");
    }
}
