#include "trainyard/io/frameworks/device_map.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ostream>
#include <unordered_map>
#include <utility>
#include <variant>

#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_object.hpp"
#include "trainyard/io/json/json_write.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::size_t kNamed = 5;  // most names in a message

/// "a, b, c and 12 more".
std::string some_of(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kNamed);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return names.size() > shown ? text + fmt::format(" and {} more", names.size() - shown) : text;
}

std::string module_of(std::string_view layer) {
  std::string path{layer};
  std::ranges::replace(path, '/', '.');
  return path;
}

/// The enclosing module: "layers" for "layers.4", "" for "layers"; nothing for "".
std::optional<std::string_view> enclosing(std::string_view module) {
  if (module.empty()) return std::nullopt;
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : module.substr(0, dot);
}

/// The number in "3" or "cuda:3"; 0 for "cuda".
std::optional<std::size_t> gpu_number(std::string_view word) {
  if (word == "cuda") return 0;
  if (word.starts_with("cuda:")) word.remove_prefix(5);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return number;
}

bool is_device_word(std::string_view word) { return gpu_number(word) || word == "cpu" || word == "disk"; }

std::vector<DeviceId> devices_of_class(const Problem& problem, std::string_view device_class) {
  std::vector<DeviceId> devices;
  for (const DeviceId device : problem.devices())
    if (problem.cluster().device(device).device_class == device_class) devices.push_back(device);
  return devices;
}

/// The cluster's GPUs, or all devices if it has none, in the order of their numbers.
std::vector<DeviceId> numbered_devices(const Problem& problem) {
  std::vector<DeviceId> devices = devices_of_class(problem, "gpu");
  if (devices.empty())
    for (const DeviceId device : problem.devices()) devices.push_back(device);
  return devices;
}

DeviceId device_of(const DeviceMap::Entry& entry, const Problem& problem) {
  const bool on_host = entry.device == "cpu";
  const std::vector<DeviceId> devices = on_host ? devices_of_class(problem, "cpu") : numbered_devices(problem);
  const std::size_t number = on_host ? 0 : gpu_number(entry.device).value_or(devices.size());
  if (number < devices.size()) return devices[number];
  refuse("map-device",
         fmt::format("module '{}' is on device {}, but cluster '{}' has {}", entry.module, entry.device,
                     problem.cluster().name(), on_host ? "no CPU" : fmt::format("only {}", devices.size())),
         on_host ? "give a cluster with a CPU (a file with class = \"cpu\"), or another map"
                 : "give a larger cluster, or another map: devices are counted from 0",
         "/" + pointer_token(entry.module));
}

/// Name of a device in a map: its number, or "cpu".
std::string word_of(DeviceId device, const Problem& problem) {
  const std::vector<DeviceId> devices = numbered_devices(problem);
  const auto at = std::ranges::find(devices, device);
  return at == devices.end() ? "cpu" : std::to_string(at - devices.begin());
}

/// For each layer, the device that runs most of its op time; the first one in a tie.
LayerDevices main_devices(const Problem& problem, const Layers& layers, const Placement& placement) {
  LayerDevices devices(layers.size());
  std::vector<Nanoseconds> times(problem.device_count());
  for (const LayerId layer : layers.ops.ids()) {
    if (layers.ops[layer].empty()) continue;
    std::ranges::fill(times, Nanoseconds{-1});
    for (const OpId op : layers.ops[layer]) {
      Nanoseconds& time = times[placement[op].index()];
      time = std::max(time, Nanoseconds{0}) + problem.duration(op, placement[op]);
    }
    devices[layer] = DeviceId{static_cast<std::size_t>(std::ranges::max_element(times) - times.begin())};
  }
  return devices;
}

bool holds_parameters(const Graph& graph, const std::vector<OpId>& ops) {
  return std::ranges::any_of(ops, [&](OpId op) { return graph.parameter_bytes(op) > Bytes{0}; });
}

/// A map with the shortest keys that cover all modules.
DeviceMap shortest_map(const Problem& problem, const std::vector<std::string>& modules, const LayerDevices& devices) {
  constexpr std::size_t kMixed = static_cast<std::size_t>(-1);
  // For each prefix: the device of all modules below it, or kMixed.
  std::unordered_map<std::string_view, std::size_t> below;
  const auto device = [&](std::size_t i) { return devices[LayerId{i}].index(); };
  for (std::size_t i = 0; i < modules.size(); ++i)
    for (std::optional<std::string_view> at = modules[i]; at; at = enclosing(*at))
      if (const auto [known, added] = below.try_emplace(*at, device(i)); !added && known->second != device(i))
        known->second = kMixed;
  DeviceMap map;
  std::unordered_map<std::string_view, bool> said;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    std::string_view key = modules[i];
    for (std::optional<std::string_view> at = key; at && below[*at] != kMixed; at = enclosing(*at)) key = *at;
    if (said.try_emplace(key, true).second)
      map.entries.push_back({std::string{key}, word_of(devices[LayerId{i}], problem)});
  }
  return map;
}

/// Adds descriptions of the parts of a rewrite that a map cannot express, and refuses rewrites that make a map
/// impossible.
void add_lost(const Rewrite& rewrite, std::vector<std::string>& lost) {
  if (const auto* replicate = std::get_if<Replicate>(&rewrite))
    refuse("device-map",
           fmt::format("the schedule has {} replicas of the network, but a device map describes only one",
                       replicate->replicas),
           "export a plan instead: place --placer plan --plan-out plan.json, then export --plan");
  if (const auto* parallel = std::get_if<TensorParallel>(&rewrite))
    refuse("device-map",
           fmt::format("the schedule divides each layer among {} ranks, but a device map has one device for each",
                       parallel->ranks),
           "export a plan instead: export --to megatron");
  if (std::holds_alternative<StageMeshes>(rewrite))
    refuse("device-map",
           "the schedule's stages are on several devices each, but a device map has one device for each layer",
           "save a plan instead: place --plan-out plan.json");
  if (const auto* batch = std::get_if<Microbatch>(&rewrite))
    lost.push_back(fmt::format("microbatches: a device map runs the batch at once, not in {} parts", batch->parts));
  if (const auto* split = std::get_if<SplitOp>(&rewrite))
    lost.push_back(fmt::format("the {} parts of op '{}'", split->parts, split->op));
}

}  // namespace

bool is_device_map(std::string_view begin) {
  std::size_t at = begin.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  const auto skip_blanks = [&] {
    while (at < begin.size() && blank(begin[at])) ++at;
  };
  const auto take = [&](char c) {
    skip_blanks();
    return at < begin.size() && begin[at] == c ? ++at : 0;
  };
  if (!take('{') || !take('"')) return false;
  while (at < begin.size() && begin[at] != '"') at += begin[at] == '\\' ? 2U : 1U;
  if (!take('"') || !take(':')) return false;
  skip_blanks();
  const std::string_view value = begin.substr(std::min(at, begin.size()));
  if (value.empty()) return false;
  if (value.front() != '"') return value.front() >= '0' && value.front() <= '9';
  const std::size_t end = value.find('"', 1);
  return end != std::string_view::npos && is_device_word(value.substr(1, end - 1));
}

DeviceMap parse_device_map(std::string_view text, const std::string& name) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  DeviceMap map;
  if (root)
    for (const JsonValue member : root->children()) {
      const bool is_word = member.kind() == JsonKind::string || member.kind() == JsonKind::number;
      const std::string_view word = is_word ? member.text() : std::string_view{};
      const auto number = gpu_number(word);
      if (!number && word != "cpu") {
        findings.add(member.begin_offset(), "map-device",
                     is_word ? fmt::format("module '{}' is on '{}', which is not a device", member.key(), word)
                             : fmt::format("module '{}' has {} as its device", member.key(), name_of(member.kind())),
                     "give the number of a GPU from 0, \"cuda:1\" or \"cpu\"");
        continue;
      }
      map.entries.push_back({std::string{member.key()}, number ? std::to_string(*number) : "cpu"});
    }
  if (root && map.entries.empty() && findings.empty())
    findings.add(root->begin_offset(), "map-empty", "the device map names no module",
                 "{\"\": 0} puts all of them on GPU 0");
  findings.raise_if_any();
  return map;
}

void write_device_map(const DeviceMap& map, std::ostream& out) {
  std::string text = "{";
  for (const DeviceMap::Entry& entry : map.entries) {
    text += &entry == map.entries.data() ? "\n " : ",\n ";
    append_json(text, entry.module);
    text += entry.device == "cpu" ? ": \"cpu\"" : ": " + entry.device;
    pass_on(text, out);
  }
  out << text << "\n}\n";
}

Schedule schedule_of(const DeviceMap& map, const Problem& problem) {
  std::unordered_map<std::string_view, std::pair<DeviceId, bool>> entries;  // with whether the key covers a layer
  for (const DeviceMap::Entry& entry : map.entries) entries[entry.module] = {device_of(entry, problem), false};
  const Layers layers = find_layers(problem.graph());
  LayerDevices devices(layers.size());
  std::vector<std::string> uncovered, idle;
  std::optional<DeviceId> last;  // device of the last covered layer
  std::size_t covered = 0;
  for (const LayerId layer : layers.ops.ids()) {
    const std::string module = module_of(layers.names[layer.index()]);
    auto found = entries.end();
    for (std::optional<std::string_view> at = module; at && found == entries.end(); at = enclosing(*at))
      found = entries.find(*at);
    if (found != entries.end()) {
      found->second.second = true;
      ++covered;
      if (!last) std::fill_n(devices.begin(), layer.index(), found->second.first);
      last = found->second.first;
    } else if (holds_parameters(problem.graph(), layers.ops[layer])) {
      uncovered.push_back(module);
    }
    devices[layer] = last.value_or(DeviceId{0});
  }
  for (const DeviceMap::Entry& entry : map.entries)
    if (!entries[entry.module].second) idle.push_back(entry.module);
  if (!last && uncovered.empty() && layers.size() > 0) uncovered.push_back(module_of(layers.names.front()));
  if (!uncovered.empty())
    refuse("uncovered",
           fmt::format("the device map covers {} of {} layers of '{}', but not {}", covered, layers.size(),
                       problem.graph().name(), some_of(uncovered)),
           "give every module with parameters a device; the key \"\" covers all modules that no other key does");
  Schedule schedule{.placement = place_layers(problem, layers, devices, MemoryLedger{problem}).placement,
                    .placer = "device-map"};
  if (!idle.empty())
    schedule.notes.push_back(
        fmt::format("the device map names modules that '{}' does not have: {}", problem.graph().name(), some_of(idle)));
  return schedule;
}

SaidDeviceMap device_map_of(const Problem& problem, const Schedule& schedule) {
  SaidDeviceMap said;
  for (const Rewrite& rewrite : schedule.rewrites) add_lost(rewrite, said.lost);
  if (std::ranges::any_of(schedule.rewrites, [](const Rewrite& r) { return std::holds_alternative<Recompute>(r); }))
    said.lost.emplace_back("recomputation");
  if (std::ranges::any_of(schedule.rewrites, [](const Rewrite& r) { return std::holds_alternative<Offload>(r); }))
    said.lost.emplace_back("tensors kept in the host's memory");
  if (std::ranges::any_of(schedule.rewrites, [](const Rewrite& r) { return std::holds_alternative<TiedCopies>(r); }))
    said.lost.emplace_back("copies of tied parameters");
  const Layers layers = find_layers(problem.graph());
  if (std::ranges::all_of(problem.ops(), [&](OpId op) { return problem.graph().layer(op).empty(); }))
    said.lost.emplace_back("modules: the graph names no layers, so the keys are its ops");
  const LayerDevices devices = main_devices(problem, layers, schedule.placement);
  std::vector<std::string> modules, divided;
  std::size_t elsewhere = 0;
  for (const LayerId layer : layers.ops.ids()) {
    modules.push_back(module_of(layers.names[layer.index()]));
    const auto away = static_cast<std::size_t>(
        std::ranges::count_if(layers.ops[layer], [&](OpId op) { return schedule.placement[op] != devices[layer]; }));
    elsewhere += away;
    if (away > 0) divided.push_back(modules.back());
  }
  said.map = shortest_map(problem, modules, devices);
  if (elsewhere > 0)
    said.lost.push_back(fmt::format("the devices of {} of {} ops, which are not on the main device of their module: {}",
                                    elsewhere, problem.op_count(), some_of(divided)));
  if (schedule.policy != Policy::fifo || schedule.rule)
    said.lost.emplace_back("the order of the ops on a device: the program determines it");
  const std::vector<DeviceId> numbered = numbered_devices(problem);
  const std::vector<DeviceId> hosts = devices_of_class(problem, "cpu");
  for (const DeviceId device : devices)
    if (std::ranges::find(numbered, device) == numbered.end() && (hosts.empty() || device != hosts.front())) {
      const Device& other = problem.cluster().device(device);
      said.lost.push_back(
          other.device_class == "cpu"
              ? "which CPU: a device map has only one"
              : fmt::format("device '{}', which is not a GPU: a device map calls it \"cpu\"", other.name));
      break;
    }
  return said;
}

Schedule read_schedule_or_map(const std::filesystem::path& path, const Problem& problem) {
  return parse_schedule_or_map(read_input(path), input_name(path), problem);
}

Schedule parse_schedule_or_map(std::string_view text, const std::string& name, const Problem& problem) {
  if (!is_device_map(text)) return parse_schedule(text, name, problem);
  const DeviceMap map = parse_device_map(text, name);
  try {
    return schedule_of(map, problem);
  } catch (const InputError& error) {
    FindingList findings{name, text};
    findings.add(error.findings());
    findings.raise_if_any();
    throw;
  }
}

}  // namespace trainyard
