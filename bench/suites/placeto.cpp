// Placeto's table 1: step times on K80 GPUs. R. Addanki et al.: Placeto: learning generalizable device placement
// algorithms for distributed machine learning. NeurIPS 2019.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "suite.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard::bench {
namespace {

struct Row {
  std::string title, network;
  std::size_t gpus;
  // Published, in seconds: one GPU, expert, Scotch, Placeto, the recurrent network; 0: out of memory.
  double one, expert, scotch, placeto, recurrent;
};

const std::vector<Row> kRows{
    {"Inception-v3", "inception_v3:batch=64", 2, 1.56, 1.28, 1.54, 1.18, 1.17},
    {"Inception-v3", "inception_v3:batch=64", 4, 1.56, 1.15, 1.74, 1.13, 1.19},
    {"NMT", "nmt:batch=256,layers=4", 2, 0, 0, 0, 2.32, 2.35},
    {"NMT", "nmt:batch=256,layers=4", 4, 0, 0, 0, 2.63, 3.15},
    {"NASNet", "nasnet_mobile:batch=64", 2, 1.28, 0.86, 1.28, 0.86, 0.89},
    {"NASNet", "nasnet_mobile:batch=64", 4, 1.28, 0.84, 1.22, 0.74, 0.76},
};

std::string published(double value, const Row& row) {
  if (value == 0) return "OOM";
  return row.one > 0 ? fmt::format("{:.2f}", value / row.one) : fmt::format("{:.2f} s", value);
}

}  // namespace

int run_placeto(const SuiteOptions& options, std::ostream& out) {
  using Align = Table::Align;
  Table table{{{"network"},
               {"GPUs", Align::right},
               {"one GPU", Align::right},
               {"expert", Align::right},
               {"published", Align::right},
               {"scotch", Align::right},
               {"published", Align::right},
               {"placeto", Align::right},
               {"published", Align::right}}};
  for (const Row& row : kRows) {
    const Problem problem = zoo_problem(row.network, fmt::format("{}xK80", row.gpus));
    const Result one = place_and_simulate(problem, "single"), expert = place_and_simulate(problem, "expert");
    const Result scotch = place_and_simulate(problem, "scotch");
    const Result placeto = options.smallest ? Result{.why = "left out"} : place_and_simulate(problem, "placeto");
    const auto cell = [&](const Result& result) {
      return one.step && one.fits && result.step ? ratio_text(result, one) : step_text(result);
    };
    table.add_row({row.title, fmt::format("{}", row.gpus), step_text(one), cell(expert), published(row.expert, row),
                   cell(scotch), published(row.scotch, row), cell(placeto), published(row.placeto, row)});
    if (options.smallest) break;
  }
  out << "Placeto: predicted step times on K80 as ratios to one GPU; published ones are measured\n\n"
      << table.text() << "\n"
      << wrapped(
             "\"not built\": the placer is not in this build's catalogue. OOM: published as out of memory; (over): "
             "more "
             "than the memory here. The recurrent placer of the paper's last column is left out. Where the trend "
             "differs: of NASNet the expert puts the branches of each cell apart, and with the mobile network, the "
             "smaller of the two published, between a third and a half of its step is transfers over PCIe that nothing "
             "overlaps; the paper does not say which network or bandwidth it had. NMT fits on one GPU here: its sizes "
             "and batch are not published, and what the framework holds besides is not counted.",
             118);
  return 0;
}

}  // namespace trainyard::bench
