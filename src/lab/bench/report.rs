//! The report of a suite: a table for people, JSON for programs, HdrHistogram logs, and one HTML
//! page with plots, stored together with the date, the commit and the machine.

use super::BenchError;
use super::plot::{Bars, Lines, escaped};
use crate::base::WallTime;
use crate::sys::affinity;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// A table. The first column is left-aligned text, the others are figures.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub title: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug)]
pub enum Plot {
    Lines(Lines),
    Bars(Bars),
}

/// The times of a span over one window.
#[derive(Clone, Debug)]
pub struct Timed {
    pub tag: String,
    pub seconds: f64,
    pub us: Histogram<u64>,
}

pub struct Report {
    pub suite: &'static str,
    /// What was done, so that it can be repeated.
    pub about: String,
    pub command: String,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    pub timed: Vec<Timed>,
    pub data: Value,
    /// The reasons why the run does not count, if there are any.
    pub failures: Vec<String>,
    pub at: WallTime,
    pub machine: Machine,
}

/// The machine that the measurement ran on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub cpu: String,
    pub core_count: usize,
    pub memory_mb: u64,
    pub kernel: String,
    pub load: String,
    pub commit: String,
}

impl Machine {
    /// Describes this machine as it is now. Values that the system does not give are "unknown".
    pub fn here() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let unknown = || "unknown".to_owned();
        let cpuinfo = read("/proc/cpuinfo");
        // Makers sell many processors under one name, so family and model are needed too.
        let known =
            ["cpu family", "model\t"].map(|name| field(&cpuinfo, name).unwrap_or_else(unknown));
        let name = field(&cpuinfo, "model name").unwrap_or_else(unknown);
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let memory_kb = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let git = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
        let commit = git.ok().filter(|output| output.status.success());
        let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok());
        Machine {
            cpu: format!("{name} (family {}, model {})", known[0], known[1]),
            core_count: affinity::allowed_cores().len(),
            memory_mb: memory_kb.unwrap_or(0) / 1_024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            commit: commit.map_or_else(unknown, |text| text.trim().to_owned()),
        }
    }

    fn text(&self) -> String {
        let Machine { cpu, core_count, memory_mb, kernel, load, commit } = self;
        format!(
            "commit {commit}; {cpu}, {core_count} cores, {memory_mb} MB, Linux {kernel}; \
             load {load}"
        )
    }
}

impl Table {
    pub fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain([&self.columns[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = format!("{}\n", self.title);
        for row in [&self.columns].into_iter().chain(&self.rows) {
            for (index, cell) in row.iter().enumerate() {
                let width = widths[index];
                // Writing to a String does not fail.
                let _ = match index {
                    0 => write!(out, "  {cell:<width$}"),
                    _ => write!(out, "  {cell:>width$}"),
                };
            }
            out.push('\n');
        }
        out
    }

    fn html(&self) -> String {
        let cells = |row: &[String], tag: &str| -> String {
            row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect()
        };
        let rows: String =
            self.rows.iter().map(|row| format!("<tr>{}</tr>", cells(row, "td"))).collect();
        let (title, columns) = (escaped(&self.title), cells(&self.columns, "th"));
        format!("<h3>{title}</h3><div><table><tr>{columns}</tr>{rows}</table></div>")
    }

    fn markdown(&self) -> String {
        let line = |row: &[String]| format!("| {} |\n", row.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.columns.len()));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("## {}\n\n{}{rule}{rows}\n", self.title, line(&self.columns))
    }
}

const PAGE_STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:80rem;\
    margin:2rem auto;padding:0 1rem;color:#1f2933}\
    div{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-size:.85em}\
    td,th{padding:.2rem .45rem;white-space:nowrap;border-bottom:1px solid #d9dee3;text-align:right}\
    td:first-child,th:first-child{text-align:left}svg{display:block;max-width:100%}\
    svg text{font:11px system-ui,sans-serif;fill:#1f2933}svg .g{stroke:#d9dee3}\
    svg .m{text-anchor:middle}svg .r{text-anchor:end}.bad{color:#9d0208}";

impl Report {
    pub fn text(&self) -> String {
        let mut out = format!("{}: {}\n\n", self.suite, self.about);
        self.tables.iter().for_each(|table| out.push_str(&format!("{}\n", table.text())));
        self.failures.iter().for_each(|failure| out.push_str(&format!("FAILED: {failure}\n")));
        out
    }

    pub fn json(&self) -> Value {
        let Machine { cpu, core_count, memory_mb, kernel, load, commit } = &self.machine;
        json!({
            "suite": self.suite,
            "about": self.about,
            "command": self.command,
            "at": self.at.to_string(),
            "machine": {"cpu": cpu, "cores": core_count, "memory_mb": memory_mb, "kernel": kernel,
                        "load": load, "commit": commit},
            "failures": self.failures,
            "data": self.data,
        })
    }

    pub fn html(&self) -> String {
        let mut body = format!(
            "<h1>nephila bench {}</h1><p>{}</p><p><code>{}</code></p><p>{}, {}</p>",
            self.suite,
            escaped(&self.about),
            escaped(&self.command),
            self.at,
            escaped(&self.machine.text())
        );
        for failure in &self.failures {
            body.push_str(&format!("<p class=\"bad\">Does not count: {}</p>", escaped(failure)));
        }
        // The first table and the plots come first, because some tables are long.
        let mut tables = self.tables.iter().map(Table::html);
        body.extend(tables.next());
        body.extend(self.plots.iter().map(|plot| match plot {
            Plot::Lines(lines) => lines.svg(),
            Plot::Bars(bars) => bars.svg(),
        }));
        body.extend(tables);
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
             <title>nephila bench {}</title><style>{PAGE_STYLE}</style>{body}</html>\n",
            self.suite
        )
    }

    fn markdown(&self) -> String {
        let mut out = format!(
            "# nephila bench {}\n\n{}\n\n`{}`\n\n{}, {}\n\n",
            self.suite,
            self.about,
            self.command,
            self.at,
            self.machine.text()
        );
        for failure in &self.failures {
            out.push_str(&format!("**Does not count:** {failure}\n\n"));
        }
        self.tables.iter().for_each(|table| out.push_str(&table.markdown()));
        out
    }

    /// Writes `DATE-SUITE.md`, `.json`, `.html` and `.hlog` into `folder` and returns the paths. No
    /// result is overwritten: the next result of the same day has the time of day in its name.
    pub fn file(&self, folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
        let failed = |error| BenchError::System("file the report", error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let stem = self.free_stem(folder);
        let json = format!("{:#}\n", self.json());
        let mut texts = vec![("md", self.markdown()), ("json", json), ("html", self.html())];
        if !self.timed.is_empty() {
            texts.push(("hlog", self.hlog()?));
        }
        let mut paths = Vec::new();
        for (ending, text) in texts {
            let path = folder.join(format!("{stem}.{ending}"));
            std::fs::write(&path, text).map_err(failed)?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// Returns the first of `DATE-SUITE`, `DATE-HHMM-SUITE` and `DATE-HHMMSS-SUITE` that no result
    /// has. Every suite takes more than a second, so the last one is always free.
    fn free_stem(&self, folder: &Path) -> String {
        let digits: String = self.at.to_string().replace(':', "");
        let (day, time) = digits.split_once('T').unwrap_or((&digits, ""));
        let time = |len| time.get(..len).unwrap_or(time);
        let mut stems = [String::new(), format!("{}-", time(4)), format!("{}-", time(6))]
            .map(|time| format!("{day}-{time}{}", self.suite))
            .into_iter();
        let is_free = |stem: &String| !folder.join(format!("{stem}.md")).exists();
        let last = stems.next_back().unwrap_or_default();
        stems.find(is_free).unwrap_or(last)
    }

    /// Returns all times, in microseconds, in the log format of HdrHistogram.
    fn hlog(&self) -> Result<String, BenchError> {
        let failed = |error: &dyn std::fmt::Debug| BenchError::Histogram(format!("{error:?}"));
        let mut bytes = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let begun = UNIX_EPOCH + Duration::from_nanos(self.at.0);
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment(&format!("nephila bench {}", self.suite))
            .with_start_time(begun)
            .begin_log_with(&mut bytes, &mut serializer)
            .map_err(|error| failed(&error))?;
        for timed in &self.timed {
            let tag = Tag::new(&timed.tag);
            let span = Duration::from_secs_f64(timed.seconds);
            log.write_histogram(&timed.us, Duration::ZERO, span, tag)
                .map_err(|error| failed(&error))?;
        }
        String::from_utf8(bytes).map_err(|error| failed(&error))
    }
}

/// Makes the cells of a table.
pub(super) fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn report() -> Report {
        let mut us = Histogram::new_with_bounds(1, 1_000_000, 2).expect("bounds");
        us.record(250).expect("in bounds");
        let row = strings(&["one <run>", "12"]);
        let columns = strings(&["run", "pages/s"]);
        Report {
            suite: "small",
            about: "25 KB pages".to_owned(),
            command: "nephila bench small".to_owned(),
            tables: vec![Table { title: "Speed".to_owned(), columns, rows: vec![row] }],
            plots: Vec::new(),
            timed: vec![Timed { tag: "total".to_owned(), seconds: 30.0, us }],
            data: json!({"pages_per_second": 12}),
            failures: vec!["a host was asked too soon".to_owned()],
            at: WallTime(1_767_225_599_000_000_000),
            machine: Machine::here(),
        }
    }

    #[test]
    fn a_report_is_filed_in_four_forms_and_each_says_that_it_does_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = report().file(folder.path()).expect("files");
        let read = |index: usize| std::fs::read_to_string(&paths[index]).expect("a file");
        assert!(paths[0].ends_with("2025-12-31-small.md"), "{paths:?}");
        assert!(read(0).contains("| one <run> | 12 |") && read(0).contains("asked too soon"));
        let json: Value = serde_json::from_str(&read(1)).expect("JSON");
        assert_eq!(json["failures"][0], "a host was asked too soon");
        assert_eq!(json["data"]["pages_per_second"], 12);
        assert!(read(2).contains("one &lt;run&gt;") && read(2).contains("asked too soon"));
        let hlog = read(3).into_bytes();
        let entries: Vec<_> = IntervalLogIterator::new(&hlog).filter_map(Result::ok).collect();
        let is_total = |entry: &&LogEntry<'_>| {
            let LogEntry::Interval(line) = entry else { return false };
            line.tag().is_some_and(|tag| tag.as_str() == "total")
        };
        assert_eq!(entries.iter().filter(is_total).count(), 1, "{entries:?}");
    }

    #[test]
    fn a_result_of_the_same_day_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut report = report();
        let mut file = |about: &str| {
            report.about = about.to_owned();
            report.file(folder.path()).expect("files").swap_remove(0)
        };
        let paths = [file("first"), file("second"), file("third")];
        for (path, time) in paths.iter().zip(["", "2359-", "235959-"]) {
            assert!(path.ends_with(format!("2025-12-31-{time}small.md")), "{path:?}");
        }
        let read = |path| std::fs::read_to_string(path).expect("a file");
        assert!(read(&paths[0]).contains("first") && read(&paths[2]).contains("third"));
    }

    #[test]
    fn a_table_is_aligned() {
        let text = report().tables[0].text();
        assert_eq!(text, "Speed\n  run        pages/s\n  one <run>       12\n");
    }
}
