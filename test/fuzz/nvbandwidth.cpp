#include "trainyard/io/foreign/nvbandwidth.hpp"

#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "trainyard/io/formats/cluster_file.hpp"

using namespace trainyard;

/// An output file of nvbandwidth becomes a cluster file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_reader(
      {reinterpret_cast<const char*>(data), size},
      [](std::string_view text) {
        return text.starts_with("name = ") ? parse_cluster(text, "input") : parse_nvbandwidth(text, "input").cluster;
      },
      write_cluster);
  return 0;
}
