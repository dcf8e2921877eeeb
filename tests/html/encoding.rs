//! html5lib's encoding suite checks which charset a page is read in.

use crate::corpus_files;
use nephila::proto::html::{NoText, PageReader};

/// Runs all cases of the suite. The test fails if more cases are skipped, or if a file is not read.
const RUN_COUNT: usize = 81;
const TOO_LATE_COUNT: usize = 1;

#[test]
fn rfc_the_html5lib_encoding_suite_passes() {
    let mut run_count = 0;
    let mut too_late_count = 0;
    let mut wrong = Vec::new();
    let (files, is_whole) = corpus_files("html5lib/encoding");
    for (file, bytes) in files {
        let section_count = memchr::memmem::find_iter(&bytes, b"#data\n").count();
        assert_eq!(cases(&bytes).len(), section_count, "{file}: sections and cases");
        for (data, label) in cases(&bytes) {
            // The charset is declared 8 KB after the first byte that is not ASCII. A browser starts
            // over there; a stream cannot.
            if memchr::memmem::find(data, b"<!-- multi-script test -->").is_some() {
                too_late_count += 1;
                continue;
            }
            let want = encoding_rs::Encoding::for_label(label).expect("the suite knows its labels");
            for chunk_bytes in [data.len().max(1), 1, 7] {
                let mut reader = PageReader::new(None);
                data.chunks(chunk_bytes).for_each(|chunk| reader.push(chunk, &mut NoText));
                let found = reader.finish(&mut NoText).charset;
                if found != want.name() {
                    wrong.push((
                        file.clone(),
                        String::from_utf8_lossy(data).into_owned(),
                        found,
                        want.name(),
                    ));
                }
            }
            run_count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
    println!("{run_count} cases. Out of scope: {too_late_count} declared too late");
    let expected = if is_whole { (RUN_COUNT, TOO_LATE_COUNT) } else { (6, 0) };
    assert_eq!((run_count, too_late_count), expected);
}

/// Returns the `#data` and `#encoding` sections.
fn cases(suite: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut cases = Vec::new();
    let mut rest = suite;
    while let Some(start) = memchr::memmem::find(rest, b"#data\n") {
        let after = &rest[start + 6..];
        let Some(middle) = memchr::memmem::find(after, b"\n#encoding\n") else { break };
        let label = &after[middle + 11..];
        let end = memchr::memchr(b'\n', label).unwrap_or(label.len());
        cases.push((&after[..middle], label[..end].trim_ascii()));
        rest = &label[end..];
    }
    cases
}
