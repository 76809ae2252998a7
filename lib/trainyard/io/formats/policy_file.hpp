#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/place/learned/learned_policy.hpp"

namespace trainyard {

/// Reads a policy file, format "trainyard-policy/1" (FORMATS.md). Throws InputError if the file is not a policy file or
/// is damaged, if an array of weights does not have rows x columns values, or if a weight is not finite.
LearnedPolicy read_policy(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
LearnedPolicy parse_policy(std::string_view text, const std::string& name);

void write_policy(const LearnedPolicy& policy, std::ostream& out);

}  // namespace trainyard
