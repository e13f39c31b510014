//! Where calls are made: stacks of frames, each different one described once.
//!
//! A stack is identified by the code objects and instructions of its frames. Only these are read per call. The front
//! converts a stack to text when it is new, or each time if there are too many to keep.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use ulpscope_capture::{AddressHasher, CallStack};

use crate::capture::calls::frame_reader::each_frame;
use crate::capture::torch_api::Torch;

/// Bytes of stacks that are kept. Recursive programs, and programs that generate code, may have more: then the names of
/// a call are computed each time, and its stack is not in the dump.
const MAX_KEPT: usize = 48 << 20;

/// Approximate bytes of a stack besides its texts and frames, and of a frame.
const STACK_SIZE: usize = 256;
const FRAME_SIZE: usize = size_of::<(usize, u32)>() + size_of::<Py<PyAny>>();

/// The ledger's note if not all stacks are kept.
pub(in crate::capture) const TOO_MANY: &str =
    "the program makes calls from more places than are kept: those of later calls are not in the dump";

type Key = Vec<(usize, u32)>;

struct Known {
    key: Key,
    stack: Arc<CallStack>,
    /// Keeps the objects alive, so that the addresses in the key are not reused.
    _codes: Vec<Py<PyAny>>,
}

/// All stacks so far.
#[derive(Default)]
pub(in crate::capture) struct Stacks {
    table: Mutex<Table>,
    hasher: BuildHasherDefault<AddressHasher>,
}

#[derive(Default)]
struct Table {
    /// By the hash of their keys.
    known: HashMap<u64, Vec<Known>, BuildHasherDefault<AddressHasher>>,
    count: u64,
    bytes: usize,
}

impl Stacks {
    /// The stack of the running call.
    pub(in crate::capture) fn current(
        &self,
        py: Python<'_>,
        torch: &Torch,
    ) -> PyResult<Option<Arc<CallStack>>> {
        let mut key = Key::with_capacity(32);
        each_frame(py, torch, |code, instruction| {
            key.push((code.as_ptr() as usize, instruction as u32));
            Ok(())
        })?;
        let hash = self.hasher.hash_one(&key);
        let found = self.locked(|table| {
            let same = table.known.get(&hash).and_then(|same| same.iter().find(|known| known.key == key));
            same.map(|known| Arc::clone(&known.stack))
        });
        if found.is_some() {
            return Ok(found);
        }
        self.describe(py, torch, key, hash).map(Some)
    }

    fn describe(&self, py: Python<'_>, torch: &Torch, key: Key, hash: u64) -> PyResult<Arc<CallStack>> {
        let frames = PyList::empty(py);
        let mut codes = Vec::with_capacity(key.len());
        each_frame(py, torch, |code, instruction| {
            frames.append((&code, instruction))?;
            codes.push(code.unbind());
            Ok(())
        })?;
        let described = torch.front.bind(py).call_method1(intern!(py, "stack"), (frames,))?;
        let (frames, operator, names, positional, keywords, parent, is_checkpoint) = described.extract()?;
        let mut stack = CallStack {
            id: 0,
            is_kept: false,
            frames,
            operator,
            names,
            positional,
            keywords,
            parent,
            is_checkpoint,
        };
        Ok(self.locked(|table| {
            let bytes = size_of_stack(&stack) + key.len() * FRAME_SIZE;
            stack.is_kept = table.bytes + bytes <= MAX_KEPT;
            stack.id = table.count;
            let stack = Arc::new(stack);
            if stack.is_kept {
                table.count += 1;
                table.bytes += bytes;
                let known = Known { key, stack: Arc::clone(&stack), _codes: codes };
                table.known.entry(hash).or_default().push(known);
            }
            stack
        }))
    }

    fn locked<T>(&self, with: impl FnOnce(&mut Table) -> T) -> T {
        with(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The approximate bytes of a stack.
fn size_of_stack(stack: &CallStack) -> usize {
    let texts = stack.names.iter().chain(&stack.keywords).map(|text| text.len() + size_of::<String>());
    STACK_SIZE + stack.frames.len() + texts.sum::<usize>()
}
