//! Tests of the referee: it finds and names every violation, and passes a lawful case that differs
//! as little as possible.

#[path = "audit/directory.rs"]
mod directory;
#[path = "audit/lives.rs"]
mod lives;
#[path = "audit/pace.rs"]
mod pace;
#[path = "audit/planted.rs"]
mod planted;
#[path = "audit/robots.rs"]
mod robots;
#[path = "audit/script.rs"]
mod script;
#[path = "audit/stops.rs"]
mod stops;
#[path = "audit/whole.rs"]
mod whole;
