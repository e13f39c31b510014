//! Keeps a process alive when a mapped file shrinks.
//!
//! A read beyond the end of a mapped file raises SIGBUS, which ends the process. If the fault is in one of our
//! mappings, the handler maps pages of zeros there and marks the mapping. The read continues; its caller checks the
//! mark afterwards and reports an error instead of its result. Every other fault goes to the handler that was
//! installed before.
//!
//! A part of a remote file that is not there yet raises SIGBUS as well. The handler has it read, and the read continues
//! with the bytes of the file; only if they cannot be read, with zeros and the mark.
//!
//! A handler may interrupt any instruction, so the list of mappings is read and changed without locks. Its slots are
//! claimed, filled and released by atomic operations. Its chunks are never freed.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst};

#[cfg(target_os = "linux")]
use crate::storage::on_demand::supply;

/// The address is in a mapping, but not in its file. Other codes mean broken memory or `kill`.
const BUS_ADRERR: c_int = 2;

/// Slots in one chunk of the list.
const CHUNK: usize = 256;

/// A mapping, as the handler sees it.
pub(crate) struct Slot {
    is_claimed: AtomicBool,
    /// Its address; zero while the slot is unused.
    start: AtomicUsize,
    length: AtomicUsize,
    is_writable: AtomicBool,
    /// Whether its bytes are read when they are looked at.
    is_on_demand: AtomicBool,
    /// From this address on, zeros replace the file; the highest address if there are none.
    zeros_from: AtomicUsize,
}

impl Slot {
    const fn empty() -> Slot {
        Slot {
            is_claimed: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            is_writable: AtomicBool::new(false),
            is_on_demand: AtomicBool::new(false),
            zeros_from: AtomicUsize::new(usize::MAX),
        }
    }

    /// Whether a read of the mapping has failed.
    pub(crate) fn has_faulted(&self) -> bool {
        self.zeros_from.load(SeqCst) != usize::MAX
    }

    /// Whether an address is in the mapping. If another thread reuses the slot meanwhile, its start has changed.
    fn range_around(&self, address: usize) -> Option<(usize, usize)> {
        let start = self.start.load(SeqCst);
        let end = start.wrapping_add(self.length.load(SeqCst));
        let holds = start != 0 && (start..end).contains(&address) && self.start.load(SeqCst) == start;
        holds.then_some((start, end))
    }
}

struct Chunk {
    slots: [Slot; CHUNK],
    next: AtomicPtr<Chunk>,
}

impl Chunk {
    const fn new() -> Chunk {
        Chunk { slots: [const { Slot::empty() }; CHUNK], next: AtomicPtr::new(ptr::null_mut()) }
    }
}

static FIRST: Chunk = Chunk::new();

/// All chunks, oldest first.
fn chunks() -> impl Iterator<Item = &'static Chunk> {
    // SAFETY: a chunk is published whole, and never freed.
    #[expect(unsafe_code)]
    std::iter::successors(Some(&FIRST), |chunk| unsafe { chunk.next.load(SeqCst).as_ref() })
}

/// A kind of mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    ReadOnly,
    Writable,
    /// A remote file, whose parts are read when they are looked at.
    OnDemand,
}

/// Answers faults in this memory, which must be a mapping of a file, with zeros until [`forget`] is called.
pub(crate) fn watch(memory: &[u8], watched: Watched) -> &'static Slot {
    install();
    let slot = claim();
    slot.zeros_from.store(usize::MAX, SeqCst);
    slot.is_writable.store(watched == Watched::Writable, SeqCst);
    slot.is_on_demand.store(watched == Watched::OnDemand, SeqCst);
    slot.length.store(memory.len(), SeqCst);
    // Must be last: from here on the handler uses the slot.
    slot.start.store(memory.as_ptr() as usize, SeqCst);
    slot
}

/// Releases a slot. Call it before the memory is unmapped: its addresses may be reused afterwards.
pub(crate) fn forget(slot: &'static Slot) {
    slot.start.store(0, SeqCst);
    slot.is_claimed.store(false, SeqCst);
}

fn claim() -> &'static Slot {
    loop {
        let mut last = &FIRST;
        for chunk in chunks() {
            // Loads before it exchanges: there may be thousands of used slots, and an exchange is expensive.
            let is_free = |slot: &&Slot| {
                !slot.is_claimed.load(SeqCst)
                    && slot.is_claimed.compare_exchange(false, true, SeqCst, SeqCst).is_ok()
            };
            if let Some(slot) = chunk.slots.iter().find(is_free) {
                return slot;
            }
            last = chunk;
        }
        let fresh = Box::into_raw(Box::new(Chunk::new()));
        if last.next.compare_exchange(ptr::null_mut(), fresh, SeqCst, SeqCst).is_err() {
            // SAFETY: it was not published, so this is the only pointer to it.
            #[expect(unsafe_code)]
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
}

/// The slot whose mapping contains an address.
pub(crate) fn slot_at(address: usize) -> Option<&'static Slot> {
    chunks().flat_map(|chunk| &chunk.slots).find(|slot| slot.range_around(address).is_some())
}

/// A handler that was installed before ours.
struct Earlier {
    action: libc::sigaction,
    /// The handler before that one, if it was installed after ours and we installed ours again. It treats ours as its
    /// predecessor. What it passes back to us goes to this one.
    next: *const Earlier,
}

/// The handler for faults that are not ours. A stored value is never freed: a thread may be running it.
static PREVIOUS: AtomicPtr<Earlier> = AtomicPtr::new(ptr::null_mut());

/// Read before the handler can run: a handler is not allowed to call `sysconf`.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs the handler, unless it is installed. Runs at every mapping, because other handlers may be installed after
/// ours and treat our faults as fatal, as Python's `faulthandler` does.
fn install() {
    let Some(current) = current() else { return };
    if is_ours(&current) {
        return;
    }
    // SAFETY: plain calls of the system.
    #[expect(unsafe_code)]
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE.store(usize::try_from(page).unwrap_or(4096), SeqCst);
    let known = PREVIOUS.load(SeqCst);
    // SAFETY: what was stored is never freed.
    #[expect(unsafe_code)]
    let is_known = unsafe { known.as_ref() }.is_some_and(|known| is_same(&known.action, &current));
    if !is_known {
        PREVIOUS.store(Box::into_raw(Box::new(Earlier { action: current, next: known })), SeqCst);
    }
    go_in_front();
}

/// The handler that gets the signal now.
fn current() -> Option<libc::sigaction> {
    // SAFETY: all zeros is a valid action, and the system fills it in.
    #[expect(unsafe_code)]
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut current) == 0).then_some(current)
    }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == on_fault as Handler as usize
}

fn is_same(one: &libc::sigaction, other: &libc::sigaction) -> bool {
    one.sa_sigaction == other.sa_sigaction && one.sa_flags == other.sa_flags
}

fn go_in_front() {
    // SAFETY: all zeros is a valid action; the handler has the form that its flags announce.
    #[expect(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as Handler as usize;
        // Uses the alternate signal stack if there is one: the next handler may be the one for stack overflows.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a valid `info`. Everything called here may be called from a handler; the interrupted
    // code finds its `errno` as it was.
    #[expect(unsafe_code)]
    unsafe {
        let code = (*info).si_code;
        let errno = errno_address();
        let errno_before = *errno;
        let is_answered = code == BUS_ADRERR && answer((*info).si_addr() as usize);
        *errno = errno_before;
        if !is_answered {
            pass_on(signal, info, context);
        }
    }
}

/// Has the bytes at an address read if they are a remote file's, else maps zeros there.
fn answer(address: usize) -> bool {
    #[cfg(target_os = "linux")]
    if let Some(slot) = slot_at(address)
        && slot.is_on_demand.load(SeqCst)
        && !slot.has_faulted()
        && supply::request(address)
    {
        return true;
    }
    zero_from(address)
}

/// Maps zeros from the page of an address to the end of its mapping, if it is one of ours. The file ends before the
/// address, so no data is covered. A mapping faults once, not once per page.
fn zero_from(address: usize) -> bool {
    let Some(slot) = slot_at(address) else { return false };
    let Some((start, end)) = slot.range_around(address) else { return false };
    let page = PAGE.load(SeqCst);
    let from = address / page * page;
    let zeros_from = slot.zeros_from.fetch_min(from, SeqCst);
    if zeros_from <= from {
        // Another thread is doing it: the read faults again until that is done.
        return true;
    }
    let end = end.next_multiple_of(page).min(zeros_from);
    let writing = if slot.is_writable.load(SeqCst) { libc::PROT_WRITE } else { 0 };
    debug_assert!(from >= start, "mappings begin with a page");
    // SAFETY: these pages belong to the mapping, which lives while somebody reads it; they change from a file's pages that
    // cannot be read into zeros that can. Failing leaves them as they are.
    #[expect(unsafe_code)]
    let mapped = unsafe {
        libc::mmap(
            from as *mut c_void,
            end - from,
            libc::PROT_READ | writing,
            libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    mapped != libc::MAP_FAILED
}

/// Passes a signal to the handler that was installed before ours.
///
/// # Safety
/// Only for the handler, with the arguments it received.
#[expect(unsafe_code)]
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    /// Whether a handler that we called is running. A handler that was installed after ours may call ours in turn.
    static IS_PASSING: AtomicBool = AtomicBool::new(false);
    let comes_back = IS_PASSING.swap(true, SeqCst);
    // SAFETY: what was stored is never freed. A handler is called as its flags say it wants to be.
    unsafe {
        let mut earlier = PREVIOUS.load(SeqCst).cast_const();
        if let (true, Some(known)) = (comes_back, earlier.as_ref()) {
            earlier = known.next;
        }
        let was_sent = (*info).si_code <= 0;
        let handler = earlier.as_ref().map_or(libc::SIG_DFL, |earlier| earlier.action.sa_sigaction);
        match earlier.as_ref() {
            Some(earlier) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
                // Installed while it runs, so that it behaves as it would without ours.
                libc::sigaction(signal, &raw const earlier.action, ptr::null_mut());
                if earlier.action.sa_flags & libc::SA_SIGINFO != 0 {
                    std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
                } else {
                    std::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
                }
                match current() {
                    Some(now) if is_same(&now, &earlier.action) => go_in_front(),
                    // It restored our handler: the next signal goes to the handlers before it.
                    Some(now) if is_ours(&now) => PREVIOUS.store(earlier.next.cast_mut(), SeqCst),
                    _ => {}
                }
            }
            // SIG_IGN applies to signals that were sent, not to faults.
            _ if handler == libc::SIG_IGN && was_sent => {}
            _ => {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                // The instruction faults again on its own. A signal that was sent does not come again.
                if was_sent {
                    libc::raise(signal);
                }
            }
        }
    }
    if !comes_back {
        IS_PASSING.store(false, SeqCst);
    }
}

#[cfg(any(target_os = "linux", target_os = "emscripten"))]
use libc::__errno_location as errno_address;
#[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
use libc::__error as errno_address;
