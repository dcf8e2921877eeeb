//! HTTP/1.1, the client's side of it: requests to bytes, bytes to responses (RFC 9110, RFC 9112).
//!
//! Owns the wire format and nothing else: no socket, no clock, no retry. A request flows out of
//! [`request`]; received pieces flow into a [`ResponseReader`], which lends the body back from the
//! piece it was given, and from there into a [`Decoder`] that removes content codings. The small
//! parsers beside them read single field values.
//!
//! Invariant: the same bytes give the same response and verdict however they are cut into pieces,
//! and a response whose framing was in doubt never leaves its connection reusable. Any core may use
//! it; a value stays on the core that made it.
//!
//! Where we are more lenient than the grammar, because servers are, the connection is not reused:
//! bare LF line ends in a head (RFC 9112 2.2 allows), blank lines before it, blanks before a
//! field's colon, blanks after a chunk size. Where the grammar is broken in a way that moves a
//! message's end, the response is refused.

mod body;
mod content_type;
mod date;
mod decode;
mod error;
mod framing;
mod head;
mod inflate;
mod link;
mod request;
mod response;

pub use content_type::ContentType;
pub use date::{RetryAfter, parse_date};
pub use decode::{Coding, DecodeError, Decoder, DecoderPool};
pub use error::HttpError;
pub use head::{ResponseHead, Version};
pub use link::{HeaderLink, header_links};
pub use request::{ACCEPT_ENCODING, Method, Request, RequestError, Validators, write_get};
pub use response::{Event, ResponseReader};
