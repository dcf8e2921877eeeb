//! Crawls that are killed or lose power at any event, on disks that fail, and are then resumed.
//! They are judged over all their runs, by the servers' log and the files on disk. `nephila sim
//! --crashes N` runs as many more seeds as one likes; every build runs the seeds here.

#[path = "resume/anywhere.rs"]
mod anywhere;
#[path = "resume/cold.rs"]
mod cold;
#[path = "resume/damage.rs"]
mod damage;
#[path = "resume/judged.rs"]
mod judged;
#[path = "resume/lone.rs"]
mod lone;
#[path = "resume/manners.rs"]
mod manners;
#[path = "resume/repair.rs"]
mod repair;
#[path = "support/scripted.rs"]
mod scripted;
#[path = "resume/state.rs"]
mod state;
mod support;
