// Published times of single GPU kernels: errors of the kernel forms and of the roofline, by class and GPU.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "published_kernel.hpp"
#include "suite.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/input_text.hpp"

namespace trainyard::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Errors {
  std::vector<double> form, roofline;

  void add(const PublishedKernel& kernel) {
    GraphBuilder builder;
    builder.add({.name = "kernel",
                 .type = kernel.type,
                 .signature = kernel.signature,
                 .flops = Flops{kernel.flops},
                 .bytes_accessed = Bytes{static_cast<std::int64_t>(kernel.bytes)}});
    const Graph graph = std::move(builder).build();
    const Device device = make_device(*find_device_kind(kernel.kind), "gpu0");
    CostModel forms;
    forms.kernels = KernelOptions{.floor = kernel.floor};
    const auto error = [&](const CostModel& costs) {
      return std::abs(seconds(costs.op_cost(graph, OpId{0}, device)->time) / kernel.seconds - 1);
    };
    form.push_back(error(forms));
    roofline.push_back(error(CostModel::roofline()));
  }
};

const std::map<std::string, std::string> kKinds{
    {"Tesla P4", "P4"},
    {"Tesla P100-PCIE-16GB", "P100-PCIe-16GB"},
    {"Tesla T4", "T4"},
    {"Tesla V100-PCIE-32GB", "V100-PCIe-32GB"},
    {"NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB"},
    {"NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"},
    {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"},
    {"V100-SXM2 (DGX-1)", "V100-SXM2-16GB"},
    {"P100-PCIe", "P100-PCIe-16GB"},
};

/// Rows of a CSV table with a header, by column name.
std::vector<std::map<std::string, std::string>> read_rows(const fs::path& file) {
  std::istringstream text{read_input(file.string())};
  const auto cells = [](const std::string& line) {
    std::vector<std::string> all;
    std::istringstream in{line};
    for (std::string cell; std::getline(in, cell, ',');) all.push_back(cell);
    return all;
  };
  std::string line;
  std::getline(text, line);
  const std::vector<std::string> names = cells(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(text, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const std::vector<std::string> values = cells(line);
    if (values.size() < names.size())
      throw InputError(
          {"bad-row",
           fmt::format("line {} has {} cells, its header {}", rows.size() + 2, values.size(), names.size()),
           "give the published file",
           file.string(),
           {}});
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) row.emplace(names[i], values[i]);
  }
  return rows;
}

double number(const std::map<std::string, std::string>& row, const std::string& column) {
  const auto at = row.find(column);
  double value = 0;
  const char* end = at == row.end() ? nullptr : at->second.data() + at->second.size();
  if (end == nullptr || std::from_chars(at->second.data(), end, value).ec != std::errc{})
    throw InputError(
        {"bad-number", fmt::format("a row has no number in column '{}'", column), "give the published file", "", {}});
  return value;
}

PublishedKernel neusight_kernel(const std::string& table, const std::map<std::string, std::string>& row) {
  const auto kind = kKinds.find(row.at("Device"));
  if (kind == kKinds.end())
    throw InputError({"unknown-device", fmt::format("no kind for device '{}'", row.at("Device")), "", "", {}});
  PublishedKernel kernel{.kind = kind->second, .flops = 0, .bytes = 0, .seconds = number(row, "Latency") * 1e-3};
  const double b = number(row, "B");
  if (table == "linear" || table == "bmm") {
    const double m = number(row, "M"), n = number(row, "N"), k = number(row, "K");
    kernel.type = table == "linear" ? "Linear" : "MatMul";
    kernel.signature =
        table == "linear"
            ? fmt::format("Linear(float32[{0},{2}],float32[{2},{1}])->float32[{0},{1}]", m, n, k)
            : fmt::format("MatMul(float32[{3},{0},{2}],float32[{3},{2},{1}])->float32[{3},{0},{1}]", m, n, k, b);
    kernel.flops = 2 * b * m * n * k;
    kernel.bytes = 4 * b * (m * k + k * n + m * n);
    return kernel;
  }
  const double h = number(row, "H");
  const std::string x = fmt::format("float32[{:.0f},{:.0f}]", b, h), &op = row.at("OPName");
  const bool two = op == "add" || op == "mul" || op == "div" || op == "pow";
  const std::map<std::string, std::string> types{{"softmax", "Softmax"}, {"ln", "LayerNormalization"},
                                                 {"add", "Add"},         {"mul", "Mul"},
                                                 {"div", "Div"},         {"pow", "Pow"},
                                                 {"addu", "Add"},        {"mulu", "Mul"},
                                                 {"divu", "Div"},        {"powu", "Pow"},
                                                 {"tanh", "Tanh"},       {"relu", "Relu"},
                                                 {"gelu", "Gelu"},       {"subu", "Sub"}};
  kernel.type = types.contains(op) ? types.at(op) : "Relu";
  kernel.signature = fmt::format("{}({}{})->{}", kernel.type, x, two ? "," + x : "", x);
  kernel.bytes = 4 * (two ? 3 : 2) * b * h;
  kernel.flops = b * h;
  return kernel;
}

/// The kernels of a DeepBench convolution: forward and both gradients, with their classes.
std::vector<std::pair<std::string, PublishedKernel>> convolutions(const json& row) {
  const json& s = row.at("shape");
  const auto size = [&](const char* key) { return s.at(key).get<double>(); };
  const double oh = std::floor((size("h") + 2 * size("pad_h") - size("r")) / size("stride_h")) + 1;
  const double ow = std::floor((size("w") + 2 * size("pad_w") - size("s")) / size("stride_w")) + 1;
  const bool is_short = row.at("precision").get<std::string>().find("16") != std::string::npos;
  const std::string type = is_short ? "float16" : "float32";
  const std::string x = fmt::format("{}[{},{},{},{}]", type, size("n"), size("c"), size("h"), size("w"));
  const std::string w = fmt::format("{}[{},{},{},{}]", type, size("k"), size("c"), size("r"), size("s"));
  const std::string y = fmt::format("{}[{},{},{},{}]", type, size("n"), size("k"), oh, ow);
  const double elements = size("n") * size("c") * size("h") * size("w") + size("n") * size("k") * oh * ow +
                          size("k") * size("c") * size("r") * size("s");
  PublishedKernel kernel{.kind = kKinds.at(row.at("gpu_kind")),
                         .flops = 2 * size("n") * size("k") * oh * ow * size("c") * size("r") * size("s"),
                         .bytes = (is_short ? 2 : 4) * elements,
                         .seconds = 0};
  std::vector<std::pair<std::string, PublishedKernel>> all;
  const auto add = [&](const char* key, const std::string& op, const std::string& signature, const char* name) {
    if (!row.contains(key) || !row[key].is_number() || row[key].get<double>() <= 0) return;
    kernel.type = op;
    kernel.signature = op + signature;
    kernel.seconds = row[key].get<double>() * 1e-3;
    all.emplace_back(fmt::format("{}, {}", name, row.at("precision").get<std::string>()), kernel);
  };
  add("time_ms", "Conv", fmt::format("({},{})->{}", x, w, y), "conv");
  add("backward_inputs_ms", "ConvGradX", fmt::format("({},{})->{}", y, w, x), "conv data");
  add("backward_weights_ms", "ConvGradW", fmt::format("({},{})->{}", y, x, w), "conv filter");
  return all;
}

using ErrorTable = std::map<std::pair<std::string, std::string>, Errors>;

void add_neusight(ErrorTable& table, const fs::path& folder) {
  for (const char* name : {"linear", "bmm", "softmax", "ln", "elem"}) {
    const fs::path file = folder / "formats/neusight/ops" / (std::string{name} + ".csv.gz");
    for (const auto& row : read_rows(file)) {
      const PublishedKernel kernel = neusight_kernel(name, row);
      table[{name, kernel.kind}].add(kernel);
    }
  }
}

void add_deepbench(ErrorTable& table, const fs::path& folder) {
  const fs::path file = folder / "published/kernels.json";
  json all;
  try {
    all = json::parse(read_input(file.string()));
    for (const json& row : all.at("data"))
      if (row.at("source") == "deepbench" && row.at("op") == "conv")
        for (const auto& [name, kernel] : convolutions(row)) table[{name, kernel.kind}].add(kernel);
  } catch (const json::exception& error) {
    throw InputError({"bad-kernels",
                      fmt::format("no table of kernels: {}", error.what()),
                      "give the published file",
                      file.string(),
                      {}});
  }
}

void add_aceso(ErrorTable& table, const fs::path& folder) {
  const fs::path archive = folder / "formats/aceso/profiled.tar.gz";
  if (!fs::exists(archive)) return;
  for (const NamedKernel& each : aceso_kernels(archive))
    table[{"Aceso " + each.name, each.kernel.kind}].add(each.kernel);
}

}  // namespace

int run_kernels(const SuiteOptions& options, std::ostream& out) {
  if (options.data.empty()) {
    if (options.smallest) {
      out << "kernels: needs --data FOLDER\n";
      return 0;
    }
    throw InputError({"no-data",
                      "kernels reads published measurements, which do not ship with this project",
                      "--data FOLDER with published/kernels.json and formats/neusight/ops/*.csv.gz",
                      "",
                      {}});
  }
  ErrorTable errors;
  add_neusight(errors, options.data);
  add_deepbench(errors, options.data);
  add_aceso(errors, options.data);
  out << "mean of |predicted / measured - 1|, kernels alone (parameters were fitted to these rows; their held-out\n"
         "errors: data/calibrations/kernels.json)\n\n"
         "| class | GPU | rows | form % | median | p90 | roofline % |\n"
         "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n";
  for (const auto& [key, of] : errors)
    out << fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", key.first, key.second, of.form.size(),
                       100 * mean_of(of.form), 100 * quantile_of(of.form, 0.5), 100 * quantile_of(of.form, 0.9),
                       100 * mean_of(of.roofline));
  return 0;
}

}  // namespace trainyard::bench
