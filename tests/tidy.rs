//! The house rules that a program can check: rooms, where glommio and unsafe code may be, sizes,
//! and names for bounds. Each rule is a function from a file to its breaches. Each is tried on a
//! planted breach first, to prove that it can find one.

use std::fs;
use std::path::Path;

mod code;

use code::without_comments_and_texts;

/// The rooms of the house in their order, as in `src/lib.rs`: a room imports only from rooms before
/// it. A new top-level module gets its place here.
const ROOMS: &[&str] = &["sys", "base", "io", "proto", "crawl", "shard", "engine", "lab", "cli"];
/// In these rooms a module imports none of its neighbours except the ones named here.
const NEIGHBOURS: &[(&str, &[&str])] =
    &[("proto", &["url"]), ("crawl", &["flow", "config", "metrics"])];
/// The only parts of the crate that the referee may use: it shares no code with what it judges.
const REFEREE: &str = "src/lab/audit/";
const REFEREE_USES: &[&str] = &["base"];

/// The services of a shard, each a folder.
const SERVICES: &[&str] = &["discovery", "manners", "archive", "sameness"];
/// The pace of a host lies in the frontier's record of it, and manners are lent it.
const SHARED_OF_SERVICES: &[&str] = &["manners::Pace"];
const SHARD_FIELD_COUNT_MAX: usize = 15;

const LINE_COUNT_MAX: usize = 1_000;
const LINE_COUNT_ADVISED: usize = 600;
const COLUMN_COUNT_MAX: usize = 100;

type Rule = fn(&Source) -> Vec<String>;

const RULES: &[Rule] = &[
    rooms_in_order,
    neighbours_apart,
    referee_apart,
    services_apart,
    shard_is_small,
    glommio_in_its_place,
    unsafe_in_its_place,
    sizes,
    nothing_unfinished,
    bounds_explained,
];

/// A file: its path from the repository's root, its text, and its code without comments.
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

    /// Returns the room that the file belongs to, or `None` outside `src`.
    fn room(&self) -> Option<&str> {
        self.part(0)
    }

    /// Returns the module of its room that the file belongs to, or `None` for the room's own file.
    fn module(&self) -> Option<&str> {
        self.part(1).filter(|name| *name != "mod")
    }

    fn part(&self, index: usize) -> Option<&str> {
        let part = self.path.strip_prefix("src/")?.split('/').nth(index)?;
        Some(part.strip_suffix(".rs").unwrap_or(part))
    }

    fn breach(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.path, line + 1)
    }
}

// --- Rules --------------------------------------------------------------------------------------

fn rooms_in_order(source: &Source) -> Vec<String> {
    let Some(room) = source.room() else { return Vec::new() };
    if ["lib", "main"].contains(&room) {
        return Vec::new();
    }
    let Some(place) = place_of(room) else {
        return vec![source.breach(0, format!("`{room}` has no place among the rooms"))];
    };
    let is_allowed = |path: &[String]| place_of(&path[0]).is_some_and(|used| used <= place);
    let paths = crate_paths(&source.code).into_iter().filter(|(_, path)| !is_allowed(path));
    paths
        .map(|(line, path)| source.breach(line, format!("`{room}` may not use `{}`", path[0])))
        .collect()
}

fn neighbours_apart(source: &Source) -> Vec<String> {
    let (Some(room), Some(module)) = (source.room(), source.module()) else { return Vec::new() };
    let Some((_, shared)) = NEIGHBOURS.iter().find(|(name, _)| *name == room) else {
        return Vec::new();
    };
    let is_apart = |path: &[String]| {
        let used = path.get(1).map_or("", String::as_str);
        path[0] == room && used != module && !shared.contains(&used)
    };
    let paths = crate_paths(&source.code).into_iter().filter(|(_, path)| is_apart(path));
    paths
        .map(|(line, path)| {
            source.breach(line, format!("`{module}` may not use `{}`", path.join("::")))
        })
        .collect()
}

fn referee_apart(source: &Source) -> Vec<String> {
    if !source.path.starts_with(REFEREE) {
        return Vec::new();
    }
    let is_apart = |path: &[String]| {
        let is_own = path[0] == "lab" && path.get(1).is_some_and(|module| module == "audit");
        !is_own && !REFEREE_USES.contains(&path[0].as_str())
    };
    let paths = crate_paths(&source.code).into_iter().filter(|(_, path)| is_apart(path));
    paths
        .map(|(line, path)| {
            source.breach(line, format!("the referee may not use `{}`", path.join("::")))
        })
        .collect()
}

fn glommio_in_its_place(source: &Source) -> Vec<String> {
    let places = ["src/io/ring/", "src/engine/"];
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

/// Every bound has a comment that says what happens at it, or is directly under one that has.
fn bounds_explained(source: &Source) -> Vec<String> {
    if source.path != "src/base/limits.rs" {
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

/// A service of the shard is a type of its own: it names neither the shard nor the steps of a
/// visit, and of its neighbours only what all of them share.
fn services_apart(source: &Source) -> Vec<String> {
    let Some(rest) = source.path.strip_prefix("src/shard/") else { return Vec::new() };
    let Some((service, _)) = rest.split_once('/').filter(|(name, _)| SERVICES.contains(name))
    else {
        return Vec::new();
    };
    let mut breaches = lines_with_word(source, "Shard", "a service does not know the shard");
    breaches.extend(lines_with_word(source, "visit", "a service does not know the visit"));
    for other in SERVICES.iter().filter(|other| **other != service) {
        for (line, text) in source.code.lines().enumerate() {
            let names = |path: &str| text.contains(&format!("{path}{other}::"));
            let is_named = names("shard::") || names("super::") || names("super::super::");
            let is_shared = SHARED_OF_SERVICES.iter().any(|shared| text.contains(shared));
            if is_named && !is_shared {
                breaches.push(source.breach(line, format!("`{service}` may not use `{other}`")));
            }
        }
    }
    breaches
}

/// The shard's type stays a list of services and of what joins them.
fn shard_is_small(source: &Source) -> Vec<String> {
    let Some(at) = source.code.find("struct Shard<W: World> {") else { return Vec::new() };
    let body = &source.code[at..];
    let body = &body[..body.find("\n}").unwrap_or(body.len())];
    let field_count = body.lines().filter(|line| line.trim_end().ends_with(',')).count();
    if field_count <= SHARD_FIELD_COUNT_MAX {
        return Vec::new();
    }
    vec![source.breach(0, format!("the shard has {field_count} fields: give them to a service"))]
}

/// The files of the shard whose methods call each other in a circle. A file's methods are those of
/// its `impl ... Shard<W>`; a call is that of a method by its name on the shard.
fn circles_of_files(sources: &[Source]) -> Vec<String> {
    let of_shard: Vec<&Source> =
        sources.iter().filter(|source| source.path.starts_with("src/shard/")).collect();
    let defined: Vec<Vec<String>> =
        of_shard.iter().map(|source| methods_of_shard(source)).collect();
    let calls = |from: usize, to: usize| {
        let is_called = |name: &String| {
            let owners = ["self", "shard", "visiting"];
            owners.iter().any(|owner| has_call(&of_shard[from].code, owner, name))
        };
        from != to && defined[to].iter().any(is_called)
    };
    let count = of_shard.len();
    let row = |from| (0..count).map(|to| calls(from, to)).collect();
    let mut reaches: Vec<Vec<bool>> = (0..count).map(row).collect();
    for middle in 0..count {
        let from_middle = reaches[middle].clone();
        for row in reaches.iter_mut().filter(|row| row[middle]) {
            row.iter_mut().zip(&from_middle).for_each(|(to, further)| *to |= further);
        }
    }
    let in_circle = (0..count).filter(|file| reaches[*file][*file]);
    in_circle.map(|file| format!("{} calls itself in a circle", of_shard[file].path)).collect()
}

fn methods_of_shard(source: &Source) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_inside = false;
    for line in source.code.lines() {
        is_inside |= line.starts_with("impl<W: World> Shard<W> {");
        is_inside &= line != "}";
        if is_inside
            && line.starts_with("    ")
            && !line.starts_with("     ")
            && let Some((_, rest)) = line.split_once("fn ")
        {
            names.push(first_word(rest).to_owned());
        }
    }
    names
}

fn has_call(code: &str, owner: &str, method: &str) -> bool {
    let plain = format!("{owner}.{method}(");
    let cloned = format!("{owner}.clone().{method}(");
    let starts_word = |at: usize| {
        !code[..at].ends_with(|letter: char| letter.is_alphanumeric() || "_.".contains(letter))
    };
    [plain, cloned].iter().any(|call| code.match_indices(call).any(|(at, _)| starts_word(at)))
}

// --- Looking ------------------------------------------------------------------------------------

fn place_of(room: &str) -> Option<usize> {
    ROOMS.iter().position(|name| *name == room)
}

/// Returns the first two names of each path that begins with `crate`, with its line: those of
/// `crate::room::module`, and of each part of `use crate::{room::module, ...}` and of `use
/// crate::room::{module, ...}`.
fn crate_paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let starts_inside_word = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if starts_inside_word {
            continue;
        }
        let line = code[..at].matches('\n').count();
        for path in paths_of(&code[at + "crate::".len()..], 2) {
            if !path.is_empty() {
                found.push((line, path));
            }
        }
    }
    found
}

/// Returns the paths that a text begins with, up to a depth: one path, or those of a group in
/// braces.
fn paths_of(text: &str, depth: usize) -> Vec<Vec<String>> {
    if depth == 0 {
        return vec![Vec::new()];
    }
    if let Some(group) = text.strip_prefix('{') {
        return parts_of_group(group).into_iter().flat_map(|part| paths_of(part, depth)).collect();
    }
    let name = first_word(text);
    if name.is_empty() {
        return vec![Vec::new()];
    }
    let rests = match text[name.len()..].strip_prefix("::") {
        Some(rest) => paths_of(rest, depth - 1),
        None => vec![Vec::new()],
    };
    rests.into_iter().map(|rest| [vec![name.to_owned()], rest].concat()).collect()
}

/// Returns the parts of a `use` group, each from its first letter on, up to the brace that ends the
/// group.
fn parts_of_group(group: &str) -> Vec<&str> {
    let mut parts = vec![group.trim_start()];
    let mut depth = 0;
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => parts.push(group[at + 1..].trim_start()),
            _ => {}
        }
    }
    parts
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

/// Returns the files of results that a text names, from `perf/` on. A figure without its file
/// cannot be checked.
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
fn the_rooms_stand_in_the_library_in_their_order() {
    let library = sources().into_iter().find(|source| source.path == "src/lib.rs").unwrap();
    let names = library.code.lines().filter_map(|line| line.strip_prefix("pub mod "));
    let names: Vec<&str> = names.map(|name| name.trim_end_matches(';')).collect();
    assert_eq!(names, ROOMS);
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
fn a_room_that_uses_a_later_one_is_found() {
    let breaks = |path, text| breaks(rooms_in_order, path, text);
    assert!(breaks("src/proto/url/mod.rs", "use crate::crawl::flow::Via;"));
    assert!(breaks("src/base/mod.rs", "fn f(x: &crate::proto::url::Url) {}"));
    assert!(breaks("src/crawl/flow/mod.rs", "use crate::{base::Time, shard::Shard};"));
    assert!(breaks("src/io/net.rs", "use crate::{\n    base,\n    lab::web::Web,\n};"));
    assert!(breaks("src/lab/mod.rs", "use crate::cli::flags;"));
    assert!(breaks("src/novelty.rs", ""));
    assert!(!breaks("src/crawl/store/mod.rs", "use crate::crawl::flow::Outcome;"));
    assert!(!breaks(
        "src/base/limits.rs",
        "/// See [`crate::proto::url::UrlError`].\nconst A: u8 = 1;"
    ));
    assert!(!breaks("src/engine/mod.rs", "use crate::{shard, crawl::store::{Store, fetch}};"));
}

#[test]
fn a_stage_or_a_protocol_that_uses_its_neighbour_is_found() {
    let breaks = |path, text| breaks(neighbours_apart, path, text);
    assert!(breaks("src/proto/html/mod.rs", "use crate::proto::http::Method;"));
    assert!(breaks("src/crawl/seed/mod.rs", "use crate::crawl::frontier::Frontier;"));
    assert!(breaks("src/crawl/seed/mod.rs", "use crate::{base, crawl::{flow, store::Store}};"));
    assert!(breaks("src/crawl/metrics/mod.rs", "use crate::crawl::{flow::Outcome, fetch};"));
    assert!(!breaks(
        "src/proto/html/mod.rs",
        "use crate::proto::url::Url; use crate::proto::html::Page;"
    ));
    assert!(!breaks("src/crawl/metrics/mod.rs", "use crate::crawl::flow::Outcome;"));
    assert!(!breaks("src/shard/mod.rs", "use crate::crawl::{store::Store, fetch};"));
}

#[test]
fn a_referee_that_uses_the_crawler_is_found() {
    let breaks = |path, text| breaks(referee_apart, path, text);
    assert!(breaks("src/lab/audit/book.rs", "use crate::proto::robotstxt::Robots;"));
    assert!(breaks("src/lab/audit/mod.rs", "use crate::{base::Time, proto::url::Url};"));
    assert!(breaks("src/lab/audit/mod.rs", "use crate::lab::web::Web;"));
    assert!(!breaks("src/lab/audit/mod.rs", "use crate::{base::Time, lab::audit::Stop};"));
    assert!(!breaks("src/lab/web/log.rs", "use crate::proto::url::Url;"));
}

#[test]
fn a_service_that_knows_the_shard_or_its_neighbour_is_found() {
    let breaks = |path, text| breaks(services_apart, path, text);
    assert!(breaks("src/shard/manners/mod.rs", "use super::Shard;"));
    assert!(breaks("src/shard/archive/mod.rs", "use crate::shard::visit::verdict::NextStep;"));
    assert!(breaks("src/shard/archive/mod.rs", "use crate::shard::manners::Health;"));
    assert!(breaks("src/shard/discovery/mod.rs", "use super::archive::Archive;"));
    assert!(!breaks("src/shard/discovery/mod.rs", "use super::manners::Pace;"));
    assert!(!breaks("src/shard/archive/mod.rs", "use crate::shard::kit::Kit; // Shard"));
    assert!(!breaks("src/shard/visit/mod.rs", "use super::{Shard, archive::End};"));
}

#[test]
fn a_shard_that_grows_again_is_found() {
    let shard = |count: usize| {
        let fields = "    field: Cell<u64>,\n".repeat(count);
        format!("struct Shard<W: World> {{\n{fields}}}\n")
    };
    let breaks = |text: &str| breaks(shard_is_small, "src/shard/mod.rs", text);
    assert!(breaks(&shard(SHARD_FIELD_COUNT_MAX + 1)));
    assert!(!breaks(&shard(SHARD_FIELD_COUNT_MAX)));
    let shards = sources().into_iter().filter(|source| source.code.contains("struct Shard<W"));
    assert_eq!(shards.count(), 1, "looked in the wrong place");
}

#[test]
fn no_files_of_the_shard_call_each_other_in_a_circle() {
    assert_eq!(circles_of_files(&sources()), Vec::<String>::new());
    let file = |name: &str, method: &str, call: &str| {
        let text = format!(
            "impl<W: World> Shard<W> {{\n    fn {method}(&self) {{\n        {call}();\n    }}\n}}\n"
        );
        Source::new(&format!("src/shard/{name}.rs"), &text)
    };
    let chain = |last: &str| {
        [file("a", "one", "self.two"), file("b", "two", "shard.three"), file("c", "three", last)]
    };
    assert!(circles_of_files(&chain("other.one")).is_empty());
    assert_eq!(circles_of_files(&chain("self.one")).len(), 3);
    assert!(circles_of_files(&chain("self.three")).is_empty(), "within a file it may");
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
    let limits = "src/base/limits.rs";
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
