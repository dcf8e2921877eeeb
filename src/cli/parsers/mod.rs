//! `nephila try`: runs the parsers from the command line, for people who debug a crawl or compare
//! parsers.
//!
//! JSON lines go in, and one JSON line comes out for each, in order. If a line cannot be answered,
//! its answer is `{"error": "..."}`. The length of a line is bounded, and so is what a parser makes
//! of it: the limits of a crawl apply. Everything runs on one thread, without a crawl and without
//! the network.

mod sitemap;

use crate::base::HashKey;
use crate::base::escape_cut;
use crate::base::limits::{DECODED_BYTES, TRY_LINE_BYTES_MAX};
use crate::crawl::seed::lines::{Line, LineReader};
use crate::engine::report::json_line;
use crate::proto::html::{LinkKind, LolReader, PageReader, RobotsMeta};
use crate::proto::http::{ContentType, Event, HttpError, Method, ResponseReader};
use crate::proto::robotstxt::Robots;
use crate::proto::simhash::SimHasher;
use crate::proto::url::{Normaliser, Url};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;

/// The parser to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parser {
    Url,
    Robots,
    Html,
    /// Like `Html`, but with lol_html as the parser.
    HtmlLol,
    Sitemap,
    Http,
}

/// Answers every line of `input` until it ends. Each answer is flushed, because a program may be
/// waiting for it.
pub fn run(parser: Parser, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut lines = LineReader::new(input, TRY_LINE_BYTES_MAX);
    while let Some((_, line)) = lines.next_line()? {
        let answer = match line {
            Line::Whole(bytes) => answer(parser, bytes),
            Line::TooLong(_) => {
                error(format!("the line is longer than {TRY_LINE_BYTES_MAX} bytes"))
            }
        };
        output.write_all(json_line(&answer)?.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// Returns the answer to one line.
pub fn answer(parser: Parser, line: &[u8]) -> Value {
    let answer = match parser {
        Parser::Url => parsed(line).and_then(try_url),
        Parser::Robots => parsed(line).and_then(try_robots),
        Parser::Html => parsed(line).and_then(|question| try_html(question, false)),
        Parser::HtmlLol => parsed(line).and_then(|question| try_html(question, true)),
        Parser::Sitemap => parsed(line).and_then(sitemap::try_sitemap),
        Parser::Http => parsed(line).and_then(try_http),
    };
    answer.unwrap_or_else(error)
}

fn error(why: String) -> Value {
    json!({ "error": why })
}

fn parsed<'a, Q: Deserialize<'a>>(line: &'a [u8]) -> Result<Q, String> {
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

fn value(answer: impl Serialize) -> Result<Value, String> {
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

fn parse_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| format!("{}: {error}", escape_cut(text, 200)))
}

// --- url ----------------------------------------------------------------------------------------

#[derive(Deserialize)]
struct UrlQuestion {
    url: String,
    base: Option<String>,
}

#[derive(Serialize)]
struct UrlAnswer<'a> {
    /// The resolved URL, without user info and fragment, which never leave the crawler.
    url: &'a str,
    /// The normal form, which a crawl requests.
    normal: &'a str,
    /// The form that is fingerprinted: URLs with the same form are fetched once.
    compared: &'a str,
    /// The host of the normal form. Slot and fingerprint are of the normal form too, and are those
    /// of a crawl whose hash secret is 0.
    host: &'a str,
    slot: u16,
    fingerprint: String,
}

fn try_url(question: UrlQuestion) -> Result<Value, String> {
    let url = match &question.base {
        Some(base) => parse_url(base)?
            .join(&question.url)
            .map_err(|error| format!("{}: {error}", escape_cut(&question.url, 200)))?,
        None => parse_url(&question.url)?,
    };
    let hash_key = HashKey::new(0);
    let normal = Normaliser::new(&[]).normalise(url.clone());
    value(UrlAnswer {
        url: url.as_str(),
        normal: normal.as_str(),
        compared: &normal.compared(),
        host: normal.host(),
        slot: normal.host_key(&hash_key).slot().0,
        fingerprint: format!("{:032x}", normal.fingerprint(&hash_key).0),
    })
}

// --- robots -------------------------------------------------------------------------------------

#[derive(Deserialize)]
struct RobotsQuestion {
    robots: String,
    agent: String,
    url: String,
}

#[derive(Serialize)]
struct RobotsAnswer<'a> {
    allowed: bool,
    /// The line that decided, with its path in normal form, such as `Disallow: /private/`.
    rule: Option<String>,
    crawl_delay_ms: Option<u64>,
    sitemaps: Vec<&'a str>,
}

fn try_robots(question: RobotsQuestion) -> Result<Value, String> {
    let robots = Robots::parse(question.robots.as_bytes(), product_token(&question.agent));
    let url;
    let target = if question.url.starts_with('/') {
        question.url.as_str()
    } else {
        url = parse_url(&question.url)?;
        url.path_and_query()
    };
    let verdict = robots.check(target);
    value(RobotsAnswer {
        allowed: verdict.allowed,
        rule: verdict.rule.map(|rule| {
            let verb = if rule.allow { "Allow" } else { "Disallow" };
            format!("{verb}: {}", rule.pattern)
        }),
        crawl_delay_ms: robots.crawl_delay_ms(),
        sitemaps: robots.sitemaps().collect(),
    })
}

/// Returns the product token of a whole User-Agent such as `nephila/0.1 (+...)`. This is the token
/// that sites write after `User-agent:`.
fn product_token(agent: &str) -> &str {
    let is_token = |byte: &u8| byte.is_ascii_alphabetic() || b"-_".contains(byte);
    let len = agent.bytes().take_while(|byte| is_token(byte)).count();
    &agent[..len]
}

// --- html ---------------------------------------------------------------------------------------

#[derive(Deserialize)]
struct HtmlQuestion {
    /// The page as text. Its UTF-8 bytes are read like a body.
    html: Option<String>,
    html_base64: Option<String>,
    file: Option<PathBuf>,
    base: String,
    content_type: Option<String>,
}

#[derive(Serialize)]
struct HtmlAnswer<'a> {
    links: Vec<HtmlLink<'a>>,
    title: Option<&'a str>,
    /// The canonical URL, resolved like a link.
    canonical: Option<String>,
    /// The directives that the parser reads: `noindex, nofollow`, one of them, or none.
    robots: String,
    language: Option<&'a str>,
    charset: &'static str,
    /// The visible text, with white space collapsed.
    text: String,
    simhash: Option<String>,
    /// The number of links that are too long or beyond the limit of a page.
    links_dropped: u32,
}

#[derive(Serialize)]
struct HtmlLink<'a> {
    url: String,
    kind: &'static str,
    nofollow: bool,
    text: &'a str,
}

fn try_html(question: HtmlQuestion, lol: bool) -> Result<Value, String> {
    let page_url = parse_url(&question.base)?;
    let body = html_bytes(&question)?;
    let content_type = question.content_type.unwrap_or_default();
    let content_type = ContentType::parse(content_type.as_bytes());
    let charset = content_type.charset.and_then(|label| std::str::from_utf8(label).ok());
    let mut hasher = SimHasher::new();
    let mut text = Vec::new();
    let mut sink = |piece: &[u8]| {
        hasher.push_text(piece);
        text.extend_from_slice(piece);
    };
    let page = if lol {
        let mut reader = LolReader::new(charset);
        reader.push(&body, &mut sink);
        reader.finish(&mut sink)
    } else {
        let mut reader = PageReader::new(charset);
        reader.push(&body, &mut sink);
        reader.finish(&mut sink)
    };
    let base = page.base_url(&page_url);
    let resolved = |href: &str| base.join(href).ok().map(|url| url.as_str().to_owned());
    let links = page.links().filter_map(|link| {
        let url = resolved(link.href)?;
        let kind = kind_name(link.kind);
        Some(HtmlLink { url, kind, nofollow: link.nofollow(), text: link.text })
    });
    value(HtmlAnswer {
        links: links.collect(),
        title: page.title(),
        canonical: page.canonical().and_then(resolved),
        robots: robots_text(page.robots),
        language: page.language(),
        charset: page.charset,
        text: collapsed(&text),
        simhash: hasher.finish().map(|simhash| format!("{simhash:016x}")),
        links_dropped: page.link_over_count + page.link_cut_count,
    })
}

fn html_bytes(question: &HtmlQuestion) -> Result<Vec<u8>, String> {
    source_bytes("html", &question.html, &question.html_base64, &question.file)
}

/// Returns the bytes of a body, which is given as text, in base64 or as a file.
fn source_bytes(
    name: &str,
    text: &Option<String>,
    base64: &Option<String>,
    file: &Option<PathBuf>,
) -> Result<Vec<u8>, String> {
    match (text, base64, file) {
        (Some(text), None, None) => Ok(text.as_bytes().to_vec()),
        (None, Some(text), None) => BASE64.decode(text).map_err(|error| error.to_string()),
        (None, None, Some(path)) => {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
            // A longer file is cut, as a crawl cuts a body.
            let mut file = file.take(DECODED_BYTES as u64);
            file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
            Ok(bytes)
        }
        _ => Err(format!("give one of `{name}`, `{name}_base64` and `file`")),
    }
}

fn kind_name(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Anchor => "a",
        LinkKind::Area => "area",
        LinkKind::Link => "link",
        LinkKind::Iframe => "iframe",
        LinkKind::Frame => "frame",
        LinkKind::Refresh => "refresh",
    }
}

fn robots_text(robots: RobotsMeta) -> String {
    let directives = [(robots.noindex, "noindex"), (robots.nofollow, "nofollow")];
    let given: Vec<&str> = directives.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
    given.join(", ")
}

fn collapsed(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

// --- http ---------------------------------------------------------------------------------------

#[derive(Deserialize)]
struct HttpQuestion {
    response_base64: String,
    /// Whether the peer closed its side after these bytes.
    #[serde(default)]
    eof: bool,
    method: Option<String>,
}

#[derive(Serialize)]
struct HttpAnswer {
    status: Option<u16>,
    /// The headers as a list of [name, value], in the order of arrival. A header that was sent
    /// twice is listed twice.
    headers: Vec<(String, String)>,
    body_base64: String,
    complete: bool,
    reusable: bool,
    /// Why the response was refused after its head.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn try_http(question: HttpQuestion) -> Result<Value, String> {
    let method = match question.method.as_deref() {
        None | Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some(_) => return Err("`method` is GET or HEAD".to_owned()),
    };
    let bytes = BASE64.decode(&question.response_base64).map_err(|error| error.to_string())?;
    let mut reader = ResponseReader::new(method);
    let mut body = Vec::new();
    let mut end = read_response(&mut reader, &bytes, &mut body);
    if end.is_ok() && question.eof {
        end = reader.eof();
    }
    if let (Err(error), None) = (end, reader.head()) {
        return Err(error.to_string());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = reader.head().into_iter().flat_map(|head| head.headers());
    value(HttpAnswer {
        status: reader.head().map(|head| head.status()),
        headers: headers.map(|(name, value)| (text(name), text(value))).collect(),
        body_base64: BASE64.encode(&body),
        complete: reader.is_complete(),
        reusable: reader.is_reusable() && !question.eof,
        // A body that was cut is incomplete, not wrong.
        error: end.err().filter(|error| *error != HttpError::BodyCut).map(|e| e.to_string()),
    })
}

fn read_response(
    reader: &mut ResponseReader,
    bytes: &[u8],
    body: &mut Vec<u8>,
) -> Result<(), HttpError> {
    let mut rest = bytes;
    loop {
        let (used, event) = reader.feed(rest)?;
        rest = &rest[used..];
        match event {
            Event::NeedMore | Event::End => return Ok(()),
            Event::Body(piece) => body.extend_from_slice(piece),
            Event::Head => {}
        }
    }
}

#[cfg(test)]
mod tests;
