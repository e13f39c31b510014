//! A rank that shows other entries than it recorded, or not all of its calls: several ranks as one.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ulpscope_formats::pkl_lines::Frame;
use ulpscope_formats::{Error, Tensor};

use crate::entry::Entry;
use crate::ledger::Ledger;
use crate::names::Names;
use crate::problems::Problems;
use crate::rank::{Index, Rank, Source};

/// The entries that a rank shows in the place of its own.
pub trait RankView: Send + Sync {
    /// The entries of a call, by its number in the rank itself.
    fn entries(&self, call: usize) -> Result<Vec<Entry>, Error>;

    /// What could not be read besides the rank itself.
    fn problems(&self) -> Problems;
}

/// Elements that are put together when they are needed, and not kept.
pub trait AssembledTensor: fmt::Debug + Send + Sync {
    /// The elements.
    fn tensor(&self) -> Result<Tensor, Error>;
}

/// A rank behind a view.
struct Viewed {
    rank: Arc<Rank>,
    /// By number of a call that is shown: its number in the rank.
    calls: Vec<u32>,
    view: Box<dyn RankView>,
}

impl Viewed {
    fn call(&self, call: usize) -> usize {
        self.calls[call] as usize
    }
}

impl Source for Viewed {
    fn entries(&self, _index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        self.view.entries(self.call(call))
    }

    fn stack(&self, _index: &Index, call: usize) -> Option<Vec<String>> {
        self.rank.stack(self.call(call))
    }

    fn frames(&self, _index: &Index, call: usize) -> Option<Vec<Frame>> {
        self.rank.frames(self.call(call))
    }

    fn has_stacks(&self, _index: &Index) -> bool {
        self.rank.has_stacks()
    }

    fn parent(&self, _index: &Index, call: usize) -> Option<String> {
        self.rank.parent(self.call(call))
    }

    fn data_folder(&self) -> Option<&Path> {
        self.rank.source.data_folder()
    }

    fn ledger(&self) -> Option<Ledger> {
        self.rank.ledger()
    }

    fn is_journal(&self) -> bool {
        self.rank.is_journal()
    }

    fn notes(&self) -> &[String] {
        self.rank.notes()
    }

    fn late_problems(&self) -> Problems {
        let mut problems = self.rank.problems();
        problems.extend(self.view.problems());
        problems
    }
}

impl Rank {
    /// The rank with some of its calls, in order, and with the entries of a view.
    pub fn viewed(self: Arc<Rank>, calls: Vec<u32>, view: Box<dyn RankView>) -> Rank {
        let mut names = Names::default();
        let shown = calls.iter().map(|&call| {
            let mut shown = self.calls()[call as usize].clone();
            shown.base = names.id(self.base(shown.base));
            shown
        });
        let shown = shown.collect();
        Rank {
            path: self.path.clone(),
            tool: self.tool,
            task: self.task,
            level: self.level.clone(),
            index: Index { names, calls: shown, running: Vec::new(), ..Index::default() },
            problems: Problems::default(),
            part_files: Default::default(),
            moved: None,
            source: Box::new(Viewed { rank: self, calls, view }),
        }
    }
}
