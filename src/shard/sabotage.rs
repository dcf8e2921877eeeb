//! Bugs that can be planted, to prove that the referee finds them.
//!
//! A referee that never finds a fault proves nothing. Tests and operators can run a crawl that
//! breaks one rule on purpose (`nephila sim --sabotage`). This is not possible in a crawl over real
//! sockets, because the engine's plan has no sabotage.

/// The rule that a crawl breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Every delay is a tenth too short.
    DelayShort,
    /// The first page of an origin is requested before its robots.txt.
    RobotsLate,
    /// No visit waits for its turn at an address.
    TurnSkipped,
    /// A Retry-After is read and then ignored.
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
