//! Where calls are made: stacks of frames, each different one described once.
//!
//! A stack is known by the code objects and instructions of its frames. Reading these is all that happens per call; the
//! front turns a stack into text when it is met for the first time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::torch_api::Torch;

/// Stacks told apart; programs that write programs may have more, which then have none.
const MAX_STACKS: u64 = 1 << 16;

/// What the front says of a stack.
pub(super) struct Stack {
    pub(super) id: u64,
    /// The frames as a list in JSON, innermost first.
    pub(super) frames: String,
    /// The operator whose instruction made the call, if one did: `+`, `+=`, `==`.
    pub(super) operator: Option<String>,
    /// Names that the caller's code mentions.
    pub(super) names: Vec<String>,
    /// How many arguments the caller passed by position, if its instruction tells.
    pub(super) positional: Option<usize>,
    /// The names of those that it passed by name.
    pub(super) keywords: Vec<String>,
    /// The parent that such a call has: `optimizer`, `clip_grad`.
    pub(super) parent: Option<String>,
    /// Whether it lies within activation checkpointing, where a forward during a backward is a repeated one.
    pub(super) is_checkpoint: bool,
}

type Key = Vec<(usize, u32)>;

struct Known {
    key: Key,
    stack: Arc<Stack>,
    /// Keeps the addresses in the key from being given to others.
    _codes: Vec<Py<PyAny>>,
}

/// All stacks met so far.
#[derive(Default)]
pub(super) struct Stacks {
    table: Mutex<Table>,
    hasher: RandomState,
}

#[derive(Default)]
struct Table {
    /// By the hash of their keys.
    known: HashMap<u64, Vec<Known>>,
    count: u64,
}

impl Stacks {
    /// The stack of the running call.
    pub(super) fn current(&self, py: Python<'_>, torch: &Torch) -> PyResult<Option<Arc<Stack>>> {
        let mut key = Key::with_capacity(32);
        let mut frame = torch.frame(py)?;
        loop {
            let code = frame.getattr(intern!(py, "f_code"))?;
            let instruction: i64 = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
            key.push((code.as_ptr() as usize, instruction as u32));
            let outer = frame.getattr(intern!(py, "f_back"))?;
            if outer.is_none() {
                break;
            }
            frame = outer;
        }
        let hash = self.hasher.hash_one(&key);
        let (found, count) = self.locked(|table| {
            let same = table.known.get(&hash).and_then(|same| same.iter().find(|known| known.key == key));
            (same.map(|known| Arc::clone(&known.stack)), table.count)
        });
        if found.is_some() || count >= MAX_STACKS {
            return Ok(found);
        }
        self.describe(py, torch, key, hash).map(Some)
    }

    fn describe(&self, py: Python<'_>, torch: &Torch, key: Key, hash: u64) -> PyResult<Arc<Stack>> {
        let frames = PyList::empty(py);
        let mut codes = Vec::with_capacity(key.len());
        let mut frame = torch.frame(py)?;
        while !frame.is_none() {
            let code = frame.getattr(intern!(py, "f_code"))?;
            frames.append((&code, frame.getattr(intern!(py, "f_lasti"))?))?;
            codes.push(code.unbind());
            frame = frame.getattr(intern!(py, "f_back"))?;
        }
        let described = torch.front.bind(py).call_method1(intern!(py, "stack"), (frames,))?;
        let (frames, operator, names, positional, keywords, parent, is_checkpoint) = described.extract()?;
        Ok(self.locked(|table| {
            let id = table.count;
            let stack = Stack { id, frames, operator, names, positional, keywords, parent, is_checkpoint };
            let stack = Arc::new(stack);
            table.count += 1;
            table.known.entry(hash).or_default().push(Known {
                key,
                stack: Arc::clone(&stack),
                _codes: codes,
            });
            stack
        }))
    }

    fn locked<T>(&self, with: impl FnOnce(&mut Table) -> T) -> T {
        with(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
