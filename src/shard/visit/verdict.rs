//! The outcome of an answer, and what happens to its URL next. These functions depend on their
//! arguments alone.

use crate::crawl::config::Settings;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Outcome, Queued};
use crate::crawl::metrics::is_failure;
use crate::proto::url::Url;

/// What happens to a URL after its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The request was never sent, because we had no descriptor, port or buffer: it is made again,
    /// and no try is counted.
    Again,
    /// The URL gets another try, later.
    Retry,
    /// The URL is given up and becomes a dead letter.
    Bury,
    /// The URL has ended.
    End,
}

/// Decides what happens to a URL next. `was_sent` says whether a request for it was sent.
pub(super) fn next_step(
    outcome: Outcome,
    was_sent: bool,
    queued: &Queued,
    settings: &Settings,
) -> NextStep {
    if outcome == Outcome::Shed && !was_sent {
        NextStep::Again
    } else if outcome.row().retry && queued.tries_made() < settings.retry_count_max {
        NextStep::Retry
    } else if is_failure(outcome) {
        NextStep::Bury
    } else {
        NextStep::End
    }
}

/// Returns the outcome of an answer by its status. It does not look at where a redirect leads; that
/// is left to the caller.
pub(super) fn by_status(answer: &Answer) -> Outcome {
    let Some(head) = answer.head.as_ref() else { return answer.outcome };
    match head.status() {
        200..300 => answer.outcome,
        304 => Outcome::NotModified,
        300..400 => Outcome::Redirected,
        429 => Outcome::Throttled,
        503 if head.header("retry-after").is_some() => Outcome::Throttled,
        400..500 => Outcome::ClientError,
        // RFC 9110 15: a status beyond the known classes is treated as a server error.
        500.. => Outcome::ServerError,
        _ => Outcome::Malformed,
    }
}

/// Reports whether both URLs are the same URL to us, whatever the order of their parameters. If so,
/// URL seen would reject the second.
pub(super) fn is_respelled(url: &Url, target: &Url) -> bool {
    url.compared() == target.compared()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::flow::{Class, Via};

    fn queued(tries: u8) -> Queued {
        let url = Url::parse("http://a.test/").expect("a URL");
        let (class, via, trail) = (Class::Normal, Via::Link, Box::default());
        Queued { url, depth: 1, class, via, tries, trail }
    }

    #[test]
    fn every_outcome_ends_in_one_way_and_none_is_tried_for_ever() {
        let settings = Settings::default();
        for outcome in Outcome::ALL {
            let steps: Vec<NextStep> = (0..=settings.retry_count_max)
                .map(|tries| next_step(outcome, true, &queued(tries), &settings))
                .collect();
            let (last, before) = steps.split_last().expect("a last try");
            let retried = if outcome.row().retry { NextStep::Retry } else { *last };
            assert!(before.iter().all(|step| *step == retried), "{}: {steps:?}", outcome.name());
            let end = if is_failure(outcome) { NextStep::Bury } else { NextStep::End };
            assert_eq!(*last, end, "{}", outcome.name());
        }
    }

    #[test]
    fn a_request_that_never_left_costs_no_try() {
        let settings = Settings::default();
        let spent = queued(settings.retry_count_max);
        assert_eq!(next_step(Outcome::Shed, false, &spent, &settings), NextStep::Again);
        assert_ne!(next_step(Outcome::Shed, true, &spent, &settings), NextStep::Again);
    }
}
