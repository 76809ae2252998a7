#pragma once

#include <functional>
#include <memory>

#include "console.hpp"
#include "option_set.hpp"

namespace trainyard::program {

/// A verb, as the help lists it. `declare` declares its options and returns the function that runs it after parsing;
/// that function returns the exit code.
struct Verb {
  const char* name;
  const char* summary;
  const char* example;
  std::function<int(Console&)> (*declare)(OptionSet&);
};

/// Verb::declare of a struct with `void declare(OptionSet&)` and `int run(Console&)`.
template <class Options>
std::function<int(Console&)> declare(OptionSet& set) {
  const auto options = std::make_shared<Options>();
  options->declare(set);
  return [options](Console& console) { return options->run(console); };
}

// Each verb has a file with its options and its function.
extern const Verb kImport, kExport, kSimulate, kPlace, kCompare, kExplain, kTrain, kProfile, kCalibrate, kValidate,
    kDemo, kSweep, kMerge, kModels, kClusters, kPlacers, kCheck, kDiff, kDoctor, kCompletion, kYard, kGoodput;

/// In the order of the help.
inline constexpr const Verb* kVerbs[] = {&kImport,  &kExport,  &kSimulate, &kPlace,     &kTrain,    &kCompare,
                                         &kExplain, &kGoodput, &kProfile,  &kCalibrate, &kValidate, &kDemo,
                                         &kSweep,   &kMerge,   &kYard,     &kModels,    &kClusters, &kPlacers,
                                         &kCheck,   &kDiff,    &kDoctor,   &kCompletion};

}  // namespace trainyard::program
