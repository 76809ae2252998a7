#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "trainyard/learn/policy_gradient.hpp"
#include "trainyard/place/learned/placement_walk.hpp"
#include "trainyard/place/learned/placeto_layers.hpp"

namespace trainyard::learned {

/// An episode of Placeto, step by step.
template <class Scalar>
class PlacetoRollout {
 public:
  PlacetoRollout(const PlacetoSizes& sizes, const PlacetoLayers& layers, const learn::Parameters<Scalar>& parameters,
                 const PlacementTask& task, PlacetoRecord<Scalar>& record)
      : sizes_(sizes),
        layers_(layers),
        parameters_(parameters),
        task_(task),
        record_(record),
        values_(nodes_ * width_, Scalar{0}),
        version_x_(nodes_),
        version_e_(nodes_),
        stale_(nodes_, 0),
        loads_(sizes.devices),
        bytes_(sizes.devices),
        gains_(sizes.devices) {
    if (sizes.look_ahead) {
      walk_.emplace(task, record.devices);
      record.costs.push_back(walk_->cost());
    }
    record.features = GrowingRows<Scalar>{width_};
    record.x = GrowingRows<Scalar>{sizes.width};
    for (const std::size_t up : {0U, 1U}) {
      auto& direction = record.directions[up];
      direction.self = GrowingRows<Scalar>{sizes.width};
      direction.rounds.resize(sizes.rounds);
      for (auto& round : direction.rounds)
        round.messages = round.sums = round.gains = round.values = GrowingRows<Scalar>{sizes.width};
      version_[up].assign(sizes.rounds + 1, std::vector<std::uint32_t>(nodes_));
    }
    record.embeddings = GrowingRows<Scalar>{2 * sizes.width};
    record.pools.resize(layers.pools.size());
    for (auto& pool : record.pools) pool.members = pool.sums = GrowingRows<Scalar>{sizes.pool};
    record.known = GrowingRows<Scalar>{static_cast<std::size_t>(parameters[layers.hidden.weight].rows())};
    record.hidden = GrowingRows<Scalar>{sizes.hidden};
    record.device = GrowingRows<Scalar>{sizes.device_features()};
    record.device_hidden = GrowingRows<Scalar>{sizes.device};
    for (std::size_t node = 0; node < nodes_; ++node) {
      for (std::size_t i = 0; i < kStaticFeatures; ++i)
        value(node, i) = static_cast<Scalar>(task.features(learn::index(node), learn::index(i)));
      value(node, kStaticFeatures + 1 + record.devices[node]) = 1;
      loads_[record.devices[node]] += task.load[node];
      bytes_[record.devices[node]] += task.bytes[node];
    }
  }

  void set_current(std::uint32_t node, bool current) { value(node, kStaticFeatures) = current ? 1 : 0; }
  void place(std::uint32_t node, std::uint32_t from, std::uint32_t to) {
    value(node, kStaticFeatures + 1 + from) = 0;
    value(node, kStaticFeatures + 1 + sizes_.devices + to) = 1;
    loads_[from] -= task_.load[node];
    loads_[to] += task_.load[node];
    bytes_[from] -= task_.bytes[node];
    bytes_[to] += task_.bytes[node];
    if (!walk_) return;
    walk_->move(node, to);
    record_.costs.push_back(from == to ? record_.costs.back() : walk_->cost());
    record_.looks = walk_->looks();
  }

  /// Recomputes the rows that depend on the features of these nodes (ascending).
  void update(std::span<const std::uint32_t> changed) {
    const auto first = static_cast<std::uint32_t>(record_.features.size());
    for (std::size_t i = 0; i < changed.size(); ++i) {
      std::copy_n(&value(changed[i], 0), width_, record_.features.append(1));
      version_x_[changed[i]] = first + static_cast<std::uint32_t>(i);
    }
    append_dense_relu(parameters_, layers_.input, record_.features.last(changed.size()), record_.x);
    for (const std::size_t up : {0U, 1U}) pass(up, changed);
    both_.clear();
    std::ranges::set_union(dirty_[0], dirty_[1], std::back_inserter(both_));
    embed();
  }

  /// The distribution over the devices of the current node.
  std::vector<double> decide(std::uint32_t node) {
    record_.own.push_back(version_e_[node]);
    Scalar* known = record_.known.append(1);
    if (sizes_.embedding != Embedding::aggregator) {
      std::copy_n(record_.embeddings.row(version_e_[node]), 2 * sizes_.width, known);
      known += 2 * sizes_.width;
    }
    const learn::RowLists* const lists[] = {&task_.sets.ancestors, &task_.sets.descendants, &task_.sets.parallel};
    for (std::size_t p = 0; p < record_.pools.size(); ++p) {
      auto& pool = record_.pools[p];
      Scalar* const sum = pool.sums.append(1);
      std::fill_n(sum, sizes_.pool, Scalar{0});
      std::size_t count = 0;
      const auto add = [&](std::uint32_t member) {
        add_scaled(pool.members.row(version_e_[member]), sizes_.pool, Scalar{1}, sum);
        pool.sets.add_item(version_e_[member]);
        ++count;
      };
      if (sizes_.embedding == Embedding::aggregator)
        for (std::uint32_t member = 0; member < nodes_; ++member) add(member);
      else
        for (const std::uint32_t member : (*lists[p])[node]) add(member);
      pool.sets.end_row();
      for (std::size_t i = 0; i < sizes_.pool; ++i) sum[i] *= learn::sum_scale<Scalar>(count);
      whole_ = GrowingRows<Scalar>{sizes_.pool};
      append_dense_relu(parameters_, layers_.pools[p].whole, pool.sums.last(1), whole_);
      known = std::copy_n(whole_.row(0), sizes_.pool, known);
    }
    append_dense_relu(parameters_, layers_.hidden, record_.known.last(1), record_.hidden);
    GrowingRows<Scalar> logits{sizes_.devices};
    append_dense(parameters_, layers_.output, record_.hidden.last(1), logits);
    record_.from.push_back(record_.devices[node]);
    add_scaled(parameters_[layers_.stay].row(record_.from.back()).data(), sizes_.devices, Scalar{1}, logits.row(0));
    look_at_devices(node);
    append_dense_relu(parameters_, layers_.device, record_.device.last(sizes_.devices), record_.device_hidden);
    GrowingRows<Scalar> scores{1};
    append_dense(parameters_, layers_.device_output, record_.device_hidden.last(sizes_.devices), scores);
    add_scaled(scores.row(0), sizes_.devices, Scalar{1}, logits.row(0));
    if (sizes_.look_ahead) {
      const auto look = record_.device.last(sizes_.devices);
      const Scalar* const gain = parameters_[layers_.gain].data();
      for (std::size_t device = 0; device < sizes_.devices; ++device)
        for (std::size_t i = 0; i < kLookFeatures; ++i)
          logits.row(0)[device] += gain[i] * look.data[device * look.width + kDeviceFeatures + i];
    }
    return learn::probabilities<Scalar>(logits.matrix().row(0), task_.allowed(node));
  }

 private:
  static constexpr double kLargeGain = 0.01, kSmallGain = 0.0002;

  /// Appends a row of features for each device.
  void look_at_devices(std::uint32_t node) {
    const Devices& now = record_.devices;
    const double most = static_cast<double>(sizes_.devices);
    Scalar* const rows = record_.device.append(sizes_.devices);
    const std::size_t width = sizes_.device_features();
    std::fill_n(rows, sizes_.devices * width, Scalar{0});
    const auto add = [&](std::uint32_t device, std::size_t feature, double x) {
      rows[device * width + feature] += static_cast<Scalar>(x);
    };
    for (const std::uint32_t other : task_.sets.parallel[node]) add(now[other], 1, task_.load[other] / most);
    for (std::size_t i = 0; i < task_.parents[node].size(); ++i)
      add(now[task_.parents[node][i]], 2, task_.from_parents[node][i]);
    for (std::size_t i = 0; i < task_.children[node].size(); ++i)
      add(now[task_.children[node][i]], 3, task_.to_children[node][i]);
    add(now[node], 4, 1);
    for (std::uint32_t device = 0; device < sizes_.devices; ++device) {
      const double own = device == now[node] ? task_.load[node] : 0;
      add(device, 0, (loads_[device] - own) / most);
      for (std::size_t i = 0; i < kStaticFeatures; ++i)
        add(device, 5 + i, task_.features(learn::index(node), learn::index(i)));
    }
    if (!walk_) return;
    const auto allowed = task_.allowed(node);
    for (std::uint32_t device = 0; device < sizes_.devices; ++device)
      gains_[device] = allowed[device] ? walk_->gain(node, device) : -PlacementWalk::kMostLoss;
    const double most_gain = *std::ranges::max_element(gains_);
    const auto squash = [](double x) { return x / (1 + std::abs(x)); };
    for (std::uint32_t device = 0; device < sizes_.devices; ++device) {
      const double gain = gains_[device];
      add(device, kDeviceFeatures, squash(gain / kLargeGain));
      add(device, kDeviceFeatures + 1, squash(gain / kSmallGain));
      add(device, kDeviceFeatures + 2, squash((gain - most_gain) / kSmallGain));
      const auto memory = task_.problem.cluster().device(DeviceId{device}).memory;
      const double held = bytes_[device] + (device == now[node] ? 0 : task_.bytes[node]);
      if (memory && memory->count > 0)
        add(device, kDeviceFeatures + 3, std::min(1.0, held / static_cast<double>(memory->count)));
    }
  }

  Scalar& value(std::size_t node, std::size_t feature) { return values_[node * width_ + feature]; }

  /// Runs the rounds of one direction. Then dirty_[up] has the nodes with a new row in the last round, ascending.
  void pass(std::size_t up, std::span<const std::uint32_t> changed) {
    const learn::RowLists& senders = up ? task_.children : task_.parents;
    const learn::RowLists& receivers = up ? task_.parents : task_.children;
    auto& direction = record_.directions[up];
    auto& dirty = dirty_[up];
    dirty.assign(changed.begin(), changed.end());
    append_dense_relu(parameters_, layers_.self[up], record_.x.last(changed.size()), direction.self);
    for (const std::uint32_t node : changed) version_[up][0][node] = version_x_[node];
    for (std::size_t number = 0; number < sizes_.rounds; ++number) {
      auto& round = direction.rounds[number];
      append_dense_relu(parameters_, layers_.messages[up].message, direction.before(number).last(dirty.size()),
                        round.messages);
      for (const std::uint32_t node : dirty) {
        stale_[node] = 1;
        for (const std::uint32_t receiver : receivers[node]) stale_[receiver] = 1;
      }
      dirty.clear();
      for (std::uint32_t node = 0; node < nodes_; ++node)
        if (std::exchange(stale_[node], std::uint8_t{0})) dirty.push_back(node);
      add_up(up, number, senders);
    }
  }

  /// Computes new rows of a round for the nodes of dirty_[up].
  void add_up(std::size_t up, std::size_t number, const learn::RowLists& senders) {
    auto& direction = record_.directions[up];
    auto& round = direction.rounds[number];
    const auto& dirty = dirty_[up];
    const auto& version = version_[up][number];
    const std::size_t width = sizes_.width;
    const auto first = static_cast<std::uint32_t>(round.self.size());
    Scalar* const sums = round.sums.append(dirty.size());
    std::fill_n(sums, dirty.size() * width, Scalar{0});
    for (std::size_t i = 0; i < dirty.size(); ++i) {
      Scalar* const sum = sums + i * width;
      for (const std::uint32_t sender : senders[dirty[i]]) {
        add_scaled(round.messages.row(version[sender]), width, Scalar{1}, sum);
        round.senders.add_item(version[sender]);
      }
      round.senders.end_row();
      round.self.push_back(version_x_[dirty[i]]);
      for (std::size_t k = 0; k < width; ++k) sum[k] *= learn::sum_scale<Scalar>(senders[dirty[i]].size());
    }
    append_dense_relu(parameters_, layers_.messages[up].aggregate, round.sums.last(dirty.size()), round.gains);
    Scalar* const gains = round.gains.row(first);
    Scalar* const values = round.values.append(dirty.size());
    for (std::size_t i = 0; i < dirty.size(); ++i) {
      if (senders[dirty[i]].empty()) std::fill_n(gains + i * width, width, Scalar{0});
      const Scalar* const self = direction.self.row(version_x_[dirty[i]]);
      for (std::size_t k = 0; k < width; ++k) values[i * width + k] = gains[i * width + k] + self[k];
      version_[up][number + 1][dirty[i]] = first + static_cast<std::uint32_t>(i);
    }
  }

  /// Computes new embeddings of the nodes of both_.
  void embed() {
    const auto first = static_cast<std::uint32_t>(record_.embeddings.size());
    for (std::size_t i = 0; i < both_.size(); ++i) {
      version_e_[both_[i]] = first + static_cast<std::uint32_t>(i);
      Scalar* const to = record_.embeddings.append(1);
      for (const std::size_t up : {0U, 1U}) {
        const std::uint32_t end = version_[up].back()[both_[i]];
        record_.directions[up].ends.push_back(end);
        std::copy_n(record_.directions[up].last().row(end), sizes_.width, to + up * sizes_.width);
      }
    }
    for (std::size_t p = 0; p < record_.pools.size(); ++p)
      append_dense_relu(parameters_, layers_.pools[p].member, record_.embeddings.last(both_.size()),
                        record_.pools[p].members);
  }

  const PlacetoSizes& sizes_;
  const PlacetoLayers& layers_;
  const learn::Parameters<Scalar>& parameters_;
  const PlacementTask& task_;
  PlacetoRecord<Scalar>& record_;
  std::size_t nodes_ = task_.size(), width_ = kStaticFeatures + 1 + 2 * sizes_.devices;
  std::vector<Scalar> values_;  // current features: node x width
  std::vector<std::uint32_t> version_x_, version_e_;
  std::vector<std::vector<std::uint32_t>> version_[2];  // of each round, the row of each node
  std::vector<std::uint32_t> dirty_[2], both_;
  std::vector<std::uint8_t> stale_;
  std::vector<double> loads_, bytes_;  // of each device, currently
  std::vector<double> gains_;          // of the current group on each device
  std::optional<PlacementWalk> walk_;
  GrowingRows<Scalar> whole_;
};

}  // namespace trainyard::learned
