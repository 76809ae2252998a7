#include "calibrate/calibrate.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "calibrate/made_profile.hpp"
#include "calibrate/timing_overhead.hpp"
#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::test;
using doctest::Approx;

namespace {

calibrate::Result calibrated_profile(const Profile& profile) { return calibrate::fit_profiles(std::span{&profile, 1}); }

const CalibratedOp& row(const Calibration& calibration, const std::string& op, const std::string& signature) {
  const auto at = std::ranges::find_if(calibration.ops, [&](const CalibratedOp& candidate) {
    return candidate.op == op && candidate.signature == signature;
  });
  REQUIRE(at != calibration.ops.end());
  return *at;
}

bool noted(const calibrate::Result& result, const std::string& part) {
  return std::ranges::any_of(result.notes,
                             [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

std::string code_of(const Profile& profile) {
  return test::code_of([&] { calibrated_profile(profile); });
}

}  // namespace

TEST_CASE("an op time is the mean of the samples that are no outliers") {
  Profile profile = made_profile();
  OpMeasurement op = made_op("Relu", 0, 1'000, {100, 102, 98, 100, 5'000});
  op.op = "relu1";
  op.samples.dropped = {{Nanoseconds{9'000}, "context-switch"}};
  profile.ops = {op};
  const calibrate::Result result = calibrated_profile(profile);
  const CalibratedOp& time = row(result.calibration, "relu1", op.signature);
  CHECK(time.mean == Nanoseconds{100});
  CHECK(time.kept == 4);
  CHECK(time.dropped == 2);
  CHECK(time.drop_reasons.at("outlier") == 1);
  CHECK(time.drop_reasons.at("context-switch") == 1);
  CHECK(result.notes.size() == 1);
}

TEST_CASE("ops of one signature share one time, over all profiles") {
  Profile one = made_profile(), two = made_profile();
  OpMeasurement a = made_op("Relu", 0, 1'000, {100, 100}), b = a;
  a.op = "r1";
  b.op = "r2";
  b.samples.kept = {Nanoseconds{108}, Nanoseconds{108}};
  one.ops = {a};
  two.ops = {b};
  const std::vector<Profile> profiles{one, two};
  const Calibration calibration = calibrate::fit_profiles(profiles).calibration;
  CHECK(row(calibration, "r1", a.signature).mean == Nanoseconds{100});
  CHECK(row(calibration, "r2", a.signature).mean == Nanoseconds{108});
  CHECK(row(calibration, "", a.signature).mean == Nanoseconds{104});
  CHECK(calibration.ops.size() == 3);
}

TEST_CASE("a fit over a type finds the fixed time and the rates that made the times") {
  Profile profile = made_profile();
  // time = 500 ns + FLOPs / 100 GFLOP/s + bytes / 20 GB/s
  for (int i = 0; i < 8; ++i) {
    const double flops = 1e5 * std::pow(3.0, i);
    const std::int64_t bytes = 20'000 + 37'000 * (i % 3) * i;
    profile.ops.push_back(
        made_op("Gemm", flops, bytes, {rounded(500 + flops * 0.01 + static_cast<double>(bytes) * 0.05).count}));
  }
  const Calibration calibration = calibrated_profile(profile).calibration;
  REQUIRE(calibration.fits.size() == 1);
  const TypeFit& fit = calibration.fits[0].fit;
  CHECK(fit.fixed_ns == Approx(500).epsilon(0.02));
  CHECK(fit.ns_per_flop == Approx(0.01).epsilon(0.01));
  CHECK(fit.ns_per_byte == Approx(0.05).epsilon(0.01));
  CHECK(fit.least_flops == 1e5);
  CHECK(calibration.fits[0].quality.max_relative < 0.01);
  CHECK(calibration.fits[0].quality.held_out_max_relative < 0.02);
}

TEST_CASE("no type is fitted to too few points, to points of one size, or badly") {
  Profile profile = made_profile();
  for (int i = 1; i <= 3; ++i) profile.ops.push_back(made_op("Few", i * 1e6, 8, {i * 1000}));
  for (int i = 1; i <= 6; ++i) profile.ops.push_back(made_op("Same", 1e6 + i, 8, {1000}));
  const std::vector<std::int64_t> wild{1'000, 90'000, 2'000, 150'000, 1'500, 70'000};
  for (std::size_t i = 0; i < wild.size(); ++i)
    profile.ops.push_back(made_op("Wild", 1e6 * static_cast<double>(i + 1), 8, {wild[i]}));
  const calibrate::Result result = calibrated_profile(profile);
  CHECK(result.calibration.fits.empty());
  REQUIRE(result.notes.size() == 1);
  CHECK(result.notes[0].starts_with("no fit for ops of the type Wild on 'K'"));
}

TEST_CASE("efficiencies are the shares of the peak and of the bandwidth that ops of a type reach") {
  Profile profile = made_profile();
  for (ProfiledDevice& device : profile.devices) {
    device.peak = FlopsPerSecond{1e11};
    device.memory_bandwidth = BytesPerSecond{1e10};
  }
  // Ops limited by FLOPs reach half of the peak (1e6 / 5e10 = 20 us), those limited by bytes a quarter of the bandwidth
  // (1e6 / 2.5e9 = 400 us).
  profile.ops = {made_op("Conv", 1e6, 100, {20'000}), made_op("Conv", 2e6, 100, {40'000}),
                 made_op("Conv", 1e3, 1'000'000, {400'000}), made_op("Conv", 1e3, 2'000'000, {800'000})};
  const Calibration calibration = calibrated_profile(profile).calibration;
  REQUIRE(calibration.efficiencies.size() == 1);
  CHECK(calibration.efficiencies[0].efficiency.compute == Approx(0.5));
  CHECK(calibration.efficiencies[0].efficiency.memory == Approx(0.25));
  CHECK(calibration.efficiencies[0].median_relative < 1e-6);
}

TEST_CASE("a kind without rates gets the best that an op reached") {
  Profile profile = made_profile();
  profile.ops = {made_op("Gemm", 1e6, 100, {10'000}), made_op("Add", 100, 1'000'000, {100'000})};
  const Calibration calibration = calibrated_profile(profile).calibration;
  CHECK(calibration.devices[0].peak.value == Approx(1e11));              // 1e6 FLOP / 10 us
  CHECK(calibration.devices[0].memory_bandwidth.value == Approx(1e10));  // 1e6 bytes / 100 us
}

TEST_CASE("a gap is what a step takes beyond its ops, shared among them") {
  Profile profile = made_profile();
  OpMeasurement a = made_op("Relu", 0, 1'000, {1'000}), b = made_op("Add", 0, 1'000, {2'000});
  a.graph = b.graph = "g";
  a.op = "a";
  b.op = "b";
  profile.ops = {a, b};
  profile.steps = {{"g", "a", 2, {}, {{Nanoseconds{3'080}, Nanoseconds{3'120}}, {}}}};
  profile.overheads = {{"a", "dispatch", {{Nanoseconds{30}}, {}}}, {"b", "handoff", {{Nanoseconds{70}}, {}}}};
  Calibration calibration = calibrated_profile(profile).calibration;
  CHECK(calibration.devices[0].gap == Nanoseconds{50});  // (step 3100 - ops 3000) / 2
  CHECK(calibration.devices[0].handoff == Nanoseconds{70});
  CHECK_FALSE(calibration.devices[0].launch_overhead);
  profile.steps[0].ops = 3;  // one op was not timed
  CHECK(calibrated_profile(profile).calibration.devices[0].gap == Nanoseconds{30});
  CHECK(noted(calibrated_profile(profile), "a step of 'g' on 'a' has 3 ops, but 2 of them were timed there"));
  profile.overheads.push_back({"b", "gap", {{Nanoseconds{40}}, {}}});
  CHECK(calibrated_profile(profile).calibration.devices[0].gap == Nanoseconds{40});
}

TEST_CASE("what events add to ops is taken from them where whole steps are shorter than their sum") {
  // The times 10, 6 and 1 us sum to 17, 4 more than the step's 13 us. Subtracting 4 / 3 from each would leave the last
  // below 0, so it is clipped at 0 and the excess is 1.5: 8.5 + 4.5 + 0 = 13.
  CHECK(calibrate::even_excess({10, 6, 1}, 13) == Approx(1.5));
  CHECK(calibrate::even_excess({10, 6, 4}, 17) == Approx(1));
  CHECK(calibrate::even_excess({10, 6, 1}, 17) == 0);
  CHECK(calibrate::even_excess({10, 6, 1}, 20) == 0);
  CHECK(calibrate::even_excess({}, 1) == 0);

  Profile profile = made_profile();
  OpMeasurement a = made_op("Relu", 0, 1'000, {10'000}), b = made_op("Add", 0, 1'000, {4'000}), beside = b;
  a.graph = b.graph = beside.graph = "g";
  a.op = "a";
  b.op = beside.op = "b";
  a.source = b.source = beside.source = "event";
  beside.busy_devices = 2;
  beside.device = "b";  // of the kind of 'a'
  profile.ops = {a, b, beside};
  profile.steps = {{"g", "a", 2, {}, {{Nanoseconds{12'000}}, {}}}};
  profile.overheads = {{"a", "gap", {{Nanoseconds{40}}, {}}}};  // the gap between events
  std::vector<std::string> notes;
  const auto times = [&](const std::vector<Profile>& profiles) {
    std::vector<std::int64_t> result;
    for (const OpMeasurement& op : profiles[0].ops) result.push_back(op.samples.kept[0].count);
    return result;
  };
  CHECK(times(calibrate::without_timing_overhead(std::vector{profile}, notes)) ==
        std::vector<std::int64_t>{9'000, 3'000, 3'000});  // (sum 14 - step 12) / 2 us less each
  CHECK(notes.size() == 1);
  CHECK(calibrated_profile(profile).calibration.devices[0].gap == Nanoseconds{0});
  // Times by the host's clock have no such overhead. If an op was not timed, the sum of the ops is unknown.
  profile.ops[0].source = profile.ops[1].source = "host";
  CHECK(times(calibrate::without_timing_overhead(std::vector{profile}, notes))[0] == 10'000);
  profile.ops = {a, beside};
  CHECK(times(calibrate::without_timing_overhead(std::vector{profile}, notes))[0] == 10'000);
}

TEST_CASE("a co-run factor is what ops of a type take together, over what they take alone") {
  Profile profile = made_profile();
  for (const auto& [bytes, alone, together] : {std::tuple{1'000, 100, 200}, {2'000, 1'000, 500 * 9}, {3'000, 7, 7}}) {
    OpMeasurement op = made_op("Add", 0, bytes, {alone});
    if (bytes < 3'000) profile.ops.push_back(op);
    op.busy_devices = 2;
    op.samples.kept = {Nanoseconds{together}};
    profile.ops.push_back(op);
  }
  const calibrate::Result result = calibrated_profile(profile);
  REQUIRE(result.calibration.co_run.size() == 1);
  CHECK(result.calibration.co_run[0].factor == Approx(4700.0 / 1100));  // busy over alone: (200 + 4500) / (100 + 1000)
  CHECK(result.calibration.co_run[0].points == 2);
  CHECK(result.notes.size() == 1);  // the third op was not timed alone
}

TEST_CASE("sensitivity to copies is what ops of a type take more beside them, by the share of the memory's bandwidth") {
  Profile profile = made_profile();
  profile.devices[0].memory_bandwidth = BytesPerSecond{100e9};
  profile.ops = {made_op("Relu", 1, 1, {1'000}), made_op("Relu", 2, 2, {3'000}), made_op("Conv", 1, 1, {5'000})};
  const auto beside = [&](std::size_t of, std::int64_t ns, double copied) {
    OpMeasurement op = profile.ops[of];
    op.copied = BytesPerSecond{copied};
    op.samples.kept = {Nanoseconds{ns}};
    profile.ops.push_back(op);
  };
  beside(0, 1'500, 50e9);  // load L = 1/2: 500 ns more
  beside(1, 4'200, 25e9);  // L = 1/4: 1,200 ns more
  beside(2, 4'900, 50e9);  // no more than noise
  profile.ops.push_back(made_op("Add", 1, 1, {100}));
  profile.ops.back().copied = BytesPerSecond{50e9};  // timed beside copies only
  const auto result = calibrate::fit_profiles(std::vector{profile});
  // Only times measured without copies count as op times.
  CHECK(result.calibration.ops.size() == 3);
  REQUIRE(result.calibration.interference.size() == 2);
  CHECK(result.calibration.interference[0] == CopySensitivity{"K", "Conv", 0, 1});
  CHECK(result.calibration.interference[1].type == "Relu");
  CHECK(result.calibration.interference[1].sensitivity == Approx(1'700.0 / (1'000 * 0.5 + 3'000 * 0.25)));
  CHECK(result.notes == std::vector<std::string>{"1 op was timed beside copies, but not alone, or on a device of "
                                                 "unknown memory bandwidth: no interference factor from it"});
}

TEST_CASE("profiles that say too little, or two things, are refused") {
  CHECK(code_of(made_profile()) == "too-few-points");
  Profile no_samples = made_profile();
  no_samples.ops = {made_op("Add", 1, 1, {})};
  CHECK(code_of(no_samples) == "too-few-points");
  Profile contradicting = made_profile();
  contradicting.ops = {made_op("Add", 1, 1, {5}), made_op("Add", 2, 1, {5})};
  contradicting.ops[1].signature = contradicting.ops[0].signature;
  CHECK(code_of(contradicting) == "samples");
  Profile instant = made_profile();
  instant.links = {made_link([](double) { return 0; })};
  CHECK(code_of(instant) == "samples");
}

TEST_CASE("times over 73 minutes, which no calibration may hold, are refused whatever took them") {
  constexpr Nanoseconds kLong{(std::int64_t{1} << 42) + 1};
  const auto with = [&](const auto& change) {
    Profile profile = made_profile();
    profile.ops = {made_op("Add", 1, 1, {5})};
    profile.links = {made_link([](double bytes) { return 200 + bytes; })};
    profile.overheads = {{"a", "gap", {{Nanoseconds{5}}, {}}}};
    profile.steps = {{"g", "a", 1, {}, {{Nanoseconds{5}}, {}}}};
    change(profile);
    return code_of(profile);
  };
  CHECK(with([](Profile&) {}) == "");
  CHECK(with([&](Profile& profile) { profile.ops[0].samples.kept.push_back(kLong); }) == "too-large");
  CHECK(with([&](Profile& profile) { profile.links[0].sizes[3].samples.kept.push_back(kLong); }) == "too-large");
  CHECK(with([&](Profile& profile) { profile.overheads[0].samples.kept.push_back(kLong); }) == "too-large");
  CHECK(with([&](Profile& profile) { profile.steps[0].samples.kept.push_back(kLong); }) == "too-large");
}

TEST_CASE("what profiles say of one kind in two ways, or cannot be, is used with a warning") {
  Profile one = made_profile();
  one.ops = {made_op("Conv", 2e6, 8, {1'000}), made_op("Conv", 1e6, 8, {1'000'000}),
             made_op("Conv", 1.1e6, 8, {1'000'000}), made_op("Conv", 1.2e6, 8, {1'000})};
  one.devices[0].peak = FlopsPerSecond{8e10};
  Profile two = made_profile();
  two.devices[0].peak = FlopsPerSecond{1e9};
  two.devices[0].device_class = "gpu";
  const calibrate::Result result = calibrate::fit_profiles(std::vector{one, two, two});
  CHECK(std::ranges::count(result.notes,
                           "profiles give devices of the kind 'K' a class of cpu and of gpu: the first is used") == 1);
  CHECK(noted(result, "a peak of 80.0 GFLOP/s and of 1.00 GFLOP/s: the first is used"));
  CHECK(result.calibration.devices[0].peak.value == 8e10);
  CHECK(noted(result, "ops of the type Conv on 'K' reach 2.00 TFLOP/s"));  // 2e6 in 1 us
}

TEST_CASE("a link measured twice counts twice, with a warning where the two are apart; one to itself is none") {
  Profile profile = made_profile();
  profile.links = {made_link([](double bytes) { return 1'000 + bytes; }),
                   made_link([](double bytes) { return 1'100 + bytes; })};
  CHECK(calibrated_profile(profile).notes.empty());
  profile.links[1] = made_link([](double bytes) { return 9 * (1'000 + bytes); });
  CHECK(noted(calibrated_profile(profile),
              "the link from 'a' to 'b' was measured more than once, with times that differ by a factor of 9.0"));
  profile.links[1].to = "a";
  const calibrate::Result result = calibrated_profile(profile);
  CHECK(noted(result, "the link from 'a' to itself is left out"));
  CHECK(result.calibration.links.size() == 1);
}

TEST_CASE("profiles of one kind in float32 and in TF32 are not put together") {
  Profile exact = made_profile();
  exact.ops = {made_op("Add", 1, 1, {5})};
  Profile rounded = exact;
  for (ProfiledDevice& device : exact.devices) device.details["products"] = "float32";
  for (ProfiledDevice& device : rounded.devices) device.details["products"] = "tf32";
  CHECK(calibrate::fit_profiles(std::vector{exact, exact}).calibration.devices[0].details.at("products") == "float32");
  CHECK_THROWS_WITH_AS(calibrate::fit_profiles(std::vector{exact, rounded}),
                       doctest::Contains("products in float32 and in tf32"), InputError);
}

TEST_CASE("a link far from its fit is a fault, not an error") {
  Profile profile = made_profile();
  profile.links = {made_link([](double bytes) { return 20'000 + 0.25 * bytes; })};
  CHECK(calibrated_profile(profile).faults.empty());
  std::size_t i = 0;
  for (SizeMeasurement& size : profile.links[0].sizes)
    for (Nanoseconds& time : size.samples.kept) time = i++ / 8 % 2 == 0 ? time : time * 3;
  const calibrate::Result result = calibrated_profile(profile);
  CHECK(result.faults.size() == 1);
  CHECK(result.calibration.links.size() == 1);
}

TEST_CASE("a calibrated link predicts what was measured") {
  Profile profile = made_profile();
  profile.links = {made_link([](double bytes) { return 20'000 + 0.25 * bytes; })};
  const Calibration calibration = calibrated_profile(profile).calibration;
  CHECK(calibration.links[0].from_kind == "K");
  ClusterSpec spec{.name = "pair", .devices = {{.name = "a", .kind = "K"}, {.name = "b", .kind = "K"}}};
  spec.links = {{.name = "l", .from = "a", .to = "b", .bandwidth = BytesPerSecond{1e9}}};
  const Cluster cluster = make_cluster(calibrated(spec, calibration).spec);
  // latency 20 us + 1e6 bytes x 0.25 ns
  const RouteClass route = cluster.route_classes()[cluster.route_class(DeviceId{0}, DeviceId{1})];
  const CostModel costs = cost_model(calibration);
  CHECK(seconds(costs.latency(route) + costs.byte_time(Bytes{1'000'000}, route)) == Approx(270e-6).epsilon(0.001));
}
