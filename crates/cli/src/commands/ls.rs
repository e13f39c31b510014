//! `ulpscope ls`: the calls of a dump, each shown as soon as it is read.

use serde_json::{Value, json};
use ulpscope_dump::{Content, Data, Entry, Problems, Rank, Tool};
use ulpscope_report::{Cell, Record};

use crate::args::LsArgs;
use crate::call_names::{Wanted, suggestions};
use crate::dump_walk::{DumpWalk, Opened};
use crate::entries;
use crate::exit::Exit;
use crate::ledgers;
use crate::output::Output;

/// The request of `ls`.
pub(crate) struct Ls {
    args: LsArgs,
    wanted: Wanted,
}

impl From<LsArgs> for Ls {
    fn from(args: LsArgs) -> Ls {
        let wanted = Wanted::of_filter(args.filter.as_deref());
        Ls { args, wanted }
    }
}

impl Ls {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let mut walk = DumpWalk::open(&self.args.dump)?;
        let mut shown = 0;
        let mut instead = None;
        let mut ranks = 0;
        let path = json!(walk.path().display().to_string());
        if self.args.dump.json {
            output.piece(&format!("{{\"path\": {path}, \"ranks\": ["))?;
        }
        walk.each(|opened, problems| {
            let rank = &opened.rank;
            self.begin(opened, ranks, output)?;
            let known = rank.problems();
            let mut of_rank = 0;
            for call in self.wanted.calls(rank) {
                match rank.entries(call) {
                    Ok(entries) => {
                        refused(&entries, &known, problems);
                        self.call(rank, call, &entries, of_rank, output)?;
                    }
                    Err(error) => {
                        problems.add(&error);
                        continue;
                    }
                }
                of_rank += 1;
            }
            if self.args.dump.json {
                output.piece("\n]}")?;
            }
            ranks += 1;
            shown += of_rank;
            if rank.tool == Tool::Files && rank.calls().is_empty() && known.is_empty() {
                problems.note(format!("{}: no tensors and no values", rank.path.display()));
            }
            if let (0, Some(filter)) = (of_rank, &self.args.filter)
                && !rank.calls().is_empty()
            {
                instead.get_or_insert_with(|| suggestions(rank, filter));
            }
            Ok(())
        })?;
        let errors = walk.errors();
        let mut notes = walk.notes();
        let nothing = shown == 0 && self.args.filter.is_some();
        if let (true, Some(filter)) = (nothing, &self.args.filter) {
            let instead = instead.map(|names| format!("; there are {names}")).unwrap_or_default();
            notes.push(format!("no call matches {filter:?}{instead}"));
        }
        if self.args.dump.json {
            let (notes, errors) = (json!(notes), json!(errors));
            output.piece(&format!("\n], \"notes\": {notes}, \"errors\": {errors}}}\n"))?;
        }
        output.notes_and_errors(&notes, &errors);
        let matched = if nothing { Exit::NoMatch } else { Exit::Done };
        Ok(matched.max(Exit::of_reading(&errors)))
    }

    /// Shows which rank it is.
    fn begin(&self, opened: &Opened<'_>, number: usize, output: &mut Output) -> anyhow::Result<()> {
        if !self.args.dump.json {
            output.line(&opened.label())?;
            return Ok(ledgers::lines(&opened.rank).iter().try_for_each(|line| output.line(line))?);
        }
        let Opened { step, place, rank } = opened;
        let mut head = json!({
            "step": step,
            "rank": place.number,
            "name": place.name,
            "path": place.path().display().to_string(),
            "tool": rank.tool.to_string(),
            "task": rank.task.to_string(),
            "level": rank.level,
            "journal": rank.is_journal(),
            "ledger": rank.ledger().as_ref().map(ledgers::to_json),
        })
        .to_string();
        // The object continues with the calls.
        head.pop();
        let comma = if number == 0 { "" } else { "," };
        Ok(output.piece(&format!("{comma}\n{head}, \"calls\": ["))?)
    }

    fn call(
        &self,
        rank: &Rank,
        call: usize,
        entries: &[Entry],
        number: u64,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        let module = rank.parent(call);
        if self.args.dump.json {
            let comma = if number == 0 { "" } else { "," };
            return Ok(output.piece(&format!("{comma}\n{}", to_json(rank, call, entries, module)))?);
        }
        let name = rank.name(call);
        // The only tensor of a file has no name.
        let name = if name.is_empty() { entries.first().map_or("", |entry| &entry.name) } else { &name };
        let mut line = format!("{:>5}  {name}  {}", entries.len(), entries::signature(entries));
        if let Some(module) = module {
            line.push_str(&format!("  in {module}"));
        }
        Ok(output.line(line.trim_end())?)
    }
}

/// Adds tensors that cannot be read, unless already known: the header of an array file is read only now.
fn refused(entries: &[Entry], known: &Problems, problems: &mut Problems) {
    for entry in entries {
        if let Content::Tensor(tensor) = &entry.content
            && let Data::Refused(why) = &tensor.data
            && !known.listed().iter().any(|said| said.contains(why.as_str()))
        {
            problems.note(why.clone());
        }
    }
}

fn to_json(rank: &Rank, call: usize, entries: &[Entry], module: Option<String>) -> Value {
    let described = &rank.calls()[call];
    Record::new(vec![
        ("name", Cell::text(rank.name(call))),
        ("base", Cell::text(rank.base(described.base))),
        ("index", Cell::maybe(described.index, |index| Cell::count(index.into()))),
        ("kind", Cell::text(described.kind.word())),
        ("module", Cell::maybe(module, Cell::text)),
        ("entries", Cell::List(entries.iter().map(|entry| Cell::Record(entries::of_entry(entry))).collect())),
    ])
    .to_json()
}
