//! The program: its allocator, a look at the processor, and the command line.

use nephila::sys::processor;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(feature) = processor::missing_feature() {
        eprintln!(
            "nephila: built for x86-64-v3, and this processor has no {feature}: build it without \
             the rustflags of .cargo/config.toml"
        );
        return ExitCode::FAILURE;
    }
    nephila::cli::run()
}
