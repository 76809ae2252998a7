#include "trainyard/graph/graph.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <sstream>

#include "bindings.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/foreign/dnn_partitioning.hpp"
#include "trainyard/io/foreign/pipedream_profile.hpp"
#include "trainyard/io/foreign/stg.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/onnx/onnx.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::python {
namespace {

using Texts = std::vector<std::string>;

/// Values of one property of the ops: absent, or one per op.
template <class Array>
class PerOp {
 public:
  PerOp(std::optional<Array> given, std::size_t ops, const std::string& what) : values_(std::move(given)) {
    if (values_) check_size(*values_, ops, what);
  }
  auto operator[](std::size_t op) const { return values_ ? values_->data()[op] : typename Array::value_type{0}; }
  explicit operator bool() const { return values_.has_value(); }

 private:
  std::optional<Array> values_;
};

const std::string& text_at(const std::optional<Texts>& texts, std::size_t i) {
  static const std::string kNone;
  return texts ? (*texts)[i] : kNone;
}

void check_texts(const std::optional<Texts>& texts, std::size_t ops, const char* what) {
  if (texts && texts->size() != ops)
    refuse("size", fmt::format("{} has {} values", what, texts->size()), fmt::format("give {} values", ops));
}

Integers pairs(const py::handle& given, const std::string& what, std::size_t ops) {
  Integers edges = integers(given, what);
  if (edges.size() > 0 && (edges.ndim() != 2 || edges.shape(1) != 2))
    refuse("size", fmt::format("{} has {} dimensions", what, edges.ndim()), "give rows of two op indices");
  for (py::ssize_t i = 0; i < edges.size(); ++i)
    if (edges.data()[i] < 0 || static_cast<std::size_t>(edges.data()[i]) >= ops)
      refuse("unknown-op",
             fmt::format("row {} of {} names op {}, but there are {} ops", i / 2, what, edges.data()[i], ops),
             "count ops from 0");
  return edges;
}

Phase phase_of(const std::string& word) {
  if (word.empty() || word == "forward") return Phase::forward;
  if (word == "backward") return Phase::backward;
  if (word == "update") return Phase::update;
  refuse("unknown-phase", fmt::format("'{}' is not a phase", word), "give one of forward, backward, update");
}

/// Op times by device name, kind or class, from a dict or one array for all devices. -1: the op cannot run there.
std::vector<std::pair<std::string, Integers>> times_of(const py::handle& given, std::size_t ops) {
  std::vector<std::pair<std::string, Integers>> times;
  if (given.is_none()) return times;
  if (py::isinstance<py::dict>(given)) {
    for (const auto& [on, values] : py::reinterpret_borrow<py::dict>(given)) {
      const auto name = on.cast<std::string>();
      times.emplace_back(name, integers(values, fmt::format("time_ns['{}']", name)));
    }
  } else {
    const Integers values = integers(given, "time_ns");
    for (const char* device_class : {"gpu", "cpu"}) times.emplace_back(device_class, values);
  }
  for (const auto& [on, values] : times) check_size(values, ops, fmt::format("time_ns['{}']", on));
  return times;
}

void set_times(OpSpec& op, std::size_t i, const std::vector<std::pair<std::string, Integers>>& times) {
  bool restricted = false;
  for (const auto& [on, values] : times) {
    const std::int64_t time = values.data()[i];
    if (time == -1)
      restricted = true;
    else
      op.times.push_back({on, Nanoseconds{time}});
  }
  if (!restricted) return;
  for (const GivenTime& each : op.times) op.device_kinds.push_back(each.on);
  if (op.times.empty())
    refuse("no-device", fmt::format("op {} has no time on any device", i),
           "give a time other than -1 for at least one device");
}

Graph graph_from_arrays(const py::object& edges_given, const py::object& time_ns, const py::object& output_bytes,
                        const py::object& edge_bytes, std::optional<Reals> flops, const py::object& bytes_accessed,
                        const py::object& parameter_bytes, const py::object& state_bytes,
                        const py::object& workspace_bytes, const std::optional<Texts>& names,
                        const std::optional<Texts>& types, const std::optional<Texts>& layers,
                        const std::optional<Texts>& colocate, const std::optional<Texts>& phases,
                        const py::object& control, std::size_t ops, const std::string& name) {
  const auto per_op = [&](const py::object& given, const std::string& what) {
    return PerOp<Integers>(given.is_none() ? std::nullopt : std::optional{integers(given, what)}, ops, what);
  };
  const auto times = times_of(time_ns, ops);
  const PerOp<Reals> work(std::move(flops), ops, "flops");
  const auto accessed = per_op(bytes_accessed, "bytes_accessed"),
             parameters = per_op(parameter_bytes, "parameter_bytes"), states = per_op(state_bytes, "state_bytes"),
             workspaces = per_op(workspace_bytes, "workspace_bytes"), outputs = per_op(output_bytes, "output_bytes");
  for (const auto& [texts, what] : {std::pair{&names, "names"},
                                    {&types, "types"},
                                    {&layers, "layers"},
                                    {&colocate, "colocate"},
                                    {&phases, "phases"}})
    check_texts(*texts, ops, what);
  const Integers edges = pairs(edges_given, "edges", ops);
  const auto edge_count = static_cast<std::size_t>(edges.size() / 2);
  const PerOp<Integers> of_edge(edge_bytes.is_none() ? std::nullopt : std::optional{integers(edge_bytes, "edge_bytes")},
                                edge_count, "edge_bytes");
  if (of_edge && outputs)
    refuse("bytes", "output_bytes and edge_bytes are both given",
           "give output_bytes (one tensor per op, for all its readers) or edge_bytes (one per edge)");

  std::vector<OpSpec> specs(ops);
  for (std::size_t i = 0; i < ops; ++i) {
    OpSpec& op = specs[i];
    op.name = names ? (*names)[i] : fmt::format("op{}", i);
    op.type = text_at(types, i), op.layer = text_at(layers, i), op.colocate = text_at(colocate, i);
    op.phase = phase_of(text_at(phases, i));
    op.flops = Flops{work[i]};
    op.bytes_accessed = Bytes{accessed[i]}, op.parameter_bytes = Bytes{parameters[i]};
    op.state_bytes = Bytes{states[i]}, op.workspace_bytes = Bytes{workspaces[i]};
    set_times(op, i, times);
    if (!of_edge) op.outputs.push_back({op.name, Bytes{outputs[i]}});
  }
  for (std::size_t e = 0; e < edge_count; ++e) {
    OpSpec& from = specs[static_cast<std::size_t>(edges.data()[2 * e])];
    OpSpec& to = specs[static_cast<std::size_t>(edges.data()[2 * e + 1])];
    if (of_edge) from.outputs.push_back({fmt::format("{}->{}#{}", from.name, to.name, e), Bytes{of_edge[e]}});
    to.inputs.push_back(from.outputs.back().name);
  }
  if (!control.is_none()) {
    const Integers order = pairs(control, "control", ops);
    for (py::ssize_t e = 0; e < order.size(); e += 2)
      specs[static_cast<std::size_t>(order.data()[e + 1])].after.push_back(
          specs[static_cast<std::size_t>(order.data()[e])].name);
  }
  const py::gil_scoped_release release;
  GraphBuilder builder{name};
  for (const OpSpec& op : specs) builder.add(op);
  return std::move(builder).build();
}

Granularity granularity_of(const std::string& word) {
  if (word == "op") return Granularity::op;
  if (word == "fine") return Granularity::fine;
  refuse("unknown-word", fmt::format("'{}' is not a granularity", word), "give op or fine");
}

Graph expanded(Model model, const std::string& training, const std::string& granularity, const std::string& precision,
               double clip) {
  if (precision != "float32" && precision != "bfloat16")
    refuse("unknown-word", fmt::format("'{}' is not a precision", precision), "give float32 or bfloat16");
  if (precision == "bfloat16") model = with_precision(std::move(model), DataType::bfloat16);
  if (!(clip >= 0 && std::isfinite(clip)))
    refuse("range", fmt::format("clip is {}, but a norm is a finite number of 0 or more", clip),
           "give 1 to clip gradients to that norm, or 0 not to clip them");
  return training_graph(
      model, {.optimizer = find_optimizer(training), .granularity = granularity_of(granularity), .clip_norm = clip});
}

Graph zoo_graph(const std::string& spec, const std::string& training, const std::string& granularity,
                const std::string& precision, double clip) {
  return expanded(make_network(spec), training, granularity, precision, clip);
}

Graph read_any(const std::string& path, const std::string& training, const std::string& granularity,
               const std::string& precision, double clip, std::int64_t batch,
               const std::map<std::string, std::int64_t>& bind) {
  const auto ends = [&](const std::string& end) { return path.ends_with(end) || path.ends_with(end + ".gz"); };
  if (ends(".onnx"))
    return expanded(read_onnx(path, {.bind = bind, .batch = batch}), training, granularity, precision, clip);
  if (ends(".graph.txt")) return profile_graph(read_pipedream_profile(path));
  if (ends(".stg")) return read_stg(path);
  if (ends(".json")) return is_dnn_workload(path) ? workload_graph(read_dnn_workload(path)) : read_graph(path);
  refuse("file", fmt::format("'{}' is not a file from which a graph can be read", path),
         "give a name that ends in .json (graph), .onnx (ONNX), .graph.txt (PipeDream profile) or .stg (task graph), "
         "each also with .gz");
}

/// Producer and consumer of each use of a tensor, by tensor: [uses, 2].
py::array_t<std::int64_t> edges_of(const Graph& graph) {
  const auto& uses = graph.consumer_rows();
  py::array_t<std::int64_t> edges({static_cast<py::ssize_t>(uses.values().size()), py::ssize_t{2}});
  std::int64_t* next = edges.mutable_data();
  for (const TensorId tensor : graph.tensors())
    for (const OpId consumer : graph.consumers(tensor)) {
      *next++ = static_cast<std::int64_t>(graph.producer(tensor).index());
      *next++ = static_cast<std::int64_t>(consumer.index());
    }
  return edges;
}

py::array_t<std::int64_t> control_of(const Graph& graph) {
  std::vector<std::int64_t> flat;
  for (const OpId op : graph.ops())
    for (const OpId first : graph.after(op)) {
      flat.push_back(static_cast<std::int64_t>(first.index()));
      flat.push_back(static_cast<std::int64_t>(op.index()));
    }
  return py::array_t<std::int64_t>({static_cast<py::ssize_t>(flat.size() / 2), py::ssize_t{2}}, flat.data());
}

template <class Ids, class Get>
Texts texts_of(const Ids& ids, const Get& get) {
  Texts texts;
  texts.reserve(ids.size());
  for (const auto& id : ids) texts.emplace_back(get(id));
  return texts;
}

void bind_op_columns(py::class_<Graph>& graph) {
  const auto numbers = [&](const char* name, auto get, const char* text) {
    graph.def_property_readonly(
        name,
        [get](const Graph& g) { return array_of<std::int64_t>(g.ops(), [&](OpId op) { return get(g, op).count; }); },
        text);
  };
  const auto words = [&](const char* name, auto get, const char* text) {
    graph.def_property_readonly(
        name, [get](const Graph& g) { return texts_of(g.ops(), [&](OpId op) { return get(g, op); }); }, text);
  };
  graph.def_property_readonly(
      "flops", [](const Graph& g) { return array_of<double>(g.ops(), [&](OpId op) { return g.flops(op).value; }); },
      "float64[ops]: floating-point operations of each op. A copy, like all properties of the ops.");
  numbers(
      "bytes_accessed", [](const Graph& g, OpId op) { return g.bytes_accessed(op); },
      "int64[ops]: bytes that the op reads and writes in device memory.");
  numbers(
      "parameter_bytes", [](const Graph& g, OpId op) { return g.parameter_bytes(op); },
      "int64[ops]: bytes of parameters, held for the whole step.");
  numbers(
      "state_bytes", [](const Graph& g, OpId op) { return g.state_bytes(op); },
      "int64[ops]: bytes of optimizer state, held for the whole step.");
  numbers(
      "workspace_bytes", [](const Graph& g, OpId op) { return g.workspace_bytes(op); },
      "int64[ops]: bytes held while the op runs.");
  words(
      "op_names", [](const Graph& g, OpId op) { return g.name(op); }, "The ops' names, by index.");
  words(
      "op_types", [](const Graph& g, OpId op) { return g.type(op); }, "The ops' types, by index.");
  words(
      "layers", [](const Graph& g, OpId op) { return g.layer(op); },
      "The ops' layers, by index; \"\" where there is none.");
  words(
      "colocation", [](const Graph& g, OpId op) { return g.colocation_group(op); },
      "The ops' colocation groups, by index; \"\" where there is none.");
  words(
      "phases", [](const Graph& g, OpId op) { return name_of(g.phase(op)); }, "forward, backward or update, by op.");
}

void bind_edges(py::class_<Graph>& graph) {
  graph
      .def_property_readonly("edges", &edges_of,
                             "int64[uses, 2]: producer and consumer of each use of a tensor, tensor by tensor.")
      .def_property_readonly("control", &control_of,
                             "int64[edges, 2]: the second op waits for the first, without a tensor.")
      .def_property_readonly(
          "tensor_bytes",
          [](const Graph& g) {
            return array_of<std::int64_t>(g.tensors(), [&](TensorId tensor) { return g.bytes(tensor).count; });
          },
          "int64[tensors]: bytes of each tensor.")
      .def_property_readonly(
          "tensor_names",
          [](const Graph& g) { return texts_of(g.tensors(), [&](TensorId tensor) { return g.name(tensor); }); },
          "The tensors' names, by index.")
      .def_property_readonly(
          "first_output",
          [](const py::object& self) {
            const auto& first = self.cast<const Graph&>().first_outputs();
            return view<std::uint32_t>(self, first.data(), first.size());
          },
          "uint32[ops + 1]: op i makes the tensors first_output[i] to first_output[i + 1] - 1. A view.")
      .def_property_readonly(
          "consumers",
          [](const py::object& self) {
            const auto& uses = self.cast<const Graph&>().consumer_rows();
            return py::make_tuple(view<std::uint32_t>(self, uses.starts().data(), uses.starts().size()),
                                  view<std::uint32_t>(self, uses.values().data(), uses.values().size()));
          },
          "(uint32[tensors + 1], uint32[uses]): the consumers of each tensor as compressed rows. Views.")
      .def_property_readonly(
          "topological_order",
          [](const py::object& self) {
            const auto& order = self.cast<const Graph&>().topological_order();
            return view<std::uint32_t>(self, order.data(), order.size());
          },
          "uint32[ops]: every op after those that it depends on; of the ready ops, the lowest index first. A view.");
}

std::string json_of(const Graph& graph) {
  std::ostringstream text;
  write_graph(graph, text);
  return std::move(text).str();
}

}  // namespace

void bind_graph(py::module_& module) {
  py::class_<Graph> graph(module, "Graph", "A directed acyclic graph of ops and tensors; immutable.");
  graph
      .def_static("from_arrays", &graph_from_arrays, py::arg("edges"), py::kw_only(), py::arg("time_ns"),
                  py::arg("output_bytes"), py::arg("edge_bytes"), py::arg("flops"), py::arg("bytes_accessed"),
                  py::arg("parameter_bytes"), py::arg("state_bytes"), py::arg("workspace_bytes"), py::arg("names"),
                  py::arg("types"), py::arg("layers"), py::arg("colocate"), py::arg("phases"), py::arg("control"),
                  py::arg("ops"), py::arg("name"))
      .def_static("zoo", &zoo_graph, py::arg("network"), py::kw_only(), py::arg("training") = "adam",
                  py::arg("granularity") = "op", py::arg("precision") = "float32", py::arg("clip") = 0.0,
                  py::call_guard<py::gil_scoped_release>(),
                  "The training graph of a built-in network: \"resnet50:batch=32\".\n\n"
                  "training: adam, momentum, sgd, or none for the forward graph only. granularity: op, or fine\n"
                  "(separate gradients of data, weights and bias). precision: float32, bfloat16.\n"
                  "clip: the largest norm of all gradients together; 0: they are not clipped.")
      .def_static("read", &read_any, py::arg("path"), py::kw_only(), py::arg("training") = "adam",
                  py::arg("granularity") = "op", py::arg("precision") = "float32", py::arg("clip") = 0.0,
                  py::arg("batch") = 0, py::arg("bind") = std::map<std::string, std::int64_t>{},
                  py::call_guard<py::gil_scoped_release>(),
                  "Reads a graph: trainyard-graph/1 or a workload of dnn-partitioning (.json), .onnx, .stg,\n"
                  "a PipeDream profile (.graph.txt), each also with .gz. For ONNX files, `batch` and `bind` set\n"
                  "open dimensions, and the others are as in zoo().")
      .def_static(
          "parse", [](const std::string& text) { return parse_graph(text, "graph"); }, py::arg("text"),
          py::call_guard<py::gil_scoped_release>(), "Reads a trainyard-graph/1 text (JSON).")
      .def("to_json", &json_of, py::call_guard<py::gil_scoped_release>(), "The graph as trainyard-graph/1 text.")
      .def(
          "write",
          [](const Graph& g, const std::string& path) {
            write_file(path, [&](std::ostream& out) { write_graph(g, out); });
          },
          py::arg("path"), "Writes a trainyard-graph/1 file; a name that ends in .gz is compressed.")
      .def_property_readonly("name", [](const Graph& g) { return g.name(); })
      .def_property_readonly("op_count", &Graph::op_count)
      .def_property_readonly("tensor_count", &Graph::tensor_count)
      .def(
          "__eq__", [](const Graph& a, const Graph& b) { return a == b; }, py::is_operator())
      .def("__repr__", [](const Graph& g) {
        return fmt::format("<trainyard.Graph '{}': {} ops, {} tensors>", g.name(), g.op_count(), g.tensor_count());
      });
  bind_op_columns(graph);
  bind_edges(graph);
  module.def(
      "networks", [] { return texts_of(networks(), [](const Network& each) { return each.name; }); },
      "The names of the built-in networks.");
}

}  // namespace trainyard::python
