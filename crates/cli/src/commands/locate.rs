//! `ulpscope locate`: which node of a cluster has which ranks of a dump.

use std::path::PathBuf;

use anyhow::Context;
use ulpscope_formats::file::write_with;
use ulpscope_report::{Align, Cell, Emphasis, Table, json};
use ulpscope_session::units::{Dispatcher, locate};

use crate::args::LocateArgs;
use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};

/// The request of `locate`.
pub(crate) struct Locate {
    dump: PathBuf,
    output: Option<PathBuf>,
    json: bool,
}

impl From<LocateArgs> for Locate {
    fn from(args: LocateArgs) -> Self {
        Self { dump: args.dump, output: args.output, json: args.json }
    }
}

impl Locate {
    pub(crate) fn run(self, dispatcher: &dyn Dispatcher, output: &mut Output) -> anyhow::Result<Exit> {
        let (map, problems) = locate(dispatcher, &self.dump).map_err(anyhow::Error::msg)?;
        let document = serde_json::to_value(&map)?;
        if let Some(path) = &self.output {
            let text = json::document(&document);
            write_with(path, |out| out.write_all(text.as_bytes()).map_err(ulpscope_formats::Error::whole))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let shown = if self.json {
            output.json(&document)
        } else {
            let columns = [
                ("step", Align::Right),
                ("rank", Align::Left),
                ("nodes", Align::Left),
                ("bytes", Align::Right),
            ];
            let mut table = Table::new(format!("ranks of {}", self.dump.display()), &columns);
            for rank in &map.ranks {
                let step = Cell::maybe(rank.step, Cell::count);
                let nodes = Cell::text(rank.nodes.join(", "));
                table.push(
                    vec![step, Cell::text(rank.rank.as_str()), nodes, Cell::count(rank.bytes)],
                    Emphasis::Plain,
                );
            }
            output.table(&table)
        };
        unless_broken_pipe(shown)?;
        let mut errors = problems;
        if map.ranks.is_empty() && errors.is_empty() {
            errors.push(format!("no node has {}", self.dump.display()));
        }
        output.notes_and_errors(&[], &errors);
        Ok(Exit::of_reading(&errors))
    }
}
