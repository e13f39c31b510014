//! msaccucmp's sheets of a network.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ulpscope_compare::network::{Network, NetworkColumns, NetworkRow};
use ulpscope_formats::file::Unfinished;
use ulpscope_report::{Cell, Emphasis, Row, SheetFormat, SheetWriter};

use super::NetworkOutputs;

/// The sheets that are being written. One that cannot be written does not end the comparison.
pub(super) struct NetworkSheets {
    columns: NetworkColumns,
    rows: Option<Sheet>,
    mapping: Option<Sheet>,
    failures: Vec<String>,
}

struct Sheet {
    path: PathBuf,
    unfinished: Unfinished,
    writer: Box<dyn SheetWriter>,
}

impl Sheet {
    fn open(folder: &Path, name: &str, columns: &[String]) -> io::Result<Sheet> {
        fs::create_dir_all(folder)?;
        let path = folder.join(name);
        let unfinished = Unfinished::create(&path)?;
        let writer = SheetFormat::Csv.open(unfinished.file().try_clone()?, columns)?;
        Ok(Sheet { path, unfinished, writer })
    }
}

impl NetworkSheets {
    pub(super) fn open(
        folder: Option<&Path>,
        stamp: &str,
        network: &Network,
        outputs: &NetworkOutputs,
    ) -> NetworkSheets {
        let columns = network.columns(outputs.has_overflow);
        let mut sheets = NetworkSheets { columns, rows: None, mapping: None, failures: Vec::new() };
        let Some(folder) = folder else { return sheets };
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut open = |name: String, columns: &[String]| match Sheet::open(folder, &name, columns) {
            Ok(sheet) => Some(sheet),
            Err(error) => {
                sheets.failures.push(format!("{}: {error}", folder.join(name).display()));
                None
            }
        };
        let rows = open(format!("result_{stamp}.csv"), &owned(&columns.names()));
        let mapping = outputs
            .has_mapping
            .then(|| open(format!("mapping_{stamp}.csv"), &owned(&NetworkRow::MAPPING_COLUMNS)));
        (sheets.rows, sheets.mapping) = (rows, mapping.flatten());
        sheets
    }

    pub(super) fn row(&mut self, row: &NetworkRow) {
        let cells = [row.cells(self.columns), row.mapping_cells()];
        for (sheet, cells) in [&mut self.rows, &mut self.mapping].into_iter().zip(cells) {
            let Some(open) = sheet else { continue };
            let cells = cells.into_iter().map(Cell::Text).collect();
            if let Err(error) = open.writer.row(&Row { cells, emphasis: Emphasis::Plain }) {
                self.failures.push(format!("{}: {error}", open.path.display()));
                *sheet = None;
            }
        }
    }

    /// Gives the sheets their names.
    pub(super) fn finish(self, files: &mut Vec<PathBuf>, failures: &mut Vec<String>) {
        failures.extend(self.failures);
        for sheet in [self.rows, self.mapping].into_iter().flatten() {
            let Sheet { path, unfinished, writer } = sheet;
            match writer.finish().and_then(|()| unfinished.finish_beside()) {
                Ok(path) => files.push(path),
                Err(error) => failures.push(format!("{}: {error}", path.display())),
            }
        }
    }
}
