// Kernels that no vendor library has, as one CUDA C++ text for NVRTC: this file, then element-wise ops
// (elementwise.cu), then layers (layers.cu). All compute in float, on arrays of float or bfloat16. No result depends on
// the order of threads. Tests compile the same text for the host and run it on fake GPUs, a block of one thread at a
// time.
#ifdef __CUDACC_RTC__
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned short u16;
#define KERNEL extern "C" __global__ void
#define TOUCH(is_short) (void)0  // the host counts bytes here
#endif
#define EACH(i, n) for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (n); i += (u64)gridDim.x * blockDim.x)

// --- kernels for measurements ---
KERNEL delay_ns(u64 ns) {
#ifdef __CUDACC_RTC__
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - begin < ns);
#else
  (void)ns;
#endif
}
KERNEL delay_cycles(u64 cycles) {
#ifdef __CUDACC_RTC__
  const i64 begin = clock64();
  while ((u64)(clock64() - begin) < cycles) {}
#else
  (void)cycles;
#endif
}
/// Measures the timer for about a millisecond, between two steps of %globaltimer. `out`: its least step in nanoseconds,
/// the nanoseconds, and the SM's cycles.
KERNEL timer_rate(u64* out) {
#ifdef __CUDACC_RTC__
  u64 begin, last, now, least = ~0ull;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(last)); } while (last == begin);
  const i64 cycles = clock64();
  begin = last;
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now == last) continue;
    if (now - last < least) least = now - last;
    last = now;
  } while (last - begin < 1000000);
  out[0] = least; out[1] = last - begin; out[2] = (u64)(clock64() - cycles);
#else
  (void)out;
#endif
}
/// Fixed arithmetic in registers.
KERNEL burn(float* out, u64 rounds) {
#ifdef __CUDACC_RTC__
  float sum = (float)threadIdx.x;
  for (u64 i = 0; i < rounds; ++i) sum = sum * 1.0000001f + 1e-7f;
  if (sum == 12345.0f) *out = sum;  // never true, but keeps the loop from being removed
#else
  (void)out, (void)rounds;
#endif
}
/// Stores the time at which it runs, for delay_since later on the stream.
KERNEL mark_ns(u64* at) {
#ifdef __CUDACC_RTC__
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(*at));
#else
  (void)at;
#endif
}
/// Ends `ns` after mark_ns ran, or at once if that time has passed.
KERNEL delay_since(const u64* at, u64 ns) {
#ifdef __CUDACC_RTC__
  const u64 begin = *at;
  u64 now;
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - begin < ns);
#else
  (void)at, (void)ns;
#endif
}
KERNEL sweep_l2(u32* p, u64 n) { EACH(i, n) p[i] ^= 1; }

// --- arrays with their element type. Elements are converted to float when loaded, and rounded when stored: to the
// nearest, ties to even ---
__device__ float widen(u16 short_one) {
  union { u32 bits; float value; } both;
  both.bits = (u32)short_one << 16;
  return both.value;
}
__device__ u16 narrow(float value) {
  union { float value; u32 bits; } both;
  both.value = value;
  if ((both.bits & 0x7fffffffu) > 0x7f800000u) return (u16)(both.bits >> 16 | 0x40u);
  return (u16)((both.bits + 0x7fffu + (both.bits >> 16 & 1u)) >> 16);
}
struct In {
  const void* at;
  u64 is_short;
  __device__ float operator[](u64 i) const {
    TOUCH(is_short);
    return is_short ? widen(((const u16*)at)[i]) : ((const float*)at)[i];
  }
  __device__ explicit operator bool() const { return at != 0; }
};
struct Element {
  void* at;
  u64 is_short, i;
  __device__ operator float() const {
    TOUCH(is_short);
    return is_short ? widen(((const u16*)at)[i]) : ((const float*)at)[i];
  }
  __device__ void operator=(float value) {
    TOUCH(is_short);
    if (is_short) ((u16*)at)[i] = narrow(value);
    else ((float*)at)[i] = value;
  }
  void operator=(const Element&) = delete;
  __device__ void operator+=(float value) { *this = (float)*this + value; }
};
struct Out {
  void* at;
  u64 is_short;
  __device__ Element operator[](u64 i) const { return Element{at, is_short, i}; }
  __device__ explicit operator bool() const { return at != 0; }
};
// A divisor: below 2^31 by a multiplication and a shift, since GPUs divide in software.
struct Divisor { u64 by; u32 magic, shift; };
__device__ u64 quotient(u64 n, const Divisor& d) {
  return n >> 31 ? n / d.by : (u64)((((u32)((n * d.magic) >> 32)) + (u32)n) >> d.shift);
}
__device__ u64 remainder_of(u64 n, const Divisor& d) { return n - quotient(n, d) * d.by; }
struct Strides { u64 rank; Divisor size[8]; i64 a[8], b[8], c[8]; };
__device__ void places(const Strides& s, u64 i, i64* a, i64* b, i64* c) {
  i64 at = 0, bt = 0, ct = 0;
  for (u64 d = s.rank; d-- > 0;) {
    const u64 rest = d > 0 ? quotient(i, s.size[d]) : 0;
    const i64 k = (i64)(i - rest * s.size[d].by);
    i = rest;
    at += k * s.a[d]; bt += k * s.b[d]; ct += k * s.c[d];
  }
  *a = at; *b = bt; *c = ct;
}
KERNEL fill(Out y, float value, u64 n) { EACH(i, n) y[i] = value; }
KERNEL scale_add(Out y, In x, float alpha, float beta, u64 n) {
  EACH(i, n) y[i] = alpha * x[i] + (beta == 0 ? 0 : beta * y[i]);
}
// y[i] = x[place a of i], and the inverse: y[place a of i] = (or +=) x[i].
KERNEL gather_strided(Out y, In x, Strides s, i64 offset, u64 n) {
  EACH(i, n) { i64 a, b, c; places(s, i, &a, &b, &c); y[i] = x[offset + a]; }
}
KERNEL scatter_strided(Out y, In x, Strides s, i64 offset, float keep, u64 n) {
  EACH(i, n) {
    i64 a, b, c;
    places(s, i, &a, &b, &c);
    y[offset + a] = x[i] + (keep == 0 ? 0 : keep * y[offset + a]);
  }
}
