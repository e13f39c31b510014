//! Which of msprobe's standards an API has.

use ulpscope_tensor::DType;

/// A rule of msprobe's accuracy checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// Equal to the rounded reference.
    BinaryConsistency,
    /// Every element within fixed errors.
    AbsoluteThreshold,
    /// Units in the last place.
    Ulp,
    /// 999 of 1000 elements within 1/1000.
    Thousandth,
    /// Errors in relation to those of a different device.
    Benchmark,
    /// The tool has none: it skips results of this dtype.
    None,
}

const ABSOLUTE: &str = "mul __mul__ __imul__ __rmul__ add __add__ __iadd__ __radd__ div __div__ __idiv__ __truediv__ \
    divide leaky_relu prelu reciprocal rsqrt square sub rsub __isub__ __sub__";

const BINARY: &str = "abs absolute argmin bitwise_and broadcast_to ceil equal fill flatten floor gather greater \
    greater_equal histc isfinite isnan less less_equal logical_and logical_not logical_or masked_fill max_pool3d \
    maximum minimum neg nonzero not_equal one_hot pad relu reshape round select sign sort tile topk transpose tril \
    triu type_as";

const ULP: &str =
    "__matmul__ addbmm addmm baddbmm bilinear bmm chain_matmul hspmm linear matmul mm mv smm sspaddmm";

const THOUSANDTH: &str = "conv1d conv2d";

impl Standard {
    /// The standard of an API, `linear`, for results of a dtype. A call in place has the standard of the same call that
    /// is not. The tool skips float64 and complex numbers. Whatever else it has no limits for is compared exactly:
    /// integers, truth values, floats of 8 bits.
    pub fn of(api: &str, dtype: DType) -> Standard {
        match dtype {
            DType::F16 | DType::BF16 | DType::F32 => {}
            DType::F64 | DType::C64 | DType::C128 => return Standard::None,
            _ => return Standard::BinaryConsistency,
        }
        let in_place = api.ends_with('_') && !api.ends_with("__");
        let api = if in_place { api.trim_end_matches('_') } else { api };
        let lists = [
            (ABSOLUTE, Standard::AbsoluteThreshold),
            (BINARY, Standard::BinaryConsistency),
            (ULP, Standard::Ulp),
            (THOUSANDTH, Standard::Thousandth),
        ];
        let has = |list: &str| list.split_whitespace().any(|name| name == api);
        lists.into_iter().find(|(list, _)| has(list)).map_or(Standard::Benchmark, |(_, standard)| standard)
    }

    /// Its name in result files.
    pub fn name(self) -> &'static str {
        match self {
            Standard::BinaryConsistency => "binary consistency",
            Standard::AbsoluteThreshold => "absolute threshold",
            Standard::Ulp => "ulp",
            Standard::Thousandth => "double thousandth",
            Standard::Benchmark => "benchmark",
            Standard::None => "none",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_in_place_has_the_standard_of_the_other() {
        for (api, standard) in [
            ("mul_", Standard::AbsoluteThreshold),
            ("__iadd__", Standard::AbsoluteThreshold),
            ("linear", Standard::Ulp),
            ("conv2d", Standard::Thousandth),
            ("masked_fill_", Standard::BinaryConsistency),
            ("softmax", Standard::Benchmark),
            ("multiply", Standard::Benchmark),
        ] {
            assert_eq!(Standard::of(api, DType::F32), standard, "{api}");
        }
    }

    #[test]
    fn dtypes_without_limits_are_exact_or_have_no_standard() {
        for (dtype, standard) in [
            (DType::I64, Standard::BinaryConsistency),
            (DType::Bool, Standard::BinaryConsistency),
            (DType::F8E4M3FN, Standard::BinaryConsistency),
            (DType::F64, Standard::None),
            (DType::C64, Standard::None),
        ] {
            assert_eq!(Standard::of("linear", dtype), standard, "{dtype:?}");
        }
    }
}
