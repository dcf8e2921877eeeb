//! Protocols and formats: bytes in, values out. Nothing here does I/O, and every parser that streams
//! goes on at any byte. A module here uses none of its neighbours but [`url`].

pub mod dnswire;
pub mod html;
pub mod http;
pub mod robotstxt;
pub mod simhash;
pub mod sitemap;
pub mod url;
pub mod warc;
