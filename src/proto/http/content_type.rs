//! Splits the Content-Type field (RFC 9110 8.3).

/// A media type and its charset, borrowed from the field's value. Reading is lenient: text that is
/// not a parameter is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentType<'a> {
    /// `type/subtype` as sent, without the blanks around it; may be empty.
    pub mime: &'a [u8],
    /// The first charset parameter without its quotes.
    pub charset: Option<&'a [u8]>,
}

impl<'a> ContentType<'a> {
    pub fn parse(value: &'a [u8]) -> ContentType<'a> {
        let mime_len = memchr::memchr(b';', value).unwrap_or(value.len());
        let mut parsed = ContentType { mime: value[..mime_len].trim_ascii(), charset: None };
        let mut rest = value.get(mime_len + 1..).unwrap_or_default();
        while !rest.is_empty() && parsed.charset.is_none() {
            let (parameter, after) = split_parameter(rest);
            rest = after;
            let Some(equals) = memchr::memchr(b'=', parameter) else { continue };
            if parameter[..equals].trim_ascii().eq_ignore_ascii_case(b"charset") {
                let charset = unquote(parameter[equals + 1..].trim_ascii());
                parsed.charset = Some(charset).filter(|charset| !charset.is_empty());
            }
        }
        parsed
    }

    /// Compares the type with `mime`; media types ignore case.
    pub fn is(&self, mime: &str) -> bool {
        self.mime.eq_ignore_ascii_case(mime.as_bytes())
    }

    pub fn is_html(&self) -> bool {
        self.is("text/html") || self.is("application/xhtml+xml")
    }
}

/// Returns the text up to the next `;` outside quotes, and the text behind that `;`.
fn split_parameter(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b';' if !is_quoted => return (&text[..index], &text[index + 1..]),
            _ => {}
        }
    }
    (text, &[])
}

/// Removes quotes. No charset name needs an escape, so escapes are not undone. The RFC knows no
/// single quotes, but servers write them.
fn unquote(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ ..] | [b'\'', inner @ ..] => {
            let end = inner.iter().position(|byte| b"\"'".contains(byte));
            inner[..end.unwrap_or(inner.len())].trim_ascii()
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_and_charset_are_split() {
        for (value, mime, charset) in [
            ("text/html; charset=UTF-8", "text/html", Some("UTF-8")),
            ("text/html;charset=\"utf-8\"", "text/html", Some("utf-8")),
            (" Text/HTML ", "Text/HTML", None),
            ("text/html; a=\"x;charset=no\"; Charset = yes ;", "text/html", Some("yes")),
            ("text/html; a=\"\\\";charset=no\"; charset=yes", "text/html", Some("yes")),
            ("text/html; charset=a; charset=b", "text/html", Some("a")),
            ("text/html; charset=", "text/html", None),
            ("text/html; charset='utf-8'", "text/html", Some("utf-8")),
            ("text/html; charset=\"utf-8", "text/html", Some("utf-8")),
            ("text/html;;;charset", "text/html", None),
            ("", "", None),
        ] {
            let parsed = ContentType::parse(value.as_bytes());
            assert_eq!(parsed.mime, mime.as_bytes(), "{value}");
            assert_eq!(parsed.charset, charset.map(str::as_bytes), "{value}");
        }
        assert!(ContentType::parse(b"TEXT/html;x").is_html());
        assert!(!ContentType::parse(b"text/htmlx").is_html());
    }
}
