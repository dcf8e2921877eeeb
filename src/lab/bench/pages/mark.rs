//! The figures of a course's pages when a given number of URLs was queued.

use crate::lab::bench::yardstick::Worth;
use crate::shard::discovery::link_desk::LinkTally;
use serde_json::{Value, json};

/// The figures when this number of URLs was queued.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub queued_count: u64,
    pub page_count: u64,
    /// CPU time of the core for each page: to pop it, to send its links if they come as URLs, for
    /// its links and the release, and for the disk.
    pub pop_ns: f64,
    pub send_ns: f64,
    pub links_ns: f64,
    pub jobs_ns: f64,
    pub wall_ns: f64,
    /// CPU time for each push since the last mark, including jobs and the making of the URL.
    pub fill_ns: f64,
    /// The tally of the links of all pages.
    pub tally: LinkTally,
    pub wait_count: u64,
    /// Merges of URL seen while the pages were timed.
    pub merge_count: u64,
    pub resident_bytes: u64,
    /// How fast the machine was while the pages were timed.
    pub worth: Worth,
}

impl Mark {
    pub fn page_ns(&self) -> f64 {
        self.pop_ns + self.send_ns + self.links_ns + self.jobs_ns
    }

    /// Returns the pages per second, by CPU time and by wall time.
    pub fn pages_per_second(&self) -> (f64, f64) {
        (1e9 / self.page_ns(), 1e9 / self.wall_ns)
    }

    /// Returns how many links of a page the memo knew, URL seen knew, wait for the disk, and were
    /// new.
    pub fn shares(&self) -> [f64; 4] {
        let LinkTally { remembered_count, known_count, deferred_count, queued_count, .. } =
            self.tally;
        [remembered_count, known_count, deferred_count, queued_count]
            .map(|count| count as f64 / self.page_count as f64)
    }

    pub fn text(&self) -> String {
        let (by_cpu, by_wall) = self.pages_per_second();
        let [remembered, known, deferred, new] = self.shares();
        format!(
            "{:>10} queued  {:>6.0} pages/s by CPU, {:>6.0} by wall  {:>6.0} ns a page: pop {:.0}, \
             send {:.0}, links {:.0}, disk {:.0}  links: {remembered:.1} remembered, \
             {known:.1} known, {deferred:.1} deferred, {new:.1} new  {} waits  {} merges  \
             {:.0} ns a push, filling  {:.0} MB  {:.0} ns a load, {:.0} a hash\n",
            self.queued_count,
            by_cpu,
            by_wall,
            self.page_ns(),
            self.pop_ns,
            self.send_ns,
            self.links_ns,
            self.jobs_ns,
            self.wait_count,
            self.merge_count,
            self.fill_ns,
            self.resident_bytes as f64 / 1e6,
            self.worth.load_ns,
            self.worth.hash_ns,
        )
    }
}

pub fn json(marks: &[Mark]) -> Value {
    let mark = |mark: &Mark| {
        json!({
            "queued": mark.queued_count,
            "pages": mark.page_count,
            "pages_per_cpu_second": mark.pages_per_second().0,
            "pages_per_second": mark.pages_per_second().1,
            "pop_ns": mark.pop_ns,
            "send_ns": mark.send_ns,
            "links_ns": mark.links_ns,
            "jobs_ns": mark.jobs_ns,
            "wall_ns": mark.wall_ns,
            "fill_ns": mark.fill_ns,
            "links_a_page": mark.shares(),
            "waits": mark.wait_count,
            "merges": mark.merge_count,
            "resident_bytes": mark.resident_bytes,
            "machine": mark.worth.json(),
        })
    };
    marks.iter().map(mark).collect()
}
