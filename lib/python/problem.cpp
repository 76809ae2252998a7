#include "trainyard/problem/problem.hpp"

#include <fmt/format.h>

#include <sstream>

#include "bindings.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/cluster/sharing.hpp"
#include "trainyard/cost/calibration.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/io/formats/calibration_file.hpp"
#include "trainyard/io/formats/cluster_file.hpp"

namespace trainyard::python {
namespace {

Sharing sharing_of(const std::string& word) {
  if (word == "serial") return Sharing::serial;
  if (word == "none") return Sharing::none;
  if (word == "fair") return Sharing::fair;
  refuse("unknown-word", fmt::format("'{}' is not a way to share links", word), "give one of serial, none, fair");
}

/// A cluster by preset name or .toml file; `sharing`, if given, replaces the sharing of its links.
Cluster named(const std::string& name, const std::optional<std::string>& sharing) {
  ClusterSpec spec = name.ends_with(".toml") ? read_cluster(name) : preset_cluster(name);
  if (sharing && !spec.fabric && spec.links.empty())
    refuse("sharing", fmt::format("cluster '{}' has no links to share, and an egress is always serial", spec.name),
           "leave sharing out");
  if (sharing) share_links(spec, sharing_of(*sharing));
  return make_cluster(std::move(spec));
}

Reals square(const py::handle& given, std::size_t size, const char* what) {
  Reals matrix = Reals::ensure(given);
  if (!matrix) PyErr_Clear();
  if (!matrix || matrix.ndim() != 2 || static_cast<std::size_t>(matrix.shape(0)) != size ||
      static_cast<std::size_t>(matrix.shape(1)) != size)
    refuse("size", fmt::format("{} is not a matrix of {} x {} numbers", what, size, size),
           "give a row for each device that sends, and a column for each that receives");
  return matrix;
}

/// Adds a link for each ordered pair of devices, which is also its route.
void join_pairs(ClusterSpec& spec, const Reals& bandwidth, const Integers& latency, Sharing sharing) {
  const std::size_t n = spec.devices.size();
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) {
      if (from == to) continue;
      const std::string &a = spec.devices[from].name, &b = spec.devices[to].name;
      const auto at = static_cast<py::ssize_t>(from * n + to);
      spec.links.push_back({.name = fmt::format("{}->{}", a, b),
                            .from = a,
                            .to = b,
                            .bandwidth = BytesPerSecond{bandwidth.data()[at]},
                            .latency = Nanoseconds{latency.data()[at]},
                            .sharing = sharing});
      spec.routes.push_back({a, b, {spec.links.back().name}});
    }
}

Cluster cluster_from_arrays(const py::object& bandwidth, const py::object& latency_ns, const py::object& memory_bytes,
                            const std::optional<std::vector<std::string>>& names, const std::string& device_class,
                            const std::string& sharing, const std::string& name) {
  const auto count = static_cast<std::size_t>(py::len(bandwidth));
  const Reals rates = square(bandwidth, count, "bandwidth");
  Integers latencies = latency_ns.is_none() ? Integers(std::vector<py::ssize_t>{rates.shape(0), rates.shape(1)})
                                            : integers(latency_ns, "latency_ns");
  if (latency_ns.is_none()) std::fill_n(latencies.mutable_data(), latencies.size(), 0);
  if (latencies.size() != rates.size())
    refuse("size", fmt::format("latency_ns has {} numbers", latencies.size()),
           fmt::format("give {} x {} numbers", count, count));
  if (names && names->size() != count)
    refuse("size", fmt::format("names has {} values", names->size()), fmt::format("give {} values", count));
  ClusterSpec spec{.name = name, .devices = {}};
  for (std::size_t i = 0; i < count; ++i)
    spec.devices.push_back(
        {.name = names ? (*names)[i] : fmt::format("{}{}", device_class, i), .kind = {}, .device_class = device_class});
  if (!memory_bytes.is_none()) {
    const Integers memory = integers(memory_bytes, "memory_bytes");
    if (memory.ndim() > 0) check_size(memory, count, "memory_bytes");
    for (std::size_t i = 0; i < count; ++i) spec.devices[i].memory = Bytes{memory.data()[memory.ndim() > 0 ? i : 0]};
  }
  join_pairs(spec, rates, latencies, sharing_of(sharing));
  const py::gil_scoped_release release;
  return make_cluster(std::move(spec));
}

Problem make_problem(const Graph& graph, const Cluster& cluster, const std::optional<std::string>& costs,
                     double compute, double link) {
  if (!(compute > 0) || !(link > 0))
    refuse("range", fmt::format("speeds must be more than 0, but compute={} and link={}", compute, link),
           "give numbers above 0; 1 leaves the times unchanged");
  const Speeds speeds{.compute = compute, .link = link};
  if (!costs) return Problem{graph, cluster, Costs{}.at(speeds)};
  const Calibration calibration = read_calibration(*costs);
  return Problem{graph, make_cluster(calibrated(cluster.spec(), calibration).spec),
                 Costs{cost_model(calibration)}.at(speeds)};
}

py::array durations_of(const py::object& self) {
  const Problem& problem = self.cast<const Problem&>();
  return view<std::int64_t>(self, problem.durations().data(), problem.durations().size())
      .reshape({static_cast<py::ssize_t>(problem.op_count()), static_cast<py::ssize_t>(problem.column_count())});
}

template <class IdType, class Get>
std::vector<std::string> names_of(const IdRange<IdType>& ids, const Get& get) {
  std::vector<std::string> names;
  for (const IdType id : ids) names.push_back(get(id));
  return names;
}

void bind_cluster_columns(py::class_<Cluster>& cluster) {
  cluster
      .def_property_readonly(
          "device_names",
          [](const Cluster& c) { return names_of(c.devices(), [&](DeviceId id) { return c.device(id).name; }); },
          "The devices' names, by index.")
      .def_property_readonly(
          "channel_names",
          [](const Cluster& c) {
            return names_of(c.channels(), [&](ChannelId id) {
              const Channel& channel = c.channel(id);
              return channel.to.empty() ? channel.name
                                        : fmt::format("{} ({} -> {})", channel.name, channel.from, channel.to);
            });
          },
          "The names of the serialized resources, by index: a direction of a link, a bus, an egress.")
      .def_property_readonly(
          "memory_bytes",
          [](const Cluster& c) {
            return array_of<std::int64_t>(c.devices(),
                                          [&](DeviceId id) { return c.device(id).memory.value_or(Bytes{-1}).count; });
          },
          "int64[devices]: capacity of each device; -1: unlimited.")
      .def(
          "__eq__", [](const Cluster& a, const Cluster& b) { return a == b; }, py::is_operator())
      .def("__repr__", [](const Cluster& c) {
        return fmt::format("<trainyard.Cluster '{}': {} devices>", c.name(), c.device_count());
      });
}

void bind_cluster(py::module_& module) {
  py::class_<Cluster> cluster(module, "Cluster",
                              "Devices, links and the route of each ordered pair of devices; immutable.");
  cluster
      .def(py::init(&named), py::arg("name"), py::kw_only(), py::arg("sharing") = py::none(),
           py::call_guard<py::gil_scoped_release>(),
           "A built-in cluster (\"4xV100\", \"dgx1-v100\") or a .toml file.\n\n"
           "sharing: serial (one transfer at a time on a link), none (transfers never wait), fair.")
      .def_static(
          "from_arrays", &cluster_from_arrays, py::arg("bandwidth"), py::kw_only(), py::arg("latency_ns") = py::none(),
          py::arg("memory_bytes") = py::none(), py::arg("names") = py::none(), py::arg("device_class") = "gpu",
          py::arg("sharing") = "serial", py::arg("name") = "cluster",
          "Devices with a link for each ordered pair.\n\n"
          "bandwidth: float[devices, devices], bytes per second from row to column; the diagonal is not read.\n"
          "latency_ns: int[devices, devices], default 0. memory_bytes: int[devices] or one int; None is unlimited.\n"
          "names: default device_class and number, as in gpu0.")
      .def_static(
          "parse", [](const std::string& text) { return make_cluster(parse_cluster(text, "cluster")); },
          py::arg("text"), "Reads a cluster file's text (TOML).")
      .def(
          "to_toml",
          [](const Cluster& c) {
            std::ostringstream text;
            write_cluster(c.spec(), text);
            return std::move(text).str();
          },
          "The cluster as the text of a cluster file.")
      .def_property_readonly("name", &Cluster::name)
      .def_property_readonly("device_count", &Cluster::device_count);
  bind_cluster_columns(cluster);
}

py::dict bounds_of(const Problem& problem) {
  std::vector<LowerBound> bounds;
  {
    const py::gil_scoped_release release;
    bounds = lower_bounds(problem);
  }
  py::dict by_name;
  for (const LowerBound& bound : bounds) by_name[py::str(bound.name)] = bound.value.count;
  return by_name;
}

void bind_arrays(py::class_<Problem>& problem) {
  problem
      .def_property_readonly("column_durations_ns", &durations_of,
                             "int64[ops, columns]: time of each op on each kind of device, in ns; -1: it cannot run "
                             "there. A view; device d has column `column[d]`.")
      .def_property_readonly(
          "column",
          [](const Problem& p) {
            return array_of<std::int64_t>(p.devices(), [&](DeviceId id) { return p.column(id); });
          },
          "int64[devices]: the column of each device in column_durations_ns.")
      .def_property_readonly(
          "durations_ns",
          [](const Problem& p) {
            py::array_t<std::int64_t> all({p.op_count(), p.device_count()});
            std::int64_t* next = all.mutable_data();
            for (const OpId op : p.ops())
              for (const DeviceId device : p.devices()) *next++ = p.duration(op, device).count;
            return all;
          },
          "int64[ops, devices]: time of each op on each device, in ns; -1: it cannot run there. A copy.")
      .def(
          "transfer_ns",
          [](const Problem& p, std::int64_t from, std::int64_t to) {
            const DeviceId a = device_at(p, from), b = device_at(p, to);
            return array_of<std::int64_t>(
                p.graph().tensors(), [&](TensorId tensor) { return a == b ? 0 : p.transfer_time(tensor, a, b).count; });
          },
          py::arg("source"), py::arg("target"),
          "int64[tensors]: time of each tensor from one device to another, in ns, alone on its links.")
      .def_property_readonly(
          "groups",
          [](const Problem& p) {
            return array_of<std::int64_t>(p.ops(), [&](OpId op) { return p.group(op).index(); });
          },
          "int64[ops]: the colocation group of each op; ops of one group share a device; most groups have one op.")
      .def_property_readonly("group_count", &Problem::group_count);
}

}  // namespace

void bind_problem(py::module_& module) {
  bind_cluster(module);
  py::class_<Problem> problem(module, "Problem",
                              "Graph, cluster and costs compiled into arrays: what placers and the simulator read.");
  problem
      .def(py::init(&make_problem), py::arg("graph"), py::arg("cluster"), py::kw_only(), py::arg("costs") = py::none(),
           py::arg("compute") = 1.0, py::arg("link") = 1.0, py::call_guard<py::gil_scoped_release>(),
           "costs: a calibration file; without it, op times come from the graph, else from kernel forms fitted to "
           "published\n"
           "    kernels, else from a roofline of the data sheet.\n"
           "compute, link: what-if speeds; 2 halves every op time, 0.1 makes every transfer ten times as long.")
      .def_property_readonly("graph", &Problem::graph, py::return_value_policy::reference_internal)
      .def_property_readonly("cluster", &Problem::cluster, py::return_value_policy::reference_internal)
      .def_property_readonly("op_count", &Problem::op_count)
      .def_property_readonly("device_count", &Problem::device_count)
      .def("lower_bounds_ns", &bounds_of,
           "Lower bounds of the step time of any schedule that fits in memory, by name, in ns.")
      .def(
          "lower_bound_ns", [](const Problem& p) { return best_lower_bound(p).value.count; },
          py::call_guard<py::gil_scoped_release>(), "The largest of lower_bounds_ns().")
      .def("__repr__", [](const Problem& p) {
        return fmt::format("<trainyard.Problem: {} ops of '{}' on {} devices of '{}'>", p.op_count(), p.graph().name(),
                           p.device_count(), p.cluster().name());
      });
  bind_arrays(problem);
}

}  // namespace trainyard::python
