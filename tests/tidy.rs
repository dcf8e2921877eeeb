//! The house rules that a machine can check: layers, where glommio and unsafe may be, sizes, and
//! names for bounds. Each rule is a function from a file to its breaches, tried first on a planted
//! breach, so that a rule that finds nothing is known to look.

use std::fs;
use std::path::Path;

mod code;

use code::without_comments_and_texts;

/// Modules by layer, as in ARCHITECTURE.md. A new module gets its place here.
const LAYERS: &[&[&str]] = &[
    &["base", "limits", "sys", "io"],
    &["url", "http", "html", "robotstxt", "simhash", "dnswire", "warc", "sitemap"],
    &["flow", "metrics", "config"],
    &["seed", "frontier", "resolve", "fetch", "parse", "dedup", "store", "journal"],
    &["shard"],
    &["engine", "control", "web", "tools", "audit", "main", "flags", "lib", "bench"],
];
/// All that the referee may use of the crate: it shares no code with what it judges.
const REFEREE_USES: &[&str] = &["audit", "base", "limits"];
const PROTOCOLS: usize = 1;
const STAGES: usize = 3;

const LINE_COUNT_MAX: usize = 1_000;
const LINE_COUNT_ADVISED: usize = 600;
const COLUMN_COUNT_MAX: usize = 100;

type Rule = fn(&Source) -> Vec<String>;

const RULES: &[Rule] = &[
    layers,
    referee_apart,
    glommio_in_its_place,
    unsafe_in_its_place,
    sizes,
    nothing_unfinished,
    bounds_explained,
];

/// One file: its path from the repository's root, its text, and its code alone.
struct Source {
    path: String,
    text: String,
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        let code = without_comments_and_texts(text);
        Source { path: path.to_owned(), text: text.to_owned(), code }
    }

    /// The module of the crate that it belongs to; `None` outside `src`.
    fn module(&self) -> Option<&str> {
        let rest = self.path.strip_prefix("src/")?;
        let first = rest.split('/').next()?;
        Some(first.strip_suffix(".rs").unwrap_or(first))
    }

    fn breach(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.path, line + 1)
    }
}

// --- Rules --------------------------------------------------------------------------------------

fn layers(source: &Source) -> Vec<String> {
    let Some(module) = source.module() else { return Vec::new() };
    if module == "lib" {
        return Vec::new();
    }
    let Some(layer) = layer_of(module) else {
        return vec![source.breach(0, format!("module `{module}` has no layer in tests/tidy.rs"))];
    };
    let allowed = |used: &str| {
        used == module
            || layer_of(used).is_some_and(|of_used| match layer {
                PROTOCOLS => of_used < layer || used == "url",
                STAGES => of_used < layer,
                _ => of_used <= layer,
            })
    };
    crate_paths(&source.code)
        .into_iter()
        .filter(|(_, used)| !allowed(used))
        .map(|(line, used)| source.breach(line, format!("`{module}` may not use `{used}`")))
        .collect()
}

fn referee_apart(source: &Source) -> Vec<String> {
    if source.module() != Some("audit") {
        return Vec::new();
    }
    crate_paths(&source.code)
        .into_iter()
        .filter(|(_, used)| !REFEREE_USES.contains(&used.as_str()))
        .map(|(line, used)| source.breach(line, format!("the referee may not use `{used}`")))
        .collect()
}

fn glommio_in_its_place(source: &Source) -> Vec<String> {
    let places = ["src/io/ring/", "src/engine.rs", "src/engine/"];
    if !source.path.starts_with("src/") || places.iter().any(|at| source.path.starts_with(at)) {
        return Vec::new();
    }
    lines_with_word(source, "glommio", "glommio is seen by io::ring and engine alone")
}

fn unsafe_in_its_place(source: &Source) -> Vec<String> {
    if source.path.starts_with("src/sys/") || source.path.ends_with("/simd.rs") {
        return Vec::new();
    }
    lines_with_word(source, "unsafe", "unsafe belongs to sys and to files named simd.rs")
}

fn sizes(source: &Source) -> Vec<String> {
    let mut breaches = Vec::new();
    let line_count = source.text.lines().count();
    if line_count >= LINE_COUNT_MAX {
        breaches.push(source.breach(line_count, "the file is too long: split it"));
    } else if line_count >= LINE_COUNT_ADVISED {
        println!("{}: {line_count} lines: think of splitting it", source.path);
    }
    for (index, line) in source.text.lines().enumerate() {
        let column_count = line.chars().count();
        if column_count > COLUMN_COUNT_MAX {
            breaches.push(source.breach(index, format!("{column_count} columns")));
        }
    }
    breaches
}

fn nothing_unfinished(source: &Source) -> Vec<String> {
    let macros = ["todo!", "unimplemented!", "dbg!"];
    let found = |line: &str| macros.into_iter().find(|name| line.contains(name));
    source
        .code
        .lines()
        .enumerate()
        .filter_map(|(index, line)| found(line).map(|name| source.breach(index, name)))
        .collect()
}

/// Every bound says what happens at it, or stands directly under one that does.
fn bounds_explained(source: &Source) -> Vec<String> {
    if source.path != "src/limits.rs" {
        return Vec::new();
    }
    let mut breaches = Vec::new();
    let mut before = "";
    for (index, line) in source.text.lines().enumerate() {
        let is_explained = !before.is_empty() && !before.starts_with("// ---");
        if line.starts_with("pub const ") && !is_explained {
            breaches.push(source.breach(index, "a bound without a reason"));
        }
        before = line.trim();
    }
    breaches
}

// --- Looking ------------------------------------------------------------------------------------

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// The modules named by `crate::module` and by `use crate::{module, module::x}`, with their lines.
fn crate_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let starts_inside_word = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if starts_inside_word {
            continue;
        }
        let line = code[..at].matches('\n').count();
        let rest = &code[at + "crate::".len()..];
        let mut add = |name: &str| {
            if !name.is_empty() {
                found.push((line, name.to_owned()));
            }
        };
        match rest.strip_prefix('{') {
            None => add(first_word(rest)),
            Some(group) => top_level_names(group).into_iter().for_each(add),
        }
    }
    found
}

/// The first names of the parts of a `use` group, up to the brace that ends it.
fn top_level_names(group: &str) -> Vec<&str> {
    let mut names = vec![first_word(group.trim_start())];
    let mut depth = 0;
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(first_word(group[at + 1..].trim_start())),
            _ => {}
        }
    }
    names
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

fn lines_with_word(source: &Source, word: &str, why: &str) -> Vec<String> {
    let is_word_part = |c: char| c.is_alphanumeric() || c == '_';
    let has_word = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(is_word_part)
                && !line[at + word.len()..].starts_with(is_word_part)
        })
    };
    let lines = source.code.lines().enumerate().filter(|(_, line)| has_word(line));
    lines.map(|(index, _)| source.breach(index, why)).collect()
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "tests", "benches"] {
        collect(root, &root.join(folder), &mut found);
    }
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.push(Source::new(&name, &fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Files of results that a text names, from `perf/` on. A figure without its file is a rumour.
fn results_named(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    let starts = text.match_indices("results/2").map(|(at, _)| &text[at..]);
    let names = starts.map(|rest| &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]);
    names.map(|name| name.trim_end_matches('.')).collect()
}

// --- The check, and the checks of the check -----------------------------------------------------

#[test]
fn the_house_is_tidy() {
    let sources = sources();
    assert!(sources.iter().any(|source| source.path == "src/lib.rs"), "looked in the wrong place");
    let breaches: Vec<String> =
        sources.iter().flat_map(|source| RULES.iter().flat_map(move |rule| rule(source))).collect();
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

#[test]
fn every_module_of_the_crate_has_a_layer() {
    let library = sources().into_iter().find(|source| source.path == "src/lib.rs").unwrap();
    let names = library.code.lines().filter_map(|line| line.strip_prefix("pub mod "));
    let unplaced: Vec<&str> = names
        .map(|name| name.trim_end_matches(';'))
        .filter(|name| layer_of(name).is_none())
        .collect();
    assert!(unplaced.is_empty(), "no layer for {unplaced:?}");
}

#[test]
fn the_results_that_the_docs_name_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named_count = 0;
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "perf/README.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        for name in results_named(&text) {
            assert!(root.join("perf").join(name).is_file(), "{document} names {name}");
            named_count += 1;
        }
    }
    assert!(named_count > 0, "looked in the wrong place");
    let planted = "see `results/2026-01-02-a.md`, perf/results/2026-b.md. and results/ alone";
    assert_eq!(results_named(planted), ["results/2026-01-02-a.md", "results/2026-b.md"]);
}

fn breaks(rule: Rule, path: &str, text: &str) -> bool {
    !rule(&Source::new(path, text)).is_empty()
}

#[test]
fn a_breach_of_the_layers_is_found() {
    assert!(breaks(layers, "src/url/mod.rs", "use crate::flow::Via;"));
    assert!(breaks(layers, "src/html/mod.rs", "use crate::http::Method;"));
    assert!(breaks(layers, "src/seed/mod.rs", "use crate::frontier::Frontier;"));
    assert!(breaks(layers, "src/base/mod.rs", "fn f(x: &crate::url::Url) {}"));
    assert!(breaks(layers, "src/flow.rs", "use crate::{base::Time, url::Url, shard::Shard};"));
    assert!(breaks(layers, "src/io/net.rs", "use crate::{\n    base,\n    web::Web,\n};"));
    assert!(breaks(layers, "src/novelty.rs", ""));
    assert!(!breaks(layers, "src/html/mod.rs", "use crate::url::Url; use crate::html::Page;"));
    assert!(!breaks(layers, "src/metrics/mod.rs", "use crate::flow::Outcome;"));
    assert!(!breaks(
        layers,
        "src/limits.rs",
        "/// See [`crate::url::UrlError`].\nconst A: u8 = 1;"
    ));
    assert!(!breaks(layers, "src/engine.rs", "use crate::{shard, store::{Store, fetch}};"));
}

#[test]
fn a_referee_that_uses_the_crawler_is_found() {
    assert!(breaks(referee_apart, "src/audit/book.rs", "use crate::robotstxt::Robots;"));
    assert!(breaks(referee_apart, "src/audit/mod.rs", "use crate::{base::Time, url::Url};"));
    assert!(!breaks(referee_apart, "src/audit/mod.rs", "use crate::{base::Time, limits};"));
    assert!(!breaks(referee_apart, "src/web/log.rs", "use crate::url::Url;"));
}

#[test]
fn glommio_and_unsafe_out_of_place_are_found() {
    assert!(breaks(glommio_in_its_place, "src/fetch/mod.rs", "use glommio::spawn_local;"));
    assert!(!breaks(glommio_in_its_place, "src/io/ring/mod.rs", "use glommio::spawn_local;"));
    assert!(!breaks(glommio_in_its_place, "src/io/mod.rs", "//! never see glommio\n"));
    assert!(breaks(unsafe_in_its_place, "src/html/mod.rs", "let x = unsafe { y };"));
    assert!(breaks(unsafe_in_its_place, "tests/x.rs", "unsafe fn f() {}"));
    assert!(!breaks(unsafe_in_its_place, "src/html/simd.rs", "unsafe { y }"));
    assert!(!breaks(unsafe_in_its_place, "src/sys/mod.rs", "unsafe { y }"));
    assert!(!breaks(
        unsafe_in_its_place,
        "src/a.rs",
        "#![deny(unsafe_code)] // unsafe\n\"unsafe\""
    ));
}

#[test]
fn long_files_and_long_lines_are_found() {
    assert!(breaks(sizes, "src/a.rs", &"\n".repeat(LINE_COUNT_MAX)));
    assert!(!breaks(sizes, "src/a.rs", &"\n".repeat(LINE_COUNT_MAX - 1)));
    assert!(breaks(sizes, "src/a.rs", &"x".repeat(COLUMN_COUNT_MAX + 1)));
    assert!(!breaks(sizes, "src/a.rs", &"ä".repeat(COLUMN_COUNT_MAX)));
}

#[test]
fn unfinished_code_is_found() {
    for planted in ["todo!()", "unimplemented!(\"x\")", "let x = dbg!(y);"] {
        assert!(breaks(nothing_unfinished, "src/a.rs", planted), "{planted}");
    }
    assert!(!breaks(nothing_unfinished, "src/a.rs", "// todo!\nlet x = \"dbg!\";"));
}

#[test]
fn a_bound_without_a_reason_is_found() {
    let limits = "src/limits.rs";
    assert!(breaks(
        bounds_explained,
        limits,
        "/// Why.\npub const A: u8 = 1;\n\npub const B: u8 = 2;"
    ));
    assert!(breaks(bounds_explained, limits, "// --- X ---\npub const A: u8 = 1;"));
    assert!(!breaks(
        bounds_explained,
        limits,
        "/// Why.\npub const A: u8 = 1;\npub const B: u8 = 2;"
    ));
}
