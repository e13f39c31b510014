//! The columns of rows and calls of a run.

use std::io;

use serde_json::json;
use ulpscope_report::escape;
use ulpscope_report::page::ColumnBuilder;

use super::findings::RunFindingKind;
use super::rank_reading::{RankReading, RunCall};
use crate::dumps::NamedRank;
use crate::flow::FlowSide;
use crate::parts::Parts;

/// Cells of a row.
pub(super) const ROW_WIDTH: usize = 16;

/// Heading and meaning of each column of rows.
pub(super) const COLUMNS: [(&str, &str); ROW_WIDTH] = [
    ("call", "the call"),
    ("entry", "the argument or result: role and position"),
    ("dtype", "element type, or type of a plain value"),
    ("shape", "dimensions, outermost first"),
    ("max", "largest element; NaN if there is any NaN"),
    ("min", "smallest element; NaN if there is any NaN"),
    ("mean", "arithmetic mean"),
    ("norm", "square root of the sum of squares (L2)"),
    ("max_abs", "largest magnitude"),
    ("nan", "how many elements are NaN"),
    ("inf", "how many elements are infinite"),
    ("zeros", "share of elements that are zero, 0 to 1"),
    ("source", "the entry that produced it, as the dump says"),
    ("digest", "hash of the bytes, as recorded"),
    ("module", "the module the call was made in; on the first row of a call"),
    ("code", "the line of code that made the call; on the first row of a call"),
];

/// Writes who feeds whom, if the dump says so. Returns whether it does.
pub(super) fn write_flow(
    number: usize,
    opened: &NamedRank,
    reading: &RankReading,
    parts: &mut Parts,
) -> io::Result<bool> {
    let of_page: Vec<Option<u32>> = (0..reading.calls.len() as u32).map(Some).collect();
    let flow = FlowSide::of(opened, &of_page);
    if flow.edges.is_empty() {
        return Ok(false);
    }
    parts.add_json(&format!("flow/{number}"), &json!({ "target": flow.to_json(), "golden": null }))?;
    Ok(true)
}

/// Writes the columns of calls.
pub(super) fn write_calls(
    rank: usize,
    opened: &NamedRank,
    calls: &[RunCall],
    details: &[bool],
    is_promised: bool,
    parts: &mut Parts,
) -> io::Result<()> {
    let mut add =
        |field: &str, column: &mut ColumnBuilder| parts.add_column(&format!("calls/{rank}/{field}"), column);
    let mut texts = |field: &str, of: &dyn Fn(&RunCall) -> Option<&str>| {
        let mut column = ColumnBuilder::default();
        calls.iter().for_each(|call| column.push_text(of(call)));
        add(field, &mut column)
    };
    texts("name", &|call| Some(&call.name))?;
    texts("pass", &|call| Some(call.place.pass))?;
    texts("op", &|call| Some(&call.place.op))?;
    texts("path", &|call| Some(&call.place.path))?;
    texts("code", &|call| call.code.as_deref())?;
    texts("finding", &|call| call.finding.map(RunFindingKind::word))?;
    texts("verdict", &|call| {
        Some(match call.finding {
            None => "pass",
            Some(kind) if kind.is_bad() => "fail",
            Some(_) => "warn",
        })
    })?;
    let mut numbers = |field: &str, of: &dyn Fn(usize, &RunCall) -> Option<f64>| {
        let mut column = ColumnBuilder::default();
        calls.iter().enumerate().for_each(|(at, call)| column.push_number(of(at, call)));
        add(field, &mut column)
    };
    numbers("row", &|_, call| Some(call.row as f64))?;
    numbers("rows", &|_, call| Some(call.rows as f64))?;
    numbers("norm", &|_, call| call.shown().norm)?;
    numbers("max_abs", &|_, call| call.shown().max_abs())?;
    numbers("nan", &|_, call| Some(call.nan as f64))?;
    numbers("inf", &|_, call| Some(call.inf as f64))?;
    numbers("zeros", &|_, call| call.shown().zeros)?;
    let has_detail = |at: usize| is_promised || details.get(at).copied().unwrap_or(false);
    numbers("detail", &|at, _| Some(f64::from(u8::from(has_detail(at)))))?;
    let mut stacks = ColumnBuilder::default();
    for at in 0..calls.len() {
        let stack = opened.rank.stack(at);
        stacks.push_text(stack.map(|stack| joined_stack(&stack)).as_deref());
    }
    add("stack", &mut stacks)
}

/// The frames of a stack, a line each.
pub(crate) fn joined_stack(stack: &[String]) -> String {
    let line = |frame: &String| {
        let words: Vec<&str> = frame.split_whitespace().collect();
        escape::terminal(&words.join(" ")).into_owned()
    };
    stack.iter().map(line).collect::<Vec<String>>().join("\n")
}
