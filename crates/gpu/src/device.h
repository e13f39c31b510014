// Before statistics.cu for NVRTC.
#define DEVICE __device__ __forceinline__
#define NOT_INLINED __device__ __noinline__
#define GLOBAL __global__ __launch_bounds__(256, 4)
#define SHARED __shared__
#define PARAMETER const __grid_constant__
