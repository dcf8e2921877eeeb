//! The report of a run: a line for people, a JSON object for programs, and the command that replays
//! a failure.

use crate::lab::audit::{AuditError, Extreme};
use crate::lab::sim::crawl::{Crawl, CrawlError};
use crate::lab::sim::judge::Judgement;
use crate::lab::sim::scene::{Scene, ScenePlan};
use crate::lab::web::log::Entry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;
use std::{fs, io};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// One seed's run, judged.
pub struct Run {
    plan: ScenePlan,
    pub scene: Scene,
    /// The crawl and its judgement, or why there is none: the crawl came to no end, or its log
    /// could not be read.
    pub judged: Result<(Crawl, Judgement), RunError>,
}

#[derive(Debug)]
pub enum RunError {
    Crawl(CrawlError),
    Audit(AuditError),
}

impl fmt::Display for RunError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Crawl(error) => write!(out, "{error}"),
            RunError::Audit(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl Run {
    pub(super) fn new(plan: &ScenePlan, scene: Scene, crawl: Result<Crawl, CrawlError>) -> Run {
        let judged = crawl.map_err(RunError::Crawl).and_then(|crawl| {
            let judgement = Judgement::of(&scene.web, &scene.crawl, &crawl);
            Ok((crawl, judgement.map_err(RunError::Audit)?))
        });
        Run { plan: plan.clone(), scene, judged }
    }

    pub fn is_pass(&self) -> bool {
        self.judged.as_ref().is_ok_and(|(_, judgement)| judgement.is_pass())
    }

    /// Returns the command that runs this seed again.
    pub fn replay(&self) -> String {
        let ScenePlan { profile, hours, host_count, page_count, shard_count, .. } = &self.plan;
        let seed = self.scene.crawl.seed;
        let mut command = format!("nephila sim --seed {seed} --hours {hours}");
        // Writing to a String does not fail.
        if let Some(count) = host_count {
            let _ = write!(command, " --hosts {count}");
        }
        if let Some(count) = page_count {
            let _ = write!(command, " --pages {count}");
        }
        if let Some(count) = shard_count {
            let _ = write!(command, " --shards {count}");
        }
        if profile != "storm" {
            let _ = write!(command, " --profile {profile}");
        }
        if let Some(sabotage) = &self.plan.sabotage {
            let _ = write!(command, " --sabotage {}", sabotage.name());
        }
        if self.plan.is_limited {
            command += " --limited";
        }
        if self.plan.is_broken {
            command += " --broken";
        }
        if self.plan.crash_count > 0 {
            let _ = write!(command, " --crashes {}", self.plan.crash_count);
        }
        if self.plan.is_steady {
            command.push_str(" --steady");
        }
        if self.plan.is_lone {
            command.push_str(" --lone");
        }
        command
    }

    /// Returns one line. For a failure, the broken rules and the command to replay it follow below.
    pub fn text(&self) -> String {
        let plan = &self.scene.crawl;
        let verdict = if self.is_pass() { "ok" } else { "FAILED" };
        let mut text = format!(
            "seed {}: {verdict}, {} shards, {} hosts ({} healthy)",
            plan.seed, plan.shard_count, plan.spec.host_count, self.scene.healthy_count
        );
        match &self.judged {
            Ok((crawl, judgement)) => {
                let _ = writeln!(text, ", {}", facts(crawl, judgement, plan.settings.delay_ms));
                let _ = write!(text, "{judgement}");
                if !self.is_pass() {
                    crawl.downfalls.iter().for_each(|downfall| {
                        let _ = writeln!(text, "  {downfall}");
                    });
                }
            }
            Err(error) => {
                let _ = writeln!(text, ": {error}");
            }
        }
        if !self.is_pass() {
            let _ = writeln!(text, "  replay: {}", self.replay());
        }
        text
    }

    /// Writes what the judge has read into `dir`: the servers' log, and the crawl's own files.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let Ok((crawl, _)) = &self.judged else { return Ok(()) };
        fs::create_dir_all(dir)?;
        fs::write(dir.join("web.log"), &crawl.log_text)?;
        for (path, bytes) in &crawl.files {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap_or(dir))?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }

    pub fn json(&self) -> Value {
        let plan = &self.scene.crawl;
        let mut object = json!({
            "seed": plan.seed,
            "pass": self.is_pass(),
            "shards": plan.shard_count,
            "hosts": plan.spec.host_count,
            "hosts_healthy": self.scene.healthy_count,
            "urls": plan.spec.page_count,
            "delay_ms": plan.settings.delay_ms,
            "replay": self.replay(),
        });
        let (crawl, judgement) = match &self.judged {
            Ok(judged) => judged,
            Err(error) => {
                object["error"] = error.to_string().into();
                return object;
            }
        };
        object["virtual_seconds"] = crawl.ended.since(crawl.began).as_secs_f64().into();
        object["stopped"] = crawl.is_stopped.into();
        object["digest"] = format!("{:016x}", crawl.digest).into();
        object["log"] = format!("{:016x}", xxh3_64(crawl.log_text.as_bytes())).into();
        object["requests"] = format!("{:016x}", requests_digest(&crawl.log)).into();
        object["steps"] = crawl.step_count.into();
        object["pages"] = judgement.page_count.into();
        object["refetches"] = judgement.refetch_count.into();
        object["crashes"] = crawl.downfalls.len().into();
        object["waiting"] = judgement.waiting_count.into();
        let breaches = judgement.breaches.iter();
        object["breaches"] = breaches
            .map(|(breach, (count, shown))| {
                (breach.name().to_owned(), json!({ "count": count, "first": shown }))
            })
            .collect::<serde_json::Map<_, _>>()
            .into();
        object["referee"] = json!(judgement.verdict);
        object
    }
}

/// Returns a digest of what each host was asked for and answered, in order, but without the times.
fn requests_digest(log: &[Entry]) -> u64 {
    let mut in_order: Vec<&Entry> = log.iter().collect();
    in_order.sort_by_key(|entry| entry.at);
    let mut by_host: BTreeMap<(bool, &str), Xxh3Default> = BTreeMap::new();
    for entry in in_order {
        let hash = by_host.entry((entry.is_https, &entry.host)).or_default();
        hash.update(entry.path.as_bytes());
        hash.update(&entry.status.to_le_bytes());
    }
    let mut whole = Xxh3Default::new();
    for ((is_https, host), hash) in by_host {
        whole.update(host.as_bytes());
        whole.update(&[u8::from(is_https)]);
        whole.update(&hash.digest().to_le_bytes());
    }
    whole.digest()
}

fn facts(crawl: &Crawl, judgement: &Judgement, delay_ms: u64) -> String {
    let seconds = crawl.ended.since(crawl.began).as_secs();
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let verdict = &judgement.verdict;
    let gap = |gap: &Option<Extreme>| match gap {
        Some(gap) => format!("{:.3} s", gap.value as f64 / 1e9),
        None => "none".to_owned(),
    };
    let stopped = match crawl.is_stopped {
        true => format!(", stopped with {} URLs unasked", judgement.waiting_count),
        false => String::new(),
    };
    let crashed = match crawl.downfalls.len() {
        0 => String::new(),
        count => format!(", {count} crashes with {} pages fetched again", judgement.refetch_count),
    };
    format!(
        "{hours} h {minutes:02} m{stopped}{crashed}, {} requests, {} pages, smallest gap {} a \
         host, {} an address (delay {:.3} s), digest {:016x}",
        verdict.request_count,
        judgement.page_count,
        gap(&verdict.host_gap_ns_min),
        gap(&verdict.address_gap_ns_min),
        delay_ms as f64 / 1e3,
        crawl.digest
    )
}
