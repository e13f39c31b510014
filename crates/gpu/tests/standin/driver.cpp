// A CUDA driver and an NVRTC for tests. Device memory is ordinary memory, and kernels are those of statistics.cu,
// compiled for the host. They run on a thread of their own, in the order of their launches, like those of one stream: a
// launch returns before its kernel has run. Functions that begin with `standin_` are for the tests.

#include <dlfcn.h>
#include <malloc.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <queue>
#include <string>
#include <thread>

#include "host.h"
#include "statistics.cu"

namespace {

// Never destroyed: the thread waits for them when the process ends.
std::mutex& guard = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
std::queue<std::function<void()>>& queued = *new std::queue<std::function<void()>>;
bool is_paused = false, is_running = false;
thread_local void* current = nullptr;
thread_local int capture_mode = 0;
bool is_capturing = false, spoils_kernels = false;
std::string failing;
int failing_after = 0, failing_code = 0;
std::atomic<int> compiled{0}, launches{0}, allocated_device{0}, device_bytes{0}, allocated_host{0}, contexts{0}, modules{0}, streams{0},
    unsafe_calls{0}, failed{0};
std::string called;
// Bytes of device memory that are allocated; `device_bytes` is the most there were.
std::atomic<int> held{0};
int context;

// The code that a test asked for, or zero.
int code_of(const char* name) {
    std::lock_guard<std::mutex> lock(guard);
    called += name;
    called += ' ';
    if (failing != name) return 0;
    if (failing_after-- > 0) return 0;
    failed++;
    return failing_code;
}

void note_unsafe() {
    // What ends the capture of a graph by another thread, unless this thread says that it does not matter.
    if (is_capturing && capture_mode != 2) unsafe_calls++;
}

void work() {
    std::unique_lock<std::mutex> lock(guard);
    for (;;) {
        changed.wait(lock, [] { return !queued.empty() && !is_paused; });
        auto next = queued.front();
        queued.pop();
        is_running = true;
        lock.unlock();
        next();
        lock.lock();
        is_running = false;
        changed.notify_all();
    }
}

void enqueue(std::function<void()> task) {
    static std::once_flag once;
    std::call_once(once, [] { std::thread(work).detach(); });
    std::lock_guard<std::mutex> lock(guard);
    queued.push(task);
    changed.notify_all();
}

// Freeing waits for the device, as in the real driver.
void drain() {
    std::unique_lock<std::mutex> lock(guard);
    changed.wait(lock, [] { return queued.empty() && !is_running; });
}

void* kernel_named(const char* name) {
    Dl_info info;
    dladdr((void*)&kernel_named, &info);
    return dlsym(dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
}

}  // namespace

#define CALL(name)                                \
    if (int code = code_of(#name)) return code;

extern "C" {

int cuInit(unsigned) { CALL(cuInit) return 0; }
int cuDeviceGet(int* device, int number) { CALL(cuDeviceGet) *device = number; return number == 0 ? 0 : 101; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
    CALL(cuDeviceGetAttribute)
    *value = attribute == 75 ? 9 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void** into, int) { CALL(cuDevicePrimaryCtxRetain) contexts++; *into = &context; return 0; }
int cuDevicePrimaryCtxRelease_v2(int) { CALL(cuDevicePrimaryCtxRelease_v2) contexts--; return 0; }
int cuCtxGetCurrent(void** into) { CALL(cuCtxGetCurrent) *into = current; return 0; }
int cuCtxPushCurrent_v2(void* pushed) {
    CALL(cuCtxPushCurrent_v2)
    if (current == pushed) return 201;
    current = pushed;
    return 0;
}
int cuCtxPopCurrent_v2(void** into) { CALL(cuCtxPopCurrent_v2) *into = current; current = nullptr; return 0; }
int cuModuleLoadData(void** module, const void* code) {
    CALL(cuModuleLoadData)
    if (memcmp(code, "\x7f" "ELF", 4)) return 200;
    modules++;
    *module = &modules;
    return current == &context ? 0 : 201;
}
int cuModuleUnload(void*) { CALL(cuModuleUnload) modules--; return 0; }
int cuModuleGetFunction(void** function, void*, const char* name) {
    CALL(cuModuleGetFunction)
    *function = kernel_named(name);
    return *function ? 0 : 500;
}
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
    CALL(cuMemAlloc_v2)
    note_unsafe();
    // Not zeros: what is not cleared is not zero.
    void* memory = malloc(bytes);
    memset(memory, 0xa5, bytes);
    allocated_device++;
    held += (int)malloc_usable_size(memory);
    if (held > device_bytes) device_bytes = (int)held;
    *address = (unsigned long long)memory;
    return 0;
}
int cuMemFree_v2(unsigned long long address) {
    CALL(cuMemFree_v2)
    drain();
    allocated_device--;
    held -= (int)malloc_usable_size((void*)address);
    free((void*)address);
    return 0;
}
int cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, void*) {
    CALL(cuMemsetD8Async)
    enqueue([=] { memset((void*)address, value, bytes); });
    return 0;
}
int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
    CALL(cuMemHostAlloc)
    note_unsafe();
    *address = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    memset(*address, 0xa5, bytes);
    allocated_host++;
    return 0;
}
int cuMemFreeHost(void* address) { CALL(cuMemFreeHost) drain(); allocated_host--; free(address); return 0; }
int cuMemHostGetDevicePointer_v2(unsigned long long* device, void* host, unsigned) {
    CALL(cuMemHostGetDevicePointer_v2)
    *device = (unsigned long long)host;
    return 0;
}
int cuStreamCreate(void** stream, unsigned) { CALL(cuStreamCreate) streams++; *stream = malloc(8); return 0; }
int cuStreamDestroy_v2(void* stream) { CALL(cuStreamDestroy_v2) streams--; free(stream); return 0; }
int cuStreamQuery(void*) { CALL(cuStreamQuery) note_unsafe(); return 600; }
int cuStreamIsCapturing(void*, int* status) { CALL(cuStreamIsCapturing) *status = is_capturing; return 0; }
int cuThreadExchangeStreamCaptureMode(int* mode) {
    CALL(cuThreadExchangeStreamCaptureMode)
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return 0;
}
int cuStreamGetId(void* stream, unsigned long long* id) {
    CALL(cuStreamGetId)
    *id = (unsigned long long)stream + 1;
    return 0;
}
int cuLaunchKernel(
    void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned, void*,
    void** parameters, void**
) {
    CALL(cuLaunchKernel)
    if (current != &context || threads != THREADS) return 201;
    launches++;
    Launch launch = *(const Launch*)parameters[0];
    enqueue([=] {
        for (unsigned block = 0; block < blocks; block++) {
            blockIdx.x = block;
            ((void (*)(Launch))function)(launch);
        }
        if (spoils_kernels) ((Result*)launch.tensors[0].result)->zeros += 1;
    });
    return 0;
}

int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return 0; }
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char**, const char**) {
    CALL(nvrtcCreateProgram)
    *program = &compiled;
    return 0;
}
int nvrtcCompileProgram(void*, int, const char**) { CALL(nvrtcCompileProgram) compiled++; return 0; }
int nvrtcDestroyProgram(void**) { return 0; }
int nvrtcGetCUBINSize(void*, size_t* size) { CALL(nvrtcGetCUBINSize) *size = 12; return 0; }
int nvrtcGetCUBIN(void*, char* code) { memcpy(code, "\x7f" "ELF standin", 12); return 0; }
int nvrtcGetProgramLogSize(void*, size_t* size) { *size = 9; return 0; }
int nvrtcGetProgramLog(void*, char* log) { memcpy(log, "as asked", 9); return 0; }

void standin_fail(const char* name, int after, int code) {
    std::lock_guard<std::mutex> lock(guard);
    failing = name, failing_after = after, failing_code = code;
    failed = 0;
}
void standin_pause(int paused) {
    std::lock_guard<std::mutex> lock(guard);
    is_paused = paused;
    changed.notify_all();
}
void standin_capture(int capturing) { is_capturing = capturing; }
void standin_spoil(int spoils) { spoils_kernels = spoils; }
int standin_count(const char* what) {
    std::string name = what;
    if (name == "compiled") return compiled;
    if (name == "launches") return launches;
    if (name == "device") return allocated_device;
    if (name == "device bytes") return device_bytes;
    if (name == "host") return allocated_host;
    if (name == "contexts") return contexts;
    if (name == "modules") return modules;
    if (name == "streams") return streams;
    if (name == "unsafe") return unsafe_calls;
    if (name == "failed") return failed;
    return -1;
}
const char* standin_called() { return called.c_str(); }
void standin_forget() { called.clear(); }
// The size of what the tests and the kernel share.
unsigned long sizes() { return sizeof(Launch) << 16 | sizeof(Partial<double>) << 8 | sizeof(Result); }
void set_block(unsigned int block) { blockIdx.x = block; }

}
