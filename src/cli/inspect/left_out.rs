//! Links that were not followed because their pages had too many, by the indexes beside the WARC
//! files: how many, and the pages that lost the most.

use super::InspectError;
use super::logs::{each_line, names_in};
use super::place::Place;
use super::records::WARC_DIR;
use super::words::Table;
use crate::base::escape::escape;
use crate::base::limits::INSPECT_TOP_COUNT;
use crate::engine::report::{count_text, counted};
use crate::proto::warc::cdxj::LINKS_LEFT_OUT_KEY;
use serde_json::{Value, json};

#[derive(Debug, Default)]
pub struct LeftOut {
    link_count: u64,
    page_count: u64,
    /// Those that lost the most, the worst first.
    worst: Vec<(u64, String)>,
    /// WARC files without an index yet: their pages are not counted here.
    open_file_count: usize,
}

impl LeftOut {
    pub fn gather(place: &Place) -> Result<LeftOut, InspectError> {
        let mut found = LeftOut::default();
        let names = names_in(place, WARC_DIR)?;
        found.open_file_count = names.iter().filter(|name| name.ends_with(".warc.gz.open")).count();
        let finder = memchr::memmem::Finder::new(LINKS_LEFT_OUT_KEY);
        for name in names.iter().filter(|name| name.ends_with(".cdxj")) {
            each_line(place, WARC_DIR, name, |line| {
                // Hardly any line has it, and a URL that has is told apart by the parser.
                if finder.find(line.as_bytes()).is_some()
                    && let Some((link_count, url)) = read(line)
                {
                    found.add(link_count, url);
                }
            })?;
        }
        Ok(found)
    }

    fn add(&mut self, link_count: u64, url: String) {
        self.link_count += link_count;
        self.page_count += 1;
        let place = self.worst.partition_point(|(count, _)| *count >= link_count);
        if place < INSPECT_TOP_COUNT {
            self.worst.insert(place, (link_count, url));
            self.worst.truncate(INSPECT_TOP_COUNT);
        }
    }

    pub fn text(&self, table: &mut Table) {
        let pages = counted(self.page_count, "page", "pages");
        let links = count_text(self.link_count);
        table.head(&format!("\nlinks left out (page_link_count_max): {links}, of {pages}"));
        for (count, url) in &self.worst {
            table.row("", format!("{:>9}  {}", count_text(*count), escape(url)));
        }
        if self.open_file_count > 0 {
            let files = counted(self.open_file_count as u64, "WARC file", "WARC files");
            table.row("", format!("not counted: the pages of {files} without an index yet"));
        }
    }

    pub fn json(&self) -> Value {
        let worst = self.worst.iter().map(|(count, url)| json!({ "url": url, "links": count }));
        json!({
            "links": self.link_count, "pages": self.page_count,
            "most": worst.collect::<Vec<_>>(), "open_warc_files": self.open_file_count,
        })
    }
}

fn read(line: &str) -> Option<(u64, String)> {
    let fields: Value = serde_json::from_str(line.splitn(3, ' ').nth(2)?).ok()?;
    let link_count = fields[LINKS_LEFT_OUT_KEY].as_str()?.parse().ok()?;
    Some((link_count, fields["url"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_that_lost_the_most_come_first_and_only_lines_with_the_field_count() {
        let mut found = LeftOut::default();
        for number in 0..100 {
            let line = format!(
                "test,h)/{number} 20260101000000 {{\"url\": \"http://h.test/{number}\", \
                 \"status\": \"200\", \"links_left_out\": \"{number}\"}}"
            );
            let (count, url) = read(&line).expect("a line with the field");
            found.add(count, url);
        }
        assert_eq!((found.link_count, found.page_count), (4_950, 100));
        assert_eq!(found.worst[0], (99, "http://h.test/99".to_owned()));
        assert!(found.worst.is_sorted_by(|one, two| one.0 > two.0));
        assert_eq!(found.worst.len(), INSPECT_TOP_COUNT);
        assert_eq!(read("test,h)/ 1 {\"url\": \"http://h.test/?links_left_out\"}"), None);
        assert_eq!(read("half a line"), None);
    }
}
