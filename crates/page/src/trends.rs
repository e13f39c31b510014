//! Values of calls over the steps of a run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use ulpscope_report::json::number;

/// Series of one chart: those that change most.
const MAX_SERIES: usize = 200;

/// Values of calls over steps, of one kind.
#[derive(Debug, Default)]
pub(crate) struct Trend {
    /// By rank and name of the call: step, number of the rank on the page, number of the call, value.
    series: BTreeMap<(String, String), Vec<Point>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) step: u64,
    pub(crate) rank: usize,
    pub(crate) call: usize,
    pub(crate) value: f64,
}

impl Trend {
    pub(crate) fn push(&mut self, rank: &str, name: &str, point: Point) {
        self.series.entry((rank.to_owned(), name.to_owned())).or_default().push(point);
    }

    /// The chart, and how many series it has: those with values in several steps. Names that are `leading` come first, then
    /// those with the largest ratio between steps.
    pub(crate) fn to_json(&self, leading: &BTreeSet<&str>) -> (Json, usize) {
        let mut steps: Vec<u64> = self.series.values().flatten().map(|point| point.step).collect();
        steps.sort_unstable();
        steps.dedup();
        let mut several: Vec<(&(String, String), &Vec<Point>)> =
            self.series.iter().filter(|(_, points)| points.len() > 1).collect();
        several.sort_by(|((_, one), of_one), ((_, other), of_other)| {
            let is_after = |name: &String| !leading.contains(name.as_str());
            is_after(one).cmp(&is_after(other)).then(spread(of_other).total_cmp(&spread(of_one)))
        });
        several.truncate(MAX_SERIES);
        let series = several.iter().map(|((rank, name), points)| {
            let at = |step: &u64| points.iter().find(|point| point.step == *step);
            let values: Vec<Option<Json>> =
                steps.iter().map(|step| at(step).map(|point| number(point.value))).collect();
            let ranks: Vec<Option<usize>> =
                steps.iter().map(|step| at(step).map(|point| point.rank)).collect();
            let calls: Vec<Option<usize>> =
                steps.iter().map(|step| at(step).map(|point| point.call)).collect();
            json!({ "name": name, "rank": rank, "values": values, "ranks": ranks, "calls": calls })
        });
        (json!({ "steps": steps, "series": series.collect::<Vec<Json>>() }), several.len())
    }
}

/// How much the values of a series differ: the ratio of the largest to the smallest.
fn spread(points: &[Point]) -> f64 {
    let values = || points.iter().map(|point| point.value.abs());
    if values().any(|value| !value.is_finite()) {
        return f64::INFINITY;
    }
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if most == 0.0 { 0.0 } else { most / least.max(most * 1e-12) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_most_comes_first() {
        let mut trend = Trend::default();
        for step in 0..3 {
            let point = |value: f64| Point { step, rank: step as usize, call: 7, value };
            trend.push("", "steady", point(1.0));
            trend.push("", "growing", point(10f64.powi(step as i32)));
        }
        trend.push("", "once", Point { step: 0, rank: 0, call: 0, value: 1.0 });
        let (chart, series) = trend.to_json(&BTreeSet::new());
        assert_eq!(series, 2);
        assert_eq!(chart["steps"], json!([0, 1, 2]));
        assert_eq!(chart["series"][0]["name"], "growing");
        assert_eq!(chart["series"][0]["values"], json!([1.0, 10.0, 100.0]));
        assert_eq!(chart["series"][1]["ranks"], json!([0, 1, 2]));
        let (chart, _) = trend.to_json(&BTreeSet::from(["steady"]));
        assert_eq!(chart["series"][0]["name"], "steady");
    }
}
