//! `ulpscope show`: the statistics and the stack of a call.

use serde_json::json;
use ulpscope_dump::{Content, Data, Entry, Error, Problems, Rank, TensorEntry};
use ulpscope_kernels::{RECORDED, Statistic, Stats, Threads, stats};
use ulpscope_report::{Align, Cell, Emphasis, Record, Table};

use crate::args::ShowArgs;
use crate::call_names::{Fit, TypedName, suggestions};
use crate::dump_walk::{DumpWalk, Opened};
use crate::entries;
use crate::exit::Exit;
use crate::output::Output;
use ulpscope_compare::results;

/// The columns of a call's entries before those of the statistics.
const FIRST_COLUMNS: [&str; 3] = ["entry", "type", "shape"];

/// The columns of a call's entries after those of the statistics.
const LAST_COLUMNS: [&str; 4] = ["digest", "value", "from", "source"];

/// The request of `show`.
pub(crate) struct Show {
    args: ShowArgs,
    wanted: TypedName,
}

impl From<ShowArgs> for Show {
    fn from(args: ShowArgs) -> Show {
        let wanted = TypedName::new(&args.call);
        Show { args, wanted }
    }
}

/// The result of looking for a call.
#[derive(Default)]
struct Found {
    shown: u64,
    /// The best match among the calls that were not shown.
    closest: Option<Fit>,
    /// Calls to suggest if nothing matches.
    instead: Option<String>,
    notes: Vec<String>,
}

/// An entry and its measurements.
struct Shown {
    entry: Entry,
    /// Computed from the elements, if there are any.
    computed: Option<Computed>,
}

/// Values computed from the elements of an entry.
struct Computed {
    stats: Stats,
    record: Record,
}

impl Show {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let mut walk = DumpWalk::open(&self.args.dump)?;
        let several = walk.has_several();
        if self.args.dump.json {
            output.piece("{\"calls\": [")?;
        }
        let mut found = self.show_calls(&mut walk, Fit::Words, several, output)?;
        if let (0, Some(closest)) = (found.shown, found.closest) {
            // The best match is known only after all ranks.
            walk.rewind();
            found = self.show_calls(&mut walk, closest, several, output)?;
            if closest >= Fit::AnyCase {
                let name = &self.args.call;
                found.notes.push(match closest {
                    Fit::Part => format!("no call begins with {name:?}: these have it in their name"),
                    _ => format!("no call begins with {name:?}: these do, except for upper and lower case"),
                });
            }
        }
        let errors = walk.errors();
        let mut notes = walk.notes();
        notes.append(&mut found.notes);
        if found.shown == 0 {
            let instead = found.instead.filter(|names| !names.is_empty());
            let instead = instead.map(|names| format!("; there are {names}")).unwrap_or_default();
            notes.push(format!("no call has {:?} in its name{instead}", self.args.call));
        }
        if self.args.dump.json {
            let (notes, errors) = (json!(notes), json!(errors));
            output.piece(&format!("\n], \"notes\": {notes}, \"errors\": {errors}}}\n"))?;
        }
        output.notes_and_errors(&notes, &errors);
        let matched = if found.shown == 0 { Exit::NoMatch } else { Exit::Done };
        Ok(matched.max(Exit::of_reading(&errors)))
    }

    /// Shows the calls with this match, of every rank.
    fn show_calls(
        &self,
        walk: &mut DumpWalk,
        wanted: Fit,
        several: bool,
        output: &mut Output,
    ) -> anyhow::Result<Found> {
        let mut found = Found::default();
        walk.each(|opened, problems| {
            let rank = &opened.rank;
            for call in 0..rank.calls().len() {
                let fit = self.wanted.fit(rank, call);
                if fit != Some(wanted) {
                    found.closest = found.closest.into_iter().chain(fit).min();
                    continue;
                }
                match rank.entries(call) {
                    Ok(entries) => {
                        let entries = measure(rank, entries, problems);
                        if self.args.dump.json {
                            let comma = if found.shown == 0 { "" } else { "," };
                            output.piece(&format!("{comma}\n{}", to_json(opened, call, &entries)))?;
                        } else {
                            show(opened, call, &entries, found.shown > 0, several, output)?;
                        }
                    }
                    Err(error) => {
                        problems.add(&error);
                        continue;
                    }
                }
                found.shown += 1;
            }
            found.instead.get_or_insert_with(|| suggestions(rank, &self.args.call));
            Ok(())
        })?;
        Ok(found)
    }
}

fn measure(rank: &Rank, entries: Vec<Entry>, problems: &mut Problems) -> Vec<Shown> {
    let mut shown = Vec::new();
    for entry in entries {
        let computed = match &entry.content {
            Content::Tensor(tensor) => computed(rank, tensor).unwrap_or_else(|error| {
                problems.note(format!("{}: {error}", entry.name));
                None
            }),
            _ => None,
        };
        shown.push(Shown { entry, computed });
    }
    shown
}

fn computed(rank: &Rank, entry: &TensorEntry) -> Result<Option<Computed>, Error> {
    let Some(tensor) = rank.tensor(entry)? else { return Ok(None) };
    let view = tensor.view();
    let stats = stats(&view, Threads::All);
    let record = results::of_stats(view.dtype(), view.shape(), &stats);
    tensor.check()?;
    Ok(Some(Computed { stats, record }))
}

impl Computed {
    /// Shown instead of the recorded statistics.
    fn summary(&self) -> Vec<(&'static str, Cell)> {
        let shown = RECORDED.iter().filter(|statistic| statistic.is_summary() || statistic.is_count());
        let cell = |statistic: &Statistic| {
            let of_record = || self.record.get(statistic.name).cloned();
            let of_stats = || Cell::maybe(statistic.of(&self.stats, false), results::of_statistic);
            (statistic.name, of_record().unwrap_or_else(of_stats))
        };
        shown.map(cell).collect()
    }
}

fn show(
    opened: &Opened<'_>,
    call: usize,
    entries: &[Shown],
    space: bool,
    several: bool,
    output: &mut Output,
) -> anyhow::Result<()> {
    let rank = &opened.rank;
    if space {
        output.line("")?;
    }
    let mut title = rank.name(call);
    if several {
        title = format!("{title}  ({})", opened.label());
    }
    output.line(&title)?;
    if let Some(module) = rank.parent(call) {
        output.line(&format!("in {module}"))?;
    }
    if !entries.is_empty() {
        output.table(&table(entries))?;
    }
    if let Some(frames) = rank.frames(call) {
        output.line("stack, innermost frame first")?;
        for frame in frames {
            if frame.file.is_empty() {
                output.line(&format!("  {}", frame.code.unwrap_or_default()))?;
                continue;
            }
            output.line(&format!("  {}:{} in {}", frame.file, frame.line, frame.function))?;
            if let Some(code) = frame.code {
                output.line(&format!("    {}", code.trim()))?;
            }
        }
    }
    Ok(())
}

/// The entries, without empty columns.
fn table(entries: &[Shown]) -> Table {
    let rows: Vec<Record> = entries.iter().map(row).collect();
    let used = |name: &(&str, Align)| {
        rows.iter().any(|row| row.get(name.0).is_some_and(|cell| *cell != Cell::Missing))
    };
    let first = FIRST_COLUMNS.map(|name| (name, Align::Left));
    let statistics = RECORDED.iter().map(|statistic| (statistic.name, Align::Right));
    let last = LAST_COLUMNS.map(|name| (name, Align::Left));
    let columns: Vec<(&str, Align)> = first.into_iter().chain(statistics).chain(last).filter(used).collect();
    let mut table = Table::new("", &columns);
    for row in &rows {
        let bad = ["nan", "inf"]
            .iter()
            .any(|name| row.get(name).is_some_and(|cell| !matches!(cell, Cell::Missing | Cell::Int(0))));
        let cells = columns.iter().map(|(name, _)| row.get(name).cloned().unwrap_or(Cell::Missing));
        table.push(cells.collect(), if bad { Emphasis::Bad } else { Emphasis::Plain });
    }
    table
}

fn row(Shown { entry, computed }: &Shown) -> Record {
    let mut fields = vec![("entry", Cell::text(&entry.name))];
    match &entry.content {
        Content::None => fields.push(("type", Cell::text("None"))),
        Content::Scalar { kind, value } => {
            fields.extend([("type", Cell::text(kind)), ("value", entries::of_json(value))]);
        }
        Content::Other(value) => fields.push(("value", entries::of_json(value))),
        Content::Tensor(tensor) => {
            fields.extend([("type", entries::dtype(tensor)), ("shape", entries::shape(tensor))]);
            fields.push(("digest", Cell::maybe(tensor.digest.as_ref(), Cell::text)));
            if let Data::Sample(values) = &tensor.data {
                let sample = values.iter().map(|&value| Cell::ExactSingle(value as f32)).collect();
                fields.push(("value", Cell::List(sample)));
            }
            match computed {
                None => fields.extend(recorded(tensor)),
                Some(computed) => fields.extend(computed.summary()),
            }
            fields.push(("source", Cell::maybe(tensor.source.as_ref(), Cell::text)));
            fields.push(("from", Cell::text(if computed.is_some() { "elements" } else { "record" })));
        }
    }
    Record::new(fields)
}

/// What was recorded of a tensor.
fn recorded(tensor: &TensorEntry) -> Vec<(&'static str, Cell)> {
    let summaries = RECORDED.iter().zip(&tensor.stats);
    let further = tensor.further.iter().map(|(statistic, value)| (*statistic, value));
    summaries.chain(further).map(|(statistic, value)| (statistic.name, entries::of_json(value))).collect()
}

fn to_json(opened: &Opened<'_>, call: usize, entries: &[Shown]) -> serde_json::Value {
    let rank = &opened.rank;
    let entries: Vec<Cell> = entries.iter().map(|shown| Cell::Record(of_shown(shown))).collect();
    let stack =
        Cell::maybe(rank.stack(call), |lines| Cell::List(lines.into_iter().map(Cell::text).collect()));
    Record::new(vec![
        ("step", Cell::maybe(opened.step, Cell::count)),
        ("rank", Cell::text(&opened.place.name)),
        ("name", Cell::text(rank.name(call))),
        ("kind", Cell::text(rank.calls()[call].kind.word())),
        ("module", Cell::maybe(rank.parent(call), Cell::text)),
        ("entries", Cell::List(entries)),
        ("stack", stack),
    ])
    .to_json()
}

fn of_shown(Shown { entry, computed }: &Shown) -> Record {
    let mut record = entries::of_entry(entry);
    if let Content::Tensor(tensor) = &entry.content {
        record.fields.push(("recorded", Cell::Record(Record::new(recorded(tensor)))));
        record.fields.push(("digest", Cell::maybe(tensor.digest.as_ref(), Cell::text)));
        let computed = computed.as_ref().map(|computed| computed.record.clone());
        record.fields.push(("computed", Cell::maybe(computed, Cell::Record)));
    }
    record
}
