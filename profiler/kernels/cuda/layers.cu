// Reductions, windows, rows, normalizations, lookups and cells; follows elementwise.cu.
// --- reductions: result o folds the `many` elements at the strides of `over`, from place a of `kept` on, in parts;
// each part is a row of y. Kinds: sum 0, largest 2, smallest 3, squares 5 ---
__device__ float folded(u64 kind, float r, float v) {
  return kind == 2 ? fmaxf(r, v) : kind == 3 ? fminf(r, v) : kind == 5 ? r + v * v : r + v;
}
__device__ float nothing_folded(u64 kind) { return kind == 2 ? -3.4e38f : kind == 3 ? 3.4e38f : 0.0f; }
// One thread per result and part: neighbouring threads read neighbouring elements.
KERNEL reduce(Out y, In x, Strides kept, Strides over, u64 many, u64 kind, float scale, u64 each, Divisor results, u64 n) {
  EACH(i, n) {
    const u64 part = quotient(i, results), o = i - part * results.by, end = (part + 1) * each < many ? (part + 1) * each : many;
    i64 first, b, c;
    places(kept, o, &first, &b, &c);
    float r = nothing_folded(kind);
    for (u64 j = part * each; j < end; ++j) {
      i64 at;
      places(over, j, &at, &b, &c);
      r = folded(kind, r, x[first + at]);
    }
    y[i] = r * scale;
  }
}
// Gradient of element i, whose result is at place b: sum 0 (times the share), largest 2 and smallest 3 (to all elements
// that equal it, while the CPU's kernel takes the first), squares 5.
KERNEL reduce_d(Out dx, In dy, In x, In y, Strides s, u64 kind,
                                    float share, u64 n) {
  EACH(i, n) {
    i64 a, b, c;
    places(s, i, &a, &b, &c);
    float d = dy[b];
    if (kind == 0) d *= share;
    else if (kind == 2 || kind == 3) d = x[i] == y[b] ? d : 0;
    else if (kind == 5) d *= 2 * x[i];
    dx[i] = d;
  }
}

// --- windows ---
struct Window { i64 batch, channels, in[3], out[3], kernel[3], stride[3], dilation[3], before[3]; };
__device__ i64 inside(const Window& w, const i64* o, i64 k, i64* at) {
  i64 rest = k, place = 0, scale = 1;
  for (int d = 2; d >= 0; --d) {
    const i64 e = rest % w.kernel[d];
    rest /= w.kernel[d];
    const i64 i = o[d] * w.stride[d] - w.before[d] + e * w.dilation[d];
    if (i < 0 || i >= w.in[d]) return 0;
    place += i * scale;
    scale *= w.in[d];
  }
  *at = place;
  return 1;
}
__device__ void split(const Window& w, u64 i, i64* o) {
  for (int d = 2; d >= 0; --d) { o[d] = (i64)(i % (u64)w.out[d]); i /= (u64)w.out[d]; }
}
// Columns [channels x kernel, windows] of one image.
KERNEL image_to_columns(Out columns, In image, Window w, u64 kernels, u64 windows, u64 n) {
  EACH(i, n) {
    const u64 window = i % windows, k = i / windows % kernels, channel = i / windows / kernels;
    i64 o[3], at = 0;
    split(w, window, o);
    columns[i] = inside(w, o, (i64)k, &at) ? image[channel * (u64)(w.in[0] * w.in[1] * w.in[2]) + (u64)at] : 0;
  }
}
// Element i of the image sums all column elements that were copied from it.
KERNEL columns_to_image(Out image, In columns, Window w, u64 kernels, u64 windows, u64 n) {
  const u64 plane = (u64)(w.in[0] * w.in[1] * w.in[2]);
  EACH(i, n) {
    const u64 channel = i / plane;
    i64 at[3];
    u64 rest = i % plane;
    for (int d = 2; d >= 0; --d) { at[d] = (i64)(rest % (u64)w.in[d]); rest /= (u64)w.in[d]; }
    float sum = 0;
    for (u64 k = 0; k < kernels; ++k) {
      u64 r = k, window = 0, scale = 1;
      bool hit = true;
      for (int d = 2; d >= 0; --d) {
        const i64 e = (i64)(r % (u64)w.kernel[d]);
        r /= (u64)w.kernel[d];
        const i64 from = at[d] + w.before[d] - e * w.dilation[d];
        if (from < 0 || from % w.stride[d] != 0 || from / w.stride[d] >= w.out[d]) { hit = false; break; }
        window += (u64)(from / w.stride[d]) * scale;
        scale *= (u64)w.out[d];
      }
      if (hit) sum += columns[(channel * kernels + k) * windows + window];
    }
    image[i] = sum;
  }
}
// Pools, in planes of [z, y, x]: indices within a plane fit 32 bits.
struct Pool { int in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3]; Divisor in_x, in_y, in_plane, out_x, out_y, out_plane, strides[3]; };
__device__ void split_plane(u64 i, const Divisor& plane, const Divisor& y, const Divisor& x, u64* which, int* at) {
  *which = quotient(i, plane);
  const u64 rest = i - *which * plane.by, rows = quotient(rest, x), z = quotient(rows, y);
  at[0] = (int)z; at[1] = (int)(rows - z * y.by); at[2] = (int)(rest - rows * x.by);
}
// The taps [from, to) of window o that lie inside, in one dimension.
__device__ void taps(const Pool& p, int d, int o, int* from, int* to) {
  const int first = o * p.stride[d] - p.before[d];
  *from = 0; *to = p.kernel[d];
  while (*from < *to && first + *from * p.dilation[d] < 0) ++*from;
  while (*to > *from && first + (*to - 1) * p.dilation[d] >= p.in[d]) --*to;
}
// The windows [from, to] that may reach element `at`; with dilation not all of them do.
__device__ void windows_at(const Pool& p, int d, int at, int* from, int* to) {
  const int last = at + p.before[d], first = last - (p.kernel[d] - 1) * p.dilation[d];
  *from = first <= 0 ? 0 : (int)quotient((u64)(first + p.stride[d] - 1), p.strides[d]);
  *to = last < 0 ? -1 : (int)quotient((u64)last, p.strides[d]);
  if (*to >= p.out[d]) *to = p.out[d] - 1;
}
__device__ bool reaches(const Pool& p, int d, int o, int at) {
  return p.dilation[d] == 1 || (at + p.before[d] - o * p.stride[d]) % p.dilation[d] == 0;
}
#define TAPS(a, d) for (int a = from[d]; a < to[d]; ++a)
#define REACHED(o, d) for (int o = from[d]; o <= to[d]; ++o) if (reaches(p, d, o, at[d]))
KERNEL max_pool(Out y, Out indices, i64* where, In x, Pool p, u64 n) {
  EACH(i, n) {
    u64 plane;
    int o[3], from[3], to[3];
    split_plane(i, p.out_plane, p.out_y, p.out_x, &plane, o);
    for (int d = 0; d < 3; ++d) taps(p, d, o[d], &from[d], &to[d]);
    float most = -3.4e38f;
    int best = -1;
    TAPS(a, 0) TAPS(b, 1) TAPS(c, 2) {
      const int z = o[0] * p.stride[0] - p.before[0] + a * p.dilation[0], v = o[1] * p.stride[1] - p.before[1] + b * p.dilation[1];
      const int place = (z * p.in[1] + v) * p.in[2] + o[2] * p.stride[2] - p.before[2] + c * p.dilation[2];
      const float value = x[plane * p.in_plane.by + (u64)place];
      if (best >= 0 && !(value > most)) continue;
      best = place;
      most = value;
    }
    y[i] = most;
    if (where) where[i] = best;
    if (indices) indices[i] = (float)(plane * p.in_plane.by + (u64)(best < 0 ? 0 : best));
  }
}
// Element i of the image sums the gradients of the windows that chose it.
KERNEL max_pool_d(Out dx, In dy, const i64* where, Pool p, u64 n) {
  EACH(i, n) {
    u64 plane;
    int at[3], from[3], to[3];
    split_plane(i, p.in_plane, p.in_y, p.in_x, &plane, at);
    for (int d = 0; d < 3; ++d) windows_at(p, d, at[d], &from[d], &to[d]);
    const i64 own = ((i64)at[0] * p.in[1] + at[1]) * p.in[2] + at[2];
    float sum = 0;
    REACHED(z, 0) REACHED(v, 1) REACHED(u, 2) {
      const u64 window = plane * p.out_plane.by + (u64)((z * p.out[1] + v) * p.out[2] + u);
      if (where[window] == own) sum += dy[window];
    }
    dx[i] = sum;
  }
}
__device__ float pool_share(const Pool& p, const int* o, u64 padding) {
  int count = 1;
  for (int d = 0; d < 3; ++d) {
    int from = 0, to = p.kernel[d];
    if (!padding) taps(p, d, o[d], &from, &to);
    const int first = o[d] * p.stride[d] - p.before[d];  // taps beyond the padding do not count
    while (to > from && first + (to - 1) * p.dilation[d] >= p.in[d] + p.after[d]) --to;
    count *= to - from;
  }
  return 1.0f / (float)(count > 0 ? count : 1);
}
KERNEL average_pool(Out y, In x, Pool p, u64 padding, u64 n) {
  EACH(i, n) {
    u64 plane;
    int o[3], from[3], to[3];
    split_plane(i, p.out_plane, p.out_y, p.out_x, &plane, o);
    for (int d = 0; d < 3; ++d) taps(p, d, o[d], &from[d], &to[d]);
    float sum = 0;
    TAPS(a, 0) TAPS(b, 1) TAPS(c, 2) {
      const int z = o[0] * p.stride[0] - p.before[0] + a * p.dilation[0], v = o[1] * p.stride[1] - p.before[1] + b * p.dilation[1];
      sum += x[plane * p.in_plane.by + (u64)((z * p.in[1] + v) * p.in[2] + o[2] * p.stride[2] - p.before[2] + c * p.dilation[2])];
    }
    y[i] = sum * pool_share(p, o, padding);
  }
}
KERNEL average_pool_d(Out dx, In dy, Pool p, u64 padding, u64 n) {
  EACH(i, n) {
    u64 plane;
    int at[3], from[3], to[3];
    split_plane(i, p.in_plane, p.in_y, p.in_x, &plane, at);
    for (int d = 0; d < 3; ++d) windows_at(p, d, at[d], &from[d], &to[d]);
    float sum = 0;
    REACHED(z, 0) REACHED(v, 1) REACHED(u, 2) {
      const int o[3] = {z, v, u};
      sum += dy[plane * p.out_plane.by + (u64)((z * p.out[1] + v) * p.out[2] + u)] * pool_share(p, o, padding);
    }
    dx[i] = sum;
  }
}

// --- one block per row ---
#ifdef __CUDACC_RTC__
extern __shared__ float shared[];
#endif
__device__ float block_sum(float v) {
  shared[threadIdx.x] = v;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  const float s = shared[0];
  __syncthreads();
  return s;
}
__device__ float block_max(float v) {
  shared[threadIdx.x] = v;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const float s = shared[0];
  __syncthreads();
  return s;
}
__device__ float block_fold(u64 kind, float v) {
  shared[threadIdx.x] = v;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = folded(kind == 5 ? 0 : kind, shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const float s = shared[0];
  __syncthreads();
  return s;
}
// One block per result and part, whose elements are contiguous.
KERNEL reduce_lines(Out y, In x, Strides kept, Strides over, u64 many, u64 kind, float scale, u64 each, Divisor results) {
  const u64 part = quotient(blockIdx.x, results), o = blockIdx.x - part * results.by;
  const u64 end = (part + 1) * each < many ? (part + 1) * each : many;
  i64 first, b, c;
  places(kept, o, &first, &b, &c);
  float r = nothing_folded(kind);
  for (u64 j = part * each + threadIdx.x; j < end; j += blockDim.x) {
    i64 at;
    places(over, j, &at, &b, &c);
    r = folded(kind, r, x[first + at]);
  }
  r = block_fold(kind, r);
  if (threadIdx.x == 0) y[blockIdx.x] = r * scale;
}
// The line of this block: `length` elements, `step` apart.
#define LINE(at) const u64 at = blockIdx.x / step * length * step + blockIdx.x % step
KERNEL softmax(Out y, In x, u64 length, u64 step, u64 logs) {
  LINE(at);
  float largest = -3.4e38f, sum = 0;
  for (u64 c = threadIdx.x; c < length; c += blockDim.x) largest = fmaxf(largest, x[at + c * step]);
  largest = block_max(largest);
  for (u64 c = threadIdx.x; c < length; c += blockDim.x) sum += expf(x[at + c * step] - largest);
  sum = block_sum(sum);
  for (u64 c = threadIdx.x; c < length; c += blockDim.x) {
    const float z = x[at + c * step] - largest;
    y[at + c * step] = logs ? z - logf(sum) : expf(z) / sum;
  }
}
KERNEL softmax_d(Out dx, In dy, In y, u64 length, u64 step, u64 logs) {
  LINE(at);
  float dot = 0;
  for (u64 c = threadIdx.x; c < length; c += blockDim.x) dot += dy[at + c * step] * (logs ? 1 : y[at + c * step]);
  dot = block_sum(dot);
  for (u64 c = threadIdx.x; c < length; c += blockDim.x) {
    const float g = dy[at + c * step], v = y[at + c * step];
    dx[at + c * step] = logs ? g - expf(v) * dot : v * (g - dot);
  }
}
// From log probabilities: the loss of each line, and the gradient of all of them.
__device__ u64 label_of(In labels, u64 line, u64 length) {
  const float given = labels[line];
  return given <= 0 ? 0 : given >= length ? length - 1 : (u64)given;
}
KERNEL pick_labels(Out loss, In logs, In labels, u64 length, u64 step, u64 n) {
  EACH(line, n) loss[line] = -logs[line / step * length * step + line % step + label_of(labels, line, length) * step];
}
KERNEL cross_entropy_d(Out dx, In dy, In logs, In labels, Divisor length,
                                           Divisor step, float share, u64 each, u64 n) {
  EACH(i, n) {
    const u64 rows = quotient(i, step), outer = quotient(rows, length), c = rows - outer * length.by;
    const u64 line = outer * step.by + i - rows * step.by;
    const float own = c == label_of(labels, line, length.by) ? 1.0f : 0.0f;
    dx[i] = dy[each ? line : 0] * share * (expf(logs[i]) - own);
  }
}

// --- normalization: sets of `runs` runs of `length` elements, as on the CPU ---
struct Sets { u64 sets, runs, step, between; Divisor length, channels, per_channel, set; };
__device__ u64 in_set(const Sets& s, u64 set, u64 j) {
  const u64 run = s.runs > 1 ? quotient(j, s.length) : 0;
  return set * s.between + run * s.step + j - run * s.length.by;
}
__device__ u64 channel(const Sets& s, u64 i) { return remainder_of(quotient(i, s.per_channel), s.channels); }
KERNEL normalize(Out y, Out stats, In x, In gain, In bias,
                                     In mean, In variance, Sets s, float epsilon, u64 centred) {
  const u64 set = blockIdx.x, count = s.runs * s.length.by;
  float m = 0, q = 0;
  if (mean) {
    m = mean[set];
    q = variance[set];
  } else {
    if (centred) {
      for (u64 j = threadIdx.x; j < count; j += blockDim.x) m += x[in_set(s, set, j)];
      m = block_sum(m) / count;
    }
    for (u64 j = threadIdx.x; j < count; j += blockDim.x) {
      const float v = x[in_set(s, set, j)] - m;
      q += v * v;
    }
    q = block_sum(q) / count;
  }
  const float inverse = 1 / sqrtf(q + epsilon);
  if (stats && threadIdx.x == 0) { stats[set] = m; stats[s.sets + set] = inverse; }
  for (u64 j = threadIdx.x; j < count; j += blockDim.x) {
    const u64 i = in_set(s, set, j), c = channel(s, i);
    y[i] = (x[i] - m) * inverse * (gain ? gain[c] : 1) + (bias ? bias[c] : 0);
  }
}
KERNEL normalize_d(Out dx, In dy, In x, In gain, In stats,
                                       In mean, In variance, Sets s, float epsilon, u64 centred) {
  const u64 set = blockIdx.x, count = s.runs * s.length.by;
  const float m = mean ? mean[set] : stats[set];
  const float inverse = mean ? 1 / sqrtf(variance[set] + epsilon) : stats[s.sets + set];
  float a = 0, b = 0;
  if (!mean) {
    for (u64 j = threadIdx.x; j < count; j += blockDim.x) {
      const u64 i = in_set(s, set, j);
      const float g = dy[i] * (gain ? gain[channel(s, i)] : 1);
      a += g;
      b += g * (x[i] - m) * inverse;
    }
    a = centred ? block_sum(a) / count : 0;
    b = block_sum(b) / count;
  }
  for (u64 j = threadIdx.x; j < count; j += blockDim.x) {
    const u64 i = in_set(s, set, j);
    dx[i] = inverse * (dy[i] * (gain ? gain[channel(s, i)] : 1) - a - (x[i] - m) * inverse * b);
  }
}
// Partial sums of the gradients of gain and bias, [parts, channels] each. The `many` elements of channel c lie in runs
// of per_channel, one every channels x per_channel.
__device__ void gain_term(In dy, In x, In stats, In mean, In variance, const Sets& s, float epsilon, u64 c, u64 j, float* g, float* b) {
  const u64 run = quotient(j, s.per_channel);
  const u64 i = (run * s.channels.by + c) * s.per_channel.by + j - run * s.per_channel.by;
  const u64 set = s.sets > 1 ? quotient(i, s.set) % s.sets : 0;
  const float m = mean ? mean[set] : stats[set];
  const float inverse = mean ? 1 / sqrtf(variance[set] + epsilon) : stats[s.sets + set];
  const float d = dy[i];
  *g += d * (x[i] - m) * inverse;
  *b += d;
}
KERNEL normalize_gain_d(float* gain, float* bias, In dy, In x, In stats, In mean, In variance, Sets s, float epsilon,
                        u64 many, u64 each, u64 n) {
  EACH(k, n) {
    const u64 part = quotient(k, s.channels), c = k - part * s.channels.by;
    const u64 end = (part + 1) * each < many ? (part + 1) * each : many;
    float g = 0, b = 0;
    for (u64 j = part * each; j < end; ++j) gain_term(dy, x, stats, mean, variance, s, epsilon, c, j, &g, &b);
    gain[k] = g;
    bias[k] = b;
  }
}
// As above, with one block per part of each channel, whose elements are contiguous.
KERNEL normalize_gain_lines_d(float* gain, float* bias, In dy, In x, In stats, In mean, In variance, Sets s, float epsilon,
                              u64 many, u64 each) {
  const u64 part = quotient(blockIdx.x, s.channels), c = blockIdx.x - part * s.channels.by;
  const u64 end = (part + 1) * each < many ? (part + 1) * each : many;
  float g = 0, b = 0;
  for (u64 j = part * each + threadIdx.x; j < end; j += blockDim.x)
    gain_term(dy, x, stats, mean, variance, s, epsilon, c, j, &g, &b);
  g = block_sum(g);
  b = block_sum(b);
  if (threadIdx.x == 0) { gain[blockIdx.x] = g; bias[blockIdx.x] = b; }
}

// --- lookups ---
KERNEL gather(Out y, In x, In index, u64 extent, Divisor count, Divisor inner, u64 n) {
  EACH(i, n) {
    const u64 row = quotient(i, inner), k = i - row * inner.by, o = quotient(row, count), j = row - o * count.by;
    i64 at = (i64)index[j];
    if (at < 0) at += (i64)extent;
    y[i] = x[(o * extent + (u64)at) * inner.by + k];
  }
}
// One block per place j of the index: finds the next place with the same row, or `count`, and whether j is the first.
// One thread per element of a row can then sum its gradients in a fixed order.
KERNEL gather_chain(u32* next, u32* first, In index, u64 extent, u64 count) {
  const u64 j = blockIdx.x;
  const auto row = [&](u64 k) { const i64 at = (i64)index[k]; return at < 0 ? at + (i64)extent : at; };
  const i64 own = row(j);
  float before = 0;
  for (u64 k = threadIdx.x; k < j && before == 0; k += blockDim.x) before = row(k) == own ? 1 : 0;
  before = block_max(before);
  // Block by block, since most are found soon.
  u64 found = count;
  for (u64 from = j + 1; from < count && found == count; from += blockDim.x) {
    const u64 k = from + threadIdx.x;
    const float nearest = -block_max(k < count && row(k) == own ? -(float)threadIdx.x : -1e9f);
    if (nearest < 1e8f) found = from + (u64)nearest;
  }
  if (threadIdx.x == 0) { next[j] = (u32)found; first[j] = before == 0 ? 1 : 0; }
}
KERNEL gather_d(Out dx, In dy, const u32* next, const u32* first, In index, u64 extent, Divisor count, Divisor inner, u64 n) {
  EACH(i, n) {
    const u64 row = quotient(i, inner), k = i - row * inner.by, o = quotient(row, count), j = row - o * count.by;
    if (first[j] == 0) continue;
    i64 at = (i64)index[j];
    if (at < 0) at += (i64)extent;
    float sum = 0;
    for (u64 each = j; each < count.by; each = next[each]) sum += dy[(o * count.by + each) * inner.by + k];
    dx[(o * extent + (u64)at) * inner.by + k] = sum;
  }
}
// A line's largest (smallest) element among those after element `last` in the order of the results; equal elements are
// ordered by place.
__device__ u64 next_top(In x, u64 first, u64 length, u64 step, u64 last, u64 largest) {
  const float before = last < length ? x[first + last * step] : 0;
  u64 best = length;
  for (u64 i = 0; i < length; ++i) {
    const float v = x[first + i * step];
    if (last < length && !((largest ? v < before : v > before) || (v == before && i > last))) continue;
    if (best == length || (largest ? v > x[first + best * step] : v < x[first + best * step])) best = i;
  }
  return best;
}
KERNEL top_k(Out y, Out place, In x, u64 length, u64 step, u64 count, u64 largest, u64 n) {
  EACH(i, n) {
    const u64 first = i / step * length * step + i % step, to = i / step * count * step + i % step;
    u64 last = length;
    for (u64 k = 0; k < count; ++k) {
      last = next_top(x, first, length, step, last, largest);
      y[to + k * step] = x[first + last * step];
      if (place) place[to + k * step] = (float)last;
    }
  }
}
KERNEL top_k_d(Out dx, In dy, In x, u64 length, u64 step, u64 count, u64 largest, u64 n) {
  EACH(i, n) {
    const u64 first = i / step * length * step + i % step, from = i / step * count * step + i % step;
    for (u64 k = 0; k < length; ++k) dx[first + k * step] = 0;
    u64 last = length;
    for (u64 k = 0; k < count; ++k) {
      last = next_top(x, first, length, step, last, largest);
      dx[first + last * step] = (float)dy[from + k * step];
    }
  }
}
// Elements by index along one axis; one thread per line of indices.
KERNEL gather_elements(Out y, In x, In index, Strides lines, i64 step, i64 extent, i64 own, i64 count, u64 n) {
  EACH(i, n) {
    i64 a, b, c;
    places(lines, i, &a, &b, &c);
    for (i64 k = 0; k < count; ++k) {
      i64 at = (i64)index[b + k * own];
      if (at < 0) at += extent;
      y[b + k * own] = x[a + at * step];
    }
  }
}
KERNEL gather_elements_d(Out dx, In dy, In index, Strides lines, i64 step, i64 extent, i64 own, i64 count, u64 n) {
  EACH(i, n) {
    i64 a, b, c;
    places(lines, i, &a, &b, &c);
    for (i64 k = 0; k < count; ++k) {
      i64 at = (i64)index[b + k * own];
      if (at < 0) at += extent;
      dx[a + at * step] += dy[b + k * own];
    }
  }
}

// --- experts: tokens [samples, tokens, h], and their slots [samples, tokens, k]: rows of [experts, samples, capacity],
// or -1 ---
// One thread per expert and sample: first choices come first, then tokens in their order.
KERNEL expert_slots(Out slots, In chosen, u64 samples, u64 tokens, u64 k, u64 experts, u64 capacity, u64 n) {
  EACH(i, n) {
    const u64 expert = i % experts, sample = i / experts;
    u64 taken = 0;
    for (u64 j = 0; j < k; ++j)
      for (u64 s = 0; s < tokens; ++s) {
        const u64 at = (sample * tokens + s) * k + j;
        if ((u64)chosen[at] != expert) continue;
        slots[at] = taken < capacity ? (float)((expert * samples + sample) * capacity + taken) : -1.0f;
        ++taken;
      }
  }
}
// rows[slot] = (weight times) token, for each choice and feature; and a token's (weighted) sum of its rows.
KERNEL expert_spread(Out rows, In tokens, In slots, In weights, u64 k, u64 h, u64 n) {
  EACH(i, n) {
    const u64 choice = i / h;
    if (slots[choice] >= 0)
      rows[(u64)slots[choice] * h + i % h] = tokens[choice / k * h + i % h] * (weights ? weights[choice] : 1);
  }
}
KERNEL expert_sum(Out tokens, In rows, In slots, In weights, u64 k, u64 h, u64 n) {
  EACH(i, n) {
    float sum = 0;
    for (u64 choice = i / h * k; choice < (i / h + 1) * k; ++choice)
      if (slots[choice] >= 0) sum += rows[(u64)slots[choice] * h + i % h] * (weights ? weights[choice] : 1);
    tokens[i] = sum;
  }
}
// One block per choice.
KERNEL expert_weights_d(Out dweights, In rows, In dy, In slots, u64 k, u64 h) {
  const u64 choice = blockIdx.x;
  float dot = 0;
  if (slots[choice] >= 0)
    for (u64 i = threadIdx.x; i < h; i += blockDim.x) dot += rows[(u64)slots[choice] * h + i] * dy[choice / k * h + i];
  dot = block_sum(dot);
  if (threadIdx.x == 0) dweights[choice] = dot;
}
// A number in [0, 1) for each element of each op (splitmix64), as on the CPU.
__device__ float chance(u64 seed, u64 element) {
  u64 z = seed + (element + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return (float)((z ^ (z >> 31)) >> 40) * 0x1p-24f;
}
KERNEL dropout(Out y, Out stayed, unsigned char* mask, In x, float drop, u64 seed, u64 n) {
  EACH(i, n) {
    const bool stays = chance(seed, i) >= drop;
    if (mask) mask[i] = stays;
    if (stayed) stayed[i] = stays ? 1.0f : 0.0f;
    y[i] = stays ? x[i] * (1 / (1 - drop)) : 0;
  }
}
KERNEL dropout_d(Out dx, In dy, const unsigned char* mask, float drop, u64 n) {
  EACH(i, n) dx[i] = mask[i] ? dy[i] * (1 / (1 - drop)) : 0;
}

// --- LSTM cell, gates i o f c in ONNX's order; kept: i, o, f, c~, c, tanh c, h ---
KERNEL lstm_cell(Out kept, Out out, In sums, In bias, In before_c,
                                     u64 hidden, u64 n) {
  EACH(at, n) {
    const u64 u = at % hidden, b = at / hidden;
    float in[4];
    for (u64 g = 0; g < 4; ++g) {
      in[g] = sums[b * 4 * hidden + g * hidden + u];
      if (bias) in[g] += bias[g * hidden + u] + bias[4 * hidden + g * hidden + u];
    }
    const float i = logistic(in[0]), o = logistic(in[1]), f = logistic(in[2]), g = tanhf(in[3]);
    const float state = f * (before_c ? before_c[at] : 0) + i * g, squashed = tanhf(state);
    const float slots[7] = {i, o, f, g, state, squashed, o * squashed};
    for (u64 k = 0; k < 7; ++k) kept[k * n + at] = slots[k];
    if (out) out[at] = slots[6];
  }
}
KERNEL lstm_cell_d(Out sums, Out dc, In dh, In dy, In kept,
                                       In before_c, u64 hidden, u64 n) {
  EACH(at, n) {
    const float i = kept[at], o = kept[n + at], f = kept[2 * n + at], g = kept[3 * n + at], squashed = kept[5 * n + at];
    const float out = dh[at] + (dy ? dy[at] : 0), state = dc[at] + out * o * (1 - squashed * squashed);
    const u64 row = at / hidden * 4 * hidden + at % hidden;
    sums[row] = state * g * i * (1 - i);
    sums[row + hidden] = out * squashed * o * (1 - o);
    sums[row + 2 * hidden] = state * (before_c ? before_c[at] : 0) * f * (1 - f);
    sums[row + 3 * hidden] = state * i * (1 - g * g);
    dc[at] = state * f;
  }
}
