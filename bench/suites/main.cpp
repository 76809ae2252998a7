// trainyard-bench: tables of papers with predicted numbers beside the published ones, one suite per paper.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "suite.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/error_text.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

struct Suite {
  std::string name, summary;
  int (*run)(const SuiteOptions&, std::ostream&);
};

const std::vector<Suite> kSuites{
    {"collectives", "NCCL's collectives as published, predicted from two to five of their sizes", run_collectives},
    {"fastt", "FastT (Middleware 2020): os-dpos over data parallelism on 2, 4 and 8 V100", run_fastt},
    {"kernels", "NeuSight's and DeepBench's kernels, one by one: how far forms and roofline are off", run_kernels},
    {"measured", "published training steps: predicted beside measured, and the error of each source", run_measured},
    {"pesto", "Pesto (Middleware 2021): step times on two V100 beside the expert and m-SCT", run_pesto},
    {"placeto", "Placeto (NeurIPS 2019): its experiments; step times on K80 where no study is named", run_placeto},
    {"planners", "what DAPPLE, Piper, Aceso and Alpa published, beside the plans found here", run_planners},
    {"talos", "Talos: several networks at once", run_talos},
    {"tarnawski", "Tarnawski et al. (NeurIPS 2020): time per sample of a full pipeline", run_tarnawski},
};

int usage(std::ostream& out, int code) {
  out << "usage: trainyard-bench SUITE [--smallest] [--data FOLDER]\n\n"
         "Prints a paper's table: what this library predicts beside what was published.\n\n";
  for (const Suite& suite : kSuites)
    out << "  " << suite.name << std::string(12 - suite.name.size(), ' ') << suite.summary << "\n";
  out << "\n  --smallest     the smallest row alone, in seconds\n"
         "  --data FOLDER  of tarnawski: throughput-inputs of github.com/msr-fiddle/dnn-partitioning;\n"
         "                 of kernels: published/kernels.json and formats/neusight/ops/*.csv.gz;\n"
         "                 of collectives: formats/vtrain, aceso and galvatron, and published/collectives.json;\n"
         "                 of planners: formats/dapple, piper and aceso;\n"
         "                 of measured: published runs (data/measured/README.md), else those that are there\n\n"
         "  measured [--page FILE.html] [--rows]\n"
         "    --page draws predicted against measured steps; --rows prints each of them\n\n"
         "  placeto [STUDY] [--updates N] [--seeds N] [--count N] [--random N] [--orders N] [--evaluations N]\n"
         "          [--threads N] [--first-seed N] [--policy FILE [--skip N]] [--page FILE]\n"
         "    table1     step times on 2 and 4 K80, and how many placements it took\n"
         "    families   Fig. 5: zero-shot on unseen graphs; with --policy that one, after --skip members\n"
         "    starts     auto with the placements of --policy as one more start\n"
         "    curves     how step times fall in training, over seeds\n"
         "    orders     how much the order of visit changes\n"
         "    ablations  without messages, and without structure\n"
         "    rewards    intermediate against terminal\n"
         "    imitation  of auto, against descent without a policy\n"
         "    --page writes the study's numbers as charts, an HTML file\n";
  return code;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  SuiteOptions options;
  const Suite* chosen = nullptr;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& word = given[i];
    if (word == "--help" || word == "-h") return usage(std::cout, 0);
    if (word == "--smallest") {
      options.smallest = true;
    } else if (word == "--data" && i + 1 < given.size()) {
      options.data = given[++i];
    } else if (chosen != nullptr && (chosen->name == "placeto" || chosen->name == "measured")) {
      options.rest.push_back(word);
    } else {
      std::vector<std::string> names;
      for (const Suite& suite : kSuites) {
        names.push_back(suite.name);
        if (suite.name == word && chosen == nullptr) chosen = &suite;
      }
      if (chosen == nullptr || chosen->name != word) {
        std::cerr << "trainyard-bench: no suite or option '" << word << "'; " << did_you_mean(word, names) << "\n";
        return 2;
      }
    }
  }
  if (chosen == nullptr) return usage(std::cerr, 2);
  try {
    return chosen->run(options, std::cout);
  } catch (const InputError& error) {
    std::cerr << error_text(error);
    return 3;
  } catch (const MissingError& error) {
    std::cerr << "trainyard-bench: " << error.what() << "\n";
    return 4;
  }
}
