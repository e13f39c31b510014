//! The columns of calls.

use std::io;

use ulpscope_report::page::ColumnBuilder;

use crate::calls::CallRecord;
use crate::parts::Parts;

/// What the dumps say of each call; empty without them.
#[derive(Debug, Default)]
pub(crate) struct DumpColumns {
    pub(crate) stack: ColumnBuilder,
    pub(crate) golden_stack: ColumnBuilder,
    pub(crate) golden_code: ColumnBuilder,
    pub(crate) region: ColumnBuilder,
    /// The modules in which calls were made; blank if the rows say that.
    pub(crate) path: ColumnBuilder,
    /// Whether each call has stored details.
    pub(crate) details: Vec<bool>,
}

/// Columns that follow from the rows.
const FIELDS: [&str; 14] = [
    "name", "golden", "side", "pass", "op", "path", "class", "verdict", "code", "row", "rows", "error",
    "expected", "detail",
];

/// A column that follows from the rows; nothing if there is no such column. `has_detail` says whether a call has details.
pub(super) fn column(
    field: &str,
    calls: &[CallRecord],
    has_detail: &dyn Fn(usize) -> bool,
) -> Option<ColumnBuilder> {
    let texts = |of: &dyn for<'c> Fn(&'c CallRecord) -> Option<&'c str>| {
        let mut column = ColumnBuilder::default();
        calls.iter().for_each(|call| column.push_text(of(call)));
        Some(column)
    };
    let numbers = |of: &dyn Fn(usize, &CallRecord) -> Option<f64>| {
        let mut column = ColumnBuilder::default();
        calls.iter().enumerate().for_each(|(at, call)| column.push_number(of(at, call)));
        Some(column)
    };
    match field {
        "name" => texts(&|call| Some(&call.name)),
        "golden" => texts(&|call| match call.sides {
            [_, false] => None,
            [true, true] => call.golden.as_deref(),
            [false, true] => Some(&call.name),
        }),
        "side" => texts(&|call| Some(call.side())),
        "pass" => texts(&|call| Some(call.place.pass)),
        "op" => texts(&|call| Some(&call.place.op)),
        "path" => texts(&|call| Some(&call.place.path)),
        "class" => texts(&|call| call.class.as_deref()),
        "verdict" => texts(&|call| Some(call.gravity.word())),
        "code" => texts(&|call| call.code.as_deref()),
        "row" => numbers(&|_, call| Some(call.row as f64)),
        "rows" => numbers(&|_, call| Some(call.rows as f64)),
        "error" => numbers(&|_, call| call.error),
        "expected" => numbers(&|_, call| call.expected),
        "detail" => numbers(&|at, _| Some(f64::from(u8::from(has_detail(at))))),
        _ => None,
    }
}

/// Writes the columns of calls.
pub(super) fn write(
    rank: usize,
    calls: &[CallRecord],
    from_dumps: &mut DumpColumns,
    is_promised: bool,
    parts: &mut Parts,
) -> io::Result<()> {
    let mut add =
        |field: &str, column: &mut ColumnBuilder| parts.add_column(&format!("calls/{rank}/{field}"), column);
    let details = &from_dumps.details;
    let has_detail = |at: usize| is_promised || details.get(at).copied().unwrap_or(false);
    let has_paths = !from_dumps.path.is_blank();
    if has_paths {
        add("path", &mut from_dumps.path)?;
    }
    for field in FIELDS.into_iter().filter(|field| *field != "path" || !has_paths) {
        if let Some(mut column) = column(field, calls, &has_detail) {
            add(field, &mut column)?;
        }
    }
    add("stack", &mut from_dumps.stack)?;
    add("golden_stack", &mut from_dumps.golden_stack)?;
    add("golden_code", &mut from_dumps.golden_code)?;
    add("region", &mut from_dumps.region)
}
