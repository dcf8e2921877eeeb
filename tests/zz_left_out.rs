//! This is the last of the test binaries, by its name. It lists what the others had to run without.
//! It has no harness, so its output is always shown.

#[path = "support/corpus.rs"]
mod corpus;

use std::collections::BTreeMap;

fn main() {
    // Programs that collect tests ask for a list. There are none to list.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let Some((folder, _)) = corpus::notes() else { return };
    let mut left_out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let what = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let test = entry.file_name().to_string_lossy().replacen(' ', ": ", 1);
        left_out.entry(what).or_default().push(test);
    }
    if left_out.is_empty() {
        return println!(
            "\nNothing was left out: the tests had all the data and tools they can use."
        );
    }
    for (what, mut tests) in left_out {
        tests.sort();
        println!("\nThese tests ran without {what}, and checked less (CONTRIBUTING.md says more):");
        tests.iter().for_each(|test| println!("  {test}"));
    }
}
