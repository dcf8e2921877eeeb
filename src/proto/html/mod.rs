//! HTML as a crawler reads it: links, text, and what the page says about itself, read from a stream
//! of bytes.
//!
//! ```text
//! body bytes -> charset (UTF-8 from here) -> tokenizer -> collector -> Page
//!                                                              \-> visible text, piece by piece
//! ```
//!
//! [`PageReader`] does all of this. It owns the state of one page. It takes the body in chunks cut
//! anywhere and gives the same [`Page`] however they were cut. It copies nothing but what it keeps,
//! and its memory is bounded by `limits` whatever the page holds. [`lol`] gives the same result by
//! way of lol_html: a second opinion in tests, and the extractor of `--extractor lol`. Nothing here
//! does I/O; a reader belongs to the core that fetches the page.

mod attributes;
pub mod charset;
mod collapsed;
mod collector;
mod crowd;
pub mod lol;
mod meta;
mod name;
mod page;
mod plain;
mod prescan;
mod reader;
mod reference;
mod tokenizer;
mod tree;

#[cfg(test)]
mod tests;

pub use crowd::LinkTerms;
pub use lol::LolReader;
pub use meta::{RobotsMeta, charset_label, refresh_url};
pub use name::{TagName, Traits};
pub use page::{Link, LinkKind, Page, Rel};
pub use prescan::prescan;
pub use reader::{NoText, PageReader, TextSink};
pub use tokenizer::{Content, Run, Tag, TokenSink, Tokenizer, Value, WholeLink};
