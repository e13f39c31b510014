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
    /// Whether each call has stored details.
    pub(crate) details: Vec<bool>,
}

/// Writes the columns of calls. `is_promised`: every call has details on request.
pub(super) fn write(
    rank: usize,
    calls: &[CallRecord],
    from_dumps: &mut DumpColumns,
    is_promised: bool,
    parts: &mut Parts,
) -> io::Result<()> {
    let mut add =
        |field: &str, column: &mut ColumnBuilder| parts.add_column(&format!("calls/{rank}/{field}"), column);
    let mut texts = |field: &str, of: &dyn Fn(&CallRecord) -> Option<String>| {
        let mut column = ColumnBuilder::default();
        calls.iter().for_each(|call| column.push_text(of(call).as_deref()));
        add(field, &mut column)
    };
    texts("name", &|call| Some(call.name.clone()))?;
    texts("golden", &|call| match call.sides {
        [_, false] => None,
        [true, true] => call.golden.clone(),
        [false, true] => Some(call.name.clone()),
    })?;
    texts("side", &|call| Some(call.side().to_owned()))?;
    texts("pass", &|call| Some(call.place.pass.to_owned()))?;
    texts("op", &|call| Some(call.place.op.clone()))?;
    texts("path", &|call| Some(call.place.path.clone()))?;
    texts("class", &|call| call.class.clone())?;
    texts("verdict", &|call| Some(call.gravity.word().to_owned()))?;
    texts("code", &|call| call.code.clone())?;
    let mut numbers = |field: &str, of: &dyn Fn(usize, &CallRecord) -> Option<f64>| {
        let mut column = ColumnBuilder::default();
        calls.iter().enumerate().for_each(|(at, call)| column.push_number(of(at, call)));
        add(field, &mut column)
    };
    numbers("row", &|_, call| Some(call.row as f64))?;
    numbers("rows", &|_, call| Some(call.rows as f64))?;
    numbers("error", &|_, call| call.error)?;
    numbers("expected", &|_, call| call.expected)?;
    let details = &from_dumps.details;
    let has_detail = |at: usize| is_promised || details.get(at).copied().unwrap_or(false);
    numbers("detail", &|at, _| Some(f64::from(u8::from(has_detail(at)))))?;
    add("stack", &mut from_dumps.stack)?;
    add("golden_stack", &mut from_dumps.golden_stack)?;
    add("golden_code", &mut from_dumps.golden_code)?;
    add("region", &mut from_dumps.region)
}
