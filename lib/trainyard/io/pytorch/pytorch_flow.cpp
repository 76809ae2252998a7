#include "trainyard/io/pytorch/pytorch_flow.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "trainyard/core/sort_by.hpp"

namespace trainyard {
namespace {

/// A byte range of a storage, and the piece that wrote it last.
struct WrittenRange {
  std::int64_t begin = 0, end = 0;
  std::uint32_t piece = 0;
};

/// The contents of a storage: disjoint ranges in ascending order.
class StorageLine {
 public:
  bool empty() const { return ranges_.empty(); }
  void forget() { ranges_.clear(); }
  const std::vector<WrittenRange>& ranges() const { return ranges_; }

  /// The ranges that overlap [begin, end).
  std::span<const WrittenRange> overlap(std::int64_t begin, std::int64_t end) const {
    const auto first = std::ranges::upper_bound(ranges_, begin, {}, &WrittenRange::end);
    const auto last = std::ranges::lower_bound(first, ranges_.end(), end, {}, &WrittenRange::begin);
    return {first, last};
  }
  void write(WrittenRange now) {
    const auto first = std::ranges::upper_bound(ranges_, now.begin, {}, &WrittenRange::end);
    const auto last = std::ranges::lower_bound(first, ranges_.end(), now.end, {}, &WrittenRange::begin);
    std::vector<WrittenRange> pieces;
    if (first != last && first->begin < now.begin) pieces.push_back({first->begin, now.begin, first->piece});
    pieces.push_back(now);
    if (first != last && std::prev(last)->end > now.end)
      pieces.push_back({now.end, std::prev(last)->end, std::prev(last)->piece});
    const auto at = ranges_.erase(first, last);
    ranges_.insert(at, pieces.begin(), pieces.end());
  }

 private:
  std::vector<WrittenRange> ranges_;
};

class FlowReader {
 public:
  FlowReader(const TraceCalls& calls, const TraceOps& ops) : calls_(calls), trace_(calls.trace()), ops_(ops) {}

  TraceFlow read() {
    make_pieces();
    lines_.resize(trace_.storage_count);
    fresh_.resize(trace_.storage_count);
    leaf_.resize(trace_.storage_count);
    for (const auto& [key, node, ends] : events()) {
      if (!ends)
        start(trace_.nodes[node], node);
      else
        end(trace_.nodes[node], node);
    }
    flow_.unwritten = static_cast<std::size_t>(std::ranges::count(reads_unwritten_, true));
    find_residents();
    collect_written();
    std::ranges::sort(flow_.reads);
    return std::move(flow_);
  }

 private:
  struct Event {
    std::int64_t key;
    std::uint32_t node;
    bool ends;
  };
  struct Write {
    std::uint32_t storage, piece;
    std::int64_t bytes;
    bool in_place;
  };
  struct Use {
    std::uint32_t storage, piece;
    friend auto operator<=>(const Use&, const Use&) = default;
  };

  /// Number of pieces of a kept op. An op over lists of tensors has one per element if all its lists have equal
  /// lengths, apart from lists of one tensor that it only reads; all other ops have 1.
  std::uint32_t pieces_of(const TraceNode& node) const {
    const std::string& name = trace_.name(node);
    if (!(name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_")) || calls_.works_below(node))
      return 1;
    std::map<std::uint32_t, std::uint32_t> lengths;
    for (const TraceTensor& tensor : trace_.arguments(node)) ++lengths[tensor.argument];
    std::uint32_t longest = static_cast<std::uint32_t>(trace_.results(node).size());
    for (const auto& [argument, length] : lengths) longest = std::max(longest, length);
    for (const auto& [argument, length] : lengths)
      if (length != longest && (length != 1 || calls_.is_mutated(node, argument))) return 1;
    const auto results = trace_.results(node).size();
    return results == 0 || results == longest ? longest : 1;
  }
  void make_pieces() {
    for (const std::uint32_t node : ops_.kept) {
      flow_.first_piece.push_back(static_cast<std::uint32_t>(flow_.pieces.size()));
      const std::uint32_t count = pieces_of(trace_.nodes[node]);
      for (std::uint32_t i = 0; i < count; ++i) flow_.pieces.push_back({node, i, count > 1});
    }
    flow_.first_piece.push_back(static_cast<std::uint32_t>(flow_.pieces.size()));
    reads_unwritten_.resize(flow_.pieces.size());
  }

  /// Events in order. A node starts at its id. It ends after the last start below it, since the trace has no other
  /// ends. Inner calls end first.
  std::vector<Event> events() const {
    std::vector<Event> events;
    for (std::uint32_t i = 0; i < trace_.nodes.size(); ++i) {
      const TraceNode& node = trace_.nodes[i];
      if (ops_.owner[i] == TraceOps::kNone && !calls_.allocates(node)) continue;
      events.push_back({2 * node.id, i, false});
      events.push_back({2 * node.last + 1, i, true});
    }
    sort_by(events, [](const Event& event) { return std::pair{event.key, -std::int64_t{event.node}}; });
    return events;
  }

  /// Calls `each(piece)` for those pieces of the node's op that have the tensor.
  template <class Each>
  void for_pieces(std::uint32_t node, const TraceTensor& tensor, std::size_t in_argument, const Each& each) {
    const auto op = static_cast<std::size_t>(std::ranges::lower_bound(ops_.kept, ops_.owner[node]) - ops_.kept.begin());
    const std::uint32_t first = flow_.first_piece[op], end = flow_.first_piece[op + 1];
    if (end - first == 1) return each(first);
    if (in_argument == end - first) return each(first + tensor.element);
    for (std::uint32_t piece = first; piece < end; ++piece) each(piece);
  }
  static std::size_t length_of(std::span<const TraceTensor> tensors, std::uint32_t argument) {
    return static_cast<std::size_t>(std::ranges::count(tensors, argument, &TraceTensor::argument));
  }

  void start(const TraceNode& node, std::uint32_t number) {
    if (ops_.owner[number] == TraceOps::kNone) return;
    // Views below an op read nothing; they may show the op's own result before it is written.
    if (ops_.owner[number] != number && !calls_.works(node)) return;
    tensors_.clear();
    calls_.reads(node, tensors_);
    const bool wide = std::ranges::any_of(tensors_, [](const TraceTensor& tensor) { return tensor.item_bytes != 8; });
    for (std::size_t i = 0, run = 0; i < tensors_.size(); ++i) {
      const TraceTensor& tensor = tensors_[i];
      if (i == 0 || tensor.argument != tensors_[i - 1].argument) run = length_of(tensors_, tensor.argument);
      // Skip a Python number that was wrapped as a tensor.
      if (wide && tensor.item_bytes == 8 && tensor.end - tensor.begin == 8 && tensor.place == TraceTensor::Place::cpu)
        continue;
      if (!tensor.empty()) for_pieces(number, tensor, run, [&](std::uint32_t piece) { read(piece, tensor); });
    }
  }
  void read(std::uint32_t piece, const TraceTensor& tensor) {
    const std::uint32_t storage = tensor.storage;
    uses_.push_back({storage, piece});
    const StorageLine& line = lines_[storage];
    if (line.empty()) {
      if (fresh_[storage])
        reads_unwritten_[piece] = true;
      else {
        leaf_[storage].read = true;
        leaf_[storage].bytes = std::max(leaf_[storage].bytes, tensor.end);
        leaf_[storage].outside_update = leaf_[storage].outside_update || !updates(piece);
      }
      return;
    }
    const auto overlap = line.overlap(tensor.begin, tensor.end);
    for (const WrittenRange& range : overlap)
      add_read(range.piece, piece, storage, std::max(range.begin, tensor.begin), std::min(range.end, tensor.end));
    // A strided view beyond the densely written range may read all of the storage.
    if (overlap.empty())
      for (const WrittenRange& range : line.ranges()) add_read(range.piece, piece, storage, range.begin, range.end);
  }
  void add_read(std::uint32_t from, std::uint32_t to, std::uint32_t storage, std::int64_t begin, std::int64_t end) {
    if (flow_.pieces[from].node != flow_.pieces[to].node) flow_.reads.push_back({from, to, storage, begin, end});
  }
  bool updates(std::uint32_t piece) const { return ops_.phase[flow_.pieces[piece].node] == Phase::update; }

  void end(const TraceNode& node, std::uint32_t number) {
    if (calls_.allocates(node)) {
      for (const TraceTensor& tensor : trace_.results(node)) {
        lines_[tensor.storage].forget();
        fresh_[tensor.storage] = true;
      }
      return;
    }
    if (calls_.is_view(node)) return;
    const bool free = calls_.communicates(node) || node.triton;
    if (node.schema == 0 && !free && ops_.owner[number] != number) return;
    std::vector<std::uint32_t> read, mutated;
    for (const TraceTensor& tensor : trace_.arguments(node)) {
      read.push_back(tensor.storage);
      if (calls_.is_mutated(node, tensor.argument)) mutated.push_back(tensor.storage);
    }
    std::ranges::sort(read);
    std::ranges::sort(mutated);
    tensors_.clear();
    calls_.writes(node, tensors_);
    const std::size_t results = trace_.results(node).size(), arguments = tensors_.size() - results;
    const std::span<const TraceTensor> written_arguments{tensors_.data(), arguments};
    for (std::size_t i = 0, run = 0; i < tensors_.size(); ++i) {
      const TraceTensor& tensor = tensors_[i];
      if (i >= arguments)
        run = results;
      else if (i == 0 || tensor.argument != tensors_[i - 1].argument)
        run = length_of(written_arguments, tensor.argument);
      const bool in_place = std::ranges::binary_search(mutated, tensor.storage);
      if (tensor.empty() || (!free && !in_place && std::ranges::binary_search(read, tensor.storage))) continue;
      TraceTensor placed = tensor;
      if (i >= arguments) placed.element = static_cast<std::uint32_t>(i - arguments);
      for_pieces(number, placed, run, [&](std::uint32_t piece) {
        lines_[tensor.storage].write({tensor.begin, tensor.end, piece});
        writes_.push_back({tensor.storage, piece, tensor.end - tensor.begin, in_place || calls_.communicates(node)});
      });
    }
  }

  void find_residents() {
    std::ranges::sort(uses_);
    uses_.erase(std::unique(uses_.begin(), uses_.end()), uses_.end());
    sort_by(writes_, [](const Write& write) { return std::pair{write.storage, write.piece}; });
    std::size_t use = 0;
    for (std::size_t i = 0; i < writes_.size();) {
      const std::uint32_t storage = writes_[i].storage;
      std::size_t end = i;
      bool only_updates = true, in_place = true;
      std::int64_t bytes = 0;
      while (end < writes_.size() && writes_[end].storage == storage) {
        const std::uint32_t piece = writes_[end].piece;
        bool any_in_place = false;
        for (; end < writes_.size() && writes_[end].storage == storage && writes_[end].piece == piece; ++end) {
          any_in_place = any_in_place || writes_[end].in_place;
          bytes = std::max(bytes, writes_[end].bytes);
        }
        only_updates = only_updates && updates(piece);
        in_place = in_place && any_in_place;
      }
      while (use < uses_.size() && uses_[use].storage < storage) ++use;
      std::size_t end_of_uses = use;
      bool used_outside = false;
      for (; end_of_uses < uses_.size() && uses_[end_of_uses].storage == storage; ++end_of_uses)
        used_outside = used_outside || !updates(uses_[end_of_uses].piece);
      const Leaf& leaf = leaf_[storage];
      const bool wrapped_number = leaf.bytes == 8 && bytes == 4;
      if (leaf.read && only_updates && in_place && !wrapped_number && (leaf.outside_update || !used_outside)) {
        flow_.residents.push_back({storage, bytes, leaf.outside_update});
        for (std::size_t j = use; j < end_of_uses; ++j) flow_.touches.emplace_back(storage, uses_[j].piece);
        for (std::size_t j = i; j < end; ++j) flow_.touches.emplace_back(storage, writes_[j].piece);
      }
      i = end;
    }
    std::ranges::sort(flow_.touches);
    flow_.touches.erase(std::unique(flow_.touches.begin(), flow_.touches.end()), flow_.touches.end());
  }

  void collect_written() {
    sort_by(writes_, [](const Write& write) { return std::pair{write.piece, write.storage}; });
    for (const Write& write : writes_) {
      if (flow_.written.empty() || flow_.written.back().piece != write.piece ||
          flow_.written.back().storage != write.storage)
        flow_.written.push_back({write.piece, write.storage, write.bytes});
      flow_.written.back().bytes = std::max(flow_.written.back().bytes, write.bytes);
    }
  }

  struct Leaf {
    bool read = false, outside_update = false;
    std::int64_t bytes = 0;
  };

  const TraceCalls& calls_;
  const PytorchTrace& trace_;
  const TraceOps& ops_;
  TraceFlow flow_;
  std::vector<StorageLine> lines_;  // by storage
  std::vector<bool> fresh_, reads_unwritten_;
  std::vector<Leaf> leaf_;
  std::vector<Write> writes_;
  std::vector<Use> uses_;
  std::vector<TraceTensor> tensors_;
};

}  // namespace

TraceFlow trace_flow(const TraceCalls& calls, const TraceOps& ops) { return FlowReader{calls, ops}.read(); }

TraceFlow::Totals TraceFlow::between_ops(const PytorchTrace& trace, std::int64_t first_id, std::int64_t last_id) const {
  std::vector<TraceRead> all;
  const auto inside = [&](std::uint32_t node) {
    return trace.nodes[node].id >= first_id && trace.nodes[node].id <= last_id;
  };
  for (TraceRead read : reads) {
    read.from = pieces[read.from].node;
    read.to = pieces[read.to].node;
    if (inside(read.from) && inside(read.to)) all.push_back(read);
  }
  std::ranges::sort(all);
  Totals totals;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool new_pair = i == 0 || all[i].from != all[i - 1].from || all[i].to != all[i - 1].to;
    totals.edges += new_pair;
    if (new_pair || all[i].storage != all[i - 1].storage) end = 0;
    if (all[i].end > end) totals.bytes += all[i].end - std::max(all[i].begin, end);
    end = std::max(end, all[i].end);
  }
  return totals;
}

}  // namespace trainyard
