//! Whole crawls in simulation: the referee passes them as they are, and finds each bug that can be
//! planted.

use nephila::crawl::config::Settings;
use nephila::lab::audit::web_log::WebLogs;
use nephila::lab::audit::{Kind, Terms, Verdict, judge, truth};
use nephila::lab::sim::crawl::{self, CrawlPlan};
use nephila::lab::web::{Web, WebSpec};
use nephila::shard::Sabotage;

fn terms(settings: &Settings) -> Terms {
    Terms {
        delay_ms: settings.delay_ms,
        crawl_delay_ms_max: settings.crawl_delay_ms_max,
        retry_after_ms_max: settings.crawl_delay_ms_max,
        try_count_max: Some(u32::from(settings.retry_count_max) + 1),
        ..Terms::default()
    }
}

/// A web with two hosts per address; a few hosts have Crawl-delay, private parts, or pages that are
/// busy for a while.
fn rough() -> WebSpec {
    let rough = WebSpec::profile("rough").expect("a profile");
    WebSpec { host_count: 24, page_count: 900, hosts_per_address: 2, ..rough }
}

/// Returns the referee's verdict on a crawl of [`rough`], by the servers' log and the web's truth.
fn verdict(delay_ms: u64, sabotage: Option<Sabotage>) -> Verdict {
    let spec = rough();
    let web = Web::new(spec.clone()).expect("a sound spec");
    let plan = CrawlPlan::new(5, spec, 3).expect("a plan");
    let settings = Settings { delay_ms, retry_base_ms: delay_ms, ..plan.settings.clone() };
    let plan = CrawlPlan { sabotage, settings, ..plan };
    let crawl = crawl::crawl(&plan).expect("a crawl that ends");
    let place = tempfile::NamedTempFile::new().expect("a file");
    web.write_truth(&mut place.as_file()).expect("a truth");
    let truth = truth::read(place.path()).expect("a truth");
    let hits = WebLogs::text(crawl.log_text);
    judge(&hits, &terms(&plan.settings), Some(truth)).expect("a readable log")
}

#[test]
fn a_whole_crawl_of_a_rough_web_keeps_every_promise() {
    for delay_ms in [100, 1_000, 10_000] {
        let verdict = verdict(delay_ms, None);
        assert!(verdict.pass, "{verdict}");
        assert!(verdict.request_count > 800 && verdict.bodiless_robots_count == 0, "{verdict}");
        let most = verdict.address_concurrency_max.as_ref().expect("requests");
        assert_eq!(most.value, 1, "{verdict}");
    }
}

#[test]
fn a_delay_a_tenth_short_is_found() {
    let verdict = verdict(1_000, Some(Sabotage::DelayShort));
    for kind in [Kind::HostGap, Kind::AddressGap, Kind::CrawlDelay] {
        assert!(verdict.count(kind) > 0, "{kind:?}: {verdict}");
    }
}

#[test]
fn a_page_asked_for_before_robots_txt_is_found() {
    let verdict = verdict(1_000, Some(Sabotage::RobotsLate));
    assert!(verdict.count(Kind::BeforeRobots) > 0, "{verdict}");
}

#[test]
fn a_turn_skipped_at_an_address_is_found() {
    let verdict = verdict(1_000, Some(Sabotage::TurnSkipped));
    assert!(verdict.count(Kind::AddressGap) > 0, "{verdict}");
    assert_eq!(verdict.count(Kind::HostGap), 0, "hosts keep their own pace: {verdict}");
}

#[test]
fn a_retry_after_ignored_is_found() {
    // Busy pages ask for a wait of one or two seconds, so a shorter delay does not hide the bug.
    let verdict = verdict(100, Some(Sabotage::RetryAfterIgnored));
    assert!(verdict.count(Kind::InsideRetryAfter) > 0, "{verdict}");
}
