#include "trainyard/yard/yard_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <ostream>
#include <streambuf>
#include <utility>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/cluster/sharing.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/fnv.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/io/foreign/stg.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/sweep/study.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/yard/giph.hpp"
#include "trainyard/yard/shapes.hpp"
#include "trainyard/yard/yard_files.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard {
namespace {

const std::vector<std::string> kYardKeys{"tier", "family",  "model",  "seed",     "cluster",
                                         "also", "sharing", "memory", "bandwidth"};

bool is_graph_file(std::string_view word) { return word.ends_with(".json") || word.ends_with(".json.gz"); }
bool is_cluster_file(std::string_view word) { return word.ends_with(".toml"); }

/// A word for file names: "layered-ops40-seed3" for "layered:ops=40,seed=3", "stg-rand0004" for "stg/rand0004.stg",
/// "bert" for "graphs/bert.json".
std::string file_word(std::string_view word) {
  if (is_graph_file(word) || is_cluster_file(word)) {
    word.remove_prefix(word.rfind('/') + 1);
    word = word.substr(0, word.find('.'));
  }
  if (word.ends_with(".stg")) word.remove_suffix(4);
  std::string text;
  for (const char c : word)
    if (c != '=') text += c == ':' || c == ',' || c == '/' ? '-' : c;
  return text;
}

void require_word(const std::string& word, const std::vector<std::string>& known, std::string_view key,
                  const std::string& file) {
  if (std::ranges::find(known, word) == known.end())
    refuse_file(file, "unknown-word", fmt::format("the Yard has no {} '{}'", key, word),
                fmt::format("give one of: {}", fmt::join(known, ", ")));
}

YardInstance instance_of(const StudyRow& row, const std::string& file) {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : row) {
    if (value.size() != 1)
      refuse_file(
          file, "several-values", fmt::format("'{}' takes one value per row, not {}", key, fmt::join(value, " and ")),
          fmt::format("write for example {} = [\"{}\"], without a list in the list", key, fmt::join(value, "\", \"")));
    values[key] = value.front();
  }
  for (const char* key : {"tier", "family", "model", "cluster"})
    if (values[key].empty())
      refuse_file(file, "missing-key", fmt::format("a grid of the Yard has no '{}'", key), "give it a value");
  YardInstance instance{.name = {},
                        .tier = values["tier"],
                        .family = values["family"],
                        .model = values["model"],
                        .cluster = values["cluster"],
                        .also = values["also"],
                        .sharing = values["sharing"]};
  require_word(instance.tier, {"small", "medium", "large"}, "tier", file);
  if (!instance.sharing.empty()) require_word(instance.sharing, {"serial", "fair", "none"}, "sharing", file);
  if (!values["seed"].empty())
    instance.model += (instance.model.find(':') == std::string::npos ? ":seed=" : ",seed=") + values["seed"];
  instance.name = file_word(instance.model) + "." + file_word(instance.cluster);
  if (!instance.also.empty()) instance.name += "+" + instance.also;
  if (!instance.sharing.empty()) instance.name += "." + instance.sharing;
  for (const auto& [key, number] : {std::pair{"memory", &instance.memory}, {"bandwidth", &instance.bandwidth}}) {
    const std::string& text = values[key];
    if (text.empty()) continue;
    std::int64_t percent = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), percent);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || percent < 1 || percent > 1'000'000)
      refuse_file(file, "number", fmt::format("{} '{}' must be a whole number of percent from 1 to 1000000", key, text),
                  fmt::format("write for example {} = 125", key));
    *number = percent;
    instance.name += fmt::format(".{}{}", key, percent);
  }
  return instance;
}

Graph graph_of(const YardInstance& instance, const ClusterSpec& spec) {
  const std::string& model = instance.model;
  if (is_giph(model)) return make_giph_graph(model, spec);
  if (is_graph_file(model)) return read_graph(std::filesystem::path{instance.folder} / model);
  for (const detail::YardFile& file : detail::yard_files())
    if (file.name == model) return parse_stg(file.text, model);
  return is_shape(model) ? make_shape(model) : training_graph(make_network(model));
}

ClusterSpec spec_of_machine(const YardInstance& instance) {
  ClusterSpec spec = is_cluster_file(instance.cluster)
                         ? read_cluster(std::filesystem::path{instance.folder} / instance.cluster)
                     : is_giph(instance.cluster) ? make_giph_network(instance.cluster)
                                                 : preset_cluster(instance.cluster);
  if (!instance.also.empty()) {
    const DeviceKind* kind = find_device_kind(instance.also);
    if (!kind)
      refuse("unknown-kind", fmt::format("there is no device kind '{}'", instance.also),
             "write for example also = \"T4\"");
    for (std::size_t d = 1; d < spec.devices.size(); d += 2) spec.devices[d] = make_device(*kind, spec.devices[d].name);
  }
  if (!instance.sharing.empty())
    share_links(spec, instance.sharing == "serial" ? Sharing::serial
                      : instance.sharing == "fair" ? Sharing::fair
                                                   : Sharing::none);
  if (instance.bandwidth) {
    const double factor = static_cast<double>(*instance.bandwidth) / 100;
    for (Link& link : spec.links) link.bandwidth = link.bandwidth * factor;
    for (Egress& egress : spec.egresses) egress.bandwidth = egress.bandwidth * factor;
    for (MeasuredRoute& route : spec.measured) route.bandwidth = route.bandwidth * factor;
  }
  spec.name = instance.name;
  return spec;
}

/// The graph with the ops' times, by kind of device, or by device name for devices without a kind.
Graph frozen_graph(const Problem& problem, const std::string& name) {
  std::map<std::string, DeviceId> kinds;
  for (const DeviceId d : problem.devices()) {
    const Device& device = problem.cluster().device(d);
    kinds.emplace(device.kind.empty() ? device.name : device.kind, d);
  }
  GraphBuilder builder{name};
  for (const OpId i : problem.ops()) {
    OpSpec op = spec_of(problem.graph(), i);
    for (OutputSpec& output : op.outputs) output.statistics = false;  // instances were frozen without it
    op.times.clear();
    for (const auto& kind : kinds)
      if (problem.can_run(i, kind.second)) op.times.push_back({kind.first, problem.duration(i, kind.second)});
    builder.add(op);
  }
  return std::move(builder).build();
}

/// Peak memory if one device runs everything.
Bytes peak_of_one(const Problem& problem) {
  Schedule schedule;
  schedule.placement = Placement(problem.op_count(), DeviceId{0});
  return Simulation{problem}.peaks(schedule).peak[DeviceId{0}];
}

class HashBuffer : public std::streambuf {
 public:
  Fnv1a hash;

 protected:
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    hash.add({&byte, 1});
    return c;
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    hash.add({text, static_cast<std::size_t>(size)});
    return size;
  }
};

std::string_view embedded(std::string_view name) {
  for (const detail::YardFile& file : detail::yard_files())
    if (file.name == name) return file.text;
  return "";
}

}  // namespace

std::vector<YardInstance> parse_yard(std::string_view text, const std::string& file) {
  const Study study = parse_study(text, file, kYardKeys);
  std::vector<YardInstance> instances;
  std::map<std::string, std::uint64_t> names;
  for (std::uint64_t row = 0; row < study.size(); ++row) {
    instances.push_back(instance_of(study.row(row), file));
    instances.back().folder = std::filesystem::path{file}.parent_path().string();
    if (!names.emplace(instances.back().name, row).second)
      refuse_file(file, "duplicate-name", fmt::format("two instances have the name '{}'", instances.back().name),
                  "remove one of them");
  }
  return instances;
}

const std::vector<YardInstance>& yard() {
  static const std::vector<YardInstance> instances = parse_yard(embedded("yard.toml"), "yard.toml");
  return instances;
}

const YardInstance* find_in_yard(std::string_view name, const std::vector<YardInstance>& set) {
  const auto at = std::ranges::find(set, name, &YardInstance::name);
  return at == set.end() ? nullptr : &*at;
}

Problem yard_problem(const YardInstance& instance) {
  ClusterSpec spec = spec_of_machine(instance);
  const Problem drawn{graph_of(instance, spec), make_cluster(spec), Costs{CostModel::roofline()}};
  Graph graph = frozen_graph(drawn, instance.name);
  if (instance.memory) {
    const std::int64_t one = peak_of_one(drawn).count / static_cast<std::int64_t>(spec.devices.size());
    const Bytes each{one / 100 * *instance.memory};
    for (Device& device : spec.devices) device.memory = each;
  }
  return {std::move(graph), make_cluster(std::move(spec))};
}

std::string yard_hash(const Problem& problem) {
  HashBuffer buffer;
  std::ostream out{&buffer};
  write_graph(problem.graph(), out);
  write_cluster(problem.cluster().spec(), out);
  out.flush();
  return fmt::format("{:016x}", buffer.hash.value());
}

YardRecord yard_record(const YardInstance& instance, const Problem& problem) {
  return {instance.name, instance.tier, problem.op_count(), problem.device_count(), yard_hash(problem)};
}

std::string record_text(const YardRecord& record) {
  return fmt::format("{} {} {} {} {}\n", record.name, record.tier, record.ops, record.devices, record.hash);
}

const std::vector<YardRecord>& yard_records() {
  static const std::vector<YardRecord> records = [] {
    std::vector<YardRecord> read;
    std::string_view text = embedded("hashes");
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end + 1);
      std::string words[5];
      for (std::string& word : words) {
        word = line.substr(0, line.find(' '));
        line.remove_prefix(std::min(line.size(), word.size() + 1));
      }
      read.push_back({words[0], words[1], std::stoul(words[2]), std::stoul(words[3]), words[4]});
    }
    return read;
  }();
  return records;
}

const YardRecord* find_record(std::string_view name) {
  const auto at = std::ranges::find(yard_records(), name, &YardRecord::name);
  return at == yard_records().end() ? nullptr : &*at;
}

}  // namespace trainyard
