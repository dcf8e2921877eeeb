//! The yardstick: how fast the machine was while a crawl was measured. It does a fixed piece of
//! work ten times a second on the crawl's own core. On a shared machine the same crawl costs half
//! as much again in one minute as in another, so two figures can be compared only if their
//! yardsticks are equal.
//!
//! A core comes in. The results for a window of time go out: the median time of a memory load that
//! no cache holds, the median time of a hash of data that the first-level cache holds, and for how
//! long the host of the virtual machine ran others on that core while the crawl wanted it (steal,
//! as the kernel counts it). The work costs the core some 0.2 %; it runs on a thread of its own.

use super::BenchError;
use super::suites::median;
use crate::base::Time;
use crate::sys::{affinity, memory, process};
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The pause between two pieces of work.
const REST: Duration = Duration::from_millis(100);
/// How many lines the circle of loads has: 64 MB, more than the caches of a core and of its
/// neighbours.
const LINE_COUNT: usize = 1 << 20;
const LOAD_COUNT: u64 = 1_000;
const HASHED_BYTES: usize = 16 * 1024;
const HASH_COUNT: u64 = 8;

/// The times of one piece of work.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    load_ns: f64,
    hash_ns: f64,
    /// Stolen time since the machine was started.
    stolen_ms: u64,
}

/// How fast the machine was in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worth {
    /// Time of a load from memory whose address depends on the load before it.
    pub load_ns: f64,
    /// Time of a hash over 16 KB.
    pub hash_ns: f64,
    /// Time that the machine's host took from the core, in all.
    pub stolen_ms: u64,
    /// The most of it between two looks, some 100 ms apart. If that was in one piece, requests due
    /// at its beginning are late by as much.
    pub stolen_ms_max: u64,
}

impl Worth {
    pub fn json(&self) -> Value {
        json!({
            "load_ns": self.load_ns,
            "hash_ns": self.hash_ns,
            "stolen_ms": self.stolen_ms,
            "stolen_ms_max": self.stolen_ms_max,
        })
    }
}

/// A thread that measures until [`Yardstick::take`] ends it.
pub struct Yardstick {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Yardstick {
    pub fn start(core: Option<usize>) -> Result<Yardstick, BenchError> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("yardstick".to_owned())
            .spawn(move || {
                // Where the process may not choose its core, any core will do, since the crawl then
                // runs on any as well.
                let _kept = core.and_then(|core| affinity::keep_to(&[core]).ok());
                measure(core, &stopped)
            })
            .map_err(|error| BenchError::System("start the yardstick", error))?;
        Ok(Yardstick { stop, thread })
    }

    /// Ends the measurement and returns its record.
    pub fn take(self) -> Result<Record, BenchError> {
        drop(self.stop);
        let samples = self.thread.join().map_err(|_| BenchError::Died)?;
        Ok(Record { samples })
    }
}

/// All samples of a yardstick.
pub struct Record {
    samples: Vec<Sample>,
}

impl Record {
    /// Returns how fast the machine was between two times of the monotonic clock.
    pub fn worth(&self, from: Time, to: Time) -> Worth {
        let within = || self.samples.iter().filter(|sample| (from..=to).contains(&sample.at));
        Worth {
            load_ns: median(within().map(|sample| sample.load_ns)),
            hash_ns: median(within().map(|sample| sample.hash_ns)),
            stolen_ms: self.stolen_ms(from, to).sum(),
            stolen_ms_max: self.stolen_ms(from, to).max().unwrap_or(0),
        }
    }

    /// Returns the stolen time of each look in the window. For the first one it is counted from the
    /// look before it.
    pub fn stolen_ms(&self, from: Time, to: Time) -> impl Iterator<Item = u64> {
        let looks = self.samples.iter().zip(self.samples.iter().skip(1));
        looks
            .filter(move |(_, sample)| (from..=to).contains(&sample.at))
            .map(|(before, sample)| sample.stolen_ms.saturating_sub(before.stolen_ms))
    }
}

#[cfg(test)]
impl Record {
    /// Makes a record with one look at each time, and what had been stolen until then.
    pub(super) fn of_stolen_ms(looks: &[(Time, u64)]) -> Record {
        let sample = |(at, stolen_ms)| Sample { at, load_ns: 1.0, hash_ns: 1.0, stolen_ms };
        Record { samples: looks.iter().copied().map(sample).collect() }
    }
}

fn measure(core: Option<usize>, stopped: &mpsc::Receiver<()>) -> Vec<Sample> {
    let (lines, bytes) = (circle(LINE_COUNT), vec![7; HASHED_BYTES]);
    let (mut samples, mut place) = (Vec::new(), 0);
    while stopped.recv_timeout(REST) == Err(RecvTimeoutError::Timeout) {
        let begun_ns = process::thread_cpu_ns();
        for _ in 0..LOAD_COUNT {
            place = lines[place as usize].0[0];
        }
        let loaded_ns = process::thread_cpu_ns();
        // The first hash brings the data into the cache; only the later ones are timed.
        black_box(xxh3_64(black_box(&bytes)));
        let warm_ns = process::thread_cpu_ns();
        for _ in 0..HASH_COUNT {
            black_box(xxh3_64(black_box(&bytes)));
        }
        let hashed_ns = process::thread_cpu_ns();
        samples.push(Sample {
            at: Time(process::monotonic_ns()),
            load_ns: (loaded_ns - begun_ns) as f64 / LOAD_COUNT as f64,
            hash_ns: (hashed_ns - warm_ns) as f64 / HASH_COUNT as f64,
            stolen_ms: stolen_ms(&std::fs::read_to_string("/proc/stat").unwrap_or_default(), core),
        });
    }
    black_box(place);
    samples
}

/// Reads the steal of the core, or of all cores, from the text of `/proc/stat` (proc_stat(5): the
/// eighth figure behind the name, in hundredths of a second). Returns zero if the system does not
/// give it.
fn stolen_ms(stat: &str, core: Option<usize>) -> u64 {
    let name = core.map_or("cpu".to_owned(), |core| format!("cpu{core}"));
    let mut lines = stat.lines().map(|line| line.split_ascii_whitespace());
    let figures = lines.find_map(|mut words| (words.next()? == name).then_some(words));
    let ticks = figures.and_then(|mut words| words.nth(7)?.parse::<u64>().ok());
    ticks.unwrap_or(0) * 10
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u32; 16]);

/// Makes lines that each name the next line at random, and that all form one circle (Sattolo).
fn circle(count: usize) -> Vec<Line> {
    let mut lines = Vec::with_capacity(count);
    memory::want_huge_pages(lines.spare_capacity_mut());
    lines.extend((0..count as u32).map(|number| Line([number; 16])));
    let mut state = 1u64;
    for last in (1..count).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let other = ((state >> 32) as usize * last) >> 32;
        lines.swap(last, other);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_leads_over_every_line_before_it_comes_back() {
        let lines = circle(1_000);
        let mut met = [false; 1_000];
        let mut place = 0;
        for _ in 0..1_000 {
            assert!(!std::mem::replace(&mut met[place], true), "{place} twice");
            place = lines[place].0[0] as usize;
        }
        assert_eq!(place, 0);
    }

    #[test]
    fn only_what_was_seen_in_the_window_counts() {
        let (stop, _stopped) = mpsc::channel();
        let sample = |at, load_ns, stolen_ms| Sample {
            at: Time(at),
            load_ns,
            hash_ns: 2.0 * load_ns,
            stolen_ms,
        };
        let samples = vec![
            sample(1, 90.0, 100),
            sample(3, 90.0, 110),
            sample(5, 4.0, 120),
            sample(6, 5.0, 160),
            sample(7, 60.0, 900),
        ];
        let thread = std::thread::spawn(move || samples);
        let record = Yardstick { stop, thread }.take().expect("samples");
        let wanted = Worth { load_ns: 4.5, hash_ns: 9.0, stolen_ms: 50, stolen_ms_max: 40 };
        assert_eq!(record.worth(Time(5), Time(6)), wanted);
    }

    #[test]
    fn steal_is_that_of_the_core_in_question() {
        let stat =
            "cpu  9 0 9 9 9 0 9 39 0 0\ncpu1 1 2 3 4 5 6 7 8 9 10\ncpu11 1 2 3 4 5 6 7 31 9\n";
        assert_eq!(stolen_ms(stat, Some(1)), 80);
        assert_eq!(stolen_ms(stat, Some(11)), 310);
        assert_eq!(stolen_ms(stat, None), 390);
        assert_eq!([stolen_ms(stat, Some(2)), stolen_ms("cpu1 1 2", Some(1))], [0, 0]);
    }
}
