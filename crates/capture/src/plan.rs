//! What is recorded: the settings of a run, as the recorder needs them.

use std::collections::HashSet;
use std::error;
use std::fmt;
use std::time::Duration;

use thiserror::Error;
use ulpscope_dump::journal::encode::StackForm;
use ulpscope_dump::journal::{Layout, LayoutError};
use ulpscope_dump::writer::TensorFormat;
use ulpscope_kernels::DigestKind;
use ulpscope_tensor::DType;

use crate::backward_names::backward_name;
use crate::limits::Limits;
use crate::name_list::NameList;

/// The settings of a run: see docs/capture.md.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Settings {
    pub task: String,
    pub level: String,
    pub digest: Option<String>,
    pub file_format: String,
    pub stacks: bool,
    pub stack_form: String,
    pub backward_stacks: bool,
    pub skip_scalars: bool,
    pub skip_ints: bool,
    pub skip_single_values: bool,
    /// Empty, or two names.
    pub scope: Vec<String>,
    pub list: Vec<String>,
    pub list_match: String,
    pub tensor_list: Vec<String>,
    /// Whether only calls inside selected modules are recorded.
    pub in_modules: bool,
    pub data_mode: Vec<String>,
    pub max_calls: Option<u64>,
    pub max_bytes: Option<u64>,
    pub strict: bool,
    pub layout: String,
    pub layout_path: Option<String>,
    /// How many of the first elements of each tensor are recorded; `u64::MAX`: all.
    pub sample: Option<u64>,
    pub strides: bool,
    pub inner_calls: bool,
    pub gradients: String,
    pub device_statistics: String,
    /// In seconds.
    pub flush_interval: f64,
    /// The name of a dtype.
    pub would_overflow: Option<String>,
}

impl Default for Settings {
    /// Everything, at level L1, as statistics.
    fn default() -> Settings {
        Settings {
            task: "statistics".to_owned(),
            level: "L1".to_owned(),
            digest: None,
            file_format: "pt".to_owned(),
            stacks: true,
            stack_form: "grouped".to_owned(),
            backward_stacks: false,
            skip_scalars: false,
            skip_ints: false,
            skip_single_values: false,
            scope: Vec::new(),
            list: Vec::new(),
            list_match: "part".to_owned(),
            tensor_list: Vec::new(),
            in_modules: false,
            data_mode: Vec::new(),
            max_calls: None,
            max_bytes: None,
            strict: false,
            layout: "msprobe".to_owned(),
            layout_path: None,
            sample: None,
            strides: false,
            inner_calls: false,
            gradients: "arguments".to_owned(),
            device_statistics: "auto".to_owned(),
            flush_interval: 0.2,
            would_overflow: None,
        }
    }
}

/// An invalid value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownSetting {
    /// A value that is not among the known ones.
    #[error("{setting}: expected {expected}, found {found}")]
    Value {
        /// The setting.
        setting: &'static str,
        /// Its known values.
        expected: String,
        /// The value.
        found: String,
    },
    /// A layout that does not exist, or whose path is wrong.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl UnknownSetting {
    pub(crate) fn new(setting: &'static str, found: &str, expected: &str) -> UnknownSetting {
        UnknownSetting::Value { setting, expected: expected.to_owned(), found: found.to_owned() }
    }
}

/// What is recorded.
#[derive(Debug)]
pub struct Plan {
    /// `statistics`, `tensor`, `structure` or `overflow_check`.
    pub task: String,
    /// `L0`, `L1`, `L2`, `mix` or `debug`.
    pub level: String,
    /// The digest of tensors, if any.
    pub digest: Option<DigestKind>,
    /// The format of tensor files.
    pub format: TensorFormat,
    /// Whether the stack of each call is recorded.
    pub stacks: bool,
    /// The form in which stacks are written.
    pub stack_form: StackForm,
    /// Whether scalar values are left out.
    pub skip_scalars: bool,
    /// Whether integer and boolean tensors are left out.
    pub skip_ints: bool,
    /// Whether tensors without dimensions are left out, and those without elements.
    pub skip_single_values: bool,
    /// Whether backward calls have the stack of their pass.
    pub backward_stacks: bool,
    scope: Option<(String, String)>,
    list: NameList,
    tensor_list: Vec<String>,
    /// Whether the name of a forward call matches a pattern, which selects its backward call, too; `None` if all do.
    call: Option<NameTest>,
    /// Whether only calls inside selected modules are recorded.
    in_modules: bool,
    directions: Either,
    parts: Either,
    /// The limits.
    pub limits: Limits,
    /// Whether recording errors are raised in the program.
    pub strict: bool,
    /// What is made of the journal of a step.
    pub layout: Layout,
    /// Which elements of each tensor are recorded beside its statistics.
    pub sample: Option<Sample>,
    /// Whether the strides of tensors are recorded, and their offset in memory.
    pub strides: bool,
    /// Whether the calls inside torch's own Python functions are recorded.
    pub inner_calls: bool,
    /// Which gradients a backward call has.
    pub gradients: Gradients,
    /// Where tensors are measured.
    pub device_statistics: DeviceStatistics,
    /// How old numbers that have arrived from a device may be before they are written.
    pub flush_interval: Duration,
    /// With task `overflow_check`: the dtype whose range the values are checked for, too.
    pub would_overflow: Option<DType>,
}

/// Where tensors are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceStatistics {
    /// Where they are: those in ordinary memory and on NVIDIA GPUs by the kernels of this project, others by operations
    /// of torch.
    Auto,
    /// In ordinary memory: those of other devices are copied.
    Host,
    /// All of them by operations of torch, where they are.
    Torch,
}

/// Which elements of each tensor are recorded beside its statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Up to this many of the first ones.
    First(usize),
    /// All of them.
    All,
}

/// Which gradients a backward call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradients {
    /// Those of the results and of the arguments of the call.
    Arguments,
    /// Those that enter and leave the last node that the call added to the graph, as in the older tools.
    LastNode,
    /// Of modules those of their results and arguments, of functions those at the last node, as in msprobe 1.1.
    FunctionsLastNode,
}

impl Gradients {
    /// Whether the backward call of such a call is that of one node.
    pub fn are_of_last_node(self, is_module: bool) -> bool {
        match self {
            Gradients::Arguments => false,
            Gradients::LastNode => true,
            Gradients::FunctionsLastNode => !is_module,
        }
    }
}

/// Decides whether a name is selected. It may run code of the front, so no lock may be held during the call.
pub struct NameTest(Box<Test>);

type Test = dyn Fn(&str) -> Result<bool, Interruption> + Send + Sync;

/// An error of the front that must reach the program, whatever became of the call: the user pressed Ctrl-C, say.
pub type Interruption = Box<dyn error::Error + Send + Sync>;

impl NameTest {
    /// Wraps a function.
    pub fn new(test: impl Fn(&str) -> Result<bool, Interruption> + Send + Sync + 'static) -> NameTest {
        NameTest(Box::new(test))
    }
}

impl fmt::Debug for NameTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameTest")
    }
}

/// Which of two halves are selected.
#[derive(Clone, Copy, Debug)]
struct Either {
    first: bool,
    second: bool,
}

/// The position of a run relative to the two names of its scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScopeState {
    #[default]
    /// The first call has not begun.
    Before,
    /// The first has begun, the last has not ended.
    Inside,
    /// The last has ended.
    After,
}

impl Plan {
    /// The plan for the settings.
    pub fn new(settings: Settings) -> Result<Plan, UnknownSetting> {
        let digest = match settings.digest.as_deref() {
            None => None,
            Some("md5") => Some(DigestKind::Crc32),
            Some("xxh3") => Some(DigestKind::Xxh3),
            Some("mix64") => Some(DigestKind::Mix64),
            Some(other) => return Err(UnknownSetting::new("digest", other, "md5, xxh3, mix64")),
        };
        let asked = settings.file_format.as_str();
        let format = TensorFormat::all().find(|format| format.name() == asked).ok_or_else(|| {
            let names: Vec<&str> = TensorFormat::all().map(TensorFormat::name).collect();
            UnknownSetting::new("file_format", asked, &names.join(", "))
        })?;
        let stack_form = match settings.stack_form.as_str() {
            "grouped" => StackForm::Grouped,
            "by_name" => StackForm::ByName,
            other => return Err(UnknownSetting::new("stack_form", other, "grouped, by_name")),
        };
        let scope = match settings.scope.as_slice() {
            [] => None,
            [first, last] => Some((first.clone(), last.clone())),
            names => {
                let expected = "two names, the first and the last";
                return Err(UnknownSetting::new("scope", &names.join(", "), expected));
            }
        };
        let has = |word: &str| settings.data_mode.iter().any(|found| found == word);
        let either = |first: &str, second: &str| match (has(first), has(second)) {
            (false, false) => Either { first: true, second: true },
            (first, second) => Either { first, second },
        };
        let gradients = match settings.gradients.as_str() {
            "arguments" => Gradients::Arguments,
            "last_node" => Gradients::LastNode,
            "functions_last_node" => Gradients::FunctionsLastNode,
            other => {
                let expected = "arguments, last_node, functions_last_node";
                return Err(UnknownSetting::new("gradients", other, expected));
            }
        };
        let device_statistics = match settings.device_statistics.as_str() {
            "auto" => DeviceStatistics::Auto,
            "host" => DeviceStatistics::Host,
            "torch" => DeviceStatistics::Torch,
            other => return Err(UnknownSetting::new("device_statistics", other, "auto, host, torch")),
        };
        let flush_interval = Duration::try_from_secs_f64(settings.flush_interval).map_err(|_| {
            UnknownSetting::new("flush_interval", &settings.flush_interval.to_string(), "seconds from 0 up")
        })?;
        let sample = settings.sample.map(|count| match count {
            u64::MAX => Sample::All,
            count => Sample::First(count as usize),
        });
        let would_overflow = settings.would_overflow.map(|name| {
            let is_float = |dtype: &DType| dtype.float_limits().is_some() && !dtype.is_complex();
            let dtype = name.parse::<DType>().ok().filter(is_float);
            dtype.ok_or_else(|| UnknownSetting::new("would_overflow", &name, "the name of a float dtype"))
        });
        let would_overflow = would_overflow.transpose()?;
        let layout = Layout::new(&settings.layout, settings.layout_path.as_deref())?;
        let list = NameList::new(settings.list, &settings.list_match)?;
        Ok(Plan {
            layout,
            sample,
            strides: settings.strides,
            inner_calls: settings.inner_calls,
            gradients,
            device_statistics,
            flush_interval,
            would_overflow,
            digest,
            format,
            stacks: settings.stacks,
            stack_form,
            skip_scalars: settings.skip_scalars,
            skip_ints: settings.skip_ints,
            skip_single_values: settings.skip_single_values,
            backward_stacks: settings.stacks && settings.backward_stacks,
            scope,
            call: None,
            in_modules: settings.in_modules,
            directions: either("forward", "backward"),
            parts: either("input", "output"),
            limits: Limits::new(settings.max_calls, settings.max_bytes),
            strict: settings.strict,
            task: settings.task,
            level: settings.level,
            list,
            tensor_list: settings.tensor_list,
        })
    }

    /// Whether only names are recorded.
    pub fn is_structure(&self) -> bool {
        self.task == "structure"
    }

    /// Whether calls are checked, and only those that overflowed are recorded.
    pub fn checks_overflow(&self) -> bool {
        self.task == "overflow_check"
    }

    /// Whether calls within modules are recorded, too.
    pub fn sees_apis(&self) -> bool {
        self.level != "L0"
    }

    /// Whether nesting is recorded: at these levels the parent of a call is its module.
    pub fn has_modules(&self) -> bool {
        self.level == "L0" || self.level == "mix"
    }

    /// Whether forward calls are selected.
    pub fn wants_forward(&self) -> bool {
        self.directions.first
    }

    /// Whether backward calls are selected.
    pub fn wants_backward(&self) -> bool {
        self.directions.second
    }

    /// Whether calls below autograd are recorded; those of a backward pass are then recorded like any other. Such a
    /// call may come while torch holds the lock of a tensor, which torch also takes to find the tensor's node.
    fn is_below_autograd(&self) -> bool {
        self.level == "L2"
    }

    /// Whether backward calls are found through the graph.
    pub fn watches_gradients(&self) -> bool {
        self.wants_backward() && !self.is_below_autograd()
    }

    /// The note about backward calls that are not counted, given whether calls were left out.
    pub fn unwatched(&self, has_left_out: bool) -> Option<&'static str> {
        if self.is_below_autograd() {
            return None;
        }
        if !self.wants_backward() {
            return Some("backward calls are not selected: they are neither watched nor counted");
        }
        (has_left_out && self.wants_forward())
            .then_some("the backward calls of calls that were left out are neither watched nor counted")
    }

    /// Whether inputs of calls are recorded.
    pub fn wants_inputs(&self) -> bool {
        self.parts.first && !self.is_structure()
    }

    /// Whether outputs of calls are recorded.
    pub fn wants_outputs(&self) -> bool {
        self.parts.second && !self.is_structure()
    }

    /// Whether statistics of tensors on other devices are computed there, by torch. Digests and samples need the elements
    /// here.
    pub fn measures_by_torch(&self) -> bool {
        self.device_statistics != DeviceStatistics::Host && self.digest.is_none() && self.sample.is_none()
    }

    /// Whether tensors on GPUs are measured there by our own kernel, which has one kind of digest.
    pub fn measures_by_kernel(&self) -> bool {
        self.device_statistics == DeviceStatistics::Auto
            && self.digest.is_none_or(|kind| kind == DigestKind::Mix64)
            && self.sample.is_none()
    }

    /// Whether the calls of captured graphs can be written when these are replayed: as numbers, which our own kernel
    /// measures; and all of them, because whether a call is selected by its number is known too late.
    pub fn records_graphs(&self) -> bool {
        self.task == "statistics"
            && self.measures_by_kernel()
            && self.tensor_list.is_empty()
            && self.call.is_none()
            && !self.has_scope()
            && !self.has_list()
    }

    /// Whether tensors on devices that get files are copied without waiting. Their first elements have no room in a line
    /// that is written before they arrive.
    pub fn copies_late(&self) -> bool {
        self.device_statistics == DeviceStatistics::Auto && self.sample.is_none() && !self.checks_overflow()
    }

    /// Whether the tensors of a call get files.
    pub fn saves(&self, name: &str) -> bool {
        self.task == "tensor"
            || self.checks_overflow()
            || self.tensor_list.iter().any(|part| name.contains(part.as_str()))
    }

    /// Whether a name is on the list; an empty list includes everything.
    pub fn is_listed(&self, name: &str) -> bool {
        self.list.is_empty() || self.has_listed(name)
    }

    /// Whether a name matches an entry of the list.
    pub fn has_listed(&self, name: &str) -> bool {
        self.list.matches(name).next().is_some()
    }

    /// Whether the backward call of a forward call is on the list: each of the two is selected by its own name.
    pub fn is_backward_listed(&self, forward: &str) -> bool {
        self.list.is_empty() || self.has_listed_backward(forward)
    }

    /// Whether the name of the backward call of a forward call matches an entry of the list.
    pub fn has_listed_backward(&self, forward: &str) -> bool {
        self.has_list() && backward_name(forward).is_some_and(|name| self.has_listed(&name))
    }

    /// Notes which entries of the list a name matches.
    pub fn match_list(&self, name: &str, matched: &mut HashSet<usize>) {
        matched.extend(self.list.matches(name));
    }

    /// Whether calls are selected by a list of names.
    pub fn has_list(&self) -> bool {
        !self.list.is_empty()
    }

    /// Notes about names in the settings that matched no call of a step, given its position in the scope and the
    /// matched entries of the list.
    pub fn unmatched(&self, scope: ScopeState, listed: &HashSet<usize>) -> Vec<String> {
        if self.level == "debug" {
            return Vec::new();
        }
        let scope = self.scope.as_ref().and_then(|(first, last)| match scope {
            ScopeState::Before => {
                Some(format!("scope: no call {first} was seen in this step: nothing of it is recorded"))
            }
            ScopeState::Inside => Some(format!(
                "scope: no call {last} was seen after {first} in this step: everything from there to its end is recorded"
            )),
            ScopeState::After => None,
        });
        scope.into_iter().chain(self.list.unmatched(listed)).collect()
    }

    /// Whether a call that begins is in the scope, which it may open: both ends are included. A scope is an interval of
    /// time: backward calls are in it if they run then. `is_within_first`: the call is part of the first one.
    pub fn in_scope(&self, name: &str, is_within_first: bool, state: &mut ScopeState) -> bool {
        let Some((first, _)) = &self.scope else { return true };
        if *state == ScopeState::Before && (is_within_first || name == first) {
            *state = ScopeState::Inside;
        }
        *state == ScopeState::Inside
    }

    /// Whether the scope begins with the backward call of a forward call. The calls inside a module report their
    /// gradients before the module does.
    pub fn begins_with_backward_of(&self, forward: &str) -> bool {
        let is_first = |name: String| self.scope.as_ref().is_some_and(|(first, _)| *first == name);
        self.has_scope() && backward_name(forward).is_some_and(is_first)
    }

    /// Closes the scope if the call that ends is its last: calls inside a module belong to it.
    pub fn leave_scope(&self, name: &str, state: &mut ScopeState) {
        if self.scope.as_ref().is_some_and(|(_, last)| last == name) && *state == ScopeState::Inside {
            *state = ScopeState::After;
        }
    }

    /// Selects forward calls by a test of their names.
    pub fn with_call_test(self, test: NameTest) -> Plan {
        Plan { call: Some(test), ..self }
    }

    /// Whether a forward call is selected by its name and its modules: `is_inside` says whether one of these is
    /// selected.
    pub fn is_selected(&self, name: &str, is_inside: bool) -> Result<bool, Interruption> {
        match &self.call {
            _ if self.in_modules && !is_inside => Ok(false),
            Some(test) => (test.0)(name),
            None => Ok(true),
        }
    }

    /// Whether calls are selected by their names or modules.
    pub fn selects(&self) -> bool {
        self.scope.is_some() || !self.list.is_empty() || self.call.is_some() || self.in_modules
    }

    /// Whether calls are selected in another way than by the first and the last of them.
    pub fn selects_without_scope(&self) -> bool {
        self.selects() && !self.has_scope()
    }

    /// Whether calls are selected by the first and the last of them.
    pub fn has_scope(&self) -> bool {
        self.scope.is_some()
    }
}
