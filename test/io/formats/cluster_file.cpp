#include "trainyard/io/formats/cluster_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;

TEST_CASE("a cluster file has every field of a device, a link, an egress and a route") {
  const ClusterSpec spec = parse_cluster(R"(name = "box"
[[device]]
name = "gpu0"
class = "gpu"
memory = "16 GiB"
peak = "15.7 TFLOP/s"
memory_bandwidth = "900 GB/s"
launch_overhead = "5 us"
gap = "100 ns"
part_of = "whole"
[[device]]
name = "gpu1"
class = "gpu"
[[switch]]
name = "pcie"
[[link]]
name = "up"
from = "gpu0"
to = "pcie"
bandwidth = "12.5 GB/s"
latency = "2.5 us"
duplex = "half"
sharing = "none"
bus = "host"
gap = "1 us"
[[link]]
from = "pcie"
to = "gpu1"
bandwidth = "100 Gbit/s"
[[egress]]
device = "gpu1"
bandwidth = "1 GB/s"
latency = "1 us"
gap = "2 us"
broadcast = true
[[route]]
from = "gpu0"
to = "gpu1"
links = ["up", "pcie-gpu1"]
)",
                                         "box.toml");
  ClusterSpec expected;
  expected.name = "box";
  expected.devices = {Device{"gpu0", "", "gpu", Bytes{17179869184}, FlopsPerSecond{15.7e12}, BytesPerSecond{900e9},
                             Nanoseconds{5000}, Nanoseconds{100}, "whole"},
                      Device{"gpu1", "", "gpu"}};
  expected.switches = {"pcie"};
  expected.links = {Link{"up", "gpu0", "pcie", BytesPerSecond{12.5e9}, Nanoseconds{2500}, Nanoseconds{1000},
                         Duplex::half, Sharing::none, "host"},
                    Link{"pcie-gpu1", "pcie", "gpu1", BytesPerSecond{12.5e9}}};
  expected.egresses = {Egress{"gpu1", BytesPerSecond{1e9}, Nanoseconds{1000}, Nanoseconds{2000}, true}};
  expected.routes = {GivenRoute{"gpu0", "gpu1", {"up", "pcie-gpu1"}}};
  CHECK(spec == expected);
}

TEST_CASE("a known kind gives a device its numbers, and the file may change them") {
  const DeviceKind* kind = find_device_kind("V100-SXM2-16GB");
  REQUIRE(kind);
  const auto device = [](const std::string& fields) {
    return parse_cluster("[[device]]\nname = \"gpu0\"\nkind = \"V100-SXM2-16GB\"\n" + fields, "one.toml").devices[0];
  };
  const Device plain = device("");
  CHECK(plain.kind == kind->name);
  CHECK(plain.device_class == kind->device_class);
  CHECK(plain.memory == kind->memory);
  CHECK(plain.peak == kind->peak);
  CHECK(plain.memory_bandwidth == kind->memory_bandwidth);
  CHECK(plain.launch_overhead == kind->launch_overhead);
  CHECK(device("memory = \"12 GiB\"").memory == Bytes{12'884'901'888});  // 12 x 2^30
  CHECK_FALSE(device("memory = \"unlimited\"").memory.has_value());
  CHECK(device("launch_overhead = \"0 ns\"").launch_overhead == Nanoseconds{0});
}

TEST_CASE("a kind of one's own needs a class") {
  const ClusterSpec spec = parse_cluster("[[device]]\nname = \"tpu0\"\nkind = \"tpu\"\nclass = \"tpu\"\n", "own.toml");
  CHECK(spec.devices[0].kind == "tpu");
  CHECK(spec.devices[0].device_class == "tpu");
}

TEST_CASE("a cluster without a name has its file's") {
  const test::TemporaryFolder folder;
  test::write_text(folder.path() / "my-box.toml", "[[device]]\nname = \"cpu0\"\nclass = \"cpu\"\n");
  CHECK(read_cluster(folder.path() / "my-box.toml").name == "my-box");
}

TEST_CASE("what has its default, or its kind's value, is not written") {
  ClusterSpec spec =
      parse_cluster("name = \"one\"\n[[device]]\nname = \"gpu0\"\nkind = \"V100-SXM2-16GB\"\n", "one.toml");
  spec.devices[0].gap = Nanoseconds{1500};
  std::ostringstream out;
  write_cluster(spec, out);
  CHECK(out.str() == "name = \"one\"\n\n[[device]]\nname = \"gpu0\"\nkind = \"V100-SXM2-16GB\"\ngap = \"1500 ns\"\n");
}

TEST_CASE("several faults of a cluster come in the order of the file") {
  const auto findings = test::findings_of(
      [] { parse_cluster("name = 5\n[[link]]\nfrom = \"a\"\n[[device]]\nmemory = 1\n", "bad.toml"); });
  REQUIRE(findings.size() >= 5);  // name, to, bandwidth, device name, kind, memory
  CHECK(std::ranges::is_sorted(findings, {}, [](const Finding& finding) { return finding.at.line; }));
  CHECK(findings.front().pointer == "/name");
}

TEST_CASE("a fabric joins devices of one kind, or those that are listed") {
  const std::string fabric = R"(name = "pod"
[fabric]
hosts = 4
devices_per_host = 2
kind = "H100"
memory = "64 GiB"
port_bandwidth = "450 GB/s"
port_latency = "2.5 us"
nics_per_host = 1
nic_bandwidth = "400 Gbit/s"
nic_latency = "5 us"
leaf = "rack"
hosts_per_leaf = 2
oversubscription = 1.5
uplink_latency = "500 ns"
)";
  const ClusterSpec spec = parse_cluster(fabric, "pod.toml");
  REQUIRE(spec.devices.size() == 8);
  CHECK(spec.devices[7].name == "gpu7");
  CHECK(spec.devices[7].kind == "H100-SXM5-80GB");
  CHECK(spec.devices[7].memory == Bytes{std::int64_t{64} << 30});
  CHECK(spec.fabric == FabricSpec{.hosts = 4,
                                  .devices_per_host = 2,
                                  .port_bandwidth = BytesPerSecond{450e9},
                                  .port_latency = Nanoseconds{2'500},
                                  .nics_per_host = 1,
                                  .nic_bandwidth = BytesPerSecond{50e9},
                                  .nic_latency = Nanoseconds{5'000},
                                  .leaf = FabricSpec::Leaf::rack,
                                  .hosts_per_leaf = 2,
                                  .oversubscription = 1.5,
                                  .uplink_latency = Nanoseconds{500}});
  const auto written = [](const ClusterSpec& cluster) {
    std::ostringstream out;
    write_cluster(cluster, out);
    return out.str();
  };
  CHECK(written(spec).find("[[device]]") == std::string::npos);
  CHECK(parse_cluster(written(spec), "") == spec);

  ClusterSpec mixed = spec;
  mixed.devices[3].memory = Bytes{1};
  CHECK(parse_cluster(written(mixed), "") == mixed);

  // Cards, leaves and oversubscription have defaults: one card for each device, one leaf for each rail.
  const ClusterSpec least = parse_cluster(R"([fabric]
hosts = 2
devices_per_host = 4
kind = "H100"
port_bandwidth = "450 GB/s"
nic_bandwidth = "50 GB/s"
)",
                                          "");
  CHECK(least.fabric->nics_per_host == 4);
  CHECK(least.fabric->leaf_count() == 4);
  CHECK(parse_cluster(written(least), "") == least);

  const ClusterSpec pods =
      parse_cluster(fabric + "hosts_per_pod = 2\ncore_oversubscription = 7\ncore_latency = \"600 ns\"\n", "");
  CHECK(pods.fabric->hosts_per_pod == 2);
  CHECK(pods.fabric->core_oversubscription == 7);
  CHECK(pods.fabric->core_latency == Nanoseconds{600});
  CHECK(parse_cluster(written(pods), "") == pods);

  const ClusterSpec fair = parse_cluster(fabric + "sharing = \"fair\"\n", "");
  CHECK(fair.fabric->sharing == Sharing::fair);
  CHECK(parse_cluster(written(fair), "") == fair);
}

TEST_CASE("a torus needs its dimensions, and no number of devices") {
  const std::string torus = "[fabric]\nhosts = 1\ntorus = [4, 3]\nkind = \"H100\"\nport_bandwidth = \"50 GB/s\"\n";
  const ClusterSpec spec = parse_cluster(torus, "");
  CHECK(spec.devices.size() == 12);
  CHECK(spec.fabric->torus == std::vector<std::size_t>{4, 3});
  std::ostringstream out;
  write_cluster(spec, out);
  CHECK(parse_cluster(out.str(), "") == spec);
  CHECK(parse_cluster(torus + "devices_per_host = 12\n", "") == spec);
}

TEST_CASE("what is wrong with a fabric is found where it stands") {
  const auto finding = [](const std::string& text) {
    const Finding first = test::finding_of([&] { parse_cluster(text, "pod.toml"); });
    return first.code + first.pointer;
  };
  const std::string rates = "port_bandwidth = \"1 GB/s\"\nnic_bandwidth = \"1 GB/s\"\nkind = \"H100\"\n";
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\n" + rates).empty());
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\nsharing = \"serial\"\n" + rates).empty());
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\nsharing = \"none\"\n" + rates) ==
        "unknown-word/fabric/sharing");
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\noversubscription = 0.5\n" + rates) ==
        "fabric-size/fabric/oversubscription");
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\nnics_per_host = 0\n" + rates) ==
        "not-positive/fabric/nics_per_host");
  const std::string hosts = "[fabric]\nhosts = 4\ndevices_per_host = 2\nhosts_per_leaf = 2\n" + rates;
  for (const std::string count : {"0", "-2"})
    CHECK(finding(hosts + "hosts_per_pod = " + count + "\n") == "not-positive/fabric/hosts_per_pod");
  CHECK(finding(hosts + "hosts_per_pod = 3\n") == "fabric-size/fabric/hosts_per_pod");
  CHECK(finding(hosts + "hosts_per_pod = 2\ncore_oversubscription = 0.9\n") ==
        "fabric-size/fabric/core_oversubscription");
  CHECK(finding(hosts + "core_latency = \"1 us\"\n") == "fabric-size/fabric/core_latency");
  for (const std::string torus : {"[]", "4", "[4, \"4\"]", "[2.5]"})
    CHECK(finding("[fabric]\nhosts = 1\ndevices_per_host = 4\ntorus = " + torus + "\n" + rates) == "type/fabric/torus");
  for (const std::string torus : {"[4, 4]", "[-2, -2]", "[4, 1]", "[9000000000000000000, 2]", "[2, 2, 1, 1]"})
    CHECK(finding("[fabric]\nhosts = 1\ndevices_per_host = 4\ntorus = " + torus + "\n" + rates) ==
          "fabric-size/fabric/torus");
  CHECK(finding("[fabric]\ndevices_per_host = 2\n" + rates) == "missing-key/fabric");
  CHECK(finding("[fabric]\nhosts = -2\ndevices_per_host = 2\n" + rates) == "not-positive/fabric/hosts");
  CHECK(finding("[fabric]\nhosts = 1000000000000\ndevices_per_host = 2\n" + rates) == "fabric-size/fabric/hosts");
  CHECK(finding("[fabric]\nhosts = 2.5\ndevices_per_host = 2\n" + rates) == "type/fabric/hosts");
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\nspines = 3\n" + rates) == "unknown-key/fabric/spines");
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\noversubscription = \"2\"\n" + rates) ==
        "type/fabric/oversubscription");
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\nleaf = \"row\"\n" + rates) == "unknown-word/fabric/leaf");
  CHECK(finding("[[fabric]]\nhosts = 2\n") == "type/fabric");
  CHECK(finding("[fabric]\nhosts = 2\ndevices_per_host = 2\n" + rates + "[[switch]]\nname = \"a\"\n") ==
        "fabric/fabric");
}

namespace {

std::string refusal(const std::string& text) {
  return test::refusal_of([&] { parse_cluster(text, "c.toml"); });
}

std::string many_devices(std::size_t count, bool chain) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += "[[device]]\nname = \"d" + std::to_string(i) + "\"\nclass = \"gpu\"\n";
  for (std::size_t i = 1; i < count && chain; ++i)
    text += "[[link]]\nfrom = \"d" + std::to_string(i - 1) + "\"\nto = \"d" + std::to_string(i) +
            "\"\nbandwidth = \"1 GB/s\"\n";
  return text;
}

}  // namespace

TEST_CASE("a key of very many dots is refused before it is parsed") {
  std::string dots = "a";
  for (int i = 0; i < 50'000; ++i) dots += ".a";
  for (const std::string& text : {dots + " = 1\n", "[" + dots + "]\n", "[[" + dots + "]]\n", "x = {" + dots + " = 1}\n",
                                  "x = \"\"\"a\"\"\"\"\n" + dots + " = 1\n", "x = 'it''s'\n" + dots + " = 1\n"})
    CHECK(refusal(text) == "toml: not valid here: a key with more than 16 dots");
  // Dots in strings, comments and numbers do not belong to keys.
  const std::string points(100, '.');
  std::string numbers = "x-numbers = [1.0";
  for (int i = 0; i < 100; ++i) numbers += ", 1.0";
  CHECK(refusal("name = \"" + points + "\"  # " + points + "\nx-a = '" + points + "'\nx-b = \"\"\"\n" + points +
                "\n\"\"\"\n" + numbers + "]\n" + many_devices(1, false)) == "");
}

TEST_CASE("a hundred devices with a route for each pair are no large cluster") {
  CHECK(refusal(many_devices(100, true)) == "");
}

TEST_CASE("devices with a route for each pair are 2,048 at most, and their routes have 2^25 links") {
  if (test::is_sanitized()) return test::report_skipped("takes minutes under sanitizers");
  CHECK(refusal(many_devices(2049, false)).find("too-large: routes between 2049 devices") == 0);
  // The routes along a chain of 1,000 devices have 1,000^3 / 3 links.
  CHECK(refusal(many_devices(1000, true)).find("too-large: the routes between 1000 devices") == 0);
}
