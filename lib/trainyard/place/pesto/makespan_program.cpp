#include "trainyard/place/pesto/makespan_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "trainyard/bound/chains.hpp"
#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/exact/model.hpp"

namespace trainyard {
namespace {

/// follows[i][j]: j comes after i, directly or not.
std::vector<std::vector<bool>> closure(const Graph& graph) {
  std::vector<std::vector<bool>> follows(graph.op_count(), std::vector<bool>(graph.op_count(), false));
  const auto& order = graph.topological_order();
  for (std::size_t at = order.size(); at-- > 0;) {
    const std::size_t i = order[at].index();
    const auto take = [&](OpId next) {
      follows[i][next.index()] = true;
      for (std::size_t j = 0; j < follows[i].size(); ++j)
        if (follows[next.index()][j]) follows[i][j] = true;
    };
    for (const TensorId tensor : graph.outputs(order[at]))
      for (const OpId reader : graph.consumers(tensor)) take(reader);
    for (const OpId later : graph.before(order[at])) take(later);
  }
  return follows;
}

}  // namespace

MakespanProgram::Sum& MakespanProgram::Sum::add(std::uint32_t column, double coefficient) {
  terms.push_back({column, coefficient});
  return *this;
}

MakespanProgram::Sum& MakespanProgram::Sum::add(const Sum& other, double factor) {
  constant += factor * other.constant;
  for (const auto& term : other.terms) terms.push_back({term.column, factor * term.coefficient});
  return *this;
}

std::uint32_t MakespanProgram::column(std::string name, double upper, bool whole) {
  const std::uint32_t number = program_.linear.add_column(names_.empty() ? 1 : 0, 0, upper);
  if (whole) program_.whole.push_back(number);
  names_.push_back(std::move(name));
  return number;
}

void MakespanProgram::at_least(Sum sum, double bound) {
  std::map<std::uint32_t, double> merged;
  for (const auto& term : sum.terms) merged[term.column] += term.coefficient;
  std::vector<LinearProgram::Term> terms;
  for (const auto& [number, coefficient] : merged)
    if (coefficient != 0) terms.push_back({number, coefficient});
  program_.linear.add_row(bound - sum.constant, LinearProgram::kInfinity, terms);
}

MakespanProgram::Sum MakespanProgram::on(OpId op, DeviceId device) const {
  const std::size_t row = problem_.group(op).index() * problem_.device_count();
  const std::uint32_t own = places_[row + device.index()];
  if (own != kNoColumn) return Sum{}.add(own, 1);
  if (two_ && device == DeviceId{0} && places_[row + 1] != kNoColumn && problem_.can_run(op, device))
    return Sum{.constant = 1}.add(places_[row + 1], -1);
  return Sum{};
}

MakespanProgram::Sum MakespanProgram::duration(OpId op) const {
  Sum sum;
  for (const DeviceId device : problem_.devices())
    if (problem_.can_run(op, device)) sum.add(on(op, device), in_units(problem_.duration(op, device)));
  return sum;
}

MakespanProgram::MakespanProgram(const Problem& problem, const MakespanProgramOptions& options)
    : problem_(problem), unit_(options.unit_ns) {
  const double limit = in_units(options.limit);
  const auto pairs = problem.op_count() * (problem.op_count() - 1) / 2;
  if (pairs + problem.op_count() * problem.device_count() > options.most_columns)
    refuse("too-large",
           fmt::format("the integer program of {} ops would have more than {} columns", problem.op_count(),
                       options.most_columns),
           "coarsen the graph first: --coarsen pesto:40");
  follows_ = closure(problem.graph());
  column("C", limit, false);
  add_places(limit);
  add_edges(limit);
  add_op_pairs(limit);
  add_transfer_pairs(limit);
  if (names_.size() > options.most_columns)
    refuse("too-large",
           fmt::format("the integer program would have {} columns, more than {}", names_.size(), options.most_columns),
           "coarsen the graph first: --coarsen pesto:40");
}

void MakespanProgram::add_places(double limit) {
  const std::size_t devices = problem_.device_count();
  two_ = devices == 2;
  const detail::ExactModel model(problem_, Placement{});
  places_.assign(problem_.group_count() * devices, kNoColumn);
  for (std::size_t g = 0; g < problem_.group_count(); ++g) {
    const auto name = problem_.graph().name(problem_.group_ops(GroupId{g}).front());
    const auto& able = model.able[g];
    const bool one_column = two_ && able.size() == 2;
    Sum sum;
    for (const std::uint32_t device : able) {
      if (one_column && device == 0) continue;
      const bool first = g == model.group_order.front();  // breaks the symmetry of the devices
      const double upper = first && model.twin[device] != device ? 0 : 1;
      const std::uint32_t x =
          column(fmt::format("x_{}_{}", name, problem_.cluster().device(DeviceId{device}).name), upper, true);
      places_[g * devices + device] = x;
      sum.add(x, 1);
    }
    if (!one_column) program_.linear.add_row(1, 1, sum.terms);
  }
  const Chains chains = chains_with_transfers(problem_);
  for (const OpId op : problem_.ops()) {
    starts_.push_back(column(fmt::format("S_{}", problem_.graph().name(op)), limit, false));
    at_least(Sum{}.add(starts_.back(), 1), in_units(chains.head[op]));
    at_least(Sum{}.add(0, 1).add(starts_.back(), -1).add(duration(op), -1), in_units(chains.tail[op]));
  }
  for (const DeviceId device : problem_.devices()) {
    Sum work{}, held{};
    work.add(0, 1);
    for (const OpId op : problem_.ops()) {
      if (!problem_.can_run(op, device)) continue;
      work.add(on(op, device), -in_units(problem_.duration(op, device)));
      held.add(on(op, device), -static_cast<double>(problem_.resident_bytes(op).count));
    }
    at_least(work, 0);
    const auto memory = problem_.cluster().device(device).memory;
    const double room = memory ? static_cast<double>(memory->count) : 0;
    if (!memory || room == 0) continue;
    at_least(Sum{}.add(held, 1 / room), -1);  // in shares of the capacity
  }
}

void MakespanProgram::add_edges(double limit) {
  const Graph& graph = problem_.graph();
  for (const OpId op : problem_.ops()) {
    Sum end = duration(op);
    end.add(starts_[op.index()], 1);
    for (const TensorId tensor : graph.outputs(op))
      for (const OpId reader : graph.consumers(tensor)) at_least(Sum{}.add(starts_[reader.index()], 1).add(end, -1), 0);
    for (const OpId later : graph.before(op)) at_least(Sum{}.add(starts_[later.index()], 1).add(end, -1), 0);

    for (const TensorId tensor : graph.outputs(op))
      for (const DeviceId to : problem_.devices()) {
        std::vector<OpId> readers;
        for (const OpId reader : graph.consumers(tensor))
          if (problem_.group(reader) != problem_.group(op) && problem_.can_run(reader, to)) readers.push_back(reader);
        if (readers.empty()) continue;
        Crossing crossing{tensor, to, kNoColumn, std::vector<std::uint32_t>(problem_.device_count(), kNoColumn),
                          std::vector<double>(problem_.device_count(), 0)};
        const std::string name = fmt::format("{}_{}", graph.name(tensor), problem_.cluster().device(to).name);
        crossing.start = column("T_" + name, limit, false);
        Sum arrival;
        arrival.add(crossing.start, 1);
        at_least(Sum{}.add(crossing.start, 1).add(end, -1), 0);
        for (const DeviceId from : problem_.devices()) {
          if (from == to || !problem_.can_run(op, from)) continue;
          const std::uint32_t active =
              column(fmt::format("z_{}_{}", name, problem_.cluster().device(from).name), 1, false);
          crossing.active[from.index()] = active;
          crossing.time[from.index()] = in_units(problem_.transfer_time(tensor, from, to));
          arrival.add(active, crossing.time[from.index()]);
          for (const OpId reader : readers)
            at_least(Sum{}.add(active, 1).add(on(op, from), -1).add(on(reader, to), -1), -1);
        }
        for (const OpId reader : readers)
          at_least(Sum{}.add(starts_[reader.index()], 1).add(arrival, -1).add(on(reader, to), -limit), -limit);
        crossings_.push_back(std::move(crossing));
      }
  }
}

void MakespanProgram::add_op_pairs(double limit) {
  for (const OpId i : problem_.ops())
    for (const OpId j : problem_.ops()) {
      if (!(i < j) || follows_[i.index()][j.index()] || follows_[j.index()][i.index()]) continue;
      std::uint32_t order = kNoColumn;
      for (const DeviceId device : problem_.devices()) {
        if (!problem_.can_run(i, device) || !problem_.can_run(j, device)) continue;
        const double first = in_units(problem_.duration(i, device)), second = in_units(problem_.duration(j, device));
        if (first == 0 || second == 0 || first > limit || second > limit) continue;
        if (order == kNoColumn) {
          order = column(fmt::format("o_{}_{}", problem_.graph().name(i), problem_.graph().name(j)), 1, true);
          op_pairs_.push_back({i.index(), j.index(), order});
        }
        const double gap = in_units(problem_.cluster().device(device).gap), most = limit + gap;
        Sum later = Sum{}.add(starts_[j.index()], 1).add(starts_[i.index()], -1);
        later.add(on(i, device), -most).add(on(j, device), -most).add(order, -most);
        at_least(later, first + gap - 3 * most);
        Sum earlier = Sum{}.add(starts_[i.index()], 1).add(starts_[j.index()], -1);
        earlier.add(on(i, device), -most).add(on(j, device), -most).add(order, most);
        at_least(earlier, second + gap - 2 * most);
      }
    }
}

void MakespanProgram::add_transfer_pairs(double limit) {
  const Graph& graph = problem_.graph();
  const detail::ExactModel model(problem_, Placement{});
  // The only reader of a tensor; none if there are several.
  const auto only_reader = [&](const Crossing& crossing) {
    const auto readers = graph.consumers(crossing.tensor);
    return readers.size() == 1 ? readers.front() : OpId::none();
  };
  const auto ends_before = [&](const Crossing& a, const Crossing& b) {
    const OpId reader = only_reader(a), producer = graph.producer(b.tensor);
    return !reader.is_none() && (reader == producer || follows_[reader.index()][producer.index()]);
  };
  for (std::size_t i = 0; i < crossings_.size(); ++i)
    for (std::size_t j = i + 1; j < crossings_.size(); ++j) {
      const Crossing &a = crossings_[i], &b = crossings_[j];
      if (ends_before(a, b) || ends_before(b, a)) continue;
      std::uint32_t order = kNoColumn;
      for (const DeviceId from : problem_.devices())
        for (const DeviceId other : problem_.devices()) {
          const std::uint32_t za = a.active[from.index()], zb = b.active[other.index()];
          if (za == kNoColumn || zb == kNoColumn) continue;
          if (graph.producer(a.tensor) == graph.producer(b.tensor) && from != other) continue;
          const double first = a.time[from.index()], second = b.time[other.index()];
          if (first == 0 || second == 0 || first > limit || second > limit) continue;
          const auto &route = model.route(from.index(), a.to.index()),
                     &other_route = model.route(other.index(), b.to.index());
          if (a.tensor == b.tensor && route.broadcast && other_route.broadcast) continue;  // a single broadcast
          double gap = -1;  // largest gap of the links that both hold
          for (const std::uint32_t link : route.resources)
            for (const std::uint32_t same : other_route.resources)
              if (link == same) gap = std::max(gap, in_units(Nanoseconds{model.gap[link]}));
          if (gap < 0) continue;
          if (order == kNoColumn) {
            order = column(fmt::format("q_{}_{}", i, j), 1, true);
            transfer_pairs_.push_back({i, j, order});
          }
          const double most = limit + gap;
          Sum later = Sum{}.add(b.start, 1).add(a.start, -1);
          later.add(za, -most).add(zb, -most).add(order, -most);
          at_least(later, first + gap - 3 * most);
          Sum earlier = Sum{}.add(a.start, 1).add(b.start, -1);
          earlier.add(za, -most).add(zb, -most).add(order, most);
          at_least(earlier, second + gap - 2 * most);
        }
    }
}

std::vector<double> MakespanProgram::columns_of(const Schedule& schedule, const Timeline& timeline) const {
  check_sizes(problem_, schedule.placement, timeline);
  std::vector<double> x(names_.size(), 0);
  x[0] = in_units(timeline.makespan);
  const std::size_t devices = problem_.device_count();
  for (const OpId op : problem_.ops()) {
    x[starts_[op.index()]] = in_units(timeline.ops[op].start);
    const std::uint32_t place = places_[problem_.group(op).index() * devices + schedule.placement[op].index()];
    if (place != kNoColumn) x[place] = 1;
  }
  std::map<std::pair<TensorId, DeviceId>, Nanoseconds> starts;
  for (const Transfer& transfer : timeline.transfers) {
    starts[{transfer.tensor, transfer.to}] = transfer.start;
    for (const DeviceId also : transfer.also_to) starts[{transfer.tensor, also}] = transfer.start;
  }
  for (const Crossing& crossing : crossings_) {
    const OpId producer = problem_.graph().producer(crossing.tensor);
    const auto at = starts.find({crossing.tensor, crossing.to});
    x[crossing.start] = in_units(at != starts.end() ? at->second : timeline.ops[producer].end);
    const std::uint32_t active = crossing.active[schedule.placement[producer].index()];
    if (at != starts.end() && active != kNoColumn) x[active] = 1;
  }
  for (const Pair& pair : op_pairs_) x[pair.column] = x[starts_[pair.first]] <= x[starts_[pair.second]] ? 1 : 0;
  for (const Pair& pair : transfer_pairs_)
    x[pair.column] = x[crossings_[pair.first].start] <= x[crossings_[pair.second].start] ? 1 : 0;
  for (std::size_t c = 0; c < x.size(); ++c)
    if (x[c] > program_.linear.upper(c) + 1e-9) return {};
  return x;
}

Placement MakespanProgram::placement_of(const std::vector<double>& x) const {
  check_entries("the solution", x.size(), names_.size(), "columns");
  Placement placement(problem_.op_count(), DeviceId{0});
  for (const OpId op : problem_.ops())
    for (const DeviceId device : problem_.devices()) {
      const Sum sum = on(op, device);
      double value = sum.constant;
      for (const auto& term : sum.terms) value += term.coefficient * x[term.column];
      if (value > 0.5) placement[op] = device;
    }
  return placement;
}

IdMap<OpId, double> MakespanProgram::starts_of(const std::vector<double>& x) const {
  check_entries("the solution", x.size(), names_.size(), "columns");
  IdMap<OpId, double> starts(problem_.op_count(), 0);
  for (const OpId op : problem_.ops()) starts[op] = x[starts_[op.index()]];
  return starts;
}

}  // namespace trainyard
