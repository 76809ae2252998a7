// Steps predicted from an H100's profile of one run, compared with the steps measured in another run (data/h100).
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "calibrate/calibrate.hpp"
#include "support/support.hpp"
#include "trainyard/io/formats/profile_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

Calibration calibration_of(const std::string& profile) {
  const std::vector<Profile> profiles{read_profile(source_dir() / "data/h100/profiles" / (profile + ".json.gz"))};
  return calibrate::fit_profiles(profiles).calibration;
}

/// The predicted step of `model` on one GPU, in milliseconds.
double step_on_one(const std::string& model, const Calibration& calibration) {
  const ClusterSpec spec{.name = "one", .devices = {{.name = "gpu0", .kind = "measured", .device_class = "gpu"}}};
  const Problem problem{training_graph(make_network(model), {.optimizer = Optimizer::adam}),
                        make_cluster(calibrated(spec, calibration).spec), Costs{cost_model(calibration)}};
  return static_cast<double>(simulate(problem, find_placer("single").place(problem, {})).makespan.count) / 1e6;
}

}  // namespace

TEST_CASE("steps of a measured GPU are predicted to be as long as those that it made in another run") {
  const double predicted = step_on_one("resnet50:batch=16", calibration_of("resnet50-1-float32"));
  const auto ran = nlohmann::json::parse(read_input(source_dir() / "data/h100/runs/one-gpu-resnet50.validation.json"));
  REQUIRE(ran["placements"].size() == 12);  // orders of the ops
  for (const auto& placement : ran["placements"]) {
    const double measured = placement["plain_ns"];
    CHECK(std::abs(predicted * 1e6 / measured - 1) < 0.012);
  }
}

TEST_CASE("ops that events were timed with sum to the step without events, of kernels of our own and of PyTorch") {
  // The expected values are medians of whole steps in the profiles: CUDA graphs, and launches held back by a gate.
  CHECK(step_on_one("resnet50:batch=16", calibration_of("torch-resnet50-1-float32")) ==
        doctest::Approx(27.7).epsilon(0.005));
  CHECK(step_on_one("transformer:batch=8,layers=2", calibration_of("torch-transformer-1-float32")) ==
        doctest::Approx(6.606).epsilon(0.005));
  CHECK(step_on_one("transformer:batch=8,layers=2", calibration_of("transformer-1-float32")) ==
        doctest::Approx(4.924).epsilon(0.005));
  CHECK(step_on_one("transformer:batch=8,layers=2", calibration_of("torch-transformer-4")) ==
        doctest::Approx(11.47).epsilon(0.01));
}
