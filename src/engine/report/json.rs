//! JSON that is safe to print on a terminal.

use crate::base::escape::is_unprintable;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::io::{self, Write};

/// Returns `value` as JSON on one line. JSON allows unescaped control characters from U+007F on and
/// bidirectional controls. They are escaped here too, so that the text can be shown on a terminal
/// as safely as it can be parsed.
pub fn json_line<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::with_capacity(256);
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Printable))?;
    bytes.push(b'\n');
    // The serializer writes strings and ASCII only, so the bytes are valid UTF-8.
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

struct Printable;

impl Formatter for Printable {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return CompactFormatter.write_string_fragment(out, fragment);
        }
        for char in fragment.chars() {
            if is_unprintable(char) {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            } else {
                out.write_all(char.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_reads_back() {
        let text = "Grüße \u{9b}2J \u{7f} \u{202e}txt \u{e0041} \x1b[0m \"quoted\" \\ \n";
        let line = json_line(&[text]).unwrap();
        assert!(!line.trim_end().chars().any(is_unprintable), "{line:?}");
        assert!(line.contains("Grüße") && line.contains("\\u202e"), "{line}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&line).unwrap(), [text]);
    }
}
