//! Helpers of the micro-benches.

use criterion::Criterion;
use std::time::Duration;

/// Each bench measures for two seconds, so a whole file takes less than a minute.
pub fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .without_plots()
}
