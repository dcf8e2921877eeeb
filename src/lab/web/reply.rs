//! Responses as bytes: the head, then the body as it is, chunked, as gzip, or both.
//!
//! A plain body is written directly behind its head: Content-Length is left blank at first and
//! filled in afterwards. gzip bodies are put together from paragraphs that were deflated once.

use crate::base::WallTime;
use crate::lab::web::Web;
use crate::lab::web::brain::{Answer, ROBOTS_HOP_PATH, Reply};
use crate::lab::web::chance::{Dice, mix};
use crate::lab::web::names::{push_number, push_padded};
use crate::lab::web::page::Pasted;

const LENGTH_WIDTH: usize = 10;
/// How many bytes a stored deflate block can hold (RFC 1951 3.2.4).
const STORED_BYTES_MAX: usize = 65_535;
const CHUNK_BYTES_MAX: u32 = 8_192;

impl Web {
    /// Appends the whole response that `reply` plans.
    pub fn write_response(&self, reply: &Reply, out: &mut Vec<u8>) {
        self.push_status(reply, out);
        if reply.status == 304 {
            return out.extend_from_slice(b"\r\n");
        }
        if let Answer::Body { index, key } = reply.answer {
            return self.push_brought(index, key, out);
        }
        let mut pasted = Vec::with_capacity(64);
        if !reply.gzip && !reply.chunked {
            out.extend_from_slice(b"Content-Length: ");
            let length_start = out.len();
            out.extend_from_slice(&[b' '; LENGTH_WIDTH]);
            out.extend_from_slice(b"\r\n\r\n");
            let body_start = out.len();
            self.push_body(reply, out, &mut pasted);
            let length = out.len() - body_start;
            return fill_length(&mut out[length_start..length_start + LENGTH_WIDTH], length);
        }
        let mut body = Vec::new();
        self.push_body(reply, &mut body, &mut pasted);
        if reply.gzip {
            out.extend_from_slice(b"Content-Encoding: gzip\r\n");
            let mut packed = Vec::with_capacity(body.len());
            self.push_gzip(&body, &pasted, &mut packed);
            body = packed;
        }
        if reply.chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            push_chunks(&body, out);
        } else {
            out.extend_from_slice(b"Content-Length: ");
            push_number(body.len() as u32, out);
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(&body);
        }
    }

    fn push_brought(&self, index: u32, key: u64, out: &mut Vec<u8>) {
        let coded = self.bodies().map_or(&[][..], |bodies| bodies.coded(index));
        let mut remark = Vec::new();
        self.push_gzip(format!("<!-- {key:016x} -->\n").as_bytes(), &[], &mut remark);
        out.extend_from_slice(b"Content-Encoding: gzip\r\nContent-Length: ");
        push_number((coded.len() + remark.len()) as u32, out);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(coded);
        out.extend_from_slice(&remark);
    }

    /// Appends the status line and the header fields, except the body's framing and the empty line.
    fn push_status(&self, reply: &Reply, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        push_number(reply.status.into(), out);
        out.push(b' ');
        out.extend_from_slice(reason(reply.status).as_bytes());
        out.extend_from_slice(b"\r\nServer: nephila-web\r\n");
        match reply.answer {
            Answer::Page(place) => {
                out.extend_from_slice(b"Content-Type: text/html; charset=utf-8\r\nETag: ");
                push_tag(self.etag(place), out);
            }
            Answer::Unchanged(place) => {
                out.extend_from_slice(b"ETag: ");
                push_tag(self.etag(place), out);
            }
            Answer::Redirect { to } => {
                out.extend_from_slice(b"Content-Type: text/html\r\nLocation: ");
                self.push_origin(to.host, out);
                self.push_path(to, out);
                out.extend_from_slice(b"\r\n");
            }
            Answer::Body { .. } => out.extend_from_slice(b"Content-Type: text/html\r\n"),
            Answer::Robots { .. } => out.extend_from_slice(b"Content-Type: text/plain\r\n"),
            Answer::Sitemap { part, .. } => {
                out.extend_from_slice(b"Content-Type: ");
                out.extend_from_slice(part.content_type());
                out.extend_from_slice(b"\r\n");
            }
            Answer::RobotsElsewhere { hop } => {
                out.extend_from_slice(b"Content-Type: text/html\r\nLocation: ");
                self.push_origin(hop.at, out);
                out.extend_from_slice(ROBOTS_HOP_PATH.as_bytes());
                push_number(hop.of, out);
                out.push(b'/');
                match hop.left {
                    Some(left) => push_number(left, out),
                    None => out.extend_from_slice(b"loop"),
                }
                out.extend_from_slice(b"\r\n");
            }
            Answer::Pause { until } => {
                out.extend_from_slice(b"Content-Type: text/html\r\nRetry-After: ");
                push_date(until, out);
                out.extend_from_slice(b"\r\n");
            }
            Answer::Note { retry_after_seconds } => {
                out.extend_from_slice(b"Content-Type: text/html\r\n");
                if retry_after_seconds > 0 {
                    out.extend_from_slice(b"Retry-After: ");
                    push_number(retry_after_seconds, out);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        if reply.close {
            out.extend_from_slice(b"Connection: close\r\n");
        }
    }

    fn push_body(&self, reply: &Reply, out: &mut Vec<u8>, pasted: &mut Vec<Pasted>) {
        match reply.answer {
            Answer::Page(place) => self.push_page(place, out, pasted),
            Answer::Robots { host, edition } => self.push_robots(host, edition, out),
            Answer::Sitemap { host, part } => self.push_sitemap(host, part, out),
            Answer::Unchanged(_) | Answer::Body { .. } => {}
            Answer::Redirect { .. }
            | Answer::RobotsElsewhere { .. }
            | Answer::Note { .. }
            | Answer::Pause { .. } => {
                let reason = reason(reply.status).as_bytes();
                out.extend_from_slice(b"<!doctype html>\n<title>");
                out.extend_from_slice(reason);
                out.extend_from_slice(b"</title>\n<h1>");
                out.extend_from_slice(reason);
                out.extend_from_slice(b"</h1>\n");
            }
        }
    }

    /// Appends one gzip member (RFC 1952): stored blocks for the page's own text, deflated blocks
    /// for pooled paragraphs.
    fn push_gzip(&self, plain: &[u8], pasted: &[Pasted], out: &mut Vec<u8>) {
        out.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
        let mut at = 0;
        for Pasted { start, paragraph } in pasted {
            let paragraph = self.text().paragraph(*paragraph);
            push_stored(&plain[at..*start], out);
            out.extend_from_slice(&paragraph.deflated);
            at = start + paragraph.html.len();
        }
        push_stored(&plain[at..], out);
        out.extend_from_slice(&[1, 0, 0, 255, 255]);
        out.extend_from_slice(&crc32fast::hash(plain).to_le_bytes());
        out.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    }
}

fn push_stored(bytes: &[u8], out: &mut Vec<u8>) {
    for piece in bytes.chunks(STORED_BYTES_MAX) {
        let length = piece.len() as u16;
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(piece);
    }
}

/// Appends a body in chunks of random sizes, so that cuts fall anywhere, in tags and in words.
fn push_chunks(body: &[u8], out: &mut Vec<u8>) {
    let mut dice = Dice::new(mix(body.len() as u64, 30));
    let mut rest = body;
    while !rest.is_empty() {
        let size = (1 + dice.below(CHUNK_BYTES_MAX) as usize).min(rest.len());
        let (chunk, behind) = rest.split_at(size);
        push_hex(size as u64, 1, out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        rest = behind;
    }
    out.extend_from_slice(b"0\r\n\r\n");
}

/// Appends an IMF-fixdate (RFC 9110 5.6.7).
fn push_date(at: WallTime, out: &mut Vec<u8>) {
    const DAYS: [&[u8]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let (year, month, day, hour, minute, second) = at.civil();
    // The epoch was a Thursday.
    out.extend_from_slice(DAYS[(at.unix_seconds() / 86_400 % 7) as usize]);
    out.extend_from_slice(b", ");
    push_padded(day as u32, 2, out);
    out.push(b' ');
    out.extend_from_slice(MONTHS[month as usize - 1]);
    out.push(b' ');
    push_padded(year as u32, 4, out);
    for (before, number) in [(b' ', hour), (b':', minute), (b':', second)] {
        out.push(before);
        push_padded(number as u32, 2, out);
    }
    out.extend_from_slice(b" GMT");
}

fn push_tag(tag: u64, out: &mut Vec<u8>) {
    out.push(b'"');
    push_hex(tag, 16, out);
    out.extend_from_slice(b"\"\r\n");
}

fn push_hex(number: u64, width: u32, out: &mut Vec<u8>) {
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(width);
    let nibbles = (0..digits).rev().map(|digit| (number >> (digit * 4)) as usize & 15);
    out.extend(nibbles.map(|nibble| b"0123456789abcdef"[nibble]));
}

/// Fills in a length, right-aligned. Blanks before it are optional white space (RFC 9110 5.6.3).
fn fill_length(field: &mut [u8], mut length: usize) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (length % 10) as u8;
        length /= 10;
        if length == 0 {
            break;
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        504 => "Gateway Timeout",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::web::WebSpec;
    use std::io::Read;

    fn body_of(response: &[u8], chunked: bool) -> Vec<u8> {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut head = httparse::Response::new(&mut headers);
        let length = head.parse(response).unwrap().unwrap();
        let mut rest = &response[length..];
        let field = |name: &str| {
            let header = head.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
            header.map(|h| std::str::from_utf8(h.value).unwrap())
        };
        if !chunked {
            assert_eq!(field("content-length").unwrap(), rest.len().to_string());
            return rest.to_vec();
        }
        assert_eq!(field("transfer-encoding"), Some("chunked"));
        let mut body = Vec::new();
        loop {
            let line = memchr::memchr(b'\r', rest).unwrap();
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            body.extend_from_slice(&rest[line + 2..line + 2 + size]);
            rest = &rest[line + 2 + size..];
            assert!(rest.starts_with(b"\r\n"));
            rest = &rest[2..];
            if size == 0 {
                assert!(rest.is_empty());
                return body;
            }
        }
    }

    #[test]
    fn every_framing_and_coding_carries_the_same_page() {
        let rough = WebSpec::profile("rough").unwrap();
        let web = Web::new(WebSpec { host_count: 3, page_count: 90, ..rough }).unwrap();
        for page in 0..web.graph().page_count(0) {
            let place = web.graph().place(0, page).unwrap();
            let mut plain = Vec::new();
            web.push_page(place, &mut plain, &mut Vec::new());
            for (gzip, chunked) in [(false, false), (false, true), (true, false), (true, true)] {
                let reply = Reply { gzip, chunked, ..Reply::new(200, Answer::Page(place)) };
                let mut out = Vec::new();
                web.write_response(&reply, &mut out);
                let mut body = body_of(&out, chunked);
                if gzip {
                    assert!(body.len() < plain.len());
                    let mut unpacked = Vec::new();
                    flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut unpacked).unwrap();
                    body = unpacked;
                }
                assert!(body == plain, "page {page} gzip {gzip} chunked {chunked}");
            }
        }
    }

    #[test]
    fn rfc_a_pause_names_its_date_as_clients_read_it() {
        for seconds in [0, 784_111_777, 1_767_225_600, 1_709_164_799, 4_102_444_800] {
            let mut out = Vec::new();
            push_date(WallTime(seconds * 1_000_000_000), &mut out);
            assert_eq!(crate::proto::http::parse_date(&out), Some(seconds));
            if seconds == 784_111_777 {
                assert_eq!(out, b"Sun, 06 Nov 1994 08:49:37 GMT", "the RFC's own example");
            }
        }
    }

    #[test]
    fn rfc_a_304_has_no_body_and_no_length() {
        let web = Web::new(WebSpec::profile("small").unwrap()).unwrap();
        let mut out = Vec::new();
        let reply = Reply::new(304, Answer::Unchanged(web.graph().root(0)));
        web.write_response(&reply, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("\"\r\n\r\n") && !text.contains("Content-Length"), "{text}");
    }
}
