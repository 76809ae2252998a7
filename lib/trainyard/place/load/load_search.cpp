#include "trainyard/place/load/load_search.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/portable_math.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/place/load/load_state.hpp"
#include "trainyard/throughput/contraction.hpp"

namespace trainyard {
namespace {

// Tuned on the published workloads: larger swaps and colder ends find less.
constexpr std::uint64_t kLoadRounds = 8;
constexpr std::uint64_t kMostWork = 50'000'000;  // updated numbers; takes seconds
constexpr double kSpread = 0.1, kCold = 1e-3;

using Devices = std::vector<DeviceId>;  // of each color

struct Worth {
  Bytes excess{};
  Picoseconds value = kInfiniteLoad;
  friend auto operator<=>(const Worth&, const Worth&) = default;
};

std::vector<Devices> able_devices(const LoadProblem& problem) {
  std::vector<Devices> able(problem.color_count());
  for (std::uint32_t color = 0; color < able.size(); ++color) {
    for (const DeviceId device : problem.devices())
      if (problem.color_time(color, problem.kind_of(device)) != kNeverLoad) able[color].push_back(device);
    if (able[color].empty())
      refuse("no-device",
             "no device can run all ops that must be on the same device as '" +
                 problem.op(problem.color_ops(color)[0]).name + "'",
             "these ops are in one colocation group, or are backward ops on the device of their forward ops");
  }
  return able;
}

/// Colors that exchange tensors, by color.
CompressedRows<OpId, std::uint32_t> color_neighbours(const LoadProblem& problem) {
  std::vector<std::set<std::uint32_t>> around(problem.color_count());
  for (const TensorId id : problem.tensors()) {
    const LoadTensor& tensor = problem.tensor(id);
    const std::uint32_t from = problem.op(tensor.producer).color;
    for (const OpId reader : tensor.consumers) {
      const std::uint32_t to = problem.op(reader).color;
      if (from == to) continue;
      around[from].insert(to);
      around[to].insert(from);
    }
  }
  CompressedRows<OpId, std::uint32_t> rows;
  for (const auto& set : around) rows.append_row(std::vector<std::uint32_t>(set.begin(), set.end()));
  return rows;
}

class Annealer {
 public:
  Annealer(const LoadProblem& problem, const LoadSearchOptions& options)
      : problem_(problem),
        options_(options),
        able_(able_devices(problem)),
        neighbours_(color_neighbours(problem)),
        random_(options.seed) {}

  /// Deals out the colors by descending time, each to the device with the least excess, then the least load.
  Devices dealt() const {
    Devices devices;
    for (const Devices& able : able_) devices.push_back(able.front());
    LoadState state{problem_, devices};
    std::vector<std::size_t> order(devices.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto shortest = [&](std::size_t color) {
      Picoseconds least = kInfiniteLoad;
      for (const DeviceId device : able_[color]) least = std::min(least, state.time(color, device));
      return least;
    };
    std::vector<Picoseconds> times;
    for (const std::size_t color : order) times.push_back(shortest(color));
    sort_by_descending(order, [&](std::size_t color) { return times[color]; });
    std::vector<Picoseconds> load(problem_.device_count());
    std::vector<std::int64_t> room(problem_.device_count(), INT64_MAX);
    for (const DeviceId device : problem_.devices())
      if (const auto& memory = problem_.kind(problem_.kind_of(device)).memory) room[device.index()] = memory->count;
    for (const std::size_t color : order) {
      DeviceId best = DeviceId::none();
      std::pair<std::int64_t, Picoseconds> least{};
      for (const DeviceId device : able_[color]) {
        const std::pair worth{std::max<std::int64_t>(state.size(color).count - room[device.index()], 0),
                              load[device.index()] + state.time(color, device)};
        if (best.is_none() || worth < least) {
          best = device;
          least = worth;
        }
      }
      devices[color] = best;
      load[best.index()] += state.time(color, best);
      if (room[best.index()] != INT64_MAX) room[best.index()] -= state.size(color).count;
    }
    return devices;
  }

  void start(const Devices& devices) {
    state_.emplace(problem_, devices);
    on_.assign(problem_.device_count(), {});
    at_.assign(devices.size(), 0);
    for (std::size_t color = 0; color < devices.size(); ++color) {
      at_[color] = on_[devices[color].index()].size();
      on_[devices[color].index()].push_back(static_cast<std::uint32_t>(color));
    }
    record();
  }

  /// One annealing round of `steps` evaluations. Temperatures are shares of the value.
  void anneal(std::uint64_t steps, double hot, double cold) {
    const double scale = static_cast<double>(std::max<std::int64_t>(state_->value(options_.goal).count, 1));
    double energy = energy_now();
    for (std::uint64_t step = 0; step < steps && !stopped(); ++step) {
      if (step % 256 == 0)
        temperature_ = scale * hot *
                       portable_exp(portable_log(cold / hot) * static_cast<double>(step) / static_cast<double>(steps));
      if (!propose()) continue;
      ++evaluations_;
      const double next = energy_now();
      if (next <= energy || random_.uniform() < portable_exp(std::max(-700.0, (energy - next) / temperature_))) {
        energy = next;
        record();
      } else {
        undo();
      }
    }
  }

  /// Iterated descent from the best: moves and swaps of the busiest device's colors as long as one improves, then a few
  /// random changes. Each round starts from the last local optimum that was no worse than the one before.
  void polish(std::uint64_t most) {
    const std::uint64_t last = evaluations_ + most;
    Devices base = best_devices_;
    double base_energy = 0;
    for (bool first = true; evaluations_ < last && !stopped(); first = false) {
      ++evaluations_;  // also if nothing can be moved, so that the loop ends
      start(base);
      for (std::uint64_t i = 0; !first && i < 1 + random_.below(3); ++i)
        if (propose()) ++evaluations_;
      descend(last);
      const double energy = energy_now();
      if (!first && energy > base_energy) continue;
      base = state_->placement();
      base_energy = energy;
    }
  }

  /// The requested number of evaluations, or enough for the size of the problem.
  std::uint64_t budget() const {
    if (options_.evaluations > 0) return options_.evaluations;
    const std::uint64_t colors = able_.size();
    const std::uint64_t asked =
        std::clamp<std::uint64_t>(30 * colors * colors * problem_.device_count(), 20'000, 5'000'000);
    return std::clamp<std::uint64_t>(kMostWork / work_of_move(), 20'000, asked);
  }
  /// Average number of values that change when a color moves.
  std::uint64_t work_of_move() const {
    std::uint64_t edges = 0;
    for (const TensorId tensor : problem_.tensors()) edges += 1 + problem_.tensor(tensor).consumers.size();
    return 1 + edges / able_.size();
  }
  /// Whether the search has to end. Polls `stop` on every 256th call, as it may read a clock.
  bool stopped() {
    if (!stopped_ && options_.stop && ++asked_ % 256 == 0) stopped_ = options_.stop();
    return stopped_;
  }
  const Devices& best_devices() const { return best_devices_; }
  const Worth& best() const { return best_; }
  std::uint64_t evaluations() const { return evaluations_; }

 private:
  /// The greatest load, plus a small share of the root mean square of all loads, so that a step toward balance counts
  /// before the greatest load falls. Excess memory at least doubles the energy.
  double energy_now() const {
    double squares = 0, greatest = 0;
    for (const DeviceId device : problem_.devices()) {
      const auto load = static_cast<double>(state_->load(device, options_.goal.sum).count);
      squares += load * load;
      greatest = std::max(greatest, load);
    }
    if (options_.goal.goal == LoadGoal::apart) greatest = static_cast<double>(state_->value(options_.goal).count);
    const double spread = std::sqrt(squares / static_cast<double>(problem_.device_count()));
    double energy = greatest + kSpread * spread;
    if (state_->excess().count > 0) {
      const double size = static_cast<double>(total_size());
      energy += energy * (1 + 20 * static_cast<double>(state_->excess().count) / std::max(size, 1.0));
    }
    return energy;
  }
  std::int64_t total_size() const {
    if (total_size_ == 0)
      for (const OpId op : problem_.ops()) total_size_ += problem_.op(op).size.count;
    return total_size_;
  }

  void record() {
    const Worth worth{state_->excess(), state_->value(options_.goal)};
    if (!(worth < best_)) return;
    best_ = worth;
    best_devices_ = state_->placement();
  }

  void shift(std::size_t color, DeviceId to) {
    const DeviceId from = state_->device(color);
    moved_.emplace_back(color, from);
    auto& old = on_[from.index()];
    old[at_[color]] = old.back();
    at_[old.back()] = at_[color];
    old.pop_back();
    at_[color] = on_[to.index()].size();
    on_[to.index()].push_back(static_cast<std::uint32_t>(color));
    state_->move(color, to);
  }
  void undo() {
    while (!moved_.empty()) {
      const auto [color, from] = moved_.back();
      shift(color, from);
      moved_.pop_back();
      moved_.pop_back();
    }
  }

  void descend(std::uint64_t last) {
    double energy = energy_now();
    for (bool better = true; better && evaluations_ < last && !stopped();) {
      better = false;
      const DeviceId from = busiest();
      const std::vector<std::uint32_t> colors = on_[from.index()];
      for (const std::uint32_t color : colors) {
        for (const DeviceId to : able_[color]) better = better || helps(color, to, nullptr, energy);
        for (std::uint32_t other = 0; other < at_.size() && !better; ++other)
          if (state_->device(other) != from && state_->can_run(color, state_->device(other)) &&
              state_->can_run(other, from))
            better = helps(color, state_->device(other), &other, energy);
        if (better || evaluations_ >= last || stopped()) break;
      }
    }
  }
  /// Moves the color, and the other one to its place. Undone, with result false, unless the energy falls.
  bool helps(std::size_t color, DeviceId to, const std::uint32_t* other, double& energy) {
    const DeviceId from = state_->device(color);
    if (from == to) return false;
    moved_.clear();
    shift(color, to);
    if (other) shift(*other, from);
    ++evaluations_;
    const double next = energy_now();
    if (next >= energy) {
      undo();
      return false;
    }
    energy = next;
    record();
    return true;
  }

  DeviceId busiest() const {
    DeviceId device{0};
    Picoseconds most{-1};
    for (const DeviceId each : problem_.devices()) {
      const Picoseconds load = state_->load(each, options_.goal.sum);
      if (load > most) {
        most = load;
        device = each;
      }
    }
    return device;
  }

  /// Makes a random move; returns false if none was made.
  bool propose() {
    moved_.clear();
    DeviceId from = random_.chance(0.6) ? busiest() : DeviceId{random_.below(problem_.device_count())};
    if (on_[from.index()].empty()) return false;
    const std::size_t color = on_[from.index()][random_.below(on_[from.index()].size())];
    // The target is the device of a neighbour, or any.
    const auto around = neighbours_[OpId{color}];
    DeviceId to = DeviceId::none();
    if (!around.empty() && random_.chance(0.6)) to = state_->device(around[random_.below(around.size())]);
    if (to.is_none() || to == from || !state_->can_run(color, to))
      to = able_[color][random_.below(able_[color].size())];
    if (to == from) return false;
    shift(color, to);
    const double kind = random_.uniform();
    if (kind < 0.1) {
      swap_back(from, to, color);
    } else if (kind < 0.6) {
      take_along(from, to, color);
    }
    return true;
  }

  void swap_back(DeviceId from, DeviceId to, std::size_t except) {
    const auto& there = on_[to.index()];
    const std::size_t other = there[random_.below(there.size())];
    if (other != except && state_->can_run(other, from)) shift(other, from);
  }

  /// Moves up to 64 more colors from the same device, each a neighbour of the one before.
  void take_along(DeviceId from, DeviceId to, std::size_t color) {
    const std::size_t most = std::size_t{1} << random_.below(7);
    for (std::size_t taken = 0; taken < most; ++taken) {
      const auto around = neighbours_[OpId{color}];
      if (around.empty()) return;
      const std::size_t first = random_.below(around.size());
      bool found = false;
      for (std::size_t i = 0; i < around.size() && i < 8 && !found; ++i) {
        const std::uint32_t next = around[(first + i) % around.size()];
        if (state_->device(next) != from || !state_->can_run(next, to)) continue;
        shift(next, to);
        color = next;
        found = true;
      }
      if (!found) return;
    }
  }

  const LoadProblem& problem_;
  const LoadSearchOptions& options_;
  std::vector<Devices> able_;  // of each color
  CompressedRows<OpId, std::uint32_t> neighbours_;
  Random random_;
  std::optional<LoadState> state_;
  std::vector<std::vector<std::uint32_t>> on_;  // colors of each device
  std::vector<std::size_t> at_;                 // index of each color in that list
  std::vector<std::pair<std::size_t, DeviceId>> moved_;
  double temperature_ = 0;
  Worth best_{Bytes{INT64_MAX}, kInfiniteLoad};
  Devices best_devices_;
  std::uint64_t evaluations_ = 0, asked_ = 0;
  bool stopped_ = false;
  mutable std::int64_t total_size_ = 0;
};

LoadSearchResult result_of(const LoadProblem& problem, const Annealer& search) {
  LoadSearchResult result{.placement = placement_of(LoadState{problem, search.best_devices()}),
                          .value = search.best().value,
                          .excess = search.best().excess,
                          .evaluations = search.evaluations()};
  return result;
}

Devices devices_of(const LoadProblem& problem, const LoadPlacement& placement) {
  Devices devices(problem.color_count());
  for (const OpId op : problem.ops()) devices[problem.op(op).color] = placement[op];
  return devices;
}

}  // namespace

LoadSearchResult search_load(const LoadProblem& problem, const LoadSearchOptions& options) {
  Annealer search{problem, options};
  std::vector<Devices> starts{search.dealt()};
  try {
    const Contraction blocks = contract(problem);
    const Split split = dpl(problem, blocks, {.sum = options.goal.sum, .stop = options.stop});
    if (split.found()) starts.push_back(devices_of(problem, placement_of(split, blocks, problem)));
  } catch (const OutOfTime&) {  // the dealt start is available
  }
  for (const Devices& from : starts) search.start(from);
  const std::uint64_t steps = search.budget() / (kLoadRounds + 1);
  // Hot rounds from both starts, then cooler ones from the best.
  for (std::uint64_t round = 0; round < kLoadRounds; ++round) {
    if (round < 4)
      search.start(starts[round % starts.size()]);
    else
      search.start(search.best_devices());
    const double hot[kLoadRounds] = {0.1, 0.1, 0.03, 0.03, 0.02, 0.01, 0.005, 0.002};
    search.anneal(steps, hot[round], kCold);
  }
  search.polish(steps);
  return result_of(problem, search);
}

LoadSearchResult improve_load(const LoadProblem& problem, const LoadPlacement& from, const LoadSearchOptions& options) {
  Annealer search{problem, options};
  const Devices start = devices_of(problem, from);
  search.start(start);
  const std::uint64_t steps = search.budget() / (kLoadRounds + 1);
  for (std::uint64_t round = 0; round < kLoadRounds; ++round) {
    search.start(round % 2 == 0 ? start : search.best_devices());
    search.anneal(steps, 0.02, kCold);
  }
  search.polish(steps);
  return result_of(problem, search);
}

}  // namespace trainyard
