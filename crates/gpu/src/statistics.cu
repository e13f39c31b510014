// Statistics and digests of tensors, in one read.
//
// One launch measures several tensors of one dtype. Blocks are given to tensors in order. A tensor is a row of groups
// of 16 bytes, in row-major order; which thread of which block reads a group follows from its number alone, and partial
// results are merged in a fixed order. So the same elements give the same bits on every device and in every layout.
//
// A second kernel copies results of a captured graph, which stay in memory of the device until the graph is replayed
// again, to memory of the host.
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
#define WARP 32u
#define MAX_RANK 8
#define MAX_TENSORS 16
#define FEW_TENSORS 4
#define MAX_TAKEN 480
#define GROUP 16u

// These have the layout of the structures in launch.rs.
struct Tensor {
    u64 address;
    u64 count;
    u64 shape[MAX_RANK];
    i64 strides[MAX_RANK];  // in bytes
    u64 partials;           // one Partial for each block
    u64 finished;           // one u32, zero before and after
    u64 result;             // a Result in memory of the host; in a captured graph, of the device
    u32 factors[MAX_RANK];  // number / shape is number * factor >> shift, for numbers of 31 bits
    u8 shifts[MAX_RANK];
    u32 rank;               // 0: packed, from the address on
    u32 first_block;
    u32 blocks;
    u32 is_whole;           // each group is 16 bytes in a row, at a multiple of 16
};

template <u32 ROOM>
struct LaunchOf {
    Tensor tensors[ROOM];
    u32 count;
    u32 has_digest;
};
typedef LaunchOf<MAX_TENSORS> Launch;
// Most calls have few tensors, and the driver takes longer to pass a longer parameter.
typedef LaunchOf<FEW_TENSORS> FewLaunch;

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

// The parameter of the second kernel.
struct Taking {
    u64 results;           // one Result behind the other
    u64 slots[MAX_TAKEN];  // where each goes: a Result in memory of the host
    u32 count;
};

// All in words of 8 bytes: threads that read one each from neighbouring results then use different banks of the memory
// they share.
template <class Value>
struct Partial {
    double sum;
    double squares;
    alignas(8) Value largest;
    alignas(8) Value smallest;
    u64 nan;
    u64 pos_inf;
    u64 neg_inf;
    u64 zeros;
    u64 digest;
};

union Group {
    u8 bytes[GROUP];
    u32 quarters[GROUP / 4];
    u64 words[2];
};

// ---- Bits ----

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

// ---- Results of some elements ----

DEVICE float lowest(float) { return float_of(0xff800000u); }
DEVICE float highest(float) { return float_of(0x7f800000u); }
DEVICE double lowest(double) { return double_of(0xfff0000000000000ull); }
DEVICE double highest(double) { return double_of(0x7ff0000000000000ull); }
DEVICE int lowest(int) { return (int)0x80000000u; }
DEVICE int highest(int) { return 0x7fffffff; }
DEVICE i64 lowest(i64) { return (i64)(1ull << 63); }
DEVICE i64 highest(i64) { return (i64)(~0ull >> 1); }
DEVICE u64 lowest(u64) { return 0; }
DEVICE u64 highest(u64) { return ~0ull; }

DEVICE u64 as_bits(float value) { return bits_of((double)value); }
DEVICE u64 as_bits(double value) { return bits_of(value); }
DEVICE u64 as_bits(int value) { return (u64)(i64)value; }
DEVICE u64 as_bits(i64 value) { return (u64)value; }
DEVICE u64 as_bits(u64 value) { return value; }

template <class Value>
DEVICE Partial<Value> nothing() {
    Partial<Value> none = {0, 0, lowest(Value()), highest(Value()), 0, 0, 0, 0, 0};
    return none;
}

DEVICE bool is_finite(float value) { return value - value == 0; }
DEVICE bool is_finite(double value) { return value - value == 0; }
DEVICE bool is_finite(int) { return true; }
DEVICE bool is_finite(i64) { return true; }
DEVICE bool is_finite(u64) { return true; }

DEVICE float larger(float one, float other) { return fmaxf(one, other); }
DEVICE float smaller(float one, float other) { return fminf(one, other); }
template <class Value>
DEVICE Value larger(Value one, Value other) { return one > other ? one : other; }
template <class Value>
DEVICE Value smaller(Value one, Value other) { return one < other ? one : other; }

template <class Value>
DEVICE void widen(Partial<Value>& total, Value value) {
    total.largest = larger(total.largest, value);
    total.smallest = smaller(total.smallest, value);
}

// ---- Elements ----

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

// The largest and the smallest of finite elements, which are read one at a time.
template <class Source>
struct Singly {
    typedef typename Source::Value Value;
    DEVICE static void decode(const Group& group, Value* values) {
#pragma unroll
        for (u32 index = 0; index < GROUP / Source::SIZE; index++)
            values[index] = Source::read(group.bytes + index * Source::SIZE);
    }
    DEVICE void take(const Group&, const Value* values, Partial<Value>& total) {
#pragma unroll
        for (u32 index = 0; index < GROUP / Source::SIZE; index++) widen(total, values[index]);
    }
    DEVICE void end(Partial<Value>&) {}
};

// The same for elements of 16 bits, by instructions for two at a time where the GPU has them.
template <class Source>
struct Pairwise {
    u32 largest = Source::LOWEST_PAIR, smallest = Source::HIGHEST_PAIR;
    DEVICE static void decode(const Group& group, float* values) {
#pragma unroll
        for (u32 quarter = 0; quarter < GROUP / 4; quarter++) {
            values[2 * quarter] = Source::of_bits(group.quarters[quarter] & 0xffff);
            values[2 * quarter + 1] = Source::of_bits(group.quarters[quarter] >> 16);
        }
    }
    DEVICE void take(const Group& group, const float*, Partial<float>&) {
#pragma unroll
        for (u32 quarter = 0; quarter < GROUP / 4; quarter++) {
            largest = Source::larger_pair(largest, group.quarters[quarter]);
            smallest = Source::smaller_pair(smallest, group.quarters[quarter]);
        }
    }
    DEVICE void end(Partial<float>& total) {
        if (largest == Source::LOWEST_PAIR && smallest == Source::HIGHEST_PAIR) return;
        for (u32 half = 0; half < 32; half += 16) {
            widen(total, Source::of_bits(largest >> half & 0xffff));
            widen(total, Source::of_bits(smallest >> half & 0xffff));
        }
    }
};

// Two elements at a time, by the instruction or by comparing each.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define PAIR_FUNCTION(name, instruction, comparison)                                     \
    DEVICE static u32 name(u32 one, u32 other) {                                         \
        u32 chosen;                                                                      \
        asm(instruction " %0, %1, %2;" : "=r"(chosen) : "r"(one), "r"(other));           \
        return chosen;                                                                   \
    }
#else
#define PAIR_FUNCTION(name, instruction, comparison)                                     \
    DEVICE static u32 name(u32 one, u32 other) {                                         \
        u32 low = of_bits(one & 0xffff) comparison of_bits(other & 0xffff) ? one : other; \
        u32 high = of_bits(one >> 16) comparison of_bits(other >> 16) ? one : other;     \
        return (low & 0xffff) | (high & 0xffff0000u);                                    \
    }
#endif

struct F32 {
    typedef float Value;
    typedef Singly<F32> Range;
    static const u32 SIZE = 4;
    DEVICE static float read(const u8* at) { return float_of(read32(at)); }
};

struct F64 {
    typedef double Value;
    typedef Singly<F64> Range;
    static const u32 SIZE = 8;
    DEVICE static double read(const u8* at) { return double_of(read64(at)); }
};

struct BF16 {
    typedef float Value;
    typedef Pairwise<BF16> Range;
    static const u32 SIZE = 2, LOWEST_PAIR = 0xff80ff80u, HIGHEST_PAIR = 0x7f807f80u;
    DEVICE static float of_bits(u32 bits) { return float_of(bits << 16); }
    PAIR_FUNCTION(larger_pair, "max.bf16x2", >)
    PAIR_FUNCTION(smaller_pair, "min.bf16x2", <)
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
    typedef Pairwise<F16> Range;
    static const u32 SIZE = 2, LOWEST_PAIR = 0xfc00fc00u, HIGHEST_PAIR = 0x7c007c00u;
    DEVICE static float of_bits(u32 bits) {
#ifdef __CUDA_ARCH__
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));
        return value;
#else
        return half_of(bits);
#endif
    }
    PAIR_FUNCTION(larger_pair, "max.f16x2", >)
    PAIR_FUNCTION(smaller_pair, "min.f16x2", <)
};

struct F8E5M2 {
    typedef float Value;
    typedef Singly<F8E5M2> Range;
    static const u32 SIZE = 1;
    DEVICE static float read(const u8* at) { return half_of((u32)*at << 8); }
};

struct F8E4M3FN {
    typedef float Value;
    typedef Singly<F8E4M3FN> Range;
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
    typedef Singly<F8Fnuz> Range;
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
    typedef Singly<F8E8M0FNU> Range;
    static const u32 SIZE = 1;
    DEVICE static float read(const u8* at) {
        if (*at == 255) return float_of(QUIET_NAN);
        return *at ? float_of((u32)*at << 23) : float_of(1u << 22);
    }
};

template <class Integer, class Wide>
struct Int {
    typedef Wide Value;
    typedef Singly<Int> Range;
    static const u32 SIZE = sizeof(Integer);
    DEVICE static Wide read(const u8* at) {
        u64 bits = 0;
        for (u32 byte = 0; byte < SIZE; byte++) bits |= (u64)at[byte] << 8 * byte;
        return (Wide)(Integer)bits;
    }
};
typedef Int<u8, int> U8;
typedef Int<signed char, int> I8;
typedef Int<u16, int> U16;
typedef Int<short, int> I16;
typedef Int<u32, i64> U32;
typedef Int<int, i64> I32;
typedef Int<i64, i64> I64;
typedef Int<u64, u64> U64;

struct BOOL {
    typedef int Value;
    typedef Singly<BOOL> Range;
    static const u32 SIZE = 1;
    DEVICE static int read(const u8* at) { return *at != 0; }
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
    typedef Singly<C64> Range;
    static const u32 SIZE = 8;
    DEVICE static double read(const u8* at) { return modulus(F32::read(at), F32::read(at + 4)); }
};

struct C128 {
    typedef double Value;
    typedef Singly<C128> Range;
    static const u32 SIZE = 16;
    DEVICE static double read(const u8* at) { return modulus(F64::read(at), F64::read(at + 8)); }
};

// ---- Sums ----

// What a thread has seen. The counts are those of its own elements, for which 32 bits are enough.
template <class Source>
struct Seen {
    Partial<typename Source::Value> total = nothing<typename Source::Value>();
    typename Source::Range range;
    u32 nan = 0, pos_inf = 0, neg_inf = 0, zeros = 0;

    DEVICE Partial<typename Source::Value> all() {
        range.end(total);
        total.nan = nan;
        total.pos_inf = pos_inf;
        total.neg_inf = neg_inf;
        total.zeros = zeros;
        return total;
    }
};

// Adds elements; returns whether all are finite. Their own sum is finite only if all of them are, so that one comparison
// decides for the group. (Finite doubles may have an infinite sum: the longer way finds no special value then.)
template <class Value, u32 MOST>
DEVICE bool add(Partial<Value>& total, const Value (&values)[MOST], u32 elements) {
    double sum = 0;
#pragma unroll
    for (u32 index = 0; index < MOST; index++) {
        if (index >= elements) break;
        double wide = (double)values[index];
        sum += wide;
        // For all but double the square is exact, and so this is one rounding in any case.
        total.squares = fma(wide, wide, total.squares);
    }
    total.sum += sum;
    return sum - sum == 0;
}

// Integers of 8 and 16 bits: their sums and squares fit into integers.
template <u32 MOST>
DEVICE bool add(Partial<int>& total, const int (&values)[MOST], u32 elements) {
    int sum = 0;
    u64 squares = 0;
#pragma unroll
    for (u32 index = 0; index < MOST; index++) {
        if (index >= elements) break;
        sum += values[index];
        squares += (u64)((u32)values[index] * (u32)values[index]);
    }
    total.sum += (double)sum;
    total.squares += (double)squares;
    return true;
}

// What is special about a group, and the range of the rest.
template <class Value>
struct Special {
    Value largest, smallest;
    u32 nan, pos_inf, neg_inf;
};

// Not inlined: few groups are special, and the loop for the others is shorter without it.
template <class Source>
NOT_INLINED Special<typename Source::Value> special_of(Group group, u32 elements) {
    typedef typename Source::Value Value;
    Special<Value> special = {lowest(Value()), highest(Value()), 0, 0, 0};
    Value values[GROUP / Source::SIZE];
    Source::Range::decode(group, values);
#pragma unroll
    for (u32 index = 0; index < GROUP / Source::SIZE; index++) {
        Value value = values[index];
        if (index >= elements) break;
        if (is_finite(value)) {
            special.largest = larger(special.largest, value);
            special.smallest = smaller(special.smallest, value);
        } else {
            // Comparisons with NaN are false.
            special.nan += value != value;
            special.pos_inf += value > 0;
            special.neg_inf += value < 0;
        }
    }
    return special;
}

// Takes up to a group of elements.
template <class Source, bool IS_FULL>
DEVICE void take(Seen<Source>& seen, const Group& group, u32 elements) {
    typedef typename Source::Value Value;
    const u32 MOST = GROUP / Source::SIZE;
    if (IS_FULL) elements = MOST;
    Value values[MOST];
    Source::Range::decode(group, values);
    bool are_finite = add(seen.total, values, elements);
#pragma unroll
    for (u32 index = 0; index < MOST; index++) seen.zeros += values[index] == 0 && index < elements;
    if (IS_FULL && are_finite) {
        seen.range.take(group, values, seen.total);
        return;
    }
    Special<Value> special = special_of<Source>(group, elements);
    seen.total.largest = larger(seen.total.largest, special.largest);
    seen.total.smallest = smaller(seen.total.smallest, special.smallest);
    seen.nan += special.nan;
    seen.pos_inf += special.pos_inf;
    seen.neg_inf += special.neg_inf;
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

// Where an element is.
struct Place {
    i64 offset;
    u64 column;  // its number in the innermost dimension
};

// Not inlined: few tensors are so large, and the division takes long.
NOT_INLINED u64 divided(u64 number, u64 size) { return number / size; }

template <u32 SIZE>
DEVICE Place place_of(const Tensor& tensor, u64 index) {
    if (tensor.rank == 0) return Place{(i64)(index * SIZE), index};
    Place place = {0, 0};
    u64 number = index;
#pragma unroll 1
    for (u32 dim = tensor.rank - 1; dim > 0; dim--) {
        u64 size = tensor.shape[dim];
        u64 next = tensor.count >> 31 ? divided(number, size)
                                      : (u64)(u32)number * tensor.factors[dim] >> tensor.shifts[dim];
        u64 coordinate = number - next * size;
        if (dim == tensor.rank - 1) place.column = coordinate;
        place.offset += (i64)coordinate * tensor.strides[dim];
        number = next;
    }
    if (tensor.rank == 1) place.column = number;
    place.offset += (i64)number * tensor.strides[0];
    return place;
}

// 16 bytes at a multiple of 16.
DEVICE Group load_aligned(const u8* at, bool is_read_once) {
    Group loaded;
#ifdef __CUDA_ARCH__
    // What is read once is not kept in the caches.
    uint4 four = is_read_once ? __ldcs((const uint4*)at) : *(const uint4*)at;
    loaded.words[0] = (u64)four.y << 32 | four.x;
    loaded.words[1] = (u64)four.w << 32 | four.z;
#else
    for (u32 byte = 0; byte < GROUP; byte++) loaded.bytes[byte] = at[byte];
#endif
    return loaded;
}

// 16 bytes anywhere. Both loads have some of these bytes, so that none reads beyond the page of the tensor's memory.
DEVICE Group load_row(const u8* at) {
#ifdef __CUDA_ARCH__
    const u32 skipped = (u32)((u64)at % GROUP);
    if (skipped == 0) return load_aligned(at, true);
    Group first = load_aligned(at - skipped, false), second = load_aligned(at - skipped + GROUP, false);
    u64 words[3] = {first.words[0], first.words[1], second.words[0]};
    if (skipped >= 8) {
        words[0] = words[1];
        words[1] = words[2];
        words[2] = second.words[1];
    }
    Group loaded;
    const u32 bits = skipped % 8 * 8;
    // Shifted twice: by 64 at once is not defined.
    loaded.words[0] = words[0] >> bits | words[1] << 1 << (63 - bits);
    loaded.words[1] = words[1] >> bits | words[2] << 1 << (63 - bits);
    return loaded;
#else
    return load_aligned(at, true);
#endif
}

template <u32 SIZE>
DEVICE void load_element(Group& group, u32 number, const u8* at) {
#ifdef __CUDA_ARCH__
    if ((u64)at % (SIZE < 8 ? SIZE : 8) == 0) {
        if (SIZE == 1) group.bytes[number] = *at;
        if (SIZE == 2) group.quarters[number / 2] |= (u32)*(const u16*)at << number % 2 * 16;
        if (SIZE == 4) group.quarters[number] = *(const u32*)at;
        if (SIZE >= 8) group.words[number] = *(const u64*)at;
        if (SIZE == 16) group.words[1] = *(const u64*)(at + 8);
        return;
    }
#endif
    for (u32 byte = 0; byte < SIZE; byte++) group.bytes[number * SIZE + byte] = at[byte];
}

// A group whose elements are not one behind the other, or that is not full. Not inlined: it takes long in any case.
template <u32 SIZE>
NOT_INLINED Group load_scattered(const Tensor& tensor, u64 first, u32 elements, Place place) {
    const u8* start = (const u8*)tensor.address;
    const u64 columns = tensor.rank ? tensor.shape[tensor.rank - 1] : tensor.count;
    const i64 stride = tensor.rank ? tensor.strides[tensor.rank - 1] : (i64)SIZE;
    Group loaded;
    loaded.words[0] = loaded.words[1] = 0;
#pragma unroll
    for (u32 number = 0; number < GROUP / SIZE; number++) {
        if (number >= elements) break;
        load_element<SIZE>(loaded, number, start + place.offset);
        place.offset += stride;
        // The next row is somewhere else.
        if (++place.column == columns) place = place_of<SIZE>(tensor, first + number + 1);
    }
    return loaded;
}

// Any group.
template <u32 SIZE>
DEVICE Group load(const Tensor& tensor, u64 group, u32 elements) {
    const u64 first = group * (GROUP / SIZE);
    const Place place = place_of<SIZE>(tensor, first);
    const u64 columns = tensor.rank ? tensor.shape[tensor.rank - 1] : tensor.count;
    const i64 stride = tensor.rank ? tensor.strides[tensor.rank - 1] : (i64)SIZE;
    const bool is_row = stride == SIZE && place.column + GROUP / SIZE <= columns;
    if (elements * SIZE == GROUP && is_row) return load_row((const u8*)tensor.address + place.offset);
    return load_scattered<SIZE>(tensor, first, elements, place);
}

// A group that is full.
template <u32 SIZE>
DEVICE Group load_full(const Tensor& tensor, u64 group) { return load<SIZE>(tensor, group, GROUP / SIZE); }

// A group of a tensor whose groups are whole.
template <u32 SIZE>
DEVICE Group load_whole(const Tensor& tensor, u64 group) {
    if (tensor.rank == 0) return load_aligned((const u8*)tensor.address + group * GROUP, true);
    return load_aligned((const u8*)tensor.address + place_of<SIZE>(tensor, group * (GROUP / SIZE)).offset, true);
}

// ---- The kernel ----

template <class Source, bool IS_FULL>
DEVICE void measure_group(
    Seen<Source>& seen, const Group& loaded, u32 elements, u64 group, bool has_digest
) {
    take<Source, IS_FULL>(seen, loaded, elements);
    if (has_digest) {
        seen.total.digest += mixed(loaded.words[0], 2 * group);
        if (IS_FULL || elements * Source::SIZE > 8) seen.total.digest += mixed(loaded.words[1], 2 * group + 1);
    }
}

// Full groups, each a block of threads behind the one before.
template <class Source, u32 AHEAD, class Load>
DEVICE void measure_full(Seen<Source>& seen, const Tensor& tensor, u64 group, bool has_digest, Load load) {
    Group loaded[AHEAD];
#pragma unroll
    for (u32 round = 0; round < AHEAD; round++) loaded[round] = load(tensor, group + round * THREADS);
#pragma unroll
    for (u32 round = 0; round < AHEAD; round++)
        measure_group<Source, true>(seen, loaded[round], GROUP / Source::SIZE, group + round * THREADS, has_digest);
}

#ifdef __CUDA_ARCH__
DEVICE u32 shuffled(u32 word, u32 distance) { return __shfl_down_sync(~0u, word, distance); }
DEVICE u64 shuffled(u64 word, u32 distance) { return __shfl_down_sync(~0u, word, distance); }
DEVICE i64 shuffled(i64 word, u32 distance) { return __shfl_down_sync(~0u, word, distance); }
DEVICE int shuffled(int word, u32 distance) { return __shfl_down_sync(~0u, word, distance); }
DEVICE float shuffled(float word, u32 distance) { return __shfl_down_sync(~0u, word, distance); }
DEVICE double shuffled(double word, u32 distance) { return __shfl_down_sync(~0u, word, distance); }

// What another thread of the warp has.
template <class Value>
DEVICE Partial<Value> shuffled(const Partial<Value>& own, u32 distance) {
    return Partial<Value>{
        shuffled(own.sum, distance),     shuffled(own.squares, distance), shuffled(own.largest, distance),
        shuffled(own.smallest, distance), shuffled(own.nan, distance),    shuffled(own.pos_inf, distance),
        shuffled(own.neg_inf, distance), shuffled(own.zeros, distance),   shuffled(own.digest, distance),
    };
}
#endif

// Merges results that are `apart` from each other in the memory of a block, a warp of threads each, into the first of
// each warp: lane with lane + 16, then with lane + 8, and so on.
template <class Value>
DEVICE void join_warp(Partial<Value>* shared, u32 thread, u32 apart) {
    const u32 used = THREADS / apart, lane = thread % WARP;
    if (thread - lane >= used) return;
#ifdef __CUDA_ARCH__
    Partial<Value> own = thread < used ? shared[thread * apart] : nothing<Value>();
#pragma unroll 1
    for (u32 half = WARP / 2; half > 0; half /= 2) merge(own, shuffled(own, half));
    if (lane == 0) shared[thread * apart] = own;
#else
    // The threads run one after the other: the first does it for all.
    for (u32 half = WARP / 2; half > 0 && lane == 0; half /= 2)
        for (u32 other = thread; other < thread + half && other + half < used; other++)
            merge(shared[other * apart], shared[(other + half) * apart]);
#endif
}

// Merges the results of the threads of a block into the first. A loop, and one for both uses: code that runs once takes
// longer to fetch than to run.
template <class Value>
NOT_INLINED void join(Partial<Value>* shared) {
#pragma unroll 1
    for (u32 apart = 1; apart < THREADS; apart *= WARP)
        FOR_EACH_THREAD(thread) join_warp(shared, thread, apart);
}

template <class Source, u32 ROOM>
DEVICE void measure(const LaunchOf<ROOM>& launch, u32 block, Partial<typename Source::Value>* shared, u32* is_last) {
    typedef typename Source::Value Value;
    u32 number = 0;
    while (number + 1 < launch.count && launch.tensors[number + 1].first_block <= block) number++;
    const Tensor& tensor = launch.tensors[number];
    const bool has_digest = launch.has_digest;
    const u64 per_group = GROUP / Source::SIZE;
    // Groups that are loaded at a time. Of small elements one is work enough, and the code for more is long.
    const u32 AHEAD = Source::SIZE == 1 ? 1 : 4;
    const u32 AHEAD_IN_ROWS = Source::SIZE == 1 ? 1 : 2;
    const u64 groups = (tensor.count + per_group - 1) / per_group;
    const u64 full_groups = tensor.count / per_group;
    // Each block has the same number of rounds, in which each thread reads one group.
    const u64 rounds = (groups + (u64)tensor.blocks * THREADS - 1) / ((u64)tensor.blocks * THREADS);
    const u64 first = (u64)(block - tensor.first_block) * rounds * THREADS;
    const u64 end = first + rounds * THREADS < groups ? first + rounds * THREADS : groups;
    FOR_EACH_THREAD(thread) {
        Seen<Source> seen;
        u64 group = first + thread;
        // Several loads are on their way at a time; they are added in the order of their groups.
        const u64 last = end < full_groups ? end : full_groups;
        if (tensor.is_whole)
            for (; group + (AHEAD - 1) * THREADS < last; group += AHEAD * THREADS)
                measure_full<Source, AHEAD>(seen, tensor, group, has_digest, load_whole<Source::SIZE>);
        for (; group + (AHEAD_IN_ROWS - 1) * THREADS < last; group += AHEAD_IN_ROWS * THREADS)
            measure_full<Source, AHEAD_IN_ROWS>(seen, tensor, group, has_digest, load_full<Source::SIZE>);
        for (; group < end; group += THREADS) {
            u64 left = tensor.count - group * per_group;
            u32 elements = left < per_group ? (u32)left : (u32)per_group;
            Group loaded = load<Source::SIZE>(tensor, group, elements);
            if (elements == per_group)
                measure_group<Source, true>(seen, loaded, elements, group, has_digest);
            else
                measure_group<Source, false>(seen, loaded, elements, group, has_digest);
        }
        shared[thread] = seen.all();
    }
    join(shared);
    if (tensor.blocks > 1) {
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
#pragma unroll 1
            for (u32 other = thread; other < tensor.blocks; other += THREADS) merge(own, partials[other]);
            shared[thread] = own;
        }
        join(shared);
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

#define KERNEL(name, Source, Parameter)                                             \
    extern "C" GLOBAL void name(PARAMETER Parameter launch) {                       \
        SHARED Partial<Source::Value> shared[THREADS];                              \
        SHARED u32 is_last;                                                         \
        measure<Source>(launch, blockIdx.x, shared, &is_last);                      \
    }
#define STATISTICS(name, Source) KERNEL(statistics_##name, Source, Launch)
#define STATISTICS_OF_FEW(name, Source) KERNEL(statistics_##name##_few, Source, FewLaunch)

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
// Those of which a training step has thousands.
STATISTICS_OF_FEW(float32, F32)
STATISTICS_OF_FEW(float16, F16)
STATISTICS_OF_FEW(bfloat16, BF16)

// Copies results, each with the word that says that the others are there. One block.
extern "C" GLOBAL void take_results(PARAMETER Taking taking) {
    FOR_EACH_THREAD(thread) {
        for (u32 number = thread; number < taking.count; number += THREADS) {
            const Result* from = (const Result*)taking.results + number;
            volatile Result* to = (volatile Result*)taking.slots[number];
            to->sum = from->sum;
            to->squares = from->squares;
            to->largest = from->largest;
            to->smallest = from->smallest;
            to->nan = from->nan;
            to->pos_inf = from->pos_inf;
            to->neg_inf = from->neg_inf;
            to->zeros = from->zeros;
            to->digest = from->digest;
            __threadfence_system();
            to->done = 1;
        }
    }
}
