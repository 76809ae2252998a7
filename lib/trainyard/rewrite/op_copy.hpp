#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Copies ops one at a time, to be renamed and added to another graph. All copies reuse the same texts, so that ops of
/// a large rewritten graph do not each allocate their own. For copies that are parts of `parts`, each distinct
/// signature is divided once.
class OpCopy {
 public:
  explicit OpCopy(const Graph& graph, std::size_t parts = 1) : graph_(graph), parts_(parts) {}

  /// A view of the unchanged op. Invalidates the texts of the previous copy.
  OpView& start(OpId op);
  /// Appends the suffix to a text of the view.
  void append(std::string_view& text, std::string_view suffix);
  /// Stores a text for use in the view.
  std::string_view lend(std::string text);
  /// Makes the signature that of one part of `parts`, or of another number of parts; with `of_rows` (the op's products
  /// have weights) that of a part of its rows (detail::part_signature).
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
