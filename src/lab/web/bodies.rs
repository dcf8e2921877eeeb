//! Real bodies for the synthetic web: the files of a folder, served in the place of its pages.
//!
//! Each file is gzip-coded once, at the start. A URL's hash selects one of them, and a remark of
//! the URL's own follows it as a second gzip member, so that no two answers have the same bytes.

use crate::lab::web::chance::{mix, scale};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use std::path::Path;

pub struct Bodies {
    coded: Vec<Vec<u8>>,
}

impl Bodies {
    /// Reads all files of a folder, in the order of their names.
    pub fn read(folder: &Path) -> io::Result<Bodies> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_file() {
                paths.push(path);
            }
        }
        paths.sort();
        let mut coded = Vec::new();
        for path in paths {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&std::fs::read(path)?)?;
            coded.push(encoder.finish()?);
        }
        if coded.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no file in the folder"));
        }
        Ok(Bodies { coded })
    }

    /// Returns the index of the body that a draw selects.
    pub fn index(&self, draw: u64) -> u32 {
        scale(mix(draw, 40), self.coded.len() as u32)
    }

    /// Returns a body as one gzip member.
    pub fn coded(&self, index: u32) -> &[u8] {
        &self.coded[index as usize]
    }
}
