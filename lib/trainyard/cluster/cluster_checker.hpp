#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::detail {

/// Checks a specification and maps its vertices (devices, then switches) to numbers by name. The constructor throws
/// InputError with all findings.
class ClusterChecker {
 public:
  explicit ClusterChecker(const ClusterSpec& spec);
  /// Throws InputError if finding or storing the routes over this many directions of links would take too long.
  void check_routed(std::size_t arcs);
  std::size_t vertex(const std::string& name) const { return vertices_.at(name); }
  std::size_t vertex_count() const { return vertices_.size(); }
  void report(std::string code, std::string message, std::string help, std::string pointer);
  void throw_if_any() const;

 private:
  void check_device(const Device& device, const std::string& at);
  void check_fabric(const FabricSpec& fabric);
  void check_link(const Link& link, const std::string& at);
  void check_fair_links();
  void check_egress(const Egress& egress, const std::string& at);
  void check_measured(const MeasuredRoute& route, const std::string& at);
  void check_route(const GivenRoute& route, const std::map<std::string, std::size_t>& links, const std::string& at);
  void add_vertex(const std::string& name, const std::string& at, const std::string& what);
  void check_vertex(const std::string& name, const std::string& at, const std::string& of);
  void check_device_name(const std::string& name, const std::string& at, const std::string& of);
  void check_rate(double rate, bool zero_is_unknown, const char* field, const char* what, const std::string& name,
                  const std::string& at);
  void check_time(Nanoseconds time, const char* field, const char* what, const std::string& name,
                  const std::string& at);
  const ClusterSpec& spec_;
  std::vector<Finding> findings_;
  std::map<std::string, std::size_t> vertices_;
  std::set<std::string> sending_;                         // devices with an egress
  std::set<std::pair<std::string, std::string>> routed_;  // pairs with a given route
};

}  // namespace trainyard::detail
