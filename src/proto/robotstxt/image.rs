//! Rules as state files hold them: packed and read back without the robots.txt that they came from.

use super::{Entry, Robots};
use crate::base::pack::{Pack, Unpack};

/// Stands for "no Crawl-delay".
const NONE: u32 = u32::MAX;

impl Robots {
    pub fn pack(&self, pack: &mut Pack<'_>) {
        pack.text(&self.text);
        pack.u32(self.rule_count);
        pack.u32(self.crawl_delay_ms.map_or(NONE, |ms| ms.min(NONE - 1)));
        pack.u32(self.crawl_delay_line);
        pack.u32(self.entries.len() as u32);
        for entry in &self.entries {
            pack.u32(entry.end);
            pack.u32(entry.line_and_allow);
        }
    }

    /// Reads what [`Robots::pack`] packed; `None` if the bytes are something else.
    pub fn unpack(from: &mut Unpack<'_>) -> Option<Robots> {
        let text: Box<str> = from.text()?.into();
        let rule_count = from.u32()?;
        let crawl_delay_ms = Some(from.u32()?).filter(|ms| *ms != NONE);
        let crawl_delay_line = from.u32()?;
        let entry_count = from.u32()?;
        let mut entries = Vec::new();
        let mut start = 0;
        for _ in 0..entry_count {
            let entry = Entry { end: from.u32()?, line_and_allow: from.u32()? };
            text.get(start..entry.end as usize)?;
            start = entry.end as usize;
            entries.push(entry);
        }
        (rule_count <= entry_count).then_some(Robots {
            text,
            entries: entries.into(),
            rule_count,
            crawl_delay_ms,
            crawl_delay_line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_back_as_they_were_and_every_cut_is_noticed() {
        let file = b"User-agent: *\nDisallow: /private/\nAllow: /private/not$\nCrawl-delay: 7\n\
                     Sitemap: http://h.test/map.xml\n";
        for rules in [Robots::parse(file, "nephila"), Robots::allow_all(), Robots::disallow_all()] {
            let mut image = Vec::new();
            rules.pack(&mut Pack(&mut image));
            assert_eq!(Robots::unpack(&mut Unpack(&image)), Some(rules));
            for cut in 0..image.len() {
                assert_eq!(Robots::unpack(&mut Unpack(&image[..cut])), None, "cut at {cut}");
            }
        }
    }
}
