// Torch's exchange table (DLPack) for tensors of the CPU that pose as those of a GPU, in tests from Python: the device is
// the GPU of driver.cpp, whose memory is that of the host, and the current stream is what the test says. Torch does not
// know that stream: it would use memory again at once. So tensors live for ever, unless the driver is idle, and tests
// change none in place.

#include <cstdint>

extern "C" void Py_IncRef(void*);
extern "C" int standin_is_idle();

namespace {

struct Device {
    int32_t kind, id;
};

struct Borrowed {
    void* data;
    Device device;
    int32_t rank;
    uint32_t dtype;
    int64_t *shape, *strides;
    uint64_t offset;
};

using Borrow = int (*)(void*, Borrowed*);
using Stream = int (*)(int32_t, int32_t, void**);

struct Table {
    uint32_t major, minor;
    const void* previous;
    void *allocate, *from_object, *to_object;
    Borrow borrow;
    Stream stream;
};

Table table;
Borrow borrow_of_torch;
thread_local void* current_stream = nullptr;

int borrow(void* object, Borrowed* tensor) {
    int status = borrow_of_torch(object, tensor);
    if (status == 0) {
        tensor->device = {2, 0};
        if (!standin_is_idle()) Py_IncRef(object);
    }
    return status;
}

int stream(int32_t, int32_t, void** into) {
    *into = current_stream;
    return 0;
}

}  // namespace

extern "C" {

const Table* standin_pose(const Table* of_torch) {
    table = *of_torch;
    borrow_of_torch = table.borrow;
    table.borrow = borrow;
    table.stream = stream;
    return &table;
}
void standin_use_stream(void* stream) { current_stream = stream; }

}
