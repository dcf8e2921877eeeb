//! Decides where a response's body ends, and whether its connection may carry another response (RFC
//! 9112 6.3, 9.3).

use super::head::{ResponseHead, Version};
use super::{HttpError, Method};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    None,
    Known(u64),
    Chunked,
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Framing {
    pub(super) length: BodyLength,
    /// The server would keep the connection open, and nothing in the head leaves the body's end in
    /// doubt.
    pub(super) persists: bool,
}

/// What the fields that affect framing say, before the rules are applied.
#[derive(Debug, Default)]
struct Fields {
    length: Option<u64>,
    length_is_bad: bool,
    codings: Codings,
    close: bool,
    keep_alive: bool,
}

/// The Transfer-Encoding lines, read as one list.
#[derive(Debug, Default)]
struct Codings {
    is_present: bool,
    count: usize,
    last_is_chunked: bool,
}

/// Applies the rules in the order of RFC 9112 6.3.
pub(super) fn framing(head: &ResponseHead, method: Method) -> Result<Framing, HttpError> {
    let fields = Fields::read(head);
    let mut persists = !fields.close && (head.version() == Version::Http11 || fields.keep_alive);
    if method == Method::Head || matches!(head.status(), 204 | 304) {
        // A 204 that announces a body may well send one (RFC 9110 8.6 forbids both).
        let announces = fields.codings.is_present || fields.length.is_some_and(|len| len > 0);
        let is_suspect = fields.length_is_bad || (head.status() == 204 && announces);
        persists &= !is_suspect;
        return Ok(Framing { length: BodyLength::None, persists });
    }
    // RFC 9112 6.1: Transfer-Encoding in HTTP/1.0, or beside a Content-Length, makes the framing
    // suspect: the connection is closed after the response.
    persists &= !fields.codings.is_present
        || (head.version() == Version::Http11 && fields.length.is_none() && !fields.length_is_bad);
    let codings = &fields.codings;
    if codings.last_is_chunked {
        // RFC 9112 7.4: other codings are only for clients that asked for them with TE; 6.1:
        // chunked is applied once.
        if codings.count > 1 {
            return Err(HttpError::TransferEncoding);
        }
        return Ok(Framing { length: BodyLength::Chunked, persists });
    }
    if codings.count > 0 {
        return Ok(Framing { length: BodyLength::UntilClose, persists: false });
    }
    if fields.length_is_bad {
        return Err(HttpError::ContentLength);
    }
    Ok(match fields.length {
        Some(len) => Framing { length: BodyLength::Known(len), persists },
        None => Framing { length: BodyLength::UntilClose, persists: false },
    })
}

impl Fields {
    fn read(head: &ResponseHead) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in head.headers() {
            // The length is compared first: it rules out most names without comparing text.
            match name.len() {
                10 if name.eq_ignore_ascii_case(b"connection") => fields.read_connection(value),
                14 if name.eq_ignore_ascii_case(b"content-length") => fields.read_length(value),
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                    fields.codings.read(value);
                }
                _ => {}
            }
        }
        fields
    }

    fn read_connection(&mut self, value: &[u8]) {
        for option in elements(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Reads a Content-Length value. RFC 9112 6.3 rule 5: a list of equal lengths counts as that
    /// length.
    fn read_length(&mut self, value: &[u8]) {
        for element in elements(value) {
            match (parse_length(element), self.length) {
                (Some(len), None) => self.length = Some(len),
                (Some(len), Some(before)) if len == before => {}
                _ => self.length_is_bad = true,
            }
        }
    }
}

impl Codings {
    fn read(&mut self, value: &[u8]) {
        self.is_present = true;
        for coding in elements(value).filter(|coding| !coding.is_empty()) {
            self.last_is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.count += 1;
        }
    }
}

fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Parses 1*DIGIT and nothing else: `+5`, `0x5`, `5.0` and the empty value give `None`.
fn parse_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |len, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        len.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::super::head::HeadReader;
    use super::BodyLength::*;
    use super::*;

    fn of(status_line: &str, fields: &str) -> Result<(BodyLength, bool), HttpError> {
        of_method(Method::Get, status_line, fields)
    }

    fn of_method(
        method: Method,
        status_line: &str,
        fields: &str,
    ) -> Result<(BodyLength, bool), HttpError> {
        let text = format!("HTTP/{status_line}\r\n{fields}\r\n");
        let head = HeadReader::default().feed(text.as_bytes()).unwrap().1.unwrap();
        framing(&head, method).map(|framing| (framing.length, framing.persists))
    }

    #[test]
    fn rfc_content_length_is_digits_once_or_equal() {
        let length = |value: &str| of("1.1 200 OK", &format!("Content-Length: {value}\r\n"));
        assert_eq!(length("42"), Ok((Known(42), true)));
        assert_eq!(length("0042"), Ok((Known(42), true)));
        assert_eq!(length("5, 5"), Ok((Known(5), true)));
        assert_eq!(length("5\r\nContent-Length: 5"), Ok((Known(5), true)));
        assert_eq!(length("18446744073709551615"), Ok((Known(u64::MAX), true)));
        let bad = ["", "+5", "-5", "0x5", "5 5", "5;", "5,", "5, 6", "5\r\ncontent-length: 6"];
        for value in bad.into_iter().chain(["18446744073709551616", "\u{665}"]) {
            assert_eq!(length(value), Err(HttpError::ContentLength), "{value:?}");
        }
    }

    #[test]
    fn rfc_chunked_wins_over_content_length_and_the_connection_ends() {
        let fields = "Content-Length: 5\r\nTransfer-Encoding: Chunked\r\n";
        assert_eq!(of("1.1 200 OK", fields), Ok((Chunked, false)));
        let fields = "Content-Length: x\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(of("1.1 200 OK", fields), Ok((Chunked, false)));
        assert_eq!(of("1.1 200 OK", "Transfer-Encoding: chunked\r\n"), Ok((Chunked, true)));
        let fields = "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n";
        assert_eq!(of("1.0 200 OK", fields), Ok((Chunked, false)), "9112 6.1: faulty in 1.0");
    }

    #[test]
    fn rfc_other_transfer_codings_end_with_the_connection_or_are_refused() {
        let coded = |value: &str| of("1.1 200 OK", &format!("Transfer-Encoding: {value}\r\n"));
        for value in ["gzip", "identity", "chunked, gzip", "chunkedchunked", "\"chunked\""] {
            assert_eq!(coded(value), Ok((UntilClose, false)), "{value}");
        }
        for value in ["gzip, chunked", "chunked, chunked", "x\r\nTransfer-Encoding: chunked"] {
            assert_eq!(coded(value), Err(HttpError::TransferEncoding), "{value}");
        }
        assert_eq!(coded("chunked\r\n  abc"), Ok((UntilClose, false)), "a fold is a space");
    }

    #[test]
    fn lenient_an_empty_transfer_encoding_is_none_but_ends_the_connection() {
        let fields = "Transfer-Encoding: ,\r\nContent-Length: 3\r\n";
        assert_eq!(of("1.1 200 OK", fields), Ok((Known(3), false)));
    }

    #[test]
    fn rfc_some_responses_have_no_body_whatever_they_say() {
        assert_eq!(of("1.1 304 x", "Content-Length: 10\r\n"), Ok((None, true)));
        assert_eq!(of("1.1 304 x", "Transfer-Encoding: chunked\r\n"), Ok((None, true)));
        assert_eq!(of("1.1 204 x", ""), Ok((None, true)));
        assert_eq!(of("1.1 204 x", "Content-Length: 0\r\n"), Ok((None, true)));
        assert_eq!(of("1.1 204 x", "Content-Length: 10\r\n"), Ok((None, false)));
        assert_eq!(of("1.1 304 x", "Content-Length: -1\r\n"), Ok((None, false)));
        let head = of_method(Method::Head, "1.1 200 OK", "Content-Length: 10\r\n");
        assert_eq!(head, Ok((None, true)));
    }

    #[test]
    fn rfc_persistence_follows_version_and_connection() {
        let kept = |version: &str, connection: &str| {
            let fields = format!("Content-Length: 1\r\n{connection}");
            of(&format!("{version} 200 OK"), &fields).unwrap().1
        };
        assert!(kept("1.1", ""));
        assert!(!kept("1.1", "Connection: Close\r\n"));
        assert!(!kept("1.1", "Connection: keep-alive, close\r\n"));
        assert!(!kept("1.1", "Connection: x\r\nConnection: close\r\n"));
        assert!(!kept("1.0", ""));
        assert!(kept("1.0", "Connection: Keep-Alive\r\n"));
        assert_eq!(of("1.1 200 OK", ""), Ok((UntilClose, false)));
    }
}
