//! The opcode machine: a stack with marks and a memo. It executes nothing.

use std::collections::HashMap;

use super::input::Input;
use super::{Call, Id, Name, Node, Pickle, describe, refused};
use crate::budget::{Budget, allocated};
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};

/// Maximum number of objects in a pickle. Each needs at least one byte of the file: this limits very large files,
/// and small files are limited by their own size.
const MAX_NODES: usize = 1 << 25;

/// Longer than the name of any module or class. A name may be built from memoized text again and again, so without
/// a limit a short pickle could request any amount of memory.
const MAX_NAME: usize = 1024;

/// A node in its list, with its place.
const NODE_SIZE: usize = size_of::<Node>() + size_of::<u32>();

/// An entry of the memo table, which is at most seven eighths full and exists twice while it grows.
const MEMO_SIZE: usize = 3 * size_of::<(u64, Id)>();

/// What a container may need beyond the added item: the smallest list has capacity for four.
const GROWN_SIZE: usize = 32;

pub(super) struct Machine<'a> {
    pub input: Input<'a>,
    /// The byte of the current opcode.
    opcode_at: usize,
    nodes: Vec<Node>,
    places: Vec<u32>,
    budget: &'a Budget,
    pub stack: Vec<Id>,
    /// Stack heights at each open mark.
    pub marks: Vec<usize>,
    pub memo: HashMap<u64, Id>,
}

/// Reads one pickle from byte `start` of `source`, up to and including its `STOP`. Its objects are charged to `budget`.
pub(crate) fn read(source: &Bytes, start: usize, budget: &Budget) -> Result<Pickle, Error> {
    let mut machine = Machine {
        input: Input::new(source, start),
        opcode_at: start,
        nodes: Vec::new(),
        places: Vec::new(),
        budget,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    loop {
        machine.opcode_at = machine.input.at();
        let place = Place::Byte(machine.opcode_at as u64);
        if let Some(root) = machine.step().map_err(|fault| Error::at(place, fault))? {
            let range = start..machine.input.at();
            return Ok(Pickle { nodes: machine.nodes, places: machine.places, root, range });
        }
    }
}

impl Machine<'_> {
    pub fn push(&mut self, node: Node) -> Result<(), Fault> {
        if self.nodes.len() >= MAX_NODES {
            return Err(Fault::TooLarge {
                what: "number of objects in a pickle",
                limit: MAX_NODES as u64,
                found: self.nodes.len() as u64 + 1,
            });
        }
        self.charge(NODE_SIZE + node.owned_size())?;
        let id = Id(self.nodes.len() as u32);
        self.nodes.push(node);
        self.places.push(u32::try_from(self.opcode_at).unwrap_or(u32::MAX));
        self.push_id(id)
    }

    /// Puts a known object on the stack.
    pub fn push_id(&mut self, id: Id) -> Result<(), Fault> {
        // One byte of the file is enough for this: the stack grows by more than the file.
        self.charge(size_of::<Id>())?;
        self.stack.push(id);
        Ok(())
    }

    pub fn push_mark(&mut self) -> Result<(), Fault> {
        self.charge(size_of::<usize>())?;
        self.marks.push(self.stack.len());
        Ok(())
    }

    pub fn charge(&self, bytes: usize) -> Result<(), Fault> {
        self.budget.charge("objects of a pickle", bytes)
    }

    pub fn push_line(&mut self, parse: impl Fn(&[u8]) -> Result<Node, Fault>) -> Result<(), Fault> {
        let node = parse(self.input.line()?)?;
        self.push(node)
    }

    pub fn push_marked(&mut self, node: fn(Vec<Id>) -> Node) -> Result<(), Fault> {
        let items = self.pop_to_mark()?;
        self.push(node(items))
    }

    pub fn push_global(&mut self, module: String, name: String) -> Result<(), Fault> {
        let length = module.len().max(name.len());
        if length > MAX_NAME {
            return Err(Fault::TooLarge {
                what: "length of a name",
                limit: MAX_NAME as u64,
                found: length as u64,
            });
        }
        // Some modules have different names in Python 2 and 3; torch's protocol 2 keeps the old ones.
        let module = match module.as_str() {
            "__builtin__" => "builtins".to_owned(),
            "copy_reg" => "copyreg".to_owned(),
            _ => module,
        };
        if refused::is_refused(&module, &name) {
            return Err(Fault::WouldRun(shortened(&format!("{module}.{name}"))));
        }
        self.push(Node::Global(Box::new(Name { module: module.into(), name: name.into() })))
    }

    pub fn push_call(&mut self, callable: Id, args: Id) -> Result<(), Fault> {
        self.push(Node::Call(Box::new(Call {
            callable,
            args,
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
        })))
    }

    /// The number of stack items above the last open mark.
    fn available(&self) -> usize {
        self.stack.len() - self.marks.last().copied().unwrap_or(0)
    }

    pub fn top(&self) -> Result<Id, Fault> {
        match self.stack.last() {
            Some(&top) if self.available() > 0 => Ok(top),
            _ => Err(Fault::malformed("an object on the stack", "nothing")),
        }
    }

    pub fn top_node(&mut self) -> Result<&mut Node, Fault> {
        let top = self.top()?;
        Ok(&mut self.nodes[top.0 as usize])
    }

    /// The error if the object on top of the stack has the wrong kind.
    pub fn wrong_top(&self, expected: &str) -> Fault {
        let found = self.stack.last().map_or_else(|| "nothing".to_owned(), |&top| describe(&self.nodes, top));
        Fault::malformed(expected, found)
    }

    pub fn pop(&mut self) -> Result<Id, Fault> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Turns the two texts on top of the stack into the class or function they name.
    pub fn name_from_stack(&mut self) -> Result<(), Fault> {
        let name = self.pop()?;
        let module = self.pop()?;
        match (&self.nodes[module.0 as usize], &self.nodes[name.0 as usize]) {
            (Node::Text(module), Node::Text(name)) => {
                let (module, name) = (module.to_string(), name.to_string());
                self.push_global(module, name)
            }
            _ => {
                let found = [module, name].map(|id| describe(&self.nodes, id)).join(" and ");
                Err(Fault::malformed("the texts of a module and a name", found))
            }
        }
    }

    pub fn pop_to_mark(&mut self) -> Result<Vec<Id>, Fault> {
        let Some(mark) = self.marks.pop() else {
            return Err(Fault::malformed("a mark on the stack", "none"));
        };
        let items = self.stack[mark..].to_vec();
        self.stack.truncate(mark);
        Ok(items)
    }

    pub fn memoize(&mut self, number: u64) -> Result<(), Fault> {
        let top = self.top()?;
        self.charge(MEMO_SIZE)?;
        self.memo.insert(number, top);
        Ok(())
    }

    pub fn recall(&mut self, number: u64) -> Result<(), Fault> {
        let Some(&id) = self.memo.get(&number) else {
            return Err(Fault::malformed(
                "a memo number in use",
                format!("{number} among {} memos", self.memo.len()),
            ));
        };
        self.push_id(id)
    }

    pub fn extend(&mut self, new: Vec<Id>) -> Result<(), Fault> {
        self.charge(GROWN_SIZE + size_of_val(new.as_slice()))?;
        match self.top_node()? {
            Node::List(items) | Node::Set(items) => items.extend(new),
            Node::Call(call) => call.items.extend(new),
            _ => return Err(self.wrong_top("a list or set to add to")),
        }
        Ok(())
    }

    pub fn set_items(&mut self, new: Vec<(Id, Id)>) -> Result<(), Fault> {
        self.charge(GROWN_SIZE + size_of_val(new.as_slice()))?;
        match self.top_node()? {
            Node::Dict(pairs) => pairs.extend(new),
            Node::Call(call) => call.pairs.extend(new),
            _ => return Err(self.wrong_top("a dictionary to set items in")),
        }
        Ok(())
    }
}

impl Node {
    /// The memory of a node outside of its list.
    fn owned_size(&self) -> usize {
        match self {
            Node::None | Node::Bool(_) | Node::Int(_) | Node::HugeInt(_) | Node::Float(_) => 0,
            // Bytes are in the file; text is a copy.
            Node::Bytes(_) | Node::Persistent(_) => 0,
            Node::Text(text) => allocated(text.len()),
            Node::List(items) | Node::Tuple(items) | Node::Set(items) | Node::FrozenSet(items) => {
                allocated(size_of_val(items.as_slice()))
            }
            Node::Dict(pairs) => allocated(size_of_val(pairs.as_slice())),
            Node::Global(global) => {
                allocated(size_of::<Name>()) + allocated(global.module.len()) + allocated(global.name.len())
            }
            Node::Call(call) => allocated(size_of_val(&**call)),
        }
    }
}
