//! Instruction sets, and the only place that chooses among them.
//!
//! A pass is written once, as a lane loop in an `#[inline(always)]` [`Kernel::run`]. [`Level::run`] inlines it
//! into a wrapper compiled for the instruction set, so the compiler uses the vectors of that set. Every wrapper
//! computes the same IEEE operations in the same order: the set changes the speed, never a bit.

/// An instruction set the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The instructions of every machine of the architecture: SSE2 on x86-64, NEON on ARM64.
    Baseline,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, CD, DQ, VL, FMA and F16C.
    Avx512,
}

/// A pass over some elements, ready to run.
pub(crate) trait Kernel {
    type Output;
    /// Must be `#[inline(always)]`, and so must every function and closure that it calls per element, or the wrappers
    /// cannot compile it for their instruction set: what stays a call is compiled for the baseline. `FMA` says that
    /// fused multiply-add is an instruction here, and so is the conversion of f16; use the first only through
    /// [`add_exact_product`], and the second through [`Source::load`](crate::lanes::Source::load).
    fn run<const FMA: bool>(self) -> Self::Output;
}

impl Level {
    /// The best level of this machine.
    pub fn best() -> Level {
        // The detection macro caches its answer in an atomic: repeated calls are a load.
        if Level::Avx512.is_available() {
            Level::Avx512
        } else if Level::Avx2.is_available() {
            Level::Avx2
        } else {
            Level::Baseline
        }
    }

    /// All levels this machine can run, slowest first.
    pub fn available() -> impl Iterator<Item = Level> {
        [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(|level| level.is_available())
    }

    fn is_available(self) -> bool {
        match self {
            Level::Baseline => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512cd")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 | Level::Avx512 => false,
        }
    }

    /// Runs a kernel with this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code)]
        match self {
            Level::Baseline => kernel.run::<false>(),
            // SAFETY: a level beyond the baseline comes only from `best` or `available`, which hand it out
            // after the processor said that it has exactly these features.
            Level::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: as above.
            Level::Avx512 => unsafe { run_avx512(kernel) },
        }
        #[cfg(not(target_arch = "x86_64"))]
        kernel.run::<false>()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<true>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,fma,f16c")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<true>()
}

/// Aligns the stack frame of the function it is inlined into to cache lines: for loops with more running numbers than
/// registers. The others are in that frame, which the compiler otherwise aligns to 16 bytes only. Whether half of their
/// loads and stores touch two lines would then depend on the stack, which differs from run to run. Loops that need few
/// registers are compiled to worse code with it.
#[inline(always)]
pub(crate) fn align_frame() {
    #[repr(align(64))]
    struct Line([u8; 64]);
    let mut line = Line([0; 64]);
    // It only has to be in the frame; as constants are not, it may change.
    std::hint::black_box(&mut line.0);
}

/// `sum + a * b` if the product is exact in f64, like that of two widened f32 (48 bits). Rounding then
/// happens once in both cases, so the fused instruction gives the same bits as two separate ones.
#[inline(always)]
pub(crate) fn add_exact_product<const FMA: bool>(sum: f64, a: f64, b: f64) -> f64 {
    if FMA { a.mul_add(b, sum) } else { sum + a * b }
}

/// About `sum + a * b`: rounded once or twice, by instruction set. Only for estimates that decide nothing.
#[inline(always)]
pub(crate) fn add_about_product<const FMA: bool>(sum: f32, a: f32, b: f32) -> f32 {
    if FMA { a.mul_add(b, sum) } else { sum + a * b }
}
