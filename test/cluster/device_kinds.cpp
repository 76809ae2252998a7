#include "trainyard/cluster/device_kinds.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace trainyard;

TEST_CASE("every kind has all its numbers, their precision and their source") {
  for (const DeviceKind& kind : device_kinds()) {
    CAPTURE(kind.name);
    CHECK(kind.memory > Bytes{0});
    CHECK(kind.peak.value > 0);
    CHECK(kind.memory_bandwidth.value > 0);
    CHECK_FALSE(kind.precision.empty());
    CHECK_FALSE(kind.source.empty());
    CHECK((kind.device_class == "gpu" || kind.device_class == "cpu"));
  }
}

TEST_CASE("names and aliases lead to one kind each, in upper or lower case") {
  for (const DeviceKind& kind : device_kinds()) {
    CHECK(find_device_kind(kind.name) == &kind);
    for (const std::string& alias : kind.aliases) CHECK(find_device_kind(alias) == &kind);
  }
  CHECK(find_device_kind("v100") == find_device_kind("V100-SXM2-16GB"));
  CHECK(find_device_kind("K80")->memory == Bytes{std::int64_t{12} << 30});
  CHECK(find_device_kind("V100-32GB")->memory == Bytes{std::int64_t{32} << 30});
  CHECK(find_device_kind("V1000") == nullptr);
  CHECK(find_device_kind("") == nullptr);
}

TEST_CASE("a device of a kind has the kind's numbers") {
  const DeviceKind& kind = *find_device_kind("A100");
  const Device device = make_device(kind, "gpu3");
  CHECK(device.name == "gpu3");
  CHECK(device.kind == "A100-SXM4-40GB");
  CHECK(device.device_class == "gpu");
  CHECK(device.memory == kind.memory);
  CHECK(device.peak == kind.peak);
  CHECK(device.memory_bandwidth == kind.memory_bandwidth);
  CHECK(device.launch_overhead == kind.launch_overhead);
}
