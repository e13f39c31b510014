// A CUDA driver and an NVRTC for tests. Device memory is ordinary memory, and kernels are those of statistics.cu,
// compiled for the host. Each stream has a thread, on which its kernels run in the order of their launches: a launch
// returns before its kernel has run. Functions that begin with `standin_` are for the tests.

#include <dlfcn.h>
#include <malloc.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "host.h"
#include "statistics.cu"

namespace {

struct Work {
    std::queue<std::function<void()>> queued;
    bool is_running = false;
};

// Never destroyed: the threads wait for them when the process ends.
std::mutex& guard = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
std::map<void*, Work>& work_of = *new std::map<void*, Work>;
std::set<void*>& paused_streams = *new std::set<void*>;
std::vector<int>& known_architectures = *new std::vector<int>{80, 90};
bool is_paused = false;
// Launches that a stream holds before the next one waits; zero: any number.
size_t longest_queue = 0;
thread_local void* current = nullptr;
thread_local int capture_mode = 0;
bool is_capturing = false, spoils_kernels = false;
std::string failing;
int failing_after = 0, failing_code = 0;
std::atomic<int> compiled{0}, launches{0}, allocated_device{0}, device_bytes{0}, allocated_host{0}, contexts{0}, modules{0}, streams{0},
    unsafe_calls{0}, failed{0};
std::map<std::string, int>& calls = *new std::map<std::string, int>;
// Bytes of device memory that are allocated; `device_bytes` is the most there were.
std::atomic<int> held{0};
int context;

// Work that was captured, in order.
struct Graph {
    std::vector<std::function<void()>> nodes;
    unsigned long long id;
};
// The graphs that are being captured, by stream.
std::map<void*, Graph*>& captured_streams = *new std::map<void*, Graph*>;
unsigned long long last_capture = 0;

// Whether launches are done at once, without computing: for measuring what the caller does.
std::atomic<bool> is_idle{false};

// The code that a test asked for, or zero.
int code_of(const char* name) {
    if (is_idle) return 0;
    std::lock_guard<std::mutex> lock(guard);
    calls[name]++;
    if (failing != name) return 0;
    if (failing_after-- > 0) return 0;
    failed++;
    return failing_code;
}

void note_unsafe() {
    // What ends the capture of a graph by another thread, unless this thread says that it does not matter.
    std::lock_guard<std::mutex> lock(guard);
    if ((is_capturing || !captured_streams.empty()) && capture_mode != 2) unsafe_calls++;
}

void run(void* stream) {
    std::unique_lock<std::mutex> lock(guard);
    Work& work = work_of[stream];
    for (;;) {
        changed.wait(lock, [&] { return !work.queued.empty() && !is_paused && !paused_streams.count(stream); });
        auto next = work.queued.front();
        work.queued.pop();
        work.is_running = true;
        lock.unlock();
        next();
        lock.lock();
        work.is_running = false;
        changed.notify_all();
    }
}

void enqueue(void* stream, std::function<void()> task) {
    std::unique_lock<std::mutex> lock(guard);
    if (captured_streams.count(stream)) {
        captured_streams[stream]->nodes.push_back(task);
        return;
    }
    if (!work_of.count(stream)) {
        work_of[stream];
        std::thread(run, stream).detach();
    }
    Work& work = work_of[stream];
    // As the real driver does where its queue is full.
    changed.wait(lock, [&] { return !longest_queue || work.queued.size() < longest_queue; });
    work.queued.push(task);
    changed.notify_all();
}

// Freeing waits for the device, as in the real driver.
void drain() {
    std::unique_lock<std::mutex> lock(guard);
    changed.wait(lock, [] {
        for (auto& [stream, work] : work_of)
            if (!work.queued.empty() || work.is_running) return false;
        return true;
    });
}

void* kernel_named(const char* name) {
    Dl_info info;
    dladdr((void*)&kernel_named, &info);
    return dlsym(dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
}

bool is_for_few(void* function) {
    void (*kernels[])(FewLaunch) = {statistics_float32_few, statistics_float16_few, statistics_bfloat16_few};
    for (auto kernel : kernels)
        if (function == (void*)kernel) return true;
    return false;
}

template <class Parameter>
void launch_kernel(void* function, unsigned blocks, void* stream, void* parameter) {
    Parameter launch = *(const Parameter*)parameter;
    if (is_idle) {
        for (unsigned number = 0; number < launch.count; number++)
            ((Result*)launch.tensors[number].result)->done = 1;
        return;
    }
    enqueue(stream, [=] {
        for (unsigned block = 0; block < blocks; block++) {
            blockIdx.x = block;
            ((void (*)(Parameter))function)(launch);
        }
        if (spoils_kernels) ((Result*)launch.tensors[0].result)->zeros += 1;
    });
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
    // Machine code, or text for a virtual architecture.
    if (memcmp(code, "\x7f" "ELF", 4) && memcmp(code, "//", 2)) return 200;
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
int cuMemsetD8Async(unsigned long long address, unsigned char value, size_t bytes, void* stream) {
    CALL(cuMemsetD8Async)
    enqueue(stream, [=] { memset((void*)address, value, bytes); });
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
int cuStreamIsCapturing(void* stream, int* status) {
    CALL(cuStreamIsCapturing)
    std::lock_guard<std::mutex> lock(guard);
    *status = is_capturing || captured_streams.count(stream);
    return 0;
}
int cuStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void**, const void***, size_t*) {
    CALL(cuStreamGetCaptureInfo_v2)
    std::lock_guard<std::mutex> lock(guard);
    auto found = captured_streams.find(stream);
    *status = found != captured_streams.end();
    if (*status) *id = found->second->id;
    return 0;
}
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
    void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned, void* stream,
    void** parameters, void**
) {
    CALL(cuLaunchKernel)
    if (current != &context || threads != THREADS) return 201;
    launches++;
    if (function == (void*)&take_results) {
        Taking taking = *(const Taking*)parameters[0];
        enqueue(stream, [=] { take_results(taking); });
        return 0;
    }
    if (is_for_few(function))
        launch_kernel<FewLaunch>(function, blocks, stream, parameters[0]);
    else
        launch_kernel<Launch>(function, blocks, stream, parameters[0]);
    return 0;
}

int nvrtcVersion(int* major, int* minor) { CALL(nvrtcVersion) *major = 13; *minor = 0; return 0; }
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char**, const char**) {
    CALL(nvrtcCreateProgram)
    *program = &compiled;
    return 0;
}
int nvrtcCompileProgram(void*, int, const char**) { CALL(nvrtcCompileProgram) compiled++; return 0; }
int nvrtcDestroyProgram(void**) { CALL(nvrtcDestroyProgram) return 0; }
int nvrtcGetNumSupportedArchs(int* count) {
    CALL(nvrtcGetNumSupportedArchs)
    *count = (int)known_architectures.size();
    return 0;
}
int nvrtcGetSupportedArchs(int* list) {
    CALL(nvrtcGetSupportedArchs)
    for (size_t i = 0; i < known_architectures.size(); i++) list[i] = known_architectures[i];
    return 0;
}
int nvrtcGetPTXSize(void*, size_t* size) { CALL(nvrtcGetPTXSize) *size = 11; return 0; }
int nvrtcGetPTX(void*, char* text) { CALL(nvrtcGetPTX) memcpy(text, "// standin", 11); return 0; }
int nvrtcGetCUBINSize(void*, size_t* size) { CALL(nvrtcGetCUBINSize) *size = 12; return 0; }
int nvrtcGetCUBIN(void*, char* code) { CALL(nvrtcGetCUBIN) memcpy(code, "\x7f" "ELF standin", 12); return 0; }
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
void standin_pause_stream(void* stream, int paused) {
    std::lock_guard<std::mutex> lock(guard);
    if (paused) paused_streams.insert(stream);
    else paused_streams.erase(stream);
    changed.notify_all();
}
void standin_queue(int longest) {
    std::lock_guard<std::mutex> lock(guard);
    longest_queue = longest;
    changed.notify_all();
}
// The only architecture that the compiler knows.
void standin_architecture(int known) { known_architectures = {known}; }
int standin_mode() { return capture_mode; }
void standin_capture(int capturing) { is_capturing = capturing; }
void standin_idle(int idle) { is_idle = idle; }
int standin_is_idle() { return is_idle; }
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
// How often a function was called.
int standin_calls(const char* name) {
    std::lock_guard<std::mutex> lock(guard);
    return calls[name];
}
// Work on a stream goes into a graph from here on, until `standin_end_capture`, which returns the graph.
void standin_begin_capture(void* stream) {
    std::lock_guard<std::mutex> lock(guard);
    captured_streams[stream] = new Graph{{}, ++last_capture};
}
void* standin_end_capture(void* stream) {
    std::lock_guard<std::mutex> lock(guard);
    Graph* graph = captured_streams[stream];
    captured_streams.erase(stream);
    return graph;
}
// Runs what a graph has, in order.
void standin_replay(void* graph, void* stream) {
    for (auto& node : ((Graph*)graph)->nodes) enqueue(stream, node);
}
// Work of the program: runs a function of the host in the order of a stream.
void standin_run(void (*function)(unsigned long long), unsigned long long argument, void* stream) {
    enqueue(stream, [=] { function(argument); });
}
// Waits until everything that is queued has run.
void standin_wait() { drain(); }
// The size of what the tests and the kernel share.
unsigned long sizes() { return sizeof(Launch) << 16 | sizeof(Partial<double>) << 8 | sizeof(Result); }
void set_block(unsigned int block) { blockIdx.x = block; }

}
