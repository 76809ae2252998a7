#include "lean_floor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace trainyard::bench {
namespace {

std::uint32_t narrow(std::int64_t value) {
  if (value < 0 || value > 0xffffffffLL) throw std::logic_error("a benchmark's number does not fit in 32 bits");
  return static_cast<std::uint32_t>(value);
}

}  // namespace

LeanFloor::LeanFloor(const Workload& workload) {
  const Problem& problem = workload.problem;
  const Graph& graph = problem.graph();
  ops_ = static_cast<std::uint32_t>(graph.op_count());
  columns_ = problem.column_count();
  for (const OpId op : graph.ops()) {
    if (!graph.after(op).empty()) throw std::logic_error("the floor knows no control edges");
    first_tensor_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    if (graph.outputs(op).size() != 1) one_tensor_ = false;
    for (const TensorId tensor : graph.outputs(op)) {
      first_edge_.push_back(static_cast<std::uint32_t>(consumer_.size()));
      bytes_.push_back(narrow(graph.bytes(tensor).count));
      for (const OpId consumer : graph.consumers(tensor))
        consumer_.push_back(static_cast<std::uint32_t>(consumer.index()));
    }
    pending_.push_back(static_cast<std::uint32_t>(graph.inputs(op).size()));
  }
  first_tensor_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  first_edge_.push_back(static_cast<std::uint32_t>(consumer_.size()));
  if (one_tensor_) first_tensor_.clear();
  for (const Nanoseconds time : problem.durations()) duration_.push_back(narrow(time.count));
  for (const DeviceId device : problem.devices()) column_.push_back(static_cast<std::uint32_t>(problem.column(device)));

  const std::size_t host = devices_per_host(workload.setting), devices = problem.device_count();
  host_shift_ = static_cast<unsigned>(std::countr_zero(host));
  for (unsigned far = 0; far < 2; ++far) {
    const std::size_t to = far != 0 ? host : 1;
    if (to >= devices) continue;
    const Route route = problem.cluster().route(DeviceId{0}, DeviceId{to});
    latency_[far] = route.latency.count;
    per_byte_[far] = static_cast<std::uint64_t>(std::floor(1e9 / route.bandwidth.value * 0x1p32));
  }

  state_.resize(ops_);
  queue_.resize(ops_ + 1);  // branchless() writes one element beyond the last op
  spans_.resize(ops_);
}

std::int64_t LeanFloor::branchy(const Placement& placement) {
  return one_tensor_ ? walk<false, true>(placement) : walk<false, false>(placement);
}
std::int64_t LeanFloor::branchless(const Placement& placement) {
  return one_tensor_ ? walk<true, true>(placement) : walk<true, false>(placement);
}

template <bool kBranchless, bool kOneTensor>
[[gnu::noinline]] std::int64_t LeanFloor::walk(const Placement& placement) {
  State* const states = state_.data();
  std::uint32_t* const queue = queue_.data();
  const std::uint32_t* const first_edge = first_edge_.data();
  const std::uint32_t* const consumers = consumer_.data();
  const std::uint32_t* const columns = column_.data();
  const DeviceId* const devices = placement.values().data();
  std::uint32_t head = 0, tail = 0;
  for (std::uint32_t op = 0; op < ops_; ++op) {
    states[op] = {0, pending_[op], static_cast<std::uint32_t>(devices[op].index())};
    queue[tail] = op;
    tail += pending_[op] == 0 ? 1U : 0U;
  }
  std::int64_t last = 0;
  while (head < tail) {
    const std::uint32_t op = queue[head++];
    const std::uint32_t device = states[op].device;
    const std::int64_t start = states[op].ready;
    const std::int64_t end = start + duration_[op * columns_ + columns[device]];
    spans_[op] = {start, end};
    last = std::max(last, end);
    const std::uint32_t first_tensor = kOneTensor ? op : first_tensor_[op];
    const std::uint32_t last_tensor = kOneTensor ? op + 1 : first_tensor_[op + 1];
    for (std::uint32_t tensor = first_tensor; tensor < last_tensor; ++tensor) {
      const std::uint32_t bytes = bytes_[tensor];
      const std::uint32_t last_edge = first_edge[tensor + 1];
      for (std::uint32_t edge = first_edge[tensor]; edge < last_edge; ++edge) {
        const std::uint32_t consumer = consumers[edge];
        State& state = states[consumer];
        if constexpr (kBranchless) {
          const std::int64_t crosses = -static_cast<std::int64_t>(state.device != device);
          state.ready = std::max(state.ready, end + (transfer_time(device, state.device, bytes) & crosses));
          queue[tail] = consumer;
          tail += --state.pending == 0 ? 1U : 0U;
        } else {
          std::int64_t at = end;
          if (state.device != device) at += transfer_time(device, state.device, bytes);
          state.ready = std::max(state.ready, at);
          if (--state.pending == 0) queue[tail++] = consumer;
        }
      }
    }
  }
  return last;
}

}  // namespace trainyard::bench
