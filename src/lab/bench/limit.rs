//! The ceiling: pages that the crawler's own client fetches over the ring and throws away. Nothing
//! is parsed, looked up, queued, stored or waited for, so everything that a crawl costs above this
//! is the crawl's own work.

use super::course::{Course, Grounds, Tick, WebProcess};
use super::{BenchError, on_core};
use crate::crawl::config::Settings;
use crate::crawl::fetch::{Client, Sink, Timeouts, TlsPolicy};
use crate::crawl::flow::Outcome;
use crate::io::ring::RingWorld;
use crate::io::{Clock, Spawn};
use crate::lab::web::{Web, WebSpec};
use crate::proto::http::ResponseHead;
use crate::proto::url::Url;
use crate::sys::process;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// How many fetches are under way at the same time; as many connections are kept.
const FETCH_COUNT: usize = 256;

/// The figures of the ceiling.
#[derive(Clone, Debug)]
pub struct Ceiling {
    pub seconds: f64,
    pub page_count: u64,
    pub byte_count: u64,
    pub failed_count: u64,
    pub cpu_ns: u64,
    pub syscall_count: u64,
    pub ticks: Vec<Tick>,
}

impl Ceiling {
    pub fn pages_per_second(&self) -> f64 {
        self.page_count as f64 / self.seconds
    }

    pub fn cpu_us_per_page(&self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.page_count.max(1) as f64
    }
}

/// A sink that drops everything.
struct Blind;

impl Sink for Blind {
    fn head(&mut self, _head: &ResponseHead) -> bool {
        true
    }

    fn body(&mut self, _piece: &[u8]) {}
}

/// Fetches on `core` for as long as the course says.
pub fn run(course: &Course, grounds: &Grounds, core: Option<usize>) -> Result<Ceiling, BenchError> {
    let log = grounds.directory.join("web.log");
    let mut web = WebProcess::start(course, grounds, &log)?;
    let (course, port, seed) = (course.clone(), web.port, grounds.seed);
    let ceiling =
        on_core(core, None, move |world| async move { measure(&world, &course, port, seed).await });
    web.stop()?;
    let removed = std::fs::remove_file(&log);
    removed.map_err(|error| BenchError::System("remove the web's log", error))?;
    ceiling
}

struct Tally {
    page_count: Cell<u64>,
    byte_count: Cell<u64>,
    failed_count: Cell<u64>,
    is_over: Cell<bool>,
    active_count: Cell<usize>,
}

async fn measure(
    world: &RingWorld,
    course: &Course,
    port: u16,
    seed: u64,
) -> Result<Ceiling, BenchError> {
    let profile = WebSpec::profile(course.profile).map_err(BenchError::Spec)?;
    let (host_count, page_count) = (course.host_count, course.page_count);
    let web = Web::new(WebSpec { host_count, page_count, seed, port, ..profile });
    let web = Rc::new(web.map_err(BenchError::Spec)?);
    let tls = TlsPolicy::new(None, false).map_err(BenchError::Tls)?;
    let timeouts =
        Timeouts { keep_alive_count_max: FETCH_COUNT, ..Timeouts::of(&Settings::default()) };
    let client = Rc::new(Client::new(world.clone(), "nephila-bench", timeouts, tls));
    let tally = Rc::new(Tally {
        page_count: Cell::new(0),
        byte_count: Cell::new(0),
        failed_count: Cell::new(0),
        is_over: Cell::new(false),
        active_count: Cell::new(FETCH_COUNT),
    });
    for first in 0..FETCH_COUNT {
        let (web, client, tally) = (web.clone(), client.clone(), tally.clone());
        world.spawn(async move {
            let host = first as u32 % web.spec().host_count;
            let address = IpAddr::V4(web.address(host));
            let mut page = 0;
            while !tally.is_over.get() {
                fetch(&web, &client, &tally, (host, page), address).await;
                page = (page + 1) % web.graph().page_count(host).max(1);
            }
            tally.active_count.set(tally.active_count.get() - 1);
        });
    }
    let warm = Duration::from_secs(course.warm_seconds);
    world.sleep_until(world.now() + warm).await;
    let ceiling = watch(world, course, &tally).await;
    tally.is_over.set(true);
    // Every fetch has deadlines, so all of them end.
    while tally.active_count.get() > 0 {
        world.sleep_until(world.now() + Duration::from_millis(1)).await;
    }
    Ok(ceiling)
}

async fn fetch(
    web: &Web,
    client: &Client<RingWorld>,
    tally: &Tally,
    (host, page): (u32, u32),
    address: IpAddr,
) {
    let place = web.graph().place(host, page).unwrap_or_else(|| web.graph().root(host));
    let Ok(url) = Url::parse(&web.url(place)) else { return };
    let mut answer = client.fetch(&url, address, &mut Blind).await;
    let counted =
        if answer.outcome == Outcome::Fetched { &tally.page_count } else { &tally.failed_count };
    counted.set(counted.get() + 1);
    tally.byte_count.set(tally.byte_count.get() + answer.response.len() as u64);
    client.let_go(&mut answer);
}

/// Counts over the window, second by second.
async fn watch(world: &RingWorld, course: &Course, tally: &Tally) -> Ceiling {
    let look = || (world.now(), tally.page_count.get(), process::thread_cpu_ns());
    let (begun, first_page_count, first_cpu_ns) = look();
    let first_bytes = tally.byte_count.get();
    let first_effort = world.effort();
    let mut ticks = Vec::new();
    let mut before = (begun, first_page_count, first_cpu_ns);
    for _ in 0..course.window_seconds {
        world.sleep_until(before.0 + Duration::from_secs(1)).await;
        let now = look();
        let seconds = now.0.since(before.0).as_secs_f64();
        ticks.push(Tick {
            second: now.0.since(begun).as_secs_f64(),
            pages_per_second: (now.1 - before.1) as f64 / seconds,
            busy: (now.2 - before.2) as f64 / 1e9 / seconds,
        });
        before = now;
    }
    Ceiling {
        seconds: before.0.since(begun).as_secs_f64(),
        page_count: before.1 - first_page_count,
        byte_count: tally.byte_count.get() - first_bytes,
        failed_count: tally.failed_count.get(),
        cpu_ns: before.2 - first_cpu_ns,
        syscall_count: world.effort().syscall_count - first_effort.syscall_count,
        ticks,
    }
}
