//! robots.txt and sitemap.xml of the synthetic hosts.
//!
//! A sitemap lists only pages that links reach as well, so what a crawl should fetch does not
//! depend on whether it reads sitemaps.

use crate::web::Web;
use crate::web::chance::mix;
use crate::web::graph::{Kind, Rules};
use crate::web::names::push_number;

const SITEMAP_PAGE_COUNT_MAX: u32 = 1_000;

impl Web {
    /// The rules in one of the ways that people write them.
    pub(super) fn push_robots(&self, host: u32, out: &mut Vec<u8>) {
        let style = mix(mix(self.spec().seed, 40), u64::from(host)) % 3;
        out.extend_from_slice(match style {
            0 => b"User-agent: *\n" as &[u8],
            1 => b"# robots of a synthetic host\r\n\r\nuser-agent : *\r\n",
            _ => b"User-agent: some-other-bot\nDisallow: /\n\nUser-Agent: * # the rest\n",
        });
        out.extend_from_slice(match self.graph().rules(host) {
            Rules::Private => b"Disallow: /private/\nDisallow: /trap/\n" as &[u8],
            Rules::Closed => b"Disallow: /\n",
            Rules::Open | Rules::Absent | Rules::Failing => b"Disallow:\n",
        });
        if let Some(seconds) = self.graph().crawl_delay_seconds(host) {
            out.extend_from_slice(b"Crawl-delay: ");
            push_number(seconds, out);
            out.push(b'\n');
        }
        if self.graph().has_sitemap(host) {
            out.extend_from_slice(b"\nSitemap: ");
            self.push_origin(host, out);
            out.extend_from_slice(b"/sitemap.xml\n");
        }
    }

    pub(super) fn push_sitemap(&self, host: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
              <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
        );
        let mut path = Vec::new();
        for page in 0..self.graph().page_count(host).min(SITEMAP_PAGE_COUNT_MAX) {
            // Content pages come first.
            let Some(place) = self.graph().place(host, page) else { break };
            if place.kind != Kind::Content {
                break;
            }
            out.extend_from_slice(b"<url><loc>");
            self.push_origin(host, out);
            path.clear();
            self.push_path(place, &mut path);
            super::page::push_escaped(&path, out);
            out.extend_from_slice(b"</loc></url>\n");
        }
        out.extend_from_slice(b"</urlset>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::WebSpec;
    use robotstxt::DefaultMatcher;

    #[test]
    fn robots_files_say_what_the_rules_mean() {
        let rough = WebSpec::profile("rough").unwrap();
        let web = Web::new(WebSpec { host_count: 400, page_count: 4_000, ..rough }).unwrap();
        let mut seen = [0; 3];
        for host in 0..400 {
            let mut out = Vec::new();
            web.push_robots(host, &mut out);
            let body = String::from_utf8(out).unwrap();
            let allowed = |path: &str| {
                let url = format!("http://{}{path}", web.host_name(host));
                DefaultMatcher::default().one_agent_allowed_by_robots(&body, "nephila", &url)
            };
            let (private, page) = match web.graph().rules(host) {
                Rules::Private => (false, true),
                Rules::Closed => (false, false),
                _ => (true, true),
            };
            seen[usize::from(private) + usize::from(page)] += 1;
            assert_eq!((allowed("/private/7"), allowed("/p/7")), (private, page), "{body}");
            let delay = web.graph().crawl_delay_seconds(host);
            assert_eq!(delay.is_some(), body.contains("Crawl-delay: "));
        }
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    }
}
