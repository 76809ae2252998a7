#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/place/talos/min_cost_flow.hpp"
#include "trainyard/place/talos/packs.hpp"
#include "trainyard/place/talos/talos.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// One run of talos(): decides packs, and enters them in a plan.
class PackRun {
 public:
  /// `turn` of each model: models of one turn run together, and a turn begins when the one before has ended.
  PackRun(const Problem& problem, const Models& models, const Packs& packs, const IdMap<ModelId, std::size_t>& turn,
          TalosOptions::Cost cost, AnalyticPlan& plan);

  /// Returns all ops in the order in which they were decided.
  std::vector<OpId> run();

 private:
  /// Limit on the packs of one flow.
  static constexpr std::size_t kMostAsked = 32;

  struct Ending {
    Nanoseconds at;
    PackId pack;
    DeviceId device;

    bool operator>(const Ending& other) const { return at != other.at ? at > other.at : pack > other.pack; }
  };

  ModelId model_of(PackId pack) const { return models_.of[packs_.ops[pack].front()]; }
  void open_turn();
  void make_ready(PackId pack);
  void end(const Ending& ending);
  void decide();
  std::vector<PackId> asked() const;
  std::span<const DeviceId> candidates(PackId pack);
  Nanoseconds cost(PackId pack, DeviceId device, Nanoseconds longest_beside) const;
  Nanoseconds time(PackId pack, DeviceId device) const {
    return times_[pack.index() * problem_.column_count() + problem_.column(device)];
  }
  Nanoseconds place(OpId op, AnalyticPlan::Slot slot);
  void commit(PackId pack, DeviceId device);
  /// Fallback if no device has room for all ops that must be on one: each op goes where it would finish first.
  void scatter(PackId pack);

  const Problem& problem_;
  const Models& models_;
  const Packs& packs_;
  const IdMap<ModelId, std::size_t>& turn_;
  TalosOptions::Cost cost_;
  AnalyticPlan& plan_;
  std::vector<Nanoseconds> times_;  // pack x column
  CompressedRows<PackId, PackId> later_;
  CompressedRows<PackId, TensorId> read_;  // tensors that each pack reads from others
  IdMap<PackId, std::uint32_t> awaited_{packs_.size(), 0};
  IdMap<PackId, Nanoseconds> behind_{packs_.size(),
                                     Nanoseconds{0}};  // the longest chain from the pack on, by least times
  std::vector<DeviceId> unit_device_;                  // none: undecided
  std::vector<std::uint8_t> scattered_;                // units that no device had room for
  std::vector<std::size_t> left_of_turn_;              // packs not ended
  std::size_t now_turn_ = 0;
  std::vector<std::vector<PackId>> held_back_;                          // ready packs of later turns
  IdMap<ModelId, std::vector<PackId>> ready_{models_.size()};           // ascending
  IdMap<DeviceId, std::uint32_t> decided_{problem_.device_count(), 0};  // packs on the device that have not ended
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings_;
  Nanoseconds now_{0};
  std::vector<OpId> taken_;
  MinCostFlow flow_;
  std::vector<DeviceId> candidates_;
};

}  // namespace trainyard
