//! The reports of the suites that measure single parts: URL seen, the queues, pages, hosts, and the
//! parsers.

use super::plot::{Lines, Scale};
use super::report::{Machine, Plot, Report, Table, strings};
use super::{frontier, hosts, pages, parse, seen};
use crate::base::WallTime;
use crate::sys::process;
use serde_json::{Value, json};

fn report(suite: &'static str, about: String, command: &str) -> Report {
    Report {
        suite,
        about,
        command: command.to_owned(),
        tables: Vec::new(),
        plots: Vec::new(),
        timed: Vec::new(),
        data: Value::Null,
        failures: Vec::new(),
        at: WallTime(process::realtime_ns()),
        machine: Machine::here(),
    }
}

/// Plots how costs grow with the number of things.
fn growth(title: &str, x: &'static str, series: Vec<(String, Vec<(f64, f64)>)>) -> Plot {
    let (title, x_marks) = (title.to_owned(), Vec::new());
    Plot::Lines(Lines { title, x: (x, Scale::Log), y: ("ns", Scale::Linear), x_marks, series })
}

pub fn seen_report(marks: &[seen::Mark], command: &str) -> Report {
    let check_ns = |mark: &seen::Mark| {
        mark.cpu_ns.saturating_sub(mark.making_ns) as f64 / mark.span_count.max(1) as f64
    };
    let columns = [
        "offered",
        "distinct",
        "ns a check",
        "checks/CPU s",
        "RSS MB",
        "peak MB",
        "bits a URL",
        "filter wrong",
        "runs",
        "merges",
        "wall s",
    ];
    let row = |mark: &seen::Mark| {
        vec![
            mark.offered_count.to_string(),
            mark.distinct_count.to_string(),
            format!("{:.0}", check_ns(mark)),
            format!("{:.0}", 1e9 / check_ns(mark).max(0.001)),
            format!("{:.0}", mark.resident_bytes as f64 / 1e6),
            format!("{:.0}", mark.resident_bytes_max as f64 / 1e6),
            format!("{:.2}", mark.filter_bits_per_url),
            format!("{:.2} %", 100.0 * mark.filter_wrong_rate),
            mark.run_count.to_string(),
            mark.merge_count.to_string(),
            format!("{:.1}", mark.wall_ns as f64 / 1e9),
        ]
    };
    let line = marks.iter().map(|mark| (mark.offered_count as f64, check_ns(mark))).collect();
    let title = "CPU time since the previous mark, without the making of URLs".to_owned();
    let rows = marks.iter().map(row).collect();
    let about =
        "URLs offered to URL seen, nine of ten known; its files on disk, one core. The run fails \
                 if a URL is lost or taken twice."
            .to_owned();
    Report {
        tables: vec![Table { title, columns: strings(&columns), rows }],
        plots: vec![growth("A check", "offered", vec![("check".to_owned(), line)])],
        data: seen::json(marks),
        ..report("seen", about, command)
    }
}

pub fn frontier_report(plan: frontier::Plan, marks: &[frontier::Mark], command: &str) -> Report {
    let columns = [
        "queued",
        "ns a push, filling",
        "ns a visit",
        "ns a push, in turn",
        "RSS MB",
        "peak MB",
        "disk MB",
        "in use MB",
        "reads",
        "waits",
        "wall s",
    ];
    let row = |mark: &frontier::Mark| {
        vec![
            mark.queued_count.to_string(),
            format!("{:.0}", mark.fill_ns),
            format!("{:.0}", mark.pop_ns),
            format!("{:.0}", mark.push_ns),
            format!("{:.0}", mark.resident_bytes as f64 / 1e6),
            format!("{:.0}", mark.resident_bytes_max as f64 / 1e6),
            format!("{:.0}", mark.tails.disk_bytes as f64 / 1e6),
            format!("{:.0}", mark.tails.live_bytes as f64 / 1e6),
            mark.tails.refill_count.to_string(),
            mark.wait_count.to_string(),
            format!("{:.1}", mark.wall_ns as f64 / 1e9),
        ]
    };
    let line = |name: &str, figure: fn(&frontier::Mark) -> f64| {
        let points = marks.iter().map(|mark| (mark.queued_count as f64, figure(mark)));
        (name.to_owned(), points.collect())
    };
    let series = vec![
        line("push, filling", |mark| mark.fill_ns),
        line("visit", |mark| mark.pop_ns),
        line("push, in turn", |mark| mark.push_ns),
    ];
    let title = "By CPU time, jobs included, without the making and checking of URLs".to_owned();
    let rows = marks.iter().map(row).collect();
    let about = format!(
        "queues of {} hosts, {} MB of them in RAM, the rest on disk, one core. Every URL that \
         comes out is compared with the one that is due.",
        plan.host_count, plan.memory_mb
    );
    Report {
        tables: vec![Table { title, columns: strings(&columns), rows }],
        plots: vec![growth("A push and a visit", "queued", series)],
        data: frontier::json(marks),
        ..report("frontier", about, command)
    }
}

pub fn pages_report(
    plan: frontier::Plan,
    links: pages::Links,
    marks: &[pages::Mark],
    command: &str,
) -> Report {
    let columns = [
        "queued",
        "pages/s by CPU",
        "pages/s by wall",
        "us a page",
        "growth",
        "us to pop",
        "us to send",
        "us for links",
        "us for the disk",
        "remembered",
        "known",
        "deferred",
        "new",
        "RSS MB",
        "load ns",
        "hash ns",
    ];
    let first_ns = marks.first().map_or(1.0, pages::Mark::page_ns);
    let row = |mark: &pages::Mark| {
        let (by_cpu, by_wall) = mark.pages_per_second();
        let us = |ns: f64| format!("{:.2}", ns / 1e3);
        let mut row = vec![
            mark.queued_count.to_string(),
            format!("{by_cpu:.0}"),
            format!("{by_wall:.0}"),
            us(mark.page_ns()),
            format!("{:+.0} %", (mark.page_ns() / first_ns - 1.0) * 100.0),
            us(mark.pop_ns),
            us(mark.send_ns),
            us(mark.links_ns),
            us(mark.jobs_ns),
        ];
        row.extend(mark.shares().map(|share| format!("{share:.1}")));
        let (mb, worth) = (mark.resident_bytes as f64 / 1e6, mark.worth);
        row.extend([mb, worth.load_ns, worth.hash_ns].map(|of| format!("{of:.0}")));
        row
    };
    let line = marks.iter().map(|mark| (mark.queued_count as f64, mark.page_ns())).collect();
    let title = "A page, without the making of its links".to_owned();
    let rows = marks.iter().map(row).collect();
    let about = format!(
        "for each page: a host and its URL popped, 60 links brought in {}, 6 of them new, the \
         host released. {} hosts, {} MB of their queues in RAM, URL seen on disk, one core, no \
         network. Of the links 20 are popular, 30 were taken lately, 4 at any time. None is lost.",
        match links {
            pages::Links::Texts => "by their texts",
            pages::Links::Urls => "as URLs, hashed and sent as by another core",
        },
        plan.host_count,
        plan.memory_mb
    );
    Report {
        tables: vec![Table { title, columns: strings(&columns), rows }],
        plots: vec![growth("A page", "queued", vec![("page".to_owned(), line)])],
        data: pages::json(marks),
        ..report("frontier", about, command)
    }
}

pub fn hosts_report(marks: &[hosts::Mark], command: &str) -> Report {
    let columns = ["met", "in RAM", "cold", "RSS grown MB", "bytes a host", "ns a host"];
    let row = |mark: &hosts::Mark| {
        vec![
            mark.met_count.to_string(),
            mark.warm_count.to_string(),
            mark.cold_count.to_string(),
            format!("{:.1}", mark.grown_bytes as f64 / 1e6),
            format!("{:.1}", mark.grown_bytes as f64 / mark.met_count.max(1) as f64),
            format!("{:.0}", mark.host_ns),
        ]
    };
    let line = marks.iter().map(|mark| (mark.met_count as f64, mark.host_ns)).collect();
    let (title, rows) = ("Memory".to_owned(), marks.iter().map(row).collect());
    let about = "hosts of one URL each, fetched: how much of them stays in RAM.".to_owned();
    Report {
        tables: vec![Table { title, columns: strings(&columns), rows }],
        plots: vec![growth("A host's life", "hosts met", vec![("host".to_owned(), line)])],
        data: hosts::json(marks),
        ..report("hosts", about, command)
    }
}

pub fn parse_report(found: &parse::Report, command: &str) -> Report {
    let spread = |engine: &parse::Engine| {
        let speeds = &engine.megabytes_per_second;
        let low = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        format!("{low:.0} to {:.0}", speeds.iter().copied().fold(0.0, f64::max))
    };
    let row = |engine: &parse::Engine| {
        let median = format!("{:.0}", engine.median());
        vec![engine.name.to_owned(), median, spread(engine), engine.link_count.to_string()]
    };
    let others = found.mismatches.iter().filter(|mismatch| !mismatch.is_noscript).count();
    let about = format!(
        "{} pages, {:.1} MB ({}), engines in turn, by CPU time. Our reader and lol_html find \
         different links on {} pages, on {} of them for another reason than noscript.",
        found.page_count,
        found.byte_count as f64 / 1e6,
        found.source,
        found.mismatches.len(),
        others,
    );
    let columns = strings(&["engine", "MB/s, median", "rounds", "links"]);
    let rows = found.engines.iter().map(row).collect();
    Report {
        tables: vec![Table { title: "Speed".to_owned(), columns, rows }],
        data: json!(found),
        ..report("parse", about, command)
    }
}
