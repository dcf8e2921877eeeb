//! `nephila try sitemap`: shows the URLs that a sitemap lists, and whether it may list them.

use super::{parse_url, source_bytes, value};
use crate::base::HashKey;
use crate::proto::http::Decoder;
use crate::proto::sitemap::{Entry, Scope, SitemapReader};
use crate::proto::url::{HostKey, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Deserialize)]
pub(super) struct SitemapQuestion {
    sitemap: Option<String>,
    sitemap_base64: Option<String>,
    file: Option<PathBuf>,
    /// The sitemap's own URL.
    url: String,
    /// The host whose robots.txt names the sitemap. The default is the sitemap's own host.
    submitter: Option<String>,
    charset: Option<String>,
}

#[derive(Serialize)]
struct SitemapAnswer {
    form: Option<&'static str>,
    entries: Vec<Listed>,
    refused: u32,
    over_cap: u32,
    /// Why the file could not be unpacked to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct Listed {
    /// The resolved URL, or the text as written if it is not a URL.
    url: String,
    allowed: bool,
    lastmod: Option<String>,
    priority: Option<f32>,
}

pub(super) fn try_sitemap(question: SitemapQuestion) -> Result<Value, String> {
    let url = parse_url(&question.url)?;
    let submitter = question.submitter.as_deref().unwrap_or(url.host());
    let hash_key = HashKey::new(0);
    let scope = Scope::new(&url, HostKey::of(&hash_key, submitter), &hash_key);
    let bytes =
        source_bytes("sitemap", &question.sitemap, &question.sitemap_base64, &question.file)?;
    let (bytes, error) = unpacked(bytes)?;
    let mut entries = Vec::new();
    let mut take = |entry: Entry<'_>| entries.push(listed(&url, scope, entry));
    let mut reader = SitemapReader::new(question.charset.as_deref());
    reader.push(&bytes, &mut take);
    let summary = reader.finish(&mut take);
    value(SitemapAnswer {
        form: summary.form.map(|form| form.name()),
        entries,
        refused: summary.refused_count,
        over_cap: summary.over_count,
        error,
    })
}

fn listed(sitemap: &Url, scope: Scope<'_>, entry: Entry<'_>) -> Listed {
    let url = sitemap.join(entry.loc);
    Listed {
        allowed: url.as_ref().is_ok_and(|url| scope.allows(url)),
        url: url.map_or_else(|_| entry.loc.to_owned(), |url| url.as_str().to_owned()),
        lastmod: (!entry.lastmod.is_empty()).then(|| entry.lastmod.to_owned()),
        priority: entry.priority_permille.map(|permille| f32::from(permille) / 1_000.0),
    }
}

/// Unpacks a gzip file, up to the decoder's limits, as a crawl does. Other files stay as they are.
fn unpacked(bytes: Vec<u8>) -> Result<(Vec<u8>, Option<String>), String> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok((bytes, None));
    }
    let mut decoder = Decoder::new(b"gzip").map_err(|error| error.to_string())?;
    let mut plain = Vec::new();
    let pushed = decoder.push(&bytes, &mut |piece: &[u8]| plain.extend_from_slice(piece));
    let error = pushed.and_then(|()| decoder.finish()).err();
    Ok((plain, error.map(|error| error.to_string())))
}
