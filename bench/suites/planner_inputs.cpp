#include "planner_inputs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/io/input_text.hpp"

namespace trainyard::bench {
namespace {

using nlohmann::json;
using Edges = std::vector<std::pair<std::size_t, std::size_t>>;

constexpr std::size_t kHostDevices = 8;
constexpr BytesPerSecond kNvlink{130e9}, kNetwork{25e9 / 8};

/// The lexicographically first topological order: of the ready nodes, the lowest comes first.
std::vector<std::size_t> chain_order(std::size_t nodes, const Edges& edges) {
  std::vector<std::size_t> waits(nodes, 0), order;
  for (const auto& edge : edges) ++waits[edge.second];
  std::vector<bool> done(nodes, false);
  while (order.size() < nodes) {
    std::size_t next = 0;
    while (next < nodes && (done[next] || waits[next] > 0)) ++next;
    if (next == nodes)
      throw InputError({.code = "cycle",
                        .message = "the layers read one another in a circle",
                        .help = "give a graph without cycles"});
    done[next] = true;
    order.push_back(next);
    for (const auto& edge : edges)
      if (edge.first == next) --waits[edge.second];
  }
  return order;
}

/// Bytes that cross the cut before each layer of the order, and after the last layer. Each tensor counts once per cut.
std::vector<Bytes> crossings(const std::vector<std::size_t>& order, const Edges& edges,
                             const std::vector<Bytes>& tensors) {
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<std::size_t> last = place;  // position of the last reader of each node
  for (const auto& [from, to] : edges) last[from] = std::max(last[from], place[to]);
  std::vector<Bytes> bytes(order.size() + 1);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t cut = place[i] + 1; cut <= last[i]; ++cut) bytes[cut] += tensors[i];
  return bytes;
}

Bytes share(Bytes bytes, std::size_t part, std::size_t whole) {
  return Bytes{bytes.count * static_cast<std::int64_t>(part) / static_cast<std::int64_t>(whole)};
}
Nanoseconds share(Nanoseconds time, std::size_t part, std::size_t whole) {
  return Nanoseconds{time.count * static_cast<std::int64_t>(part) / static_cast<std::int64_t>(whole)};
}

/// Bytes that each of n devices sends in a ring all-reduce.
Bytes ring_bytes(Bytes bytes, std::size_t n) { return share(2 * bytes, n - 1, n); }

/// Host of a replica. Stages follow one another on the devices, each with its replicas side by side.
std::size_t host_of(const ParallelPlan& plan, std::size_t stage, std::size_t replica) {
  return (plan.first_device(stage) + replica) / kHostDevices;
}

}  // namespace

PlanCosts dapple_costs(const LayerProfile& profile, std::size_t profiled, std::size_t batch) {
  std::vector<Bytes> tensors;
  for (const ProfiledLayer& layer : profile.layers) tensors.push_back(layer.activations);
  const std::vector<std::size_t> order = chain_order(profile.layers.size(), profile.edges);
  const std::vector<Bytes> bytes = crossings(order, profile.edges, tensors);
  PlanCosts costs{
      .layers = order.size(), .batch = batch, .devices = 2 * kHostDevices, .memory = Bytes{std::int64_t{16} << 30}};
  costs.layer = [=, layers = profile.layers](std::size_t i, std::size_t samples, LayerDegree) {
    const ProfiledLayer& layer = layers[order[i]];
    return LayerCost{.forward = share(layer.forward, samples, profiled),
                     .input_gradient = share(layer.backward, samples, profiled),
                     .weight_gradient = Nanoseconds{0},
                     .input = share(bytes[i], samples, profiled),
                     .output = share(bytes[i + 1], samples, profiled),
                     .saved = share(layer.activations, samples, profiled),
                     .weights = layer.parameters,
                     .state = 2 * layer.parameters};
  };
  costs.transfer = [](const ParallelPlan& plan, std::size_t from, std::size_t to, Bytes sent) {
    const std::size_t have = plan.degrees_of(from).data, take = plan.degrees_of(to).data, pairs = std::max(have, take);
    std::size_t between = 0;
    for (std::size_t pair = 0; pair < pairs; ++pair)
      between += host_of(plan, from, pair * have / pairs) != host_of(plan, to, pair * take / pairs);
    return between > 0 ? time_for(share(sent, between * std::min(have, take), pairs), kNetwork)
                       : time_for(sent, kNvlink);
  };
  costs.all_reduce = [](const ParallelPlan& plan, std::size_t device, Bytes weights) {
    const std::size_t replicas = plan.degrees_of(device).data,
                      hosts = host_of(plan, device, replicas - 1) - host_of(plan, device, 0) + 1;
    return time_for(ring_bytes(weights, (replicas + hosts - 1) / hosts), kNvlink) +
           time_for(ring_bytes(weights, hosts), kNetwork);
  };
  costs.update = [](Bytes, std::size_t, std::size_t) { return Nanoseconds{0}; };
  return costs;
}

std::size_t place_of(const LayerProfile& profile, const std::string& layer) {
  const std::vector<std::size_t> order = chain_order(profile.layers.size(), profile.edges);
  const auto at = std::ranges::find_if(
      order, [&](std::size_t i) { return profile.layers[i].name == layer || profile.layers[i].type == layer; });
  if (at == order.end())
    throw InputError({.code = "no-layer",
                      .message = "profile '" + profile.name + "' has no layer '" + layer + "'",
                      .help = "give DAPPLE's own profile"});
  return static_cast<std::size_t>(at - order.begin());
}

PiperInput read_piper_input(const std::filesystem::path& path) {
  struct Node {
    Nanoseconds time, again;
    Bytes held, weights;
  };
  try {
    const json file = json::parse(read_input(path));
    const auto bytes_of = [](const json& number) { return Bytes{std::llround(number.get<double>())}; };
    std::vector<std::size_t> ids;
    std::vector<std::vector<Node>> nodes;  // by node and tensor degree
    PiperInput input{.costs = {.batch = file.at("mbsInBatch"), .devices = file.at("maxDevices")}, .least = {}};
    PlanCosts& costs = input.costs;
    costs.memory = bytes_of(file.at("maxMemoryPerDevice"));
    costs.layer_degrees.clear();
    for (const auto& each : file.at("nodes").front().at("TMPCs").items())
      costs.layer_degrees.push_back({std::stoul(each.key())});
    for (const json& each : file.at("nodes")) {
      ids.push_back(each.at("id"));
      std::vector<Node>& degrees = nodes.emplace_back();
      Nanoseconds least = kLongestTime;
      for (const LayerDegree& degree : costs.layer_degrees) {
        const json& ways = each.at("TMPCs").at(std::to_string(degree.ranks));
        const auto time = [&](std::size_t way) {
          return nanoseconds_from_seconds(ways.at(way).at("timePerSample").get<double>());
        };
        degrees.push_back({time(0), time(1) - time(0), bytes_of(ways.at(0).at("memoryUsageA")),
                           bytes_of(ways.at(0).at("parameterSize"))});
        least = std::min(least, static_cast<std::int64_t>(degree.ranks) * time(0));
      }
      input.least += least;
    }
    const auto index = [&](const json& id) {
      return static_cast<std::size_t>(std::ranges::find(ids, id.get<std::size_t>()) - ids.begin());
    };
    Edges edges;
    std::vector<Bytes> tensors(nodes.size());
    for (const json& edge : file.at("edges")) {
      edges.emplace_back(index(edge.at("sourceId")), index(edge.at("destId")));
      Bytes& tensor = tensors.at(edges.back().first);
      tensor = std::max(tensor, bytes_of(edge.at("communicationCost")));
    }
    costs.layers = nodes.size();
    const std::vector<std::size_t> order = chain_order(nodes.size(), edges);
    costs.layer = [=, bytes = crossings(order, edges, tensors), degrees = costs.layer_degrees](
                      std::size_t i, std::size_t samples, LayerDegree tensor) {
      const Node& node =
          nodes[order[i]][static_cast<std::size_t>(std::ranges::find(degrees, tensor) - degrees.begin())];
      const auto times = static_cast<std::int64_t>(samples);
      return LayerCost{.forward = times * node.again,
                       .input_gradient = times * (node.time - node.again),
                       .weight_gradient = Nanoseconds{0},
                       .input = times * bytes[i],
                       .output = times * bytes[i + 1],
                       .saved = times * node.held,
                       .weights = node.weights,
                       .state = Bytes{0}};
    };
    const BytesPerSecond bandwidth{file.at("bandwidth").get<double>()};
    costs.transfer = [=](const ParallelPlan&, std::size_t, std::size_t, Bytes sent) {
      return time_for(sent, bandwidth);
    };
    costs.all_reduce = [=](const ParallelPlan& plan, std::size_t device, Bytes weights) {
      return time_for(ring_bytes(weights, plan.degrees_of(device).data), bandwidth);
    };
    costs.update = [](Bytes, std::size_t, std::size_t) { return Nanoseconds{0}; };
    return input;
  } catch (const json::exception& error) {
    throw InputError({"bad-piper-input",
                      std::string{"no input of Piper's: "} + error.what(),
                      "give one of its files",
                      path.string(),
                      {}});
  }
}

namespace {

constexpr double kMebi = 1 << 20;
/// Time of a layer for a number of samples that was not profiled.
constexpr Nanoseconds kNever{10'000'000'000'000};

/// Rows of comma-separated text after its first line, in order: the first field, then numbers.
using Rows = std::vector<std::pair<std::string, std::vector<double>>>;
Rows rows_of(const std::map<std::string, std::string>& files, const std::string& name) {
  const auto file = files.find("profiler/" + name);
  if (file == files.end())
    throw InputError({.code = "no-profile", .message = "the archive has no '" + name + "'", .help = "give Aceso's"});
  Rows rows;
  std::istringstream lines{file->second};
  std::string line, field;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields{line};
    std::getline(fields, field, ',');
    rows.push_back({field, {}});
    while (std::getline(fields, field, ',')) rows.back().second.push_back(std::stod(field));
  }
  return rows;
}

const std::vector<double>& row_of(const Rows& rows, const std::string& name) {
  const auto row = std::ranges::find(rows, name, &Rows::value_type::first);
  if (row == rows.end()) throw std::out_of_range("no row '" + name + "'");
  return row->second;
}

Bytes mebibytes(double value) { return Bytes{std::llround(value * kMebi)}; }

/// Columns of an op's row.
enum : std::size_t {
  kForward,
  kBackward,
  kInput,
  kOutput,
  kWeights,
  kActivations,
  kForwardReserved,
  kBackwardReserved
};

/// Whether a layer of the chain begins with this op. Layers are the two halves of a transformer layer, in a decoder
/// also the third part that attends to the encoder; the blocks of a ResNet; and the ops before and after these.
bool begins_layer(const std::string& op) {
  static const std::set<std::string> kFirst{"encoder-embedding",   "decoder-embedding",
                                            "final-layernorm",     "enc-1st-layernorm",
                                            "enc-2nd-layernorm",   "enc-final-layernorm",
                                            "dec-1st-layernorm",   "dec-2nd-layernorm",
                                            "dec-3rd-layernorm",   "conv1",
                                            "dec-final-layernorm", "avgpool"};
  return kFirst.contains(op) || (op.starts_with("block-") && op.ends_with("-conv1"));
}

/// Whether the layer is part of a transformer layer, which is profiled once and repeated.
bool is_repeated(const std::string& first_op) {
  return first_op.ends_with("-1st-layernorm") || first_op.ends_with("-2nd-layernorm") ||
         first_op.ends_with("-3rd-layernorm");
}

bool is_of_scores(const std::string& op) {
  constexpr std::array kParts{"c-attention-score", "c-attention-softmax", "c-attention-dropout"};
  return std::ranges::any_of(kParts, [&](const char* part) { return op.find(part) != std::string::npos; });
}

/// Profiled layers with the names of their first ops. `reserved` is the largest reserve of an op, summed over the
/// passes, in MB.
struct AcesoChain {
  std::vector<std::pair<std::string, LayerCost>> layers;
  double reserved = 0;
};

std::string name_of_ops(const AcesoNetwork& network, std::size_t samples, std::size_t ranks, int split) {
  return network.folder + "/" + network.family + "_" + network.size + "_mbs" + std::to_string(samples) + "_tp" +
         std::to_string(ranks) + "_algo" + std::to_string(split) + ".csv";
}

AcesoChain profiled_chain(const std::map<std::string, std::string>& profile, const AcesoNetwork& network,
                          std::size_t samples, std::size_t ranks) {
  const auto ops = [&](int split) { return rows_of(profile, name_of_ops(network, samples, ranks, split)); };
  const Rows columns = ops(0), by_rows = network.family == "gpt" ? ops(1) : columns;
  const bool is_float32 = network.family == "resnet";
  AcesoChain chain;
  double forward = 0, backward = 0;
  for (const auto& [name, by_columns] : columns) {
    const bool is_second = name == "enc-attention-dense" || name == "enc-MLP-GEMM-2";
    const auto& op = is_second ? row_of(by_rows, name) : by_columns;
    if (chain.layers.empty() || begins_layer(name)) {
      chain.layers.push_back({name, {}});
      chain.layers.back().second.input = mebibytes(op.at(kInput));
    }
    LayerCost& layer = chain.layers.back().second;
    layer.forward += nanoseconds_from_seconds(op.at(kForward) / 1e6);
    layer.input_gradient += nanoseconds_from_seconds(op.at(kBackward) / 1e6);
    layer.saved += mebibytes(op.at(kActivations));
    layer.weights += mebibytes(op.at(kWeights));
    layer.state += mebibytes((is_float32 ? 2 : 6) * op.at(kWeights));
    layer.output = mebibytes(op.at(kOutput));
    forward = std::max(forward, op.at(kForwardReserved));
    backward = std::max(backward, op.at(kBackwardReserved));
    if (!is_of_scores(name)) continue;
    layer.scores += mebibytes(op.at(kActivations));
    layer.scores_forward += nanoseconds_from_seconds(op.at(kForward) / 1e6);
  }
  chain.reserved = forward + backward;
  if (ranks == 1) return chain;
  const Rows sums = rows_of(profile, network.folder + "/prim_" + network.family + "_" + network.size + "_all_reduce_" +
                                         std::to_string(ranks) + "gpus.csv");
  for (auto& [name, layer] : chain.layers) {
    const bool is_head = name == "final-layernorm";
    const Bytes sent = is_head ? layer.input : layer.output;
    const Nanoseconds sum = nanoseconds_from_seconds(
        row_of(sums, std::to_string(std::llround(static_cast<double>(sent.count) / kMebi))).front() / 1e3);
    if (!is_head) layer.forward += sum;
    if (name != "encoder-embedding") layer.input_gradient += sum;
  }
  return chain;
}

/// For each layer of the network, the index of its layer in the profile.
std::vector<std::size_t> places_in(const AcesoChain& chain, std::size_t repeats) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0, end = 0; i < chain.layers.size(); i = end) {
    for (end = i + 1; end < chain.layers.size() && is_repeated(chain.layers[i].first) &&
                      is_repeated(chain.layers[end].first) && !chain.layers[end].first.ends_with("-1st-layernorm");)
      ++end;
    for (std::size_t round = 0; round < (is_repeated(chain.layers[i].first) ? repeats : 1); ++round)
      for (std::size_t k = i; k < end; ++k) places.push_back(k);
  }
  return places;
}

PlanCosts checked_aceso_costs(const std::map<std::string, std::string>& profile, const AcesoNetwork& network,
                              std::size_t microbatch) {
  PlanCosts costs{.batch = network.batch, .devices = network.devices};
  costs.layer_degrees.clear();
  const std::size_t most = network.family == "gpt" ? std::min(network.devices, kHostDevices) : 1;
  for (std::size_t ranks = 1; ranks <= most; ranks *= 2) costs.layer_degrees.push_back({ranks});
  std::map<std::pair<std::size_t, std::size_t>, AcesoChain> chains;  // by samples and ranks
  double reserved = 0;
  const auto is_profiled = [&](std::size_t samples) {
    return profile.contains("profiler/" + name_of_ops(network, samples, 1, 0));
  };
  for (std::size_t samples = microbatch; samples == microbatch || is_profiled(samples); samples /= 2)
    for (const LayerDegree& degree : costs.layer_degrees) {
      AcesoChain& chain = chains[{samples, degree.ranks}] = profiled_chain(profile, network, samples, degree.ranks);
      reserved = std::max(reserved, chain.reserved);
    }
  const std::vector<std::size_t> place = places_in(chains.begin()->second, network.repeats);
  costs.layers = place.size();
  costs.memory = mebibytes(28'000 - reserved);
  costs.layer = [=](std::size_t i, std::size_t samples, LayerDegree tensor) {
    const auto at = chains.find({samples, tensor.ranks});
    LayerCost layer = (at == chains.end() ? chains.begin() : at)->second.layers[place[i]].second;
    if (at == chains.end()) layer.forward = kNever;
    return layer;
  };
  // Bandwidths in GB/s at 1, 2, 4, ... MB. Aceso uses the entry before that of the size.
  const auto speeds_of = [&](const char* name) {
    const Rows rows = rows_of(profile, network.folder + "/" + name);
    std::vector<double> speeds = rows.at(0).second;
    speeds.insert(speeds.begin(), std::stod(rows.at(0).first));
    return speeds;
  };
  const bool has_hosts = profile.contains("profiler/" + network.folder + "/p2p_inter_node.csv");
  const auto within = speeds_of("p2p_intra_node.csv"), between = has_hosts ? speeds_of("p2p_inter_node.csv") : within;
  costs.transfer = [=](const ParallelPlan& plan, std::size_t from, std::size_t to, Bytes bytes) {
    const bool one_host = plan.first_device(from) / kHostDevices == plan.first_device(to) / kHostDevices;
    const auto& speeds = one_host ? within : between;
    const double megabytes = std::max(1.0, static_cast<double>(bytes.count) / kMebi);
    const auto at = static_cast<std::size_t>(std::max(0.0, std::floor(std::log2(megabytes)) - 1));
    return nanoseconds_from_seconds(megabytes / speeds[std::min(at, speeds.size() - 1)] / 1e3);
  };
  costs.all_reduce = [](const ParallelPlan&, std::size_t, Bytes) { return Nanoseconds{0}; };
  costs.update = [](Bytes, std::size_t, std::size_t) { return Nanoseconds{0}; };
  return costs;
}

}  // namespace

PlanCosts aceso_costs(const std::map<std::string, std::string>& profile, const AcesoNetwork& network,
                      std::size_t microbatch) {
  try {
    return checked_aceso_costs(profile, network, microbatch);
  } catch (const std::logic_error& error) {  // a malformed number, or a missing op, column or all-reduce size
    throw InputError(
        {.code = "bad-profile",
         .message = "no profile of Aceso's for '" + network.family + "_" + network.size + "': " + error.what(),
         .help = "give its archive, profiled.tar.gz"});
  }
}

namespace {

constexpr std::size_t kSailorNode = 4;

/// The archive member whose name ends with `end`, as JSON.
json member(const std::map<std::string, std::string>& artifact, const std::string& end) {
  const auto at = std::ranges::find_if(artifact, [&](const auto& each) { return each.first.ends_with(end); });
  if (at == artifact.end())
    throw InputError({.code = "no-profile", .message = "the archive has no '" + end + "'", .help = "give Sailor's"});
  return json::parse(at->second);
}

PlanCosts checked_sailor_costs(const std::map<std::string, std::string>& artifact, std::size_t devices,
                               std::size_t batch) {
  const json profile = member(artifact, "sailor_planner/profiles/OPT-350/GH-96/profile.json");
  const json network = member(artifact, "network_coeffs_all_homo.json");
  const auto bandwidth = [&](const char* where, std::size_t gpus) {
    return BytesPerSecond{network.at(where).at("GH-96").at(std::to_string(gpus)).at(1).get<double>()};
  };
  const std::size_t layers = profile.at("1").at("1").size();
  PlanCosts costs{.layers = layers, .batch = batch, .devices = devices};
  costs.memory =
      Bytes{member(artifact, "configs/basic_cluster_config.json").at("GH-96").at("mem_per_gpu").get<std::int64_t>()};
  costs.layer_degrees = {{1}, {2}, {4}};
  std::map<std::pair<std::size_t, std::size_t>, std::vector<LayerCost>> profiled;  // by samples and ranks
  for (const auto& [samples, by_ranks] : profile.items())
    for (const auto& [ranks, times] : by_ranks.items()) {
      const json metis = member(artifact, "Metis/profiles/OPT-350/GH-96/mbs" + samples + "_tmp" + ranks + ".json");
      const json& sizes = metis.at("model").at("parameters");
      std::vector<LayerCost>& chain = profiled[{std::stoul(samples), std::stoul(ranks)}];
      for (std::size_t i = 0; i < layers; ++i) {
        const json& time = times.at(std::to_string(i));
        LayerCost& layer = chain.emplace_back();
        layer.forward = nanoseconds_from_seconds(time.at(0).get<double>());
        layer.input_gradient = nanoseconds_from_seconds(time.at(1).get<double>());
        layer.weights = Bytes{sizes.at("parameters_per_layer_bytes").at(i).get<std::int64_t>()};
        layer.state = 2 * layer.weights;
        const Bytes total = mebibytes(metis.at("execution_memory").at("layer_memory_total_mb").at(i).get<double>());
        layer.saved = std::max(Bytes{0}, total - 4 * layer.weights);
        const json& activations = sizes.at("activation_parameters_bytes");
        layer.output = Bytes{activations.at(i).get<std::int64_t>()};
        if (i > 0) layer.input = Bytes{activations.at(i - 1).get<std::int64_t>()};
      }
    }
  costs.layer = [=, none = LayerCost{.weights = *costs.memory}](std::size_t i, std::size_t samples,
                                                                LayerDegree tensor) {
    const auto at = profiled.find({samples, tensor.ranks});
    return at == profiled.end() ? none : at->second[i];
  };
  const auto is_one_node = [](const ParallelPlan& plan, std::size_t from, std::size_t to) {
    return plan.first_device(from) / kSailorNode ==
           (plan.first_device(to) + plan.degrees_of(to).devices() - 1) / kSailorNode;
  };
  costs.transfer = [=, within = bandwidth("intra", 2), between = bandwidth("inter", 1)](
                       const ParallelPlan& plan, std::size_t from, std::size_t to, Bytes sent) {
    return time_for(sent, is_one_node(plan, std::min(from, to), std::max(from, to)) ? within : between);
  };
  costs.all_reduce = [=, within = bandwidth("intra", kSailorNode), between = bandwidth("inter", kSailorNode)](
                         const ParallelPlan& plan, std::size_t device, Bytes weights) {
    const StageDegrees degrees = plan.degrees_of(device);
    const Bytes sent = ring_bytes(weights, degrees.data);
    return is_one_node(plan, device, device)
               ? time_for(sent, within)
               : time_for(static_cast<std::int64_t>(degrees.tensor.ranks) * sent, between);
  };
  const auto one = static_cast<double>(profiled.at({1, 1}).at(1).weights.count);
  costs.update = [seconds = profile.at("1").at("1").at("1").at(2).get<double>() / one](
                     Bytes weights, std::size_t shards, std::size_t) {
    return nanoseconds_from_seconds(seconds * static_cast<double>(weights.count) / static_cast<double>(shards));
  };
  return costs;
}

/// Calls `read` and turns JSON exceptions into InputError ("bad-profile").
template <typename Read>
auto read_sailor(const Read& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    throw InputError({.code = "bad-profile",
                      .message = std::string{"no artifact of Sailor's: "} + error.what(),
                      .help = "give its archive, sailor.tar.gz"});
  }
}

}  // namespace

PlanCosts sailor_costs(const std::map<std::string, std::string>& artifact, std::size_t devices, std::size_t batch) {
  return read_sailor([&] { return checked_sailor_costs(artifact, devices, batch); });
}

std::vector<SailorPlan> sailor_plans(const std::map<std::string, std::string>& artifact) {
  return read_sailor([&] {
    std::vector<SailorPlan> plans;
    for (const auto& [name, text] : artifact) {
      if (name.find("validation/clariden/OPT-350/") == std::string::npos || !name.ends_with(".json")) continue;
      const json file = json::parse(text), &pipeline = file.at("pipeline_list").at(0);
      if (file.at("mbs") != 8) continue;
      const std::size_t start = name.rfind("plan_config_") + std::string{"plan_config_"}.size();
      SailorPlan& read = plans.emplace_back();
      read.name = name.substr(start, name.size() - start - std::string{".json"}.size());
      read.batch = file.at("gbs");
      read.seconds = file.at("real");
      read.plan = {.data = pipeline.at("dp").at(0), .tensor = kSailorNode, .microbatch = 8};
      for (const json& layers : pipeline.at("layers_per_stage"))
        if (layers.at(0) != 0) read.plan.cuts.push_back(layers.at(0));
      read.devices = read.plan.devices();
    }
    std::ranges::sort(plans, {}, [](const SailorPlan& each) { return std::pair{each.devices, each.plan.data}; });
    return plans;
  });
}

}  // namespace trainyard::bench
