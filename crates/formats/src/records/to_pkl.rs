//! Converts calls of a `dump.json` to lines of a `.pkl`.

use std::io::Write;

use super::Report;
use super::row::{Content, Elements, Part, Row, Step, visit_parts};
use super::stacks::StackIndex;
use crate::bytes::Bytes;
use crate::error::Error;
use crate::json::Json;
use crate::msprobe::{Call, DumpJson, Item};
use crate::names::{CallName, Direction};
use crate::pkl_lines::{Frame, Line, LineWriter, Payload, Shape, Values, dtype_named};

/// The tool whose lines to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PklStyle {
    /// torch_npu.hooks: floating-point tensors only, as recorded elements, max, min and mean, or as all elements.
    Hooks,
    /// ptdbg_ascend before 6.0: no keyword arguments, three statistics.
    Ptdbg4,
    /// ptdbg_ascend 6.0.
    Ptdbg6,
}

/// What the file of a line has, in tools that save one beside each line.
#[derive(Clone, Copy, Debug)]
pub enum LineData<'a> {
    /// A tensor: its dtype and the name of its data file, unchecked.
    Tensor(&'a str, &'a str),
    /// A number.
    Number(&'a Json),
}

/// Sees the name and the data of each line.
pub type SeeLine<'s> = dyn FnMut(&str, LineData<'_>) -> Result<(), Error> + 's;

/// Writes the `.pkl` for a `dump.json`, as far as its lines can express it. A truncated dump is
/// converted up to its end, and the report says where that is.
pub fn msprobe_to_pkl(
    dump: &Bytes,
    stack: Option<&Bytes>,
    style: PklStyle,
    out: &mut dyn Write,
) -> Result<Report, Error> {
    append_pkl_lines(dump, stack, style, 0, out)
}

/// The same, and shows the data of each line that has some.
pub fn pkl_lines_with_data(
    dump: &Bytes,
    stack: Option<&Bytes>,
    style: PklStyle,
    see: &mut SeeLine<'_>,
    out: &mut dyn Write,
) -> Result<Report, Error> {
    convert(dump, stack, style, 0, see, out)
}

/// The same, for a file that has this many lines already: torch_npu.hooks numbers them.
pub fn append_pkl_lines(
    dump: &Bytes,
    stack: Option<&Bytes>,
    style: PklStyle,
    lines: u64,
    out: &mut dyn Write,
) -> Result<Report, Error> {
    convert(dump, stack, style, lines, &mut |_, _| Ok(()), out)
}

fn convert(
    dump: &Bytes,
    stack: Option<&Bytes>,
    style: PklStyle,
    lines: u64,
    see: &mut SeeLine<'_>,
    out: &mut dyn Write,
) -> Result<Report, Error> {
    let mut report = Report::default();
    let calls = DumpJson::new(dump)?;
    let mut stacks = match stack {
        Some(bytes) => StackIndex::read(bytes, &mut report),
        None => StackIndex::default(),
    };
    let mut conversion =
        Conversion { style, out: LineWriter::new(out), written: lines, dump_step: 0, see, report };
    for call in calls {
        match call {
            Ok(call) => conversion.call(&call, &mut stacks)?,
            Err(error) => conversion.report.error(error),
        }
    }
    // A dump of the structure only has stacks and no calls.
    for (call, frames) in stacks.rest() {
        if let Some(name) = CallName::from_msprobe(call) {
            conversion.stack(&name, frames)?;
        }
    }
    conversion.out.finish()?;
    Ok(conversion.report)
}

struct Conversion<'w> {
    style: PklStyle,
    out: LineWriter<'w>,
    /// Number of lines so far: torch_npu.hooks numbers them.
    written: u64,
    /// ptdbg_ascend marks the lines of modules that the user named.
    dump_step: i128,
    see: &'w mut SeeLine<'w>,
    report: Report,
}

impl Conversion<'_> {
    fn call(&mut self, call: &Call, stacks: &mut StackIndex) -> Result<(), Error> {
        let Some(name) = CallName::from_msprobe(&call.key) else {
            self.report.drop_entry("gradients of parameters and saved variables");
            return Ok(());
        };
        let before = self.report.entries;
        self.dump_step = i128::from(!name.base.contains('.'));
        // torch_npu.hooks writes the gradients of the inputs first and calls them inputs.
        let swapped = self.style == PklStyle::Hooks && name.direction == Direction::Backward;
        for second in [false, true] {
            let wanted = |part| (second == swapped) == matches!(part, Part::Input | Part::Kwarg);
            visit_parts(call, &wanted, &mut |row| match self.place(call, &name, swapped, &row) {
                Some((word, path)) => self.entry(&name, word, &path, row.content),
                None => Ok(()),
            })?;
        }
        if self.report.entries > before {
            self.report.calls += 1;
        }
        match stacks.take(&call.key) {
            Some(frames) => self.stack(&name, frames),
            None => Ok(()),
        }
    }

    fn stack(&mut self, name: &CallName, frames: &[Frame]) -> Result<(), Error> {
        if self.style == PklStyle::Hooks {
            self.report.drop_entry("stacks");
            return Ok(());
        }
        self.report.stacks += 1;
        let name = self.spell(name, "stack_info");
        self.out.line(&Line::Stack { name, frames: frames.to_vec() })
    }

    /// The word and position for a row, if the lines can express it.
    fn place(
        &mut self,
        call: &Call,
        name: &CallName,
        swapped: bool,
        row: &Row,
    ) -> Option<(&'static str, Vec<usize>)> {
        let (input, output) = if swapped { ("output", "input") } else { ("input", "output") };
        let positions = |steps: &[Step]| {
            let index = |step: &Step| match step {
                Step::Index(index) => Some(*index),
                Step::Key(_) => None,
            };
            steps.iter().map(index).collect::<Option<Vec<usize>>>()
        };
        let (word, path) = match row.part {
            Part::Input => (input, positions(&row.path)),
            Part::Output => (output, positions(&row.path)),
            Part::Kwarg if self.style == PklStyle::Ptdbg6 => (
                input,
                keyword_position(call, &row.path)
                    .and_then(|position| Some([vec![position], positions(&row.path[1..])?].concat())),
            ),
            Part::Kwarg => {
                self.report.drop_entry("keyword arguments");
                return None;
            }
            Part::Parameter | Part::Named => {
                self.report.drop_entry("parameters of modules");
                return None;
            }
        };
        let Some(mut path) = path else {
            self.report.drop_entry("entries of dictionaries");
            return None;
        };
        // A single result has no position in its name. Whether it was in a tuple of one is not recorded.
        if row.part == Part::Output && name.direction == Direction::Forward && path == [0] && is_lone(call) {
            path.clear();
        }
        Some((word, path))
    }

    fn entry(&mut self, name: &CallName, word: &str, path: &[usize], content: Content) -> Result<(), Error> {
        let mut spelled = self.spell(name, word);
        for position in path {
            spelled.push_str(&format!(".{position}"));
        }
        match content {
            Content::Tensor { dtype, shape, stats, digest, elements, data_name } => {
                let Some(shape) = shape else {
                    self.report.drop_entry("tensors without a shape");
                    return Ok(());
                };
                if let Some(file) = data_name {
                    (self.see)(&spelled, LineData::Tensor(&dtype, &file))?;
                }
                match self.style {
                    PklStyle::Hooks => self.hooks_line(spelled, dtype, shape, stats, elements),
                    PklStyle::Ptdbg4 | PklStyle::Ptdbg6 => {
                        self.ptdbg_line(spelled, dtype, shape, stats, digest)
                    }
                }
            }
            Content::Scalar { kind, value } if self.style != PklStyle::Hooks => {
                self.scalar_lines(spelled, &kind, value)
            }
            Content::Scalar { .. } => {
                self.report.drop_entry("arguments that are not tensors");
                Ok(())
            }
        }
    }

    fn hooks_line(
        &mut self,
        name: String,
        dtype: String,
        shape: Vec<u64>,
        stats: [Json; 4],
        elements: Option<Elements>,
    ) -> Result<(), Error> {
        let float = dtype_named(&dtype).is_some_and(|dtype| dtype.is_float());
        let [max, min, mean, _] = stats.map(|stat| stat.as_f64());
        let (Some(max), Some(min), Some(mean)) = (max, min, mean) else {
            self.report.drop_entry("tensors without statistics");
            return Ok(());
        };
        if !float || shape.is_empty() {
            self.report.drop_entry("tensors of no dimension or not of floats");
            return Ok(());
        }
        let name = format!("{}_{name}", self.written);
        // The tool computes in float32.
        let stats = [max, min, mean].map(|stat| f64::from(stat as f32));
        let values = match elements {
            Some(Elements::All(all)) => all,
            Some(Elements::Sample(first)) => [first, stats.to_vec()].concat(),
            None => stats.to_vec(),
        };
        self.write(&Line::HooksTensor { name, values: Values::Floats(values), dtype, shape })
    }

    fn ptdbg_line(
        &mut self,
        name: String,
        dtype: String,
        shape: Vec<u64>,
        stats: [Json; 4],
        digest: Option<String>,
    ) -> Result<(), Error> {
        let known = dtype_named(&dtype);
        let has_stats = !shape.contains(&0) && dtype != "torch.bool";
        let has_norm = known.is_some_and(|dtype| dtype.is_float()) && !shape.is_empty() && has_stats;
        let [max, min, mean, norm] = stats;
        let number = |stat: Json| match stat {
            _ if !has_stats => Json::List(Vec::new()),
            // The statistics of integers are floats there.
            Json::Int(number) => Json::Float(number as f64),
            other => other,
        };
        let mut stats = vec![number(max), number(min), number(mean)];
        let mut payload = Payload::Values(Values::Floats(Vec::new()));
        if self.style == PklStyle::Ptdbg6 {
            stats.push(match norm {
                Json::Null => Json::Str("Nan".to_owned()),
                norm if has_norm => number(norm),
                _ => Json::Str("Nan".to_owned()),
            });
            // Eight digits are the CRC-32 of both tools; msprobe's xor of sixteen is a different function.
            match digest {
                Some(digest) if digest.len() == 8 => payload = Payload::Digest(digest),
                Some(_) => self.report.drop_entry("digests that are not CRC-32"),
                None => {}
            }
        } else if digest.is_some() {
            self.report.drop_entry("digests");
        }
        let dump_step = self.dump_step;
        self.write(&Line::PtdbgEntry { name, dump_step, payload, dtype, shape: Shape::Dims(shape), stats })
    }

    /// Numbers have lines, and a size is a tuple of numbers; nothing else can be written.
    fn scalar_lines(&mut self, name: String, kind: &str, value: Json) -> Result<(), Error> {
        let class = match (kind, &value) {
            ("int" | "bool" | "float", Json::Int(_) | Json::Bool(_) | Json::Float(_)) => kind,
            ("torch.Size", Json::List(dims)) => {
                for (index, dim) in dims.iter().enumerate() {
                    if let Json::Int(_) = dim {
                        self.scalar_lines(format!("{name}.{index}"), "int", dim.clone())?;
                    }
                }
                return Ok(());
            }
            _ => {
                self.report.drop_entry("arguments that are neither tensors nor numbers");
                return Ok(());
            }
        };
        (self.see)(&name, LineData::Number(&value))?;
        let count = if self.style == PklStyle::Ptdbg6 { 4 } else { 3 };
        self.write(&Line::PtdbgEntry {
            name,
            dump_step: self.dump_step,
            payload: Payload::Values(Values::Floats(Vec::new())),
            dtype: format!("<class '{class}'>"),
            shape: Shape::Text("[]".to_owned()),
            stats: vec![value; count],
        })
    }

    fn spell(&self, name: &CallName, word: &str) -> String {
        match self.style {
            PklStyle::Hooks => format!("{}_{word}", name.to_unnumbered()),
            PklStyle::Ptdbg4 => format!("{}_{word}", name.to_underscores()),
            PklStyle::Ptdbg6 => format!("{}.{word}", name.to_dots()),
        }
    }

    fn write(&mut self, line: &Line) -> Result<(), Error> {
        self.written += 1;
        self.report.entries += 1;
        self.out.line(line)
    }
}

/// Whether the call has a single result that is not a list.
fn is_lone(call: &Call) -> bool {
    matches!(call.section("output"), Some(Item::List(items)) if matches!(items.as_slice(), [Item::Tensor(_) | Item::Scalar { .. }]))
}

/// 6.0 numbers keyword arguments after the positional ones.
fn keyword_position(call: &Call, path: &[Step]) -> Option<usize> {
    let Step::Key(key) = path.first()? else { return None };
    let positional = match call.section("input_args") {
        Some(Item::List(items)) => items.len(),
        _ => 0,
    };
    let Some(Item::Dict(pairs)) = call.section("input_kwargs") else { return None };
    pairs.iter().position(|(name, _)| name == key).map(|index| positional + index)
}
