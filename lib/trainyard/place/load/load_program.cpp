#include "trainyard/place/load/load_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/solve/integer_program.hpp"

namespace trainyard {
namespace {

constexpr std::uint32_t kNoColumn = static_cast<std::uint32_t>(-1);
constexpr double kUnbounded = LinearProgram::kInfinity;
using Terms = std::vector<LinearProgram::Term>;

/// Transfers between colors. Tensors with the same producer, readers and pass are merged.
struct TensorColumns {
  std::uint32_t producer;
  std::vector<std::uint32_t> readers;
  bool backward;
  std::vector<Picoseconds> costs;  // by kind
};

std::vector<TensorColumns> color_tensors(const LoadProblem& problem) {
  std::map<std::tuple<std::uint32_t, std::vector<std::uint32_t>, bool>, std::vector<Picoseconds>> known;
  for (const TensorId id : problem.tensors()) {
    std::vector<std::uint32_t> readers = problem.reading_colors(id);
    if (readers.empty()) continue;
    const LoadOp& producer = problem.op(problem.tensor(id).producer);
    auto& costs = known[{producer.color, std::move(readers), producer.backward}];
    costs.resize(problem.kind_count());
    for (const KindId kind : problem.kinds()) costs[kind.index()] += problem.cost(id, kind);
  }
  std::vector<TensorColumns> list;
  for (const auto& [key, costs] : known)
    if (std::ranges::any_of(costs, [](Picoseconds cost) { return cost.count > 0; }))
      list.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), costs});
  return list;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const LoadProblem& problem, const LoadProgramOptions& options)
      : problem_(problem), options_(options), tensors_(color_tensors(problem)), devices_(problem.device_count()) {
    rank_colors();
    unit_ = static_cast<double>(std::max<std::int64_t>(load_lower_bound(problem).count, 1));
  }

  /// Adds the columns x(c, i). Returns false if some color has no device.
  bool add_places() {
    places_.assign(problem_.color_count() * devices_, kNoColumn);
    std::vector<std::size_t> within(devices_);  // number of each device within its kind
    for (const KindId kind : problem_.kinds())
      for (std::size_t i = 0; i < problem_.devices_of(kind).size(); ++i)
        within[problem_.devices_of(kind)[i].index()] = i;
    for (std::size_t rank = 0; rank < order_.size(); ++rank) {
      const std::uint32_t color = order_[rank];
      Terms one;
      for (std::size_t i = 0; i < devices_; ++i) {
        if (time(color, i) == kNeverLoad || within[i] > rank) continue;
        const std::uint32_t column = program_.linear.add_column(0, 0, 1);
        places_[color * devices_ + i] = column;
        program_.whole.push_back(column);
        one.push_back({column, 1});
      }
      if (one.empty()) return false;
      program_.linear.add_row(1, 1, one);
    }
    return true;
  }
  /// Number of columns, including those that are still to be added.
  std::size_t columns() const {
    std::size_t count = program_.linear.columns() + (options_.goal.goal == LoadGoal::apart ? 2 : 1);
    for (const TensorColumns& tensor : tensors_)
      for (std::size_t i = 0; i < devices_; ++i) count += costs(tensor, i) ? 2U : 0U;
    return count + (options_.contiguous ? problem_.op_count() * devices_ : 0);
  }
  void add_the_rest() {
    add_memory();
    add_communication();
    add_loads();
    if (options_.contiguous) add_contiguity();
  }

  IntegerProgram& program() { return program_; }
  Picoseconds time_of(double value) const {
    return Picoseconds{static_cast<std::int64_t>(std::floor(value * unit_ + 0.5))};
  }

  LoadPlacement placement(const std::vector<double>& x) const {
    LoadPlacement placement(problem_.op_count());
    for (const OpId op : problem_.ops())
      for (std::size_t i = 0; i < devices_; ++i) {
        const std::uint32_t column = place(problem_.op(op).color, i);
        if (column != kNoColumn && x[column] > 0.5) placement[op] = DeviceId{i};
      }
    return placement;
  }

  /// Values of all columns for a placement, its devices renumbered within their kinds to respect the symmetry breaking.
  /// Empty if a color has no column on its device.
  std::vector<double> columns_of(const LoadPlacement& placement) const {
    std::vector<std::size_t> renamed(devices_, devices_), used(problem_.kind_count(), 0);
    std::vector<std::size_t> device_of(problem_.color_count());
    for (const OpId op : problem_.ops()) device_of[problem_.op(op).color] = placement[op].index();
    for (const std::uint32_t color : order_) {
      std::size_t& name = renamed[device_of[color]];
      const KindId kind = problem_.kind_of(DeviceId{device_of[color]});
      if (name == devices_) name = problem_.devices_of(kind)[used[kind.index()]++].index();
    }
    for (std::size_t& device : device_of) device = renamed[device];
    std::vector<double> x(program_.linear.columns(), 0.0);
    for (std::size_t color = 0; color < device_of.size(); ++color) {
      const std::uint32_t column = place(color, device_of[color]);
      if (column == kNoColumn) return {};
      x[column] = 1;
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      for (std::size_t i = 0; i < devices_; ++i) {
        if (moves_[t * devices_ + i] == kNoColumn) continue;
        const bool here = device_of[tensors_[t].producer] == i;
        bool read_here = false, read_elsewhere = false;
        for (const std::uint32_t reader : tensors_[t].readers)
          (device_of[reader] == i ? read_here : read_elsewhere) = true;
        x[moves_[t * devices_ + i]] = !here && read_here ? 1 : 0;
        x[moves_[t * devices_ + i] + 1] = here && read_elsewhere ? 1 : 0;
      }
    fill_reach(device_of, x);
    fill_goal(x);
    return x;
  }

 private:
  Picoseconds time(std::size_t color, std::size_t device) const {
    return problem_.color_time(color, problem_.kind_of(DeviceId{device}));
  }
  double scaled(Picoseconds time) const { return static_cast<double>(time.count) / unit_; }

  void rank_colors() {
    std::vector<Picoseconds> most(problem_.color_count());
    for (std::size_t color = 0; color < most.size(); ++color)
      for (std::size_t i = 0; i < devices_; ++i) most[color] = std::max(most[color], time(color, i));
    order_.resize(most.size());
    std::iota(order_.begin(), order_.end(), 0U);
    sort_by_descending(order_, [&](std::uint32_t color) { return most[color]; });
  }

  bool costs(const TensorColumns& tensor, std::size_t device) const {
    return tensor.costs[problem_.kind_of(DeviceId{device}).index()].count != 0;
  }

  std::uint32_t place(std::size_t color, std::size_t device) const { return places_[color * devices_ + device]; }

  void add_memory() {
    for (std::size_t i = 0; i < devices_; ++i) {
      const auto& memory = problem_.kind(problem_.kind_of(DeviceId{i})).memory;
      if (!memory) continue;
      const double room = static_cast<double>(memory->count), scale = std::max(room, 1.0);
      Terms terms;
      for (std::size_t color = 0; color < problem_.color_count(); ++color)
        if (const auto size = static_cast<double>(problem_.color_size(color).count);
            place(color, i) != kNoColumn && size > 0)
          terms.push_back({place(color, i), size / scale});
      if (!terms.empty()) program_.linear.add_row(-kUnbounded, room / scale, terms);
    }
  }

  /// Adds the row x(a, i) - x(b, i) <= column.
  void add_difference(std::size_t a, std::size_t b, std::size_t device, std::uint32_t column) {
    if (place(a, device) == kNoColumn) return;
    Terms terms{{place(a, device), 1}, {column, -1}};
    if (place(b, device) != kNoColumn) terms.push_back({place(b, device), -1});
    program_.linear.add_row(-kUnbounded, 0, terms);
  }

  void add_communication() {
    moves_.assign(tensors_.size() * devices_, kNoColumn);
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      for (std::size_t i = 0; i < devices_; ++i) {
        const TensorColumns& tensor = tensors_[t];
        if (!costs(tensor, i)) continue;
        const std::uint32_t in = program_.linear.add_column(0, 0, 1), out = program_.linear.add_column(0, 0, 1);
        moves_[t * devices_ + i] = in;
        for (const std::uint32_t reader : tensor.readers) {
          add_difference(reader, tensor.producer, i, in);
          add_difference(tensor.producer, reader, i, out);
        }
      }
  }

  /// Terms of one pass, or of both (nullopt), on one device: compute, in, out.
  std::array<Terms, 3> pass_terms(std::size_t device, std::optional<bool> backward) const {
    const KindId kind = problem_.kind_of(DeviceId{device});
    std::array<Terms, 3> terms;
    for (std::size_t color = 0; color < problem_.color_count(); ++color) {
      if (place(color, device) == kNoColumn) continue;
      const Picoseconds time =
          backward ? problem_.color_time(color, kind, *backward) : problem_.color_time(color, kind);
      if (time.count > 0) terms[0].push_back({place(color, device), scaled(time)});
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const std::uint32_t in = moves_[t * devices_ + device];
      if (in == kNoColumn || tensors_[t].backward != backward.value_or(tensors_[t].backward)) continue;
      const double cost = scaled(tensors_[t].costs[kind.index()]);
      terms[1].push_back({in, cost});
      terms[2].push_back({in + 1, cost});
    }
    return terms;
  }

  static void append(Terms& to, const Terms& more) { to.insert(to.end(), more.begin(), more.end()); }

  /// Adds rows that keep the load of these parts at or below `column`.
  void add_load(const std::array<Terms, 3>& parts, std::uint32_t column) {
    std::vector<Terms> sums{parts[0]};
    if (options_.goal.sum == LoadSum::channels) {
      sums.push_back(parts[1]);
      sums.push_back(parts[2]);
    } else {
      if (options_.goal.sum == LoadSum::overlapped) sums.emplace_back();
      append(sums.back(), parts[1]);
      append(sums.back(), parts[2]);
    }
    for (Terms& terms : sums) {
      if (terms.empty()) continue;
      terms.push_back({column, -1});
      program_.linear.add_row(-kUnbounded, 0, terms);
    }
  }

  void add_loads() {
    const bool apart = options_.goal.goal == LoadGoal::apart;
    goal_ = program_.linear.add_column(1, 0, kUnbounded);
    if (apart) program_.linear.add_column(1, 0, kUnbounded);
    for (std::size_t i = 0; i < devices_; ++i) {
      if (apart) {
        add_load(pass_terms(i, false), goal_);
        add_load(pass_terms(i, true), goal_ + 1);
      } else {
        add_load(pass_terms(i, std::nullopt), goal_);
      }
    }
  }

  /// Calls `each(u, v)` for every edge between forward ops.
  template <class Each>
  void for_forward_edges(Each each) const {
    for (const TensorId id : problem_.tensors()) {
      const LoadTensor& tensor = problem_.tensor(id);
      if (problem_.op(tensor.producer).backward) continue;
      for (const OpId reader : tensor.consumers)
        if (!problem_.op(reader).backward) each(tensor.producer, reader);
    }
  }

  void add_contiguity() {
    reach_ = static_cast<std::uint32_t>(program_.linear.columns());
    for (std::size_t i = 0; i < problem_.op_count() * devices_; ++i) program_.linear.add_column(0, 0, 1);
    const auto reach = [&](OpId op, std::size_t device) {
      return reach_ + static_cast<std::uint32_t>(op.index() * devices_ + device);
    };
    const auto place_of = [&](OpId op, std::size_t device) { return place(problem_.op(op).color, device); };
    for (std::size_t i = 0; i < devices_; ++i) {
      for (const OpId op : problem_.ops())
        if (!problem_.op(op).backward && place_of(op, i) != kNoColumn)
          program_.linear.add_row(-kUnbounded, 0, Terms{{place_of(op, i), 1}, {reach(op, i), -1}});
      for_forward_edges([&](OpId from, OpId to) {
        program_.linear.add_row(-kUnbounded, 0, Terms{{reach(to, i), 1}, {reach(from, i), -1}});
        if (place_of(from, i) == kNoColumn || place_of(from, i) == place_of(to, i)) return;
        Terms terms{{reach(to, i), 1}, {place_of(from, i), 1}};
        if (place_of(to, i) != kNoColumn) terms.push_back({place_of(to, i), -1});
        program_.linear.add_row(-kUnbounded, 1, terms);
      });
    }
  }

  /// Sets z for a placement: 1 for every forward op from which the device's work can be reached.
  void fill_reach(const std::vector<std::size_t>& device_of, std::vector<double>& x) const {
    if (!options_.contiguous) return;
    for (std::size_t i = 0; i < devices_; ++i) {
      std::vector<double> reach(problem_.op_count(), 0.0);
      const auto& order = problem_.topological_order();
      for (std::size_t at = order.size(); at-- > 0;) {
        // The least value that the rows allow: the maximum over the op itself and its readers.
        const OpId op = order[at];
        if (problem_.op(op).backward) continue;
        double need = device_of[problem_.op(op).color] == i ? 1 : 0;
        for (const TensorId out : problem_.outputs(op))
          for (const OpId reader : problem_.tensor(out).consumers)
            if (!problem_.op(reader).backward) need = std::max(need, reach[reader.index()]);
        reach[op.index()] = need;
        x[reach_ + op.index() * devices_ + i] = need;
      }
    }
  }

  /// Sets the goal columns to the least values that all rows allow.
  void fill_goal(std::vector<double>& x) const {
    const LinearProgram& linear = program_.linear;
    for (std::size_t row = 0; row < linear.rows(); ++row) {
      double sum = 0;
      std::uint32_t goal = kNoColumn;
      for (const auto& term : linear.terms(row)) {
        if (term.column == goal_ || (options_.goal.goal == LoadGoal::apart && term.column == goal_ + 1))
          goal = term.column;
        else
          sum += term.coefficient * x[term.column];
      }
      if (goal != kNoColumn) x[goal] = std::max(x[goal], sum);
    }
  }

  const LoadProblem& problem_;
  const LoadProgramOptions& options_;
  std::vector<TensorColumns> tensors_;
  std::size_t devices_;
  double unit_ = 1;                   // picoseconds; keeps times in the program within a few powers of ten of 1
  std::vector<std::uint32_t> order_;  // colors by descending time
  IntegerProgram program_;
  std::vector<std::uint32_t> places_;  // color x device
  std::vector<std::uint32_t> moves_;   // tensor x device: column of in, followed by that of out
  std::uint32_t goal_ = kNoColumn, reach_ = kNoColumn;
};

bool keeps_rows(const LinearProgram& linear, const std::vector<double>& x) {
  for (std::size_t row = 0; row < linear.rows(); ++row) {
    double sum = 0;
    for (const auto& term : linear.terms(row)) sum += term.coefficient * x[term.column];
    if (sum < linear.row_lower(row) - 1e-7 || sum > linear.row_upper(row) + 1e-7) return false;
  }
  return true;
}

}  // namespace

std::size_t load_program_columns(const LoadProblem& problem, const LoadProgramOptions& options) {
  ProgramBuilder builder{problem, options};
  return builder.add_places() ? builder.columns() : 0;
}

LoadProgramResult solve_load_program(const LoadProblem& problem, const LoadProgramOptions& options) {
  LoadProgramResult result;
  ProgramBuilder builder{problem, options};
  if (!builder.add_places()) {
    result.infeasible = true;
    return result;
  }
  const std::size_t columns = builder.columns();  // checked before the rows are added, which are many more
  if (columns > options.most_columns)
    refuse("too-large",
           fmt::format("the integer program would have {} columns, more than {}", columns, options.most_columns),
           "use placer 'load-search', which has no limit on size");
  builder.add_the_rest();
  assert(builder.program().linear.columns() == columns);
  IntegerOptions solver{.seconds = options.seconds, .nodes = options.nodes, .gap = options.gap, .stop = options.stop};
  const auto take = [&](const LoadPlacement& placement) {
    const LoadReport report = evaluate_load(problem, placement, options.goal);
    if (!report.feasible() || report.value >= result.value) return;
    result.placement = placement;
    result.value = report.value;
  };
  if (options.start) {
    solver.start = builder.columns_of(*options.start);
    if (solver.start.empty() || !keeps_rows(builder.program().linear, solver.start))
      solver.start.clear();
    else
      take(*options.start);
  }
  const IntegerSolution solution = solve_by_cbc(builder.program(), solver);
  using Status = IntegerSolution::Status;
  result.infeasible = solution.status == Status::infeasible && !result.placement;
  if (result.infeasible) return result;
  // The solver's tolerances leave a relative 10^-6 of uncertainty in its bound.
  result.bound = load_lower_bound(problem);
  if (std::isfinite(solution.bound))
    result.bound = std::max(builder.time_of(solution.bound * (1 - 1e-6)), result.bound);
  if (solution.x.empty()) return result;
  const LoadPlacement found = builder.placement(solution.x);
  const LoadReport report = evaluate_load(problem, found, options.goal);
  const double said = static_cast<double>(builder.time_of(solution.value).count);
  const double is = static_cast<double>(report.value.count);
  if (!report.feasible() || is > said * (1 + 1e-6) + 1) return result;  // infeasible, or worse than the solver says
  take(found);
  result.optimal = solution.status == Status::optimal;
  return result;
}

}  // namespace trainyard
