//! Finds the data of tests: in the corpus of real pages and public suites, or, in a clone without
//! it, in our own small data of the same shape. So every test asserts something everywhere.
//!
//! A test that ran on the small data leaves a note beside the test binaries, and the last test
//! binary, `zz_left_out`, shows the notes. In CI the corpus must exist.

#![allow(dead_code)] // each test file uses its part

use std::path::{Path, PathBuf};

/// Our own small data, in the repository.
const OWN: &str = "tests/data/corpus";
const NOTES: &str = "left-out";

/// A file or a folder of test data.
#[derive(Clone, Debug)]
pub struct Data {
    pub path: PathBuf,
    /// The data is of the corpus and not our own, so numbers of the whole suite apply.
    pub is_whole: bool,
}

/// Returns the file or the folder of this name.
pub fn find(name: &str) -> Data {
    let root = std::env::var_os("NEPHILA_CORPUS")
        .map_or_else(|| PathBuf::from("../shared/corpus"), PathBuf::from);
    let path = root.join(name);
    let is_whole = path.exists();
    note("a corpus of real data", is_whole);
    if is_whole {
        return Data { path, is_whole };
    }
    assert!(std::env::var_os("CI").is_none(), "no corpus at {}: CI must have it", root.display());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(OWN).join(name);
    assert!(path.exists(), "{} is missing from the repository", path.display());
    Data { path, is_whole }
}

/// Keeps a note that the running test had to run without `what`, or removes that note.
pub fn note(what: &str, is_there: bool) {
    let thread = std::thread::current();
    let Some(test) = thread.name().filter(|name| *name != "main") else { return };
    let Some((folder, binary)) = notes() else { return };
    let path = folder.join(format!("{binary} {}", test.replace("::", ".")));
    // A note is optional: a folder that cannot be written to does not fail a test.
    if is_there {
        let _ = std::fs::remove_file(path);
    } else {
        let _ = std::fs::create_dir_all(&folder);
        let _ = std::fs::write(path, what);
    }
}

/// Returns the folder of the notes, and the name of the running test binary.
pub fn notes() -> Option<(PathBuf, String)> {
    let program = std::env::current_exe().ok()?;
    let name = program.file_stem()?.to_string_lossy().into_owned();
    // The name is used without the hash that Cargo appends.
    let name = name.rsplit_once('-').map_or(name.clone(), |(name, _)| name.to_owned());
    Some((program.parent()?.join(NOTES), name))
}
