#include "trainyard/bound/load.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "trainyard/bound/linear.hpp"
#include "trainyard/solve/integer_program.hpp"

namespace trainyard {
namespace {

using Terms = std::vector<LinearProgram::Term>;
constexpr double kInfinity = LinearProgram::kInfinity;
constexpr std::size_t kMostTerms = 200'000;  // upper limit on a relaxation's terms: some seconds

/// A solver's value, lowered by its tolerances and rounded up, since values are whole picoseconds.
Picoseconds proven(double value, double unit) {
  const double picoseconds = std::ceil(value * unit * (1 - 1e-6) - 1);
  return Picoseconds{picoseconds > 0 ? static_cast<std::int64_t>(picoseconds) : 0};
}

struct ColorTensor {
  std::uint32_t producer;
  std::vector<std::uint32_t> readers;  // other colors that read it, ascending
  TensorId tensor;
};

/// The problem in terms of colors, with times in units of `unit` picoseconds.
struct Colors {
  explicit Colors(const LoadProblem& of)
      : problem(of), unit(static_cast<double>(std::max<std::int64_t>(load_lower_bound(of).count, 1))) {
    for (const TensorId id : problem.tensors()) {
      std::vector<std::uint32_t> readers = problem.reading_colors(id);
      if (!readers.empty()) tensors.push_back({problem.op(problem.tensor(id).producer).color, std::move(readers), id});
    }
  }

  std::size_t count() const { return problem.color_count(); }
  bool can_run(std::size_t color, KindId kind) const {
    return !problem.devices_of(kind).empty() && problem.color_time(color, kind) != kNeverLoad;
  }
  double time(std::size_t color, KindId kind) const {
    return static_cast<double>(problem.color_time(color, kind).count) / unit;
  }
  double size(std::size_t color) const { return static_cast<double>(problem.color_size(color).count); }
  double cost(TensorId tensor, KindId kind) const {
    return static_cast<double>(problem.cost(tensor, kind).count) / unit;
  }

  const LoadProblem& problem;
  double unit;
  std::vector<ColorTensor> tensors;
};

/// Adds the rows of one device of the kind: its memory, and T (column 0) at least its compute time and, if the kind
/// pays and `sum` is given, its communication. The device's share of color c is column `first` + c.
void add_device(const Colors& colors, KindId kind, std::uint32_t first, std::optional<LoadSum> sum,
                LinearProgram& program) {
  Terms compute{{0, 1}}, held;
  for (std::uint32_t c = 0; c < colors.count(); ++c) {
    if (!colors.can_run(c, kind)) continue;
    compute.push_back({first + c, -colors.time(c, kind)});
    held.push_back({first + c, colors.size(c)});
  }
  if (const auto memory = colors.problem.kind(kind).memory) {
    const double scale = std::max(1.0, static_cast<double>(memory->count));
    for (auto& term : held) term.coefficient /= scale;
    program.add_row(-kInfinity, static_cast<double>(memory->count) / scale, held);
  }
  Terms in{{0, 1}}, out{{0, 1}};
  if (sum && colors.problem.kind(kind).pays) {
    for (const ColorTensor& tensor : colors.tensors) {
      const double cost = colors.cost(tensor.tensor, kind);
      if (cost == 0) continue;
      const std::uint32_t here = first + tensor.producer;
      const std::uint32_t in_column = program.add_column(0, 0, 1), out_column = program.add_column(0, 0, 1);
      for (const std::uint32_t reader : tensor.readers) {
        program.add_row(0, kInfinity, Terms{{in_column, 1}, {first + reader, -1}, {here, 1}});
        program.add_row(0, kInfinity, Terms{{out_column, 1}, {here, -1}, {first + reader, 1}});
      }
      in.push_back({in_column, -cost});
      out.push_back({out_column, -cost});
    }
  }
  const auto join = [](Terms& to, const Terms& from) { to.insert(to.end(), from.begin() + 1, from.end()); };
  if (sum == LoadSum::added) {
    join(compute, in);
    join(compute, out);
  } else if (sum == LoadSum::overlapped) {
    join(in, out);
    program.add_row(0, kInfinity, in);
  } else if (sum == LoadSum::channels) {
    program.add_row(0, kInfinity, in);
    program.add_row(0, kInfinity, out);
  }
  program.add_row(0, kInfinity, compute);
}

/// The program of load_work_bound(), or with `sum` of load_relaxation_bound(). Columns are T and, for one device of
/// each kind, its share of each color.
LinearProgram relaxation(const Colors& colors, std::optional<LoadSum> sum) {
  LinearProgram program;
  program.add_column(1, 0, kInfinity);
  std::vector<std::uint32_t> first;
  for (const KindId kind : colors.problem.kinds())
    for (std::uint32_t c = 0; c < colors.count(); ++c) {
      const std::uint32_t column = program.add_column(0, 0, colors.can_run(c, kind) ? 1 : 0);
      if (c == 0) first.push_back(column);
    }
  for (std::uint32_t c = 0; c < colors.count(); ++c) {
    Terms whole;
    for (const KindId kind : colors.problem.kinds()) {
      const auto devices = static_cast<double>(colors.problem.devices_of(kind).size());
      if (devices > 0) whole.push_back({first[kind.index()] + c, devices});
    }
    program.add_row(1, 1, whole);
  }
  for (const KindId kind : colors.problem.kinds())
    if (!colors.problem.devices_of(kind).empty()) add_device(colors, kind, first[kind.index()], sum, program);
  return program;
}

Picoseconds relaxed(const LoadProblem& problem, std::optional<LoadSum> sum) {
  const Colors colors(problem);
  std::size_t terms = 3 * problem.kind_count() * colors.count();
  if (sum)
    for (const ColorTensor& tensor : colors.tensors) terms += problem.kind_count() * (2 + 6 * tensor.readers.size());
  if (terms > kMostTerms) return {};
  const auto value = detail::least_value(relaxation(colors, sum));
  return value ? proven(*value, colors.unit) : Picoseconds{};
}

/// The least load of a device of the kind whose compute time is at least `least`; nothing if no set of colors has that.
std::optional<Picoseconds> busy_block(const Colors& colors, KindId kind, Picoseconds least, LoadSum sum,
                                      std::int64_t nodes) {
  IntegerProgram program;
  program.linear.add_column(1, 0, kInfinity);
  Terms work;
  double all = 0;
  for (std::uint32_t c = 0; c < colors.count(); ++c) {
    const bool runs = colors.can_run(c, kind);
    const std::uint32_t column = program.linear.add_column(0, 0, runs ? 1 : 0);
    program.whole.push_back(column);
    if (!runs) continue;
    work.push_back({column, colors.time(c, kind)});
    all += colors.time(c, kind);
  }
  // Lowered by a millionth, so that the solver does not miss a set with exactly `least`.
  const double enough = static_cast<double>(least.count) / colors.unit * (1 - 1e-6);
  if (all < enough) return std::nullopt;
  program.linear.add_row(enough, kInfinity, work);
  add_device(colors, kind, 1, sum, program.linear);
  const IntegerSolution solution = solve_by_cbc(program, {.nodes = nodes});
  if (solution.status == IntegerSolution::Status::infeasible) return std::nullopt;
  if (!std::isfinite(solution.bound)) return Picoseconds{};
  return proven(solution.bound, colors.unit);
}

}  // namespace

Picoseconds load_op_bound(const LoadProblem& problem) {
  Picoseconds bound{};
  for (const OpId op : problem.ops()) {
    Picoseconds least = kInfiniteLoad;
    for (const KindId kind : problem.kinds())
      if (!problem.devices_of(kind).empty() && problem.time(op, kind) != kNeverLoad)
        least = std::min(least, problem.time(op, kind));
    if (least != kInfiniteLoad) bound = std::max(bound, least);
  }
  return bound;
}

Picoseconds load_work_bound(const LoadProblem& problem) {
  return std::max(relaxed(problem, std::nullopt), load_lower_bound(problem));
}

Picoseconds load_relaxation_bound(const LoadProblem& problem, LoadSum sum) { return relaxed(problem, sum); }

Picoseconds load_block_bound(const LoadProblem& problem, LoadSum sum, std::int64_t nodes) {
  const Picoseconds least = std::max({load_op_bound(problem), load_color_bound(problem), load_work_bound(problem)});
  constexpr std::size_t kMostColumns = 1'000;
  const Colors colors(problem);
  if (!has_cbc() || colors.count() + 2 * colors.tensors.size() > kMostColumns) return least;
  std::optional<Picoseconds> bound;
  for (const KindId kind : problem.kinds()) {
    if (problem.devices_of(kind).empty()) continue;
    if (!problem.kind(kind).pays) {
      double all = 0;
      for (std::uint32_t c = 0; c < colors.count(); ++c)
        if (colors.can_run(c, kind)) all += colors.time(c, kind);
      if (all * colors.unit >= static_cast<double>(least.count) * (1 - 1e-6)) return least;
      continue;
    }
    const auto here = busy_block(colors, kind, least, sum, nodes);
    if (here) bound = bound ? std::min(*bound, *here) : *here;
  }
  return std::max(least, bound.value_or(Picoseconds{}));
}

std::vector<LoadBound> load_bounds(const LoadProblem& problem, const LoadOptions& options, bool communication) {
  std::vector<LoadBound> bounds{{"load-op", load_op_bound(problem)},
                                {"load-color", load_color_bound(problem)},
                                {"load-work", load_work_bound(problem)}};
  if (!communication) return bounds;
  bounds.push_back({"load-relaxation", load_relaxation_bound(problem, options.sum)});
  bounds.push_back({"load-block", load_block_bound(problem, options.sum)});
  return bounds;
}

LoadBound best_load_bound(const LoadProblem& problem, const LoadOptions& options, bool communication) {
  const auto bounds = load_bounds(problem, options, communication);
  return *std::ranges::max_element(bounds, {}, &LoadBound::value);  // the first of equals
}

}  // namespace trainyard
