// The kernels that no vendor library has, as one CUDA C++ text for NVRTC: this file, then element-wise ops
// (elementwise.cu), then layers (layers.cu). All on float, none with shared sums that depend on the order of threads.
// Tests compile the same text for the host and run it on fake GPUs, a block of one thread at a time.
#ifdef __CUDACC_RTC__
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;
#define KERNEL extern "C" __global__ void
#endif
#define EACH(i, n) for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (n); i += (u64)gridDim.x * blockDim.x)

// --- what measuring needs ---
KERNEL delay_ns(u64 ns) {
#ifdef __CUDACC_RTC__
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - begin < ns);
#else
  (void)ns;
#endif
}
KERNEL sweep_l2(u32* p, u64 n) { EACH(i, n) p[i] ^= 1; }
KERNEL copy_by_sms(float* to, const float* from, u64 n) { EACH(i, n) to[i] = from[i]; }

// --- arrays ---
struct Strides { u64 rank; u64 size[8]; i64 a[8], b[8], c[8]; };
__device__ void places(const Strides& s, u64 i, i64* a, i64* b, i64* c) {
  i64 at = 0, bt = 0, ct = 0;
  for (u64 d = s.rank; d-- > 0;) {
    const i64 k = (i64)(i % s.size[d]);
    i /= s.size[d];
    at += k * s.a[d]; bt += k * s.b[d]; ct += k * s.c[d];
  }
  *a = at; *b = bt; *c = ct;
}
KERNEL fill(float* y, float value, u64 n) { EACH(i, n) y[i] = value; }
KERNEL scale_add(float* y, const float* x, float alpha, float beta, u64 n) {
  EACH(i, n) y[i] = alpha * x[i] + (beta == 0 ? 0 : beta * y[i]);
}
// y[element i] = x[place a of i], and the way back: y[place a of i] = (or +=) x[i].
KERNEL gather_strided(float* y, const float* x, Strides s, i64 offset, u64 n) {
  EACH(i, n) { i64 a, b, c; places(s, i, &a, &b, &c); y[i] = x[offset + a]; }
}
KERNEL scatter_strided(float* y, const float* x, Strides s, i64 offset, float keep, u64 n) {
  EACH(i, n) {
    i64 a, b, c;
    places(s, i, &a, &b, &c);
    y[offset + a] = x[i] + (keep == 0 ? 0 : keep * y[offset + a]);
  }
}
