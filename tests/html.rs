//! Tests of the HTML reader with html5lib's suites, and with the pages of the corpus, where
//! lol_html is the second opinion and html5ever the referee. Everything runs whole, byte by byte
//! and in random chunks.

#[path = "support/corpus.rs"]
mod corpus;
#[path = "html/encoding.rs"]
mod encoding;
#[path = "html/pages.rs"]
mod pages;
#[path = "html/referee.rs"]
mod referee;
#[path = "html/tokens.rs"]
mod tokens;

/// Returns the files of a folder of test data by name, and whether they belong to the corpus.
fn corpus_files(folder: &str) -> (Vec<(String, Vec<u8>)>, bool) {
    let found = corpus::find(folder);
    let mut files: Vec<_> = std::fs::read_dir(&found.path)
        .expect("the folder opens")
        .map(|entry| {
            let path = entry.expect("the folder reads").path();
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            (name, std::fs::read(&path).expect("a file reads"))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", found.path.display());
    (files, found.is_whole)
}

/// How a test cuts its input.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Whole,
    Bytes,
    /// The input is cut into chunks of 1 to 4,096 bytes, most of them small, with this seed.
    Random(u64),
}

impl Cut {
    const ALL: [Cut; 4] = [Cut::Whole, Cut::Bytes, Cut::Random(1), Cut::Random(2)];

    fn each(self, bytes: &[u8], mut take: impl FnMut(&[u8])) {
        match self {
            Cut::Whole => take(bytes),
            Cut::Bytes => bytes.chunks(1).for_each(take),
            Cut::Random(seed) => {
                let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                let mut rest = bytes;
                while !rest.is_empty() {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let size_max = 1usize << (state % 13);
                    let size = 1 + (state >> 32) as usize % size_max;
                    let (chunk, after) = rest.split_at(size.min(rest.len()));
                    take(chunk);
                    rest = after;
                }
            }
        }
    }
}
