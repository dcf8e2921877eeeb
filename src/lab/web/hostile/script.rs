//! A hostile answer as a plan: bytes, pauses, repetitions, and how the connection ends.
//!
//! This module owns no socket and no clock: [`crate::lab::web::connection`] plays a script through
//! the seam, so the same server misbehaves over real sockets and in simulation. A script is
//! bounded: a part that is called endless ends at [`WEB_ENDLESS_BYTES_MAX`] if the client has not
//! ended it before.

use crate::base::limits::WEB_ENDLESS_BYTES_MAX;

/// What a server does for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The status for the servers' log; 0 if the script sends no status line.
    pub status: u16,
    pub steps: Vec<Step>,
    /// The answer is a robots.txt, so the log keeps its body.
    pub has_rules: bool,
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Send(Vec<u8>),
    Pause {
        ms: u32,
    },
    /// Sends `bytes` `count` times, each time after a pause.
    Repeat {
        bytes: Vec<u8>,
        count: u64,
        pause_ms: u32,
    },
}

/// What happens to the connection after the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It waits for the next request, as an honest server's does.
    Keep,
    Close,
    Reset,
    /// It stays open and silent until the client leaves.
    Hold,
}

/// About how many bytes one repetition of an endless part has.
const ENDLESS_PIECE_BYTES: usize = 64 * 1024;
/// The time between two bytes of a server that sends as slowly as it can.
const DRIP_MS: u32 = 1_000;

impl Script {
    pub fn new(status: u16, end: End) -> Script {
        Script { status, steps: Vec::new(), has_rules: false, end }
    }

    /// Sends `bytes` and keeps the connection.
    pub fn raw(status: u16, bytes: impl Into<Vec<u8>>) -> Script {
        Script::new(status, End::Keep).send(bytes)
    }

    /// Makes an honest page with its Content-Length.
    pub fn page(body: &str) -> Script {
        Script::with_fields(200, "Content-Type: text/html; charset=utf-8\r\n", body.as_bytes())
    }

    pub fn plain_text(body: &[u8]) -> Script {
        Script::with_fields(200, "Content-Type: text/plain\r\n", body)
    }

    /// Makes an honest response with these field lines and its Content-Length.
    pub fn with_fields(status: u16, fields: &str, body: &[u8]) -> Script {
        let head = format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        Script::raw(status, [head.as_bytes(), body].concat())
    }

    pub fn redirect(location: &str) -> Script {
        Script::with_fields(302, &format!("Location: {location}\r\n"), b"")
    }

    #[must_use]
    pub fn send(mut self, bytes: impl Into<Vec<u8>>) -> Script {
        self.steps.push(Step::Send(bytes.into()));
        self
    }

    #[must_use]
    pub fn pause(mut self, ms: u32) -> Script {
        self.steps.push(Step::Pause { ms });
        self
    }

    #[must_use]
    pub fn repeat(mut self, bytes: impl Into<Vec<u8>>, count: u64) -> Script {
        self.steps.push(Step::Repeat { bytes: bytes.into(), count, pause_ms: 0 });
        self
    }

    /// Sends `bytes` for ever, as fast as the client takes them.
    #[must_use]
    pub fn endless(self, bytes: &[u8]) -> Script {
        let piece = bytes.repeat(ENDLESS_PIECE_BYTES.div_ceil(bytes.len().max(1)));
        let count = WEB_ENDLESS_BYTES_MAX / piece.len().max(1) as u64;
        self.repeat(piece, count)
    }

    /// Sends one byte a second, for ever.
    #[must_use]
    pub fn drip(mut self, byte: u8) -> Script {
        let count = WEB_ENDLESS_BYTES_MAX;
        self.steps.push(Step::Repeat { bytes: vec![byte], count, pause_ms: DRIP_MS });
        self
    }

    #[must_use]
    pub fn then(mut self, end: End) -> Script {
        self.end = end;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_honest_page_has_its_length() {
        let script = Script::page("four");
        let [Step::Send(bytes)] = &script.steps[..] else { panic!("one step") };
        assert!(bytes.ends_with(b"Content-Length: 4\r\n\r\nfour"));
        assert_eq!((script.status, script.end), (200, End::Keep));
    }

    #[test]
    fn what_is_endless_has_an_end_for_a_client_that_has_none() {
        let script = Script::new(200, End::Close).endless(b"abc");
        let [Step::Repeat { bytes, count, .. }] = &script.steps[..] else { panic!("one step") };
        let all_bytes = bytes.len() as u64 * count;
        assert!(bytes.chunks(3).all(|unit| unit == b"abc"));
        assert!(all_bytes <= WEB_ENDLESS_BYTES_MAX && all_bytes > WEB_ENDLESS_BYTES_MAX / 2);
    }
}
