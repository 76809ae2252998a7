#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/pytorch/kineto_timeline.hpp"
#include "trainyard/io/pytorch/pytorch_flops.hpp"
#include "trainyard/io/pytorch/pytorch_graph.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using test::contains;

namespace {

/// A call of an execution trace: arguments and results as JSON, each a tensor of floats or a list of them.
struct Call {
  int id = 0, parent = 1;
  std::string name, arguments, results, schema;
  int scope = 0, rf_id = 0, thread = 1;
};

std::string tensor_types(const std::string& values) {
  std::string types;
  int depth = 0;
  for (const char c : values) {
    if (c == '[' && depth++ == 0) types += types.empty() ? "\"Tensor(float)\"" : ", \"Tensor(float)\"";
    if (c == ']') --depth;
  }
  return types;
}

/// A tensor as six numbers and a device: `count` floats of a storage, starting at `offset`.
std::string floats(int storage, int count, int offset = 0) {
  return fmt::format(R"([{}, {}, {}, {}, 4, "cuda:0"])", storage, storage, offset, count);
}

std::string plain_node(const Call& call) {
  return fmt::format(
      R"({{"name": "{}", "id": {}, "rf_id": {}, "parent": {}, "fw_parent": 0, "seq_id": -1, "scope": {}, )"
      R"("tid": {}, "fw_tid": 0, "op_schema": "{}", "inputs": [{}], "input_shapes": [], "input_types": [{}], )"
      R"("outputs": [{}], "output_shapes": [], "output_types": [{}]}})",
      call.name, call.id, call.rf_id, call.parent, call.scope, call.thread, call.schema, call.arguments,
      tensor_types(call.arguments), call.results, tensor_types(call.results));
}

std::string chakra_node(const Call& call) {
  return fmt::format(
      R"({{"id": {}, "name": "{}", "ctrl_deps": {}, "inputs": {{"values": [{}], "shapes": [], "types": )"
      R"([{}]}}, "outputs": {{"values": [{}], "shapes": [], "types": [{}]}}, "attrs": [{{"name": "rf_id", )"
      R"("type": "uint64", "value": {}}}, {{"name": "scope", "type": "uint64", "value": {}}}, {{"name": )"
      R"("tid", "type": "uint64", "value": {}}}, {{"name": "op_schema", "type": "string", "value": "{}"}}]}})",
      call.id, call.name, call.parent, call.arguments, tensor_types(call.arguments), call.results,
      tensor_types(call.results), call.rf_id, call.scope, call.thread, call.schema);
}

std::string trace_of(const std::vector<Call>& calls, bool chakra = false) {
  std::string text = fmt::format(R"({{"schema": "{}", "pid": 7, "nodes": [)", chakra ? "1.1.0-chakra.0.0.4" : "1.0.1");
  for (std::size_t i = 0; i < calls.size(); ++i)
    text += (i ? ",\n" : "\n") + (chakra ? chakra_node(calls[i]) : plain_node(calls[i]));
  return text + "]}\n";
}

/// A training step: y = x w; relu in place; dw = x' dy; w += -dw. Floats: x 8 (storage 1), w 4 (2), y 8 (3), dw 4 (4).
std::vector<Call> small_step() {
  const std::string add = "aten::add_(Tensor(a!) self, Tensor other) -> Tensor(a!)";
  return {{3, 1, "aten::linear", floats(1, 8) + ", " + floats(2, 4), floats(3, 8),
           "aten::linear(Tensor x, Tensor w) -> Tensor"},
          {4, 3, "aten::t", floats(2, 4), floats(2, 4), "aten::t(Tensor(a) self) -> Tensor(a)"},
          {5, 3, "aten::mm", floats(1, 8) + ", " + floats(2, 4), floats(3, 8),
           "aten::mm(Tensor self, Tensor mat2) -> Tensor"},
          {6, 1, "aten::relu_", floats(3, 8), floats(3, 8), "aten::relu_(Tensor(a!) self) -> Tensor(a!)"},
          {7, 1, "MmBackward0", "", "", "", 1},
          {8, 7, "aten::mm", floats(1, 8) + ", " + floats(3, 8), floats(4, 4),
           "aten::mm(Tensor self, Tensor mat2) -> Tensor"},
          {9, 1, "Optimizer.step#SGD.step", "", "", "", 7},
          {10, 9, "aten::add_", floats(2, 4) + ", " + floats(4, 4), floats(2, 4), add}};
}

TracedGraph traced(const std::string& text, const KinetoTrace* kineto = nullptr) {
  return traced_graph(parse_pytorch_trace(text, "et.json"), "et.json", kineto, "kineto.json");
}

std::string refused_trace(const std::string& text) {
  return test::refusal_text([&] { traced(text); });
}

std::string graph_text(const Graph& graph) {
  std::ostringstream out;
  write_graph(graph, out);
  return out.str();
}

/// A Kineto event on a thread of process 7, or of a kernel; times in microseconds.
std::string event(const char* category, const std::string& name, int start, int duration,
                  const std::string& arguments) {
  const bool kernel = std::string{category} == "kernel";
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
      category, name, kernel ? 0 : 7, kernel ? 20 : 9, start, duration, arguments);
}

std::string kineto_of(const std::vector<std::string>& events) {
  std::string text = R"({"schemaVersion": 1, "traceEvents": [)";
  for (std::size_t i = 0; i < events.size(); ++i) text += (i ? ",\n" : "\n") + events[i];
  return text + "]}\n";
}

/// Kineto's trace of the step: two kernels in the first mm (3 and 4 us), one in relu_ (5 us), one in the backward mm (2
/// us), none in add_.
std::string small_kineto(bool record_functions = false) {
  std::vector<std::string> events;
  int number = 0;
  for (const auto& [name, start, duration] :
       std::vector<std::tuple<std::string, int, int>>{{"aten::linear", 0, 50},
                                                      {"aten::t", 1, 2},
                                                      {"aten::mm", 5, 40},
                                                      {"aten::relu_", 60, 10},
                                                      {"MmBackward0", 80, 30},
                                                      {"aten::mm", 85, 20},
                                                      {"Optimizer.step#SGD.step", 120, 30},
                                                      {"aten::add_", 125, 20}}) {
    ++number;
    events.push_back(event("cpu_op", name, start, duration,
                           record_functions ? fmt::format(R"("Record function id": {})", number) : ""));
  }
  int correlation = 0;
  for (const auto& [launch, duration] : std::vector<std::pair<int, int>>{{10, 3}, {20, 4}, {62, 5}, {90, 2}}) {
    ++correlation;
    events.push_back(
        event("cuda_runtime", "cudaLaunchKernel", launch, 1, fmt::format(R"("correlation": {})", correlation)));
    events.push_back(
        event("kernel", "k", launch + 100, duration, fmt::format(R"("correlation": {}, "device": 0)", correlation)));
  }
  return kineto_of(events);
}

}  // namespace

TEST_CASE("an execution trace is ops and the storages that they pass on; views are no ops, in-place ops new versions") {
  const TracedGraph step = traced(trace_of(small_step()));
  // linear is the caller of mm, and t makes a view: the ops are mm, relu_, mm and add_.
  REQUIRE(step.graph.op_count() == 4);
  const Graph& graph = step.graph;
  CHECK(graph.name(OpId{0}) == "aten::mm.5");
  CHECK(graph.type(OpId{1}) == "aten::relu_");
  CHECK(graph.phase(OpId{2}) == Phase::backward);
  CHECK(graph.phase(OpId{3}) == Phase::update);
  // mm -> relu_ -> mm -> add_: the backward mm reads the 8 floats of relu_.
  REQUIRE(graph.inputs(OpId{2}).size() == 1);
  CHECK(graph.producer(graph.inputs(OpId{2})[0]) == OpId{1});
  CHECK(graph.bytes(graph.inputs(OpId{2})[0]).count == 32);
  CHECK(step.whole.edges == 3);
  CHECK(step.whole.edge_bytes == 32 + 32 + 16);
  // w is read first and written only by the update, so it is a parameter. The update op holds it, and its readers are
  // colocated with the update.
  CHECK(step.parameters == 1);
  CHECK(graph.parameter_bytes(OpId{3}).count == 16);
  CHECK(graph.colocation_group(OpId{0}) == graph.colocation_group(OpId{3}));
  CHECK(graph.colocation_group(OpId{1}).empty());
  // mm reads 8 + 4 floats and writes 8.
  CHECK(graph.bytes_accessed(OpId{0}).count == 80);
}

TEST_CASE("both dialects of execution traces give the same graph") {
  CHECK(graph_text(traced(trace_of(small_step(), true)).graph) == graph_text(traced(trace_of(small_step())).graph));
}

TEST_CASE("bytes of a storage belong to who wrote them last, and an allocation ends what was there") {
  const std::string copy = "aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)";
  const std::string neg = "aten::neg(Tensor self) -> Tensor";
  // Two copies write the halves of storage 3, and op 5 reads both. Then the memory is allocated anew, so op 8 reads
  // neither.
  const TracedGraph step =
      traced(trace_of({{3, 1, "aten::copy_", floats(3, 8) + ", " + floats(1, 8), floats(3, 8), copy},
                       {4, 1, "aten::copy_", floats(3, 8, 8) + ", " + floats(2, 8), floats(3, 8, 8), copy},
                       {5, 1, "aten::neg", floats(3, 16), floats(4, 16), neg},
                       {6, 1, "aten::neg", floats(3, 4, 8), floats(5, 4), neg},
                       {7, 1, "aten::empty", "", floats(3, 16), "aten::empty(int[] size) -> Tensor"},
                       {8, 1, "aten::neg", floats(3, 16), floats(6, 16), neg}}));
  const Graph& graph = step.graph;
  REQUIRE(graph.op_count() == 5);
  CHECK(graph.inputs(OpId{2}).size() == 2);
  REQUIRE(graph.inputs(OpId{3}).size() == 1);
  CHECK(graph.producer(graph.inputs(OpId{3})[0]) == OpId{1});
  CHECK(graph.inputs(OpId{4}).empty());
  CHECK(step.whole.edge_bytes == 32 + 32 + 16);
  CHECK(contains(step.notes.front(), "1 op read allocated memory"));
}

TEST_CASE("an op over lists of tensors is an op for each element, and their times are its time") {
  std::vector<Call> calls = small_step();
  // One _foreach_add_ over w (4 floats) and a second parameter (12 floats, storage 9), which call 8 reads too.
  calls.pop_back();
  calls.push_back({10, 9, "aten::_foreach_add_",
                   fmt::format("[{}, {}], [{}, {}]", floats(2, 4), floats(9, 12), floats(4, 4), floats(8, 12)), "",
                   "aten::_foreach_add_(Tensor(a!)[] self, Tensor[] other) -> ()"});
  calls.insert(calls.begin() + 4, {7, 1, "MulBackward0", "", "", "", 1});
  calls[5].id = 11, calls[5].parent = 11;
  calls.erase(calls.begin() + 5);
  calls.insert(calls.begin() + 6, {9, 1, "Optimizer.step#SGD.step", "", "", "", 7});
  calls.erase(calls.begin() + 7);
  for (Call& call : calls)
    if (call.id == 8) call.arguments += ", " + floats(9, 12);
  const TracedGraph step = traced(trace_of(calls));
  const Graph& graph = step.graph;
  REQUIRE(graph.op_count() == 5);
  CHECK(step.whole.ops == 4);
  CHECK(graph.name(OpId{3}) == "aten::_foreach_add_.10.0");
  CHECK(graph.parameter_bytes(OpId{3}).count == 16);
  CHECK(graph.parameter_bytes(OpId{4}).count == 48);
  // The first element reads the gradient of the backward op. The second gradient has no producer in the trace.
  CHECK(graph.inputs(OpId{3}).size() == 1);
  CHECK(graph.inputs(OpId{4}).empty());
}

TEST_CASE("repeated steps are cut at their marks, and a step that the trace ends in is left out") {
  std::vector<Call> calls;
  int id = 2;
  for (int step = 0; step < 3; ++step) {
    calls.push_back({id, 1, fmt::format("ProfilerStep#{}", step), "", "", "", 7});
    for (Call call : small_step()) {
      call.parent = call.parent == 1 ? id : call.parent + id - 2;
      call.id += id - 2;
      if (step < 2 || call.id < id + 6) calls.push_back(call);
    }
    id += 20;
  }
  const TracedGraph traced_steps = traced(trace_of(calls));
  REQUIRE(traced_steps.steps.size() == 3);
  CHECK(traced_steps.step == 1);
  CHECK(traced_steps.graph.op_count() == 4);
  CHECK(traced_steps.graph.name(OpId{0}) == "aten::mm.25");
}

TEST_CASE("kernels are charged to the ops that launch them, by record function or by name and order") {
  std::vector<Call> calls = small_step();
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i].rf_id = static_cast<int>(i) + 1;
  for (const bool record_functions : {false, true}) {
    const KinetoTrace kineto = parse_kineto(small_kineto(record_functions), "kineto.json");
    const TracedGraph step = traced(trace_of(calls), &kineto);
    REQUIRE(step.link);
    CHECK(step.link->by_record_function == record_functions);
    CHECK(step.link->linked == 8);
    CHECK(step.link->same_process);
    const auto time = [&](std::size_t op) { return step.graph.given_times(OpId{op}).front().time.count; };
    CHECK(time(0) == 3'000 + 4'000);
    CHECK(time(1) == 5'000);
    CHECK(time(2) == 2'000);
    CHECK(time(3) == 0);
    CHECK(step.link->gpu.least_gap == Nanoseconds{100'000});
    // Outermost ops: linear from 110 to 124 us, relu_, MmBackward0.
    REQUIRE(step.link->outermost.size() == 3);
    CHECK(step.link->outermost[0].name == "aten::linear");
    CHECK(step.link->outermost[0].span == Nanoseconds{14'000});
    CHECK(step.link->outermost[0].sum == Nanoseconds{7'000});
  }
}

TEST_CASE("times of another process are told, and a Kineto file of another program is refused") {
  std::string text = trace_of(small_step());
  text.replace(text.find("\"pid\": 7"), 8, "\"pid\": 8");
  const KinetoTrace kineto = parse_kineto(small_kineto(), "kineto.json");
  CHECK(contains(traced(text, &kineto).notes.front(), "another run"));
  const KinetoTrace other = parse_kineto(kineto_of({event("cpu_op", "aten::neg", 0, 10, "")}), "kineto.json");
  const Finding finding = test::finding_of([&] { traced(trace_of(small_step()), &other); });
  CHECK(finding.code == "other-run");
  CHECK(finding.at.file == "kineto.json");
}

TEST_CASE("times of Kineto are exact to the nanosecond, and events by signature are a profile") {
  const std::string text = kineto_of(
      {R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 9, "ts": 4458676522690.655, )"
       R"("dur": 20.5, "args": {"Input Dims": [[2, 3], [3, 4], []], "Input type": ["float", "float", )"
       R"("Scalar"]}})",
       R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 9, "ts": )"
       R"(4458676522692.001, "dur": 1, "args": {"correlation": 5}})",
       R"({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 20, "ts": 4458676522700, "dur": 1.25, )"
       R"("args": {"correlation": 5, "device": 0}})",
       R"({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 20, "ts": 1739425750467006, "dur": 2, )"
       R"("args": {"correlation": 6, "device": 0}})"});
  const KinetoTrace kineto = parse_kineto(text, "kineto.json");
  CHECK(kineto.events[0].start == 4458676522690655);
  CHECK(kineto.events[0].duration == 20500);
  CHECK(kineto.activities[1].start == 1739425750467006000);
  CHECK(gpu_times(kineto).unlaunched == 1);
  const Profile profile = kineto_profile(kineto, "kineto.json");
  REQUIRE(profile.ops.size() == 1);
  CHECK(profile.ops[0].signature == "aten::mm float[2,3] float[3,4]");
  CHECK(profile.ops[0].samples.kept == std::vector<Nanoseconds>{Nanoseconds{1250}});
}

TEST_CASE("an op whose kernels run on two GPUs is measured on each by its own kernels") {
  const auto launch = [](int number, int at) {
    return fmt::format(R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 9, )"
                       R"("ts": {}, "dur": 1, "args": {{"correlation": {}}}}})",
                       at, number);
  };
  const auto kernel = [](int number, int device, double duration) {
    return fmt::format(R"({{"ph": "X", "cat": "kernel", "name": "copy", "pid": {0}, "tid": 20, "ts": 200, "dur": {1}, )"
                       R"("args": {{"correlation": {2}, "device": {0}}}}})",
                       device, duration, number);
  };
  const std::string text = kineto_of(
      {R"({"ph": "X", "cat": "cpu_op", "name": "aten::copy_", "pid": 7, "tid": 9, "ts": 100, "dur": 20, )"
       R"("args": {"Input Dims": [[2]], "Input type": ["float"]}})",
       launch(5, 102), launch(6, 104), launch(8, 106), kernel(5, 0, 1.25), kernel(6, 1, 2), kernel(8, 0, 0.5)});
  const Profile profile = kineto_profile(parse_kineto(text, "kineto.json"), "kineto.json");
  REQUIRE(profile.ops.size() == 2);
  CHECK(profile.ops[0].device == "gpu0");
  CHECK(profile.ops[0].samples.kept == std::vector<Nanoseconds>{Nanoseconds{1250 + 500}});
  CHECK(profile.ops[1].device == "gpu1");
  CHECK(profile.ops[1].samples.kept == std::vector<Nanoseconds>{Nanoseconds{2000}});
}

TEST_CASE("products and convolutions have FLOPs by their shapes") {
  CHECK(trace_flops("aten::mm", {{2, 3}, {3, 4}}, 8) == 2 * 2 * 3 * 4);
  CHECK(trace_flops("aten::addmm", {{4}, {2, 3}, {3, 4}}, 8) == 2 * 2 * 3 * 4);
  CHECK(trace_flops("aten::bmm", {{5, 2, 3}, {5, 3, 4}}, 40) == 5 * 2 * 2 * 3 * 4);
  // 2 samples x 8 channels of 4 x 4 outputs, each the sum of 3 x 3 x 3 products.
  CHECK(trace_flops("aten::cudnn_convolution", {{2, 3, 4, 4}, {8, 3, 3, 3}}, 256) == 2 * 256 * 27);
  CHECK(trace_flops("aten::convolution_backward", {{2, 8, 4, 4}, {2, 3, 4, 4}, {8, 3, 3, 3}}, 96) == 4 * 256 * 27);
  CHECK(trace_flops("aten::add", {{2, 3}, {2, 3}}, 6) == 0);
}

TEST_CASE("what is wrong with an execution trace is said at its place") {
  const std::string good = trace_of(small_step());
  CHECK(contains(refused_trace(good.substr(0, good.size() / 2)), "cut short"));
  std::vector<Call> calls = small_step();
  calls[1].id = 3;
  CHECK(contains(refused_trace(trace_of(calls)), "the id 3 occurs twice"));
  calls = small_step();
  calls[1].parent = 9;
  CHECK(contains(refused_trace(trace_of(calls)), "node 4 is called by node 9, which starts after it"));
  std::string other = good;
  other.replace(other.find("1.0.1"), 5, "3.0.1");
  CHECK(contains(refused_trace(other), "execution traces of schema '3.0.1' are not supported"));
  std::string mixed = trace_of(small_step(), true);
  mixed.replace(mixed.find("1.1.0-chakra.0.0.4"), 18, "1.0.1");
  CHECK(contains(refused_trace(mixed), "two dialects in one file"));
  std::string nameless = good;
  nameless.replace(nameless.find("\"name\""), 6, "\"mane\"");
  CHECK(contains(refused_trace(nameless), "a node needs \"id\", \"name\" and \"parent\""));
  CHECK(contains(refused_trace(R"({"schema": "1.0.1", "nodes": []})"), "has no nodes"));
  std::string plain = good;  // one node in the other dialect
  plain.replace(plain.find("\"parent\": 3"), 11, "\"ctrl_deps\": 3");
  CHECK(contains(refused_trace(plain), "two dialects in one file"));
  std::string latin = good;
  latin.replace(latin.find("aten::relu_"), 4, "at\xe9n");
  CHECK(contains(refused_trace(latin), "UTF-8"));
  const std::string kineto = small_kineto();
  for (const auto& each : std::vector<std::pair<std::string, const char*>>{
           {kineto.substr(0, kineto.size() / 2), "cut short"},
           {"{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"\xff\"}]}",
            "UTF-8"},
           {R"({"schemaVersion": 1, "traceEvents": []})", "no trace events"}}) {
    const std::string message = test::refusal_text([&] { parse_kineto(each.first, "kineto.json"); });
    CHECK_MESSAGE(contains(message, each.second), message);
  }
  CHECK(contains(refused_trace(trace_of({{3, 1, "label", "", "", "", 7}})), "no ops that compute"));
  std::vector<Call> deep;
  for (int i = 2; i < 1'100; ++i) deep.push_back({i, i - 1, "label", "", "", "", 7});
  CHECK(contains(refused_trace(trace_of(deep)), "calls nest deeper than 1000"));
}

TEST_CASE("infinities that old writers left bare are numbers, and those in strings stay") {
  std::vector<Call> calls = small_step();
  std::string text = trace_of(calls);
  const std::size_t at = text.find("[[1, 1, 0, 8");
  text.insert(at + 1, "-inf, nan, ");
  text.insert(text.find("\"input_types\": [", at) + 16, "\"Double\", \"inf\", ");
  CHECK(graph_text(traced(text).graph) == graph_text(traced(trace_of(calls)).graph));
}

namespace {

nlohmann::json answers(const std::filesystem::path& folder, const std::string& name) {
  return nlohmann::json::parse(read_input(folder / (name + ".json")));
}

void check_answers(const std::string& name, const std::string& trace, const std::string& kineto = "") {
  CAPTURE(name);
  const auto folder = test::reference_data("answers/traces"), file = test::reference_data(trace);
  const auto times = kineto.empty() ? std::nullopt : test::reference_data(kineto);
  if (!folder || !file || (!kineto.empty() && !times)) return test::report_skipped("no reference data");
  const nlohmann::json answer = answers(*folder, name);
  const TracedGraph traced = read_traced_graph(*file, times.value_or(""), "");
  CHECK(traced.schema == answer["schema"]);
  CHECK(traced.nodes == answer["nodes"]);
  CHECK(traced.whole.ops == answer["ops"]);
  CHECK(traced.whole.forward == answer["phases"].value("forward", 0u));
  CHECK(traced.whole.backward == answer["phases"].value("backward", 0u));
  CHECK(traced.whole.update == answer["phases"].value("update", 0u));
  CHECK(traced.whole.edges == answer["edges"]);
  CHECK(traced.whole.edge_bytes == answer["edge_bytes"]);
  CHECK(traced.parameters == answer["parameters"]);
  CHECK(traced.parameter_bytes == answer["parameter_bytes"]);
  CHECK(traced.states == answer["states"]);
  CHECK(traced.state_bytes == answer["state_bytes"]);
  std::size_t counted = 0;
  for (const auto& step : answer["steps"]) {
    if (step["ops"] == 0) continue;
    REQUIRE(counted < traced.steps.size());
    CHECK(traced.steps[counted].name == step["name"]);
    CHECK(traced.steps[counted].edges == step["edges"]);
    CHECK(traced.steps[counted].edge_bytes == step["edge_bytes"]);
    if (step.contains("serial_gpu_ns")) CHECK(traced.steps[counted].gpu_ns == step["serial_gpu_ns"]);
    ++counted;
  }
  CHECK(counted == traced.steps.size());
  if (answer.contains("collectives")) CHECK(traced.messages.size() == answer["collectives"]["count"]);
  if (kineto.empty()) return;
  CHECK(traced.link->linked == answer["link"]["linked"]);
  CHECK(traced.link->charged_ns == answer["charge"]["charged_ns"]);
  CHECK(traced.link->outside_ns == answer["charge"]["not_linked_ns"]);
  CHECK(traced.link->same_process == answer["same_pid"]);
  // The sum of the graph's op times equals the time that the step's kernels took on the GPU.
  std::int64_t serial = 0;
  for (const OpId op : traced.graph.ops()) serial += traced.graph.given_times(op).front().time.count;
  CHECK(serial == traced.steps[traced.step].gpu_ns);
  if (!answer.contains("triosim_rule_us")) return;
  REQUIRE(traced.link->outermost.size() == answer["triosim_rule_us"].size());
  for (std::size_t i = 0; i < traced.link->outermost.size(); ++i) {
    const OutermostOp& op = traced.link->outermost[i];
    CHECK(nlohmann::json::array({op.name, op.span.count / 1000, op.sum.count / 1000}) == answer["triosim_rule_us"][i]);
  }
}

}  // namespace

TEST_CASE("public execution traces have the ops, edges, parameters and GPU times of the reference answers") {
  const std::string pairs = "formats/pytorch-et-kineto/";
  check_answers("vgg13", pairs + "triosim/vgg13_b512_h100_et.json.gz",
                pairs + "triosim/vgg13_b512_h100_kineto.json.gz");
  check_answers("linear", "traces/linear_et.json.gz", pairs + "param/linear_kineto.json.gz");
  check_answers("resnet18_b2", "traces/resnet18_b2.et.json.gz");
  check_answers("resnet_1gpu_103", "traces/1.0.3-chakra.0.0.4__resnet_1gpu_et.json.gz");
  check_answers("resnet_2gpu_110", pairs + "param/1.1.0-chakra.0.0.4__resnet_2gpu_et.json.gz");
  check_answers("resnet_1gpu_103_other_run", "traces/1.0.3-chakra.0.0.4__resnet_1gpu_et.json.gz",
                pairs + "hta/nccl_data_kineto.json.gz");
}

TEST_CASE("public traces of Kineto have the GPU times of the reference answers") {
  const auto folder = test::reference_data("answers/traces");
  if (!folder) return test::report_skipped("no reference data");
  const nlohmann::json files = answers(*folder, "kineto");
  for (const auto& item : files.items()) {
    const std::string& name = item.key();
    const nlohmann::json& answer = item.value();
    CAPTURE(name);
    const std::string inner = name == "resnet_kineto" || name == "linear_kineto" ? "param/" : "hta/";
    const std::string stem = name.ends_with("_kineto") ? name : name + "_kineto";
    const auto file = test::reference_data("formats/pytorch-et-kineto/" + inner + stem + ".json.gz");
    REQUIRE(file);
    const KinetoTrace trace = parse_kineto(read_input(*file), name);
    const GpuTimes times = gpu_times(trace);
    std::size_t kernels = 0;
    std::int64_t total = 0, busy = 0, span = 0, communication = 0, exposed = 0;
    for (const auto& [device, each] : answer["devices"].items()) {
      kernels += each["kernels"].get<std::size_t>();
      total += each["activity_ns"].get<std::int64_t>();
      busy += each["busy_ns"].get<std::int64_t>();
      span += each["span_ns"].get<std::int64_t>();
      communication += each["comm_ns"].get<std::int64_t>();
      exposed += each["exposed_comm_ns"].get<std::int64_t>();
    }
    CHECK(times.kernels == kernels);
    CHECK(times.total.count == total);
    CHECK(times.busy.count == busy);
    CHECK(times.span.count == span);
    CHECK(times.communication.count == communication);
    CHECK(times.exposed_communication.count == exposed);
    if (answer["launch_gap"]["n"] != 0) CHECK(times.median_gap->count == answer["launch_gap"]["median_ns"]);
  }
}

TEST_CASE("a run is a trace of Kineto for each rank, whose kernels, transfers and idle times are the run's") {
  // Op a on gpu0 (10 us) sends 1,000,000 bytes to b on gpu1 (20 us), which sends them back to c on gpu0 (30 us). Op d
  // on gpu0 (5.5 us) follows a.
  GraphBuilder builder{"toy"};
  const auto op = [&](const char* name, std::int64_t nanoseconds, std::vector<std::string> inputs,
                      std::vector<std::string> after) {
    builder.add({.name = name,
                 .times = {{"gpu", Nanoseconds{nanoseconds}}},
                 .inputs = std::move(inputs),
                 .outputs = {{std::string{name} + ":0", Bytes{1'000'000}}},
                 .after = std::move(after)});
  };
  op("a", 10'000, {}, {});
  op("b", 20'000, {"a:0"}, {});
  op("c", 30'000, {"b:0"}, {});
  op("d \"quoted\"", 5'500, {}, {"a"});
  const ClusterSpec pair = parse_cluster(
      "name = \"pair\"\ndevice = [{name = \"gpu0\", class = \"gpu\"}, {name = \"gpu1\", class = \"gpu\"}]\n"
      "link = [{name = \"l\", from = \"gpu0\", to = \"gpu1\", bandwidth = \"10 GB/s\"}]\n",
      "pair");
  const Problem problem{std::move(builder).build(), make_cluster(pair)};
  Schedule schedule;
  schedule.placement = IdMap<OpId, DeviceId>(4, DeviceId{0});
  schedule.placement[OpId{1}] = DeviceId{1};
  const Timeline timeline = simulate(problem, schedule);
  std::vector<KinetoTrace> ranks;
  for (const DeviceId device : problem.devices()) {
    std::ostringstream out;
    write_kineto(problem, schedule.placement, timeline, device, out);
    CHECK(contains(out.str(), device.index() == 0 ? "\"rank\": 0," : "\"rank\": 1,"));  // readers expect the blank
    CHECK(is_kineto(out.str()));
    ranks.push_back(parse_kineto(out.str(), "run.json"));
  }
  // Rank 0 runs a, d and c and has 2 transfers of 100 us; d runs during the first.
  const GpuTimes first = gpu_times(ranks[0]);
  CHECK(first.kernels == 5);
  CHECK(first.total == Nanoseconds{10'000 + 5'500 + 30'000 + 200'000});
  CHECK(first.span == Nanoseconds{260'000});
  CHECK(first.communication == Nanoseconds{200'000});
  CHECK(first.exposed_communication == Nanoseconds{200'000 - 5'500});
  CHECK(first.unlaunched == 0);
  CHECK(ranks[0].rank == 0);
  CHECK(gpu_times(ranks[1]).total == Nanoseconds{20'000 + 200'000});
  std::vector<std::string> names;
  for (const OutermostOp& each : outermost_ops(ranks[0])) names.push_back(each.name);
  CHECK(fmt::format("{}", fmt::join(names, ",")) == "a,d \"quoted\",nccl:send,nccl:recv,c");
}
