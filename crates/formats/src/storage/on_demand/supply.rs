//! Reads parts of remote files for threads that are stopped at a fault.
//!
//! A signal handler may neither allocate nor lock, so it cannot read. It sends the address of its request through a
//! pipe to threads that can, and waits. A process that was forked off has the memory and not the threads: there a read
//! of a part that is absent fails.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use super::{OnDemand, memory};

/// Threads that read for others: twice as many as cores, within these limits.
const FEWEST: usize = 8;
const MOST: usize = 64;

/// States of a request.
const WAITING: u32 = 0;
const SUPPLIED: u32 = 1;
const FAILED: u32 = 2;

/// What a stopped thread needs. It is on the stack of that thread, until it is answered.
struct Request {
    address: usize,
    state: AtomicU32,
}

/// The end of the pipe that requests are written to, and the process whose threads read them.
static REQUESTS: AtomicI32 = AtomicI32::new(-1);
static PROCESS: AtomicI32 = AtomicI32::new(-1);

/// The open files by their first address.
static FILES: Mutex<BTreeMap<usize, Weak<OnDemand>>> = Mutex::new(BTreeMap::new());

fn files() -> MutexGuard<'static, BTreeMap<usize, Weak<OnDemand>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn add(start: usize, file: &Arc<OnDemand>) {
    files().insert(start, Arc::downgrade(file));
}

pub(super) fn remove(start: usize) {
    files().remove(&start);
}

fn file_at(address: usize) -> Option<Arc<OnDemand>> {
    let file = files().range(..=address).next_back()?.1.upgrade()?;
    (address - file.start < file.size).then_some(file)
}

/// Starts the threads, unless this process has them.
pub(super) fn start() -> io::Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if PROCESS.load(SeqCst) == this_process() {
        return Ok(());
    }
    let mut ends: [c_int; 2] = [0; 2];
    // SAFETY: the system writes two numbers.
    #[expect(unsafe_code)]
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    for _ in 0..(2 * cores).clamp(FEWEST, MOST) {
        thread::Builder::new().name("ulpscope-remote".to_owned()).spawn(move || serve(ends[0]))?;
    }
    REQUESTS.store(ends[1], SeqCst);
    PROCESS.store(this_process(), SeqCst);
    Ok(())
}

fn this_process() -> c_int {
    // SAFETY: a plain call of the system, which signal handlers may make.
    #[expect(unsafe_code)]
    unsafe {
        libc::getpid()
    }
}

/// Has the part of a file read that an address is in. Returns whether it is there. For the signal handler.
pub(crate) fn request(address: usize) -> bool {
    if PROCESS.load(SeqCst) != this_process() {
        return false;
    }
    let request = Request { address, state: AtomicU32::new(WAITING) };
    let place = &raw const request as usize;
    // SAFETY: writes the bytes of a number. So few bytes are written to a pipe whole or not at all, and no signal
    // interrupts a handler that blocks them all.
    #[expect(unsafe_code)]
    let written =
        unsafe { libc::write(REQUESTS.load(SeqCst), (&raw const place).cast(), size_of::<usize>()) };
    if written != size_of::<usize>() as isize {
        return false;
    }
    loop {
        match request.state.load(SeqCst) {
            WAITING => memory::wait(&request.state, WAITING),
            state => return state == SUPPLIED,
        }
    }
}

/// Answers requests, as long as the process lives.
fn serve(requests: c_int) {
    loop {
        let mut place: usize = 0;
        // SAFETY: the system writes at most the bytes of a number.
        #[expect(unsafe_code)]
        let read = unsafe { libc::read(requests, (&raw mut place).cast(), size_of::<usize>()) };
        if read != size_of::<usize>() as isize {
            continue;
        }
        // SAFETY: the thread that sent it waits until it is answered.
        #[expect(unsafe_code)]
        let request = unsafe { &*(place as *const Request) };
        let answer = || file_at(request.address).is_some_and(|file| file.answer(request.address));
        // A thread that waits must be answered whatever happens.
        let is_there = std::panic::catch_unwind(std::panic::AssertUnwindSafe(answer)).unwrap_or(false);
        let state = request.state.as_ptr().cast_const();
        request.state.store(if is_there { SUPPLIED } else { FAILED }, SeqCst);
        memory::wake(state);
    }
}
