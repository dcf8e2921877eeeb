//! The referee: every violation is found and named, and its lawful twin passes.

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
