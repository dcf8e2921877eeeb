//! Without permission to connect to private addresses, the crawler connects to nothing on 127/8 or
//! other private addresses, whatever leads there.

use super::evidence::{crawl, settings};
use nephila::crawl::config::Settings;
use nephila::lab::web::hostile::ROWS;
use nephila::proto::url::Url;

#[test]
fn names_and_addresses_that_are_not_public_are_never_connected_to() {
    let mut seeds = Vec::new();
    let evidence = crawl(|stand, web| {
        let port = stand.port;
        for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0"] {
            seeds.push(format!("http://{host}:{port}/"));
        }
        let hostile = web.hostile().expect("hostile hosts");
        seeds.push(hostile.index_url());
        let named = ROWS.iter().filter(|row| row.name.starts_with("dns-"));
        seeds.extend(named.map(|row| hostile.url(row, "/")));
        let seeds = seeds.clone();
        // The name that is rebound is public only where addresses are simulated.
        let settings = Settings { allow_private: false, max_seconds: 20, ..settings(stand) };
        (settings, seeds)
    });
    assert!(evidence.asked.is_empty(), "{:?}", evidence.asked[0]);
    for seed in &seeds {
        let url = Url::parse(seed).expect("a URL");
        assert!(evidence.logged.iter().any(|line| line.url == url.as_str()), "{url}");
    }
    for line in &evidence.logged {
        assert!(matches!(line.outcome.as_str(), "address_refused" | "dns_failed"), "{line:?}");
    }
}
