//! Counters that never move mislead their readers. Every count, timed span, stage, gauge, wait and
//! hold must be written by the code that crawls. The test looks for that in the source, and checks
//! that the counters move in a crawl.

mod code;
mod support;

use code::without_comments_and_texts;
use nephila::crawl::config::Settings;
use nephila::crawl::metrics::{Count, Metrics, Span, merged};
use nephila::lab::web::WebSpec;
use std::fs;
use std::path::Path;
use support::{crawl, settings};

/// Code that shows the figures, measures others, or defines them. The code that crawls is in the
/// rest.
const READERS: &[&str] = &["crawl/metrics", "engine/report", "lab", "cli", "main.rs"];

/// Returns the code of the crawler, one line per file, without comments, texts and tests.
fn working_code() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut codes = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let inner = path.strip_prefix(&root).expect("in src").to_string_lossy().into_owned();
            if READERS.contains(&inner.as_str()) || inner.contains("test") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                codes.push(working(&fs::read_to_string(path).expect("a text")));
            }
        }
    }
    assert!(codes.len() > 100, "the crawler's source was found");
    codes
}

fn working(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().expect("a first part");
    without_comments_and_texts(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the members of an enum that `kinds!` declares, or the fields of a struct, in the source
/// of the metrics.
fn declared(file: &str, name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/crawl/metrics").join(file);
    let code = without_comments_and_texts(&fs::read_to_string(path).expect("a text"));
    let start = [format!("{name} {{"), format!("pub struct {name} {{")];
    let from = start.iter().filter_map(|start| code.find(start.as_str())).max();
    let body = &code[from.expect("a declaration")..];
    let body = &body[body.find('{').expect("a body") + 1..];
    let end = ["\n    }", "\n}"].iter().filter_map(|end| body.find(end)).min();
    let body = &body[..end.expect("an end")];
    let names = body.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("pub ");
        let end = line.find([' ', ':', '=']).filter(|end| *end > 0)?;
        line.ends_with(',').then(|| line[..end].to_owned())
    });
    names.collect()
}

/// Reports whether a member is named other than to read it.
fn is_written(codes: &[String], kind: &str, member: &str) -> bool {
    let path = format!("{kind}::{member}");
    codes.iter().any(|code| {
        code.match_indices(&path).any(|(at, _)| {
            let after = &code[at + path.len()..];
            let is_whole = !after.starts_with(|char: char| char.is_alphanumeric() || char == '_');
            is_whole && !code[..at].ends_with(".count(")
        })
    })
}

/// Reports whether a literal of the struct has the field, or something is assigned to it.
fn is_field_written(codes: &[String], name: &str, field: &str) -> bool {
    let assigned = [format!(".{field} ="), format!(".{field} +=")];
    let literal = format!("{name} {{");
    let is_in = |body: &str| {
        let names = body.split([',', '{']).map(|part| part.split(':').next().unwrap_or("").trim());
        names.into_iter().any(|name| name == field)
    };
    codes.iter().any(|code| {
        let mut bodies = code.match_indices(&literal).map(|(at, _)| &code[at + literal.len()..]);
        bodies.any(|body| is_in(&body[..body.find('}').unwrap_or(body.len())]))
            || assigned.iter().any(|form| code.contains(form.as_str()))
    })
}

#[test]
fn every_count_span_stage_and_hold_is_named_where_the_crawl_works() {
    let codes = working_code();
    for kind in ["Count", "Span", "Stage", "Hold"] {
        let members = declared("kinds.rs", kind);
        assert!(members.len() > 5, "{kind}: {members:?}");
        let idle: Vec<_> =
            members.iter().filter(|member| !is_written(&codes, kind, member)).collect();
        assert!(idle.is_empty(), "{kind}: no code writes {idle:?}");
    }
    // These are planted breaches: no code writes these members.
    assert!(!is_written(&codes, "Count", "Unicorns"));
    let asks = [working("fn f() { metrics.count(Count::Pages) } // Count::Pages")];
    assert!(!is_written(&asks, "Count", "Pages"), "code that reads a count does not write it");
    assert!(!is_written(&[working("Count::PagesMore")], "Count", "Pages"), "another's name");
    assert!(is_written(&[working("metrics.add(Count::Pages, 1)")], "Count", "Pages"));
}

#[test]
fn every_gauge_and_every_wait_is_written_where_the_crawl_works() {
    let codes = working_code();
    for (file, name) in [("mod.rs", "Gauges"), ("waits.rs", "Waits")] {
        let fields = declared(file, name);
        assert!(fields.len() > 8, "{name}: {fields:?}");
        // The array of holds is written by a method of it.
        let fields = fields.iter().filter(|field| *field != "holds");
        let idle: Vec<_> = fields.filter(|field| !is_field_written(&codes, name, field)).collect();
        assert!(idle.is_empty(), "{name}: no code writes {idle:?}");
    }
    assert!(!is_field_written(&codes, "Gauges", "unicorns"));
    let is_written = |code: &str| is_field_written(&[code.to_owned()], "Gauges", "hosts");
    assert!(is_written("Gauges { a: f(1), hosts: 3, ..b }") && is_written("Gauges { a, hosts }"));
    assert!(!is_written("let more_hosts: u64 = 1") && !is_written("Other { hosts: 1 }"));
}

/// Counts that do not move in a crawl without faults, hostile servers and long waits.
const EXCEPTIONS: &[Count] = &[
    Count::LinksOverCap,
    Count::PagesOverLinkCap,
    Count::CheckpointFailures,
    Count::UrlsDropped,
    Count::UrlsTrapped,
    Count::SieveStalls,
    Count::SieveFailures,
    Count::QueueWaits,
    Count::QueueStalls,
    Count::QueueFailures,
    Count::HostsUncooled,
    Count::RobotsUnchanged,
    Count::RobotsRelaxed,
    Count::RobotsUndecided,
    Count::ErrandsRefused,
    Count::DelaysClamped,
    Count::BreakersOpened,
    Count::BreakersClosed,
    Count::OriginsGivenUp,
    Count::BodiesUndecoded,
    Count::BodiesCut,
    Count::BodiesShed,
    Count::BodyStalls,
    Count::SitemapsRefused,
    Count::SitemapUrlsRefused,
    Count::SitemapUrlsOverCap,
    Count::ConnectionsCrowded,
    // All links of the web lead to pages on any host, and none to a host that has ended.
    Count::LinksRefused,
    Count::LinksOutside,
    Count::HostsReturned,
    // The simulator's web has no TLS, its time stands still while a core works, and its mailboxes
    // and its control thread always have room.
    Count::TlsFull,
    Count::TlsResumed,
    Count::LongSteps,
    Count::MailboxesFull,
    Count::NoticesLost,
    Count::DiskPauses,
];

fn idle(metrics: &Metrics) -> Vec<&'static str> {
    let idle = |count: &&Count| metrics.count(**count) == 0;
    Count::ALL.iter().filter(idle).map(|count| count.name()).collect()
}

#[test]
fn an_ordinary_crawl_moves_every_count_but_those_of_trouble() {
    let spec = WebSpec { host_count: 60, page_count: 1_500, ..WebSpec::default() };
    let settings = Settings {
        // Queues, known URLs and hosts that have ended go to disk, and come back.
        seen_batch: 64,
        seen_memory_mb: 1,
        frontier_memory_mb: 0,
        host_cold_seconds: 0,
        checkpoint_seconds: 5,
        warc_file_bytes: 1 << 20,
        ..settings()
    };
    let crawl = crawl(5, spec, 2, settings);
    let (metrics, _) = merged(&crawl.reports);
    let excepted: Vec<&str> = EXCEPTIONS.iter().map(|count| count.name()).collect();
    let unmoved: Vec<&str> =
        idle(&metrics).into_iter().filter(|name| !excepted.contains(name)).collect();
    assert!(unmoved.is_empty(), "these never moved: {unmoved:?}");
    for span in Span::ALL.iter().filter(|span| **span != Span::Tls) {
        assert!(metrics.percentiles(*span).count > 0, "{} was never timed", span.name());
    }
    // These are compared with what exists: files, and the questions that a name server would have
    // got.
    let is_warc = |path: &&std::path::PathBuf| path.to_string_lossy().ends_with(".warc.gz");
    let file_count = crawl.files.keys().filter(is_warc).count() as u64;
    assert_eq!(metrics.count(Count::WarcFiles), file_count);
    assert!(file_count > 2, "{file_count} files");
    let (queries, cached) = (metrics.count(Count::DnsQueries), metrics.count(Count::DnsCached));
    assert!((60..200).contains(&queries), "{queries} questions for 60 hosts");
    assert!(cached > 1_000, "{cached} of some 1,500 lookups were answered from memory");
}
