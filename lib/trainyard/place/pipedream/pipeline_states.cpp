#include "trainyard/place/pipedream/pipeline_states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"

namespace trainyard {
namespace {

/// A set of small numbers.
class Bits {
 public:
  explicit Bits(std::size_t size) : words_((size + 63) / 64) {}
  void set(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  bool has(std::size_t i) const { return words_[i / 64] >> (i % 64) & 1; }
  Bits& operator|=(const Bits& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
    return *this;
  }
  std::vector<std::size_t> members() const {
    std::vector<std::size_t> list;
    for (std::size_t i = 0; i < words_.size() * 64; ++i)
      if (has(i)) list.push_back(i);
    return list;
  }

 private:
  std::vector<std::uint64_t> words_;
};

using Antichain = std::vector<std::size_t>;  // ascending

class StateSearch {
 public:
  StateSearch(const LayerProfile& profile, std::size_t most) : profile_(profile), most_(most) {
    const std::size_t count = profile.layers.size();
    if (count > most) refuse();  // before a set of layers is made for each
    readers_.resize(count);
    std::vector<std::size_t> awaited(count);
    for (const auto& [from, to] : profile.edges) {
      readers_[from].push_back(to);
      ++awaited[to];
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < count; ++i)
      if (awaited[i] == 0) order.push_back(i);
    for (std::size_t at = 0; at < order.size(); ++at)
      for (const std::size_t reader : readers_[order[at]])
        if (--awaited[reader] == 0) order.push_back(reader);
    if (order.size() < count)
      trainyard::refuse("cycle", fmt::format("the layers of '{}' form a cycle", profile.name),
                        "remove one of its edges");
    first_ = order.front();
    before_.assign(count, Bits{count});
    for (const std::size_t layer : order)
      for (const std::size_t reader : readers_[layer]) {
        before_[reader] |= before_[layer];
        before_[reader].set(layer);
      }
  }

  PipelineStates run() {
    find({first_});
    for (std::size_t at = 0; at < antichains_.size(); ++at) expand(at);
    return sorted();
  }

 private:
  [[noreturn]] void refuse() const {
    throw InputError({.code = "too-many-states",
                      .message = fmt::format("'{}' can be cut in more than {} places", profile_.name, most_),
                      .help = "the network has parallel branches: merge layers, or use a chain"});
  }

  std::size_t find(const Antichain& antichain) {
    const auto [entry, is_new] = number_.try_emplace(antichain, antichains_.size());
    if (is_new) {
      if (antichains_.size() >= most_) refuse();
      antichains_.push_back(antichain);
    }
    return entry->second;
  }

  /// The antichain's members, and the layers before a member that have a reader off the way to it.
  Antichain boundary(const Antichain& antichain) const {
    Bits found{readers_.size()};
    for (const std::size_t member : antichain) {
      found.set(member);
      for (const std::size_t layer : before_[member].members())
        for (const std::size_t reader : readers_[layer])
          if (reader != member && !before_[member].has(reader)) found.set(layer);
    }
    return found.members();
  }

  void expand(std::size_t at) {
    const Antichain here = antichains_[at], around = boundary(here);
    for (const std::size_t layer : around)
      for (const std::size_t reader : readers_[layer]) {
        if (std::ranges::binary_search(here, reader)) continue;
        if (std::ranges::any_of(around, [&](std::size_t other) { return before_[other].has(reader); })) continue;
        Antichain next{reader};
        for (const std::size_t other : around)
          if (other != layer) next.push_back(other);
        const Antichain all = next;
        std::erase_if(next, [&](std::size_t member) {
          return std::ranges::any_of(all, [&](std::size_t other) { return before_[other].has(member); });
        });
        std::ranges::sort(next);
        next.erase(std::unique(next.begin(), next.end()), next.end());
        edges_.emplace_back(at, find(next));
      }
  }

  PipelineStates sorted() const {
    const std::size_t count = antichains_.size();
    std::vector<PipelineStates::State> found(count);
    for (std::size_t s = 0; s < count; ++s) {
      Bits all{readers_.size()};
      for (const std::size_t member : antichains_[s]) {
        all |= before_[member];
        all.set(member);
      }
      found[s] = {all.members(), boundary(antichains_[s])};
    }
    std::vector<std::size_t> order(count), position(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    sort_by(order, [&](std::size_t s) { return found[s].layers.size(); });
    for (std::size_t i = 0; i < count; ++i) position[order[i]] = i;

    PipelineStates result;
    std::vector<Bits> earlier(count, Bits{count});
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    for (const auto& [from, to] : edges_) edges.emplace_back(position[from], position[to]);
    std::ranges::sort(edges);
    for (const auto& [from, to] : edges) {
      earlier[to] |= earlier[from];
      earlier[to].set(from);
    }
    for (std::size_t i = 0; i < count; ++i) {
      result.states.push_back(std::move(found[order[i]]));
      result.earlier.push_back(earlier[i].members());
    }
    if (result.states.back().layers.size() < readers_.size()) {
      std::vector<std::size_t> all(readers_.size());
      std::iota(all.begin(), all.end(), std::size_t{0});
      result.states.push_back({std::move(all), {}});
      std::vector<std::size_t> others(count);
      std::iota(others.begin(), others.end(), std::size_t{0});
      result.earlier.push_back(std::move(others));
    }
    return result;
  }

  const LayerProfile& profile_;
  std::size_t most_;
  std::size_t first_ = 0;
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<Bits> before_;  // of each layer, all that lead to it
  std::vector<Antichain> antichains_;
  std::map<Antichain, std::size_t> number_;
  std::vector<std::pair<std::size_t, std::size_t>> edges_;
};

}  // namespace

PipelineStates pipeline_states(const LayerProfile& profile, std::size_t most) {
  if (profile.layers.empty())
    refuse("empty-profile", fmt::format("'{}' has no layers", profile.name), "give a profile with layers");
  return StateSearch{profile, most}.run();
}

}  // namespace trainyard
