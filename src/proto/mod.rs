//! Protocols and formats: bytes go in, values come out. Nothing here does I/O, and every streaming
//! parser can stop and continue at any byte. A module here uses none of its neighbours but [`url`].
//! Any core may use it; a value stays on the core that made it.

pub mod dnswire;
pub mod html;
pub mod http;
pub mod robotstxt;
pub mod simhash;
pub mod sitemap;
pub mod url;
pub mod warc;
