//! The reasons why a response was given up. There is one value per cause, so that each can be
//! logged and counted.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpError {
    /// The first bytes are not an HTTP/1.x status line.
    NotHttp,
    Version,
    /// The status is not three digits, is below 100, or is followed by something that is not a
    /// reason phrase.
    Status,
    /// The name is empty, has a byte that no name may have, or has a blank before the colon of a
    /// field that says where the message ends.
    HeaderName,
    HeaderValue,
    /// A CR is not followed by its LF.
    LineEnd,
    HeadTooLarge,
    TooManyHeaders,
    TooManyInterim,
    /// The server answered 101, although we never ask for an upgrade.
    Upgraded,
    /// The value is signed, not decimal or over u64, or several values differ.
    ContentLength,
    /// Chunked is applied twice, or over a coding that we did not offer.
    TransferEncoding,
    ChunkSize,
    /// A chunk's extensions hold a control byte, or its line does not end in CRLF.
    ChunkLine,
    /// A chunk's size line, or all extensions together, exceed their limits.
    ChunkLineTooLarge,
    /// No CRLF stands where the chunk's data ends by its size.
    ChunkEnd,
    TrailersTooLarge,
    /// The stream ended before the first byte of a response.
    NoResponse,
    /// The stream ended inside the head.
    HeadCut,
    /// The stream ended before the body's length or last chunk.
    BodyCut,
}

impl HttpError {
    /// Reports whether the stream ended too early, with nothing wrong in what came.
    pub fn is_cut(self) -> bool {
        matches!(self, HttpError::NoResponse | HttpError::HeadCut | HttpError::BodyCut)
    }

    /// Reports whether a bound on the head was reached.
    pub fn is_head_too_large(self) -> bool {
        use HttpError::*;
        matches!(self, HeadTooLarge | TooManyHeaders | TooManyInterim)
    }

    /// Returns the name of the cause in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            HttpError::NotHttp => "not_http",
            HttpError::Version => "version",
            HttpError::Status => "status",
            HttpError::HeaderName => "header_name",
            HttpError::HeaderValue => "header_value",
            HttpError::LineEnd => "line_end",
            HttpError::HeadTooLarge => "head_too_large",
            HttpError::TooManyHeaders => "too_many_headers",
            HttpError::TooManyInterim => "too_many_interim",
            HttpError::Upgraded => "upgraded",
            HttpError::ContentLength => "content_length",
            HttpError::TransferEncoding => "transfer_encoding",
            HttpError::ChunkSize => "chunk_size",
            HttpError::ChunkLine => "chunk_line",
            HttpError::ChunkLineTooLarge => "chunk_line_too_large",
            HttpError::ChunkEnd => "chunk_end",
            HttpError::TrailersTooLarge => "trailers_too_large",
            HttpError::NoResponse => "no_response",
            HttpError::HeadCut => "head_cut",
            HttpError::BodyCut => "body_cut",
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl std::error::Error for HttpError {}

impl From<httparse::Error> for HttpError {
    fn from(error: httparse::Error) -> HttpError {
        match error {
            httparse::Error::HeaderName => HttpError::HeaderName,
            httparse::Error::HeaderValue => HttpError::HeaderValue,
            httparse::Error::NewLine => HttpError::LineEnd,
            httparse::Error::Status => HttpError::Status,
            httparse::Error::TooManyHeaders => HttpError::TooManyHeaders,
            httparse::Error::Version => HttpError::Version,
            // Only requests have tokens outside header names.
            httparse::Error::Token => HttpError::NotHttp,
        }
    }
}
