#include "trainyard/place/load/interval_load.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard {

IntervalLoad::IntervalLoad(const LoadProblem& problem, const Contraction& blocks, const IdealLattice& lattice)
    : kinds_(problem.kind_count()) {
  const std::size_t kinds = problem.kind_count(), count = blocks.size();
  std::vector<std::vector<Picoseconds>> prices;
  for (std::size_t k = 0; k < kinds; ++k) {
    std::vector<Picoseconds> column;
    for (std::size_t t = 0; t < blocks.tensors.size(); ++t) column.push_back(blocks.costs[t * kinds + k]);
    const auto at = std::ranges::find(prices, column);
    kinds_[k].price = static_cast<std::uint32_t>(at - prices.begin());
    if (at == prices.end()) prices.push_back(std::move(column));
    const auto memory = problem.kind(KindId{k}).memory;
    kinds_[k].memory = memory ? memory->count : std::numeric_limits<std::int64_t>::max();
    kinds_[k].exists = !problem.devices_of(KindId{k}).empty();
  }
  in_.assign(prices.size(), 0);
  out_ = in_;
  for (std::size_t t = 0; t < blocks.tensors.size(); ++t) {
    tensors_.push_back({.all = static_cast<std::uint32_t>(blocks.tensors[t].consumers.size())});
    for (const auto& column : prices) costs_.push_back(column[t].count);
  }
  std::vector<std::vector<Role>> roles(count);
  for (std::uint32_t t = 0; t < blocks.tensors.size(); ++t) {
    roles[blocks.tensors[t].producer.index()].push_back({t, true});
    for (const BlockId reader : blocks.tensors[t].consumers) roles[reader.index()].push_back({t, false});
  }
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const std::size_t block = lattice.block(rank).index();
    blocks_.push_back({blocks.sizes[block].count, static_cast<std::uint32_t>(roles_.size())});
    roles_.insert(roles_.end(), roles[block].begin(), roles[block].end());
    for (std::size_t k = 0; k < kinds; ++k) {
      const Picoseconds forward = blocks.forward[block * kinds + k];
      times_.push_back(forward == kNeverLoad ? -1 : (forward + blocks.backward[block * kinds + k]).count);
    }
  }
  blocks_.push_back({0, static_cast<std::uint32_t>(roles_.size())});
}

void IntervalLoad::set_cap(Picoseconds cap, std::size_t replicas) {
  constexpr double kMost = 0x1p62;
  const auto shared = static_cast<double>(cap.count) * static_cast<double>(replicas);
  for (Kind& kind : kinds_) {
    // With replicas, rounding changes the time by half a picosecond per replica.
    const auto all = static_cast<std::int64_t>(replicas);
    kind.cap = shared >= kMost ? std::numeric_limits<std::int64_t>::max() : cap.count * all + (all > 1 ? all : 0);
    if (!kind.exists) kind.cap = 0;
  }
}

void IntervalLoad::change(std::uint32_t rank, std::int64_t sign) {
  const Block& block = blocks_[rank];
  size_ += sign * block.size;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const std::int64_t time = times_[rank * kinds_.size() + k];
    if (time < 0)
      kinds_[k].never += static_cast<std::int32_t>(sign);
    else
      kinds_[k].time += sign * time;
  }
  const std::size_t prices = in_.size();
  for (std::uint32_t at = block.first_role; at < blocks_[rank + 1].first_role; ++at) {
    const Role role = roles_[at];
    Tensor& tensor = tensors_[role.tensor];
    const bool received = !tensor.made && tensor.readers > 0, sent = tensor.made && tensor.readers < tensor.all;
    if (role.makes)
      tensor.made = !tensor.made;
    else
      tensor.readers += static_cast<std::uint32_t>(sign);
    const std::int64_t in = (!tensor.made && tensor.readers > 0 ? 1 : 0) - (received ? 1 : 0);
    const std::int64_t out = (tensor.made && tensor.readers < tensor.all ? 1 : 0) - (sent ? 1 : 0);
    if (in == 0 && out == 0) continue;
    const std::int64_t* cost = costs_.data() + role.tensor * prices;
    for (std::size_t price = 0; price < prices; ++price) {
      in_[price] += in * cost[price];
      out_[price] += out * cost[price];
    }
  }
}

Picoseconds replicated_load(Picoseconds whole, Bytes size, std::size_t replicas, BytesPerSecond bandwidth) {
  const auto r = static_cast<double>(replicas);
  const double exchange = 4 * (r - 1) * static_cast<double>(size.count) / (bandwidth.value * r) / r * 1e12;
  const double load = std::floor(static_cast<double>(whole.count) / r + exchange + 0.5);
  return load < 0x1p62 ? Picoseconds{static_cast<std::int64_t>(load)} : kInfiniteLoad;
}

}  // namespace trainyard
