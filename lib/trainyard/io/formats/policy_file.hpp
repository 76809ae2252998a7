#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/place/learned/learned_policy.hpp"

namespace trainyard {

/// Reads a policy file, format tag "trainyard-policy/1" (FORMATS.md). Throws InputError: not a policy file, a damaged
/// one, weights whose number is not what their shape says, or that are not finite.
LearnedPolicy read_policy(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
LearnedPolicy parse_policy(std::string_view text, const std::string& name);

void write_policy(const LearnedPolicy& policy, std::ostream& out);

}  // namespace trainyard
