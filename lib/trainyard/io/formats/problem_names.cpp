#include "trainyard/io/formats/problem_names.hpp"

#include <fmt/format.h>

#include "trainyard/core/nearest_name.hpp"

namespace trainyard::detail {

void ProblemNames::unknown(const char* code, const char* what, std::string_view name, const char* of,
                           const std::string& owner, const std::vector<std::string>& names, std::size_t offset) {
  if (findings_.full()) return;
  std::string help = did_you_mean(name, names);
  constexpr std::size_t kFew = 8;
  if (help.empty() && names.size() <= kFew) help = fmt::format("the {} has {}", of, fmt::join(names, ", "));
  findings_.add(offset, code, fmt::format("the {} '{}' has no {} '{}'", of, owner, what, name), std::move(help));
}

}  // namespace trainyard::detail
