//! Why a response was given up. One value per cause, so that it can be logged and counted.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpError {
    /// The first bytes are no HTTP/1.x status line.
    NotHttp,
    Version,
    /// Not three digits, below 100, or followed by something that is no reason phrase.
    Status,
    /// An empty name, a byte that no name may have, or a blank before the colon of a field that
    /// says where the message ends.
    HeaderName,
    HeaderValue,
    /// A CR without its LF.
    LineEnd,
    HeadTooLarge,
    TooManyHeaders,
    TooManyInterim,
    /// 101, for which we never ask.
    Upgraded,
    /// Signed, not decimal, over u64, or several that differ.
    ContentLength,
    /// Chunked twice, or over a coding that we did not offer.
    TransferEncoding,
    ChunkSize,
    /// A control byte in a chunk's extensions, or a line end that is not CRLF.
    ChunkLine,
    /// A chunk's size line, or all extensions together, beyond their limits.
    ChunkLineTooLarge,
    /// No CRLF where the chunk's size says it ends.
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
    /// The stream ended too early; nothing it said was wrong.
    pub fn is_cut(self) -> bool {
        matches!(self, HttpError::NoResponse | HttpError::HeadCut | HttpError::BodyCut)
    }

    /// A bound on the head was reached.
    pub fn is_head_too_large(self) -> bool {
        use HttpError::*;
        matches!(self, HeadTooLarge | TooManyHeaders | TooManyInterim)
    }

    /// As logs and metrics spell it.
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
