#include "trainyard/cost/cost_table.hpp"

#include <algorithm>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

void check_time(Nanoseconds time) {
  if (time < Nanoseconds{0}) refuse("negative-time", "a measured time is below 0", "give 0 ns or more");
}

}  // namespace

void CostTable::add_op(std::string_view device_kind, std::string_view op, Nanoseconds time,
                       std::string_view signature) {
  check_time(time);
  kinds_[std::string{device_kind}].ops.insert_or_assign(std::string{op}, OpTime{time, std::string{signature}});
}

void CostTable::add_signature(std::string_view device_kind, std::string_view signature, Nanoseconds time) {
  check_time(time);
  if (signature.empty())
    refuse("signature", "a measured time has an empty signature", "name its op instead, with add_op()");
  kinds_[std::string{device_kind}].signatures.insert_or_assign(std::string{signature}, time);
}

std::optional<Nanoseconds> CostTable::find_op(std::string_view device_kind, std::string_view op,
                                              std::string_view signature) const {
  const auto kind = kinds_.find(device_kind);
  if (kind == kinds_.end()) return std::nullopt;
  const auto known = kind->second.ops.find(op);
  if (known == kind->second.ops.end()) return std::nullopt;
  const std::string& measured = known->second.signature;
  return measured.empty() || signature.empty() || measured == signature ? std::optional{known->second.time}
                                                                        : std::nullopt;
}

std::optional<Nanoseconds> CostTable::find_signature(std::string_view device_kind, std::string_view signature) const {
  const auto kind = kinds_.find(device_kind);
  if (kind == kinds_.end()) return std::nullopt;
  const auto known = kind->second.signatures.find(signature);
  return known == kind->second.signatures.end() ? std::nullopt : std::optional{known->second};
}

bool CostTable::names_ops() const {
  return std::ranges::any_of(kinds_, [](const auto& kind) { return !kind.second.ops.empty(); });
}

std::size_t CostTable::size() const {
  std::size_t entries = 0;
  for (const auto& [name, kind] : kinds_) entries += kind.ops.size() + kind.signatures.size();
  return entries;
}

}  // namespace trainyard
