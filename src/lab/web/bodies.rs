//! Bodies that are not of the web's own making: files of a folder, in the place of its pages.
//!
//! Each is gzip-coded once, at the start. A URL gets one of them by its name, with a remark of its
//! own behind it (a second gzip member), so that no two answers have the same bytes.

use crate::lab::web::chance::{mix, scale};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use std::path::Path;

pub struct Bodies {
    coded: Vec<Vec<u8>>,
}

impl Bodies {
    /// All files of a folder, by their names' order.
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

    /// The body that belongs to a draw.
    pub fn index(&self, draw: u64) -> u32 {
        scale(mix(draw, 40), self.coded.len() as u32)
    }

    /// A gzip member.
    pub fn coded(&self, index: u32) -> &[u8] {
        &self.coded[index as usize]
    }
}
