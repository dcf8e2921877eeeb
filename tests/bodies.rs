//! Long bodies, and many at once, in simulated crawls by the real shard.

#[path = "support/scripted.rs"]
mod scripted;
mod support;

use nephila::config::Settings;
use nephila::io::sim::Sim;
use nephila::metrics::{Count, merged};
use nephila::warc::StoredRecord;
use scripted::{page, say, serve};
use std::path::PathBuf;
use support::{Crawl, crawl_in, settings, url};

const MB: usize = 1024 * 1024;

/// The one response record of a URL.
fn stored(crawl: &Crawl, wanted: &str) -> StoredRecord {
    let is_warc = |path: &PathBuf| path.to_string_lossy().ends_with(".warc.gz");
    let files = crawl.files.iter().filter(|(path, _)| is_warc(path));
    let mut found: Vec<_> = files
        .flat_map(|(_, bytes)| nephila::warc::records(bytes).collect::<Vec<_>>())
        .map(|record| record.expect("a whole record"))
        .filter(|record| record.kind() == "response")
        .filter(|record| record.header("WARC-Target-URI") == Some(wanted))
        .collect();
    assert_eq!(found.len(), 1, "{wanted}");
    found.remove(0)
}

#[test]
fn a_body_over_the_default_cap_is_whole_where_the_setting_allows_it() {
    let sim = Sim::new(1);
    // Over what the decoder lets through by default, too.
    let filler = "<p>some forty million bytes of text".repeat(40 * MB / 35);
    let long = format!("{filler}<a href=/last>last</a>");
    let body_bytes = long.len();
    let seen = serve(&sim, move |asked| match asked.path.as_str() {
        "/" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
            say(format!("{head}Content-Length: {}\r\n\r\n{long}", long.len()))
        }
        _ => page(&[]),
    });
    let settings = Settings { body_bytes_max: 64 * MB, ..settings() };
    let crawl = crawl_in(&sim, 1, settings, vec![url("http://10.0.0.1/")]);
    let (metrics, _) = merged(&crawl.reports);
    assert_eq!(metrics.count(Count::Pages), 2);
    let paths: Vec<_> = seen.borrow().iter().map(|asked| asked.path.clone()).collect();
    assert_eq!(paths, ["/robots.txt", "/", "/last"], "the link at its end is followed");
    let record = stored(&crawl, "http://10.0.0.1/");
    assert_eq!(record.header("WARC-Truncated"), None);
    assert_eq!(record.payload().len(), body_bytes);
    record.verify().expect("its digest");
}
