#include "profiler/here.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "profiler/host.hpp"
#include "trainyard/cluster/cluster.hpp"

using namespace trainyard;

namespace {

/// A machine as NVML describes it. A device handle is the address of an element of `gpus`.
struct PlayedGpu {
  std::string name;
  std::int64_t memory = 0;
  unsigned pcie_generation = 3, lanes = 16, nvlink_generation = 2;
  std::vector<int> links = {};  // the peer of each link; -1: a switch
};
struct Played {
  std::vector<PlayedGpu> gpus;
  unsigned (*ancestor)(std::size_t, std::size_t) = [](std::size_t, std::size_t) { return 40U; };
};
Played played;

std::size_t number_of(void* device) { return reinterpret_cast<std::size_t>(device) - 1; }
const PlayedGpu& gpu_of(void* device) { return played.gpus[number_of(device)]; }
void put_address(std::size_t gpu, cuda::NvmlPci* pci) {
  std::snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", static_cast<unsigned>(gpu + 16));
}

cuda::Nvml played_nvml() {
  cuda::Nvml nvml{};
  nvml.nvmlInit_v2 = [] { return 0; };
  nvml.nvmlShutdown = [] { return 0; };
  nvml.nvmlDeviceGetCount_v2 = [](unsigned* count) { return *count = static_cast<unsigned>(played.gpus.size()), 0; };
  nvml.nvmlDeviceGetHandleByIndex_v2 = [](unsigned i, void** device) {
    return *device = reinterpret_cast<void*>(std::size_t{i} + 1), 0;
  };
  nvml.nvmlDeviceGetName = [](void* device, char* name, unsigned length) {
    return std::snprintf(name, length, "%s", gpu_of(device).name.c_str()) > 0 ? 0 : 1;
  };
  nvml.nvmlDeviceGetMemoryInfo = [](void* device, cuda::NvmlMemory* memory) {
    return memory->total = static_cast<unsigned long long>(gpu_of(device).memory), 0;
  };
  nvml.nvmlDeviceGetPciInfo_v3 = [](void* device, cuda::NvmlPci* pci) {
    return put_address(number_of(device), pci), 0;
  };
  nvml.nvmlDeviceGetMaxPcieLinkGeneration = [](void* device, unsigned* value) {
    return *value = gpu_of(device).pcie_generation, 0;
  };
  nvml.nvmlDeviceGetMaxPcieLinkWidth = [](void* device, unsigned* value) { return *value = gpu_of(device).lanes, 0; };
  nvml.nvmlDeviceGetTopologyCommonAncestor = [](void* a, void* b, unsigned* level) {
    return *level = played.ancestor(number_of(a), number_of(b)), 0;
  };
  nvml.nvmlDeviceGetNvLinkState = [](void* device, unsigned link, unsigned* active) {
    const auto& links = gpu_of(device).links;
    if (links.empty()) return 3;  // NVML_ERROR_NOT_SUPPORTED
    return *active = link < links.size() ? 1 : 0, 0;
  };
  nvml.nvmlDeviceGetNvLinkVersion = [](void* device, unsigned, unsigned* value) {
    return *value = gpu_of(device).nvlink_generation, 0;
  };
  nvml.nvmlDeviceGetNvLinkRemoteDeviceType = [](void* device, unsigned link, int* type) {
    return *type = gpu_of(device).links[link] < 0 ? 2 : 0, 0;
  };
  nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2 = [](void* device, unsigned link, cuda::NvmlPci* pci) {
    return put_address(static_cast<std::size_t>(gpu_of(device).links[link]), pci), 0;
  };
  return nvml;
}

MachineHere here_of(Played machine) {
  played = std::move(machine);
  return machine_here(played_nvml());
}
double gigabytes(const Cluster& cluster, std::size_t from, std::size_t to) {
  return cluster.route(DeviceId{from}, DeviceId{to}).bandwidth.value / 1e9;
}

}  // namespace

TEST_CASE("eight H100 on switches have a port each: 18 links of 21.6 GB/s") {
  const PlayedGpu gpu{.name = "NVIDIA H100 80GB HBM3",
                      .memory = 85'520'809'984,
                      .pcie_generation = 5,
                      .nvlink_generation = 4,
                      .links = std::vector<int>(18, -1)};
  const MachineHere here = here_of({.gpus = std::vector<PlayedGpu>(8, gpu)});
  CHECK(here.cluster.name == "here");
  REQUIRE(here.cluster.devices.size() == 8);
  CHECK(here.cluster.devices[0].kind == "H100-SXM5-80GB");
  CHECK(here.cluster.devices[0].memory == Bytes{85'520'809'984});  // the driver's value, not the data sheet's
  const Cluster cluster = make_cluster(here.cluster);
  CHECK(gigabytes(cluster, 0, 7) == doctest::Approx(18 * 21.6));
  // Two copies that leave one GPU share its port.
  CHECK(cluster.route(DeviceId{0}, DeviceId{1}).channels.front() ==
        cluster.route(DeviceId{0}, DeviceId{2}).channels.front());
}

TEST_CASE("V100 with links of their own: two to one neighbour, one to another, the rest through the host") {
  const auto gpu = [](std::vector<int> links) {
    return PlayedGpu{.name = "Tesla V100-SXM2-16GB", .memory = 16'945'512'448, .links = std::move(links)};
  };
  const MachineHere here = here_of({.gpus = {gpu({1, 1, 2}), gpu({0, 0, 3}), gpu({0, 3, 3}), gpu({1, 2, 2})}});
  const Cluster cluster = make_cluster(here.cluster);
  CHECK(here.cluster.devices[0].kind == "V100-SXM2-16GB");
  CHECK(gigabytes(cluster, 0, 1) == doctest::Approx(48.4));
  CHECK(gigabytes(cluster, 0, 2) == doctest::Approx(24.2));
  CHECK(gigabytes(cluster, 0, 3) <= 12.3);  // PCIe 3.0
}

TEST_CASE("T4 below one PCIe switch share its way to the host; eight lanes are half of sixteen") {
  PlayedGpu gpu{.name = "Tesla T4", .memory = 15'843'721'216, .lanes = 8};
  const auto pairs = [](std::size_t a, std::size_t b) { return a / 2 == b / 2 ? 10U : 50U; };
  const MachineHere here = here_of({.gpus = {gpu, gpu, gpu, gpu}, .ancestor = pairs});
  const Cluster cluster = make_cluster(here.cluster);
  CHECK(here.cluster.devices[3].kind == "T4");
  CHECK(gigabytes(cluster, 0, 3) == doctest::Approx(12.3 / 2));
  const auto shared = [&](std::size_t a, std::size_t b) {  // whether the routes from a and b share a channel
    for (const ChannelId one : cluster.route(DeviceId{a}, DeviceId{3}).channels)
      for (const ChannelId other : cluster.route(DeviceId{b}, DeviceId{2}).channels)
        if (one == other) return true;
    return false;
  };
  CHECK(shared(0, 1));
}

TEST_CASE("a GPU of no kind here is named, with what to write; bandwidths say that nothing was measured") {
  const MachineHere here = here_of({.gpus = {{.name = "NVIDIA Z9000", .memory = 1 << 30}}});
  REQUIRE(here.notes.size() == 2);
  CHECK(here.notes[0].find("'NVIDIA Z9000' is not a known kind of device") != std::string::npos);
  CHECK(here.notes[1].find("nvbandwidth -j") != std::string::npos);
}

TEST_CASE("without NVML, or without GPUs, the machine is its cores, which share the memory") {
  const MachineHere bare = machine_here({}), none = here_of({});
  CHECK(bare.cluster == none.cluster);
  CHECK(bare.cluster.devices.size() == std::min<std::size_t>(usable_cores().size(), 64));
  CHECK(bare.cluster.devices[0].kind == "cpu-core");
  CHECK(bare.cluster.devices[0].memory->count > 0);
}
