#include "sim/program.hpp"

#include <iterator>

namespace trainyard::test {
namespace fs = std::filesystem;

CommandResult run_trainyard(const fs::path& folder, const std::string& words, const std::string& environment) {
  return run_command("cd '" + folder.string() + "' && " + environment + " '" +
                     (build_dir() / "sim" / "trainyard").string() + "' " + words);
}

nlohmann::json json_of(const CommandResult& result) { return nlohmann::json::parse(result.output); }

const char* const kChainGraph = R"({"format": "trainyard-graph/1", "name": "chain", "ops": [
 {"name": "a", "times_ns": {"gpu": 1000}, "parameter_bytes": 5000, "outputs": [{"name": "ab", "bytes": 1000}]},
 {"name": "b", "times_ns": {"gpu": 1000}, "inputs": ["ab"], "outputs": [{"name": "bc", "bytes": 1000}]},
 {"name": "c", "times_ns": {"gpu": 1000}, "inputs": ["bc"], "outputs": []}]}
)";

std::string pair_cluster(const std::string& memory) {
  std::string text = "name = \"pair\"\n";
  for (const char* name : {"gpu0", "gpu1"})
    text += "[[device]]\nname = \"" + std::string{name} + "\"\nclass = \"gpu\"\nmemory = \"" + memory + "\"\n";
  return text + "[[link]]\nname = \"wire\"\nfrom = \"gpu0\"\nto = \"gpu1\"\nbandwidth = \"1 GB/s\"\n";
}

std::size_t file_count(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

}  // namespace trainyard::test
