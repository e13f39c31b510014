// Before statistics.cu for g++: blocks, and the threads of a block, run one after the other. Launches may run on several
// threads of the host.
#include <cmath>
#include <initializer_list>
using std::fabs;
using std::fma;
using std::sqrt;

#define DEVICE inline
#define NOT_INLINED inline
#define GLOBAL
#define SHARED static thread_local
#define PARAMETER const
#define FOR_EACH_THREAD(thread) for (u32 thread = 0; thread < THREADS; thread++)
#define __threadfence()
#define __threadfence_system() __atomic_thread_fence(__ATOMIC_RELEASE)

static thread_local struct { unsigned int x; } blockIdx;

static unsigned int atomicAdd(unsigned int* at, unsigned int value) {
    unsigned int before = *at;
    *at = before + value;
    return before;
}
