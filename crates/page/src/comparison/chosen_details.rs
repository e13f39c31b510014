//! Which details are stored in a page: as many as fit into a file that can be mailed, and that are read in seconds.

use std::io;

use ulpscope_report::page::{Effort, deflate};

use super::dump_parts::DumpParts;
use crate::details::Detail;
use crate::parts::Parts;

/// Compressed bytes of details in a page.
const MAX_BYTES: u64 = 1 << 20;

/// Elements of tensors that are read for them.
const MAX_ELEMENTS: u64 = 1 << 28;

/// Calls with details in a page.
pub(super) const MAX_DETAILS: usize = 4096;

/// What is left for details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DetailBudget {
    bytes: u64,
    elements: u64,
}

impl Default for DetailBudget {
    fn default() -> DetailBudget {
        DetailBudget { bytes: MAX_BYTES, elements: MAX_ELEMENTS }
    }
}

impl DetailBudget {
    /// The part of the budget for one of so many ranks. The first gets half of it.
    pub(crate) fn share(&self, ranks_left: usize) -> DetailBudget {
        let parts = ranks_left.clamp(1, 2) as u64;
        DetailBudget { bytes: self.bytes / parts, elements: self.elements / parts }
    }

    /// Takes what a rank used; `left` is what it left of its share.
    pub(crate) fn take(&mut self, share: DetailBudget, left: DetailBudget) {
        self.bytes -= share.bytes - left.bytes;
        self.elements -= share.elements - left.elements;
    }

    /// Stores details of calls in this order, as long as the budget lasts. Returns whether each call has some.
    pub(super) fn write_details(
        &mut self,
        rank: usize,
        chosen: &[usize],
        from: &DumpParts<'_>,
        parts: &mut Parts,
    ) -> io::Result<Vec<bool>> {
        self.write(rank, chosen, |call| from.detail(call), parts)
    }

    /// Likewise, from any source of details.
    pub(crate) fn write(
        &mut self,
        rank: usize,
        chosen: &[usize],
        detail: impl Fn(usize) -> Detail,
        parts: &mut Parts,
    ) -> io::Result<Vec<bool>> {
        let mut has = vec![false; chosen.iter().max().map_or(0, |last| last + 1)];
        for &call in chosen.iter().take(MAX_DETAILS) {
            let Detail { document, elements } = detail(call);
            let part = deflate(document.to_string().as_bytes(), Effort::Small)?;
            let size = part.len() as u64;
            if size > self.bytes {
                break;
            }
            parts.add_compressed(format!("detail/{rank}/{call}"), &part)?;
            has[call] = true;
            self.bytes -= size;
            self.elements = self.elements.saturating_sub(elements);
            if self.elements == 0 {
                break;
            }
        }
        Ok(has)
    }
}
