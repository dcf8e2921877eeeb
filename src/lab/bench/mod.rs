//! `nephila bench`: named suites, each run by one command, with a table, JSON, HdrHistogram logs
//! and a page with plots.
//!
//! Suites of whole crawls ([`suites`]) run a [`course`] several times. [`limit`] is the ceiling
//! that they are compared with. [`pages`], [`frontier`], [`seen`], [`hosts`] and [`parse`] measure
//! single parts, with real files and real memory, on one core. A [`yardstick`] measures how fast
//! the machine was meanwhile. A [`report`] says what was measured, where and how. The suites use
//! the crate's modules as the crawler does; the crawler imports none of them.

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

/// Runs `main` on `core`, with its files in `dir` if it has any; returns its result.
fn on_core<T, M, F>(core: Option<usize>, dir: Option<&Path>, main: M) -> Result<T, BenchError>
where
    T: Send + 'static,
    M: FnOnce(RingWorld) -> F + Send + 'static,
    F: Future<Output = Result<T, BenchError>> + 'static,
{
    start(core, dir, main)?()
}

/// Like [`on_core`], for a `main` that sends marks: `watch` is called with each when it is made.
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

/// Starts `main`; the returned closure waits for its end.
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
