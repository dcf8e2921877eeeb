//! `nephila bench`: named suites, each one command, with a table, JSON, HdrHistogram logs and a
//! page with plots.
//!
//! Suites of whole crawls ([`suites`]) run a [`course`] several times; [`limit`] is the ceiling
//! they are judged by; [`pages`], [`frontier`], [`seen`], [`hosts`] and [`parse`] measure single
//! parts: real files, real memory, one core. A [`yardstick`] tells what the machine was worth
//! meanwhile. A [`report`] says what, where and how it was measured.
//! They use the crate's modules as the crawler does; nothing imports them.

pub mod course;
mod error;
pub mod frontier;
pub mod hosts;
mod latency;
pub mod limit;
pub mod pages;
pub mod parse;
pub mod parts;
mod plot;
pub mod report;
pub mod seen;
pub mod suites;
mod yardstick;

pub use error::BenchError;

use crate::io::ring::{Care, RingWorld, Wake};
use std::path::Path;
use std::sync::mpsc;

/// Runs `main` on `core`, with its files in `dir` if it has any; says what came of it.
fn on_core<T, M, F>(core: Option<usize>, dir: Option<&Path>, main: M) -> Result<T, BenchError>
where
    T: Send + 'static,
    M: FnOnce(RingWorld) -> F + Send + 'static,
    F: Future<Output = Result<T, BenchError>> + 'static,
{
    start(core, dir, main)?()
}

/// As [`on_core`], for what tells of marks as it goes: `watch` sees each as it is made.
fn on_core_with_marks<K, M, F>(
    core: Option<usize>,
    dir: &Path,
    watch: impl Fn(&K),
    main: M,
) -> Result<Vec<K>, BenchError>
where
    K: Send + 'static,
    M: FnOnce(RingWorld, mpsc::Sender<K>) -> F + Send + 'static,
    F: Future<Output = Result<(), BenchError>> + 'static,
{
    let (tell, told) = mpsc::channel();
    let join = start(core, Some(dir), move |world| main(world, tell))?;
    let marks = told.into_iter().inspect(|mark| watch(mark)).collect();
    join()?;
    Ok(marks)
}

/// Starts `main`; what is returned waits for its end.
fn start<T, M, F>(
    core: Option<usize>,
    dir: Option<&Path>,
    main: M,
) -> Result<impl FnOnce() -> Result<T, BenchError>, BenchError>
where
    T: Send + 'static,
    M: FnOnce(RingWorld) -> F + Send + 'static,
    F: Future<Output = Result<T, BenchError>> + 'static,
{
    let dir = dir.map(Path::to_owned);
    let wake = Wake::new().map_err(BenchError::Ring)?;
    let main = move || async move {
        let world = RingWorld::new(wake, dir.as_deref()).map_err(BenchError::Ring)?;
        let done = main(world.clone()).await;
        world.stop();
        done
    };
    let thread = RingWorld::start(core, "bench", Care::Wake, main).map_err(BenchError::Ring)?;
    Ok(move || match thread.join() {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => Err(BenchError::Ring(error)),
        Err(_) => Err(BenchError::Died),
    })
}
