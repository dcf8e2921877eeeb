//! How a crawl ended: as a table for people, as an object for programs, and as an exit code.

use super::cost::PageCosts;
use super::figures::{bytes_text, latency_text, rate_text, span_text};
use crate::base::counts::{count_text, counted, noun};
use crate::base::escape;
use crate::crawl::flow::Outcome;
use crate::crawl::metrics::{Count, Gauges, Metrics, Percentiles, Span, Totals, is_failure};
use crate::engine::{EndReason, Summary};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Duration;

/// The greatest number of failed seeds and of WARC files that the table names. The rest is counted.
const SHOWN_MAX: usize = 10;

/// Returns what went wrong if the crawl has no page or did not end well: exit code 1. The pages of
/// earlier runs count as well: a resumed crawl whose last URLs fail has not failed.
pub fn failure(summary: &Summary) -> Option<String> {
    match &summary.reason {
        EndReason::StoreFailed(error) => return Some(format!("the crawl was given up: {error}")),
        EndReason::ShardEnded => {
            return Some("the crawl was given up: a shard ended by itself".to_owned());
        }
        EndReason::Done | EndReason::PageLimit | EndReason::TimeLimit | EndReason::Interrupted => {}
    }
    let metrics = &summary.metrics;
    if metrics.count(Count::Pages) + summary.earlier.page_count > 0 {
        return None;
    }
    let requests = outcomes(metrics).into_iter().map(|(outcome, _)| outcome);
    // A seed may be given up without a request of its own because the robots.txt of its host is
    // missing.
    let seeds = summary.failed_seeds.iter().map(|(_, outcome)| *outcome);
    let worst = requests.chain(seeds).find(|outcome| is_failure(*outcome));
    let Some(worst) = worst else {
        let is_moved = |(_, outcome): &(_, Outcome)| *outcome == Outcome::Redirected;
        return summary.failed_seeds.iter().any(is_moved).then(|| {
            "no page was fetched: the seeds redirect to places where links are not followed. Give \
             the targets of the redirects as seeds, or crawl with --stay web"
                .to_owned()
        });
    };
    Some(format!("no page was fetched: {} ({})", worst.name(), advice(worst)))
}

/// Returns what is missing because origins failed for so long that they were given up: exit code 3.
pub fn given_up(summary: &Summary) -> Option<String> {
    let count = summary.metrics.count(Count::OriginsGivenUp);
    (count > 0).then(|| {
        format!(
            "{} given up, with the URLs that were left: `nephila inspect DIR --dead` lists them",
            counted(count, "origin was", "origins were")
        )
    })
}

/// Returns the table for stderr.
pub fn table(summary: &Summary) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_head(&mut text, summary);
    let _ = write_totals(&mut text, summary);
    let _ = write_outcomes(&mut text, &summary.metrics);
    let _ = write_latencies(&mut text, &summary.metrics);
    let _ = write_failed_seeds(&mut text, summary);
    let _ = write_files(&mut text, summary);
    text
}

/// Returns the object of `--json`. It always has every name, so readers need not check for one.
pub fn json(summary: &Summary) -> Value {
    let metrics = &summary.metrics;
    let outcomes: Map<String, Value> = Outcome::ALL
        .iter()
        .map(|outcome| (outcome.name().to_owned(), metrics.outcome_count(*outcome).into()))
        .collect();
    let counts: Map<String, Value> = Count::ALL
        .iter()
        .map(|count| (count.name().to_owned(), metrics.count(*count).into()))
        .collect();
    let latency_us: Map<String, Value> = Span::ALL
        .iter()
        .map(|span| (span.name().to_owned(), percentiles_json(metrics.percentiles(*span))))
        .collect();
    let pages_of = |pages: &Metrics| pages.count(Count::Pages);
    let cores: Vec<Value> = summary
        .reports
        .iter()
        .map(|report| {
            let cpu_seconds = report.gauges.cpu_ns as f64 / 1e9;
            json!({
                "shard": report.shard.0,
                "pages": pages_of(&report.metrics),
                "cpu_seconds": cpu_seconds,
                "turn_gap_ms_max": report.gauges.turn_gap_ns_max as f64 / 1e6,
                "nudges": report.gauges.nudges,
            })
        })
        .collect();
    let failed_seeds: Vec<Value> = summary
        .failed_seeds
        .iter()
        .map(|(url, outcome)| json!({"url": url.as_str(), "outcome": outcome.name()}))
        .collect();
    let warc_files: Vec<_> = summary.warc_files.iter().map(|path| path.to_string_lossy()).collect();
    json!({
        "pages": pages_of(metrics),
        "pages_per_second": pages_per_second(summary),
        "bytes": metrics.count(Count::BytesReceived),
        "seconds": summary.seconds,
        "exit": summary.reason.name(),
        "origins_given_up": metrics.count(Count::OriginsGivenUp),
        "outcomes": outcomes,
        "counts": counts,
        "total": totals_json(summary),
        "latency_us": latency_us,
        "cores": cores,
        "failed_seeds": failed_seeds,
        "resident_bytes_max": summary.resident_bytes_peak,
        "hosts": summary.gauges.hosts,
        "hosts_cold": summary.gauges.hosts_cold,
        "urls_queued": summary.gauges.urls_queued,
        "queues": queues_json(&summary.gauges),
        "seen": seen_json(&summary.gauges),
        "per_page": PageCosts::of(metrics, &summary.gauges).json(),
        "connections_open": summary.gauges.streams_open,
        "turn_gap_ms_max": summary.gauges.turn_gap_ns_max as f64 / 1e6,
        "nudges": summary.gauges.nudges,
        "warc_files": warc_files,
    })
}

fn queues_json(gauges: &Gauges) -> Value {
    json!({
        "disk_urls": gauges.queue_disk_urls,
        "live_bytes": gauges.queue_live_bytes,
        "disk_bytes": gauges.queue_disk_bytes,
        "segments": gauges.queue_segments,
    })
}

fn seen_json(gauges: &Gauges) -> Value {
    json!({
        "urls": gauges.seen_urls,
        "filter_bits_per_url": gauges.seen_bits_per_url(),
        "filter_wrong_rate": gauges.seen_wrong_rate(),
        "runs": gauges.seen_runs,
        "deferred": gauges.seen_deferred,
        "lag_ms": gauges.seen_lag_ms,
    })
}

fn pages_per_second(summary: &Summary) -> f64 {
    let pages = summary.metrics.count(Count::Pages);
    if summary.seconds > 0.0 { pages as f64 / summary.seconds } else { 0.0 }
}

fn reason_text(reason: &EndReason) -> String {
    match reason {
        EndReason::Done => "nothing left to fetch".to_owned(),
        EndReason::PageLimit => "the page limit was reached".to_owned(),
        EndReason::TimeLimit => "the time limit was reached".to_owned(),
        EndReason::Interrupted => "interrupted".to_owned(),
        EndReason::StoreFailed(error) => error.to_string(),
        EndReason::ShardEnded => "a shard ended by itself".to_owned(),
    }
}

fn write_head(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let metrics = &summary.metrics;
    let count = |kind| count_text(metrics.count(kind));
    let nouns = |kind, one, many| counted(metrics.count(kind), one, many);
    let bytes = |kind| bytes_text(metrics.count(kind));
    let reason = reason_text(&summary.reason);
    let took = span_text(Duration::from_secs_f64(summary.seconds));
    writeln!(out, "crawl ended after {took}: {}", escape(&reason))?;
    let cores = counted(summary.reports.len() as u64, "core", "cores");
    let rate = rate_text(pages_per_second(summary));
    let mut rows = vec![
        ("pages", count(Count::Pages), format!("{rate}/s on {cores}")),
        ("received", bytes(Count::BytesReceived), format!("{} stored", bytes(Count::BytesStored))),
        ("new URLs", count(Count::UrlsNew), nouns(Count::UrlsKnown, "link known", "links known")),
        ("revisits", count(Count::Revisits), format!("{} near", count(Count::NearDuplicates))),
        (
            "connections",
            count(Count::ConnectionsOpened),
            format!("reused {}", nouns(Count::ConnectionsReused, "time", "times")),
        ),
    ];
    if metrics.count(Count::SieveMerges) > 0 {
        let merges = noun(metrics.count(Count::SieveMerges), "merge", "merges");
        let links = nouns(Count::UrlsDeferred, "link", "links");
        rows.push(("URL seen", count(Count::SieveMerges), format!("{merges}, for {links}")));
    }
    if metrics.count(Count::HostsCooled) > 0 {
        let returned = count(Count::HostsReturned);
        let cooled = format!("evicted from RAM, {returned} came back");
        rows.push(("hosts", count(Count::HostsCooled), cooled));
    }
    let given_up_count = metrics.count(Count::OriginsGivenUp);
    if given_up_count > 0 {
        let origins = noun(given_up_count, "origin", "origins");
        let unasked = metrics.outcome_count(Outcome::OriginDown);
        let unasked = counted(unasked, "URL", "URLs");
        let remark = format!("{origins} that failed, with {unasked} not requested");
        rows.push(("given up", count_text(given_up_count), remark));
    }
    let given_way = metrics.count(Count::BodiesCut) + metrics.count(Count::BodiesShed);
    if given_way > 0 {
        let shed = count(Count::BodiesShed);
        let remark = format!("memory was short; {shed} discarded and requested again");
        rows.push(("bodies cut", count(Count::BodiesCut), remark));
    }
    for (name, kind, [one, many], remark) in LEFT_OUT {
        let left_out_count = metrics.count(kind);
        if left_out_count > 0 {
            let remark = format!("{} {remark}", noun(left_out_count, one, many));
            rows.push((name, count_text(left_out_count), remark));
        }
    }
    let over_cap_count = metrics.count(Count::LinksOverCap);
    if over_cap_count > 0 {
        let links = noun(over_cap_count, "link", "links");
        let pages = nouns(Count::PagesOverLinkCap, "page", "pages");
        let remark = format!("{links}, of {pages}: see page_link_count_max");
        rows.push(("left out", count_text(over_cap_count), remark));
    }
    if summary.resident_bytes_peak > 0 {
        rows.push(("memory", bytes_text(summary.resident_bytes_peak), "at most".to_owned()));
    }
    writeln!(out)?;
    for (name, figure, remark) in rows {
        writeln!(out, "  {name:<12}{figure:>14}   {remark}")?;
    }
    let costs = PageCosts::of(metrics, &summary.gauges);
    if costs.cpu_us > 0.0 {
        let PageCosts { syscalls, keep_alive_rate, .. } = costs;
        let reused = 100.0 * keep_alive_rate;
        writeln!(out, "\nCPU time a page: {}", costs.text())?;
        writeln!(
            out,
            "  {syscalls:.2} system calls; {reused:.1} % of requests on kept connections"
        )?;
    }
    Ok(())
}

/// What the crawl found and did not fetch, or not completely.
const LEFT_OUT: [(&str, Count, [&str; 2], &str); 5] = [
    ("dead letters", Count::DeadLetters, URLS, "given up: listed in requests/dead-*.log"),
    ("outside", Count::LinksOutside, LINKS, "outside of `stay`, too deep or nofollow"),
    ("no URLs", Count::LinksRefused, LINKS, "without a usable http or https URL"),
    ("dropped", Count::UrlsDropped, URLS, "beyond a limit"),
    ("trapped", Count::UrlsTrapped, URLS, "in what looks like a trap, not followed"),
];
const URLS: [&str; 2] = ["URL", "URLs"];
const LINKS: [&str; 2] = ["link", "links"];

/// Writes the totals of all runs, if there were runs before this one.
fn write_totals(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.earlier.run_count == 0 {
        return Ok(());
    }
    let all = totals(summary);
    let (count, bytes) = (|kind| count_text(all.count(kind)), |kind| bytes_text(all.count(kind)));
    let urls = |kind| noun(all.count(kind), "URL", "URLs");
    let took = span_text(Duration::from_millis(all.span_ms));
    let runs = counted(all.run_count, "run", "runs");
    let at_least = if all.cut_short_count > 0 { "at least " } else { "" };
    writeln!(out, "\nsince the crawl began, in {runs} of {at_least}{took} together")?;
    for (name, figure, remark) in [
        ("pages", count(Count::Pages), String::new()),
        ("requests", count(Count::Requests), String::new()),
        ("received", bytes(Count::BytesReceived), format!("{} stored", bytes(Count::BytesStored))),
        ("new URLs", count(Count::UrlsNew), String::new()),
        ("ended", count(Count::UrlsEnded), format!("{} done with", urls(Count::UrlsEnded))),
        (
            "dead letters",
            count(Count::DeadLetters),
            format!("{} given up, of these", urls(Count::DeadLetters)),
        ),
    ] {
        writeln!(out, "{}", format!("  {name:<12}{figure:>14}   {remark}").trim_end())?;
    }
    if all.cut_short_count > 0 {
        let runs = counted(all.cut_short_count, "run was", "runs were");
        writeln!(
            out,
            "  {runs} cut short: pages, ended and dead letters are exact; the time and the\n  \
             other figures lack what came after the last checkpoint of such a run"
        )?;
    }
    Ok(())
}

/// Returns the totals of all runs, including this one.
fn totals(summary: &Summary) -> Totals {
    let mut all = summary.earlier.with_run(&summary.metrics);
    all.span_ms += Duration::from_secs_f64(summary.seconds).as_millis() as u64;
    all.run_count += 1;
    all
}

fn totals_json(summary: &Summary) -> Value {
    let all = totals(summary);
    let counts = Count::ALL.iter().map(|count| (count.name().to_owned(), all.count(*count).into()));
    let outcomes = Outcome::ALL
        .iter()
        .map(|outcome| (outcome.name().to_owned(), all.outcome_counts[*outcome as usize].into()));
    json!({
        "pages": all.count(Count::Pages),
        "runs": all.run_count,
        "runs_cut_short": all.cut_short_count,
        "seconds": all.span_ms as f64 / 1e3,
        "counts": counts.collect::<Map<_, _>>(),
        "outcomes": outcomes.collect::<Map<_, _>>(),
    })
}

fn write_failed_seeds(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.failed_seeds.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nseeds that brought no page")?;
    for (url, outcome) in summary.failed_seeds.iter().take(SHOWN_MAX) {
        writeln!(out, "  {:<22}{}", outcome.name(), escape(url.as_str()))?;
    }
    write_rest(out, summary.failed_seeds.len())
}

fn write_files(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.warc_files.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWARC files, each with a .cdxj index beside it")?;
    for path in summary.warc_files.iter().take(SHOWN_MAX) {
        writeln!(out, "  {}", escape(path.as_os_str().as_encoded_bytes()))?;
    }
    write_rest(out, summary.warc_files.len())
}

fn write_rest(out: &mut String, count: usize) -> std::fmt::Result {
    match count.saturating_sub(SHOWN_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

/// Returns the outcomes that happened, the most frequent first.
fn outcomes(metrics: &Metrics) -> Vec<(Outcome, u64)> {
    let mut counted: Vec<(Outcome, u64)> = Outcome::ALL
        .iter()
        .map(|outcome| (*outcome, metrics.outcome_count(*outcome)))
        .filter(|(_, count)| *count > 0)
        .collect();
    counted.sort_by_key(|(outcome, count)| (std::cmp::Reverse(*count), *outcome));
    counted
}

fn write_outcomes(out: &mut String, metrics: &Metrics) -> std::fmt::Result {
    let counted = outcomes(metrics);
    let total: u64 = counted.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return Ok(());
    }
    writeln!(out, "\noutcomes")?;
    for (outcome, count) in counted {
        let share = count as f64 * 100.0 / total as f64;
        writeln!(out, "  {:<22}{:>14}{share:>8.2} %", outcome.name(), count_text(count))?;
    }
    Ok(())
}

fn write_latencies(out: &mut String, metrics: &Metrics) -> std::fmt::Result {
    let mut is_first = true;
    for span in Span::ALL {
        let Percentiles { count, p50_us, p90_us, p99_us, p999_us, max_us } =
            metrics.percentiles(*span);
        if count == 0 {
            continue;
        }
        if std::mem::take(&mut is_first) {
            writeln!(out)?;
            write!(out, "{:<12}", "latency")?;
            for title in ["p50", "p90", "p99", "p99.9", "max"] {
                write!(out, "{title:>10}")?;
            }
            writeln!(out, "{:>14}", "count")?;
        }
        write!(out, "  {:<10}", span.name())?;
        for span_us in [p50_us, p90_us, p99_us, p999_us, max_us] {
            write!(out, "{:>10}", latency_text(span_us))?;
        }
        writeln!(out, "{:>14}", count_text(count))?;
    }
    Ok(())
}

fn percentiles_json(percentiles: Percentiles) -> Value {
    let Percentiles { count, p50_us, p90_us, p99_us, p999_us, max_us } = percentiles;
    json!({
        "count": count, "p50": p50_us, "p90": p90_us, "p99": p99_us, "p99_9": p999_us,
        "max": max_us,
    })
}

/// Explains an outcome, and says what an operator can do about it.
pub fn advice(outcome: Outcome) -> &'static str {
    use Outcome::*;
    match outcome {
        NoName => "the host name does not exist: check the seeds, or --dns",
        DnsFailed => "no DNS resolver answered: check the network, or name one with --dns",
        AddressRefused => "the address is not public: --allow-private allows such addresses",
        ConnectRefused => "no server listens on that port",
        ConnectTimedOut | ConnectFailed => "the host could not be reached: check the network",
        TlsFailed => "the TLS handshake failed",
        TlsExpired => {
            "the certificate has expired, if this machine's clock is right: check the clock first"
        }
        TlsNotYetValid => {
            "the certificate is not valid yet: this machine's clock is probably wrong, set it"
        }
        TlsWrongName => "the certificate is for another host name: check the seed's spelling",
        TlsSelfSigned => "the certificate is self-signed: insecure_tls accepts it",
        TlsUnknownIssuer => {
            "the certificate's authority is not trusted: --set extra_ca=FILE trusts another one"
        }
        TlsBrokenChain => {
            "the server does not send its issuer's certificate: --set extra_ca=FILE may add it"
        }
        TlsBadCertificate => "the certificate is damaged, revoked or not for servers",
        TlsProtocol => "the server speaks no TLS, or no version and suite that nephila knows",
        OriginDown => "the origin failed for so long that it was given up",
        RobotsUnreachable => {
            "robots.txt could not be fetched, and nothing else may be fetched without it"
        }
        ClientError | ServerError | Throttled => "the server answered with an error",
        Malformed | HeadTooLarge | Incomplete => "the server's answer is not valid HTTP",
        FirstByteTimedOut | HeadTimedOut => "the server did not answer in time",
        Reset => "the server closed the connection",
        RedirectLoop | RedirectLimit | RedirectRefused => {
            "the redirects go in a circle, are too many or have no usable target"
        }
        Shed => "out of descriptors, ports or buffers: raise `ulimit -n` or lower fetch_slots",
        ShedMemory => "memory for bodies was short: raise body_memory_mb or lower fetch_slots",
        Fetched | CutLength | CutTime | CutMemory | NotModified | Redirected | RobotsDenied
        | Cancelled => "no failure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::flow::ShardIndex;
    use crate::crawl::metrics::{Gauges, Report};
    use crate::proto::url::Url;
    use std::path::PathBuf;
    use std::time::Duration;

    fn summary(fill: impl Fn(&mut Metrics)) -> Summary {
        let mut metrics = Metrics::new();
        fill(&mut metrics);
        let gauges = Gauges::default();
        Summary {
            reason: EndReason::Done,
            seconds: 2.5,
            reports: vec![Report { shard: ShardIndex(0), metrics: metrics.clone(), gauges }],
            metrics,
            gauges,
            failed_seeds: Vec::new(),
            warc_files: vec![PathBuf::from("out/warc/a\x1b.warc.gz")],
            resident_bytes_peak: 0,
            earlier: Totals::default(),
        }
    }

    fn crawled(metrics: &mut Metrics) {
        metrics.add(Count::Pages, 1_000);
        metrics.add(Count::BytesReceived, 25_000_000);
        for _ in 0..3 {
            metrics.outcome(Outcome::Fetched);
        }
        metrics.outcome(Outcome::ServerError);
        metrics.record(Span::Total, Duration::from_micros(1_500));
    }

    #[test]
    fn the_table_shows_what_happened_and_nothing_that_did_not() {
        let seed = Url::parse("http://a.test/").unwrap();
        let failed_seeds = vec![(seed, Outcome::NoName)];
        let table = table(&Summary { failed_seeds, ..summary(crawled) });
        for expected in [
            "crawl ended after 2.5 s: nothing left to fetch",
            "1,000   400/s on 1 core",
            "25.0 MB",
            "fetched                            3   75.00 %",
            "server_error                       1   25.00 %",
            "p99.9",
            "1.5 ms",
            "no_name               http://a.test/",
            "out/warc/a\\x1b.warc.gz",
        ] {
            assert!(table.contains(expected), "{expected} is not in\n{table}");
        }
        assert!(!table.contains("reset") && !table.contains("tls"), "{table}");
        assert!(table.lines().all(|line| line.len() <= 100));
    }

    #[test]
    fn what_was_left_out_and_given_up_is_told() {
        let table = table(&summary(|metrics| {
            crawled(metrics);
            metrics.add(Count::DeadLetters, 1_234);
            metrics.add(Count::LinksOutside, 56);
            metrics.add(Count::UrlsDropped, 7);
        }));
        for expected in [
            "  dead letters         1,234   URLs given up: listed in requests/dead-*.log",
            "  outside                 56   links outside of `stay`, too deep or nofollow",
            "  dropped                  7   URLs beyond a limit",
        ] {
            assert!(table.contains(expected), "{expected} is not in\n{table}");
        }
    }

    #[test]
    fn one_thing_of_each_kind_has_the_singular() {
        let one = summary(|metrics| Count::ALL.iter().for_each(|kind| metrics.add(*kind, 1)));
        let text = table(&Summary { earlier: Totals { run_count: 1, ..Totals::default() }, ..one });
        for expected in [
            "0.4/s on 1 core",
            "1 link known",
            "reused 1 time\n",
            "     1   URL given up: listed",
            "     1   link outside of `stay`",
            "     1   origin that failed",
            "     1   link, of 1 page: see",
            "     1   URL done with",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn a_resumed_crawl_tells_its_own_figures_and_those_of_all_runs() {
        let mut earlier = Totals { run_count: 2, cut_short_count: 1, ..Totals::default() };
        earlier.span_ms = 60_000;
        (0..500).for_each(|_| earlier.ended(Outcome::Fetched, true));
        (0..3).for_each(|_| earlier.ended(Outcome::Reset, false));
        let all = Summary { earlier, ..summary(crawled) };
        let (text, object) = (table(&all), json(&all));
        for expected in [
            "  pages                1,000   400/s on 1 core",
            "since the crawl began, in 3 runs of at least 62.5 s together",
            "  pages                1,500\n",
            "  dead letters             3   URLs given up, of these",
            "1 run was cut short: pages, ended and dead letters are exact; the time and the\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert_eq!((&object["pages"], &object["total"]["pages"]), (&json!(1_000), &json!(1_500)));
        assert_eq!(
            (&object["total"]["runs"], &object["total"]["runs_cut_short"]),
            (&3.into(), &1.into())
        );
        let whole = Totals { cut_short_count: 0, ..all.earlier.clone() };
        let whole = table(&Summary { earlier: whole, ..summary(crawled) });
        assert!(whole.contains("in 3 runs of 62.5 s together"), "{whole}");
        assert!(!table(&summary(crawled)).contains("since the crawl began"));
    }

    #[test]
    fn a_crawl_without_a_page_has_no_cost_a_page() {
        let gauges = Gauges { cpu_ns: 123_627_000, syscalls: 900, ..Gauges::default() };
        let text = |page_count| {
            let summary = summary(|metrics| metrics.add(Count::Pages, page_count));
            table(&Summary { gauges, ..summary })
        };
        assert!(text(1).contains("CPU time a page: 123627.0 us"), "{}", text(1));
        assert!(!text(0).contains("a page"), "{}", text(0));
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let mut summary = summary(crawled);
        summary.warc_files = (0..25).map(|n| PathBuf::from(format!("{n}.warc.gz"))).collect();
        let table = table(&summary);
        assert!(table.contains("9.warc.gz") && !table.contains("10.warc.gz"), "{table}");
        assert!(table.contains("and 15 more"), "{table}");
    }

    #[test]
    fn the_object_has_every_name_with_its_value() {
        let object = json(&summary(crawled));
        assert_eq!(object["pages"], 1_000);
        assert_eq!(object["pages_per_second"], 400.0);
        assert_eq!(object["bytes"], 25_000_000);
        assert_eq!(object["seconds"], 2.5);
        assert_eq!(object["exit"], "done");
        assert_eq!(object["outcomes"]["fetched"], 3);
        assert_eq!(object["outcomes"]["reset"], 0);
        assert_eq!(object["outcomes"].as_object().unwrap().len(), Outcome::COUNT);
        assert_eq!(object["counts"].as_object().unwrap().len(), Count::COUNT);
        assert_eq!(object["latency_us"].as_object().unwrap().len(), Span::COUNT);
        let total = &object["latency_us"]["total"];
        assert_eq!(total["count"], 1);
        for name in ["p50", "p90", "p99", "p99_9", "max"] {
            assert!(total[name].as_u64().unwrap().abs_diff(1_500) <= 15, "{name}: {total}");
        }
        assert_eq!(object["failed_seeds"], json!([]));
        assert_eq!(object["warc_files"][0], "out/warc/a\x1b.warc.gz");
    }

    #[test]
    fn a_crawl_without_a_page_fails_with_advice() {
        let failed = |outcome| failure(&summary(move |metrics| metrics.outcome(outcome)));
        assert!(failed(Outcome::AddressRefused).unwrap().contains("--allow-private"));
        assert!(failed(Outcome::NoName).unwrap().contains("no_name"));
        assert_eq!(failed(Outcome::RobotsDenied), None);
        assert_eq!(failure(&summary(crawled)), None);
        assert_eq!(failure(&summary(|_| ())), None);
    }

    #[test]
    fn a_resumed_crawl_whose_last_urls_fail_has_not_failed() {
        let failing = |page_count| {
            let earlier = Totals { run_count: 1, page_count, ..Totals::default() };
            Summary { earlier, ..summary(|metrics| metrics.outcome(Outcome::Reset)) }
        };
        assert_eq!(failure(&failing(1)), None);
        assert!(failure(&failing(0)).unwrap().contains("no page was fetched: reset"));
        let lost = Summary { reason: EndReason::ShardEnded, ..failing(1) };
        assert!(failure(&lost).unwrap().contains("given up"));
    }

    #[test]
    fn a_seed_that_brought_no_page_is_a_failure_where_nothing_else_did() {
        let seed = Url::parse("http://a.test/").unwrap();
        let failed = |fill: fn(&mut Metrics)| {
            let failed_seeds = vec![(seed.clone(), Outcome::ConnectRefused)];
            Summary { failed_seeds, ..summary(fill) }
        };
        assert!(failure(&failed(|_| ())).unwrap().contains("connect_refused"));
        assert_eq!(failure(&failed(crawled)), None);
        let object = json(&failed(crawled));
        assert_eq!(object["failed_seeds"][0]["outcome"], "connect_refused");
    }

    #[test]
    fn a_crawl_that_was_given_up_fails_even_with_pages() {
        let summary = Summary { reason: EndReason::ShardEnded, ..summary(crawled) };
        assert!(failure(&summary).unwrap().contains("given up"));
    }

    #[test]
    fn origins_that_were_given_up_are_told_everywhere() {
        let gone = summary(|metrics| {
            crawled(metrics);
            metrics.add(Count::OriginsGivenUp, 2);
            (0..40).for_each(|_| metrics.outcome(Outcome::OriginDown));
        });
        let text = table(&gone);
        assert!(text.contains("2   origins that failed, with 40 URLs not requested"), "{text}");
        assert_eq!(json(&gone)["origins_given_up"], 2);
        assert!(given_up(&gone).unwrap().starts_with("2 origins were given up"));
        assert_eq!(failure(&gone), None);
        assert_eq!(given_up(&summary(crawled)), None);
    }

    #[test]
    fn a_certificate_out_of_its_time_has_an_operator_look_at_the_clock() {
        for outcome in [Outcome::TlsExpired, Outcome::TlsNotYetValid] {
            let failed = failure(&summary(move |metrics| metrics.outcome(outcome)));
            let text = failed.expect("a crawl without a page");
            assert!(text.contains(outcome.name()) && text.contains("clock"), "{text}");
        }
    }

    #[test]
    fn every_failure_has_advice() {
        for outcome in Outcome::ALL {
            assert_eq!(is_failure(outcome), advice(outcome) != "no failure", "{}", outcome.name());
        }
    }
}
