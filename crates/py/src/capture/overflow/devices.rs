//! Values on other devices: measured there, without waiting, and judged when their numbers have arrived.
//!
//! ```text
//! a call ──► its results and inputs are measured (device/queue.rs) ──► expected calls, in order
//!                                                                        │ numbers arrive
//! front, ledger ◄── born, inherited, saturated ◄── judged by later calls, by the thread, when the step ends
//! ```
//! Most inputs are results of earlier calls that were not changed since: their numbers are known, or on their way.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use ulpscope_capture::{CallRecord, CallStack, NOT_ARRIVED, ON_DEVICE, Overflow, StepId};
use ulpscope_dump::journal::encode::Ticket;
use ulpscope_dump::writer::LateNumbers;
use ulpscope_kernels::{Reach, Stats};
use ulpscope_tensor::{DType, Scalar};

use crate::capture::calls::call_in_progress::version;
use crate::capture::device::one_thread::OneThread;
use crate::capture::overflow::SWEEP;
use crate::capture::overflow::calls::why_left_out;
use crate::capture::overflow::reaches::{Found, has_floats};
use crate::capture::recorder::Recorder;
use crate::capture::torch_api::Torch;

/// The ledger's note where a call was found after it had returned.
const FOUND_LATER: &str = "overflow: calls on a device are found after they have returned: their tensors are not in \
                           the dump; overflow_rank*.jsonl has their stacks";

/// How far a tensor on a device goes, once its numbers have arrived.
pub(super) struct Measured {
    ticket: Ticket,
    dtype: DType,
    /// A [`Reach`] as a number, [`AWAITED`] or [`LOST`].
    reach: AtomicU8,
}

const AWAITED: u8 = u8::MAX;
const LOST: u8 = u8::MAX - 1;

/// How far some values go: those that were read here, and those that devices measure.
#[derive(Clone, Default)]
pub(super) struct Extent {
    pub(super) here: Reach,
    pub(super) there: Vec<Arc<Measured>>,
    /// Whether some could not be read.
    pub(super) is_partial: bool,
}

/// How far values go, whose numbers have arrived or are lost.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    reach: Reach,
    /// Whether some are not known.
    is_partial: bool,
}

impl Arrived {
    /// What a call shows.
    fn overflow(inputs: Arrived, results: Reach) -> Option<Overflow> {
        match inputs.is_partial {
            true => Overflow::of_partly_read(inputs.reach, results),
            false => Overflow::of(inputs.reach, results),
        }
    }
}

impl Extent {
    /// Adds other values.
    pub(super) fn add(&mut self, other: &Extent) {
        self.here = self.here.max(other.here);
        self.there.extend(other.there.iter().map(Arc::clone));
        self.is_partial |= other.is_partial;
    }
}

/// A call whose numbers have not all arrived.
pub(super) struct ExpectedCall {
    pub(super) name: Arc<str>,
    pub(super) step: StepId,
    pub(super) inputs: Extent,
    pub(super) results: Extent,
    pub(super) stack: Option<Arc<CallStack>>,
    /// Whether the calls inside it were checked, too: its place when it began.
    pub(super) began_at: Option<u64>,
}

struct Waiting {
    call: ExpectedCall,
    /// Its place in the order of the run.
    place: u64,
    /// Whether a loss scaler multiplied the loss with it.
    is_scaling: bool,
}

/// Tensors whose numbers are known or on their way, by address: weak references and change counts.
type Known = HashMap<usize, (Py<PyAny>, u64, Arc<Measured>)>;

/// What is known of values on devices.
#[derive(Default)]
pub(in crate::capture) struct DeviceChecks {
    /// Numbers that have arrived, and that no line has room for.
    numbers: Arc<LateNumbers>,
    known: Mutex<Known>,
    waiting: Mutex<VecDeque<Waiting>>,
    /// The thread that judges: calls are reported in order.
    judge: OneThread,
    /// How many calls had a place in the order of the run.
    places: AtomicU64,
    /// The place of the last origin, counted from one.
    last_origin: AtomicU64,
    /// Whether a loss scaler multiplies the loss right now.
    is_scaling: AtomicBool,
}

impl DeviceChecks {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of the next call in the order of the run.
    pub(super) fn next_place(&self) -> u64 {
        self.places.load(Ordering::Relaxed)
    }

    /// Whether a call that began at a place has an origin inside it.
    pub(super) fn has_origin_since(&self, place: u64) -> bool {
        self.last_origin.load(Ordering::Relaxed) > place
    }

    /// Notes that a call that was judged at once is an origin.
    pub(super) fn note_origin(&self) {
        let place = self.places.fetch_add(1, Ordering::Relaxed);
        self.last_origin.fetch_max(place + 1, Ordering::Relaxed);
    }

    pub(super) fn is_scaling(&self) -> bool {
        self.is_scaling.load(Ordering::Relaxed)
    }

    pub(in crate::capture) fn set_scaling(&self, is_scaling: bool) {
        self.is_scaling.store(is_scaling, Ordering::Relaxed);
    }

    /// How far a tensor goes, if its numbers have arrived.
    fn reach(&self, measured: &Measured) -> u8 {
        let known = measured.reach.load(Ordering::Acquire);
        if known != AWAITED {
            return known;
        }
        match self.numbers.take(measured.ticket) {
            Some(numbers) => {
                let reach = reach_of(&numbers.stats, measured.dtype) as u8;
                measured.reach.store(reach, Ordering::Release);
                reach
            }
            // Another thread may have taken them meanwhile.
            None => measured.reach.load(Ordering::Acquire),
        }
    }

    /// How far values go, if all numbers have arrived or are lost.
    fn arrived(&self, extent: &Extent) -> Option<Arrived> {
        let mut all = Arrived { reach: extent.here, is_partial: extent.is_partial };
        for measured in &extent.there {
            match self.reach(measured) {
                AWAITED => return None,
                LOST => all.is_partial = true,
                found => all.reach = all.reach.max(reach_from(found)),
            }
        }
        Some(all)
    }
}

impl Recorder {
    /// How far values go, with those that their devices begin to measure now.
    pub(super) fn extent_of(&self, py: Python<'_>, found: &Found<'_>) -> PyResult<Extent> {
        let mut extent = Extent { here: found.reach, there: Vec::new(), is_partial: found.is_partial };
        self.measured_together(py, || {
            for tensor in &found.remote {
                match self.measured(tensor)? {
                    Some(measured) => extent.there.push(measured),
                    None => extent.is_partial |= has_floats(tensor)?,
                }
            }
            Ok(())
        })?;
        Ok(extent)
    }

    /// A tensor that its device measures, or has measured since its last change; `None` if it has no floats, or cannot be
    /// measured.
    fn measured(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Measured>>> {
        if !has_floats(tensor)? {
            return Ok(None);
        }
        let devices = &self.overflow.devices;
        let at = version(tensor);
        if let Some((address, now)) = at
            && let Some((reference, then, measured)) = devices.known().get(&address)
            && *then == now
            && Torch::refers_to(reference, tensor)
        {
            return Ok(Some(Arc::clone(measured)));
        }
        let Some(remote) =
            self.queue_for(tensor, self.find_on_gpu(tensor)?, Arc::clone(&devices.numbers), true)?
        else {
            return Ok(None);
        };
        let Ok(dtype) = remote.dtype.parse() else { return Ok(None) };
        let measured = Arc::new(Measured { ticket: remote.ticket, dtype, reach: AtomicU8::new(AWAITED) });
        if let Some((address, now)) = at {
            let reference = self.torch.weak_reference(tensor)?;
            let _freed = {
                let mut known = devices.known();
                let freed =
                    if known.len() >= SWEEP { std::mem::take(&mut *known) } else { Default::default() };
                (freed, known.insert(address, (reference, now, Arc::clone(&measured))))
            };
        }
        Ok(Some(measured))
    }

    /// What a call shows whose bad result is in ordinary memory, or that set the flag of the device. Its inputs are waited
    /// for: torch, or the question for the flag, has waited for the device, too.
    pub(super) fn overflow_of(
        &self,
        py: Python<'_>,
        inputs: &Extent,
        results: &Extent,
        is_flagged: bool,
    ) -> PyResult<Option<Overflow>> {
        let mut inputs = self.wait_for_extent(py, inputs)?;
        if !is_flagged {
            return Ok(Arrived::overflow(inputs, results.here));
        }
        // Chips with a flag may saturate: there the largest number is what infinity is elsewhere.
        if inputs.reach > Reach::InRange {
            inputs.reach = inputs.reach.max(Reach::Infinite);
        }
        let results = self.wait_for_extent(py, results)?;
        Ok(Arrived::overflow(inputs, results.reach.max(Reach::Infinite)))
    }

    /// How far values go, after waiting for their numbers.
    fn wait_for_extent(&self, py: Python<'_>, extent: &Extent) -> PyResult<Arrived> {
        let devices = &self.overflow.devices;
        if devices.arrived(extent).is_none() {
            self.arrivals.wait_for(py, &devices.numbers)?;
        }
        Ok(devices.arrived(extent).unwrap_or(Arrived { reach: extent.here, is_partial: true }))
    }

    /// Adds a call that is judged when its numbers have arrived. Returns the error that ends the run, if an earlier call
    /// does.
    pub(super) fn expect_call(
        &self,
        slf: &Bound<'_, Recorder>,
        call: ExpectedCall,
    ) -> PyResult<Option<PyErr>> {
        let devices = &self.overflow.devices;
        let is_scaling = devices.is_scaling();
        let is_first = {
            let mut waiting = devices.waiting();
            let place = devices.places.fetch_add(1, Ordering::Relaxed);
            waiting.push_back(Waiting { call, place, is_scaling });
            waiting.len() == 1
        };
        if is_first {
            self.arrivals.set_judge(Some(slf.clone().unbind()));
        }
        self.judge_arrived(slf.py())?;
        Ok(self.overflow.take_ending())
    }

    /// Judges the calls whose numbers have arrived, in order. An error that ends the run is kept for `end_run`.
    pub(in crate::capture) fn judge_arrived(&self, py: Python<'_>) -> PyResult<()> {
        match self.overflow.devices.judge.begin() {
            Some(_judging) => self.judge_waiting(py, false),
            None => Ok(()),
        }
    }

    /// Waits for the devices, and judges all calls so far. An error that ends the run is kept for `end_run`.
    pub(in crate::capture) fn judge_all(&self, py: Python<'_>) -> PyResult<()> {
        let devices = &self.overflow.devices;
        // What this thread is waiting for is not lost: a finalizer that runs meanwhile leaves it to the rest.
        if !self.is_own_process() || devices.waiting().is_empty() || self.arrivals.are_awaited_here() {
            return Ok(());
        }
        let waited = self.arrivals.wait_for(py, &devices.numbers);
        // A report of this thread that comes back here is followed by the rest.
        let Some(_judging) = devices.judge.wait(py) else { return waited };
        self.judge_waiting(py, true)?;
        waited
    }

    fn judge_waiting(&self, py: Python<'_>, are_lost: bool) -> PyResult<()> {
        let devices = &self.overflow.devices;
        loop {
            let mut waiting = devices.waiting();
            let Some(Waiting { call, .. }) = waiting.front() else { break };
            let mut reaches = (devices.arrived(&call.inputs), devices.arrived(&call.results));
            if are_lost && (reaches.0.is_none() || reaches.1.is_none()) {
                let lost = call.inputs.there.iter().chain(&call.results.there);
                lost.filter(|one| devices.reach(one) == AWAITED).for_each(|one| {
                    one.reach.store(LOST, Ordering::Release);
                    self.in_step(call.step, |state| state.ledger.unread(NOT_ARRIVED.to_owned()));
                });
                reaches = (devices.arrived(&call.inputs), devices.arrived(&call.results));
            }
            let (Some(inputs), Some(results)) = reaches else { break };
            let front = waiting.pop_front();
            drop(waiting);
            if let Some(front) = front {
                self.judge(py, &front, Arrived::overflow(inputs, results.reach))?;
            }
        }
        if devices.waiting().is_empty() {
            self.arrivals.set_judge(None);
        }
        Ok(())
    }

    fn judge(&self, py: Python<'_>, waiting: &Waiting, overflow: Option<Overflow>) -> PyResult<()> {
        let Waiting { call, place, is_scaling } = waiting;
        let devices = &self.overflow.devices;
        let Some(overflow) = overflow else {
            self.skip_in_range(call.step);
            return Ok(());
        };
        // The calls inside it have been judged: one of them is the origin.
        let is_from_inside = call.began_at.is_some_and(|place| devices.has_origin_since(place));
        let overflow = if is_from_inside { Overflow::InheritedInfinity } else { overflow };
        self.in_step(call.step, |state| {
            let is_news = state.overflows.add(overflow, &call.name);
            state.ledger.skip(if is_news { ON_DEVICE } else { why_left_out(overflow) });
            if is_news {
                state.note_once(FOUND_LATER);
            }
        });
        if overflow != Overflow::Born {
            return Ok(());
        }
        devices.last_origin.fetch_max(place + 1, Ordering::Relaxed);
        if self.overflow.is_done() {
            return Ok(());
        }
        let frames = call.stack.as_ref().map_or("[]", |stack| stack.frames.as_str());
        let ending = self.tell_overflow(py, overflow, &call.name, *is_scaling, Some(frames))?;
        self.overflow.keep_ending(ending);
        Ok(())
    }

    /// The stack of a call that is judged later.
    pub(super) fn stack_for_later(&self, py: Python<'_>) -> PyResult<Option<Arc<CallStack>>> {
        if self.recording.plan.stacks { self.stacks.current(py, &self.torch) } else { Ok(None) }
    }

    /// A call that is judged later.
    pub(super) fn for_later(
        &self,
        py: Python<'_>,
        call: &CallRecord,
        inputs: Extent,
        results: Extent,
    ) -> PyResult<ExpectedCall> {
        let stack = self.stack_for_later(py)?;
        Ok(ExpectedCall {
            name: Arc::clone(&call.name),
            step: call.step,
            inputs,
            results,
            stack,
            began_at: None,
        })
    }
}

fn reach_from(number: u8) -> Reach {
    [Reach::InRange, Reach::AtLimit, Reach::Infinite, Reach::Nan][usize::from(number.min(3))]
}

fn reach_of(stats: &Stats, dtype: DType) -> Reach {
    let limit = dtype.float_limits().map_or(f64::INFINITY, |limits| limits.max);
    let is_at_limit = |extreme: &Option<Scalar>| match extreme {
        Some(Scalar::Float(value)) => value.abs() >= limit,
        _ => false,
    };
    match stats {
        stats if stats.nan > 0 => Reach::Nan,
        stats if stats.pos_inf + stats.neg_inf > 0 => Reach::Infinite,
        stats if is_at_limit(&stats.finite_max) || is_at_limit(&stats.finite_min) => Reach::AtLimit,
        _ => Reach::InRange,
    }
}
