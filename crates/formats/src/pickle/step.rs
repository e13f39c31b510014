//! What each opcode does, for protocols 0 to 5.

use super::machine::Machine;
use super::{Id, Name, Node, opcode, text};
use crate::budget::PER_ALLOCATION;
use crate::bytes::Bytes;
use crate::error::Fault;

/// Overhead of bytes that are not in the file: their owner and its counts.
const OWN_BYTES_SIZE: usize = 64 + PER_ALLOCATION;

impl Machine<'_> {
    /// Executes one opcode; `STOP` returns the result.
    pub(super) fn step(&mut self) -> Result<Option<Id>, Fault> {
        let [code] = self.input.array("an opcode")?;
        match code {
            opcode::STOP => return self.pop().map(Some),
            opcode::PROTO => {
                let [protocol] = self.input.array("a protocol number")?;
                if protocol > opcode::HIGHEST_PROTOCOL {
                    return Err(Fault::malformed(
                        format!("a pickle protocol up to {}", opcode::HIGHEST_PROTOCOL),
                        format!("protocol {protocol}"),
                    ));
                }
            }
            // A frame only groups the opcodes after it, for readers of streams.
            opcode::FRAME => _ = self.input.array::<8>("a frame length")?,

            opcode::MARK => self.push_mark()?,
            opcode::POP => {
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            opcode::POP_MARK => _ = self.pop_to_mark()?,
            opcode::DUP => {
                let top = self.top()?;
                self.push_id(top)?;
            }

            opcode::NONE => self.push(Node::None)?,
            opcode::NEWTRUE => self.push(Node::Bool(true))?,
            opcode::NEWFALSE => self.push(Node::Bool(false))?,
            opcode::INT => self.push_line(text::int)?,
            opcode::LONG => self.push_line(text::long)?,
            opcode::FLOAT => self.push_line(|line| text::float(line).map(Node::Float))?,
            opcode::BININT => {
                let number = i32::from_le_bytes(self.input.array("an integer")?);
                self.push(Node::Int(number.into()))?;
            }
            opcode::BININT1 => {
                let [number] = self.input.array("an integer")?;
                self.push(Node::Int(number.into()))?;
            }
            opcode::BININT2 => {
                let number = u16::from_le_bytes(self.input.array("an integer")?);
                self.push(Node::Int(number.into()))?;
            }
            opcode::LONG1 | opcode::LONG4 => {
                let bytes = self.input.counted(if code == opcode::LONG1 { 1 } else { 4 }, "an integer")?;
                self.push(little_endian_int(&bytes))?;
            }
            opcode::BINFLOAT => {
                let number = f64::from_be_bytes(self.input.array("a float")?);
                self.push(Node::Float(number))?;
            }

            opcode::STRING => {
                let bytes = text::quoted(self.input.line()?)?;
                // Bytes that are not valid text are kept as bytes in separate memory.
                self.charge(bytes.len() + OWN_BYTES_SIZE)?;
                self.push(python2_string(bytes.into()))?;
            }
            opcode::UNICODE => {
                self.push_line(|line| text::raw_unicode(line).map(|text| Node::Text(text.into())))?;
            }
            opcode::SHORT_BINSTRING | opcode::BINSTRING => {
                let width = if code == opcode::SHORT_BINSTRING { 1 } else { 4 };
                let bytes = self.input.counted(width, "a string")?;
                self.push(python2_string(bytes))?;
            }
            opcode::SHORT_BINUNICODE | opcode::BINUNICODE | opcode::BINUNICODE8 => {
                let width = match code {
                    opcode::SHORT_BINUNICODE => 1,
                    opcode::BINUNICODE => 4,
                    _ => 8,
                };
                let bytes = self.input.counted(width, "text")?;
                let text = std::str::from_utf8(&bytes).map_err(|error| {
                    Fault::malformed(
                        "text in UTF-8",
                        format!("a stray byte {} bytes in", error.valid_up_to()),
                    )
                })?;
                self.push(Node::Text(text.into()))?;
            }
            opcode::SHORT_BINBYTES | opcode::BINBYTES | opcode::BINBYTES8 | opcode::BYTEARRAY8 => {
                let width = match code {
                    opcode::SHORT_BINBYTES => 1,
                    opcode::BINBYTES => 4,
                    _ => 8,
                };
                let bytes = self.input.counted(width, "a byte string")?;
                self.push(Node::Bytes(bytes))?;
            }
            opcode::NEXT_BUFFER | opcode::READONLY_BUFFER => {
                return Err(Fault::Unsupported(
                    "the pickle keeps buffers outside itself; save it without a buffer callback".to_owned(),
                ));
            }

            opcode::EMPTY_LIST => self.push(Node::List(Vec::new()))?,
            opcode::EMPTY_TUPLE => self.push(Node::Tuple(Vec::new()))?,
            opcode::EMPTY_DICT => self.push(Node::Dict(Vec::new()))?,
            opcode::EMPTY_SET => self.push(Node::Set(Vec::new()))?,
            opcode::LIST => self.push_marked(Node::List)?,
            opcode::TUPLE => self.push_marked(Node::Tuple)?,
            opcode::FROZENSET => self.push_marked(Node::FrozenSet)?,
            opcode::DICT => {
                let pairs = pairs(self.pop_to_mark()?)?;
                self.push(Node::Dict(pairs))?;
            }
            opcode::TUPLE1 | opcode::TUPLE2 | opcode::TUPLE3 => {
                let mut items = vec![Id(0); usize::from(code - opcode::TUPLE1) + 1];
                for item in items.iter_mut().rev() {
                    *item = self.pop()?;
                }
                self.push(Node::Tuple(items))?;
            }
            opcode::APPEND => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            opcode::APPENDS | opcode::ADDITEMS => {
                let items = self.pop_to_mark()?;
                self.extend(items)?;
            }
            opcode::SETITEM => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(vec![(key, value)])?;
            }
            opcode::SETITEMS => {
                let pairs = pairs(self.pop_to_mark()?)?;
                self.set_items(pairs)?;
            }

            opcode::PUT => {
                let number = text::memo_number(self.input.line()?)?;
                self.memoize(number)?;
            }
            opcode::BINPUT => {
                let [number] = self.input.array("a memo number")?;
                self.memoize(number.into())?;
            }
            opcode::LONG_BINPUT => {
                let number = u32::from_le_bytes(self.input.array("a memo number")?);
                self.memoize(number.into())?;
            }
            opcode::MEMOIZE => self.memoize(self.memo.len() as u64)?,
            opcode::GET => {
                let number = text::memo_number(self.input.line()?)?;
                self.recall(number)?;
            }
            opcode::BINGET => {
                let [number] = self.input.array("a memo number")?;
                self.recall(number.into())?;
            }
            opcode::LONG_BINGET => {
                let number = u32::from_le_bytes(self.input.array("a memo number")?);
                self.recall(number.into())?;
            }

            opcode::GLOBAL => {
                let (module, name) = self.input.two_lines()?;
                self.push_global(module, name)?;
            }
            opcode::STACK_GLOBAL => self.name_from_stack()?,
            opcode::EXT1 | opcode::EXT2 | opcode::EXT4 => {
                let number = self.input.number(1 << (code - opcode::EXT1), "an extension number")?;
                let name = Name { module: "copyreg.extension".into(), name: number.to_string().into() };
                self.push(Node::Global(Box::new(name)))?;
            }
            opcode::REDUCE | opcode::NEWOBJ => {
                let args = self.pop()?;
                let callable = self.pop()?;
                self.push_call(callable, args)?;
            }
            opcode::NEWOBJ_EX => {
                // No known constructor has keyword arguments, so these belong to an unknown class.
                let _keywords = self.pop()?;
                let args = self.pop()?;
                let callable = self.pop()?;
                self.push_call(callable, args)?;
            }
            opcode::INST => {
                let (module, name) = self.input.two_lines()?;
                let args = self.pop_to_mark()?;
                self.push_global(module, name)?;
                let callable = self.pop()?;
                self.push(Node::Tuple(args))?;
                let args = self.pop()?;
                self.push_call(callable, args)?;
            }
            opcode::OBJ => {
                let mut args = self.pop_to_mark()?;
                if args.is_empty() {
                    return Err(Fault::malformed("a class after the mark", "nothing"));
                }
                let callable = args.remove(0);
                self.push(Node::Tuple(args))?;
                let args = self.pop()?;
                self.push_call(callable, args)?;
            }
            opcode::BUILD => {
                let state = self.pop()?;
                match self.top_node()? {
                    Node::Call(call) => call.state = Some(state),
                    _ => return Err(self.wrong_top("an object to give a state to")),
                }
            }
            opcode::PERSID => {
                self.push_line(|line| Ok(Node::Text(String::from_utf8_lossy(line).into())))?;
                let id = self.pop()?;
                self.push(Node::Persistent(id))?;
            }
            opcode::BINPERSID => {
                let id = self.pop()?;
                self.push(Node::Persistent(id))?;
            }
            unknown => {
                return Err(Fault::malformed("a pickle opcode", format!("the byte {unknown:#04x}")));
            }
        }
        Ok(None)
    }
}

fn pairs(items: Vec<Id>) -> Result<Vec<(Id, Id)>, Fault> {
    let (pairs, rest) = items.as_chunks();
    if !rest.is_empty() {
        return Err(Fault::malformed("a value for each key", format!("{} objects", items.len())));
    }
    Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
}

/// A two's complement integer of any length, lowest byte first.
fn little_endian_int(bytes: &[u8]) -> Node {
    if bytes.len() > 16 {
        return Node::HugeInt(bytes.len());
    }
    let negative = bytes.last().is_some_and(|top| top & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    Node::Int(i128::from_le_bytes(wide))
}

/// Python 2 did not distinguish text from bytes; valid text is treated as text.
fn python2_string(bytes: Bytes) -> Node {
    match std::str::from_utf8(&bytes) {
        Ok(text) => Node::Text(text.into()),
        Err(_) => Node::Bytes(bytes),
    }
}
