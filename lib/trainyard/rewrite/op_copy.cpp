#include "trainyard/rewrite/op_copy.hpp"

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {

OpView& OpCopy::start(OpId op) {
  used_ = 0;
  view_op(graph_, op, view_);
  return view_;
}

void OpCopy::append(std::string_view& text, std::string_view suffix) {
  if (used_ == texts_.size()) texts_.emplace_back();
  std::string& own = texts_[used_++];
  own.assign(text).append(suffix);
  text = own;
}

void OpCopy::divide_signature() {
  std::string& part = divided_[view_.signature];
  if (part.empty()) part = detail::part_signature(view_.signature, 1 / static_cast<double>(parts_));
  view_.signature = part;
}

}  // namespace trainyard
