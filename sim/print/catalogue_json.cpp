#include <utility>

#include "build_info.hpp"
#include "catalogue.hpp"
#include "print/result_json.hpp"

namespace trainyard::program {
namespace {

Json catalogue(const std::string& verb, Json list) {
  Json object = begin_result(verb);
  object[verb] = std::move(list);
  return object;
}

}  // namespace

std::string models_json(const std::vector<NetworkFacts>& networks) {
  Json list = Json::array();
  for (const NetworkFacts& facts : networks) {
    Json options = Json::array();
    for (const NetworkParameter& parameter : facts.network->parameters)
      options.push_back({{"name", parameter.name},
                         {"default", parameter.value},
                         {"least", parameter.least},
                         {"most", parameter.most},
                         {"meaning", parameter.meaning}});
    list.push_back({{"name", facts.shown},
                    {"summary", facts.network->summary},
                    {"source", facts.network->source},
                    {"ops", facts.ops},
                    {"batch", facts.batch},
                    {"parameters", facts.parameters},
                    {"forward_flops", facts.forward_flops},
                    {"options", std::move(options)}});
  }
  return result_text(catalogue("models", std::move(list)));
}

std::string clusters_json(const std::vector<ClusterFacts>& clusters, const std::vector<std::string>& warnings) {
  Json list = Json::array();
  for (const ClusterFacts& facts : clusters) {
    Json devices = Json::array(), links = Json::array();
    for (const Device& device : facts.spec.devices)
      devices.push_back({{"name", device.name},
                         {"kind", device.kind},
                         {"class", device.device_class},
                         {"memory_bytes", device.memory ? Json(device.memory->count) : Json(nullptr)},
                         {"peak_flops_per_second", device.peak.value},
                         {"memory_bandwidth_bytes_per_second", device.memory_bandwidth.value},
                         {"launch_overhead_ns", device.launch_overhead.count}});
    for (const Link& link : facts.spec.links)
      links.push_back({{"name", link.name},
                       {"from", link.from},
                       {"to", link.to},
                       {"bandwidth_bytes_per_second", link.bandwidth.value},
                       {"latency_ns", link.latency.count},
                       {"duplex", link.duplex == Duplex::full ? "full" : "half"}});
    list.push_back({{"name", facts.name},
                    {"summary", facts.summary},
                    {"source", facts.source},
                    {"devices", std::move(devices)},
                    {"switches", facts.spec.switches},
                    {"links", std::move(links)}});
    if (facts.spec.fabric) {
      const FabricSpec& fabric = *facts.spec.fabric;
      list.back()["fabric"] = {{"hosts", fabric.hosts},
                               {"devices_per_host", fabric.devices_per_host},
                               {"port_bandwidth_bytes_per_second", fabric.port_bandwidth.value},
                               {"port_latency_ns", fabric.port_latency.count},
                               {"nics_per_host", fabric.nics_per_host},
                               {"nic_bandwidth_bytes_per_second", fabric.nic_bandwidth.value},
                               {"nic_latency_ns", fabric.nic_latency.count},
                               {"leaf", fabric.leaf == FabricSpec::Leaf::rail ? "rail" : "rack"},
                               {"hosts_per_leaf", fabric.hosts_per_leaf},
                               {"leaves", fabric.leaf_count()},
                               {"spines", fabric.spine_count()},
                               {"oversubscription", fabric.oversubscription},
                               {"uplink_latency_ns", fabric.uplink_latency.count},
                               {"hosts_per_pod", fabric.hosts_per_pod.value_or(fabric.hosts)},
                               {"pods", fabric.pod_count()},
                               {"cores", fabric.core_count()},
                               {"core_oversubscription", fabric.core_oversubscription},
                               {"core_latency_ns", fabric.core_latency.count},
                               {"torus", fabric.torus},
                               {"sharing", fabric.sharing == Sharing::fair ? "fair" : "serial"}};
    }
  }
  Json object = catalogue("clusters", std::move(list));
  return warnings.empty() ? result_text(object) : result_text(std::move(object), warnings);
}

std::string placers_json(const std::vector<Placer>& placers) {
  Json list = Json::array();
  for (const Placer& placer : placers) {
    Json parameters = Json::array();
    for (const PlacerParameter& parameter : placer.parameters)
      parameters.push_back(
          {{"name", parameter.name}, {"default", parameter.default_value}, {"meaning", parameter.meaning}});
    list.push_back({{"name", placer.name},
                    {"summary", placer.summary},
                    {"source", placer.source},
                    {"searches", placer.searches},
                    {"exhaustive", placer.exhaustive},
                    {"trains", placer.trains},
                    {"parameters", std::move(parameters)}});
  }
  return result_text(catalogue("placers", std::move(list)));
}

std::string doctor_json(const std::vector<Feature>& features) {
  Json object = begin_result("doctor");
  object["version"] = kVersion;
  object["compiler"] = kCompiler;
  object["build_type"] = kBuildType;
  Json list = Json::array();
  for (const Feature& feature : features)
    list.push_back({{"name", feature.name}, {"available", feature.there}, {"what", feature.what}});
  object["features"] = std::move(list);
  return result_text(object);
}

}  // namespace trainyard::program
