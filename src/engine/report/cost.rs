//! The cost of a page: CPU time by stage, system calls, copies, and how well buffers and
//! connections are used. It is shown in the summary of a crawl and in `nephila bench` reports.

use crate::crawl::metrics::{Count, Gauges, Metrics, Stage};
use serde_json::{Map, Value, json};

/// Costs per page, of a whole crawl or of a part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PageCosts {
    /// CPU time of the cores' threads.
    pub cpu_us: f64,
    pub stages_us: Vec<(Stage, f64)>,
    /// CPU time that no stage accounts for: the runtime, and the tasks of the store and the
    /// journal.
    pub rest_us: f64,
    pub syscalls: f64,
    /// Bytes that the program copied. The kernel's copies are not counted.
    pub bytes_copied: f64,
    /// The share of requests that used a connection that was open already.
    pub keep_alive_rate: f64,
    /// The share of received pieces that found a free buffer of the ring at once.
    pub buffer_rate: f64,
}

impl PageCosts {
    /// Computes the costs. `gauges` are those at the end less those at the beginning
    /// ([`Gauges::since`]). Without a page nothing is a cost per page, so all of those are zero.
    pub fn of(metrics: &Metrics, gauges: &Gauges) -> PageCosts {
        let page_count = metrics.count(Count::Pages);
        let per_page = |count: u64| match page_count {
            0 => 0.0,
            pages => count as f64 / pages as f64,
        };
        let us = |ns: u64| per_page(ns) / 1e3;
        let stages: Vec<_> =
            Stage::ALL.iter().map(|stage| (*stage, us(metrics.stage_ns(*stage)))).collect();
        let booked_us: f64 = stages.iter().map(|(_, us)| us).sum();
        let share = |part: u64, rest: u64| part as f64 / (part + rest).max(1) as f64;
        let (opened, reused) = (Count::ConnectionsOpened, Count::ConnectionsReused);
        PageCosts {
            cpu_us: us(gauges.cpu_ns),
            rest_us: us(gauges.cpu_ns) - booked_us,
            stages_us: stages,
            syscalls: per_page(gauges.syscalls),
            bytes_copied: per_page(metrics.count(Count::BytesCopied)),
            keep_alive_rate: share(metrics.count(reused), metrics.count(opened)),
            buffer_rate: share(gauges.pieces_received, gauges.buffers_starved),
        }
    }

    pub fn json(&self) -> Value {
        let stages: Map<String, Value> =
            self.stages_us.iter().map(|(stage, us)| (stage.name().to_owned(), json!(us))).collect();
        json!({
            "cpu_us": self.cpu_us,
            "stages_us": stages,
            "rest_us": self.rest_us,
            "syscalls": self.syscalls,
            "bytes_copied": self.bytes_copied,
            "keep_alive_rate": self.keep_alive_rate,
            "buffer_rate": self.buffer_rate,
        })
    }

    /// Returns the costs on one line, with the most expensive stage first.
    pub fn text(&self) -> String {
        let mut stages = self.stages_us.clone();
        stages.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let shown = stages.iter().filter(|(_, us)| *us >= 0.05);
        let stages: Vec<String> =
            shown.map(|(stage, us)| format!("{} {us:.1}", stage.name())).collect();
        format!("{:.1} us: {}, rest {:.1}", self.cpu_us, stages.join(", "), self.rest_us)
    }
}
