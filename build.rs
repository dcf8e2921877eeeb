//! Names the commit that is built, for `nephila --version`.
//!
//! A packaged crate has the commit in `.cargo_vcs_info.json`; a repository is asked by `git`.
//! Without both, the version stands alone. A debug build does not ask: every test binary would be
//! built again after each commit.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Hexadecimal digits of a commit.
const DIGIT_COUNT: usize = 12;

fn main() {
    // With one such line, cargo runs this file again only when something named has changed. A path
    // that does not exist counts as changed, so only existing ones are named.
    println!("cargo:rerun-if-changed=build.rs");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let place = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let place = Path::new(&place);
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let commit = if is_debug {
        Some("debug build".to_owned())
    } else {
        packaged(place).or_else(|| checked_out(place))
    };
    let version = match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo:rustc-env=NEPHILA_VERSION={version}");
}

/// The commit that `cargo package` has written down.
fn packaged(place: &Path) -> Option<String> {
    let text = fs::read_to_string(place.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?;
    let is_dirty = text
        .split_once("\"dirty\"")
        .is_some_and(|(_, rest)| rest.trim_start_matches([':', ' ']).starts_with("true"));
    Some(named(commit, is_dirty))
}

/// The commit that the repository is at.
fn checked_out(place: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["--no-optional-locks", "-C"])
            .arg(place)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim_end().to_owned())
    };
    // A crate that lies in another project's repository is not at that project's commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(place).ok()? {
        return None;
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    let is_dirty = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    // HEAD changes with a checkout, its log with each commit, and the sources with what is not
    // committed.
    for name in ["HEAD", "logs/HEAD"] {
        let path = place.join(git(&["rev-parse", "--git-path", name])?);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=Cargo.toml");
    Some(named(&commit, is_dirty))
}

fn named(commit: &str, is_dirty: bool) -> String {
    let commit = commit.get(..DIGIT_COUNT).unwrap_or(commit);
    format!("{commit}{}", if is_dirty { ", changed" } else { "" })
}
