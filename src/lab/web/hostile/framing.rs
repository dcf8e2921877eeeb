//! Servers whose heads and framing are wrong, slow or without end (RFC 9112).

use super::Ask;
use super::script::{End, Script};

const HTML: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
/// A pause that is long enough for an honest client to have read all bytes sent before it.
const BREATH_MS: u32 = 50;
/// A response that no client may ever take for the answer to its request.
const FORGED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 11\r\n\r\ncounterfeit";

/// The honest page behind a hostile one. A client that reads anything else has mixed up two
/// answers.
pub(super) fn genuine(ask: &Ask<'_>) -> Script {
    Script::page(&format!("<title>genuine</title>{} {}", ask.name, ask.target))
}

/// The same page with more fields in its head.
fn genuine_with(fields: &str, ask: &Ask<'_>) -> Script {
    let page = format!("<title>genuine</title>{} {}", ask.name, ask.target);
    Script::with_fields(200, &format!("Content-Type: text/html\r\n{fields}"), page.as_bytes())
}

/// Serves an honest host: two pages on one connection.
pub(super) fn honest(ask: &Ask<'_>) -> Script {
    Script::page(&format!("<title>{}</title><a href=/next>next</a>", ask.name))
}

pub(super) fn silent(_: &Ask<'_>) -> Script {
    Script::new(0, End::Hold)
}

pub(super) fn slow_head(_: &Ask<'_>) -> Script {
    Script::raw(200, HTML).send("X-Slow: ").drip(b'a')
}

pub(super) fn slow_body(_: &Ask<'_>) -> Script {
    Script::raw(200, format!("{HTML}Content-Length: 100000\r\n\r\n<p>slowly ")).drip(b'a')
}

pub(super) fn stalled_body(_: &Ask<'_>) -> Script {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4000000\r\n\r\n";
    Script::new(200, End::Hold).send(head).repeat(vec![b'x'; 100_000], 39)
}

pub(super) fn endless_body(_: &Ask<'_>) -> Script {
    Script::raw(200, format!("{HTML}\r\n")).endless(b"<p>and on and on ").then(End::Close)
}

pub(super) fn endless_chunks(_: &Ask<'_>) -> Script {
    Script::raw(200, format!("{HTML}Transfer-Encoding: chunked\r\n\r\n"))
        .endless(b"10\r\n<p>and on and on\r\n")
        .then(End::Close)
}

pub(super) fn endless_header(_: &Ask<'_>) -> Script {
    Script::raw(200, format!("{HTML}X-Long: ")).endless(b"a").then(End::Close)
}

pub(super) fn endless_headers(_: &Ask<'_>) -> Script {
    Script::raw(200, HTML).endless(b"A: b\r\n").then(End::Close)
}

pub(super) fn endless_interim(_: &Ask<'_>) -> Script {
    Script::new(200, End::Close).endless(b"HTTP/1.1 103 Early Hints\r\n\r\n")
}

fn of_length(lines: &str) -> Script {
    Script::raw(200, format!("{HTML}{lines}\r\nhello")).send(FORGED)
}

pub(super) fn length_two(_: &Ask<'_>) -> Script {
    of_length("Content-Length: 5\r\nContent-Length: 50\r\n")
}

pub(super) fn length_negative(_: &Ask<'_>) -> Script {
    of_length("Content-Length: -5\r\n")
}

pub(super) fn length_signed(_: &Ask<'_>) -> Script {
    of_length("Content-Length: +5\r\n")
}

pub(super) fn length_hex(_: &Ask<'_>) -> Script {
    of_length("Content-Length: 0x5\r\n")
}

pub(super) fn length_over(_: &Ask<'_>) -> Script {
    of_length("Content-Length: 18446744073709551621\r\n")
}

/// A client that goes by Content-Length would take the forged response for the next one.
pub(super) fn length_and_chunked(_: &Ask<'_>) -> Script {
    let framing = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
    Script::raw(200, format!("{HTML}{framing}\r\n5\r\nhello\r\n0\r\n\r\n"))
}

fn chunked(body: &str) -> Script {
    Script::raw(200, format!("{HTML}Transfer-Encoding: chunked\r\n\r\n{body}"))
}

pub(super) fn chunk_overflow(_: &Ask<'_>) -> Script {
    chunked("5\r\nhello\r\n10000000000000005\r\nworld\r\n0\r\n\r\n")
}

pub(super) fn chunk_no_end(_: &Ask<'_>) -> Script {
    chunked("5\r\nhelloworld\r\n0\r\n\r\n")
}

pub(super) fn chunk_extension(_: &Ask<'_>) -> Script {
    chunked("5;").endless(b"ext=1;").then(End::Close)
}

pub(super) fn chunk_trailers(_: &Ask<'_>) -> Script {
    chunked("5\r\nhello\r\n0\r\n").endless(b"Trailer: 1\r\n").then(End::Close)
}

pub(super) fn cut_length(_: &Ask<'_>) -> Script {
    Script::raw(200, format!("{HTML}Content-Length: 100\r\n\r\nhello")).then(End::Close)
}

pub(super) fn cut_chunked(_: &Ask<'_>) -> Script {
    chunked("5\r\nhello\r\n5\r\nwo").then(End::Close)
}

pub(super) fn forged(ask: &Ask<'_>) -> Script {
    honest(ask).send(FORGED)
}

/// Sends the forged answer while the connection is idle, perhaps in the client's pool.
pub(super) fn forged_late(ask: &Ask<'_>) -> Script {
    honest(ask).pause(BREATH_MS).send(FORGED)
}

pub(super) fn body_on_204(_: &Ask<'_>) -> Script {
    Script::raw(204, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello").send(FORGED)
}

pub(super) fn body_on_304(_: &Ask<'_>) -> Script {
    Script::raw(304, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello").send(FORGED)
}

pub(super) fn folded(_: &Ask<'_>) -> Script {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html;\r\n  \t charset=utf-8\r\n";
    Script::raw(200, format!("{head}Content-Length: 6\r\n\r\nfolded"))
}

pub(super) fn space_before_colon(_: &Ask<'_>) -> Script {
    Script::raw(200, format!("{HTML}Content-Length : 5\r\n\r\nhello")).send(FORGED)
}

pub(super) fn space_before_other(ask: &Ask<'_>) -> Script {
    genuine_with("X-Sp : a\r\n", ask)
}

pub(super) fn fields_many(ask: &Ask<'_>) -> Script {
    let fields: String = (0..150).map(|number| format!("X-{number}: of many\r\n")).collect();
    genuine_with(&fields, ask)
}

pub(super) fn no_status_line(_: &Ask<'_>) -> Script {
    Script::raw(0, "<html>an answer of HTTP/0.9, from 1991</html>\r\n\r\n")
}

pub(super) fn status_1000(_: &Ask<'_>) -> Script {
    Script::raw(1_000, "HTTP/1.1 1000 Beyond\r\nContent-Length: 5\r\n\r\nhello")
}

pub(super) fn status_999(_: &Ask<'_>) -> Script {
    Script::with_fields(999, "", b"go away")
}

pub(super) fn reset_mid_body(_: &Ask<'_>) -> Script {
    Script::raw(200, format!("{HTML}Content-Length: 100000\r\n\r\nthe first words"))
        .pause(BREATH_MS)
        .then(End::Reset)
}

/// Resets only a request on a connection that has carried one before.
pub(super) fn reset_reused(ask: &Ask<'_>) -> Script {
    if ask.served_count > 0 { Script::new(0, End::Reset) } else { genuine(ask) }
}

/// Closes the connection without an answer, whatever it has carried before.
pub(super) fn closes_unanswered(_: &Ask<'_>) -> Script {
    Script::new(0, End::Close)
}
