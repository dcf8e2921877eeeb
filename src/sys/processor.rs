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
