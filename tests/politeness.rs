//! Whole crawls of webs with faults over a faulty network: they are polite, lawful and exact under
//! every seed. `nephila sim` runs as many more seeds as one likes; every build runs the seeds here.

use nephila::base::Time;
use nephila::crawl::flow::Outcome;
use nephila::crawl::metrics::{Count, merged};
use nephila::lab::sim::{Breach, Crawl, Judgement, Run, Scene, ScenePlan, crawl, run};
use nephila::lab::web::log::{Entry, Fate};
use std::path::PathBuf;
use std::time::Duration;

fn storm(seed: u64) -> Run {
    run(&ScenePlan::default(), seed).expect("a sound plan")
}

fn judged(run: &Run) -> &(Crawl, Judgement) {
    run.judged.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs twelve scenes. Together they meet everything that a scene can have.
#[test]
fn storms_are_crawled_politely_and_every_url_is_accounted_for() {
    let runs: Vec<Run> = (1..=12).map(storm).collect();
    let failed: Vec<String> =
        runs.iter().filter(|run| !run.is_pass()).map(|run| run.text()).collect();
    assert!(failed.is_empty(), "{}", failed.concat());
    let crawls: Vec<&Crawl> = runs.iter().map(|run| &judged(run).0).collect();
    let reports: Vec<_> = crawls.iter().flat_map(|crawl| crawl.reports.clone()).collect();
    let (metrics, _) = merged(&reports);
    for outcome in [
        Outcome::Fetched,
        Outcome::Redirected,
        Outcome::ServerError,
        Outcome::Throttled,
        Outcome::Incomplete,
        Outcome::DnsFailed,
        Outcome::NoName,
        Outcome::ConnectRefused,
        Outcome::ConnectTimedOut,
        Outcome::FirstByteTimedOut,
        Outcome::Reset,
        Outcome::RobotsDenied,
        Outcome::RobotsUnreachable,
        Outcome::Shed,
    ] {
        assert!(metrics.outcome_count(outcome) > 0, "no {outcome:?} in all storms");
    }
    assert!(metrics.count(Count::DeadLetters) > 0 && metrics.count(Count::Retries) > 0);
    let all = || crawls.iter().flat_map(|crawl| &crawl.log);
    let is_seen = |is: fn(&Entry) -> bool| assert!(all().any(is));
    is_seen(|entry| entry.fate == Fate::Cut);
    is_seen(|entry| entry.fate == Fate::Unsent);
    is_seen(|entry| entry.path.starts_with("/robots-of/"));
    is_seen(|entry| entry.retry_after.as_ref().is_some_and(|after| after.contains("GMT")));
    is_seen(|entry| entry.local.ip().to_string().starts_with("127.116."));
}

#[test]
fn one_seed_is_one_history_storm_or_not() {
    let (first, second, other) = (storm(21), storm(21), storm(22));
    let history = |run: &Run| {
        let (crawl, _) = judged(run);
        (crawl.digest, crawl.ended, crawl.log_text.clone(), crawl.files.clone())
    };
    assert!(history(&first) == history(&second));
    assert_eq!(first.text(), second.text());
    assert_ne!(judged(&first).0.digest, judged(&other).0.digest);
}

#[test]
fn a_crawl_that_is_stopped_leaves_what_it_did_not_ask_for_in_its_queues() {
    let mut scene = Scene::draw(&ScenePlan::default(), 6).unwrap();
    scene.crawl.stop_after = Some(Duration::from_secs(300));
    let crawl = crawl::crawl(&scene.crawl).unwrap();
    assert!(crawl.is_stopped && crawl.ended.since(crawl.began) < Duration::from_secs(600));
    let judgement = Judgement::of(&scene.web, &scene.crawl, &crawl).unwrap();
    assert!(judgement.is_pass(), "{judgement}");
    assert!(judgement.waiting_count > 100, "{}", judgement.waiting_count);
}

/// A referee that cannot fail a crawl proves nothing.
#[test]
fn the_judge_finds_what_is_taken_from_the_evidence_or_added_to_it() {
    let scene = Scene::draw(&ScenePlan::default(), 2).unwrap();
    let crawl = || crawl::crawl(&scene.crawl).unwrap();
    let found = |crawl: &Crawl| {
        let judgement = Judgement::of(&scene.web, &scene.crawl, crawl).unwrap();
        judgement.breaches.keys().copied().collect::<Vec<_>>()
    };
    let mut evidence = crawl();
    assert_eq!(found(&evidence), []);
    let page = |entry: &Entry| {
        let host = scene.web.host_index(&entry.host).unwrap();
        scene.web.is_healthy(host) && entry.status == 200 && entry.path.len() > 12
    };
    let index = evidence.log.iter().position(page).unwrap();

    let taken = evidence.log.remove(index);
    assert!(found(&evidence).contains(&Breach::Missed));
    evidence.log.extend([taken.clone(), taken.clone()]);
    assert!(found(&evidence).contains(&Breach::FetchedTwice));
    evidence.log.pop();
    assert_eq!(found(&evidence), []);

    let nowhere = Entry { path: "/nowhere".into(), at: Time(taken.at.0 + 1), ..taken.clone() };
    evidence.log.push(nowhere.clone());
    assert_eq!(found(&evidence), [Breach::Unlinked]);
    evidence.log.pop();
    evidence.log.push(Entry { status: 421, ..nowhere });
    assert_eq!(found(&evidence), [Breach::Misdirected]);
    evidence.log.pop();

    let is_index = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "cdxj");
    let indexes: Vec<_> = evidence.files.extract_if(.., |path, _| is_index(path)).collect();
    assert_eq!(found(&evidence), [Breach::NotStored]);
    evidence.files.extend(indexes);
    evidence.files.retain(|path, _| !path.starts_with("requests"));
    assert_eq!(found(&evidence), [Breach::Lost]);
}

/// On healthy hosts a fifth to three fifths of the URLs always answer 500, and every other URL is
/// fetched. No host with faults beside them is given up while its origin answers.
#[test]
fn urls_that_fail_take_no_other_url_of_their_origin_with_them() {
    let plan = ScenePlan { is_broken: true, page_count: Some(240), ..ScenePlan::default() };
    let plan = ScenePlan { host_count: Some(12), ..plan };
    let runs: Vec<Run> = (1..=50).map(|seed| run(&plan, seed).expect("a sound plan")).collect();
    let failed: Vec<String> =
        runs.iter().filter(|run| !run.is_pass()).map(|run| run.text()).collect();
    assert!(failed.is_empty(), "{}", failed.concat());
    let reports: Vec<_> = runs.iter().flat_map(|run| judged(run).0.reports.clone()).collect();
    let (metrics, _) = merged(&reports);
    let (opened, given_up) = (Count::BreakersOpened, Count::OriginsGivenUp);
    let met = [opened, given_up].map(|count| metrics.count(count));
    assert!(met[0] > 50 && met[1] > 0, "{met:?}");
}

/// Hosts of several shards take turns at one address, and the last pages of the limit are dealt one
/// by one. A shard that has a turn needs a page of the budget that another shard may have.
#[test]
fn a_page_limit_is_reached_exactly_where_shards_share_addresses() {
    let plan = ScenePlan { profile: "default".into(), is_limited: true, ..ScenePlan::default() };
    let runs = (1..=50).map(|seed| run(&plan, seed).expect("a sound plan"));
    let (mut failed, mut reached_count) = (String::new(), 0);
    for run in runs {
        if !run.is_pass() {
            failed += &run.text();
        }
        let (crawl, judgement) = judged(&run);
        let is_over = crawl.ended.since(crawl.began) < Duration::from_secs(3_600);
        assert!(is_over, "the crawl did not end by itself: {}", run.text());
        let limit = run.scene.crawl.settings.max_pages;
        reached_count += u32::from(judgement.page_count == limit);
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(reached_count > 30, "{reached_count}");
}
