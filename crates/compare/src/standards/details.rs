//! Errors of one device in relation to those of a different one, from the details of two checks: msprobe's
//! `api_precision_compare`.
//!
//! Nothing is measured here: both rows have their errors against the same reference. Statuses follow the standard of the
//! API, as in [`super::msprobe`].

use std::collections::HashMap;

use ulpscope_report::Cell;
use ulpscope_tensor::DType;

use super::msprobe::{RATIO_LIMITS, least_error, passes_ulp};
use super::{CheckStatus, Standard};

/// The columns of `api_precision_compare_details_{timestamp}.csv`.
pub const RATIO_COLUMNS: [&str; 28] = [
    "API Name",
    "小值域错误比值",
    "小值域判定结果",
    "均方根误差比值",
    "均方根误差判定结果",
    "相对误差最大值比值",
    "相对误差最大值判定结果",
    "相对误差平均值比值",
    "相对误差平均值判定结果",
    "误差均衡性比值",
    "误差均衡性判定结果",
    "inf/nan错误率",
    "inf/nan判定结果",
    "相对误差错误率",
    "相对误差判定结果",
    "绝对误差错误率",
    "绝对误差判定结果",
    "二进制一致错误率",
    "二进制一致错误率判定结果",
    "ULP误差平均值",
    "ULP误差大于阈值占比",
    "ULP误差大于阈值占比比值",
    "ULP误差判定结果",
    "双千指标",
    "双千指标判定结果",
    "比对结果",
    "比对算法",
    "Message",
];

/// The errors whose ratios the benchmark standard judges, in the order of [`RATIO_LIMITS`], and whether a status above
/// the limit has a message.
const RATIOS: [(&str, bool); 5] = [
    ("小值域错误占比", true),
    ("均方根误差", true),
    ("相对误差最大值", true),
    ("相对误差平均值", true),
    ("误差均衡性", false),
];

/// What the tool says of results that it does not judge.
const UNSUPPORTED: &str = "This data type does not support benchmark compare.";

/// A row of the details of a check: cells by their columns.
pub type DetailsRow = HashMap<String, String>;

/// A row of [`RATIO_COLUMNS`].
#[derive(Clone, Debug)]
pub struct RatioRow {
    cells: Vec<Cell>,
    status: Option<CheckStatus>,
    message: String,
}

impl RatioRow {
    /// Judges a row by the same row of a different device. `api` is the name of the API, `linear`.
    pub fn of(api: &str, dtype: Option<DType>, own: &DetailsRow, peer: &DetailsRow) -> RatioRow {
        let mut row = RatioRow {
            cells: vec![Cell::Missing; RATIO_COLUMNS.len()],
            status: Some(CheckStatus::Pass),
            message: String::new(),
        };
        row.put("API Name", Cell::text(own.get("API Name").cloned().unwrap_or_default()));
        let standard = dtype.map_or(Standard::None, |dtype| Standard::of(api, dtype));
        let dtype = dtype.unwrap_or(DType::F32);
        let number = |row: &DetailsRow, column: &str| -> Option<f64> { row.get(column)?.trim().parse().ok() };
        let of_own = |column: &str| number(own, column);
        let is_complete = match standard {
            Standard::BinaryConsistency => {
                row.at_most("二进制一致错误率", "二进制一致错误率判定结果", &of_own)
            }
            Standard::AbsoluteThreshold => [
                ("inf/nan错误率", "inf/nan判定结果"),
                ("相对误差错误率", "相对误差判定结果"),
                ("绝对误差错误率", "绝对误差判定结果"),
            ]
            .into_iter()
            .all(|(column, status)| row.at_most(column, status, &of_own)),
            Standard::Thousandth => row.thousandth(&of_own),
            Standard::Ulp => row.ulp(dtype, own, peer, &number),
            Standard::Benchmark => row.benchmark(dtype, own, peer, &number),
            Standard::None => {
                row.status = None;
                UNSUPPORTED.clone_into(&mut row.message);
                true
            }
        };
        if !is_complete {
            row.status = None;
            "a number that its standard needs is missing in one of the files".clone_into(&mut row.message);
        }
        row.put("比对结果", Cell::text(row.status.map_or("SKIP", CheckStatus::word)));
        row.put("比对算法", Cell::text(algorithm(standard)));
        row.put("Message", Cell::text(row.message.clone()));
        row
    }

    /// Its cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Its status; nothing if it is not judged.
    pub fn status(&self) -> Option<CheckStatus> {
        self.status
    }

    /// Why.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn put(&mut self, column: &str, cell: Cell) {
        if let Some(at) = RATIO_COLUMNS.iter().position(|name| *name == column) {
            self.cells[at] = cell;
        }
    }

    fn judge(&mut self, column: &str, passes: bool, message: &str) {
        let status = if passes { CheckStatus::Pass } else { CheckStatus::Error };
        self.put(column, Cell::text(status.word()));
        self.status = self.status.max(Some(status));
        if !passes {
            self.message.push_str(message);
        }
    }

    /// A share that has to be zero.
    fn at_most(&mut self, column: &str, status: &str, of_own: &dyn Fn(&str) -> Option<f64>) -> bool {
        let Some(share) = of_own(column) else { return false };
        self.put(column, Cell::Number(share));
        self.judge(status, share == 0.0, &format!("ERROR: {column}超过阈值\n"));
        true
    }

    fn thousandth(&mut self, of_own: &dyn Fn(&str) -> Option<f64>) -> bool {
        let Some(share) = of_own("双千指标") else { return false };
        self.put("双千指标", Cell::Number(share));
        self.judge("双千指标判定结果", share >= 0.999, "ERROR: 双千指标不达标\n");
        true
    }

    fn ulp(&mut self, dtype: DType, own: &DetailsRow, peer: &DetailsRow, number: &Reader) -> bool {
        let (mean, share) = ("ULP误差平均值", "ULP误差大于阈值占比");
        let (Some(mean_ulp), Some(over), Some(peer_over)) =
            (number(own, mean), number(own, share), number(peer, share))
        else {
            return false;
        };
        let ratio = ratio(over, peer_over, dtype);
        self.put(mean, Cell::Number(mean_ulp));
        self.put(share, Cell::Number(over));
        self.put("ULP误差大于阈值占比比值", Cell::Number(ratio.unwrap_or(f64::NAN)));
        let passes = passes_ulp(dtype, mean_ulp, over, ratio);
        self.judge("ULP误差判定结果", passes, "ERROR: ULP误差不满足标准\n");
        true
    }

    fn benchmark(&mut self, dtype: DType, own: &DetailsRow, peer: &DetailsRow, number: &Reader) -> bool {
        for (at, ((column, has_message), limit)) in RATIOS.into_iter().zip(RATIO_LIMITS).enumerate() {
            let (Some(mine), Some(theirs)) = (number(own, column), number(peer, column)) else {
                return false;
            };
            let ratio = ratio(mine, theirs, dtype);
            let is_same = mine == theirs || (mine.is_nan() && theirs.is_nan());
            let named = RATIO_COLUMNS[1 + 2 * at];
            self.put(named, Cell::Number(ratio.unwrap_or(f64::NAN)));
            let message = match ratio {
                Some(_) if has_message => format!("ERROR: {named}超过阈值\n"),
                Some(_) => String::new(),
                None => format!("{column}inf或nan不一致\n"),
            };
            self.judge(RATIO_COLUMNS[2 + 2 * at], ratio.map_or(is_same, |ratio| ratio <= limit), &message);
        }
        true
    }
}

type Reader = dyn Fn(&DetailsRow, &str) -> Option<f64>;

/// Nothing if one of them is infinite or NaN.
fn ratio(own: f64, peer: f64, dtype: DType) -> Option<f64> {
    (own.is_finite() && peer.is_finite()).then(|| own.abs() / peer.abs().max(least_error(dtype)))
}

/// The name of a standard in the tool's files.
fn algorithm(standard: Standard) -> &'static str {
    match standard {
        Standard::BinaryConsistency => "二进制一致法",
        Standard::AbsoluteThreshold => "绝对阈值法",
        Standard::Ulp => "ULP误差比对法",
        Standard::Thousandth => "双千指标法",
        Standard::Benchmark => "标杆比对法",
        Standard::None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(&str, &str)]) -> DetailsRow {
        cells.iter().map(|&(column, cell)| (column.to_owned(), cell.to_owned())).collect()
    }

    fn errors(rmse: &str) -> DetailsRow {
        row(&[
            ("API Name", "Functional.softmax.0.forward.output.0"),
            ("小值域错误占比", "0"),
            ("均方根误差", rmse),
            ("相对误差最大值", "0.001"),
            ("相对误差平均值", "0.0001"),
            ("误差均衡性", "0.1"),
        ])
    }

    fn judged(own: &str, peer: &str) -> RatioRow {
        RatioRow::of("softmax", Some(DType::F32), &errors(own), &errors(peer))
    }

    #[test]
    fn more_than_twice_the_error_of_the_other_device_is_an_error() {
        assert_eq!(judged("0.2", "0.1").status(), Some(CheckStatus::Pass));
        let worse = judged("0.21", "0.1");
        assert_eq!(worse.status(), Some(CheckStatus::Error));
        assert_eq!(worse.message(), "ERROR: 均方根误差比值超过阈值\n");
        // Errors below the least that the tool knows are equal.
        assert_eq!(judged("1e-5", "0").status(), Some(CheckStatus::Pass));
        assert_eq!(judged("nan", "nan").status(), Some(CheckStatus::Pass));
        assert_eq!(judged("inf", "0.1").message(), "均方根误差inf或nan不一致\n");
    }

    #[test]
    fn what_cannot_be_judged_is_skipped() {
        let none = RatioRow::of("softmax", Some(DType::F64), &errors("1"), &errors("1"));
        assert_eq!((none.status(), none.message()), (None, UNSUPPORTED));
        let missing = RatioRow::of("softmax", Some(DType::F32), &errors(" "), &errors("1"));
        assert_eq!(missing.status(), None);
        assert!(missing.message().contains("is missing"));
    }

    #[test]
    fn each_api_has_its_standard() {
        let own = row(&[
            ("二进制一致错误率", "0.5"),
            ("双千指标", "0.999"),
            ("ULP误差平均值", "65"),
            ("ULP误差大于阈值占比", "0.06"),
        ]);
        let status =
            |api: &str, dtype: DType, peer: &DetailsRow| RatioRow::of(api, Some(dtype), &own, peer).status();
        assert_eq!(status("relu", DType::F32, &own), Some(CheckStatus::Error));
        assert_eq!(status("conv2d", DType::F32, &own), Some(CheckStatus::Pass));
        assert_eq!(status("argmax", DType::I64, &own), Some(CheckStatus::Error));
        assert_eq!(status("matmul", DType::F32, &own), Some(CheckStatus::Error));
        let worse = row(&[("ULP误差大于阈值占比", "0.07")]);
        assert_eq!(status("matmul", DType::F32, &worse), Some(CheckStatus::Pass));
    }
}
