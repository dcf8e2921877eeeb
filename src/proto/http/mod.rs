//! The client's side of HTTP/1.1: it turns requests into bytes and bytes into responses (RFC 9110,
//! RFC 9112).
//!
//! This module owns the wire format and nothing else: no socket, no clock, no retry. [`Request`]
//! writes a request into a buffer. Received pieces flow into a [`ResponseReader`], which returns
//! slices of the body that borrow from the piece it was given; these flow into a [`Decoder`], which
//! removes content codings. The small parsers beside them read single field values.
//!
//! Invariant: the same bytes give the same response and verdict however they are cut into pieces,
//! and a connection is never reused after a response whose framing was in doubt. Any core may use
//! this module; a value stays on the core that made it.
//!
//! We read some things more leniently than the grammar allows, because servers send them, but then
//! the connection is not reused: bare LF line ends in a head (RFC 9112 2.2 allows them), blank
//! lines before the head, blanks before a field's colon, and blanks after a chunk size. A response
//! that breaks the grammar in a way that moves the end of a message is refused.

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
