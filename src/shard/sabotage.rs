//! Bugs to plant: the proof that the referee finds them.
//!
//! A judge that never says no proves nothing. Tests, and whoever doubts the judge, can run a crawl
//! that breaks one rule on purpose (`nephila sim --sabotage`). No crawl over real sockets can ask
//! for it: the engine's plan has none.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Every delay is a tenth too short.
    DelayShort,
    /// The first page of an origin is asked for before its robots.txt.
    RobotsLate,
    /// Nobody waits for the turn at an address.
    TurnSkipped,
    /// A Retry-After is read and forgotten.
    RetryAfterIgnored,
}

impl Sabotage {
    pub const ALL: [Sabotage; 4] = [
        Sabotage::DelayShort,
        Sabotage::RobotsLate,
        Sabotage::TurnSkipped,
        Sabotage::RetryAfterIgnored,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Sabotage::DelayShort => "delay-short",
            Sabotage::RobotsLate => "robots-late",
            Sabotage::TurnSkipped => "turn-skipped",
            Sabotage::RetryAfterIgnored => "retry-after-ignored",
        }
    }

    pub fn by_name(name: &str) -> Option<Sabotage> {
        Sabotage::ALL.into_iter().find(|sabotage| sabotage.name() == name)
    }
}
