//! The loop of a fuzz target: it makes an input, runs a check, and handles a check that fails.
//!
//! A check panics when an assertion fails. Otherwise it returns a sign of what the input led to
//! (which error, how many tokens). An input with a new sign joins the pool that later inputs are
//! made from, so that a target learns the language without knowing it.

use crate::dice::{Dice, fnv};
use crate::mutate::Mutator;
use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

/// The most inputs that are kept because they led to something new.
const POOL_COUNT_MAX: usize = 4_096;
/// How many attempts are made to shorten a failing input.
const SHRINK_TRY_COUNT_MAX: usize = 4_000;
const SEED: u64 = 1;

/// One parser under test.
pub struct Target {
    /// The test's name with its modules. The replay command needs it.
    pub name: &'static str,
    pub words: &'static [&'static [u8]],
    pub seeds: Vec<Vec<u8>>,
    pub input_bytes_max: usize,
    /// The number of inputs in one run of `cargo test`.
    pub input_count: u64,
}

impl Target {
    /// Runs `check` on the seeds and on inputs made from them.
    pub fn run<S: Hash>(self, check: impl Fn(&[u8]) -> S) {
        be_quiet_while_shrinking();
        let check = |input: &[u8]| sign(&check(input));
        if let Some(path) = std::env::var_os("NEPHILA_FUZZ_INPUT") {
            let input = std::fs::read(&path).expect("the input to run again");
            check(&input);
            return println!("{}: {} bytes pass", self.name, input.len());
        }
        let seconds = number("NEPHILA_FUZZ_SECONDS").map(Duration::from_secs);
        let seed = number("NEPHILA_FUZZ_SEED").unwrap_or(SEED);
        let began = now();
        let mut run = Run {
            dice: Dice::new(seed ^ fnv(self.name.as_bytes())),
            pool: Vec::new(),
            signs: HashSet::new(),
            input_count: 0,
        };
        for input in &self.seeds {
            run.try_input(&self, input.clone(), &check);
        }
        let is_over = |run: &Run| match seconds {
            // The clock is not read for every input, because some inputs take less time than that.
            Some(limit) => run.input_count.is_multiple_of(64) && began.elapsed() >= limit,
            None => run.input_count >= self.input_count + self.seeds.len() as u64,
        };
        let mutator = Mutator { words: self.words, input_bytes_max: self.input_bytes_max };
        while !is_over(&run) {
            let input = mutator.input(&run.pool, &mut run.dice);
            run.try_input(&self, input, &check);
        }
        println!(
            "{}: {} inputs, {} seeds, {} kept, {:.0} inputs/s",
            self.name,
            run.input_count,
            self.seeds.len(),
            run.pool.len(),
            run.input_count as f64 / began.elapsed().as_secs_f64().max(1e-6)
        );
    }

    fn fail(&self, input: &[u8], check: &impl Fn(&[u8]) -> u64) -> ! {
        let small = shrink(input, |input| fails(input, check));
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
        std::fs::create_dir_all(&folder).expect("a folder for failing inputs");
        let name = format!("{}-{:016x}", self.name.replace("::", "-"), fnv(&small));
        std::fs::write(folder.join(&name), &small).expect("the failing input is kept");
        let hex: String = small.iter().take(2_000).map(|byte| format!("{byte:02x}")).collect();
        println!("{}: {} bytes fail (of {}): {hex}", self.name, small.len(), input.len());
        println!(
            "run it again: NEPHILA_FUZZ_INPUT=target/fuzz/{name} cargo test --test fuzz -- \
             --exact {}",
            self.name
        );
        // The check runs once more, with its output shown. This is the panic that the test fails
        // with.
        check(&small);
        unreachable!("an input that failed passes: the check is not deterministic");
    }
}

struct Run {
    dice: Dice,
    pool: Vec<Vec<u8>>,
    signs: HashSet<u64>,
    input_count: u64,
}

impl Run {
    fn try_input(&mut self, target: &Target, input: Vec<u8>, check: &impl Fn(&[u8]) -> u64) {
        self.input_count += 1;
        match quietly(|| check(&input)) {
            None => target.fail(&input, check),
            Some(sign) => {
                let is_new = self.signs.insert(sign);
                if is_new && self.pool.len() < POOL_COUNT_MAX {
                    self.pool.push(input);
                }
            }
        }
    }
}

/// Cuts pieces out of a failing input, large ones first, as long as it still fails.
fn shrink(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut small = input.to_vec();
    let mut piece_bytes = small.len().div_ceil(2);
    let mut try_count = 0;
    while piece_bytes > 0 {
        let mut at = 0;
        while at < small.len() && try_count < SHRINK_TRY_COUNT_MAX {
            try_count += 1;
            let mut shorter = small.clone();
            shorter.drain(at..(at + piece_bytes).min(small.len()));
            if fails(&shorter) {
                small = shorter;
            } else {
                at += piece_bytes;
            }
        }
        piece_bytes /= 2;
    }
    small
}

fn fails(input: &[u8], check: &impl Fn(&[u8]) -> u64) -> bool {
    quietly(|| check(input)).is_none()
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs the check. The result is `None` if the check panics; nothing of the panic is printed.
fn quietly<T>(run: impl FnOnce() -> T) -> Option<T> {
    IS_QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run)).ok();
    IS_QUIET.set(false);
    result
}

fn be_quiet_while_shrinking() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                tell(panic);
            }
        }));
    });
}

fn sign(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

#[expect(clippy::disallowed_methods, reason = "how long a person wants it to run")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the files of a folder of test data as seeds, each cut to `bytes_max`.
pub fn corpus(folder: &str, bytes_max: usize) -> Vec<Vec<u8>> {
    let path = crate::corpus::find(folder).path;
    let entries = std::fs::read_dir(path).expect("the folder opens");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder entry").path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let mut bytes = std::fs::read(path).expect("a corpus file");
        bytes.truncate(bytes_max);
        bytes
    };
    paths.iter().map(read).collect()
}

/// Returns words as seeds.
pub fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}

/// Returns a coarse count, so that inputs whose counts differ by little look the same.
pub fn scale(count: usize) -> u32 {
    usize::BITS - count.leading_zeros()
}

#[test]
fn a_planted_bug_is_found_made_small_and_kept() {
    let target = Target {
        name: "planted",
        words: &[b"<a", b"b>", b"c"],
        seeds: texts(&["<a href=x>text</a>"]),
        input_bytes_max: 1_000,
        input_count: 50_000,
    };
    let check = |input: &[u8]| {
        let found = |word: &[u8]| memchr::memmem::find(input, word).is_some();
        assert!(!(found(b"b>c") && found(b"<a<a")), "planted");
        (found(b"b>c"), found(b"<a<a"), scale(input.len()))
    };
    let end = panic::catch_unwind(AssertUnwindSafe(|| target.run(check)));
    assert!(end.is_err(), "the bug was not found");
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
    let kept: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of failing inputs")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains("/planted-"))
        .collect();
    assert!(!kept.is_empty());
    for path in kept {
        assert!(std::fs::read(&path).expect("a kept input").len() <= 7, "{}", path.display());
        std::fs::remove_file(path).expect("what the test made goes");
    }
}
