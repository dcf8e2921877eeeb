//! Reads one response from received pieces: head, body, end.
//!
//! [`ResponseReader`] owns the framing of one response. Pieces of a connection's bytes flow in,
//! [`Event`]s flow out; a body event is a slice of the piece given, without the transfer coding.
//! The life of a reader:
//!
//! 1. [`ResponseReader::new`] when the request has been sent.
//! 2. [`ResponseReader::feed`] with each received piece, again with what it left unused, until it
//! 2. [`ResponseReader::feed`] with each received piece, and again with the part it left unused,
//!    until it answers `NeedMore` (then receive more) or `End`.
//! 3. [`ResponseReader::eof`] if the peer closes: this is right for a body that only a close can
//!    end, and an error for any other.
//!
//! The caller decides how long and how large a body may get ([`ResponseReader::body_bytes`]).

use super::body::{ChunkEvent, ChunkReader};
use super::framing::{BodyLength, framing};
use super::head::HeadReader;
use super::{HttpError, Method, ResponseHead};
use crate::base::limits::INTERIM_RESPONSE_COUNT_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// All input is used; receive more, or call `eof`.
    NeedMore,
    /// [`ResponseReader::head`] has the final response's head. This event comes once.
    Head,
    /// The next body bytes, never empty.
    Body(&'i [u8]),
    /// The response is complete. Unused input behind it belongs to no request of ours.
    End,
}

#[derive(Debug)]
pub struct ResponseReader {
    method: Method,
    state: State,
    head: Option<ResponseHead>,
    interim_count: usize,
    body_bytes: u64,
    /// False as soon as something read so far means that the connection must not be reused.
    persists: bool,
}

#[derive(Debug)]
enum State {
    Head(HeadReader),
    /// The number of body bytes still to come, for a body of known length; never zero.
    Length(u64),
    Chunked(ChunkReader),
    UntilClose,
    Done,
    Failed(HttpError),
}

impl ResponseReader {
    /// Makes a reader. `method` is that of the request: the response to a HEAD has no body.
    pub fn new(method: Method) -> ResponseReader {
        ResponseReader {
            method,
            state: State::Head(HeadReader::default()),
            head: None,
            interim_count: 0,
            body_bytes: 0,
            persists: true,
        }
    }

    /// Reads on. Returns how many bytes of `input` were used and what they led to; the caller feeds
    /// the rest, even an empty rest, until `NeedMore` or `End`. After an error every call repeats
    /// it.
    pub fn feed<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Event<'i>), HttpError> {
        let step = match &mut self.state {
            State::Head(_) => self.feed_head(input),
            State::Length(_) | State::UntilClose | State::Chunked(_) => self.feed_body(input),
            State::Done => {
                self.persists &= input.is_empty();
                Ok((0, Event::End))
            }
            State::Failed(error) => Err(*error),
        };
        if let Err(error) = step {
            self.fail(error);
        }
        step
    }

    /// Takes note that the peer has closed its side; an error if the response is not whole.
    pub fn eof(&mut self) -> Result<(), HttpError> {
        let error = match &self.state {
            State::Done => return Ok(()),
            State::Failed(error) => *error,
            State::Head(reader) if !reader.has_begun() && self.interim_count == 0 => {
                HttpError::NoResponse
            }
            State::Head(_) => HttpError::HeadCut,
            State::Chunked(reader) if !reader.has_last_chunk() => HttpError::BodyCut,
            State::Length(_) => HttpError::BodyCut,
            State::UntilClose | State::Chunked(_) => {
                self.persists = false;
                self.state = State::Done;
                return Ok(());
            }
        };
        self.fail(error);
        Err(error)
    }

    /// Returns the final response's head, once [`Event::Head`] has come.
    pub fn head(&self) -> Option<&ResponseHead> {
        self.head.as_ref()
    }

    /// Gives the head away, to be stored with the body; the reader works on without it.
    pub fn take_head(&mut self) -> Option<ResponseHead> {
        self.head.take()
    }

    /// Returns the number of body bytes so far, without transfer coding, before content decoding.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Returns the bytes of memory held for an incomplete head; a head that is complete and body
    /// bytes are the caller's.
    pub fn held_bytes(&self) -> usize {
        match &self.state {
            State::Head(reader) => reader.held_bytes(),
            _ => 0,
        }
    }

    /// Returns the number of body bytes still to come, if the server announced a length.
    pub fn body_bytes_left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Reports whether the whole response has been read. True as soon as its last byte is used,
    /// before `End`.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Reports whether the connection may carry another request: the response is complete and
    /// framed, the server keeps the connection open, nothing was in doubt, and no bytes came behind
    /// it.
    pub fn is_reusable(&self) -> bool {
        self.is_complete() && self.persists
    }

    fn feed_head<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Event<'i>), HttpError> {
        let mut used = 0;
        while let State::Head(reader) = &mut self.state {
            let (head_bytes, head) = reader.feed(&input[used..])?;
            used += head_bytes;
            let Some(head) = head else { return Ok((used, Event::NeedMore)) };
            self.persists &= !reader.was_lenient();
            match head.status() {
                101 => return Err(HttpError::Upgraded),
                100..200 => {
                    self.interim_count += 1;
                    if self.interim_count > INTERIM_RESPONSE_COUNT_MAX {
                        return Err(HttpError::TooManyInterim);
                    }
                    *reader = HeadReader::default();
                }
                _ => {
                    let framing = framing(&head, self.method)?;
                    self.persists &= framing.persists;
                    self.head = Some(head);
                    self.begin_body(framing.length, used < input.len());
                }
            }
        }
        Ok((used, Event::Head))
    }

    fn begin_body(&mut self, length: BodyLength, has_more: bool) {
        match length {
            BodyLength::None | BodyLength::Known(0) => self.end(has_more),
            BodyLength::Known(left) => self.state = State::Length(left),
            BodyLength::Chunked => self.state = State::Chunked(ChunkReader::default()),
            BodyLength::UntilClose => self.state = State::UntilClose,
        }
    }

    fn feed_body<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Event<'i>), HttpError> {
        if input.is_empty() {
            return Ok((0, Event::NeedMore));
        }
        let (used, body) = match &mut self.state {
            State::Length(left) => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= len as u64;
                if *left == 0 {
                    self.end(len < input.len());
                }
                (len, &input[..len])
            }
            State::Chunked(reader) => match reader.feed(input)? {
                (used, ChunkEvent::NeedMore) => return Ok((used, Event::NeedMore)),
                (used, ChunkEvent::Data(data)) => (used, data),
                (used, ChunkEvent::End) => {
                    self.persists &= !reader.was_lenient();
                    self.end(used < input.len());
                    return Ok((used, Event::End));
                }
            },
            _ => (input.len(), input),
        };
        self.body_bytes += body.len() as u64;
        Ok((used, Event::Body(body)))
    }

    /// Ends the response. Bytes behind it (`has_more`) may be a second response that nobody asked
    /// for; the connection is not reused, so that they never meet the next request.
    fn end(&mut self, has_more: bool) {
        self.persists &= !has_more;
        self.state = State::Done;
    }

    fn fail(&mut self, error: HttpError) {
        self.persists = false;
        self.state = State::Failed(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a caller sees of a response: its events, whether it is whole, whether to keep the
    /// connection.
    #[derive(Debug, PartialEq, Eq)]
    struct Seen {
        status: Option<u16>,
        body: Vec<u8>,
        verdict: Result<(), HttpError>,
        reusable: bool,
        unused_bytes: usize,
    }

    fn read_in(wire: &[u8], step: usize, method: Method) -> Seen {
        let mut reader = ResponseReader::new(method);
        let (mut body, mut used_bytes) = (Vec::new(), 0);
        let mut verdict = Ok(());
        'pieces: for piece in wire.chunks(step) {
            let mut rest = piece;
            loop {
                match reader.feed(rest) {
                    Ok((used, event)) => {
                        (rest, used_bytes) = (&rest[used..], used_bytes + used);
                        match event {
                            Event::NeedMore => break,
                            Event::Head => assert!(reader.head().is_some()),
                            Event::Body(piece) => body.extend_from_slice(piece),
                            // The next piece, if any, is fed too: it must spoil the connection.
                            Event::End => break,
                        }
                    }
                    Err(error) => {
                        verdict = Err(error);
                        break 'pieces;
                    }
                }
            }
        }
        let verdict = verdict.and_then(|()| reader.eof());
        assert_eq!(verdict.is_ok(), reader.is_complete());
        assert_eq!(reader.body_bytes(), body.len() as u64);
        let unused_bytes = if verdict.is_ok() { wire.len() - used_bytes } else { 0 };
        let reusable = reader.is_reusable();
        Seen { status: reader.head().map(|h| h.status()), body, verdict, reusable, unused_bytes }
    }

    fn read(wire: &str) -> Seen {
        let whole = read_in(wire.as_bytes(), wire.len().max(1), Method::Get);
        for step in [1, 2, 3, 7] {
            assert_eq!(whole, read_in(wire.as_bytes(), step, Method::Get), "{wire:?} by {step}");
        }
        whole
    }

    #[test]
    fn a_framed_response_ends_without_a_close_and_leaves_the_connection() {
        let seen = read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(
            (seen.body.as_slice(), seen.verdict, seen.reusable),
            (&b"hello"[..], Ok(()), true)
        );
        let seen =
            read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
        assert_eq!((seen.body.as_slice(), seen.verdict, seen.reusable), (&b"hi"[..], Ok(()), true));
        let seen = read("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        assert_eq!((seen.status, seen.verdict, seen.reusable), (Some(404), Ok(()), true));
    }

    #[test]
    fn the_body_is_lent_from_the_input() {
        let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let mut reader = ResponseReader::new(Method::Get);
        let (used, event) = reader.feed(wire).unwrap();
        assert_eq!((used, event), (wire.len() - 5, Event::Head));
        assert_eq!(reader.body_bytes_left(), Some(5));
        let (_, event) = reader.feed(&wire[used..]).unwrap();
        let Event::Body(body) = event else { panic!("{event:?}") };
        assert_eq!(body.as_ptr(), wire[used..].as_ptr());
        assert!(reader.is_complete());
        assert_eq!(reader.feed(b""), Ok((0, Event::End)));
        assert!(reader.is_reusable());
    }

    #[test]
    fn a_forged_second_response_is_left_unused_and_spoils_the_connection() {
        let forged = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEvil";
        for first in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ] {
            let seen = read(&format!("{first}{forged}"));
            assert_eq!((seen.verdict, seen.reusable), (Ok(()), false), "{first}");
            assert_eq!(seen.unused_bytes, forged.len(), "{first}");
            assert!(read(first).reusable, "{first}");
        }
    }

    #[test]
    fn rfc_a_close_ends_only_what_has_no_other_end() {
        let seen = read("HTTP/1.1 200 OK\r\n\r\nall of it");
        assert_eq!((seen.body.as_slice(), seen.verdict), (&b"all of it"[..], Ok(())));
        assert!(!seen.reusable);
        let cut = |wire: &str| read(wire).verdict;
        assert_eq!(cut(""), Err(HttpError::NoResponse));
        assert_eq!(cut("HTTP/1.1 20"), Err(HttpError::HeadCut));
        assert_eq!(cut("\r"), Err(HttpError::HeadCut));
        assert_eq!(cut("HTTP/1.1 100 Continue\r\n\r\n"), Err(HttpError::HeadCut));
        let body = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell";
        assert_eq!(cut(body), Err(HttpError::BodyCut));
        assert_eq!(read(body).body, b"hell");
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0";
        assert_eq!(cut(chunked), Err(HttpError::BodyCut));
        let seen = read(&format!("{chunked}\r\n"));
        assert_eq!((seen.verdict, seen.reusable), (Ok(()), false));
    }

    #[test]
    fn interim_responses_are_skipped_up_to_a_bound() {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let last = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let seen = read(&[&interim.repeat(INTERIM_RESPONSE_COUNT_MAX), last].concat());
        assert_eq!((seen.status, seen.reusable), (Some(200), true));
        let seen = read(&[&interim.repeat(INTERIM_RESPONSE_COUNT_MAX + 1), last].concat());
        assert_eq!(seen.verdict, Err(HttpError::TooManyInterim));
        let seen = read("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n");
        assert_eq!(seen.verdict, Err(HttpError::Upgraded));
    }

    #[test]
    fn lenient_readings_end_the_connection() {
        for wire in [
            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
            "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\n\r\n",
        ] {
            let seen = read(wire);
            assert_eq!((seen.body.as_slice(), seen.reusable), (&b"ok"[..], false), "{wire:?}");
        }
    }

    #[test]
    fn the_response_to_a_head_request_has_no_body() {
        let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let seen = read_in(wire, wire.len(), Method::Head);
        assert_eq!((seen.verdict, seen.reusable), (Ok(()), true));
    }

    #[test]
    fn after_an_error_the_reader_only_repeats_it() {
        let mut reader = ResponseReader::new(Method::Get);
        assert_eq!(reader.feed(b"FTP"), Err(HttpError::NotHttp));
        assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\n"), Err(HttpError::NotHttp));
        assert_eq!(reader.eof(), Err(HttpError::NotHttp));
        assert!(!reader.is_reusable());
    }
}
