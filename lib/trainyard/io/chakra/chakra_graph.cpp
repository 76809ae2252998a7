#include "trainyard/io/chakra/chakra_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/rewrite/collective.hpp"

namespace trainyard {
namespace {

using ChakraType = ChakraNode::Type;
using ChakraKind = ChakraNode::Collective;

constexpr const char* kCollectiveNames[] = {
    "all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
    "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};

std::string collective_name(const ChakraNode& node) {
  const std::int64_t kind = node.collective.value_or(-1);
  return kind >= 0 && kind <= static_cast<std::int64_t>(ChakraKind::barrier) ? kCollectiveNames[kind] : "collective";
}
bool is_kind(const ChakraNode& node, ChakraKind kind) { return node.collective == static_cast<std::int64_t>(kind); }

/// The dependencies of each node of a rank, as indices into the rank's nodes.
class WaitsFor {
 public:
  explicit WaitsFor(const ChakraRank& rank) : rank_(rank) {
    const auto& nodes = rank.trace.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) place_[nodes[i].id] = i;
    const auto is_elsewhere = [&](std::uint64_t id) { return !place_.contains(id); };
    const bool callers = std::ranges::any_of(nodes, [&](const ChakraNode& node) {
      return node.has_caller || std::ranges::any_of(node.control, is_elsewhere);
    });
    for (const ChakraNode& node : nodes) {
      all_.push_back(places(node, node.data));
      if (!callers)
        for (const std::size_t other : places(node, node.control)) all_.back().push_back(other);
    }
    if (!callers && has_cycle()) {
      dropped_control_ = true;
      for (std::size_t i = 0; i < nodes.size(); ++i) all_[i] = places(nodes[i], nodes[i].data);
    }
    for (auto& list : all_) {
      std::ranges::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  const std::vector<std::size_t>& of(std::size_t node) const { return all_[node]; }
  bool dropped_control() const { return dropped_control_; }

 private:
  std::vector<std::size_t> places(const ChakraNode& node, const std::vector<std::uint64_t>& ids) const {
    std::vector<std::size_t> list;
    for (const std::uint64_t id : ids) {
      const auto at = place_.find(id);
      if (at == place_.end())
        refuse_file(rank_.file, "chakra",
                    fmt::format("node {} ('{}') waits for node {}, which is not in the file", node.id, node.name, id),
                    "the trace is cut short, or was filtered without its edges");
      list.push_back(at->second);
    }
    return list;
  }
  bool has_cycle() const {
    std::vector<std::size_t> left(all_.size()), free;
    std::vector<std::vector<std::size_t>> next(all_.size());
    for (std::size_t i = 0; i < all_.size(); ++i) {
      left[i] = all_[i].size();
      if (left[i] == 0) free.push_back(i);
      for (const std::size_t before : all_[i]) next[before].push_back(i);
    }
    std::size_t done = 0;
    for (; !free.empty(); ++done) {
      const std::size_t node = free.back();
      free.pop_back();
      for (const std::size_t after : next[node])
        if (--left[after] == 0) free.push_back(after);
    }
    return done < all_.size();
  }

  const ChakraRank& rank_;
  std::unordered_map<std::uint64_t, std::size_t> place_;
  std::vector<std::vector<std::size_t>> all_;
  bool dropped_control_ = false;
};

/// Indices of a node: its rank in the list, and its position in the rank.
struct NodeAt {
  std::size_t rank = 0, node = 0;
};

class ChakraProblem {
 public:
  ChakraProblem(const std::vector<ChakraRank>& ranks, bool alone) : ranks_(ranks), alone_(alone) {
    for (const ChakraRank& rank : ranks) {
      waits_.emplace_back(rank);
      names_.emplace_back();
      for (const ChakraNode& node : rank.trace.nodes) names_.back().push_back(usual_name(rank, node));
    }
  }

  ChakraGraph build(std::string name) {
    builder_.set_name(std::move(name));
    if (!alone_) {
      match_collectives();  // first, because they rename the nodes that others wait for
      match_messages();
    }
    std::size_t on_host = 0, waiting = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t i = 0; i < ranks_[r].trace.nodes.size(); ++i) {
        const ChakraNode& node = node_at({r, i});
        on_host += node.on_host;
        if (!expanded_.contains({r, i})) builder_.add(op_of({r, i}));
        waiting += alone_ && !node.on_host && node.type >= ChakraType::send;
      }
      if (waits_[r].dropped_control())
        result_.notes.push_back(
            fmt::format("{}: ctrl_deps make a cycle with data_deps, and are left out", ranks_[r].file));
    }
    if (on_host > 0) result_.notes.push_back(fmt::format("{} ops of the host take no GPU time", on_host));
    if (waiting > 0)
      result_.notes.push_back(
          fmt::format("{} messages and collectives involve other ranks and take their durations from the file: give "
                      "the folder of all ranks",
                      waiting));
    if (replayed_ > 0)
      result_.notes.push_back(
          fmt::format("{} broadcasts and similar collectives take their durations from the file", replayed_));
    for (Entry& entry : entries_) {
      for (const std::size_t before : waits_[entry.member.rank].of(entry.member.node))
        entry.op.after.push_back(names_[entry.member.rank][before]);
      builder_.add(entry.op);
    }
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  const ChakraNode& node_at(NodeAt at) const { return ranks_[at.rank].trace.nodes[at.node]; }
  std::string usual_name(const ChakraRank& rank, const ChakraNode& node) const {
    const std::string name = fmt::format("{}.{}", node.name.empty() ? "node" : node.name, node.id);
    return alone_ ? name : fmt::format("r{}/{}", rank.rank, name);
  }

  /// An op of the rank without duration.
  OpSpec relay_of(std::size_t rank) const {
    OpSpec op{.name = "", .type = kRelayType, .times = {{"gpu", Nanoseconds{0}}, {"cpu", Nanoseconds{0}}}};
    if (!alone_) op.device_kinds = {fmt::format("gpu{}", ranks_[rank].rank)};
    return op;
  }
  OpSpec op_of(NodeAt at) const {
    const ChakraNode& node = node_at(at);
    OpSpec op = relay_of(at.rank);
    op.name = names_[at.rank][at.node];
    const Nanoseconds time{static_cast<std::int64_t>(node.duration) * 1000};
    if (node.on_host)
      op.times[1].time = time;
    else
      op.times = {{"gpu", time}};
    if (node.type == ChakraType::compute) {
      op.type = "Compute";
      op.flops = Flops{static_cast<double>(node.flops)};
      op.bytes_accessed = Bytes{node.accessed_bytes};
      if (node.duration == 0 && !node.on_host && (node.flops > 0 || node.accessed_bytes > 0)) op.times.clear();
    } else if (node.type == ChakraType::load || node.type == ChakraType::store) {
      op.type = node.type == ChakraType::load ? "Load" : "Store";
    } else if (node.type == ChakraType::send || node.type == ChakraType::receive) {
      op.type = node.type == ChakraType::send ? "Send" : "Receive";
    } else if (node.type == ChakraType::collective) {
      op.type = collective_name(node);
    }
    for (const std::size_t before : waits_[at.rank].of(at.node)) op.after.push_back(names_[at.rank][before]);
    return op;
  }

  struct Message {
    std::int64_t from = 0, to = 0, tag = 0;
    friend auto operator<=>(const Message&, const Message&) = default;
  };

  /// The rank's nodes of this type, in the order of their ids.
  std::vector<NodeAt> nodes_of(std::size_t rank, ChakraType type) const {
    std::vector<NodeAt> list;
    const auto& nodes = ranks_[rank].trace.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].type == type && !nodes[i].on_host) list.push_back({rank, i});
    sort_by(list, [&](NodeAt at) { return node_at(at).id; });
    return list;
  }

  void match_messages() {
    std::map<Message, std::vector<NodeAt>> sends, receives;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (const NodeAt at : nodes_of(r, ChakraType::send)) {
        const ChakraNode& node = node_at(at);
        check_own_rank(at, node.source, "comm_src");
        sends[{ranks_[r].rank, *node.destination, node.tag}].push_back(at);
      }
      for (const NodeAt at : nodes_of(r, ChakraType::receive)) {
        const ChakraNode& node = node_at(at);
        check_own_rank(at, node.destination, "comm_dst");
        receives[{*node.source, ranks_[r].rank, node.tag}].push_back(at);
      }
    }
    for (const auto& [key, list] : sends)
      if (const auto partners = receives.find(key); partners == receives.end() || partners->second.size() < list.size())
        refuse_message(list.back(), fmt::format("rank {} sends tag {} to rank {}, which never receives it", key.from,
                                                key.tag, key.to));
    for (const auto& [key, list] : receives)
      if (const auto partners = sends.find(key); partners == sends.end() || partners->second.size() < list.size())
        refuse_message(list.back(), fmt::format("rank {} receives tag {} from rank {}, which never sends it", key.to,
                                                key.tag, key.from));
    for (const auto& [key, list] : sends)
      for (std::size_t k = 0; k < list.size(); ++k) add_message(key, list[k], receives[key][k]);
  }
  void check_own_rank(NodeAt at, const std::optional<std::int64_t>& said, const char* what) const {
    if (said && *said != ranks_[at.rank].rank)
      refuse_file(ranks_[at.rank].file, "partner",
                  fmt::format("node {} of rank {} has {} {}", node_at(at).id, ranks_[at.rank].rank, what, *said),
                  "check that the file belongs to this rank: a rank sends from itself and receives for itself");
  }
  [[noreturn]] void refuse_message(NodeAt at, const std::string& what) const {
    refuse_file(ranks_[at.rank].file, "partner", fmt::format("{} (node {})", what, node_at(at).id),
                "give the files of all ranks from one run");
  }
  void add_message(const Message& key, NodeAt from, NodeAt to) {
    const ChakraNode &send = node_at(from), &receive = node_at(to);
    if (send.bytes != receive.bytes)
      refuse_file(ranks_[to.rank].file, "partner",
                  fmt::format("rank {} sends {} bytes of tag {} (node {}), but rank {} receives {} (node {})", key.from,
                              send.bytes, key.tag, send.id, key.to, receive.bytes, receive.id),
                  "give files from one run");
    OpSpec one = op_of(from), other = op_of(to);
    one.times = other.times = relay_of(0).times;
    one.outputs = {{one.name + ":0", Bytes{send.bytes}}};
    other.inputs = {one.outputs.front().name};
    builder_.add(one);
    builder_.add(other);
    expanded_[{from.rank, from.node}] = expanded_[{to.rank, to.node}] = true;
  }

  void match_collectives() {
    std::map<std::string, std::map<std::size_t, std::vector<NodeAt>>> groups;  // by group and rank
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (const NodeAt at : nodes_of(r, ChakraType::collective)) {
        const std::string& group = node_at(at).group;
        groups[group.empty() ? "0" : group][r].push_back(at);
      }
    if (const auto all = groups.find("0"); all != groups.end())
      for (std::size_t r = 0; r < ranks_.size(); ++r) all->second[r];
    for (const auto& [group, members] : groups) {
      std::size_t most = 0;
      for (const auto& [rank, list] : members) most = std::max(most, list.size());
      for (const auto& [rank, list] : members)
        if (list.size() < most)
          refuse_file(ranks_[rank].file, "partner",
                      fmt::format("rank {} has {} collectives of group {}, but others have {}", ranks_[rank].rank,
                                  list.size(), group, most),
                      "give the files of all ranks from one run");
      for (std::size_t k = 0; k < most; ++k) {
        std::vector<NodeAt> each;
        for (const auto& [rank, list] : members) each.push_back(list[k]);
        add_collective(fmt::format("group {}/{}", group, k), each);
      }
    }
  }

  void add_collective(const std::string& name, const std::vector<NodeAt>& members) {
    const ChakraNode& first = node_at(members.front());
    for (const NodeAt at : members) {
      const ChakraNode& node = node_at(at);
      if (node.collective != first.collective || (node.bytes != first.bytes && !is_kind(node, ChakraKind::all_to_all)))
        refuse_file(ranks_[at.rank].file, "partner",
                    fmt::format("{}: rank {} has {} of {} bytes (node {}), but rank {} has {} of {} (node {})", name,
                                ranks_[at.rank].rank, collective_name(node), node.bytes, node.id,
                                ranks_[members.front().rank].rank, collective_name(first), first.bytes, first.id),
                    "give files from one run: all ranks of a group have the same collectives in the same order");
    }
    std::vector<OpSpec> ranks;
    std::vector<std::size_t> places;
    for (const NodeAt at : members) {
      places.push_back(ranks.size());
      ranks.push_back(relay_of(at.rank));
      names_[at.rank][at.node] = fmt::format("{}/out@{}", name, ranks.size());
      expanded_[{at.rank, at.node}] = true;
    }
    expand({name, members, std::move(ranks)}, places);
  }

  struct Meeting {
    std::string name;
    std::vector<NodeAt> members;
    std::vector<OpSpec> ranks;
  };

  /// Adds the ops of a collective. They begin with "NAME/in@I", after the nodes that member I waits for, and end with
  /// "NAME/out@I".
  void expand(const Meeting& one, const std::vector<std::size_t>& places) {
    const ChakraNode& first = node_at(one.members.front());
    const std::size_t n = one.members.size();
    CollectiveOps ops{one.name, one.ranks};
    std::vector<std::vector<std::string>> arrays;
    for (std::size_t i = 0; i < n; ++i) {
      OpSpec in = one.ranks[i];
      in.name = fmt::format("{}/in@{}", one.name, i + 1);
      in.outputs = {{in.name + ":0", Bytes{node_at(one.members[i]).bytes}}};
      arrays.push_back({in.outputs.front().name});
      entries_.push_back({std::move(in), one.members[i]});
    }
    std::vector<ArrayParts> ends(n);
    if (is_kind(first, ChakraKind::all_reduce)) {
      ends = n == 1 ? std::vector<ArrayParts>{{{arrays[0][0], Bytes{first.bytes}}}}
                    : ops.all_reduce(Collective::ring, arrays, Bytes{first.bytes});
    } else if (is_kind(first, ChakraKind::all_gather)) {
      ArrayParts parts;
      for (std::size_t i = 0; i < n; ++i) parts.push_back({arrays[i][0], Bytes{first.bytes}});
      ends = ops.all_gather("gather", places, parts);
    } else if (is_kind(first, ChakraKind::reduce_scatter) || is_kind(first, ChakraKind::all_to_all)) {
      std::vector<ArrayParts> parts;
      for (std::size_t i = 0; i < n; ++i)
        parts.push_back(ops.divide(i, "parts", arrays[i], Bytes{node_at(one.members[i]).bytes}, n));
      if (is_kind(first, ChakraKind::all_to_all)) {
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j) ends[j].push_back(parts[i][j]);
      } else {
        const ArrayParts sums = ops.reduce_scatter("reduce", places, parts);
        for (std::size_t i = 0; i < n; ++i) ends[i] = {sums[i]};
      }
    } else {
      ++replayed_;
    }
    const bool replayed = ends.front().empty();
    for (std::size_t i = 0; i < n; ++i) ops.join(i, "out", ends[i], {});
    for (OpSpec op : ops.ops()) {
      // A collective that only replays its duration starts when all ranks have reached it.
      if (replayed) {
        for (std::size_t i = 0; i < n; ++i) op.after.push_back(fmt::format("{}/in@{}", one.name, i + 1));
        op.times = {{"gpu", Nanoseconds{static_cast<std::int64_t>(first.duration) * 1000}}};
        op.type = collective_name(first);
      }
      builder_.add(op);
    }
  }

  const std::vector<ChakraRank>& ranks_;
  bool alone_;
  std::vector<WaitsFor> waits_;
  std::vector<std::vector<std::string>> names_;  // of the op that ends each node, by rank and position
  std::map<std::pair<std::size_t, std::size_t>, bool> expanded_;
  struct Entry {
    OpSpec op;
    NodeAt member;
  };
  std::vector<Entry> entries_;  // first ops of collectives, added once all collectives have their names
  std::size_t replayed_ = 0;
  GraphBuilder builder_;
  ChakraGraph result_;
};

/// Splits "step.3.et" or "step.3.et.gz" into "step" and rank 3.
std::optional<std::pair<std::string, std::int64_t>> rank_of(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  if (!name.ends_with(".et")) return std::nullopt;
  name.resize(name.size() - 3);
  const std::size_t dot = name.rfind('.');
  std::int64_t rank = 0;
  if (dot == std::string::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + dot + 1, name.data() + name.size(), rank);
  if (error != std::errc{} || end != name.data() + name.size() || rank < 0) return std::nullopt;
  return std::pair{name.substr(0, dot), rank};
}

std::vector<std::filesystem::path> rank_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (auto entry = std::filesystem::directory_iterator(folder, ignored);
       entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    if (ignored) break;
    if (rank_of(entry->path())) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

ChakraGraph chakra_graph(const ChakraRank& rank) {
  const std::vector<ChakraRank> one{rank};
  const std::string name = std::filesystem::path{rank.file}.filename().string();
  return ChakraProblem{one, true}.build(name.substr(0, name.find(".et")));
}

ChakraGraph chakra_graph(std::vector<ChakraRank> ranks, const std::string& folder) {
  sort_by(ranks, &ChakraRank::rank);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].rank != static_cast<std::int64_t>(i))
      refuse_file(folder, "ranks",
                  i > 0 && ranks[i].rank == ranks[i - 1].rank ? fmt::format("rank {} has two files", ranks[i].rank)
                                                              : fmt::format("there is no file for rank {}", i),
                  "give a file NAME.RANK.et for each rank, from 0");
  return ChakraProblem{ranks, false}.build(std::filesystem::path{folder}.filename().string());
}

bool is_chakra_path(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return !rank_files(path).empty();
  const std::string name = path.filename().string();
  return name.ends_with(".et") || name.ends_with(".et.gz");
}

ChakraGraph read_chakra(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto read = [](const std::filesystem::path& file, std::int64_t rank) {
    return ChakraRank{rank, input_name(file), parse_chakra(read_input(file), input_name(file))};
  };
  if (!std::filesystem::is_directory(path, ignored)) return chakra_graph(read(path, 0));
  std::vector<ChakraRank> ranks;
  std::string run;
  for (const std::filesystem::path& file : rank_files(path)) {
    const auto [name, rank] = *rank_of(file);
    if (!ranks.empty() && name != run)
      refuse_file(input_name(path), "ranks", fmt::format("the folder has files of two runs, '{}' and '{}'", run, name),
                  "give a folder with the files of one run");
    run = name;
    ranks.push_back(read(file, rank));
  }
  if (ranks.empty())
    refuse_file(input_name(path), "ranks", "the folder has no files NAME.RANK.et", "give the folder of a Chakra trace");
  return chakra_graph(std::move(ranks), input_name(path));
}

}  // namespace trainyard
