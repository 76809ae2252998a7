#include "trainyard/bound/linear.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/bound/memory.hpp"
#include "trainyard/bound/work.hpp"

namespace trainyard {
namespace detail {

std::optional<double> least_value(const LinearProgram& program) {
  constexpr std::uint64_t kMostWork = 2'000'000'000;  // for the simplex method: about two seconds
  const LinearSolution solution =
      has_clp() ? solve_by_clp(program) : solve_by_simplex(program, {.most_work = kMostWork});
  if (solution.status != LinearSolution::Status::optimal) return std::nullopt;
  return solution.value;
}

}  // namespace detail

Nanoseconds linear_program_bound(const Problem& problem) {
  using Terms = std::vector<LinearProgram::Term>;
  constexpr double kInfinity = LinearProgram::kInfinity;
  constexpr std::size_t kMostColumns = 4'000;
  const auto classes = detail::device_classes(problem);
  if (classes.size() < 2 || classes.size() * problem.group_count() > kMostColumns) return Nanoseconds{0};
  const auto costs = detail::group_costs(problem, classes);
  const auto bytes = detail::group_bytes(problem);
  const double unit = static_cast<double>(std::max<std::int64_t>(work_bound(problem).count, 1));

  std::vector<double> room(classes.size(), 0);  // bytes of a class's devices; infinite if one has no capacity
  for (const DeviceId device : problem.devices()) {
    const auto memory = problem.cluster().device(device).memory;
    room[problem.column(device)] += memory ? static_cast<double>(memory->count) : kInfinity;
  }
  LinearProgram program;
  program.add_column(1, 0, kInfinity);
  std::vector<Terms> load(classes.size()), held(classes.size());
  for (std::size_t g = 0; g < problem.group_count(); ++g) {
    Terms whole;
    for (std::size_t k = 0; k < classes.size(); ++k) {
      const std::int64_t cost = costs[g * classes.size() + k];
      if (cost == detail::kNeverRuns) continue;
      const std::uint32_t column = program.add_column(0, 0, 1);
      whole.push_back({column, 1});
      load[k].push_back({column, -static_cast<double>(cost) / unit});
      held[k].push_back({column, static_cast<double>(bytes[g]) / std::max(1.0, room[k])});
    }
    program.add_row(1, 1, whole);
  }
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const auto devices = static_cast<double>(classes[k].devices);
    load[k].push_back({0, devices});
    program.add_row(-devices * static_cast<double>(classes[k].gap.count) / unit, kInfinity, load[k]);
    if (std::isfinite(room[k])) program.add_row(-kInfinity, room[k] > 0 ? 1 : 0, held[k]);
  }
  const auto value = detail::least_value(program);
  if (!value) return Nanoseconds{0};
  const double proven = std::ceil(*value * unit * (1 - 1e-6) - 1e-3);
  return Nanoseconds{std::max<std::int64_t>(0, static_cast<std::int64_t>(std::min(proven, 9e18)))};
}

}  // namespace trainyard
