//! Checks what the processor must have: on x86-64 the build takes AVX2 and BMI for granted
//! (`.cargo/config.toml`), and an older processor would stop at an illegal instruction.

/// Returns the first feature that the build uses and this processor lacks.
#[cfg(target_arch = "x86_64")]
pub fn missing_feature() -> Option<&'static str> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // The processor itself is asked, because `is_x86_feature_detected` answers at compile time for
    // whatever the build takes for granted.
    if !cfg!(target_feature = "avx2") {
        return None;
    }
    if __cpuid(0).eax < 7 {
        return Some("AVX2");
    }
    let basic = __cpuid(1).ecx;
    let extended = __cpuid_count(7, 0).ebx;
    let wanted = [
        (basic, 27, "OSXSAVE"),
        (basic, 28, "AVX"),
        (basic, 12, "FMA"),
        (basic, 22, "MOVBE"),
        (extended, 5, "AVX2"),
        (extended, 3, "BMI1"),
        (extended, 8, "BMI2"),
    ];
    wanted.iter().find(|(word, bit, _)| word >> bit & 1 == 0).map(|(_, _, name)| *name)
}

#[cfg(not(target_arch = "x86_64"))]
pub fn missing_feature() -> Option<&'static str> {
    None
}

/// Whether this processor has AVX2 and BMI and the build does without: it was not made with the
/// rustflags of `.cargo/config.toml`. [`block`](super::block) is then made of SSE2 instructions. It
/// is inlined into the loops over a page's bytes, so choosing at run time would cost a call for
/// each block; what is called once for a page or a link ([`sha1`](super::sha1),
/// [`cmac`](super::cmac)) looks at the processor in every build. On one machine `nephila bench
/// parse` reads 5 % fewer bytes a second for links alone, 14 % fewer with text, and 11 % fewer with
/// SimHash.
#[cfg(target_arch = "x86_64")]
pub fn is_more_than_built_for() -> bool {
    !cfg!(target_feature = "avx2")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi2")
}

#[cfg(not(target_arch = "x86_64"))]
pub fn is_more_than_built_for() -> bool {
    false
}
