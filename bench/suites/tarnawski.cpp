// Tarnawski et al., NeurIPS 2020: time per sample of a full pipeline on 6 accelerators (3 for BERT-3 and BERT-6) and a
// CPU, as ratios to one accelerator.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "suite.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/foreign/dnn_load.hpp"
#include "trainyard/io/foreign/dnn_partitioning.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/place/load/ideal_dp.hpp"
#include "trainyard/place/load/load_search.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/from_problem.hpp"

namespace trainyard::bench {
namespace {

/// Times published for the authors' programs on their inputs, in ms; 0: not published.
struct TarnawskiRow {
  std::string file;     // in the folder of workloads
  std::string network;  // network of the zoo that replaces a missing file; may be empty
  std::size_t accelerators;
  double one, expert, contiguous, linear, any;
};

const std::vector<TarnawskiRow> kTarnawskiRows{
    {"LayerGraphs/bert24_inference", "", 6, 92.406, 20.084, 17.7899, 17.7899, 17.7147},
    {"LayerGraphs/bert24_training", "bert_large:batch=1,seq=128", 6, 217.813, 49.4049, 41.7458, 41.7458, 39.7895},
    {"LayerGraphs/resnet50_inference", "", 6, 201.45, 43.918, 33.7747, 33.7747, 0},
    {"LayerGraphs/resnet50_training", "resnet50:batch=1", 6, 462.381, 112.108, 78.6318, 78.6498, 0},
    {"LayerGraphs/gnmt_inference", "", 6, 182.563, 46.2085, 32.9107, 33.0326, 31.687},
    {"LayerGraphs/gnmt_training", "gnmt:batch=1,steps=4", 6, 520.453, 137.154, 107.004, 107.004, 90.9476},
    {"LayerGraphs/inceptionv3_inference", "", 6, 310.969, 102.482, 51.5519, 51.5519, 0},
    {"LayerGraphs/inceptionv3_training", "inception_v3:batch=1", 6, 710.738, 213.654, 122.7616, 123.93, 0},
    {"OperatorGraphs/bert_l-3_inference", "", 3, 49.353, 0, 27.9186, 27.9186, 21.9084},
    {"OperatorGraphs/bert_l-3_training", "", 3, 122.987, 0, 65.3031, 65.3031, 54.2074},
    {"OperatorGraphs/bert_l-6_inference", "", 3, 77.462, 0, 29.5795, 29.5795, 28.3322},
    {"OperatorGraphs/bert_l-6_training", "", 3, 192.917, 0, 72.865, 72.865, 0},
    {"OperatorGraphs/bert_l-12_inference", "", 6, 642.78, 0, 147.478, 147.478, 0},
    {"OperatorGraphs/bert_L-12_training", "", 6, 1891.74, 0, 437.998, 437.998, 0},
    {"OperatorGraphs/resnet50_inference", "", 6, 325.132, 0, 124.349, 124.349, 124.349},
    {"OperatorGraphs/resnet50_training", "", 6, 684.891, 0, 255.194, 255.194, 0},
};
struct Value {
  std::optional<double> load;  // ms
  double seconds = 0;
};

Value timed(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  Value value;
  try {
    value.load = work();
  } catch (const InputError&) {  // too many ideals, or no feasible split
  }
  value.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return value;
}

std::string cell(const Value& value, double one) { return value.load ? fmt::format("{:.4f}", *value.load / one) : "-"; }
std::string published(double value, double one) { return value > 0 ? fmt::format("{:.4f}", value / one) : "-"; }

}  // namespace

int run_tarnawski(const SuiteOptions& options, std::ostream& out) {
  using Align = TextTable::Align;
  TextTable table{{{"workload"},
                   {"one accelerator", Align::right},
                   {"published", Align::right},
                   {"expert", Align::right},
                   {"published", Align::right},
                   {"dp-ideals", Align::right},
                   {"published", Align::right},
                   {"dpl", Align::right},
                   {"published", Align::right},
                   {"load-search", Align::right},
                   {"published", Align::right},
                   {"seconds of the three", Align::right}}};
  for (const TarnawskiRow& row : kTarnawskiRows) {
    const auto path = options.data / (row.file + ".json");
    const bool given = !options.data.empty() && std::filesystem::exists(path);
    if (!given && row.network.empty()) continue;
    if (options.smallest && !given && !row.network.starts_with("resnet50")) continue;
    std::optional<Problem> problem;
    std::optional<LoadProblem> load;
    Value expert;
    if (given) {
      load = workload_load_problem(read_dnn_workload(path));
    } else {
      problem = zoo_problem(row.network, fmt::format("{}xV100", row.accelerators));
      load = load_problem(*problem);
      expert = timed([&] {
        return milliseconds(evaluate_load(*load, find_placer("expert").place(*problem, {}).placement).value);
      });
    }
    const double one = milliseconds(evaluate_load(*load, LoadPlacement(load->op_count(), DeviceId{0})).value);
    Value exact, linear, any;
    {
      const Contraction blocks = contract(*load);
      exact = timed([&] { return milliseconds(ideal_split(*load, blocks).value); });
      linear = timed([&] { return milliseconds(dpl(*load, blocks).value); });
    }
    if (!options.smallest) any = timed([&] { return milliseconds(search_load(*load).value); });
    table.add_row({given ? row.file : row.network, fmt::format("{:.4g} ms", one), fmt::format("{:.4g} ms", row.one),
                   cell(expert, one), published(row.expert, row.one), cell(exact, one),
                   published(row.contiguous, row.one), cell(linear, one), published(row.linear, row.one),
                   cell(any, one), published(row.any, row.one),
                   fmt::format("{:.2f} {:.2f} {:.2f}", exact.seconds, linear.seconds, any.seconds)});
    if (options.smallest) break;
  }
  out << "Tarnawski et al.: time per sample of a full pipeline, as ratios to one accelerator\n\n"
      << table.text() << "\n"
      << wrapped(
             "Published are the ratios of the authors' programs on their inputs. With --data FOLDER, the folder "
             "throughput-inputs of msr-fiddle/dnn-partitioning, the same inputs are solved, and dp-ideals and dpl "
             "must come out alike; without, networks of the zoo stand in for the layer graphs: kernels instead of "
             "layers, on V100 over NVLink, where the published ones cross the host's memory at 2 GiB/s, so that "
             "the ratios are not of the same instances; the expert is then the placer of that name. \"-\": not "
             "published, left out of the smallest row, or too many ideals for the exact split. load-search is our "
             "simulated annealing, beside the best published split that is not contiguous. The zoo's BERT has the "
             "words' embedding at both ends of the network, which have to share a device: a contiguous split has "
             "all between them there too.",
             118);
  return 0;
}

}  // namespace trainyard::bench
