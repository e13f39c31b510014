//! The rules of msprobe's accuracy checker (`acc_check`, before that `run_ut`), and the columns of its details.

use ulpscope_kernels::{ShapeMismatch, StandardErrors, StandardLimits, Threads, distances, standard_errors};
use ulpscope_report::Cell;
use ulpscope_tensor::{DType, View};

use super::{CheckStatus, Standard};

/// The columns of `accuracy_checking_details_{timestamp}.csv`: those of the tool, then ours.
pub const COLUMNS: [&str; 29] = [
    "API Name",
    "Bench Dtype",
    "DEVICE Dtype",
    "Shape",
    "余弦相似度",
    "最大绝对误差",
    "双百指标",
    "双千指标",
    "双万指标",
    "二进制一致错误率",
    "误差均衡性",
    "均方根误差",
    "小值域错误占比",
    "相对误差最大值",
    "相对误差平均值",
    "inf/nan错误率",
    "相对误差错误率",
    "绝对误差错误率",
    "ULP误差最大值",
    "ULP误差平均值",
    "ULP误差大于阈值占比",
    "Status",
    "Message",
    "Judged",
    "Own Error",
    "Floor",
    "Ratio",
    "Standard",
    "Standard Status",
];

/// The largest ratios that the benchmark standard accepts: of small elements with an error, of the root of the mean
/// square, of the largest and the mean relative error, and of the balance.
pub(super) const RATIO_LIMITS: [f64; 5] = [2.0, 2.0, 10.0, 2.0, 2.0];

/// The least error of the other device that a ratio divides by.
pub(super) fn least_error(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => 2f64.powi(-14),
    }
}

/// Whether the tool has limits for a dtype. For others it leaves the cells empty that need them.
fn has_limits(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32)
}

/// The limits of a dtype; those of float32 where the tool has none, since some cells need no limits.
fn limits(dtype: DType) -> StandardLimits {
    match dtype {
        // The tool computes its reference for the halves in float32, and for float32 in float64.
        DType::F16 => StandardLimits {
            eps: f64::from(f32::EPSILON),
            small: 2f64.powi(-10),
            small_error: [1e-16, 2f64.powi(-16)],
            relative: 2f64.powi(-10),
            ulp: 1.0,
            exponents: (-14, 10),
        },
        DType::BF16 => StandardLimits {
            eps: 2f64.powi(-8),
            small: 2f64.powi(-10),
            small_error: [1e-16, 1e-16],
            relative: 2f64.powi(-8),
            ulp: 1.0,
            exponents: (-126, 7),
        },
        _ => StandardLimits {
            eps: f64::EPSILON,
            small: 2f64.powi(-20),
            small_error: [2f64.powi(-30), 2f64.powi(-30)],
            relative: 2f64.powi(-20),
            ulp: 32.0,
            exponents: (-126, 23),
        },
    }
}

/// A result in numbers of the tool.
#[derive(Clone, Debug)]
pub struct StandardMeasurement {
    dtypes: [DType; 2],
    shape: Vec<usize>,
    errors: StandardErrors,
    cosine: Option<f64>,
    max_abs: f64,
}

/// The errors of a result in relation to those of a different device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Small elements with an error.
    pub small: f64,
    /// Root of the mean square.
    pub rmse: f64,
    /// Largest relative error.
    pub max_relative: f64,
    /// Mean relative error.
    pub mean_relative: f64,
    /// Balance of errors to both sides.
    pub balance: f64,
    /// Elements that are many units in the last place off.
    pub ulp: f64,
}

impl Ratios {
    /// Whether the benchmark standard accepts them.
    fn status(&self) -> CheckStatus {
        let ratios = [self.small, self.rmse, self.max_relative, self.mean_relative, self.balance];
        if ratios.into_iter().zip(RATIO_LIMITS).any(|(ratio, limit)| ratio > limit) {
            CheckStatus::Error
        } else {
            CheckStatus::Pass
        }
    }
}

/// The errors of a result in relation to those that a different device has for the same call.
pub fn ratios(result: &StandardMeasurement, peer: &StandardMeasurement) -> Ratios {
    let least = least_error(result.dtypes[0]);
    let ratio = |of: fn(&StandardMeasurement) -> f64| of(result).abs() / of(peer).abs().max(least);
    Ratios {
        small: ratio(|one| share(one.errors.small_over[0], one.errors.small)),
        rmse: ratio(|one| one.errors.rmse()),
        max_relative: ratio(|one| one.errors.max_relative),
        mean_relative: ratio(|one| one.errors.mean_relative()),
        balance: ratio(StandardMeasurement::balance),
        ulp: ratio(|one| share(one.errors.ulp_over, one.errors.count)),
    }
}

/// The ULP standard: the mean error, the share of elements over the limit, or that share in relation to the one of a
/// different device.
pub(super) fn passes_ulp(dtype: DType, mean: f64, over: f64, ratio: Option<f64>) -> bool {
    let is_half = matches!(dtype, DType::F16 | DType::BF16);
    let within = if is_half { over < 0.001 } else { mean < 64.0 || over < 0.05 };
    within || ratio.is_some_and(|ratio| ratio < 1.0)
}

/// 0 of 0 is 0.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl StandardMeasurement {
    /// Measures a result against its reference.
    pub fn of(result: &View<'_>, reference: &View<'_>) -> Result<StandardMeasurement, ShapeMismatch> {
        let found = distances(result, reference, Threads::All)?;
        Ok(StandardMeasurement {
            dtypes: [result.dtype(), reference.dtype()],
            shape: result.shape().to_vec(),
            errors: standard_errors(result, reference, limits(result.dtype()))?,
            cosine: found.cosine.filter(|_| found.count > 1),
            max_abs: found.max_abs,
        })
    }

    fn balance(&self) -> f64 {
        share(self.errors.sides[0].abs_diff(self.errors.sides[1]), self.errors.count)
    }

    fn under(&self, which: usize) -> f64 {
        if self.errors.count == 0 { 1.0 } else { share(self.errors.under[which], self.errors.count) }
    }

    /// The status that the tool gives, by its cascade: cosine, absolute error, shares under relative errors.
    pub fn cascade(&self) -> CheckStatus {
        if !has_limits(self.dtypes[0]) && self.dtypes[0] != DType::F64 {
            return if self.errors.different == 0 { CheckStatus::Pass } else { CheckStatus::Error };
        }
        if self.cosine.is_some_and(|cosine| cosine <= 0.99) {
            return CheckStatus::Error;
        }
        if self.errors.non_finite_over == 0 && self.max_abs < 0.001 {
            return CheckStatus::Pass;
        }
        let is_half = matches!(self.dtypes[0], DType::F16 | DType::BF16);
        let (first, second) = if is_half { ((0, 0.01), (1, 0.001)) } else { ((1, 0.001), (2, 0.0001)) };
        if self.under(first.0) <= 1.0 - first.1 {
            CheckStatus::Error
        } else if self.under(second.0) > 1.0 - second.1 {
            CheckStatus::Pass
        } else {
            CheckStatus::Warning
        }
    }

    /// The status by the standard of an API; nothing if there is none, or if it needs the errors of a different device and
    /// these are missing.
    pub fn by_standard(&self, standard: Standard, ratios: Option<&Ratios>) -> Option<CheckStatus> {
        let errors = &self.errors;
        let passes = |passes: bool| if passes { CheckStatus::Pass } else { CheckStatus::Error };
        Some(match standard {
            Standard::BinaryConsistency => passes(errors.different == 0),
            Standard::AbsoluteThreshold => {
                passes(errors.non_finite_over == 0 && errors.normal_over == 0 && errors.small_over[1] == 0)
            }
            Standard::Ulp => {
                let over = share(errors.ulp_over, errors.count);
                passes(passes_ulp(self.dtypes[0], errors.mean_ulp(), over, ratios.map(|ratios| ratios.ulp)))
            }
            Standard::Thousandth => passes(self.under(1) >= 0.999),
            Standard::Benchmark => ratios?.status(),
            Standard::None => return None,
        })
    }

    /// The cells from `Bench Dtype` to `ULP误差大于阈值占比`.
    pub fn cells(&self) -> Vec<Cell> {
        let errors = &self.errors;
        let has_limits = has_limits(self.dtypes[0]);
        let limited = |number: f64| if has_limits { Cell::Number(number) } else { Cell::Missing };
        vec![
            Cell::text(format!("torch.{}", self.dtypes[1].name())),
            Cell::text(format!("torch.{}", self.dtypes[0].name())),
            Cell::sizes(&self.shape),
            Cell::maybe(self.cosine, Cell::Number),
            Cell::Number(self.max_abs),
            Cell::Number(self.under(0)),
            Cell::Number(self.under(1)),
            Cell::Number(self.under(2)),
            Cell::Number(share(errors.different, errors.count)),
            limited(self.balance()),
            limited(errors.rmse()),
            limited(share(errors.small_over[0], errors.small)),
            limited(errors.max_relative),
            limited(errors.mean_relative()),
            limited(share(errors.non_finite_over, errors.non_finite)),
            limited(share(errors.normal_over, errors.normal)),
            limited(share(errors.small_over[1], errors.small)),
            limited(errors.max_ulp),
            limited(errors.mean_ulp()),
            limited(share(errors.ulp_over, errors.count)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(result: &[f32], reference: &[f64]) -> StandardMeasurement {
        let result: Vec<u8> = result.iter().flat_map(|value| value.to_le_bytes()).collect();
        let reference: Vec<u8> = reference.iter().flat_map(|value| value.to_le_bytes()).collect();
        let result = View::contiguous(DType::F32, vec![result.len() / 4], &result).expect("a view");
        let reference = View::contiguous(DType::F64, vec![reference.len() / 8], &reference).expect("a view");
        StandardMeasurement::of(&result, &reference).expect("equal shapes")
    }

    #[test]
    fn the_cascade_is_the_tools() {
        assert_eq!(measured(&[1.0, 2.0], &[1.0, 2.0]).cascade(), CheckStatus::Pass);
        assert_eq!(measured(&[1.0, -2.0], &[1.0, 2.0]).cascade(), CheckStatus::Error);
        // Everything within 1/1000, nothing within 1/10000.
        assert_eq!(measured(&[1000.5, 2001.0], &[1000.0, 2000.0]).cascade(), CheckStatus::Warning);
        assert_eq!(measured(&[1010.0, 2000.0], &[1000.0, 2000.0]).cascade(), CheckStatus::Error);
        // A small absolute error passes, whatever it is relatively.
        assert_eq!(measured(&[1.0005e-3, 1.0], &[1e-3, 1.0]).cascade(), CheckStatus::Pass);
    }

    #[test]
    fn numbers_without_limits_are_left_empty() {
        let numbers: Vec<u8> = [1.0f64, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = View::contiguous(DType::F64, vec![2], &numbers).expect("a view");
        let found = StandardMeasurement::of(&view, &view).expect("equal shapes");
        assert_eq!(found.by_standard(Standard::of("linear", DType::F64), None), None);
        let empty = found.cells().iter().filter(|cell| matches!(cell, Cell::Missing)).count();
        assert_eq!(empty, 11);
        assert_eq!(found.cascade(), CheckStatus::Pass);
        let with_limits = measured(&[1.0, 2.0], &[1.0, 2.0]);
        assert!(!with_limits.cells().iter().any(|cell| matches!(cell, Cell::Missing)));
    }

    #[test]
    fn standards_judge_the_same_numbers_differently() {
        let found = measured(&[1.0, 2.0 + 1e-5], &[1.0, 2.0]);
        assert_eq!(found.by_standard(Standard::BinaryConsistency, None), Some(CheckStatus::Error));
        assert_eq!(found.by_standard(Standard::AbsoluteThreshold, None), Some(CheckStatus::Error));
        assert_eq!(found.by_standard(Standard::Ulp, None), Some(CheckStatus::Pass));
        assert_eq!(found.by_standard(Standard::Thousandth, None), Some(CheckStatus::Pass));
        assert_eq!(found.by_standard(Standard::Benchmark, None), None);
    }

    #[test]
    fn a_benchmark_is_the_error_of_a_different_device() {
        let (worse, better) = (measured(&[1.1, 2.0], &[1.0, 2.0]), measured(&[1.01, 2.0], &[1.0, 2.0]));
        let status = |one, other| worse.by_standard(Standard::Benchmark, Some(&ratios(one, other)));
        assert_eq!(status(&worse, &better), Some(CheckStatus::Error));
        assert_eq!(status(&better, &worse), Some(CheckStatus::Pass));
    }
}
