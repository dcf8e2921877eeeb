//! The robots.txt files of the synthetic hosts.

use crate::lab::web::Web;
use crate::lab::web::chance::mix;
use crate::lab::web::graph::Rules;
use crate::lab::web::names::push_number;
use crate::lab::web::weather::Edition;

impl Web {
    /// Appends a host's rules, in one of the ways that people write them.
    pub(super) fn push_robots(&self, host: u32, edition: Edition, out: &mut Vec<u8>) {
        let style = mix(mix(self.spec().seed, 40), u64::from(host)) % 3;
        out.extend_from_slice(match style {
            0 => b"User-agent: *\n" as &[u8],
            1 => b"# robots of a synthetic host\r\n\r\nuser-agent : *\r\n",
            _ => b"User-agent: some-other-bot\nDisallow: /\n\nUser-Agent: * # the rest\n",
        });
        out.extend_from_slice(match (edition, self.graph().rules(host)) {
            (Edition::Relaxed, _) => b"Disallow:\n" as &[u8],
            (Edition::Closed, _) | (_, Rules::Closed) => b"Disallow: /\n",
            (_, Rules::Private) => b"Disallow: /private/\nDisallow: /trap/\n",
            (_, Rules::Open | Rules::Absent | Rules::Failing) => b"Disallow:\n",
        });
        if edition == Edition::Tightened {
            out.extend_from_slice(b"Disallow: /p/\nDisallow: /*/item-\nAllow: /p/1\n");
        }
        let crawl_delay_seconds = match edition {
            Edition::CrawlDelay { seconds } => Some(seconds),
            _ => self.graph().crawl_delay_seconds(host),
        };
        if let Some(seconds) = crawl_delay_seconds {
            out.extend_from_slice(b"Crawl-delay: ");
            push_number(seconds, out);
            out.push(b'\n');
        }
        if self.graph().has_sitemap(host) {
            out.extend_from_slice(b"\nSitemap: ");
            self.push_origin(host, out);
            out.extend_from_slice(b"/sitemap.xml\n");
            if self.spec().hostile_sitemaps {
                out.extend_from_slice(b"Sitemap: ");
                self.push_origin(self.sitemap_lender(host), out);
                out.extend_from_slice(b"/sitemap-lent-");
                push_number(host, out);
                out.extend_from_slice(b".xml\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::web::WebSpec;
    use robotstxt::DefaultMatcher;

    #[test]
    fn robots_files_say_what_the_rules_mean() {
        let rough = WebSpec::profile("rough").unwrap();
        let web = Web::new(WebSpec { host_count: 400, page_count: 4_000, ..rough }).unwrap();
        let mut seen = [0; 3];
        for host in 0..400 {
            let mut out = Vec::new();
            web.push_robots(host, Edition::Usual, &mut out);
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

    #[test]
    fn editions_deny_more_or_less_or_ask_for_another_delay() {
        let web = Web::new(WebSpec::profile("rough").unwrap()).unwrap();
        let private = |host: &u32| web.graph().rules(*host) == Rules::Private;
        let host = (0..100).find(private).unwrap();
        let allowed = |edition, path: &str| {
            let mut out = Vec::new();
            web.push_robots(host, edition, &mut out);
            let body = String::from_utf8(out).unwrap();
            let url = format!("http://{}{path}", web.host_name(host));
            DefaultMatcher::default().one_agent_allowed_by_robots(&body, "nephila", &url)
        };
        let of = |edition| ["/private/7", "/p/7", "/p/17", "/news/7"].map(|p| allowed(edition, p));
        assert_eq!(of(Edition::Usual), [false, true, true, true]);
        assert_eq!(of(Edition::Tightened), [false, false, true, true]);
        assert_eq!(of(Edition::Closed), [false; 4]);
        assert_eq!(of(Edition::Relaxed), [true; 4]);
        let mut out = Vec::new();
        web.push_robots(host, Edition::CrawlDelay { seconds: 47 }, &mut out);
        assert!(String::from_utf8(out).unwrap().contains("Crawl-delay: 47\n"));
    }
}
