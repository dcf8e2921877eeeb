//! What a crawl waits for, in words, for the progress line of a crawl that fetches little.

use super::figures::span_text;
use crate::base::Time;
use crate::base::counts::counted;
use crate::base::limits::WAITS_LOOK_COUNT_MAX;
use crate::crawl::metrics::{Gauges, Hold};
use std::time::Duration;

/// Returns a text like `50 hosts for their delay (next in 2.3 s), 3 hosts in line at addresses`;
/// empty if the crawl waits for nothing.
pub(super) fn waits_text(gauges: &Gauges) -> String {
    let (waits, now) = (&gauges.waits, Time(gauges.at_ns));
    let held = Hold::ALL.iter().map(|hold| (hold, waits.holds[hold.index()]));
    let held = held.filter(|(_, core_count)| *core_count > 0).map(|(hold, core_count)| {
        format!("{} ({})", hold.name(), counted(core_count, "core", "cores"))
    });
    let failing =
        [waits.origins_at_breaker, waits.origins_backing_off, waits.origins_without_robots];
    let failing_count: u64 = failing.iter().sum();
    // The host of a failing origin also waits in the wheel, until the origin's next request.
    let delayed_count = gauges.hosts_waiting.saturating_sub(failing_count);
    let at_least = if failing_count >= WAITS_LOOK_COUNT_MAX as u64 { "at least " } else { "" };
    // The time of the next request is shown once, beside the first kind of failing origin that
    // there is.
    let mut probe = Some(time_text("next request", waits.next_probe, now));
    let [breaker, backing_off, robots] = failing.map(|count| match count {
        0 => String::new(),
        _ => probe.take().unwrap_or_default(),
    });
    let none = String::new;
    let waiting = [
        (gauges.fetches_active, "request under way", "requests under way", none()),
        (
            delayed_count,
            "host for its delay",
            "hosts for their delay",
            time_text("next", waits.next_turn, now),
        ),
        (waits.hosts_in_line, "host in line at an address", "hosts in line at addresses", none()),
        (failing[0], "origin at an open breaker", "origins at open breakers", breaker),
        (failing[1], "origin after a failure", "origins after a failure", backing_off),
        (failing[2], "origin without robots.txt", "origins without robots.txt", robots),
        (
            waits.hosts_at_errands,
            "host for another host's robots.txt",
            "hosts for another host's robots.txt",
            none(),
        ),
        (
            waits.urls_retrying,
            "URL for another try",
            "URLs for another try",
            time_text("next", waits.next_retry, now),
        ),
        (waits.names_in_lookup, "name at DNS", "names at DNS", none()),
    ];
    let waiting = waiting.into_iter().filter(|(count, ..)| *count > 0);
    let waiting = waiting.map(|(count, one, many, time)| {
        let least = if one.starts_with("origin") { at_least } else { "" };
        format!("{least}{}{time}", counted(count, one, many))
    });
    held.chain(waiting).collect::<Vec<_>>().join(", ")
}

/// Returns a text like ` (next in 2.3 s)`; empty if there is no such time.
fn time_text(what: &str, at: Time, now: Time) -> String {
    match at {
        Time::ZERO => String::new(),
        at if at <= now => format!(" ({what} now)"),
        at => {
            // Tenths of a second are enough, because the line is rewritten several times a second.
            let tenths = at.since(now).as_millis().div_ceil(100) as u64;
            format!(" ({what} in {})", span_text(Duration::from_millis(tenths * 100)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::metrics::Waits;

    #[test]
    fn an_idle_crawl_says_how_many_wait_for_what_and_until_when() {
        let at = |seconds: u64| Time::from_ms(seconds * 1_000);
        let mut waits = Waits {
            hosts_in_line: 3,
            origins_at_breaker: 2,
            origins_backing_off: 1,
            urls_retrying: 1,
            next_turn: at(102),
            next_probe: at(300),
            next_retry: at(99),
            ..Waits::default()
        };
        let at_ns = at(100).0;
        let gauges = Gauges { hosts_waiting: 53, at_ns, waits, ..Gauges::default() };
        assert_eq!(
            waits_text(&gauges),
            "50 hosts for their delay (next in 2.0 s), 3 hosts in line at addresses, 2 origins at \
             open breakers (next request in 3.3 min), 1 origin after a failure, 1 URL for another \
             try (next now)"
        );
        waits = Waits::default();
        waits.hold(Hold::DiskFails);
        waits.hold(Hold::DiskFails);
        let held = Gauges { waits, ..Gauges::default() };
        assert_eq!(waits_text(&held), "the disk fails (2 cores)");
        waits = Waits { origins_at_breaker: 5_000, ..Waits::default() };
        let many = Gauges { waits, hosts_waiting: 6_000, ..Gauges::default() };
        let text = waits_text(&many);
        assert_eq!(text, "1,000 hosts for their delay, at least 5,000 origins at open breakers");
        assert_eq!(waits_text(&Gauges::default()), "");
    }
}
