//! Where tests find their data: in the corpus of real pages and public suites, or, in a clone that
//! has none, in our own small data of the same shape. So every test asserts something everywhere.
//!
//! A test that ran on the small data leaves a note beside the test binaries; the last test binary,
//! `zz_left_out`, shows the notes. In CI the corpus must be there.

#![allow(dead_code)] // each test file uses its part

use std::path::{Path, PathBuf};

/// Our own, in the repository.
const OWN: &str = "tests/data/corpus";
const NOTES: &str = "left-out";

/// A file or a folder of test data.
#[derive(Clone, Debug)]
pub struct Data {
    pub path: PathBuf,
    /// Of the corpus, and not our own: figures of the whole suite hold.
    pub is_whole: bool,
}

/// The file or the folder of this name.
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

/// Keeps a note that the test that runs had to do without `what`, or takes it away again.
pub fn note(what: &str, is_there: bool) {
    let thread = std::thread::current();
    let Some(test) = thread.name().filter(|name| *name != "main") else { return };
    let Some((folder, binary)) = notes() else { return };
    let path = folder.join(format!("{binary} {}", test.replace("::", ".")));
    // A note is a courtesy: a folder that cannot be written to fails no test.
    if is_there {
        let _ = std::fs::remove_file(path);
    } else {
        let _ = std::fs::create_dir_all(&folder);
        let _ = std::fs::write(path, what);
    }
}

/// The folder of the notes, and the name of the test binary that runs.
pub fn notes() -> Option<(PathBuf, String)> {
    let program = std::env::current_exe().ok()?;
    let name = program.file_stem()?.to_string_lossy().into_owned();
    // Without the hash that Cargo appends.
    let name = name.rsplit_once('-').map_or(name.clone(), |(name, _)| name.to_owned());
    Some((program.parent()?.join(NOTES), name))
}
