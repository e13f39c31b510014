//! Sets the processor's floating-point mode to its default while a kernel runs.
//!
//! A program may have enabled flushing of denormals (`torch.set_flush_denormal`) or a different rounding
//! direction. Both are processor state of a thread and would change what a kernel measures. The guard sets the
//! IEEE default and restores the caller's mode afterwards: the results depend only on the tensor, and the caller's
//! arithmetic is unchanged. A new thread inherits the mode of its creator, so every thread that computes has a guard.
//! (On x86-64; on other processors the caller's mode is used unchanged.)

/// Restores the caller's floating-point mode when dropped.
pub(crate) struct DefaultFloatEnv {
    #[cfg(target_arch = "x86_64")]
    callers: u32,
}

/// Round to nearest, denormals kept, all exceptions masked: the state in which a process starts.
#[cfg(target_arch = "x86_64")]
const DEFAULT_MXCSR: u32 = 0x1f80;

/// The sticky exception flags, which do not affect arithmetic.
#[cfg(target_arch = "x86_64")]
const MXCSR_FLAGS: u32 = 0x3f;

impl DefaultFloatEnv {
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn enter() -> DefaultFloatEnv {
        let callers = read_mxcsr();
        if callers & !MXCSR_FLAGS != DEFAULT_MXCSR {
            write_mxcsr(DEFAULT_MXCSR);
        }
        DefaultFloatEnv { callers }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn enter() -> DefaultFloatEnv {
        DefaultFloatEnv {}
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for DefaultFloatEnv {
    fn drop(&mut self) {
        if self.callers & !MXCSR_FLAGS != DEFAULT_MXCSR {
            write_mxcsr(self.callers);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code)]
fn read_mxcsr() -> u32 {
    let mut value = 0u32;
    // SAFETY: stores the 4-byte control register into a local; SSE is part of x86-64.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut value, options(nostack, preserves_flags)) };
    value
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code)]
fn write_mxcsr(value: u32) {
    // SAFETY: loads a control word that is either the default or one read from this thread before, so no
    // reserved bit is set.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &value, options(nostack, preserves_flags)) };
}
