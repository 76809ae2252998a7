#include "profiler/kernels/cuda/gpu_kernels.hpp"
#include "profiler/kernels/strides.hpp"

namespace trainyard::cuda {
namespace {

struct Tops {
  Lines lines;
  std::uint64_t count, largest;

  explicit Tops(const OpArrays& c)
      : lines(lines_along_axis(c, -1)), largest(c.node.integer("largest", 1) != 0 ? 1 : 0) {
    const Shape& shape = c.value(c.node.outputs[0]).shape;
    count = whole(shape[axis_at(c.node.integer("axis", -1), shape.size())]);
  }
};

void top_k(OpArrays& c, Gpu& gpu) {
  const Tops t{c};
  gpu.each("top_k", t.lines.count(), c.out[0].data, c.out.size() > 1 ? c.out[1].data : Reals{}, c.in[0].data,
           t.lines.length, t.lines.step, t.count, t.largest);
}
void top_k_d(OpArrays& c, Gpu& gpu) {
  const Tops t{c};
  gpu.each("top_k_d", t.lines.count(), c.dx[0].data, c.dy[0].data, c.in[0].data, t.lines.length, t.lines.step, t.count,
           t.largest);
}

/// Lines of indices: strides in the data and in the indices, and the step, extent and count along the axis.
struct Picks {
  Shape lines;
  std::vector<std::int64_t> data, index;
  std::int64_t step, extent, count, own_step;

  explicit Picks(const OpArrays& c)
      : lines(*c.in[1].shape), data(dense_strides(c.value(c.node.inputs[0]).shape)), index(dense_strides(lines)) {
    const std::size_t axis = axis_at(c.node.integer("axis", 0), lines.size());
    step = data[axis], own_step = index[axis], count = lines[axis];
    extent = c.value(c.node.inputs[0]).shape[axis];
    lines[axis] = 1;
  }
};

void gather_elements(OpArrays& c, Gpu& gpu) {
  const Picks p{c};
  gpu.each("gather_elements", whole(elements(p.lines)), c.out[0].data, c.in[0].data, c.in[1].data,
           strides_over(p.lines, p.data, p.index), p.step, p.extent, p.own_step, p.count);
}
void gather_elements_d(OpArrays& c, Gpu& gpu) {
  const Picks p{c};
  gpu.fill(c.dx[0].data, 0, c.dx[0].size());
  gpu.each("gather_elements_d", whole(elements(p.lines)), c.dx[0].data, c.dy[0].data, c.in[1].data,
           strides_over(p.lines, p.data, p.index), p.step, p.extent, p.own_step, p.count);
}

void expert_slots(OpArrays& c, Gpu& gpu) {
  const Array& chosen = c.in[0];
  const std::uint64_t experts = whole(c.node.integer("experts", 1)), samples = whole(chosen.dim(0));
  gpu.each("expert_slots", samples * experts, c.out[0].data, chosen.data, samples, whole(chosen.dim(1)),
           whole(chosen.dim(2)), experts, whole(c.node.integer("capacity", 1)));
}

/// Choices per token; features per token.
std::uint64_t choices(const Array& slots) { return whole(slots.dim(2)); }
std::uint64_t features(const Array& tokens) { return whole(tokens.dim(2)); }

void expert_dispatch(OpArrays& c, Gpu& gpu) {
  gpu.fill(c.out[0].data, 0, c.out[0].size());
  gpu.each("expert_spread", c.in[1].size() * features(c.in[0]), c.out[0].data, c.in[0].data, c.in[1].data, Reals{},
           choices(c.in[1]), features(c.in[0]));
}
void expert_dispatch_d(OpArrays& c, Gpu& gpu) {
  gpu.each("expert_sum", c.dx[0].size(), c.dx[0].data, c.dy[0].data, c.in[1].data, Reals{}, choices(c.in[1]),
           features(c.dx[0]));
}
void expert_combine(OpArrays& c, Gpu& gpu) {
  gpu.each("expert_sum", c.out[0].size(), c.out[0].data, c.in[0].data, c.in[2].data, c.in[1].data, choices(c.in[2]),
           features(c.out[0]));
}
void expert_combine_d(OpArrays& c, Gpu& gpu) {
  const std::uint64_t h = features(c.dy[0]);
  if (c.wants(0)) {
    gpu.fill(c.dx[0].data, 0, c.dx[0].size());
    gpu.each("expert_spread", c.in[2].size() * h, c.dx[0].data, c.dy[0].data, c.in[2].data, c.in[1].data,
             choices(c.in[2]), h);
  }
  if (c.wants(1))
    gpu.rows("expert_weights_d", c.in[2].size(), c.dx[1].data, c.in[0].data, c.dy[0].data, c.in[2].data,
             choices(c.in[2]), h);
}

constexpr GpuOp kExpertOps[] = {
    {"TopK", top_k, top_k_d},
    {"GatherElements", gather_elements, gather_elements_d},
    {"ExpertSlots", expert_slots, nullptr},
    {"ExpertDispatch", expert_dispatch, expert_dispatch_d},
    {"ExpertCombine", expert_combine, expert_combine_d},
};

}  // namespace

std::span<const GpuOp> expert_gpu_ops() { return kExpertOps; }

}  // namespace trainyard::cuda
