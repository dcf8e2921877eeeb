//! A thousand names on one address get the share of one address, and no more.

use super::evidence::{DELAY_MS, crawl, settings};
use nephila::crawl::config::Settings;
use std::collections::BTreeSet;

#[test]
fn a_farm_of_a_thousand_names_gets_one_address_s_share() {
    // The ordinary hosts need one second. A machine that is busy with other tests gets thirty.
    let seconds = 30;
    let evidence = crawl(|stand, web| {
        let settings = Settings { max_seconds: seconds, ..settings(stand) };
        let farm = web.hostile().expect("hostile hosts").farm_url();
        (settings, vec![farm, web.seed_url()])
    });
    let (of_farm, of_others): (Vec<_>, Vec<_>) =
        evidence.asked.iter().partition(|entry| entry.local.ip() == evidence.farm);
    let gaps = of_farm.windows(2).map(|pair| pair[1].at.0 - pair[0].at.0);
    assert!(gaps.min().expect("several requests") >= DELAY_MS * 1_000_000);
    let hosts: BTreeSet<&str> = of_farm.iter().map(|entry| entry.host.as_str()).collect();
    assert!(hosts.len() > 5, "names of the farm take turns: {hosts:?}");
    let share = seconds * 1_000 / DELAY_MS;
    assert!(of_farm.len() as u64 <= share + 1, "{} requests", of_farm.len());
    // Twenty hosts with twenty pages and a robots.txt each have ended long before the farm has.
    let pages = of_others.iter().filter(|entry| entry.path != "/robots.txt").count();
    assert_eq!(pages, evidence.ordinary.len(), "ordinary hosts are crawled beside the farm");
}
