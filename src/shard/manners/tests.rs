//! Manners without a shard: what they promise to webmasters, and to the shard.

use super::*;
use crate::crawl::flow::Penalty;

#[test]
fn a_url_out_of_tries_is_a_dead_letter_everywhere_however_its_origin_failed() {
    let causes = Outcome::ALL.into_iter().filter(|of| of.row().penalty == Penalty::BackOff);
    assert!(causes.clone().any(|cause| cause == Outcome::CutTime));
    for cause in causes {
        assert!(is_failure(out_of_tries(Some(cause))), "{}", cause.name());
    }
    assert_eq!(out_of_tries(Some(Outcome::ConnectRefused)), Outcome::ConnectRefused);
    assert_eq!(out_of_tries(None), Outcome::RobotsUnreachable);
}
