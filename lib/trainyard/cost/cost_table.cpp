#include "trainyard/cost/cost_table.hpp"

#include <cassert>

namespace trainyard {
namespace {

template <class Times>
std::optional<Nanoseconds> look_up(const Times& times, std::string_view key) {
  const auto at = times.find(key);
  return at == times.end() ? std::nullopt : std::optional{at->second};
}

}  // namespace

void CostTable::add_op(std::string_view device_kind, std::string_view op, Nanoseconds time) {
  assert(time >= Nanoseconds{0});
  kinds_[std::string{device_kind}].ops.insert_or_assign(std::string{op}, time);
}

void CostTable::add_signature(std::string_view device_kind, std::string_view signature, Nanoseconds time) {
  assert(time >= Nanoseconds{0} && !signature.empty());
  kinds_[std::string{device_kind}].signatures.insert_or_assign(std::string{signature}, time);
}

std::optional<Nanoseconds> CostTable::find_op(std::string_view device_kind, std::string_view op) const {
  const auto kind = kinds_.find(device_kind);
  return kind == kinds_.end() ? std::nullopt : look_up(kind->second.ops, op);
}

std::optional<Nanoseconds> CostTable::find_signature(std::string_view device_kind, std::string_view signature) const {
  const auto kind = kinds_.find(device_kind);
  return kind == kinds_.end() ? std::nullopt : look_up(kind->second.signatures, signature);
}

std::size_t CostTable::size() const {
  std::size_t entries = 0;
  for (const auto& [name, kind] : kinds_) entries += kind.ops.size() + kind.signatures.size();
  return entries;
}

}  // namespace trainyard
