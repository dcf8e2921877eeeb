//! `nephila bench hosts`: the cost of a host in RAM when all of its URLs are fetched.
//!
//! One URL of each host goes through a frontier: it is offered, taken and ended, and then its host
//! stays idle for good. Cold hosts leave RAM as in a shard, or all stay. At each mark the process's
//! memory is read. At the end some of the first hosts are met again, and each must still have its
//! page. There is no sieve and no disk; all of it runs on one thread.

use super::BenchError;
use super::frontier::NoSieve;
use crate::base::limits::HOST_EVICTION_STEP_COUNT;
use crate::base::{HashKey, Time};
use crate::crawl::flow::{Candidate, Class, Trail, Via};
use crate::crawl::frontier::{Caps, Frontier, HostId, HostSweep, Offered};
use crate::proto::url::{HostKey, Url};
use crate::sys::process;
use serde_json::{Value, json};
use std::time::Duration;

/// How many hosts are met between two steps of the eviction.
const STRIDE: u64 = HOST_EVICTION_STEP_COUNT as u64 / 2;
/// How many hosts are met again at the end.
const MET_AGAIN_COUNT: u64 = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub host_count: u64,
    /// Whether hosts stay in RAM.
    pub is_warm: bool,
}

/// The figures when this number of hosts had been met.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub met_count: u64,
    pub warm_count: usize,
    pub cold_count: usize,
    /// How much the process's memory has grown since the start of the run.
    pub grown_bytes: u64,
    /// Time for each host since the last mark: the whole of its life, with the making of its URL.
    pub host_ns: f64,
    /// CPU time of the longest step of the eviction since the last mark.
    pub step_ns_max: u64,
}

impl Mark {
    fn bytes_per_host(&self) -> f64 {
        self.grown_bytes as f64 / self.met_count as f64
    }

    pub fn text(&self) -> String {
        format!(
            "{:>11} hosts met  {:>10} in RAM  {:>11} cold  {:>8.1} MB  {:>6.1} bytes a host  \
             {:>5.0} ns a host  longest step {:>5.0} us\n",
            self.met_count,
            self.warm_count,
            self.cold_count,
            self.grown_bytes as f64 / 1e6,
            self.bytes_per_host(),
            self.host_ns,
            self.step_ns_max as f64 / 1e3,
        )
    }
}

pub fn json(marks: &[Mark]) -> Value {
    let mark = |mark: &Mark| {
        json!({
            "met": mark.met_count,
            "warm": mark.warm_count,
            "cold": mark.cold_count,
            "grown_bytes": mark.grown_bytes,
            "bytes_per_host": mark.bytes_per_host(),
            "host_ns": mark.host_ns,
            "step_ns_max": mark.step_ns_max,
        })
    };
    marks.iter().map(mark).collect()
}

/// Runs the suite; `watch` is called with each mark when it is made.
pub fn run(plan: Plan, watch: impl Fn(&Mark)) -> Result<Vec<Mark>, BenchError> {
    let (resident_bytes, _) = process::resident_bytes();
    let mut frontier = Frontier::with_sieve(NoSieve, Caps::default(), HashKey::new(1));
    let (mut met_count, mut next_mark) = (0, 1_000_000.min(plan.host_count));
    let mut marks = Vec::new();
    while met_count < plan.host_count {
        let (begun_ns, from, mut step_ns_max) = (process::monotonic_ns(), met_count, 0);
        while met_count < next_mark {
            let end = (met_count + STRIDE).min(next_mark);
            for host in met_count..end {
                live(&mut frontier, host)?;
            }
            met_count = end;
            if !plan.is_warm {
                step_ns_max = step_ns_max.max(sweep(&mut frontier, met_count));
            }
        }
        let took_ns = process::monotonic_ns() - begun_ns;
        let mark = Mark {
            met_count,
            warm_count: frontier.host_count(),
            cold_count: frontier.cold_count(),
            grown_bytes: process::resident_bytes().0.saturating_sub(resident_bytes),
            host_ns: took_ns as f64 / (met_count - from) as f64,
            step_ns_max,
        };
        watch(&mark);
        marks.push(mark);
        next_mark = (next_mark * 2).min(plan.host_count);
    }
    for host in 0..MET_AGAIN_COUNT.min(plan.host_count) {
        let id = meet(&mut frontier, host, 1)?;
        match frontier.host_fetched_count(id) {
            1 => {}
            count => return Err(BenchError::Forgotten(count)),
        }
    }
    Ok(marks)
}

type Hosts = Frontier<NoSieve, [u64; 2]>;

/// Takes the only page of a host through the frontier, from its discovery to its end.
fn live(frontier: &mut Hosts, host: u64) -> Result<(), BenchError> {
    let now = moment(host);
    let id = meet(frontier, host, 0)?;
    frontier.advance(now);
    let popped = frontier.pop_ready();
    assert_eq!(popped, Some(id), "no other host is ready");
    if let Some(queued) = frontier.next_url(id).url() {
        frontier.complete(id, queued.url.fingerprint(frontier.hash_key()));
    }
    frontier.release(id, now);
    Ok(())
}

fn meet(frontier: &mut Hosts, host: u64, page: u64) -> Result<HostId, BenchError> {
    let name = format!("www.host-{host}.test");
    let url = Url::rebuild(&format!("http://{name}"), &format!("/articles/page-{page}.html"));
    let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
    let candidate = Candidate { url, depth: 1, class, via, trail };
    match frontier.offer(candidate, moment(host)) {
        Offered::Queued => {}
        refused => return Err(BenchError::Refused(refused)),
    }
    Ok(frontier
        .host_by_key(HostKey::of(frontier.hash_key(), &name))
        .expect("a host with a URL is in RAM"))
}

/// Makes one step of the eviction. Returns its CPU time, because others may use the core meanwhile.
fn sweep(frontier: &mut Hosts, met_count: u64) -> u64 {
    let begun_ns = process::thread_cpu_ns();
    let (now, idle) = (moment(met_count), Duration::from_millis(1));
    let slot_count = HOST_EVICTION_STEP_COUNT;
    let sweep = HostSweep { slot_count, now, idle, host_count_max: usize::MAX };
    frontier.sweep(sweep, |_, _| true);
    process::thread_cpu_ns() - begun_ns
}

/// Returns the time at which a host is met: ten thousand hosts a second.
fn moment(host: u64) -> Time {
    Time(host * 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_lets_hosts_go_and_forgets_none_of_their_pages() {
        let plan = Plan { host_count: 30_000, is_warm: false };
        let marks = run(plan, |_| {}).expect("a run");
        let [mark] = marks[..] else { panic!("one mark: {marks:?}") };
        assert!(mark.cold_count > 25_000 && mark.warm_count < 5_000, "{mark:?}");
        assert_eq!(mark.cold_count + mark.warm_count, 30_000);
        let marks = run(Plan { is_warm: true, ..plan }, |_| {}).expect("a run");
        assert_eq!((marks[0].warm_count, marks[0].cold_count), (30_000, 0));
    }
}
