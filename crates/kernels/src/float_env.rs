//! Sets the processor's floating-point mode to its default while a kernel runs.
//!
//! A program may have enabled flushing of denormals (`torch.set_flush_denormal`) or a different rounding
//! direction. Both are processor state of a thread and would change what a kernel measures. The guard sets the
//! IEEE default and restores the caller's mode afterwards: the results depend only on the tensor, and the caller's
//! arithmetic is unchanged. A new thread inherits the mode of its creator, so every thread that computes has a guard.
//! (On x86-64 and ARM64; on other processors the caller's mode is used unchanged.)

use register::{DEFAULT, STATUS, read, write};

/// Restores the caller's floating-point mode when dropped.
pub(crate) struct DefaultFloatEnv {
    callers: register::Mode,
}

impl DefaultFloatEnv {
    pub(crate) fn enter() -> DefaultFloatEnv {
        let callers = read();
        if callers & !STATUS != DEFAULT {
            write(DEFAULT);
        }
        DefaultFloatEnv { callers }
    }
}

impl Drop for DefaultFloatEnv {
    fn drop(&mut self) {
        if self.callers & !STATUS != DEFAULT {
            write(self.callers);
        }
    }
}

/// MXCSR.
#[cfg(target_arch = "x86_64")]
mod register {
    pub(super) type Mode = u32;

    /// Round to nearest, denormals kept, all exceptions masked: the state in which a process starts.
    pub(super) const DEFAULT: Mode = 0x1f80;

    /// The sticky exception flags, which do not affect arithmetic.
    pub(super) const STATUS: Mode = 0x3f;

    #[expect(unsafe_code)]
    pub(super) fn read() -> Mode {
        let mut value: Mode = 0;
        // SAFETY: stores the 4-byte control register into a local; SSE is part of x86-64.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut value, options(nostack, preserves_flags)) };
        value
    }

    #[expect(unsafe_code)]
    pub(super) fn write(value: Mode) {
        // SAFETY: loads a control word that is either the default or one read from this thread before, so no
        // reserved bit is set.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &value, options(nostack, preserves_flags)) };
    }
}

/// FPCR.
#[cfg(target_arch = "aarch64")]
mod register {
    pub(super) type Mode = u64;

    /// Round to nearest, denormals kept, no trapped exceptions: the state in which a process starts.
    pub(super) const DEFAULT: Mode = 0;

    /// None: the sticky exception flags are in a register of their own.
    pub(super) const STATUS: Mode = 0;

    #[expect(unsafe_code)]
    pub(super) fn read() -> Mode {
        let value: Mode;
        // SAFETY: copies the control register, which every ARM64 process may read, into a local.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) value, options(nostack, preserves_flags)) };
        value
    }

    #[expect(unsafe_code)]
    pub(super) fn write(value: Mode) {
        // SAFETY: writes a control word that is either the default or one read from this thread before, so no
        // reserved bit is set.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub(super) type Mode = u32;
    pub(super) const DEFAULT: Mode = 0;
    pub(super) const STATUS: Mode = 0;

    pub(super) fn read() -> Mode {
        DEFAULT
    }

    pub(super) fn write(_: Mode) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use std::hint::black_box;

    use super::{DEFAULT, DefaultFloatEnv, read, register, write};

    /// Denormal results become zero, and rounding is towards zero.
    #[cfg(target_arch = "x86_64")]
    const FLUSH_AND_TRUNCATE: register::Mode = DEFAULT | 1 << 15 | 3 << 13;
    #[cfg(target_arch = "aarch64")]
    const FLUSH_AND_TRUNCATE: register::Mode = DEFAULT | 1 << 24 | 3 << 22;

    /// Half of the smallest normal number, and 1/3 + 1/3 + 1/3.
    fn computed() -> (f64, f64) {
        let third = black_box(1.0) / black_box(3.0);
        (black_box(f64::MIN_POSITIVE) / black_box(2.0), black_box(third + third) + third)
    }

    #[test]
    fn a_kernel_computes_in_the_default_mode_and_leaves_the_callers() {
        let default = computed();
        write(FLUSH_AND_TRUNCATE);
        let flushed = computed();
        let guard = DefaultFloatEnv::enter();
        let guarded = computed();
        drop(guard);
        let mode = read();
        let after = computed();
        write(DEFAULT);

        assert_eq!(default, (f64::MIN_POSITIVE / 2.0, 1.0));
        assert_eq!(flushed, (0.0, 1.0 - f64::EPSILON / 2.0));
        assert_eq!(guarded, default);
        assert_eq!(mode & FLUSH_AND_TRUNCATE, FLUSH_AND_TRUNCATE);
        assert_eq!(after, flushed);
    }
}
