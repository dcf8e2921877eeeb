//! Dead letters put back into the queue, for the next start of the crawl.
//!
//! Written as a journal file of the shard that owns their host, behind all that the journal has.
//! The directory is locked meanwhile.

use super::dead::{DeadLetters, DeadUrl};
use super::disk::PlainDisk;
use super::listing::line;
use super::place::Place;
use super::{DeadFilter, InspectError, Manner};
use crate::base::escape::escape;
use crate::crawl::flow::Queued;
use crate::engine::report::counted;
use crate::shard::Inspection;
use serde_json::json;

/// Puts these URLs back, or none of them if one is no dead letter.
pub fn named(place: &Place, urls: &[String], manner: Manner) -> Result<String, InspectError> {
    let shards = place.shards()?;
    let mut letters = DeadLetters::gather(place, &shards, &DeadFilter::default())?;
    let mut chosen: Vec<DeadUrl> = Vec::new();
    for text in urls {
        let url = place.url(text)?;
        if chosen.iter().any(|dead| dead.queued.url == url) {
            continue;
        }
        let owner = &shards[usize::from(place.owner(&url).0)];
        let not_dead = |why| InspectError::NotDead { url: url.as_str().to_owned(), why };
        let Some(dead) = letters.remove(&url) else {
            let is_pending = owner.url(&url).is_some();
            let why = if is_pending { "it is still to come" } else { "it was not given up" };
            return Err(not_dead(why));
        };
        if !owner.can_revive(&url) {
            return Err(not_dead("it was put back as often as can be told apart"));
        }
        chosen.push(dead);
    }
    put_back(place, &shards, chosen, 0, manner)
}

/// Puts all dead letters back that `filter` lets pass.
pub fn filtered(
    place: &Place,
    filter: &DeadFilter,
    manner: Manner,
) -> Result<String, InspectError> {
    let shards = place.shards()?;
    let letters = DeadLetters::gather(place, &shards, filter)?.into_sorted();
    let count = letters.len();
    let can_be = |dead: &DeadUrl| {
        shards[usize::from(place.owner(&dead.queued.url).0)].can_revive(&dead.queued.url)
    };
    let chosen: Vec<DeadUrl> = letters.into_iter().filter(can_be).collect();
    let worn_count = count - chosen.len();
    put_back(place, &shards, chosen, worn_count, manner)
}

fn put_back(
    place: &Place,
    shards: &[Inspection<PlainDisk>],
    chosen: Vec<DeadUrl>,
    worn_count: usize,
    manner: Manner,
) -> Result<String, InspectError> {
    let mut shares: Vec<Vec<Queued>> = vec![Vec::new(); shards.len()];
    for dead in &chosen {
        shares[usize::from(place.owner(&dead.queued.url).0)].push(dead.queued.clone());
    }
    for (shard, share) in shards.iter().zip(shares).filter(|(_, share)| !share.is_empty()) {
        PlainDisk::run(shard.revive(&place.disk, share)).map_err(InspectError::Shard)?;
    }
    let count = chosen.len();
    let shown = chosen.iter().take(manner.line_count_max);
    if manner.is_json {
        let urls: Vec<&str> = shown.map(|dead| dead.queued.url.as_str()).collect();
        let more = count - urls.len();
        let value =
            json!({ "reinjected": count, "urls": urls, "more": more, "worn_out": worn_count });
        return line(&value);
    }
    let mut text = String::new();
    for dead in shown {
        text += &format!("{} ({})\n", escape(dead.queued.url.as_str()), dead.outcome.name());
    }
    if count > manner.line_count_max {
        text += &format!("and {} more\n", count - manner.line_count_max);
    }
    text += &format!(
        "{} put back: go on with the crawl to have them fetched\n",
        counted(count as u64, "dead letter", "dead letters")
    );
    if worn_count > 0 {
        let worn = counted(worn_count as u64, "dead letter was", "dead letters were");
        text += &format!("{worn} put back too often before, and not this time\n");
    }
    Ok(text)
}
