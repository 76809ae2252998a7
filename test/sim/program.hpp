#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/support.hpp"

namespace trainyard::test {

/// Runs the built program in `folder`. `words` are shell words after its name, `environment` stands before it
/// ("NO_COLOR=1").
CommandResult run_trainyard(const std::filesystem::path& folder, const std::string& words,
                            const std::string& environment = "");

/// The program's output as JSON; the test fails if it is not JSON.
nlohmann::json json_of(const CommandResult& result);

/// A chain of three ops a -> b -> c, 1000 ns each on a GPU, with tensors of 1000 bytes between them.
extern const char* const kChainGraph;
/// Two devices with `memory` each and a link of 1 GB/s: a byte takes a nanosecond.
std::string pair_cluster(const std::string& memory = "1 GB");

/// The number of files in `folder`.
std::size_t file_count(const std::filesystem::path& folder);

}  // namespace trainyard::test
