#include "profiler/here.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>

#include "profiler/host.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/io/foreign/measured_machine.hpp"

namespace trainyard {
namespace {

using cuda::Nvml;

constexpr std::size_t kMostCores = 64;
constexpr unsigned kMostNvLinks = 36;                      // of one GPU, as NVML numbers them
constexpr int kSwitch = 2;                                 // nvmlIntNvLinkDeviceType_t
constexpr unsigned kPcieSwitches = 20, kOtherSocket = 50;  // nvmlGpuTopologyLevel_t: several switches, no host bridge
constexpr std::array kNvLinkRate{19.4, 24.2, 22.0, 21.6, 43.0}, kPcieRate{3.1, 6.2, 12.3, 26.4, 55.6};  // GB/s

template <std::size_t N>
double rate_of(const std::array<double, N>& rates, unsigned generation) {
  return rates[std::clamp<std::size_t>(generation, 1, N) - 1];
}

/// NVML's answers for each GPU. A query that a GPU does not answer counts as no: PCIe cards have no NVLink.
class GpuSurvey {
 public:
  explicit GpuSurvey(const Nvml& nvml) : nvml_(nvml) {
    if (!nvml.nvmlInit_v2 || !nvml.nvmlDeviceGetCount_v2 || nvml.nvmlInit_v2() != 0) return;
    unsigned count = 0;
    if (nvml.nvmlDeviceGetCount_v2(&count) == 0)
      for (unsigned i = 0; i < count; ++i)
        if (void* device = nullptr; nvml.nvmlDeviceGetHandleByIndex_v2(i, &device) == 0) devices_.push_back(device);
    look();
    nvml.nvmlShutdown();
  }

  std::size_t size() const { return devices_.size(); }
  const MeasuredMachine& machine() const { return machine_; }
  const GpuTopology& topology() const { return topology_; }
  const std::vector<std::optional<Bytes>>& memory() const { return memory_; }

 private:
  void look() {
    machine_.count = size();
    for (void* device : devices_) {
      std::array<char, 96> name{};
      const bool told = nvml_.nvmlDeviceGetName(device, name.data(), static_cast<unsigned>(name.size())) == 0;
      machine_.gpus.emplace_back(told ? name.data() : "");
      cuda::NvmlMemory memory{};
      memory_.push_back(nvml_.nvmlDeviceGetMemoryInfo(device, &memory) == 0
                            ? std::optional{Bytes{static_cast<std::int64_t>(memory.total)}}
                            : std::nullopt);
      cuda::NvmlPci pci{};
      machine_.addresses.emplace_back(nvml_.nvmlDeviceGetPciInfo_v3(device, &pci) == 0 ? pci.busId : "");
    }
    find_ways_to_host();
    find_nvlinks();
  }

  unsigned asked(cuda::Status (*question)(void*, unsigned*), void* device, unsigned otherwise) const {
    unsigned answer = 0;
    return question(device, &answer) == 0 ? answer : otherwise;
  }
  unsigned ancestor(std::size_t a, std::size_t b) const {
    unsigned level = kOtherSocket;
    return nvml_.nvmlDeviceGetTopologyCommonAncestor(devices_[a], devices_[b], &level) == 0 ? level : kOtherSocket;
  }

  void find_ways_to_host() {
    std::vector<bool> seated(size(), false);
    for (std::size_t i = 0; i < size(); ++i) {
      const double lanes = asked(nvml_.nvmlDeviceGetMaxPcieLinkWidth, devices_[i], 16);
      machine_.to_host.push_back(rate_of(kPcieRate, asked(nvml_.nvmlDeviceGetMaxPcieLinkGeneration, devices_[i], 3)) *
                                 lanes / 16);
      std::size_t socket = i;
      for (std::size_t k = 0; k < i && socket == i; ++k)
        if (ancestor(k, i) < kOtherSocket) socket = topology_.package[k];
      topology_.package.push_back(socket);
      if (seated[i]) continue;
      std::vector<std::size_t> below{i};
      for (std::size_t k = i + 1; k < size(); ++k)
        if (!seated[k] && ancestor(i, k) <= kPcieSwitches) below.push_back(k);
      for (const std::size_t gpu : below) seated[gpu] = true;
      if (below.size() > 1) topology_.bridges.push_back(std::move(below));
    }
    machine_.from_host = machine_.to_host;
    machine_.all_to_host = machine_.host_to_all = machine_.to_host;
    for (const auto& below : topology_.bridges)
      for (const std::size_t gpu : below)
        machine_.all_to_host[gpu] = machine_.host_to_all[gpu] =
            machine_.to_host[gpu] / static_cast<double>(below.size());
  }

  void find_nvlinks() {
    machine_.peers.assign(size(), std::vector<std::optional<double>>(size()));
    topology_.nvlinks.assign(size(), std::vector<int>(size(), 0));
    std::vector<int> ports(size(), 0);  // links to switches
    std::vector<double> rates(size(), 0);
    for (std::size_t i = 0; i < size(); ++i)
      for (unsigned link = 0; link < kMostNvLinks; ++link) {
        unsigned active = 0, version = 1;
        int remote = -1;
        if (nvml_.nvmlDeviceGetNvLinkState(devices_[i], link, &active) != 0 || active == 0) continue;
        if (nvml_.nvmlDeviceGetNvLinkVersion(devices_[i], link, &version) == 0)
          rates[i] = rate_of(kNvLinkRate, version);
        if (nvml_.nvmlDeviceGetNvLinkRemoteDeviceType(devices_[i], link, &remote) == 0 && remote == kSwitch) {
          ++ports[i];
          continue;
        }
        cuda::NvmlPci pci{};
        if (nvml_.nvmlDeviceGetNvLinkRemotePciInfo_v2(devices_[i], link, &pci) != 0) continue;
        const auto to = std::ranges::find(machine_.addresses, std::string{pci.busId});
        if (to != machine_.addresses.end())
          ++topology_.nvlinks[i][static_cast<std::size_t>(to - machine_.addresses.begin())];
      }
    for (std::size_t i = 0; i < size(); ++i)
      for (std::size_t k = 0; k < size(); ++k) {
        int& links = topology_.nvlinks[i][k];
        if (i != k) links += std::min(ports[i], ports[k]);
        if (links > 0) machine_.peers[i][k] = links * rates[i];
      }
  }

  const Nvml& nvml_;
  std::vector<void*> devices_;
  MeasuredMachine machine_;
  GpuTopology topology_;
  std::vector<std::optional<Bytes>> memory_;
};

MachineHere cores_here() {
  const std::size_t cores = std::min(usable_cores().size(), kMostCores);
  MachineHere here{preset_cluster(fmt::format("{}xcpu-core", cores)), {}};
  const std::int64_t memory = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (Device& device : here.cluster.devices)
    if (memory > 0) device.memory = Bytes{memory / static_cast<std::int64_t>(cores)};
  here.notes.emplace_back(
      "cores have the default peaks of the kind cpu-core: measure them with `trainyard profile MODEL --cluster FILE` "
      "and `trainyard calibrate`");
  return here;
}

}  // namespace

MachineHere machine_here(const Nvml& nvml) {
  const GpuSurvey survey{nvml};
  MachineHere here;
  if (survey.size() == 0) {
    here = cores_here();
  } else {
    BandwidthReport report = machine_cluster(survey.machine(), "", &survey.topology());
    here = {std::move(report.cluster), {}};
    here.cluster.measured.clear();  // nothing was measured
    for (std::size_t i = 0; i < survey.size(); ++i)
      if (survey.memory()[i]) here.cluster.devices[i].memory = survey.memory()[i];
    for (const std::string& gpu : std::set<std::string>(survey.machine().gpus.begin(), survey.machine().gpus.end()))
      if (!kind_of_gpu(gpu))
        here.notes.push_back(
            fmt::format("'{}' is not a known kind of device: write kind = \"...\" in the file (`trainyard clusters` "
                        "lists the kinds), or memory, peak and memory_bandwidth",
                        gpu));
    here.notes.emplace_back(
        "bandwidths are those of similar servers, with the same number and generation of links: measure them with "
        "`nvbandwidth -j` and `trainyard import`");
  }
  here.cluster.name = "here";
  return here;
}

}  // namespace trainyard
