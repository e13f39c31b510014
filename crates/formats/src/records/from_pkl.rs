//! Converts lines of a `.pkl` to calls of a `dump.json`.

use std::io::Write;

use super::Report;
use super::open_call::OpenCall;
use super::row::Content;
use super::stacks::{StackGroups, frame_info_to_line, frame_to_line};
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};
use crate::json::Json;
use crate::msprobe::{Call, DumpWriter, Item, plain_file_name};
use crate::names::{CallName, LineName};
use crate::pkl_lines::{
    CallLines, CallNumbers, Kind, Line, Lines, Part, Payload, Shape, Values, kind, line_name,
};

/// Information that the file does not contain.
#[derive(Clone, Debug, Default)]
pub struct ToMsprobe {
    /// The folder of the `.npy` files of a ptdbg_ascend dump, to refer to them.
    pub dump_data_dir: Option<String>,
}

/// Writes the `dump.json` and the `stack.json` for a `.pkl`. Lines that cannot be read are
/// reported and left out. Memory holds one call, the distinct stacks, and the names of the calls with a stack.
pub fn pkl_to_msprobe(
    pkl: &Bytes,
    options: &ToMsprobe,
    dump: &mut dyn Write,
    stack: &mut dyn Write,
) -> Result<Report, Error> {
    let Some(kind) = kind(pkl) else {
        return Err(Error::whole(Fault::malformed(
            "a JSON-lines dump of torch_npu.hooks or ptdbg_ascend",
            "no line of a known form among the first",
        )));
    };
    let task = if options.dump_data_dir.is_some() { "tensor" } else { "statistics" };
    let header = [
        ("task".to_owned(), Json::Str(task.to_owned())),
        ("level".to_owned(), Json::Str(level(pkl, kind).to_owned())),
        ("framework".to_owned(), Json::Str("pytorch".to_owned())),
        ("dump_data_dir".to_owned(), options.dump_data_dir.clone().map_or(Json::Null, Json::Str)),
    ];
    let mut assembly = Assembly {
        kind,
        writer: DumpWriter::new(dump, &header)?,
        stacks: StackGroups::default(),
        numbers: CallNumbers::default(),
        open: None,
        report: Report::default(),
    };
    for line in Lines::new(pkl) {
        match line {
            Ok((number, line)) => assembly.line(Place::Line(number), line, options)?,
            Err(error) => assembly.report.error(error),
        }
    }
    assembly.close()?;
    assembly.writer.finish(&[])?;
    assembly.stacks.write(stack)?;
    Ok(assembly.report)
}

/// Modules or APIs: a dump has only one of them, so the first name decides.
fn level(pkl: &Bytes, kind: Kind) -> &'static str {
    let first = Lines::new(pkl).flatten().find_map(|(_, line)| line_name(line.name()?, kind));
    match first {
        Some(name) if name.base.starts_with("Module.") => "L0",
        _ => "L1",
    }
}

/// What a line adds to its call.
enum Described {
    Item(Item),
    /// A whole stack.
    Stack(Vec<String>),
    /// One more frame of a stack.
    Frame(String),
}

fn describe(line: Line, kind: Kind, options: &ToMsprobe) -> Result<(LineName, Described), Fault> {
    let text = line.name().unwrap_or_default().to_owned();
    let name = line_name(&text, kind).ok_or_else(|| {
        Fault::malformed(
            "a name that ends in forward or backward, then input, output or stack_info",
            format!("{:?}", shortened(&text)),
        )
    })?;
    let described = match line {
        Line::Stack { frames, .. } => Described::Stack(frames.iter().map(frame_to_line).collect()),
        Line::HooksFrame { frame, .. } => Described::Frame(frame_info_to_line(&frame)),
        Line::HooksTensor { values, dtype, shape, .. } => {
            let stats = if kind == Kind::HooksSample { values.sampled_stats() } else { stats_of(&values) };
            let shape = Some(shape);
            Described::Item(
                Content::Tensor { dtype, shape, stats, digest: None, data_name: None, elements: None }
                    .into_item(),
            )
        }
        Line::HooksValue { value, .. } => Described::Item(Item::plain(value)),
        Line::PtdbgEntry { stats, dtype, shape: Shape::Text(_), .. } => {
            let kind = dtype.trim_start_matches("<class '").trim_end_matches("'>").to_owned();
            let value = stats.into_iter().next().unwrap_or(Json::Null);
            Described::Item(Item::Scalar { kind, value })
        }
        Line::PtdbgEntry { payload, dtype, shape: Shape::Dims(dims), stats, .. } => {
            let digest = match payload {
                Payload::Digest(text) => Some(text),
                Payload::Values(_) => None,
            };
            let data_name = options.dump_data_dir.as_ref().map(|_| format!("{text}.npy"));
            if let Some(name) = &data_name {
                plain_file_name(name).map_err(|error| error.fault)?;
            }
            let stats = recorded_stats(stats);
            Described::Item(
                Content::Tensor { dtype, shape: Some(dims), stats, digest, data_name, elements: None }
                    .into_item(),
            )
        }
        // Such a line has no name and was refused above.
        Line::Other(_) => Described::Item(Item::None),
    };
    Ok((name, described))
}

/// What a line contains that `dump.json` cannot express.
fn lost(line: &Line) -> Option<&'static str> {
    match line {
        Line::HooksTensor { .. } => Some("values of tensors"),
        Line::PtdbgEntry { payload: Payload::Values(values), .. } if !values.is_empty() => {
            Some("values of tensors")
        }
        Line::PtdbgEntry { dump_step, .. } if *dump_step != 0 => Some("dump steps other than 0"),
        _ => None,
    }
}

/// The statistics of ptdbg_ascend, which writes an empty list or a word for a missing one.
fn recorded_stats(stats: Vec<Json>) -> [Json; 4] {
    let mut numbers = stats.into_iter().map(|stat| match stat {
        Json::List(_) | Json::Str(_) => Json::Null,
        number => number,
    });
    std::array::from_fn(|_| numbers.next().unwrap_or(Json::Null))
}

/// Statistics of values recorded in full. With a NaN among them, max and min are NaN, as in torch.
/// Sums are computed in doubles and returned in the precision of the values.
fn stats_of(values: &Values) -> [Json; 4] {
    const NONE: [Json; 4] = [Json::Null, Json::Null, Json::Null, Json::Null];
    if let Values::Ints(ints) = values {
        let [max, min] = [ints.iter().max(), ints.iter().min()];
        let number = |value: Option<&i64>| value.map_or(Json::Null, |&value| Json::Int(value.into()));
        return [number(max), number(min), Json::Null, Json::Null];
    }
    let (mut max, mut min, mut sum, mut squares) = (f64::NEG_INFINITY, f64::INFINITY, 0.0, 0.0);
    for index in 0..values.len() {
        let Some(value) = values.number(index) else { return NONE };
        max = if value.is_nan() || max.is_nan() { f64::NAN } else { max.max(value) };
        min = if value.is_nan() || min.is_nan() { f64::NAN } else { min.min(value) };
        sum += value;
        squares += value * value;
    }
    if values.is_empty() {
        return NONE;
    }
    let single = |value: f64| Json::Float((value as f32).into());
    [Json::Float(max), Json::Float(min), single(sum / values.len() as f64), single(squares.sqrt())]
}

/// Combines lines into calls and writes each call when the next begins.
struct Assembly<'w> {
    kind: Kind,
    writer: DumpWriter<'w>,
    stacks: StackGroups,
    numbers: CallNumbers,
    open: Option<OpenCall>,
    report: Report,
}

impl Assembly<'_> {
    fn line(&mut self, place: Place, line: Line, options: &ToMsprobe) -> Result<(), Error> {
        if let Some(why) = lost(&line) {
            self.report.drop_entry(why);
        }
        match describe(line, self.kind, options) {
            Ok((name, described)) => self.add(place, name, described),
            Err(fault) => {
                self.report.error(Error::at(place, fault));
                Ok(())
            }
        }
    }

    fn add(&mut self, place: Place, name: LineName, described: Described) -> Result<(), Error> {
        let part = match described {
            Described::Item(_) => Part::Entry,
            Described::Stack(_) => Part::Stack,
            Described::Frame(_) => Part::Frame,
        };
        if !self.open.as_ref().is_some_and(|open| open.lines.continue_with(&name, part)) {
            self.close()?;
        }
        let open = self.open.get_or_insert_with(|| OpenCall::new(CallLines::begin(name.clone(), part)));
        open.lines.take(&name, part);
        match described {
            Described::Item(item) => {
                if let Err(fault) = open.place(&name, item) {
                    self.report.error(Error::at(place, fault));
                }
            }
            Described::Stack(lines) => open.stack = Some(lines),
            Described::Frame(line) => open.stack.get_or_insert_default().push(line),
        }
        Ok(())
    }

    /// Writes the open call, if any.
    fn close(&mut self) -> Result<(), Error> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let name = self.number(&open.lines.name);
        let key = name.to_msprobe();
        if let Some(lines) = open.stack.take() {
            self.report.stacks += 1;
            self.stacks.add(key.clone(), lines);
        }
        let entries = open.entries;
        let sections = open.into_sections(!matches!(self.kind, Kind::Ptdbg4 | Kind::Ptdbg6));
        if !sections.is_empty() {
            self.report.calls += 1;
            self.report.entries += entries;
            self.writer.call(&Call { key, body: Item::Dict(sections) })?;
        }
        Ok(())
    }

    fn number(&mut self, name: &LineName) -> CallName {
        let (index, renumbered) = self.numbers.give(name);
        self.report.renumbered += u64::from(renumbered);
        CallName { base: name.base.clone(), index, direction: name.direction }
    }
}
