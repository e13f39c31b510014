// Statistics and digests of tensors, in one read.
//
// One launch measures several tensors of one dtype. Blocks are given to tensors in order. A tensor is a row of groups
// of 16 bytes, in row-major order; which thread of which block reads a group follows from its number alone, and partial
// results are merged in a fixed order. So the same elements give the same bits on every device and in every layout.
//
// The source is C++ that g++ compiles as well, with host.h before it: the tests run it like that. Code between two
// barriers is a phase (FOR_EACH_THREAD); what a thread keeps from one phase to the next is in shared memory.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifndef FOR_EACH_THREAD
#define FOR_EACH_THREAD(thread) \
    for (u32 thread = threadIdx.x, is_first = 1; is_first; is_first = 0, __syncthreads())
#endif

#define THREADS 256u
#define MAX_RANK 8
#define MAX_TENSORS 16
#define GROUP 16u

// These have the layout of the structures in launch.rs.
struct Tensor {
    u64 address;
    u64 count;
    u64 shape[MAX_RANK];
    i64 strides[MAX_RANK];  // in bytes
    u64 partials;           // one Partial for each block
    u64 finished;           // one u32, zero before and after
    u64 result;             // a Result in memory of the host
    u32 rank;               // 0: packed, from the address on
    u32 first_block;
    u32 blocks;
    u32 is_whole;           // each group is 16 bytes in a row, at a multiple of 16
};

struct Launch {
    Tensor tensors[MAX_TENSORS];
    u32 count;
    u32 has_digest;
};

struct Result {
    double sum;
    double squares;
    u64 largest;   // the bits of a double, or an integer
    u64 smallest;
    u64 nan;
    u64 pos_inf;
    u64 neg_inf;
    u64 zeros;
    u64 digest;
    u64 done;      // not zero when the others are there
};

template <class Value>
struct Partial {
    double sum;
    double squares;
    Value largest;
    Value smallest;
    u64 nan;
    u64 pos_inf;
    u64 neg_inf;
    u64 zeros;
    u64 digest;
};

union Group {
    u8 bytes[GROUP];
    u64 words[2];
};

// ---- Elements ----

DEVICE float float_of(u32 bits) {
    union { u32 bits; float value; } pun = {bits};
    return pun.value;
}

DEVICE double double_of(u64 bits) {
    union { u64 bits; double value; } pun = {bits};
    return pun.value;
}

DEVICE u64 bits_of(double value) {
    union { double value; u64 bits; } pun = {value};
    return pun.bits;
}

DEVICE u32 read16(const u8* at) { return at[0] | at[1] << 8; }
DEVICE u32 read32(const u8* at) { return read16(at) | read16(at + 2) << 16; }
DEVICE u64 read64(const u8* at) { return read32(at) | (u64)read32(at + 4) << 32; }

// A float of `exponent` and `mantissa` bits without infinities in its largest exponent, times two to the power of -bias.
DEVICE float small_float(u32 magnitude, int mantissa, int bias) {
    u32 exponent = magnitude >> mantissa;
    u32 fraction = magnitude & ((1u << mantissa) - 1);
    // Below, a power of two; both are exact.
    float scale = float_of((u32)(127 + (exponent ? (int)exponent : 1) - bias) << 23);
    float value = (float)((exponent ? 1u << mantissa : 0u) + fraction) / (float)(1u << mantissa);
    return value * scale;
}

#define QUIET_NAN 0x7fc00000u

struct F32 {
    typedef float Value;
    static const u32 SIZE = 4;
    DEVICE static float read(const u8* at) { return float_of(read32(at)); }
};

struct F64 {
    typedef double Value;
    static const u32 SIZE = 8;
    DEVICE static double read(const u8* at) { return double_of(read64(at)); }
};

struct BF16 {
    typedef float Value;
    static const u32 SIZE = 2;
    DEVICE static float read(const u8* at) { return float_of(read16(at) << 16); }
};

DEVICE float half_of(u32 bits) {
    u32 sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float value = (float)fraction * float_of(103u << 23);
    return sign ? -value : value;
}

struct F16 {
    typedef float Value;
    static const u32 SIZE = 2;
    DEVICE static float read(const u8* at) {
#ifdef __CUDA_ARCH__
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)read16(at)));
        return value;
#else
        return half_of(read16(at));
#endif
    }
};

struct F8E5M2 {
    typedef float Value;
    static const u32 SIZE = 1;
    DEVICE static float read(const u8* at) { return half_of((u32)*at << 8); }
};

struct F8E4M3FN {
    typedef float Value;
    static const u32 SIZE = 1;
    DEVICE static float read(const u8* at) {
        u32 magnitude = *at & 0x7f;
        if (magnitude == 0x7f) return float_of(QUIET_NAN);
        float value = small_float(magnitude, 3, 7);
        return *at & 0x80 ? -value : value;
    }
};

template <int MANTISSA, int BIAS>
struct F8Fnuz {
    typedef float Value;
    static const u32 SIZE = 1;
    DEVICE static float read(const u8* at) {
        if (*at == 0x80) return float_of(QUIET_NAN);
        float value = small_float(*at & 0x7f, MANTISSA, BIAS);
        return *at & 0x80 ? -value : value;
    }
};
typedef F8Fnuz<3, 8> F8E4M3FNUZ;
typedef F8Fnuz<2, 16> F8E5M2FNUZ;

struct F8E8M0FNU {
    typedef float Value;
    static const u32 SIZE = 1;
    DEVICE static float read(const u8* at) {
        if (*at == 255) return float_of(QUIET_NAN);
        return *at ? float_of((u32)*at << 23) : float_of(1u << 22);
    }
};

template <class Integer, class Wide>
struct Int {
    typedef Wide Value;
    static const u32 SIZE = sizeof(Integer);
    DEVICE static Wide read(const u8* at) {
        u64 bits = 0;
        for (u32 byte = 0; byte < SIZE; byte++) bits |= (u64)at[byte] << 8 * byte;
        return (Wide)(Integer)bits;
    }
};
typedef Int<u8, i64> U8;
typedef Int<signed char, i64> I8;
typedef Int<u16, i64> U16;
typedef Int<short, i64> I16;
typedef Int<u32, i64> U32;
typedef Int<int, i64> I32;
typedef Int<i64, i64> I64;
typedef Int<u64, u64> U64;

struct BOOL {
    typedef i64 Value;
    static const u32 SIZE = 1;
    DEVICE static i64 read(const u8* at) { return *at != 0; }
};

// The modulus without intermediate overflow or underflow; the same operations as in crates/kernels.
DEVICE double modulus(double re, double im) {
    double a = fabs(re), b = fabs(im);
    if (a != a || b != b) return double_of(0x7ff8000000000000ull);
    double larger = a > b ? a : b, smaller = a > b ? b : a;
    if (larger == 0 || larger == double_of(0x7ff0000000000000ull)) return larger;
    i64 exponent = (i64)(bits_of(larger) >> 52) - 1023;
    exponent = exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
    double scale = double_of((u64)(1023 - exponent) << 52);
    larger = larger * scale;
    smaller = smaller * scale;
    return sqrt(larger * larger + smaller * smaller) / scale;
}

struct C64 {
    typedef double Value;
    static const u32 SIZE = 8;
    DEVICE static double read(const u8* at) { return modulus(F32::read(at), F32::read(at + 4)); }
};

struct C128 {
    typedef double Value;
    static const u32 SIZE = 16;
    DEVICE static double read(const u8* at) { return modulus(F64::read(at), F64::read(at + 8)); }
};

// ---- Results of some elements ----

DEVICE float lowest(float) { return float_of(0xff800000u); }
DEVICE float highest(float) { return float_of(0x7f800000u); }
DEVICE double lowest(double) { return double_of(0xfff0000000000000ull); }
DEVICE double highest(double) { return double_of(0x7ff0000000000000ull); }
DEVICE i64 lowest(i64) { return (i64)(1ull << 63); }
DEVICE i64 highest(i64) { return (i64)(~0ull >> 1); }
DEVICE u64 lowest(u64) { return 0; }
DEVICE u64 highest(u64) { return ~0ull; }

DEVICE u64 as_bits(float value) { return bits_of((double)value); }
DEVICE u64 as_bits(double value) { return bits_of(value); }
DEVICE u64 as_bits(i64 value) { return (u64)value; }
DEVICE u64 as_bits(u64 value) { return value; }

template <class Value>
DEVICE Partial<Value> nothing() {
    Partial<Value> none = {0, 0, lowest(Value()), highest(Value()), 0, 0, 0, 0, 0};
    return none;
}

DEVICE bool is_finite(float value) { return value - value == 0; }
DEVICE bool is_finite(double value) { return value - value == 0; }
DEVICE bool is_finite(i64) { return true; }
DEVICE bool is_finite(u64) { return true; }

// Adds up to a group of elements. Their own sum is finite only if all of them are, so that one comparison decides for
// the group. (Finite doubles may have an infinite sum: the longer way finds no special value then.)
template <class Source, bool IS_FULL>
DEVICE void take(Partial<typename Source::Value>& total, const Group& group, u32 elements) {
    typedef typename Source::Value Value;
    const u32 MOST = GROUP / Source::SIZE;
    Value values[MOST];
    double sum = 0;
    u32 zeros = 0;
#pragma unroll
    for (u32 index = 0; index < MOST; index++) {
        if (!IS_FULL && index >= elements) break;
        Value value = Source::read(group.bytes + index * Source::SIZE);
        double wide = (double)value;
        sum += wide;
        // For all but double the square is exact, and so this is one rounding in any case.
        total.squares = fma(wide, wide, total.squares);
        zeros += value == 0;
        values[index] = value;
    }
    total.sum += sum;
    total.zeros += zeros;
    if (sum - sum == 0) {
#pragma unroll
        for (u32 index = 0; index < MOST; index++) {
            if (!IS_FULL && index >= elements) break;
            total.largest = values[index] > total.largest ? values[index] : total.largest;
            total.smallest = values[index] < total.smallest ? values[index] : total.smallest;
        }
        return;
    }
#pragma unroll
    for (u32 index = 0; index < MOST; index++) {
        if (!IS_FULL && index >= elements) break;
        Value value = values[index];
        if (is_finite(value)) {
            if (value > total.largest) total.largest = value;
            if (value < total.smallest) total.smallest = value;
        } else {
            // Comparisons with NaN are false.
            total.nan += value != value;
            total.pos_inf += value > 0;
            total.neg_inf += value < 0;
        }
    }
}

template <class Value>
DEVICE void merge(Partial<Value>& total, const Partial<Value>& next) {
    total.sum += next.sum;
    total.squares += next.squares;
    if (next.largest > total.largest) total.largest = next.largest;
    if (next.smallest < total.smallest) total.smallest = next.smallest;
    total.nan += next.nan;
    total.pos_inf += next.pos_inf;
    total.neg_inf += next.neg_inf;
    total.zeros += next.zeros;
    total.digest += next.digest;
}

// A word of 8 bytes at its position: the sum over all words depends on where each is.
DEVICE u64 mixed(u64 word, u64 position) {
    u64 z = word + 0x9e3779b97f4a7c15ull * (position + 1);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

// ---- Memory ----

// Not inlined: most tensors are packed, and the code would be several times as long.
template <class Index>
NOT_INLINED i64 offset_of(const Tensor& tensor, Index index) {
    i64 offset = 0;
    for (u32 dim = tensor.rank; dim-- > 0;) {
        Index size = (Index)tensor.shape[dim];
        offset += (i64)(index % size) * tensor.strides[dim];
        index /= size;
    }
    return offset;
}

template <u32 SIZE>
DEVICE const u8* element(const Tensor& tensor, u64 index) {
    const u8* at = (const u8*)tensor.address;
    if (tensor.rank == 0) return at + index * SIZE;
    // Division of 64 bits takes several times as long.
    return at + (tensor.count >> 32 ? offset_of<u64>(tensor, index) : offset_of<u32>(tensor, (u32)index));
}

// A group of a tensor whose groups are whole.
template <u32 SIZE>
DEVICE Group load_whole(const Tensor& tensor, u64 group) {
    Group loaded;
    const u8* at = element<SIZE>(tensor, group * (GROUP / SIZE));
#ifdef __CUDA_ARCH__
    // Not kept in the caches: it is read once.
    uint4 four = __ldcs((const uint4*)at);
    loaded.words[0] = (u64)four.y << 32 | four.x;
    loaded.words[1] = (u64)four.w << 32 | four.z;
#else
    for (u32 byte = 0; byte < GROUP; byte++) loaded.bytes[byte] = at[byte];
#endif
    return loaded;
}

// Any group, element by element.
template <u32 SIZE>
DEVICE Group load(const Tensor& tensor, u64 group, u32 elements) {
    Group loaded;
    loaded.words[0] = loaded.words[1] = 0;
    for (u32 number = 0; number < elements; number++) {
        const u8* at = element<SIZE>(tensor, group * (GROUP / SIZE) + number);
        for (u32 byte = 0; byte < SIZE; byte++) loaded.bytes[number * SIZE + byte] = at[byte];
    }
    return loaded;
}

// ---- The kernel ----

template <class Source, bool IS_FULL>
DEVICE void measure_group(
    Partial<typename Source::Value>& own, const Group& loaded, u32 elements, u64 group, bool has_digest
) {
    take<Source, IS_FULL>(own, loaded, elements);
    if (has_digest) {
        own.digest += mixed(loaded.words[0], 2 * group);
        if (IS_FULL || elements * Source::SIZE > 8) own.digest += mixed(loaded.words[1], 2 * group + 1);
    }
}

template <class Source>
DEVICE void measure(const Launch& launch, u32 block, Partial<typename Source::Value>* shared, u32* is_last) {
    typedef typename Source::Value Value;
    u32 number = 0;
    while (number + 1 < launch.count && launch.tensors[number + 1].first_block <= block) number++;
    const Tensor& tensor = launch.tensors[number];
    const bool has_digest = launch.has_digest;
    const u64 per_group = GROUP / Source::SIZE;
    // Groups that are loaded at a time. Of small elements one is work enough, and the code for more is long.
    const u32 AHEAD = Source::SIZE == 1 ? 1 : 4;
    const u64 groups = (tensor.count + per_group - 1) / per_group;
    const u64 full_groups = tensor.count / per_group;
    // Each block has the same number of rounds, in which each thread reads one group.
    const u64 rounds = (groups + (u64)tensor.blocks * THREADS - 1) / ((u64)tensor.blocks * THREADS);
    const u64 first = (u64)(block - tensor.first_block) * rounds * THREADS;
    const u64 end = first + rounds * THREADS < groups ? first + rounds * THREADS : groups;
    FOR_EACH_THREAD(thread) {
        Partial<Value> own = nothing<Value>();
        u64 group = first + thread;
        if (tensor.is_whole) {
            // Several loads are on their way at a time; they are added in the order of their groups.
            const u64 last = end < full_groups ? end : full_groups;
            for (; group + (AHEAD - 1) * THREADS < last; group += AHEAD * THREADS) {
                Group loaded[AHEAD];
#pragma unroll
                for (u32 round = 0; round < AHEAD; round++)
                    loaded[round] = load_whole<Source::SIZE>(tensor, group + round * THREADS);
#pragma unroll
                for (u32 round = 0; round < AHEAD; round++)
                    measure_group<Source, true>(
                        own, loaded[round], (u32)per_group, group + round * THREADS, has_digest
                    );
            }
            for (; group < last; group += THREADS)
                measure_group<Source, true>(
                    own, load_whole<Source::SIZE>(tensor, group), (u32)per_group, group, has_digest
                );
        }
        for (; group < end; group += THREADS) {
            u64 left = tensor.count - group * per_group;
            u32 elements = left < per_group ? (u32)left : (u32)per_group;
            Group loaded = load<Source::SIZE>(tensor, group, elements);
            measure_group<Source, false>(own, loaded, elements, group, has_digest);
        }
        shared[thread] = own;
    }
    for (u32 half = THREADS / 2; half > 0; half /= 2)
        FOR_EACH_THREAD(thread) {
            if (thread < half) merge(shared[thread], shared[thread + half]);
        }
    Partial<Value>* partials = (Partial<Value>*)tensor.partials;
    FOR_EACH_THREAD(thread) {
        if (thread == 0) {
            partials[block - tensor.first_block] = shared[0];
            __threadfence();
            *is_last = atomicAdd((u32*)tensor.finished, 1u) == tensor.blocks - 1;
        }
    }
    if (!*is_last) return;
    // The last block to finish merges all, always in the same order.
    FOR_EACH_THREAD(thread) {
        Partial<Value> own = nothing<Value>();
        __threadfence();
        for (u32 other = thread; other < tensor.blocks; other += THREADS) merge(own, partials[other]);
        shared[thread] = own;
    }
    for (u32 half = THREADS / 2; half > 0; half /= 2)
        FOR_EACH_THREAD(thread) {
            if (thread < half) merge(shared[thread], shared[thread + half]);
        }
    FOR_EACH_THREAD(thread) {
        if (thread == 0) {
            const Partial<Value>& all = shared[0];
            volatile Result* result = (volatile Result*)tensor.result;
            result->sum = all.sum;
            result->squares = all.squares;
            result->largest = as_bits(all.largest);
            result->smallest = as_bits(all.smallest);
            result->nan = all.nan;
            result->pos_inf = all.pos_inf;
            result->neg_inf = all.neg_inf;
            result->zeros = all.zeros;
            result->digest = mixed(all.digest, tensor.count * Source::SIZE);
            *(u32*)tensor.finished = 0;
            __threadfence_system();
            result->done = 1;
        }
    }
}

#define STATISTICS(name, Source)                                                    \
    extern "C" GLOBAL void statistics_##name(PARAMETER Launch launch) {             \
        SHARED Partial<Source::Value> shared[THREADS];                              \
        SHARED u32 is_last;                                                         \
        measure<Source>(launch, blockIdx.x, shared, &is_last);                      \
    }

STATISTICS(float64, F64)
STATISTICS(float32, F32)
STATISTICS(float16, F16)
STATISTICS(bfloat16, BF16)
STATISTICS(float8_e5m2, F8E5M2)
STATISTICS(float8_e4m3fn, F8E4M3FN)
STATISTICS(float8_e4m3fnuz, F8E4M3FNUZ)
STATISTICS(float8_e5m2fnuz, F8E5M2FNUZ)
STATISTICS(float8_e8m0fnu, F8E8M0FNU)
STATISTICS(int8, I8)
STATISTICS(uint8, U8)
STATISTICS(int16, I16)
STATISTICS(uint16, U16)
STATISTICS(int32, I32)
STATISTICS(uint32, U32)
STATISTICS(int64, I64)
STATISTICS(uint64, U64)
STATISTICS(bool, BOOL)
STATISTICS(complex64, C64)
STATISTICS(complex128, C128)
