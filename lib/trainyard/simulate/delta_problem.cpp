#include "trainyard/simulate/delta_problem.hpp"

#include <algorithm>

namespace trainyard::detail {

DeltaProblem::DeltaProblem(const Problem& problem)
    : dense(problem),
      links(dense.zero_durations ? DenseProblem::Links::queued : dense.links),
      producer(dense.tensors),
      first_input(dense.ops + 1),
      first_after(dense.ops + 1),
      tail(dense.ops) {
  const auto position = [](OpId op) { return static_cast<std::uint32_t>(op.index()); };
  const auto each_input = [&](const auto& visit) {
    for (std::uint32_t op = 0; op < dense.ops; ++op)
      for (std::uint32_t tensor = dense.first_output[op]; tensor < dense.first_output[op + 1]; ++tensor)
        for (std::uint32_t edge = dense.first_consumer[tensor]; edge < dense.first_consumer[tensor + 1]; ++edge)
          visit(op, tensor, position(dense.consumer[edge]));
  };
  const auto each_after = [&](const auto& visit) {
    if (dense.first_before == nullptr) return;
    for (std::uint32_t op = 0; op < dense.ops; ++op)
      for (std::uint32_t i = dense.first_before[op]; i < dense.first_before[op + 1]; ++i)
        visit(op, position(dense.before[i]));
  };
  for (std::uint32_t op = 0; op < dense.ops; ++op)
    for (std::uint32_t tensor = dense.first_output[op]; tensor < dense.first_output[op + 1]; ++tensor)
      producer[tensor] = op;
  each_input([&](std::uint32_t, std::uint32_t, std::uint32_t to) { ++first_input[to + 1]; });
  each_after([&](std::uint32_t, std::uint32_t to) { ++first_after[to + 1]; });
  for (std::uint32_t op = 0; op < dense.ops; ++op) {
    first_input[op + 1] += first_input[op];
    first_after[op + 1] += first_after[op];
  }
  input.resize(first_input.back());
  after.resize(first_after.back());
  std::vector<std::uint32_t> next = first_input;
  each_input([&](std::uint32_t, std::uint32_t tensor, std::uint32_t to) { input[next[to]++] = tensor; });
  next = first_after;
  each_after([&](std::uint32_t op, std::uint32_t to) { after[next[to]++] = op; });

  for (std::uint32_t op = dense.ops; op-- > 0;) {
    const std::int64_t through = tail[op] + problem.shortest(OpId{dense.op_id(op)}).count;
    for (std::uint32_t i = first_input[op]; i < first_input[op + 1]; ++i) {
      std::int64_t& longest = tail[producer[input[i]]];
      longest = std::max(longest, through);
    }
    for (std::uint32_t i = first_after[op]; i < first_after[op + 1]; ++i)
      tail[after[i]] = std::max(tail[after[i]], through);
  }
}

}  // namespace trainyard::detail
