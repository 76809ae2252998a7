#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A copy of one op after the other, to be renamed and added to another graph: of the many ops of a rewritten graph,
/// none has texts of its own. For ops that are parts of `parts`, their signatures are divided once each.
class OpCopy {
 public:
  explicit OpCopy(const Graph& graph, std::size_t parts = 1) : graph_(graph), parts_(parts) {}

  /// The op as it is. What the copy before has lent its view is no more.
  OpView& start(OpId op);
  /// Puts the suffix behind a text of the view.
  void append(std::string_view& text, std::string_view suffix);
  /// A text for the view.
  std::string_view lend(std::string text);
  /// One of the parts, or of another number of them; of its rows where the op's products have weights
  /// (detail::part_signature).
  void divide_signature(bool of_rows) { divide_signature(of_rows, parts_); }
  void divide_signature(bool of_rows, std::size_t parts);

 private:
  std::string& next_text();

  const Graph& graph_;
  const std::size_t parts_;
  OpView view_;
  std::deque<std::string> texts_;  // of the view
  std::size_t used_ = 0;
  std::unordered_map<std::string_view, std::string> divided_[2];  // by signature; the second: of rows
};

}  // namespace trainyard
