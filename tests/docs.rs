//! The documentation is checked: links and paths lead somewhere, the README fits a screen or two,
//! and generated pages are current. Each check is also tried on a planted breach.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const README_LINE_COUNT_MAX: usize = 119;
const SETTINGS_PAGE: &str = "docs/settings.md";
const SETTINGS_OPENING: &str = "```toml\n";
const SETTINGS_COMMAND: &str = "\
(sed '/^```toml$/q' docs/settings.md; cargo run -q -- settings; echo '```') > target/settings.md
mv target/settings.md docs/settings.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The pages that people read, as paths from the root.
fn pages() -> Vec<String> {
    let mut found = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(String::from).to_vec();
    for folder in ["docs", "perf", "tuning"] {
        collect(&root().join(folder), &mut found);
    }
    found.sort();
    found
}

/// Collects all Markdown files below `folder`, except filed results, which say what was true on
/// their day.
fn collect(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            collect(&path, found);
        } else if name.ends_with(".md") && !name.starts_with("perf/results/2") {
            found.push(name);
        }
    }
}

/// Returns the targets of the links of a page, without its code: `[text](target)` gives `target`.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in prose(text) {
        for (at, _) in line.match_indices("](") {
            let target = &line[at + 2..];
            found.extend(target.find(')').map(|end| &target[..end]));
        }
    }
    found
}

/// Returns the lines of a page that are in no code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns what is wrong with a link, if its file or the heading that it names does not exist.
fn link_breach(page: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => root().join(page),
        file => root().join(page).parent().unwrap().join(file),
    };
    if !path.exists() {
        return Some(format!("{page} links to {target}, and there is no such file"));
    }
    let has_heading =
        || headings(&fs::read_to_string(&path).unwrap()).contains(&heading.to_owned());
    let is_lost = !heading.is_empty() && !has_heading();
    is_lost.then(|| format!("{page} links to {target}, and there is no such heading"))
}

/// Returns the anchors of a page's headings, as GitHub makes them.
fn headings(text: &str) -> Vec<String> {
    let titles = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |title: &str| {
        let kept = title.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    titles.map(anchor).collect()
}

/// Returns the paths of source files and tests that a page names, also in code blocks.
fn source_paths(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    let mut found = Vec::new();
    for (at, _) in text.match_indices("src/").chain(text.match_indices("tests/")) {
        if text[..at].ends_with(is_part) {
            continue;
        }
        let end = text[at..].find(|letter| !is_part(letter)).unwrap_or(text.len() - at);
        found.push(text[at..at + end].trim_end_matches('.'));
    }
    found
}

/// Returns what is wrong on a page.
fn breaches(page: &str, text: &str) -> Vec<String> {
    let lost = source_paths(text).into_iter().filter(|path| !root().join(path).exists());
    let lost = lost.map(|path| format!("{page} names {path}, and there is no such file"));
    links(text).into_iter().filter_map(|target| link_breach(page, target)).chain(lost).collect()
}

/// Returns the settings that the page shows in its only block of TOML.
fn settings_of(page: &str) -> Option<&str> {
    page.split_once(SETTINGS_OPENING)?.1.strip_suffix("```\n")
}

#[test]
fn links_and_paths_of_the_documentation_lead_somewhere() {
    let pages = pages();
    assert!(pages.iter().any(|page| page == "docs/internals/README.md"), "{pages:?}");
    let lost: Vec<String> = pages.iter().flat_map(|page| breaches(page, &read(page))).collect();
    assert!(lost.is_empty(), "{} breaches:\n{}", lost.len(), lost.join("\n"));
}

#[test]
fn a_link_or_a_path_that_leads_nowhere_is_found() {
    let found = |text| breaches("docs/operating.md", text).len();
    assert_eq!(found("see [it](nowhere.md)"), 1);
    assert_eq!(found("see [it](settings.md) and [that](../README.md#no-such-heading)"), 1);
    assert_eq!(found("in `src/shard/no_such_file.rs`, of src/no_such_room."), 2);
    assert_eq!(found("```\nsrc/no_such_file.rs [a](b.md)\n```\n"), 1);
    assert_eq!(found("`tests/no_such_test.rs` and tests/tidy.rs."), 1);
    assert_eq!(found("[a](settings.md) [b](#exit-codes) `src/lib.rs` [c](https://x.example/y)"), 0);
    assert_eq!(found("[a](formats.md#manifestjson), `src/shard/`, target/src/x, src/lib.rs."), 0);
}

#[test]
fn the_readme_is_short() {
    let line_count = read("README.md").lines().count();
    assert!(line_count <= README_LINE_COUNT_MAX, "README.md has {line_count} lines");
}

#[test]
fn the_page_of_settings_is_what_the_program_prints() {
    let output = Command::new(env!("CARGO_BIN_EXE_nephila")).arg("settings").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("delay_ms = 1000"), "{printed}");
    let page = read(SETTINGS_PAGE);
    let shown = settings_of(&page).expect("a block of TOML at the end");
    assert!(
        shown == printed,
        "{SETTINGS_PAGE} is not what `nephila settings` prints. Make it anew:\n\n{SETTINGS_COMMAND}"
    );
    assert!(page.contains(SETTINGS_COMMAND), "{SETTINGS_PAGE} does not say how it is made");
    assert_ne!(settings_of(&page.replace("delay_ms = 1000", "delay_ms = 999")), Some(&*printed));
    assert_eq!(settings_of("no block"), None);
}

#[test]
fn the_index_of_results_is_current() {
    let index = root().join("perf/index");
    let Ok(output) = Command::new("python3").arg(&index).arg("--check").output() else {
        return println!("there is no python3 here: perf/index --check was not run");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stale-index");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir_all(copy.join("results")).unwrap();
    fs::copy(&index, copy.join("index")).unwrap();
    fs::write(copy.join("results/2026-01-02-parse.md"), "# A result\n").unwrap();
    fs::write(copy.join("results/README.md"), "# Results\n").unwrap();
    let run = |flags: &[&str]| {
        let ran = Command::new("python3").arg(copy.join("index")).args(flags).output().unwrap();
        ran.status.success()
    };
    assert!(!run(&["--check"]), "a page that misses a result is not current");
    assert!(run(&[]) && run(&["--check"]), "the page that it writes is current");
    fs::remove_dir_all(&copy).unwrap();
}
