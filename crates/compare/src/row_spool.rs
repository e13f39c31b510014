//! Rows that are kept until the end of a comparison, because their verdict depends on later calls.
//!
//! They are packed in an unnamed file, so that memory does not grow with the dump: a row takes some three hundred bytes
//! packed and about three thousand unpacked. Packed units are read back in order, and unpacked on any thread.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use ulpscope_report::{Cell, Emphasis};

use crate::fact_bytes::Packed;
use crate::style::{Row, Verdict};

/// Packed rows up to this many bytes stay in memory.
const IN_MEMORY: usize = 8 << 20;

/// Bytes of a packed row of statistics.
const TYPICAL_ROW: usize = 512;

/// Rows of units, in order.
#[derive(Debug, Default)]
pub(crate) struct RowSpool {
    packed: Vec<u8>,
    file: Option<File>,
}

impl RowSpool {
    /// Adds the rows of the next unit.
    pub(crate) fn push(&mut self, PackedUnit(rows): &PackedUnit) -> io::Result<()> {
        pack_count(rows.len(), &mut self.packed);
        self.packed.extend(rows);
        if self.packed.len() > IN_MEMORY {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(tempfile::tempfile()?),
            };
            file.write_all(&self.packed)?;
            self.packed.clear();
        }
        Ok(())
    }

    /// Reads the rows back, unit by unit.
    pub(crate) fn read_back(self) -> io::Result<SpooledRows> {
        let reader: Box<dyn Read + Send> = match self.file {
            None => Box::new(io::Cursor::new(self.packed)),
            Some(mut file) => {
                file.seek(SeekFrom::Start(0))?;
                Box::new(io::BufReader::with_capacity(1 << 20, file).chain(io::Cursor::new(self.packed)))
            }
        };
        Ok(SpooledRows { reader })
    }
}

/// Rows of units, being read back.
pub(crate) struct SpooledRows {
    reader: Box<dyn Read + Send>,
}

impl SpooledRows {
    /// The rows of the next unit, still packed.
    pub(crate) fn next_unit(&mut self) -> io::Result<PackedUnit> {
        let mut packed = vec![0; count(&mut self.reader)?];
        self.reader.read_exact(&mut packed)?;
        Ok(PackedUnit(packed))
    }
}

/// The rows of a unit as bytes.
pub(crate) struct PackedUnit(Vec<u8>);

impl PackedUnit {
    /// Packs rows. Whoever made them packs them, so that they are dropped where they were made, and on all cores.
    pub(crate) fn of(rows: &[Row]) -> PackedUnit {
        let mut packed = Vec::with_capacity(rows.len() * TYPICAL_ROW);
        pack_count(rows.len(), &mut packed);
        for row in rows {
            packed.push(row.verdict as u8);
            pack_count(row.cells.len(), &mut packed);
            let mut before = &Cell::Missing;
            for cell in &row.cells {
                // What both sides have alike stands side by side: names, dtypes, shapes.
                match matches!(cell, Cell::Text(_) | Cell::List(_)) && cell == before {
                    true => packed.push(AS_BEFORE),
                    false => pack(cell, &mut packed),
                }
                before = cell;
            }
            row.fact.pack(&mut packed);
        }
        PackedUnit(packed)
    }

    /// The rows, without colour: that follows from the later verdict.
    pub(crate) fn rows(&self) -> io::Result<Vec<Row>> {
        let reader = &mut self.0.as_slice();
        let rows = count(reader)?;
        (0..rows)
            .map(|_| {
                let verdict = verdict_of(byte(reader)?);
                let cells = unpack_all(reader, 0)?;
                let fact = Packed::unpack(reader)?;
                Ok(Row { fact, ..Row::new(cells, Emphasis::Plain, verdict) })
            })
            .collect()
    }
}

/// Adds a finished row to a file of rows, in which it takes a tenth of its size in memory. Its fact is left out: the
/// cells say it.
pub fn pack_row(row: &Row, packed: &mut Vec<u8>) {
    packed.extend([row.verdict as u8, row.emphasis as u8]);
    pack_count(row.cells.len(), packed);
    row.cells.iter().for_each(|cell| pack(cell, packed));
}

/// Reads a row back. `None` at the end.
pub fn unpack_row(reader: &mut &[u8]) -> io::Result<Option<Row>> {
    if reader.is_empty() {
        return Ok(None);
    }
    let verdict = verdict_of(byte(reader)?);
    let emphasis = match byte(reader)? {
        0 => Emphasis::Plain,
        1 => Emphasis::Good,
        2 => Emphasis::Warn,
        _ => Emphasis::Bad,
    };
    let cells = unpack_all(reader, 0)?;
    Ok(Some(Row::new(cells, emphasis, verdict)))
}

fn verdict_of(byte: u8) -> Verdict {
    match byte {
        0 => Verdict::Pass,
        1 => Verdict::NotCompared,
        2 => Verdict::Warn,
        _ => Verdict::Fail,
    }
}

const MISSING: u8 = 0;
const TEXT: u8 = 1;
const INT: u8 = 2;
const NUMBER: u8 = 3;
const EXACT: u8 = 4;
const EXACT_SINGLE: u8 = 5;
const SHARE: u8 = 6;
const COMPLEX: u8 = 7;
const FLAG: u8 = 8;
const LIST: u8 = 9;
const COUNT: u8 = 10;
/// The same as the cell before.
const AS_BEFORE: u8 = 11;

fn pack(cell: &Cell, packed: &mut Vec<u8>) {
    match cell {
        Cell::Missing => packed.push(MISSING),
        Cell::Text(text) => pack_text(text, packed),
        Cell::Int(value) => match u32::try_from(*value) {
            Ok(count) => {
                packed.push(COUNT);
                pack_count(count as usize, packed);
            }
            Err(_) => pack_bytes(INT, &value.to_le_bytes(), packed),
        },
        Cell::Number(value) => pack_bytes(NUMBER, &value.to_le_bytes(), packed),
        Cell::Exact(value) => pack_bytes(EXACT, &value.to_le_bytes(), packed),
        Cell::ExactSingle(value) => pack_bytes(EXACT_SINGLE, &value.to_le_bytes(), packed),
        Cell::Share(value) => pack_bytes(SHARE, &value.to_le_bytes(), packed),
        Cell::Complex(re, im) => {
            pack_bytes(COMPLEX, &re.to_le_bytes(), packed);
            packed.extend(im.to_le_bytes());
        }
        Cell::Flag(flag) => packed.extend([FLAG, u8::from(*flag)]),
        Cell::List(cells) => {
            packed.push(LIST);
            pack_count(cells.len(), packed);
            cells.iter().for_each(|cell| pack(cell, packed));
        }
        // No column has these; text is a safe fallback.
        Cell::Index { .. } | Cell::Record(_) => pack_text(&cell.to_string(), packed),
    }
}

fn pack_text(text: &str, packed: &mut Vec<u8>) {
    packed.push(TEXT);
    pack_count(text.len(), packed);
    packed.extend(text.as_bytes());
}

fn pack_bytes(kind: u8, bytes: &[u8], packed: &mut Vec<u8>) {
    packed.push(kind);
    packed.extend(bytes);
}

/// Seven bits in a byte, the lowest first; the highest bit says that more follow.
fn pack_count(mut count: usize, packed: &mut Vec<u8>) {
    while count > 0x7f {
        packed.push(count as u8 | 0x80);
        count >>= 7;
    }
    packed.push(count as u8);
}

/// Cells for which there is room from the start; a damaged count may say anything.
const TYPICAL_CELLS: usize = 64;

fn unpack_all(reader: &mut &[u8], depth: usize) -> io::Result<Vec<Cell>> {
    let count = count(reader)?;
    let mut cells = Vec::with_capacity(count.min(TYPICAL_CELLS));
    for _ in 0..count {
        let cell = match (reader.first(), cells.last()) {
            (Some(&AS_BEFORE), Some(before)) => {
                *reader = &reader[1..];
                Cell::clone(before)
            }
            _ => unpack(reader, depth)?,
        };
        cells.push(cell);
    }
    Ok(cells)
}

/// A list in a list is a shape in coordinates; deeper ones are damage.
const MAX_DEPTH: usize = 8;

fn unpack(reader: &mut &[u8], depth: usize) -> io::Result<Cell> {
    Ok(match byte(reader)? {
        MISSING => Cell::Missing,
        TEXT => {
            let length = count(reader)?;
            let Some((text, rest)) = reader.split_at_checked(length) else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            *reader = rest;
            Cell::Text(str::from_utf8(text).map_err(io::Error::other)?.to_owned())
        }
        INT => Cell::Int(i128::from_le_bytes(bytes(reader)?)),
        COUNT => Cell::Int(count(reader)? as i128),
        NUMBER => Cell::Number(f64::from_le_bytes(bytes(reader)?)),
        EXACT => Cell::Exact(f64::from_le_bytes(bytes(reader)?)),
        EXACT_SINGLE => Cell::ExactSingle(f32::from_le_bytes(bytes(reader)?)),
        SHARE => Cell::Share(f64::from_le_bytes(bytes(reader)?)),
        COMPLEX => Cell::Complex(f64::from_le_bytes(bytes(reader)?), f64::from_le_bytes(bytes(reader)?)),
        FLAG => Cell::Flag(byte(reader)? != 0),
        AS_BEFORE => return Err(io::ErrorKind::InvalidData.into()),
        _ if depth > MAX_DEPTH => return Err(io::ErrorKind::InvalidData.into()),
        _ => Cell::List(unpack_all(reader, depth + 1)?),
    })
}

fn byte(reader: &mut impl Read) -> io::Result<u8> {
    let [byte] = bytes(reader)?;
    Ok(byte)
}

fn count(reader: &mut impl Read) -> io::Result<usize> {
    let mut all = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let part = byte(reader)?;
        all |= usize::from(part & 0x7f) << shift;
        if part <= 0x7f {
            break;
        }
    }
    Ok(all)
}

fn bytes<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::fact::{Fact, Likeness, NonFiniteCount, Plain};
    use crate::style::Side;

    #[test]
    fn rows_come_back_as_they_went() {
        let cells = vec![
            Cell::Missing,
            Cell::text("Functional.linear.0.forward — ρ"),
            Cell::Int(-(1 << 100)),
            Cell::Int(i128::from(u32::MAX)),
            Cell::Int(i128::from(u32::MAX) + 1),
            Cell::text("the same on both sides"),
            Cell::text("the same on both sides"),
            Cell::List(vec![Cell::Int(8), Cell::Int(0)]),
            Cell::List(vec![Cell::Int(8), Cell::Int(0)]),
            Cell::Missing,
            Cell::Number(0.1),
            Cell::Exact(-0.0),
            Cell::ExactSingle(1e-40),
            Cell::Share(0.5),
            Cell::Complex(1.0, -2.0),
            Cell::Flag(true),
            Cell::List(vec![Cell::Int(3), Cell::List(vec![Cell::Missing])]),
        ];
        let row = Row::new(cells, Emphasis::Plain, Verdict::Warn);
        let mut spool = RowSpool::default();
        // Enough to use the file and leave a rest in memory.
        let units = IN_MEMORY / 100;
        (0..units).for_each(|_| spool.push(&PackedUnit::of(std::slice::from_ref(&row))).unwrap());
        spool.push(&PackedUnit::of(&[])).unwrap();
        assert!(spool.file.is_some());
        let mut back = spool.read_back().unwrap();
        let mut next = || back.next_unit().unwrap().rows().unwrap();
        (0..units).for_each(|_| assert_eq!(next(), std::slice::from_ref(&row)));
        assert!(next().is_empty());
        assert!(back.next_unit().is_err());
    }

    #[test]
    fn counts_of_any_size_come_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u32::MAX as usize, usize::MAX] {
            let mut packed = Vec::new();
            pack_count(number, &mut packed);
            assert_eq!(count(&mut packed.as_slice()).unwrap(), number);
        }
    }

    #[test]
    fn facts_come_back_as_they_went() {
        let scalar = Plain::Scalar { kind: "float".to_owned(), json: "0.1".to_owned() };
        let facts = [
            Fact::Elements { distance: 0.1, largest: f64::NAN, likeness: Some(Likeness::Factor(-0.0)) },
            Fact::Elements {
                distance: 1e-300,
                largest: f64::INFINITY,
                likeness: Some(Likeness::FewElements { differ: 1, of: 7 }),
            },
            Fact::Elements { distance: 1.0, largest: 2.0, likeness: Some(Likeness::Zero) },
            Fact::Elements { distance: 1.0, largest: 2.0, likeness: Some(Likeness::SignFlipped) },
            Fact::Statistics { target: [Some(1.0), None, Some(f64::NAN), None], golden: [None; 4] },
            Fact::ElementsDiffer { differ: 3, of: 9, distance: 0.5 },
            Fact::NonFinite {
                elements: 2,
                counts: [NonFiniteCount { nan: 1, infinite: 1 }, NonFiniteCount::default()],
            },
            Fact::NonFiniteStatistics(Side::Golden),
            Fact::BothNan { elements: 4 },
            Fact::DigestsDiffer,
            Fact::OnlyDigestsDiffer,
            Fact::NothingInCommon,
            Fact::Uninitialised,
            Fact::Devices,
            Fact::Objects,
            Fact::Values { target: scalar.clone(), golden: Plain::None },
            Fact::Kinds { target: Plain::Tensor("torch.float32".to_owned()), golden: Plain::Object },
            Fact::Shapes { target: vec![2, 3], golden: vec![] },
            Fact::Reshaped { target: vec![6], golden: vec![2, 3], elements: Some(Box::new(Fact::Devices)) },
            Fact::OnlyIn { side: Side::Target, value: scalar },
            Fact::Unpaired("no call of that name".to_owned()),
            Fact::Unread,
            Fact::InheritedFrom("Tensor.add.0.forward".to_owned()),
            Fact::Unexplained,
        ];
        let mut spool = RowSpool::default();
        let row = |fact: &Fact| Row {
            fact: Some(Box::new(fact.clone())),
            ..Row::new(vec![Cell::Missing], Emphasis::Plain, Verdict::Pass)
        };
        facts.iter().for_each(|fact| spool.push(&PackedUnit::of(&[row(fact)])).unwrap());
        let mut back = spool.read_back().unwrap();
        for fact in &facts {
            let unit = back.next_unit().unwrap().rows().unwrap();
            // NaN is not equal to itself; its text is.
            assert_eq!(format!("{:?}", unit[0].fact), format!("{:?}", Some(fact)));
        }
    }
}
