#include "trainyard/rewrite/op_copy.hpp"

#include <utility>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {

OpView& OpCopy::start(OpId op) {
  used_ = 0;
  view_op(graph_, op, view_);
  return view_;
}

void OpCopy::append(std::string_view& text, std::string_view suffix) { text = next_text().assign(text).append(suffix); }

std::string_view OpCopy::lend(std::string text) { return next_text() = std::move(text); }

std::string& OpCopy::next_text() {
  if (used_ == texts_.size()) texts_.emplace_back();
  return texts_[used_++];
}

void OpCopy::divide_signature(bool of_rows, std::size_t parts) {
  const double share = 1 / static_cast<double>(parts);
  std::string& part = parts == parts_ ? divided_[of_rows ? 1 : 0][view_.signature] : next_text();
  if (part.empty() || parts != parts_) part = detail::part_signature(view_.signature, share, of_rows);
  view_.signature = part;
}

}  // namespace trainyard
