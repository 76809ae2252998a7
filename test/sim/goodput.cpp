#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "sim/program.hpp"

using namespace trainyard::test;

namespace {

TEST_CASE("goodput tells the best interval, the closed form and the Monte Carlo beside it") {
  const TemporaryFolder folder;
  // 18,000 h / 1000 devices: a failure every 18 h = 64,800 s. Young's interval: sqrt(2 x 60 x 64,800) = 2788.5 s.
  const std::string run = "goodput --step 10s --devices 1000 --mtbf 18kh --checkpoint 60s --restart 0s ";
  const auto json = json_of(run_trainyard(folder.path(), run + "--json"));
  CHECK(json["verb"] == "goodput");
  CHECK(json["job_mtbf_s"] == 64'800);
  CHECK(json["best"]["young_s"].get<double>() == doctest::Approx(2788.548).epsilon(1e-6));
  const double exact = json["best"]["exact_s"];
  CHECK(exact == doctest::Approx(json["best"]["higher_order_s"].get<double>()).epsilon(1e-4));
  const double tau = json["interval_s"];
  CHECK(std::abs(tau - exact) < 10);  // rounded to a whole step
  CHECK(json["interval_steps"].get<double>() * 10 == tau);
  const double goodput = json["goodput"];
  CHECK(goodput == doctest::Approx(tau / (64'800 * std::expm1((tau + 60) / 64'800))));
  CHECK(json["monte_carlo"]["goodput"].get<double>() == doctest::Approx(goodput).epsilon(0.001));
  CHECK(json["monte_carlo"]["standard_error"] <= 0.0002 * goodput);
  CHECK(json["step_with_failures_ns"].get<double>() == doctest::Approx(10e9 / goodput));
  CHECK(goodput + json["checkpoint"].get<double>() + json["lost"].get<double>() + json["restart"].get<double>() ==
        doctest::Approx(1));
  CHECK(json_of(run_trainyard(folder.path(), run + "--json --threads 3")) == json);
  CHECK(json_of(run_trainyard(folder.path(), run + "--json --seed 2")) != json);
  CHECK(json_of(run_trainyard(folder.path(), run + "--json --trials 1000"))["monte_carlo"]["cycles"] == 1000);
  const auto text = run_trainyard(folder.path(), run + "--interval 1000steps");
  CHECK(contains(text.output, "every 1,000 steps, 2.78 h"));
  CHECK(contains(text.output, "best interval"));
  // Intervals are rounded to the nearest step and are at least one step.
  CHECK(json_of(run_trainyard(folder.path(), run + "--json --interval 26s"))["interval_steps"] == 3);
  CHECK(json_of(run_trainyard(folder.path(), run + "--json --interval 1s"))["interval_steps"] == 1);
}

TEST_CASE("goodput simulates the step, and counts the devices that the schedule uses") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  const std::string failures = " --cluster pair.toml --mtbf 2h --checkpoint 10s --json ";
  const auto simulated =
      json_of(run_trainyard(folder.path(), "simulate chain.json --cluster pair.toml --placer single --json"));
  const auto one = json_of(run_trainyard(folder.path(), "goodput chain.json --placer single" + failures));
  CHECK(one["step_ns"] == simulated["makespan_ns"]);
  CHECK(one["devices"] == 1);
  CHECK(one["job_mtbf_s"] == 7200);
  CHECK(one["restart_ns"] == one["checkpoint_ns"]);
  const auto two = json_of(run_trainyard(folder.path(), "goodput chain.json --placer round-robin" + failures));
  CHECK(two["devices"] == 2);
  CHECK(two["job_mtbf_s"] == 3600);
  const auto more = json_of(run_trainyard(folder.path(), "goodput chain.json --placer single --devices 8" + failures));
  CHECK(more["job_mtbf_s"] == 900);
  // With noise, the step is the mean of the samples.
  const std::string noisy = "chain.json --placer single --noise 20% --samples 50 --cluster pair.toml --json ";
  CHECK(json_of(run_trainyard(folder.path(), "goodput --mtbf 2h --checkpoint 10s " + noisy))["step_ns"] ==
        std::floor(json_of(run_trainyard(folder.path(), "simulate " + noisy))["noise"]["mean_ns"].get<double>() + 0.5));
}

TEST_CASE("devices that a fold leaves out fail too") {
  const TemporaryFolder folder;
  write_text(folder.path() / "plan.json", R"({"format": "trainyard-plan/1", "batch": 32, "data": 4, "microbatch": 8})");
  const std::string run =
      "goodput resnet18:batch=32 --cluster 4xV100 --plan plan.json --mtbf 50kh --checkpoint 60s --json "
      "--parameter detail=";
  const auto folded = run_trainyard(folder.path(), run + "folded");
  CAPTURE(folded.error);
  CAPTURE(folded.output);
  REQUIRE(folded.exit_code == 0);
  CHECK(json_of(folded)["devices"] == 4);
}

TEST_CASE("what goodput cannot tell is refused with a remedy") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& words, const std::string& part) {
    const auto result = run_trainyard(folder.path(), "goodput " + words);
    CAPTURE(words);
    CAPTURE(result.error);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.error, part));
    CHECK(contains(result.error, "help: "));
  };
  const std::string job = "--step 5s --devices 100 ";
  refused("--mtbf 5kh --checkpoint 60s", "needs a MODEL, or a --step time");
  refused("resnet18 --mtbf 5kh --checkpoint 60s", "needs --cluster");
  refused("resnet18 --cluster 2xV100 --step 5s --mtbf 5kh --checkpoint 60s", "MODEL both give the step time");
  refused("--step 5s --mtbf 5kh --checkpoint 60s", "the number of devices that can fail");
  for (const char* option : {"--cluster 2xV100", "--memory 8GB", "--slow gpu0=2", "--kernels fused", "--training sgd",
                             "--costs c.json", "--evaluations 5"})
    refused(job + option + " --mtbf 5kh --checkpoint 60s", "which simulates no step");
  refused(job + "--mtbf 5kh --checkpoint 60s --trials 134217729", "--trials: 134217729 is more than 134,217,728");
  refused(job + "--checkpoint 60s", "needs --mtbf");
  refused(job + "--mtbf 5kh", "--mtbf needs --checkpoint");
  refused(job + "--mtbf 5 --checkpoint 60s", "'5' has no unit");
  refused(job + "--mtbf 5kg --checkpoint 60s", "unknown unit 'kg'");
  refused(job + "--mtbf -5kh --checkpoint 60s", "the value must not begin with '-'");
  refused(job + "--mtbf 0h --checkpoint 60s", "is not a time between failures");
  refused(job + "--mtbf 1e300h --checkpoint 60s", "must be more than 0 and at most 10^9 h");
  refused(job + "--mtbf 5kh --checkpoint 60", "has no unit");
  refused(job + "--mtbf 5kh --checkpoint 60s --interval 0s", "the time between checkpoints must be above 0");
  const std::string good = "goodput " + job + "--mtbf 5kh --checkpoint 60s ";
  for (const char* number : {"--interval 0steps", "--interval xsteps", "--trials 1"})
    CHECK(contains(run_trainyard(folder.path(), good + number).error, "is not a whole number of at least"));
  refused(job + "--mtbf 5kh --checkpoint 60s --interval 2000h", "hardly any interval is ever completed");
  refused(job + "--mtbf 1h --checkpoint 600s", "it hardly ever succeeds");
}

TEST_CASE("the manual's example of goodput is what it prints") {
  const TemporaryFolder folder;
  const std::string words = "goodput --step 5s --devices 16384 --mtbf 50kh --checkpoint 60s --restart 10m";
  const auto result = run_trainyard(folder.path(), words);
  std::string block = "    $ trainyard " + words + "\n";
  std::istringstream lines{result.output};
  for (std::string line; std::getline(lines, line);) block += line.empty() ? "\n" : "    " + line + "\n";
  CHECK(contains(read_text(source_dir() / "sim" / "MANUAL.md"), block));
}

}  // namespace
